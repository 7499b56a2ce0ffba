//! What posting and retrieving costs besides time: no allocation and no system call, whatever the protocol, once a mail box
//! is in use.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use deck_mudeck::{Door, Mailbox, MailboxClone, Message, Node};
use rustix::thread::{SecureComputingMode, set_secure_computing_mode};

const SOON: Duration = Duration::from_secs(20);
/// One for each way: added to a slot, in a line of it, in both, copied, handed over; and one whose buffers rest before they are used again.
const SIZES: [usize; 6] = [8, 62, 100, 300, 5000, 20_000];
const ROUNDS: usize = 1000;
const IN_JAIL: &str = "DECK_TEST_IN_JAIL";
const SURVIVED: &str = "all rounds without a system call";

struct Path {
    mailbox: Mailbox,
    clone: MailboxClone,
    messages: Vec<Message>,
    received: Message,
}

impl Path {
    /// A mail box that is in use: its ring, its locks and its buffers are there.
    fn in_use(node: &Node) -> Path {
        let mailbox = node.mailbox("box").unwrap();
        let clone = node.clone_mailbox("box", SOON).unwrap();
        let message = |bytes: &usize| {
            let mut message = node.message();
            message.resize(*bytes).unwrap();
            message
        };
        let typed = |bytes: &usize| {
            let mut message = node.message();
            message.pack(&vec![1.0f64; bytes / 8]).unwrap();
            message
        };
        let messages = SIZES.iter().map(message).chain(SIZES.iter().map(typed)).collect();
        let mut path = Path { mailbox, clone, messages, received: node.message() };
        path.go();
        path
    }

    fn go(&mut self) {
        for _ in 0..ROUNDS {
            for message in &mut self.messages {
                // As a program that writes it anew.
                message.resize(message.size()).unwrap();
                self.clone.post_shared(message, SOON).unwrap();
                self.mailbox.retrieve_into(&mut self.received, SOON).unwrap();
                assert_eq!(self.received.size(), message.size());
            }
        }
    }
}

#[test]
fn posting_and_retrieving_allocate_nothing() {
    let node = Node::join_by(Door::Alone).unwrap();
    let mut path = Path::in_use(&node);
    let allocated = allocation_counter::measure(|| path.go());
    assert_eq!(allocated.count_total, 0, "{allocated:?} in {ROUNDS} rounds of {SIZES:?} bytes");
}

/// Runs in a process of its own, see below: strict computing mode kills a thread at its first system call but reading,
/// writing and ending.
#[test]
fn rounds_in_jail() {
    if std::env::var_os(IN_JAIL).is_none() {
        return;
    }
    let node = Node::join_by(Door::Alone).unwrap();
    let mut path = Path::in_use(&node);
    set_secure_computing_mode(SecureComputingMode::Strict).expect("the kernel has strict computing mode");
    path.go();
    let _ = writeln!(std::io::stderr(), "{SURVIVED}");
    // Stays in jail until somebody has seen that it is one.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn posting_and_retrieving_make_no_system_call() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rounds_in_jail", "--nocapture", "--test-threads=1"])
        .env(IN_JAIL, "1")
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let reader = thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| _ = tell.send(line)));
    // A thread that is killed in jail says nothing, and its process goes on.
    let mut lines = std::iter::from_fn(|| told.recv_timeout(SOON).ok());
    let has_survived = lines.any(|line| line == SURVIVED);
    let in_jail = threads_in_jail(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert!(
        has_survived,
        "a system call ended the rounds; strace -f tells which: {IN_JAIL}=1 with --exact rounds_in_jail"
    );
    assert_eq!(in_jail, 1, "the rounds ran without strict computing mode");
}

fn threads_in_jail(process: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map_while(Result::ok);
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    status.filter(|status| status.lines().any(|line| line == "Seccomp:\t1")).count()
}
