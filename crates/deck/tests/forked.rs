//! What a forked child does with messages of its parent is nothing to the parent.

mod group;

use std::io::{Read, Write};
use std::process::Command;

use group::job;

/// A child has no share of a buffer: one that it counted would never be taken back.
#[test]
fn a_forked_child_that_copies_a_message_keeps_its_parent_from_nothing() {
    let (_broker, nodes) = job(1);
    let mut message = nodes[0].message();
    message.resize(300_000).unwrap();
    let place = message.as_ptr();
    let (mut copied, mut copies) = std::io::pipe().unwrap();
    let child = deck_testkit::fork(|| {
        let copy = message.clone();
        let is_alike = copy.as_bytes() == message.as_bytes();
        drop(copy);
        copies.write_all(&[is_alike.into()]).unwrap();
    });
    let mut is_alike = [0];
    copied.read_exact(&mut is_alike).unwrap();
    Command::new("kill").args(["-9", &child.unwrap().to_string()]).status().unwrap();
    assert_eq!(is_alike, [1]);
    message.edit().unwrap();
    assert_eq!(message.as_ptr(), place, "somebody else holds it");
}
