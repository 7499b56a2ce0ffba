//! Groups in one process: several nodes, several threads in each.

#![allow(dead_code, reason = "each test program uses its part")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use deck::{Completion, Group, GroupOptions, Node, Result};
use deck_mudeck::Door;
use deck_peers::Broker;

/// A watchdog: whatever waits this long has failed.
pub const SOON: Duration = Duration::from_secs(30);

/// A job of `count` nodes.
pub fn job(count: usize) -> (Broker, Vec<Node>) {
    let broker = Broker::start("test", count as u32).unwrap();
    let nodes = (0..count).map(|_| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap()).collect();
    (broker, nodes)
}

/// Runs `member` in a thread for each member of a new group, member i on the node `on[i]`, and returns what they
/// return.
#[track_caller]
pub fn together<T: Send + 'static>(
    name: &str,
    nodes: &[Node],
    on: &[usize],
    member: impl Fn(&mut Group, &Node) -> T + Send + Sync + 'static,
) -> Vec<T> {
    together_with(Completion::Everyone, name, nodes, on, member)
}

/// The same with another completion.
#[track_caller]
pub fn together_with<T: Send + 'static>(
    completion: Completion,
    name: &str,
    nodes: &[Node],
    on: &[usize],
    member: impl Fn(&mut Group, &Node) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let member = Arc::new(member);
    let threads: Vec<_> = on
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let (node, name, size, member) = (nodes[*node].clone(), name.to_string(), on.len() as u32, member.clone());
            std::thread::spawn(move || {
                let options = GroupOptions { completion };
                let mut group = Group::join_with(&node, &name, size, Some(index as u32), &options, SOON).unwrap();
                member(&mut group, &node)
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().expect("a member panicked")).collect()
}

/// Two members, each on a node of its own.
pub fn pair() -> (Broker, Vec<Node>, [Group; 2]) {
    apart(Completion::Everyone)
}

/// `SIZE` members, each on a node of its own, all in the hands of one thread.
pub fn apart<const SIZE: usize>(completion: Completion) -> (Broker, Vec<Node>, [Group; SIZE]) {
    let (broker, nodes, groups) = joined(completion, &std::array::from_fn::<_, SIZE, _>(|node| node));
    let groups = groups.try_into().unwrap_or_else(|_| panic!("a group for each member"));
    (broker, nodes, groups)
}

/// Members of the new group "pair", member i on the node `on[i]`, all in the hands of one thread.
pub fn joined(completion: Completion, on: &[usize]) -> (Broker, Vec<Node>, Vec<Group>) {
    let (broker, nodes) = job(on.iter().max().unwrap() + 1);
    let joining: Vec<_> = (0..)
        .zip(on)
        .map(|(index, node)| {
            let (node, size) = (nodes[*node].clone(), on.len() as u32);
            std::thread::spawn(move || {
                let options = GroupOptions { completion };
                Group::join_with(&node, "pair", size, Some(index), &options, SOON).unwrap()
            })
        })
        .collect();
    let groups = joining.into_iter().map(|thread| thread.join().expect("it joins")).collect();
    (broker, nodes, groups)
}

/// How much library memory `node` holds.
pub fn held(node: &Node) -> usize {
    node.membership().heap().usage().held_bytes
}

/// The kind of an error.
pub fn kind<T>(result: Result<T>) -> deck::ErrorKind {
    result.err().expect("it fails").kind()
}

/// Does this process read long arrays in programs' memory, wherever that may be done? One that does not runs these
/// `tests` of its program once more in a process that does.
#[track_caller]
pub fn attaches(tests: &[&str]) -> bool {
    if std::env::var("DECK_ATTACH").is_ok_and(|value| value == "always") {
        return true;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let ended = again.env("DECK_ATTACH", "always").arg("--exact").args(tests).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    let have_passed = ended.status.success() && told.contains(&format!("{} passed", tests.len()));
    assert!(have_passed, "with DECK_ATTACH=always:\n{told}");
    false
}
