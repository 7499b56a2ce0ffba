//! `deck why` of a node that has more than there is room to tell of.

use deck_testkit::Job;
use deck_testkit::see::{self, said, waits};

/// Notices of a node for other things than waits, and one more for a mail box that is not among them.
const MORE_THAN_ARE_TOLD: usize = 15_360 + 1;

#[test]
fn a_wait_is_told_however_many_mail_boxes_there_are() {
    let job = Job::launched(see::seen(deck_testkit::node_program!()));
    let [node] = job.nodes();
    node.mailbox("first");
    node.done(&format!("mailboxes-without-names {MORE_THAN_ARE_TOLD}"));
    let text = said("why", job.name());
    assert!(text.contains("no thread is known to wait in DECK"), "{text}");
    assert!(text.contains("could not be noted, for want of room"), "{text}");
    node.tell("w", "retrieve first 40000");
    let told = waits(job.name(), 1);
    assert_eq!((&told["waits"][0]["for"], &told["waits"][0]["name"]), (&"retrieve".into(), &"first".into()), "{told}");
    assert!(told["nodes"][0]["untold"].as_u64().unwrap() >= 2, "{told}");
    drop(node);
    job.end();
}
