//! `deck run` with real nodes. This test program is also the node: `deck run` starts it with [`AS_NODE`].

use std::env;
use std::io::Read;
use std::sync::mpsc::channel;
use std::time::Duration;

use deck::{Door, ErrorKind, Node, NodeId};
use rustix::process::{Signal, getpid, kill_process};

use crate::job::{DECK, Ended, Job, script};

/// What a node shall do.
const PART: &str = "DECK_TEST_PART";
/// Makes this program run [`node`] and nothing else.
const AS_NODE: &str = "--ignored --exact nodes::node --nocapture --quiet";
/// More than any test takes.
const LONG: Duration = Duration::from_secs(50);

/// Makes this program run [`rival`] and nothing else.
const AS_RIVAL: &str = "--ignored --exact nodes::rival --nocapture --quiet";
/// How many come for one place.
const RIVALS: usize = 4;

/// One of several that come for one place: tells how that went, and stays until its input ends.
#[test]
#[ignore = "a process, which another test starts"]
fn rival() {
    if env::var(PART).is_err() {
        return;
    }
    let node = Node::join();
    match &node {
        Ok(node) => println!("told: {}", node.number()),
        Err(error) => println!("told: {error}"),
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// A node, when it is started by [`nodes`].
#[test]
#[ignore = "a node, which the other tests start"]
fn node() {
    let Ok(part) = env::var(PART) else { return };
    let node = Node::join().unwrap();
    let NodeId(number) = node.number();
    match (part.as_str(), number) {
        ("tell", _) => {
            println!("told by {number} of {}", node.count());
            eprintln!("complained by {number}");
        }
        ("name", _) => println!("told: job {}", node.job()),
        // Tells who was lost, after everything that the lost one had posted.
        ("lose", 0) => {
            let mailbox = node.mailbox("last words").unwrap();
            let words = mailbox.retrieve(LONG).unwrap();
            println!("told: {} bytes of {}", words.size(), words.sender().unwrap());
            let error = mailbox.retrieve(LONG).unwrap_err();
            println!("told: {:?} of {}", error.kind(), error.peer().unwrap());
        }
        ("lose", _) => {
            let mut words = node.message();
            words.pack(b"farewell").unwrap();
            node.clone_mailbox("last words", LONG).unwrap().post(words, LONG).unwrap();
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        // Fails because of the other one, which takes longer to be gone.
        ("react", 0) => {
            let mailbox = node.mailbox("words").unwrap();
            mailbox.retrieve(LONG).unwrap();
            assert_eq!(mailbox.retrieve(LONG).unwrap_err().kind(), ErrorKind::PeerLost);
            std::process::exit(1);
        }
        ("react", _) => {
            for _ in 0..8 {
                std::thread::spawn(std::thread::park);
            }
            node.clone_mailbox("words", LONG).unwrap().post(node.message(), LONG).unwrap();
            kill_process(getpid(), Signal::KILL).unwrap();
        }
        ("host", _) => {
            let mailbox = node.mailbox("door").unwrap();
            println!("told: open");
            println!("told: {} came", mailbox.retrieve(LONG).unwrap().sender().unwrap());
        }
        ("wait", 0) => {
            let error = node.anonymous_mailbox().unwrap().retrieve(LONG).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
        }
        ("wait", _) => std::process::exit(7),
        _ => panic!("no part {part}"),
    }
    node.leave().unwrap();
}

/// `deck run` with nodes that play `part`, started by a shell so that nobody but the shell is a child of `deck run`.
fn nodes(options: &str, part: &str) -> Ended {
    let program = env::current_exe().unwrap();
    let node = format!("'{}' {AS_NODE}; code=$?; echo told: the end; exit $code", program.display());
    let text = format!("{PART}={part} exec {DECK} run {options} sh -c \"$0\"");
    Job::start(script(&text, &[&node])).ended()
}

/// The lines of the nodes themselves, sorted.
fn told(text: &str) -> Vec<&str> {
    let mut told: Vec<&str> = text.lines().filter(|line| line.contains("told")).collect();
    told.sort_unstable();
    told
}

#[test]
fn tags_are_the_numbers_of_nodes_also_behind_a_shell_and_after_their_end() {
    let ended = nodes("-n 3 --tag", "tell");
    assert_eq!(ended.code, 0, "{}", ended.errors());
    let expected = [
        "[0] told by 0 of 3",
        "[0] told: the end",
        "[1] told by 1 of 3",
        "[1] told: the end",
        "[2] told by 2 of 3",
        "[2] told: the end",
    ];
    assert_eq!(told(&ended.text()), expected);
    for number in 0..3 {
        assert!(ended.errors().contains(&format!("[{number}] complained by {number}\n")), "{}", ended.errors());
    }
}

#[test]
fn nodes_know_the_name_of_their_job() {
    assert_eq!(told(&nodes("-n 1 --job weather-7", "name").text()), ["told: job weather-7", "told: the end"]);
}

#[test]
fn of_processes_that_share_a_place_one_is_a_node_and_the_others_are_told_so() {
    let program = env::current_exe().unwrap();
    let rival = format!("'{}' {AS_RIVAL} <&3 &", program.display());
    let text = format!("{PART}=rival exec {DECK} run -n 1 sh -c \"$0\"");
    let mut job = Job::start(script(&text, &[&format!("exec 3<&0; {} wait", rival.repeat(RIVALS))]));
    let stdin = job.stdin();
    let lines = std::iter::repeat_with(|| job.line()).filter(|line| line.starts_with("told"));
    let mut told: Vec<String> = lines.take(RIVALS).collect();
    told.sort_unstable();
    let (node, others) = told.split_last().unwrap();
    assert_eq!(node, "told: node 0", "{others:?}");
    assert!(others.iter().all(|told| told.contains("taken by another process")), "{others:?}");
    drop(stdin);
    assert_eq!(job.ended().code, 0);
}

#[test]
fn a_job_with_a_name_can_be_joined_by_hand_and_is_the_only_one_of_that_name() {
    let name = format!("open-{}", std::process::id());
    let program = env::current_exe().unwrap();
    let text = format!("{PART}=host exec {DECK} run -n 1 --job {name} '{}' {AS_NODE}", program.display());
    let mut job = Job::start(script(&text, &[]));
    job.up_to("told: open\n");
    let second = Job::run(&["-n", "1", "--job", &name, "true"]).ended();
    assert_eq!(second.code, 1);
    assert!(second.errors().contains("[D0301]"), "{}", second.errors());
    let guest = Node::join_by(Door::Named(name)).unwrap();
    assert_eq!(guest.number(), NodeId(1));
    guest.clone_mailbox("door", LONG).unwrap().post(guest.message(), LONG).unwrap();
    let ended = job.ended();
    assert_eq!((ended.code, told(&ended.text())), (0, vec!["told: node 1 came"]));
    // The job is the guest's now.
    guest.mailbox("mine").unwrap();
    guest.leave().unwrap();
}

#[test]
fn many_nodes_that_have_left_are_one_line_of_a_list_unless_each_is_wanted() {
    let name = format!("visited-{}", std::process::id());
    let stays = Node::join_by(Door::Named(name.clone())).unwrap();
    let _mailbox = stays.mailbox("door").unwrap();
    let listed = |more: &[&str]| Job::command(&[&["ls", name.as_str()], more].concat()).ended().text();
    let visits = |count: usize| {
        for _ in 0..count {
            Node::join_by(Door::Named(name.clone())).unwrap().leave().unwrap();
        }
    };
    visits(8);
    let few = listed(&[]);
    assert_eq!((few.matches(": left\n").count(), few.contains("--all")), (8, false), "{few}");
    visits(1);
    let many = listed(&[]);
    assert!(many.contains(": live") && many.contains("mail box \"door\" of node 0"), "{many}");
    assert!(many.contains("\n  9 nodes left (--all shows each)\n") && !many.contains(": left"), "{many}");
    let all = listed(&["--all"]);
    assert_eq!((all.matches(": left\n").count(), all.contains("--all")), (9, false), "{all}");
    assert_eq!(listed(&["--json"]).matches("\"state\":\"left\"").count(), 9);
    stays.leave().unwrap();
}

#[test]
fn a_job_whose_nodes_have_not_joined_has_its_name_and_nothing_is_seen_of_another_that_wants_it() {
    let name = format!("slow-{}", std::process::id());
    let mut first = Job::run(&["-n", "1", "--job", &name, "sh", "-c", "echo started; read line"]);
    assert_eq!(first.line(), "started");
    let second = Job::run(&["-n", "1", "--job", &name, "true"]);
    let (ended, has_ended) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || ended.send(second.ended()).unwrap());
        let second = loop {
            let listed = Job::command(&["ls"]).ended().text();
            assert_eq!(listed.matches(&format!("job {name:?}")).count(), 1, "{listed}");
            if let Ok(second) = has_ended.try_recv() {
                break second;
            }
        };
        assert_eq!(second.code, 1);
        assert!(second.errors().contains("[D0301]"), "{}", second.errors());
    });
    let listed = Job::command(&["ls", &name]).ended().text();
    assert!(listed.contains("\n  no node has joined yet; processes "), "{listed}");
    drop(first.stdin());
    first.ended();
}

#[test]
fn a_signal_ends_a_job_that_waits_for_its_name() {
    let name = format!("taken-{}", std::process::id());
    let mut first = Job::run(&["-n", "1", "--job", &name, "sh", "-c", "echo started; read line"]);
    assert_eq!(first.line(), "started");
    // The signal is there before `deck run` is, which hears it when it takes signals.
    let second = format!("kill -INT $$; exec {DECK} run -n 1 --job {name} true");
    let second = Job::start(script("exec env --block-signal=INT sh -c \"$0\"", &[&second])).ended();
    assert_eq!((second.code, second.errors().as_str()), (130, ""));
    drop(first.stdin());
    first.ended();
}

#[test]
fn a_killed_node_is_told_to_the_others_and_is_the_exit_status() {
    let ended = nodes("-n 2 --tag", "lose");
    assert_eq!(ended.code, 137, "{}", ended.errors());
    let expected =
        ["[0] told: 8 bytes of node 1", "[0] told: PeerLost of node 1", "[0] told: the end", "[1] told: the end"];
    assert_eq!(told(&ended.text()), expected);
    assert!(ended.errors().contains("deck run: node 1 (pid "), "{}", ended.errors());
}

#[test]
fn the_exit_status_is_that_of_the_node_that_failed_first_though_another_that_failed_of_it_was_gone_before() {
    let program = env::current_exe().unwrap();
    for round in 0..20 {
        let options = if round % 2 == 0 { "-n 2" } else { "-n 2 --kill-on-failure" };
        let text = format!("{PART}=react exec {DECK} run {options} '{}' {AS_NODE}", program.display());
        let ended = Job::start(script(&text, &[])).ended();
        assert_eq!(ended.code, 137, "round {round}: {}", ended.errors());
    }
}

#[test]
fn with_kill_on_failure_a_node_that_waits_ends_too() {
    let ended = nodes("-n 2 --kill-on-failure", "wait");
    assert_eq!(ended.code, 7, "{}", ended.errors());
    assert!(ended.errors().contains("deck run: node 1 (pid ") && ended.errors().contains("ended with exit status 7"));
}
