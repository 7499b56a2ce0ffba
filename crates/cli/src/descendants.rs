//! Every process that this one has brought into the world, directly or not: what a job may leave behind.
//!
//! A node may be started by a shell script that is not the node itself, so ending the children is not enough. Once this
//! process is a *subreaper* ([`adopt_orphans`]), whoever loses its parent becomes its child and cannot get away: the
//! walk down from here finds all of them, also those that closed every file, emptied their environment or left the
//! session.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use deck_peers::stat::{self, begin_of, fields_behind_name};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, set_child_subreaper,
};

use crate::poll::wait;

/// What is said of those that a kill does not end.
pub const STAY: &str = "some processes do not end: they hang inside the kernel, or have become another user's";

/// Makes this process the parent of every descendant whose own parent ends.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Those that were there before this process had anything to do with a job, by number and begin.
static SPARED: OnceLock<Vec<(i32, u64)>> = OnceLock::new();

/// What this process has brought into the world so far is not looked after, nor what that starts as long as it lives: a
/// shell that becomes `deck run` may have children.
pub fn spare_those_there_are() {
    let there_are = living().into_iter().map(|(pid, stat)| (pid, stat.started)).collect();
    SPARED.get_or_init(|| there_are);
}

/// Whether there is a descendant that has not ended.
pub fn any() -> bool {
    !living().is_empty()
}

/// Sends `signal` to every descendant. Not to those that come meanwhile.
pub fn signal_all(signal: Signal) {
    send(&living(), signal);
}

/// Who was asked to end (SIGTERM), by number and begin.
#[derive(Default)]
pub struct Asked(HashSet<(i32, u64)>);

impl Asked {
    /// Asks every descendant that was not asked before. Not those that come meanwhile: what a signal makes a process
    /// start is left to it.
    pub fn ask(&mut self) {
        let mut others = living();
        others.retain(|&(pid, stat)| self.0.insert((pid, stat.started)));
        send(&others, Signal::TERM);
    }
}

fn send(descendants: &[(i32, Stat)], signal: Signal) {
    // One handle at a time: a job of many nodes may have used up the files that a process may open.
    for handle in descendants.iter().filter_map(open) {
        // It may have ended meanwhile, which is as good.
        let _ = pidfd_send_signal(handle, signal);
    }
}

/// Kills descendants until none is left, for at most `patience`; `reaped` is told of every child that was waited for.
/// Says whether all are gone. One may stay that hangs inside the kernel.
pub fn kill_all(patience: Duration, mut reaped: impl FnMut(Pid, WaitStatus)) -> bool {
    let give_up_at = Instant::now() + patience;
    loop {
        let left = living();
        send(&left, Signal::KILL);
        for handle in left.iter().filter_map(open) {
            let patience = give_up_at.saturating_duration_since(Instant::now());
            // Should waiting fail, the next look tells who is left.
            let _ = wait(&mut [PollFd::new(&handle, PollFlags::IN)], Some(patience));
        }
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            reaped(pid, status);
        }
        if left.is_empty() {
            return true;
        }
        if Instant::now() >= give_up_at {
            return false;
        }
    }
}

#[derive(Clone, Copy)]
struct Stat {
    parent: i32,
    started: u64,
    ended: bool,
}

fn living() -> Vec<(i32, Stat)> {
    let all = processes();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (&pid, stat) in &all {
        children.entry(stat.parent).or_default().push(pid);
    }
    let spared = SPARED.get().map_or(&[][..], Vec::as_slice);
    let mut found = Vec::new();
    let mut next = vec![std::process::id() as i32];
    while let Some(parent) = next.pop() {
        for &pid in children.get(&parent).map_or(&[][..], Vec::as_slice) {
            if spared.contains(&(pid, all[&pid].started)) {
                continue;
            }
            next.push(pid);
            found.push((pid, all[&pid]));
        }
    }
    found.retain(|(_, stat)| !stat.ended);
    found
}

/// A handle of the process that was seen, and not of a later one that got its number.
fn open(&(pid, seen): &(i32, Stat)) -> Option<OwnedFd> {
    let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let now = state_of(pid)?;
    (now.started == seen.started && !now.ended).then_some(handle)
}

fn processes() -> HashMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid| Some((pid, state_of(pid)?))).collect()
}

fn state_of(pid: i32) -> Option<Stat> {
    parse_stat(&stat::of(pid.try_into().ok()?).ok()?)
}

fn parse_stat(line: &[u8]) -> Option<Stat> {
    let mut fields = fields_behind_name(line)?;
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    // A process is there as long as one of its threads is, though its first one has ended.
    let threads: u32 = fields.nth(15)?.parse().ok()?;
    let started = begin_of(line)?;
    Some(Stat { parent, started, ended: state == "X" || (state == "Z" && threads <= 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_brackets_and_blanks_in_its_name_is_understood() {
        let line = b"42 (a) b (c) S 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 10 20\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.parent, stat.started, stat.ended), (7, 987_654, false));
        assert!(parse_stat(b"42 (a) Z 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 5 10 20\n").unwrap().ended);
        assert!(!parse_stat(b"42 (a) Z 7 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 5 10 20\n").unwrap().ended);
        assert!(parse_stat(b"").is_none() && parse_stat(b"42 (a) S").is_none());
    }

    #[test]
    fn this_process_is_in_the_list_under_its_parent() {
        let own = processes()[&(std::process::id() as i32)];
        assert_eq!(own.parent, rustix::process::getppid().unwrap().as_raw_pid());
    }
}
