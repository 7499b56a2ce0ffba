//! Node 0 sums lists of numbers for the others, which are answered in mail boxes without names.
use std::time::Duration;

use deck::{ErrorKind, MailboxOptions, Node, NodeId, Refused, select};

const PATIENCE: Duration = Duration::from_secs(10);
const NUMBERS: usize = 100_000;

/// Until all others have asked once: a question is an address for the answer, and then numbers.
fn answer(node: &Node) -> deck::Result<()> {
    let questions = node.mailbox("questions")?;
    for _ in 1..node.count() {
        let mut question = questions.retrieve(PATIENCE)?;
        let answers = question.unpack_mailbox(PATIENCE)?;
        let mut numbers = vec![0u64; NUMBERS];
        question.unpack(&mut numbers)?;

        let mut answer = node.message();
        answer.pack(&[numbers.iter().sum::<u64>()])?;
        // A message stays postable: whatever its size, one buffer goes to many mail boxes.
        answers.post_shared(&answer, PATIENCE)?;
    }
    Ok(())
}

fn ask(node: &Node) -> deck::Result<()> {
    // One message of room, to show what a full mail box does.
    let narrow = MailboxOptions { messages: 1, ..MailboxOptions::default() };
    let (answers, other) = (node.mailbox_with(None, &narrow)?, node.anonymous_mailbox()?);

    let mut question = node.message();
    question.pack_mailbox(answers.address())?;
    question.pack(&(1..=NUMBERS as u64).collect::<Vec<u64>>())?;
    // Waits until somebody has a mail box of that name, and for room in it; never until somebody retrieves.
    node.clone_mailbox("questions", PATIENCE)?.post(question, PATIENCE)?;

    // Whichever has a message first.
    let ready = select(&[&other, &answers], PATIENCE)?;
    assert_eq!(ready, 1);
    let mut sum = [0u64];
    answers.retrieve(PATIENCE)?.unpack(&mut sum)?;

    let own = answers.clone_here()?;
    own.post(node.message(), PATIENCE)?;
    let Err(Refused { message, error }) = own.post(node.message(), Duration::from_millis(20)) else {
        panic!("there is room for one message only");
    };
    assert_eq!(error.kind(), ErrorKind::Timeout);
    // A message that is refused comes back: nothing is lost.
    other.post(message, PATIENCE)?;
    if node.number() == NodeId(1) {
        println!("1 + 2 + ... + {NUMBERS} = {}", sum[0]);
        println!("{error}");
    }
    Ok(())
}

fn main() -> deck::Result<()> {
    let node = Node::join()?;
    if node.number() == NodeId(0) {
        answer(&node)?
    } else {
        ask(&node)?
    }
    node.leave()
}
