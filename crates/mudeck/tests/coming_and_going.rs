//! Nodes that come, answer and leave, again and again: nothing of them adds up.

use std::fs;
use std::time::Duration;

use deck_mudeck::{Door, Node, NodeState};
use deck_peers::{Broker, NODES_AT_A_TIME_MAX};

/// A watchdog: whatever waits this long has failed.
const SOON: Duration = Duration::from_secs(30);
/// It is handed over.
const LONG: usize = 2000;

#[test]
fn who_answers_in_the_message_that_came_and_leaves_takes_no_place_in_the_job() {
    let broker = Broker::start("test", 2).unwrap();
    let join = || Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap();
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let base = join();
    let answers = base.mailbox("answers").unwrap();
    let mut after_some = 0;
    for round in 0..NODES_AT_A_TIME_MAX + 20 {
        let peer = join();
        let questions = peer.mailbox("questions").unwrap();
        let mut question = base.message();
        question.resize(LONG).unwrap();
        question.edit().unwrap().fill(round as u8);
        base.clone_mailbox("questions", SOON).unwrap().post(question, SOON).unwrap();
        let question = questions.retrieve(SOON).unwrap();
        peer.clone_mailbox("answers", SOON).unwrap().post(question, SOON).unwrap();
        drop(questions);
        let number = peer.number();
        peer.leave().unwrap();
        // What was posted is delivered, also after its node has left.
        let answer = answers.retrieve(SOON).unwrap();
        assert!(answer.as_bytes().len() == LONG && answer.as_bytes().iter().all(|byte| *byte == round as u8));
        assert_eq!(base.state(number).unwrap(), NodeState::Left);
        if round == 20 {
            after_some = descriptors();
        }
    }
    assert!(descriptors() < after_some + 40, "{} descriptors after 20 rounds, {} now", after_some, descriptors());
}
