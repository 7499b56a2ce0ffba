//! A whole program: join the job, make the picture or help with it, save it, say how it went, leave.

use std::path::PathBuf;

use deck::{Node, Result};
use user_interface::command_line::{Failure, computing_threads, counted, remark, say};
use user_interface::leader::Purpose;
use user_interface::{Display, Subject, Watch, files, watch};

use crate::master::{Master, Outcome, Share};
use crate::protocol;
use crate::work::Work;
use crate::worker::{Crew, MASTER_NODE};

/// What the user said beyond the work itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Computing threads of this node; otherwise as many as its share of the cores, or as the work wants of them.
    pub threads: Option<u32>,
    /// Port of the loopback page.
    pub watch: Option<u16>,
    /// Heading of the page.
    pub title: &'static str,
    /// Files that `save` is going to write.
    pub files: Vec<PathBuf>,
}

/// Takes part in the job: as node 0 (whose `work` and files are the ones that count) or as any other node. Prints the
/// result's two lines. Blocks until the picture is finished, and as long as anybody looks at its page.
///
/// # Errors
/// Those of joining, of the work, of writing files; [`deck::ErrorKind::PeerLost`] if node 0 dies. The job is left in an
/// orderly fashion also then, so that other nodes see a node that left and not one that was lost.
pub fn run<W: Work>(
    work: &W,
    options: &Options,
    save: impl FnOnce(&Outcome<W>) -> Result<()>,
) -> std::result::Result<(), Failure> {
    let (node, mut page) = (Node::join()?, None);
    let purpose = Purpose::of(&node, W::PROGRAM)?;
    let end = match node.number() {
        MASTER_NODE => lead(&node, work, options, &mut page, save),
        _ => follow::<W>(&node, &purpose, options),
    };
    let left = node.leave();
    watch::close(W::PROGRAM, page, end.and(left))
}

/// Node 0: master and crew. The page, if there is one, is still being served afterwards.
fn lead<W: Work>(
    node: &Node,
    work: &W,
    options: &Options,
    page: &mut Option<Watch>,
    save: impl FnOnce(&Outcome<W>) -> Result<()>,
) -> Result<()> {
    options.files.iter().try_for_each(|path| files::check_writable(path))?;
    let mut work = work.clone();
    work.prepare()?;
    let size = (work.cut().width(), work.cut().height());
    let what = format!("{}, {}", work.describe(), counted(work.cut().slices().into(), "slice"));
    let subject = Subject { title: options.title.to_owned(), what, unit: "slices", size };
    *page = watch::open(W::PROGRAM, "the picture grow", options.watch, subject)?;
    let master = Master::new(node, work)?;
    let crew = Crew::start::<W>(node, &master.mailbox()?, threads::<W>(node, options))?;
    let display = Display::new(W::PROGRAM, page.as_ref());
    let (outcome, told) = master.run(&display, || crew.has_ended());
    display.end();
    // What a thread failed of is said once.
    let failure = crew.join().err().filter(|error| !told.contains(&error.to_string()));
    let (outcome, failure) = match (outcome, failure) {
        (Ok(outcome), failure) => (outcome, failure),
        (Err(_), Some(cause)) => return Err(cause),
        (Err(error), None) => return Err(error),
    };
    save(&outcome)?;
    if let Some(error) = failure {
        remark(W::PROGRAM, format_args!("the picture is complete, but a computing thread failed: {error}"));
    }
    say(&format!("{}\n{}\n", shares_line(&outcome), result_line(&outcome)))
}

/// Any other node: a crew alone.
fn follow<W: Work>(node: &Node, purpose: &Purpose, options: &Options) -> Result<()> {
    match purpose.find_leader(&protocol::master_name::<W>())? {
        Some(master) => Crew::start::<W>(node, &master, threads::<W>(node, options))?.join(),
        None => Ok(()),
    }
}

fn threads<W: Work>(node: &Node, options: &Options) -> u32 {
    options.threads.unwrap_or_else(|| computing_threads(node, None) * W::THREADS_FOR_A_CORE)
}

fn shares_line<W: Work>(outcome: &Outcome<W>) -> String {
    let share = |(node, share): (&deck::NodeId, &Share)| {
        format!("{node}: {}{}", share.slices, if share.lost { " (lost)" } else { "" })
    };
    format!("slices by {}", outcome.nodes.iter().map(share).collect::<Vec<_>>().join(", "))
}

fn result_line<W: Work>(outcome: &Outcome<W>) -> String {
    let mut threads: Vec<u32> = outcome.nodes.values().map(|share| share.threads).collect();
    let all: u32 = threads.iter().sum();
    threads.dedup();
    let who = match (outcome.nodes.len(), &threads[..]) {
        (nodes, [each]) => format!("{} x {}", counted(nodes as u64, "node"), counted(u64::from(*each), "thread")),
        (nodes, _) => format!("{}, {}", counted(nodes as u64, "node"), counted(all.into(), "thread")),
    };
    format!(
        "{}, {}, {who}: {:.3} s, {} recomputed",
        outcome.work.describe(),
        counted(outcome.work.cut().slices().into(), "slice"),
        outcome.elapsed.as_secs_f64(),
        counted(outcome.recomputed, "slice"),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use deck::NodeId;

    use super::*;
    use crate::night::Night;

    fn outcome(threads: &[u32]) -> Outcome<Night> {
        let share = |&threads: &u32| Share { threads, slices: 16, lost: threads == 1 };
        let nodes: BTreeMap<_, _> = (0..).map(NodeId).zip(threads.iter().map(share)).collect();
        Outcome { work: Night::new(), values: Vec::new(), elapsed: Duration::from_millis(1234), recomputed: 12, nodes }
    }

    #[test]
    fn the_last_line_says_what_was_done_by_whom_and_how_fast() {
        assert_eq!(
            result_line(&outcome(&[2, 2, 2, 2])),
            "600x600, 64 slices, 4 nodes x 2 threads: 1.234 s, 12 slices recomputed"
        );
        assert!(result_line(&outcome(&[1])).contains("1 node x 1 thread: "));
        assert!(result_line(&outcome(&[3, 1])).contains("2 nodes, 4 threads: "));
        assert_eq!(shares_line(&outcome(&[3, 1])), "slices by node 0: 16, node 1: 16 (lost)");
    }
}
