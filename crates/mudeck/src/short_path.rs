//! What posting and retrieving costs besides time: no allocation and no system call, whatever the protocol, once a mail
//! box is in use.
//!
//! For system calls the rounds run in a process of its own, a *jail*: strict computing mode kills a thread at its first
//! system call but reading, writing and ending.

mod alone;
mod between_nodes;

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use rustix::thread::{SecureComputingMode, set_secure_computing_mode};

use crate::testing::SOON;

const ROUNDS: usize = 1000;
const IN_JAIL: &str = "DECK_TEST_IN_JAIL";
const SURVIVED: &[u8] = b"all rounds without a system call\n";

/// Expects that `rounds` allocate nothing in this thread, and says how to repeat it otherwise: `test` is the one that
/// asks.
#[track_caller]
fn expect_no_allocation(test: &str, rounds: impl FnOnce()) {
    let allocated = allocation_counter::measure(rounds);
    let repeat = format!("cargo test -p deck-mudeck --lib -- --exact short_path::{test}");
    assert_eq!(allocated.count_total, 0, "{allocated:?}; repeat with: {repeat}");
}

/// What this process is to do in jail.
fn sentence() -> Option<String> {
    env::var(IN_JAIL).ok()
}

/// This thread goes through its `rounds` in jail, and says so if they have not ended it.
fn serve(rounds: impl FnOnce()) {
    let (stdin, stderr) = (io::stdin(), io::stderr());
    set_secure_computing_mode(SecureComputingMode::Strict).expect("the kernel has strict computing mode");
    rounds();
    // In one piece, whoever else writes, and without a lock that might be waited for.
    let _ = rustix::io::write(stderr, SURVIVED);
    // Stays in jail until somebody has seen that it is one.
    let _ = rustix::io::read(stdin, &mut [0]);
}

/// Has `test` do what `sentence` says in a process of its own, and expects that so many threads of it come through.
#[track_caller]
fn expect_no_system_call(test: &str, sentence: &str, threads: usize) {
    let program = env::current_exe().unwrap();
    let test = format!("short_path::{test}");
    let mut child = Command::new(&program)
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env(IN_JAIL, sentence)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let reader = thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| _ = tell.send(line)));
    // A thread that is killed in jail says nothing, and its process goes on.
    let lines = std::iter::from_fn(|| told.recv_timeout(SOON).ok());
    let survived = lines.filter(|line| line.as_bytes() == SURVIVED.trim_ascii_end()).take(threads).count();
    let in_jail = threads_in_jail(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    let repeat = format!("{IN_JAIL}={sentence} strace -f {} --exact {test} --nocapture", program.display());
    assert_eq!(survived, threads, "a system call ended the rounds ({sentence}); this tells which: {repeat}");
    assert_eq!(in_jail, threads, "the rounds ({sentence}) ran without strict computing mode; repeat with: {repeat}");
}

fn threads_in_jail(process: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map_while(Result::ok);
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    status.filter(|status| status.lines().any(|line| line == "Seccomp:\t1")).count()
}
