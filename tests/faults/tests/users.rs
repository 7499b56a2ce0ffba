//! A job belongs to one user: others with the same job name have a job of their own, and whoever gets at the job's
//! socket all the same is refused by both ends.
//!
//! These tests start processes of another user, so they run as root only; otherwise they say that they were skipped.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use deck_peers::Refusal;
use deck_peers::wire::Frame;
use deck_testkit::{Job, SOON, products, see};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketType};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use serde_json::Value;
use tempfile::{NamedTempFile, TempPath};

/// `nobody` on most systems; that it has no name elsewhere does not matter.
const OTHER_USER: u32 = 65534;
const AS_OTHER: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
/// In a user namespace of its own the other user takes itself for root, as in a container: with the network namespace
/// of the host it then comes to the very socket of root's job.
const AS_FALSE_ROOT: [&str; 7] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--map-root-user"];

/// In a user namespace that knows none of its users: all of them have the same number there.
const AS_UNKNOWN: [[&str; 6]; 2] = [
    ["setpriv", "--reuid=4001", "--regid=4001", "--clear-groups", "unshare", "--user"],
    ["setpriv", "--reuid=4002", "--regid=4002", "--clear-groups", "unshare", "--user"],
];
const IN_ITS_OWN_PROCESS_NAMESPACE: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];
/// The same, with a `/proc` that shows it.
const AS_IN_A_CONTAINER: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// The nodes' program where every user may execute it: the folder that it was built in need not be open to others.
struct OpenProgram(TempPath);

impl OpenProgram {
    fn new() -> OpenProgram {
        let copy = NamedTempFile::new().expect("the temporary folder can be written").into_temp_path();
        products::install(Path::new(deck_testkit::node_program!()), &copy);
        OpenProgram(copy)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a plain path")
    }
}

/// True if `wrapper` starts programs here; says why not otherwise.
fn can_start(wrapper: &[&str], program: &OpenProgram) -> bool {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can start processes of another user");
        return false;
    }
    // Any program will do, but it must be one that lies where the real one does.
    let probe = program.0.with_extension("probe");
    products::install(Path::new("/bin/true"), &probe);
    let output = Command::new(wrapper[0]).args(&wrapper[1..]).arg(&probe).output();
    let _ = fs::remove_file(&probe);
    match output {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!("skipped: {wrapper:?} does not work here: {}", String::from_utf8_lossy(&output.stderr).trim());
            false
        }
        Err(error) => {
            println!("skipped: no {}: {error}", wrapper[0]);
            false
        }
    }
}

#[test]
fn two_users_with_the_same_job_name_have_a_job_each() {
    let program = OpenProgram::new();
    if !can_start(&AS_OTHER, &program) {
        return;
    }
    let job = Job::by_name(program.path());
    let mine = job.node();
    let mut theirs = job.start(&AS_OTHER, &[]);
    assert_eq!(theirs.joined().words(), "0", "the other user's node is the first of a job");
    for node in [&mine, &theirs] {
        node.mailbox("box");
        assert_eq!(node.done("count"), "1");
    }
    drop((mine, theirs));
    job.end();
}

#[test]
fn a_node_of_another_user_that_comes_to_the_socket_of_a_job_is_refused() {
    let program = OpenProgram::new();
    if !can_start(&AS_FALSE_ROOT, &program) {
        return;
    }
    let job = Job::by_name(program.path());
    let first = job.node();
    let mut stranger = job.start(&AS_FALSE_ROOT, &[]);
    let failure = stranger.joined().failure();
    assert_eq!(failure.kind, "Access", "{failure}");
    assert!(failure.text.contains("held by user") && failure.text.contains("[D0106]"), "{failure}");
    assert_eq!(stranger.wait().code(), Some(3));
    // The job goes on, and no number went to the stranger.
    let second = job.node();
    assert_eq!(second.number().0, 1);
    second.mailbox("box");
    first.clone_mailbox("box");
    first.post("box", 0, 1, 1000);
    assert_eq!(second.retrieve("box", SOON).unwrap().sender, first.number());
    drop((first, second, stranger));
    job.end();
}

#[test]
fn nobody_joins_a_job_that_another_user_opened_in_their_name() {
    let program = OpenProgram::new();
    if !can_start(&AS_FALSE_ROOT, &program) {
        return;
    }
    let job = Job::by_name(program.path());
    let mut stranger = job.start(&AS_FALSE_ROOT, &[]);
    stranger.joined().words();
    let mut mine = job.start(&[], &[]);
    let failure = mine.joined().failure();
    assert_eq!(failure.kind, "Access", "{failure}");
    let holder = format!("held by user {OTHER_USER}");
    assert!(failure.text.contains(&holder) && failure.text.contains("another job name"), "{failure}");
    assert_eq!(mine.wait().code(), Some(3));
    drop((mine, stranger));
    job.end();
}

#[test]
fn users_whom_their_namespaces_do_not_know_are_not_taken_for_one_another() {
    let program = OpenProgram::new();
    if !AS_UNKNOWN.iter().all(|wrapper| can_start(wrapper, &program)) {
        return;
    }
    let job = Job::by_name(program.path());
    let mut first = job.start(&AS_UNKNOWN[0], &[]);
    assert_eq!(first.joined().words(), "0");
    let mut second = job.start(&AS_UNKNOWN[1], &[]);
    let failure = second.joined().failure();
    assert_eq!(failure.kind, "Access", "{failure}");
    assert!(failure.text.contains("cannot be told in this user namespace"), "{failure}");
    drop((first, second));
    job.end();
}

#[test]
fn a_node_in_another_process_namespace_is_of_the_same_user() {
    let program = OpenProgram::new();
    if !can_start(&IN_ITS_OWN_PROCESS_NAMESPACE, &program) {
        return;
    }
    for wrappers in [[&[][..], &IN_ITS_OWN_PROCESS_NAMESPACE], [&IN_ITS_OWN_PROCESS_NAMESPACE, &[]]] {
        let job = Job::by_name(program.path());
        let mut first = job.start(wrappers[0], &[]);
        assert_eq!(first.joined().words(), "0");
        let mut second = job.start(wrappers[1], &[]);
        assert_eq!(second.joined().words(), "1");
        // In order: whoever is killed with the first process of a namespace ends a moment later.
        assert!([second.end(), first.end()].iter().all(|status| status.success()));
        job.end();
    }
}

/// Two nodes wait for one another's messages, and a third one, which cannot be seen from there, may post to both.
#[test]
fn who_may_be_helped_by_a_node_that_is_out_of_sight_is_in_no_cycle() {
    let program = OpenProgram::new();
    see::deck();
    if !can_start(&AS_IN_A_CONTAINER, &program) {
        return;
    }
    let job = Job::by_name(program.path());
    let [helper] = job.nodes();
    let mut one = job.start(&AS_IN_A_CONTAINER, &[]);
    assert_eq!(one.joined().words(), "1");
    // Where the child of `unshare` is.
    let place = |name| format!("/proc/{}/ns/{name}", one.pid());
    let (processes, mounts) = (place("pid_for_children"), place("mnt"));
    let enter = ["nsenter", &format!("--pid={processes}"), &format!("--mount={mounts}")];
    let mut other = job.start(&enter, &[]);
    assert_eq!(other.joined().words(), "2");
    for (owner, poster, name) in [(&one, &other, "a"), (&other, &one, "b")] {
        owner.mailbox(name);
        [poster, &helper].into_iter().for_each(|node| node.clone_mailbox(name));
    }
    one.tell("w", "retrieve a 40000");
    other.tell("w", "retrieve b 40000");

    let why = |more: &[&str]| {
        let looking =
            Command::new(enter[0]).args(&enter[1..]).arg(see::deck()).args(["why", job.name()]).args(more).output();
        String::from_utf8(looking.expect("nsenter starts").stdout).expect("text")
    };
    let job_in_json = || serde_json::from_str::<Value>(&why(&["--json"])).expect("one JSON object")["jobs"][0].take();
    let told = see::waits_of(job_in_json, 2);
    assert_eq!(told["cycles"], Value::Array(vec![]), "{told}");
    assert!(see::nodes_of(&told["waits"][0]["on"]).contains(&0), "{told}");
    let said = why(&[]);
    for part in
        [": 3 nodes, 2 threads wait", "node 0, live: its process cannot be seen from here", "node 0 (out of sight)"]
    {
        assert!(said.contains(part), "{said}");
    }

    ["a", "b"].into_iter().for_each(|name| helper.post(name, 0, 1, 100));
    [&one, &other].into_iter().for_each(|node| drop(node.answer("w").unwrap().words()));
    assert!([other.end(), one.end(), helper.end()].iter().all(|status| status.success()));
    job.end();
}

/// Connects to the socket of root's job `name` as the other user; a program that does not check who holds the job.
fn dial_as_other(name: &str) -> OwnedFd {
    let address = SocketAddrUnix::new_abstract_name(format!("deck/0/{name}").as_bytes()).expect("a short name");
    let dial = || {
        // The user of this thread only: a system call of the kernel, below what threads of the C library share.
        let other = Uid::from_raw(OTHER_USER);
        set_thread_res_uid(other, other, other).expect("root may become anybody");
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        rustix::net::connect(&socket, &address).expect("the job's node listens");
        socket
    };
    std::thread::scope(|scope| scope.spawn(dial).join().expect("it connects"))
}

#[test]
fn the_node_that_listens_refuses_another_user_whatever_is_sent() {
    let program = OpenProgram::new();
    if !can_start(&AS_OTHER, &program) {
        return;
    }
    let job = Job::by_name(program.path());
    let first = job.node();
    for _ in 0..3 {
        let socket = dial_as_other(job.name());
        let join = Frame::Join { process: u64::from(std::process::id()), network: 0, fences: 0, retries: 0 };
        // It may have hung up already.
        let _ = rustix::net::send(&socket, &join.encode(), rustix::net::SendFlags::NOSIGNAL);
        let mut bytes = [0u8; 256];
        let mut receive = || rustix::net::recv(&socket, &mut bytes[..], RecvFlags::empty()).map(|(_, bytes)| bytes);
        // That its own words were not read is told before the answer, once.
        let received = receive().or_else(|_| receive()).expect("an answer");
        let answer = Frame::decode(&bytes[..received]);
        assert_eq!(answer, Some(Frame::Refuse { reason: Refusal::User as u64 }));
        // Nothing further: no table, no number.
        assert!(matches!(rustix::net::recv(&socket, &mut bytes[..], RecvFlags::empty()), Ok((_, 0)) | Err(_)));
    }
    let second = job.node();
    assert_eq!(second.number().0, 1);
    drop((first, second));
    job.end();
}
