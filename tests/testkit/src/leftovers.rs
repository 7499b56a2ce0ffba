//! What a job must not leave behind: processes, files, shared memory, names of sockets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::calls::SOON;
use crate::look;

/// The variable by which processes of a job are recognized, those that its nodes started included.
pub const JOB_MARK: &str = "DECK_TEST_JOB";

const SHARED_MEMORY: &str = "/dev/shm";

fn names_in(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect()
}

/// What was there before a job began.
pub struct Before {
    shared_memory: BTreeSet<String>,
}

impl Before {
    /// Looks around.
    pub fn look() -> Before {
        Before { shared_memory: names_in(Path::new(SHARED_MEMORY)) }
    }

    /// Everything that the job with this mark left behind, one sentence each; `temporary` was its folder for files.
    pub fn left_behind(&self, mark: &str, temporary: &Path) -> Vec<String> {
        // Those that were killed a moment ago may still be on their way out, with all that they have open.
        let until = Instant::now() + SOON;
        let mut running = processes(mark);
        while !running.is_empty() && Instant::now() < until {
            look::pause();
            running = processes(mark);
        }
        let mut found: Vec<String> = running.into_iter().map(|process| format!("a process: {process}")).collect();
        found.extend(names_in(temporary).into_iter().map(|name| format!("a file in the temporary folder: {name}")));
        // Other programs of the machine use the folder too; what is DECK's says so, or carries the job's name.
        let new = names_in(Path::new(SHARED_MEMORY)).into_iter().filter(|name| !self.shared_memory.contains(name));
        let ours = new.filter(|name| name.to_lowercase().contains("deck") || carries(name, mark));
        found.extend(ours.map(|name| format!("named shared memory: {SHARED_MEMORY}/{name}")));
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let ours = sockets.lines().filter(|line| carries(line, mark));
        found.extend(ours.map(|line| format!("a socket with a name: {line}")));
        found
    }
}

/// Is the mark there, and not only the beginning of another one's, which has a longer number?
fn carries(text: &str, mark: &str) -> bool {
    text.match_indices(mark).any(|(at, _)| !text[at + mark.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// Kills what the nodes of a job started and left behind.
pub fn kill_orphans(mark: &str) {
    for process in marked(mark).into_iter().filter_map(Pid::from_raw) {
        // Fails only for one that has ended meanwhile.
        let _ = kill_process(process, Signal::KILL);
    }
}

fn processes(mark: &str) -> Vec<String> {
    let name = |process: &i32| std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    marked(mark).iter().map(|process| format!("{process} ({})", name(process).trim())).collect()
}

/// The processes whose environment carries the mark, other than this one.
fn marked(mark: &str) -> Vec<i32> {
    let wanted = format!("{JOB_MARK}={mark}");
    let is_marked = |process: &i32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    names_in(Path::new("/proc")).iter().filter_map(|name| name.parse().ok()).filter(is_marked).collect()
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use super::*;

    #[test]
    fn what_a_job_with_a_longer_number_has_is_not_left_behind_by_this_one() {
        let mark = format!("deck-left-{}-1", std::process::id());
        let longer = format!("{mark}1");
        let address = SocketAddr::from_abstract_name(format!("deck/0/{longer}")).unwrap();
        let _listening = UnixListener::bind_addr(&address).unwrap();
        let (before, nowhere) = (Before::look(), Path::new("/nowhere"));
        assert_eq!([&mark, &longer].map(|mark| before.left_behind(mark, nowhere).len()), [0, 1]);
    }
}
