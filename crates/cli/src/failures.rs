//! How processes of a job failed, told in few lines: many may fail alike, and of one cause.

use std::fmt;
use std::time::{Duration, Instant};

/// What fails alike within this time is told together.
const TOGETHER: Duration = Duration::from_millis(100);
/// As many are told one by one.
const SHOWN: usize = 8;

/// What a process is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// By the number of its node.
    Node(u32),
    /// In the order in which they were started, as long as it is no node.
    Process(u32),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Node(number) => write!(f, "node {number}"),
            Name::Process(number) => write!(f, "process {number}"),
        }
    }
}

/// A process that failed.
struct Failure {
    name: Name,
    pid: u32,
    how: String,
}

/// Those that were not told yet.
#[derive(Default)]
pub struct Failures {
    untold: Vec<Failure>,
    tell_at: Option<Instant>,
}

impl Failures {
    /// One more.
    pub fn add(&mut self, name: Name, pid: u32, how: String) {
        self.untold.push(Failure { name, pid, how });
        self.tell_at.get_or_insert_with(|| Instant::now() + TOGETHER);
    }

    /// In how long they are to be told, if there are any.
    pub fn patience(&self) -> Option<Duration> {
        self.tell_at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// What there is to tell, line by line. Nothing is untold from then on.
    pub fn tell(&mut self) -> Vec<String> {
        self.tell_at = None;
        let mut alike: Vec<Vec<Failure>> = Vec::new();
        for failure in std::mem::take(&mut self.untold) {
            match alike.iter_mut().find(|others| others[0].how == failure.how) {
                Some(others) => others.push(failure),
                None => alike.push(vec![failure]),
            }
        }
        let one = |Failure { name, pid, how }: &Failure| format!("{name} (pid {pid}) {how}");
        let lines = alike.iter().map(|failures| match &failures[..] {
            [first, ..] if failures.len() > SHOWN => vec![format!("{} {}", all(failures), first.how)],
            few => few.iter().map(one).collect(),
        });
        lines.flatten().collect()
    }
}

/// `nodes 0 to 5, 7 and processes 8 to 63`.
fn all(failures: &[Failure]) -> String {
    let (mut nodes, mut processes) = (Vec::new(), Vec::new());
    for failure in failures {
        match failure.name {
            Name::Node(number) => nodes.push(number),
            Name::Process(number) => processes.push(number),
        }
    }
    let kinds = [("node", "nodes", nodes), ("process", "processes", processes)];
    let named = kinds.map(|(one, many, numbers)| match &numbers[..] {
        [] => None,
        [number] => Some(format!("{one} {number}")),
        _ => Some(format!("{many} {}", ranges(numbers))),
    });
    named.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// `0 to 5, 7, 9, 10`.
fn ranges(mut numbers: Vec<u32>) -> String {
    numbers.sort_unstable();
    let runs = numbers.chunk_by(|one, next| *next == one + 1).map(|run| match run {
        [first, _, .., last] => format!("{first} to {last}"),
        few => few.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: impl IntoIterator<Item = (Name, &'static str)>) -> Vec<String> {
        let mut failures = Failures::default();
        names.into_iter().for_each(|(name, how)| failures.add(name, 7, how.to_owned()));
        assert!(failures.patience().is_some());
        let told = failures.tell();
        assert!(failures.patience().is_none() && failures.tell().is_empty());
        told
    }

    #[test]
    fn few_are_told_one_by_one_and_many_that_failed_alike_in_one_line() {
        let nodes = |numbers: std::ops::Range<u32>, how| numbers.map(move |number| (Name::Node(number), how));
        assert_eq!(told(nodes(3..11, "failed")).len(), 8);
        assert_eq!(told(nodes(3..4, "failed")), ["node 3 (pid 7) failed"]);
        assert_eq!(told(nodes(0..64, "failed").rev()), ["nodes 0 to 63 failed"]);
        let others = [(Name::Process(9), "died"), (Name::Node(9), "failed"), (Name::Node(20), "failed")];
        assert_eq!(told(nodes(0..8, "failed").chain(others)), ["nodes 0 to 7, 9, 20 failed", "process 9 (pid 7) died"]);
        let late = [1, 2, 4].map(|number| (Name::Process(number), "failed"));
        assert_eq!(told(nodes(5..11, "failed").chain(late)), ["nodes 5 to 10 and processes 1, 2, 4 failed"]);
        assert_eq!(
            told(nodes(0..8, "failed").chain([(Name::Process(8), "failed")])),
            ["nodes 0 to 7 and process 8 failed"]
        );
    }
}
