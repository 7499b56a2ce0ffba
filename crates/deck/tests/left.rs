//! Calls that members leave at their deadlines, with data in messages: others read what was in them, whatever becomes
//! of the messages.

mod group;

use std::io::{Read, Write};
use std::process::Command;
use std::time::Duration;

use deck::{Completion, ErrorKind, Group, Message, Node, Operation};
use group::{SOON, apart, held, kind, pair};

const TRY: Duration = Duration::from_millis(1);
/// So much is read where it lies.
const LONG: usize = 300_000;

fn message_of(node: &Node, value: u8) -> Message {
    let mut message = node.message();
    message.resize(LONG).unwrap();
    message.edit().unwrap().fill(value);
    message
}

fn is_all(content: &[u8], value: u8) -> bool {
    content.iter().all(|byte| *byte == value)
}

#[test]
fn others_get_what_was_in_a_message_that_was_changed_since() {
    let (_broker, nodes, [mut giver, mut taker]) = pair();
    let before = held(&nodes[0]);
    let mut message = message_of(&nodes[0], 7);
    let alone = held(&nodes[0]);
    let place = message.as_ptr();
    assert_eq!(kind(giver.bcast(0, message.edit().unwrap(), TRY)), ErrorKind::Timeout);
    message.edit().unwrap().fill(9);
    assert_ne!(message.as_ptr(), place);
    // Once more: what it has kept is all that there is to keep.
    let changed = message.as_ptr();
    assert_eq!(kind(giver.bcast(0, message.edit().unwrap(), TRY)), ErrorKind::Timeout);
    message.edit().unwrap().fill(8);
    assert_eq!(message.as_ptr(), changed);
    let mut taken = vec![0u8; LONG];
    taker.bcast(0, &mut taken, SOON).unwrap();
    assert!(is_all(&taken, 7));
    giver.bcast(0, message.edit().unwrap(), SOON).unwrap();
    // Nothing is kept any more.
    assert_eq!(held(&nodes[0]), alone);
    drop(message);
    assert_eq!(held(&nodes[0]), before);
}

#[test]
fn others_get_what_was_in_a_message_that_is_no_more() {
    for leaves in [false, true] {
        let (_broker, nodes, [mut giver, mut taker]) = pair();
        let message = message_of(&nodes[0], 7);
        let mut gathered = taker.start_gather(1, &[7u8; LONG]).unwrap();
        assert_eq!(kind(giver.gather(1, message.as_bytes(), &mut [], TRY)), ErrorKind::Timeout);
        drop(message);
        let giver = if leaves { None } else { Some(giver) };
        assert!(held(&nodes[0]) > LONG, "its memory may be used for another one");
        assert!(is_all(&gathered.wait(&mut taker, SOON).unwrap(), 7), "the giver has left: {leaves}");
        if let Some(mut giver) = giver {
            giver.gather(1, &[9u8; LONG], &mut [], SOON).unwrap();
        }
    }
}

#[test]
fn what_a_group_that_was_left_has_kept_is_given_back_when_all_have_left() {
    let (_broker, nodes, [mut giver, taker]) = pair();
    let before = held(&nodes[0]);
    let message = message_of(&nodes[0], 7);
    assert_eq!(kind(giver.gather(1, message.as_bytes(), &mut [], TRY)), ErrorKind::Timeout);
    drop((message, giver));
    let kept = held(&nodes[0]);
    assert!(kept >= before + LONG);
    drop(taker);
    // Whoever joins or leaves a group looks.
    drop(Group::join(&nodes[0], "another", 1, None, SOON).unwrap());
    assert!(held(&nodes[0]) <= kept - LONG);
}

#[test]
fn others_get_results_out_of_a_message_that_was_changed_since() {
    let (_broker, nodes, mut groups) = apart::<2>(Completion::Everyone);
    let inputs = [1u8, 2].map(|value| message_of(&nodes[value as usize - 1], value));
    let mut outputs = [0, 1].map(|index| message_of(&nodes[index], 0));
    // By turns: each gives what it has, and then what it has made of it.
    for index in [0, 1, 0] {
        let output = outputs[index].edit().unwrap();
        let ended = groups[index].allreduce(inputs[index].as_bytes(), output, Operation::Sum, TRY);
        assert_eq!(kind(ended), ErrorKind::Timeout);
    }
    outputs[0].edit().unwrap().fill(9);
    let output = outputs[1].edit().unwrap();
    groups[1].allreduce(inputs[1].as_bytes(), output, Operation::Sum, SOON).unwrap();
    assert!(is_all(outputs[1].as_bytes(), 3));
    groups[0].allreduce(inputs[0].as_bytes(), outputs[0].edit().unwrap(), Operation::Sum, SOON).unwrap();
}

#[test]
fn a_call_that_differed_keeps_nothing() {
    let (_broker, nodes, [mut giver, mut other]) = pair();
    for _ in 0..3 {
        let message = message_of(&nodes[0], 7);
        let alone = held(&nodes[0]);
        assert_eq!(kind(giver.gather(1, message.as_bytes(), &mut [], TRY)), ErrorKind::Timeout);
        assert_eq!(kind(other.barrier(SOON)), ErrorKind::Invalid);
        assert_eq!(kind(giver.gather(1, message.as_bytes(), &mut [], SOON)), ErrorKind::Invalid);
        drop(message);
        assert!(held(&nodes[0]) + LONG <= alone);
    }
}

/// A child that drops what it has of its parent's groups changes nothing for the parent.
#[test]
fn a_forked_child_that_drops_a_group_keeps_nothing() {
    let (_broker, nodes, [mut giver, mut taker]) = pair();
    let mut started = giver.start_bcast_message(0, message_of(&nodes[0], 7)).unwrap();
    let mut giver = Some(giver);
    let (mut dropped, mut drops) = std::io::pipe().unwrap();
    let child = deck_testkit::fork(|| {
        drop(giver.take());
        drops.write_all(&[1]).unwrap();
    });
    let mut is_dropped = [0];
    dropped.read_exact(&mut is_dropped).unwrap();
    Command::new("kill").args(["-9", &child.unwrap().to_string()]).status().unwrap();
    let mut giver = giver.unwrap();
    let mut taken = vec![0u8; LONG];
    std::thread::scope(|scope| {
        scope.spawn(|| taker.bcast(0, &mut taken, SOON).unwrap());
        let mut message = started.wait(&mut giver, SOON).unwrap();
        let place = message.as_ptr();
        message.edit().unwrap();
        assert_eq!(message.as_ptr(), place, "somebody else holds it");
    });
}
