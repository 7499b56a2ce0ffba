//! A process that is a node, as the test sees it.
//!
//! Lines go in, answers come out. Each line belongs to a *lane*, a thread of the node that takes its lines in order, so
//! that a node can be in several calls at once. Reading an answer waits until there is one or the process is gone: the
//! watchdog of the job is the only clock.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deck_mudeck::NodeId;
use deck_peers::stat;
use deck_sync::locks::lock;
use rustix::process::{Pid, Signal, kill_process};

use crate::answer::Answer;
use crate::look;

/// The lane of [`Process::ask`].
const MAIN: &str = "main";

/// A child, shared with the watchdog; it stays a child (so its number is not given again) until it is waited for.
pub(crate) struct Running {
    child: Mutex<Child>,
}

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let child = lock(&self.child);
        // Fails only for one that was waited for.
        let _ = kill_process(Pid::from_child(&child), signal);
    }

    pub(crate) fn wait(&self) -> ExitStatus {
        lock(&self.child).wait().expect("a child can be waited for")
    }
}

/// A lane on the test's side: both ends of the queue of its answers.
struct Lane {
    /// `None` once the process has ended.
    sender: Option<Sender<Answer>>,
    /// `None` while a thread of the test reads.
    receiver: Option<Receiver<Answer>>,
}

#[derive(Default)]
struct Lanes {
    open: HashMap<String, Lane>,
    has_ended: bool,
}

impl Lanes {
    fn lane(&mut self, name: &str) -> &mut Lane {
        let has_ended = self.has_ended;
        self.open.entry(name.to_string()).or_insert_with(|| {
            let (sender, receiver) = channel();
            Lane { sender: (!has_ended).then_some(sender), receiver: Some(receiver) }
        })
    }
}

/// A node's process. Killed when dropped.
pub struct Process {
    running: Arc<Running>,
    pid: u32,
    input: Mutex<Option<ChildStdin>>,
    lanes: Arc<Mutex<Lanes>>,
    number: Option<NodeId>,
}

/// What the kernel says that a process does: 'T' if it is stopped, 'Z' if it has ended and nobody has waited for it
/// (proc_pid_stat(5)). `None` if there is none.
pub(crate) fn state_of(pid: u32) -> Option<char> {
    stat::state_of(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

impl Process {
    pub(crate) fn new(mut child: Child) -> Process {
        let input = Mutex::new(child.stdin.take());
        let output = child.stdout.take().expect("its output is a pipe");
        let pid = child.id();
        let lanes = Arc::new(Mutex::new(Lanes::default()));
        let reading = lanes.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let parsed = line.split_once(' ').and_then(|(lane, rest)| Some((lane, Answer::read(rest)?)));
                let Some((lane, answer)) = parsed else {
                    eprintln!("process {pid} says: {line}");
                    continue;
                };
                if let Some(sender) = &lock(&reading).lane(lane).sender {
                    let _ = sender.send(answer);
                }
            }
            let mut lanes = lock(&reading);
            lanes.has_ended = true;
            lanes.open.values_mut().for_each(|lane| lane.sender = None);
        });
        Process { running: Arc::new(Running { child: Mutex::new(child) }), pid, input, lanes, number: None }
    }

    pub(crate) fn running(&self) -> Arc<Running> {
        self.running.clone()
    }

    /// Waits until it has joined; its number, or why it could not.
    pub fn joined(&mut self) -> Answer {
        let answer = self.answer("join").unwrap_or_else(|| panic!("process {} ended while it joined", self.pid));
        if let Ok(number) = &answer.result {
            self.number = Some(NodeId(number.parse().expect("a number of a node")));
        }
        answer
    }

    /// Its number in the job.
    ///
    /// # Panics
    /// If it has not [`joined`](Process::joined).
    pub fn number(&self) -> NodeId {
        self.number.expect("it has joined")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Has a lane do something; the answer is read later. What a dead process is told is lost.
    pub fn tell(&self, lane: &str, what: &str) {
        if let Some(input) = &mut *lock(&self.input) {
            let _ = writeln!(input, "{lane} {what}");
        }
    }

    /// The next answer or note of a lane; `None` once the process is gone and all that it said was read.
    pub fn answer(&self, lane: &str) -> Option<Answer> {
        let receiver = lock(&self.lanes).lane(lane).receiver.take().expect("one thread reads a lane");
        let answer = receiver.recv().ok();
        lock(&self.lanes).lane(lane).receiver = Some(receiver);
        answer
    }

    /// Has a lane do something and waits for its end.
    ///
    /// # Panics
    /// If the process ends first.
    #[track_caller]
    pub fn ask_in(&self, lane: &str, what: &str) -> Answer {
        self.tell(lane, what);
        match self.answer(lane) {
            Some(answer) => answer,
            None => panic!("process {} ended while it was asked: {what}", self.pid),
        }
    }

    /// As [`Process::ask_in`], in the lane that is there for it.
    #[track_caller]
    pub fn ask(&self, what: &str) -> Answer {
        self.ask_in(MAIN, what)
    }

    /// The words of something that has to succeed.
    #[track_caller]
    pub fn done(&self, what: &str) -> String {
        match self.ask(what).result {
            Ok(words) => words,
            Err(failure) => panic!("process {}, {what}: {failure}", self.pid),
        }
    }

    /// `kill -9`; returns the moment. It is not waited for.
    pub fn kill(&self) -> Instant {
        self.running.signal(Signal::KILL);
        Instant::now()
    }

    /// `kill -9`, and waits until the kernel has cleaned up behind it.
    pub fn kill_and_wait(&self) -> ExitStatus {
        self.kill();
        self.wait()
    }

    /// Freezes it: `kill -STOP`; returns once the kernel has stopped it.
    pub fn stop(&self) {
        self.running.signal(Signal::STOP);
        self.await_stop();
    }

    /// Returns once the kernel has stopped it, which it may have asked for itself.
    pub fn await_stop(&self) {
        while !self.is_stopped() {
            look::pause();
        }
    }

    /// Has the kernel stopped it?
    pub fn is_stopped(&self) -> bool {
        state_of(self.pid) == Some('T')
    }

    /// Has a stopped process go on.
    pub fn go_on(&self) {
        self.running.signal(Signal::CONT);
    }

    /// Closes its input, so that it ends by itself, and waits for its end.
    pub fn end(&self) -> ExitStatus {
        lock(&self.input).take();
        self.running.wait()
    }

    /// Waits for its end after it was killed, or while it ends by itself.
    pub fn wait(&self) -> ExitStatus {
        self.running.wait()
    }

    /// Time that all its threads have spent on a processor.
    pub fn processor_time(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).expect("it runs");
        let nanoseconds = tasks.filter_map(|task| {
            let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// How many descriptors it has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("it runs").count()
    }

    /// Bytes of memory that it shares with nobody: what it has written of its stacks and of what it allocated.
    pub fn private_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux tells");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// Bytes that are allocated in its own segment.
    pub fn shared_bytes(&self) -> u64 {
        // It opened its own before it met others.
        self.memory("deck-node").into_iter().min_by_key(|(descriptor, _)| *descriptor).map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes of all shared segments with a name that it keeps, mapped or for others.
    pub fn named_bytes(&self) -> u64 {
        self.memory("deck-shared").into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// How many nodes' segments it has mapped, its own included.
    pub fn mapped_nodes(&self) -> usize {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).expect("it runs");
        let segments = maps.lines().filter(|line| line.contains("/memfd:deck-node"));
        // Each may be mapped in several parts.
        segments.filter_map(|line| line.split_ascii_whitespace().nth(4)).collect::<HashSet<_>>().len()
    }

    /// Its descriptors of shared memory with this label, and the bytes that are allocated there.
    fn memory(&self, label: &str) -> Vec<(u32, u64)> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("it runs");
        let labelled = files.filter_map(|file| {
            let path = file.ok()?.path();
            let is_it = fs::read_link(&path).ok()?.to_string_lossy().starts_with(&format!("/memfd:{label}"));
            let descriptor = path.file_name()?.to_str()?.parse().ok()?;
            is_it.then_some((descriptor, fs::metadata(path).ok()?.blocks() * 512))
        });
        labelled.collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.running.signal(Signal::KILL);
        self.running.wait();
    }
}
