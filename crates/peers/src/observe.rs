//! Looking at jobs from outside: with nobody's help, and writing nothing.
//!
//! The segments of a job are memfds that its processes have open, and the kernel lets the same user open them anew,
//! through `/proc/PID/fd`, for reading. So a job is found and read whether it has a name or not, and also while all its
//! processes are stopped. What was read is a copy, and is checked like everything that other processes can write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::Duration;

pub use deck_segment::MemoryFacts;
use deck_segment::layout::{self, PAGE};
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result, Service, control_groups};
pub use deck_sync::{FACTS, Goal, now_ns};

use crate::notices::{self, ENTRY_BYTES, NOTICES_MAX, Subject, entry, header};
use crate::poll::pause;
use crate::table::{self, NodeState, Table};
use crate::{process, stat};

mod open;

use open::{Open, open, open_of, processes, seen};

/// How often a notice that is just being written is read again.
const READS: u32 = 100;

/// A job, as it was found.
pub struct JobSight {
    /// The inode of its table, which no other job has at the same time.
    inode: u64,
    /// A copy of its table.
    pub table: Table,
    /// The processes that have it open: its nodes, and `deck run`.
    pub processes: BTreeSet<u32>,
    /// Its nodes, in order of their numbers; of those that are gone only how they went.
    pub nodes: Vec<NodeSight>,
}

impl JobSight {
    /// The node with this number.
    pub fn node(&self, number: NodeId) -> Option<&NodeSight> {
        self.nodes.binary_search_by_key(&number, |node| node.number).ok().map(|at| &self.nodes[at])
    }

    /// True if the node with this number is in the job, as far as can be seen.
    pub fn has(&self, number: NodeId) -> bool {
        self.node(number).is_some_and(NodeSight::is_in_the_job)
    }

    /// Looks at the same job anew, also for processes that have come meanwhile; `None` if it is not to be found any
    /// more.
    ///
    /// # Errors
    /// As of [`jobs`].
    pub fn look_again(&self) -> Result<Option<JobSight>> {
        Ok(find(&|inode, _, _| inode == self.inode)?.0.pop())
    }
}

/// A node, as it was found.
pub struct NodeSight {
    /// Its number.
    pub number: NodeId,
    /// What became of it; frozen if its process is stopped.
    pub state: NodeState,
    /// Its process, while it has one that can be seen.
    pub process: Option<u32>,
    /// What it tells.
    pub notices: Vec<Told>,
    /// How often it had no room to tell something.
    pub untold: u64,
    /// The threads of its process.
    pub threads: Vec<ThreadSight>,
    heap: Option<File>,
}

/// A notice that was read whole.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it is about.
    pub subject: Subject,
    /// The thread that wrote it.
    pub thread: u32,
    /// The number by which that thread stands in mutexes.
    pub locker: Option<u32>,
    /// Since when it waits, in nanoseconds of the monotonic clock.
    pub since_ns: u64,
    /// Until when at most; `u64::MAX`: without end.
    pub until_ns: u64,
    /// What it waits for.
    pub goal: Option<Goal>,
    /// Whom it waits for, if that is one node.
    pub peer: Option<NodeId>,
    /// More, as told at [`Subject`] and [`Goal`].
    pub facts: [u64; FACTS],
    /// The name of what it is about.
    pub name: String,
}

/// A thread, as the system tells.
#[derive(Clone, Debug)]
pub struct ThreadSight {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// Its state, in the letters of `/proc`: R runs, S sleeps, T is stopped, here also by a frozen control group.
    pub state: char,
}

impl ThreadSight {
    /// True for threads that are DECK's own.
    pub fn is_service(&self) -> bool {
        Service::is_named(&self.name)
    }

    /// True if a signal, a debugger or a frozen control group has stopped it.
    pub fn is_stopped(&self) -> bool {
        stat::is_stopped(self.state)
    }

    /// True if it has ended; the first thread of a process is seen until all have.
    pub fn has_ended(&self) -> bool {
        stat::has_ended(self.state)
    }

    /// True if it runs, or will without anybody's help.
    pub fn runs(&self) -> bool {
        matches!(self.state, 'R' | 'D')
    }
}

impl NodeSight {
    /// True if it is in the job, as far as can be seen.
    pub fn is_in_the_job(&self) -> bool {
        matches!(self.state, NodeState::Live | NodeState::Frozen)
    }

    /// True if it is in the job, and nothing is seen of what it does: its process is of another process namespace, has
    /// become another user, is of another version of DECK, or is only just joining.
    pub fn is_out_of_sight(&self) -> bool {
        self.state == NodeState::Live && self.process.is_none()
    }

    /// The node's segment, if it could be opened and is of this version.
    pub fn heap(&self) -> Option<BorrowedFd<'_>> {
        self.heap.as_ref().map(AsFd::as_fd)
    }

    /// What the node's memory is like, and how many bytes of it are occupied; `None` if that cannot be read.
    pub fn memory(&self) -> Option<(MemoryFacts, u64)> {
        let [word] = self.words::<1>(8 * layout::header::MEMORY as u64)?;
        let occupied = self.heap.as_ref()?.metadata().ok()?.blocks() * 512;
        Some((MemoryFacts::from_word(word), occupied))
    }

    /// Words of the node's segment from byte `offset` on; `None` if it cannot be read there.
    pub fn words<const COUNT: usize>(&self, offset: u64) -> Option<[u64; COUNT]> {
        let mut bytes = vec![0; COUNT * 8];
        self.heap.as_ref()?.read_exact_at(&mut bytes, offset).ok()?;
        Some(std::array::from_fn(|index| word(&bytes, index)))
    }
}

fn word(bytes: &[u8], index: usize) -> u64 {
    bytes.get(index * 8..index * 8 + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// Making a job's table takes less than a millisecond, unless the maker is kept from running.
const MADE_WITHIN: Duration = Duration::from_millis(50);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Finds the jobs of this user whose name, or one of whose processes, is `wanted`, or else those that this process has
/// started, directly or not; all without a wish. Reads `/proc`; blocks for milliseconds.
///
/// # Errors
/// If what is wanted is not among them and there is one of another version of DECK: `Corrupt`. `System` where `/proc`
/// does not show this process, or if it has no descriptor left to look with; `NoMemory`.
pub fn jobs(wanted: Option<&str>) -> Result<Vec<JobSight>> {
    process::see_processes()?;
    let is_wanted = |wanted: &str, table: &Table, processes: &BTreeSet<u32>| {
        table.job() == wanted || wanted.parse().is_ok_and(|process: u32| processes.contains(&process))
    };
    match find(&|_, table, processes| wanted.is_none_or(|wanted| is_wanted(wanted, table, processes)))? {
        (jobs, refused) if jobs.is_empty() && wanted.is_some() => {
            let started = wanted.and_then(|wanted| wanted.parse().ok()).map_or(Ok(vec![]), started_by)?;
            refused.filter(|_| started.is_empty()).map_or(Ok(started), Err)
        }
        (jobs, _) => Ok(jobs),
    }
}

/// The jobs with a process that `process` has started: a shell knows the number of the command that it has run, which
/// may be that of the `deck run` which looks after all others, or of a script.
fn started_by(process: u32) -> Result<Vec<JobSight>> {
    let is_started = |processes: &BTreeSet<u32>| {
        processes.iter().any(|&of_job| ancestors(of_job).any(|ancestor| ancestor == process))
    };
    Ok(find(&|_, _, processes| is_started(processes))?.0)
}

/// The process that has started `process`, who started that, and so on.
fn ancestors(process: u32) -> impl Iterator<Item = u32> {
    let parent = |process: &u32| {
        let stat = stat::of(*process).ok()?;
        stat::parent_of(&stat).filter(|parent| *parent != 0)
    };
    std::iter::successors(parent(&process), parent)
}

/// Whoever makes the table of a job writes its first word last. One that has not done so for a while has not begun the
/// job.
fn is_made(table: &File) -> bool {
    let deadline = Deadline::after(MADE_WITHIN);
    loop {
        let mut first = [0; 8];
        if table.read_exact_at(&mut first, 0).is_ok() && first != [0; 8] {
            return true;
        }
        if deadline.has_passed() {
            return false;
        }
        pause(LOOK_AGAIN_AFTER);
    }
}

/// The jobs that are wanted, by the inode of their table, that itself and their processes; and why another one could
/// not be read.
fn find(is_wanted: &dyn Fn(u64, &Table, &BTreeSet<u32>) -> bool) -> Result<(Vec<JobSight>, Option<Error>)> {
    let mut all: BTreeMap<u32, Open> = BTreeMap::new();
    for process in processes()? {
        all.insert(process, open_of(process)?);
    }
    all.retain(|_, open| !open.tables.is_empty());
    let mut tables: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for (process, open) in &all {
        for inode in open.tables.keys() {
            tables.entry(*inode).or_default().insert(*process);
        }
    }
    let (mut jobs, mut refused) = (Vec::new(), None);
    for (inode, processes) in tables {
        let mut paths = processes.iter().map(|process| &all[process].tables[&inode]);
        // A process may end at any moment.
        let Some(file) = paths.find_map(|path| open(path, table::LABEL, inode).transpose()) else { continue };
        let file = file?;
        if !is_made(&file) {
            continue;
        }
        let table = match Table::copy_of(&file) {
            Ok(table) => table,
            // Of another version of DECK: the others can be looked at all the same.
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                refused = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        if is_wanted(inode, &table, &processes) {
            let nodes = nodes_of(&table, inode, &processes, &all)?;
            jobs.push(JobSight { inode, table, processes, nodes });
        }
    }
    Ok((jobs, refused))
}

/// Where what a node tells was found.
struct Found {
    process: u32,
    notices: File,
    heap: Option<File>,
}

fn nodes_of(table: &Table, job: u64, processes: &BTreeSet<u32>, all: &BTreeMap<u32, Open>) -> Result<Vec<NodeSight>> {
    let mut found: BTreeMap<u32, Found> = BTreeMap::new();
    for process in processes {
        let its = &all[process];
        for (inode, path) in &its.notices {
            let Some(notices) = open(path, notices::LABEL, *inode)? else { continue };
            let Some(head) = head_of(&notices) else { continue };
            let Ok(number) = u32::try_from(word(&head, header::NODE)) else { continue };
            // A forked child has it open too. Where the number of the process means nothing here nobody can tell.
            let is_its = table.pid_of(NodeId(number)) == Some(*process);
            let may_be_its = is_its || table.pid_here(NodeId(number)).is_none() && !found.contains_key(&number);
            if word(&head, header::JOB) == job && may_be_its {
                let heap = word(&head, header::HEAP);
                let path = its.heaps.get(&heap);
                let heap = path.map_or(Ok(None), |path| open(path, layout::LABEL, heap))?.filter(is_known_heap);
                found.insert(number, Found { process: *process, notices, heap });
            }
        }
    }
    let numbers = (0..table.count()).map(NodeId);
    // Its end is not in the table before somebody has noticed it, who may be stopped.
    let is_over = |number: NodeId| table.process_of(number).is_some_and(process::word_has_ended);
    let sight = |number: NodeId| {
        let (state, found) = (table.state(number)?, found.remove(&number.0));
        let is_unnoticed = state == NodeState::Live && found.is_none() && is_over(number);
        Some(node(number, if is_unnoticed { NodeState::Lost } else { state }, found))
    };
    numbers.filter_map(sight).collect()
}

fn node(number: NodeId, state: NodeState, found: Option<Found>) -> Result<NodeSight> {
    let is_live = state == NodeState::Live;
    let Some(found) = found.filter(|_| is_live) else {
        return Ok(NodeSight { number, state, process: None, notices: vec![], untold: 0, threads: vec![], heap: None });
    };
    // Before the notices: a wait that had begun by then, and is noted still, was the sleep that was seen.
    let threads = threads_of(found.process)?;
    let (notices, untold) = notices_of(&found.notices).unwrap_or_default();
    // The first thread may have ended before the others.
    let is_stopped = threads.iter().find(|thread| !thread.has_ended()).is_some_and(ThreadSight::is_stopped);
    let state = if is_stopped { NodeState::Frozen } else { state };
    Ok(NodeSight { number, state, process: Some(found.process), notices, untold, threads, heap: found.heap })
}

/// A node of another version of DECK may have anything anywhere.
fn is_known_heap(file: &File) -> bool {
    let mut head = [0; (layout::header::VERSION + 1) * 8];
    let is_read = file.read_exact_at(&mut head, 0).is_ok();
    is_read
        && word(&head, layout::header::MAGIC) == layout::MAGIC
        && word(&head, layout::header::VERSION) == layout::VERSION
}

fn head_of(file: &File) -> Option<Vec<u8>> {
    let mut head = vec![0; (header::UNTOLD + 1) * 8];
    file.read_exact_at(&mut head, 0).ok()?;
    // Reading a file, not memory: pairs with: notices/head.
    let is_known = word(&head, header::MAGIC) == notices::MAGIC && word(&head, header::VERSION) == notices::VERSION;
    is_known.then_some(head)
}

/// What a node tells in the notices of this file, and how often it had no room to tell something; `None` if these are
/// no notices.
pub fn notices_of(file: &File) -> Option<(Vec<Told>, u64)> {
    let head = head_of(file)?;
    // Pairs with: notices/used.
    let used = usize::try_from(word(&head, header::USED)).ok()?.min(NOTICES_MAX);
    let mut bytes = vec![0; used * ENTRY_BYTES];
    file.read_exact_at(&mut bytes, PAGE as u64).ok()?;
    let told = (0..used).filter_map(|index| {
        let known = &bytes[index * ENTRY_BYTES..][..ENTRY_BYTES];
        // Pairs with: notices/subject.
        (word(known, entry::SUBJECT) != 0).then(|| whole(file, index)).flatten()
    });
    Some((told.collect(), word(&head, header::UNTOLD)))
}

/// Reads a notice until it stands still.
fn whole(file: &File, index: usize) -> Option<Told> {
    let at = (PAGE + index * ENTRY_BYTES) as u64;
    let (mut once, mut again) = ([0; ENTRY_BYTES], [0; ENTRY_BYTES]);
    for _ in 0..READS {
        file.read_exact_at(&mut once, at).ok()?;
        file.read_exact_at(&mut again, at).ok()?;
        // Pairs with: notices/sequence.
        if once == again && word(&once, entry::SEQUENCE).is_multiple_of(2) {
            return told(&once);
        }
    }
    None
}

/// What stands in a notice, which anybody may have written.
fn told(bytes: &[u8]) -> Option<Told> {
    let number = |index: usize| u32::try_from(word(bytes, index)).ok();
    let length = usize::try_from(word(bytes, entry::LENGTH)).ok()?.min(notices::NAME_BYTES);
    let name = bytes.get(entry::NAME * 8..entry::NAME * 8 + length)?;
    Some(Told {
        subject: Subject::from_word(word(bytes, entry::SUBJECT))?,
        thread: number(entry::THREAD)?,
        locker: number(entry::LOCKER)?.checked_sub(1),
        since_ns: word(bytes, entry::SINCE),
        until_ns: word(bytes, entry::UNTIL),
        goal: Goal::from_word(word(bytes, entry::GOAL)),
        peer: number(entry::PEER)?.checked_sub(1).map(NodeId),
        facts: std::array::from_fn(|fact| word(bytes, entry::FACTS + fact)),
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// The threads of a process, sorted by their numbers.
fn threads_of(process: u32) -> Result<Vec<ThreadSight>> {
    let entries = seen(fs::read_dir(format!("/proc/{process}/task")))?.into_iter().flatten();
    let is_frozen = control_groups::are_frozen(process);
    let shown = |state: char| if is_frozen && !stat::has_ended(state) { stat::STOPPED } else { state };
    let mut threads = Vec::new();
    for entry in entries.flatten() {
        let Some(stat) = seen(stat::read(&entry.path().join("stat")))? else { continue };
        let thread = || {
            Some(ThreadSight {
                number: entry.file_name().to_str()?.parse().ok()?,
                name: String::from_utf8_lossy(stat::name_of(&stat)?).into_owned(),
                state: shown(stat::state_of(&stat)?),
            })
        };
        threads.extend(thread());
    }
    threads.sort_by_key(|thread| thread.number);
    Ok(threads)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "memfd")]
    fn who_looks_on_is_no_process_of_the_job() {
        let table = Table::create("test", 1).unwrap();
        let inode = table.segment().inode();
        let of_this_process = || open_of(std::process::id()).unwrap().tables.remove(&inode);
        let path = of_this_process().expect("it is open here");
        let looking = open(&path, table::LABEL, inode).unwrap().expect("it can be read");
        drop(table);
        assert_eq!(of_this_process(), None);
        drop(looking);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_notice_or_none(words in prop::collection::vec(0u64..20, entry::END), wild in any::<u64>(), at in 0..entry::END) {
            let mut words = words;
            words[at] = wild;
            let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
            if let Some(told) = told(&bytes) {
                prop_assert!(told.name.chars().count() <= notices::NAME_BYTES);
            }
        }
    }
}
