//! What a forked child does with what its parent has is nothing to the parent.

mod group;

use std::io::{Read, Write};
use std::process::Command;

use group::{SOON, job};

/// Whether a forked child finds that `it_is_so`. The child goes on until it is killed.
fn child_finds(it_is_so: impl FnOnce() -> bool) -> bool {
    let (mut answered, mut answers) = std::io::pipe().unwrap();
    let child = deck_testkit::fork(|| answers.write_all(&[it_is_so().into()]).unwrap());
    let mut answer = [0];
    answered.read_exact(&mut answer).unwrap();
    Command::new("kill").args(["-9", &child.unwrap().to_string()]).status().unwrap();
    answer == [1]
}

/// A child has no share of a buffer: one that it counted would never be taken back.
#[test]
fn a_forked_child_that_copies_a_message_keeps_its_parent_from_nothing() {
    let (_broker, nodes) = job(1);
    let mut message = nodes[0].message();
    message.resize(300_000).unwrap();
    let place = message.as_ptr();
    assert!(child_finds(|| {
        let copy = message.clone();
        copy.as_bytes() == message.as_bytes()
    }));
    message.edit().unwrap();
    assert_eq!(message.as_ptr(), place, "somebody else holds it");
}

#[test]
fn a_forked_child_closes_no_mail_box_of_its_parent_and_retrieves_nothing() {
    let (_broker, nodes) = job(2);
    let mailbox = nodes[0].mailbox("box").unwrap();
    let own = mailbox.clone_here().unwrap();
    own.post(nodes[0].message(), SOON).unwrap();
    let before = nodes[1].clone_mailbox("box", SOON).unwrap();
    assert!(child_finds(|| {
        mailbox.close();
        !mailbox.is_closed() && own.retrieving().is_none() && mailbox.stats().posted == 0
    }));
    before.post(nodes[1].message(), SOON).unwrap();
    nodes[1].clone_mailbox("box", SOON).unwrap().post(nodes[1].message(), SOON).unwrap();
    (0..3).for_each(|_| assert!(mailbox.retrieve(SOON).is_ok()));
}

#[test]
fn a_forked_child_sends_the_log_nowhere_else() {
    struct Sink(std::io::PipeWriter);
    impl Drop for Sink {
        fn drop(&mut self) {
            self.0.write_all(&[0]).unwrap();
        }
    }
    let (mut dropped, drops) = std::io::pipe().unwrap();
    let sink = Sink(drops.try_clone().unwrap());
    deck::set_log(Some(Box::new(move |_, _| _ = &sink)));
    let _node = job(1);
    assert!(child_finds(|| {
        deck::set_log(None);
        let mut drops = drops.try_clone().unwrap();
        drops.write_all(&[1]).unwrap();
        let mut first = [0];
        dropped.read_exact(&mut first).unwrap();
        first == [1]
    }));
    deck::set_log(None);
}
