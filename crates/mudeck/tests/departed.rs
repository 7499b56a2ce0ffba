//! Heaps of nodes that have left: whoever was handed over one of their messages maps them as long as that takes, and no
//! longer.

mod job;

use std::sync::{Mutex, MutexGuard};

use deck_mudeck::{Mailbox, MailboxClone, Message, Node};
use deck_peers::Broker;
use job::{SOON, TRY, expect_filled, filled, invited, job_of, leave_seen_by, wait_until};

/// Other tests of this program would come into the count.
static COUNTING: Mutex<()> = Mutex::new(());

/// Descriptors of heaps in this process: of its nodes, one for their own and one for each that they map.
fn heaps() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("/memfd:deck-node")).count()
}

/// A job in which nodes come, post to `between`, which posts on to `last`, and go.
struct Job {
    broker: Broker,
    between: Node,
    last: Node,
    middle_box: Mailbox,
    last_box: Mailbox,
    to_last: MailboxClone,
    /// Heaps that are mapped in a job of these two alone.
    heaps: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Job {
    fn new() -> Job {
        let alone = COUNTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (broker, [between, last]) = job_of();
        let (middle_box, last_box) = (between.mailbox("between").unwrap(), last.mailbox("last").unwrap());
        let to_last = between.clone_mailbox("last", SOON).unwrap();
        to_last.post(filled(&between, 4096, 1), SOON).unwrap();
        last_box.retrieve(SOON).unwrap();
        Job { broker, between, last, middle_box, last_box, to_last, heaps: heaps(), _alone: alone }
    }

    /// A message of a node that came for it and has left.
    fn message_of_a_departed(&self, byte: u8) -> Message {
        let owner = invited(&self.broker);
        owner.clone_mailbox("between", SOON).unwrap().post(filled(&owner, 4096, byte), SOON).unwrap();
        let message = self.middle_box.retrieve(SOON).unwrap();
        leave_seen_by(owner, &self.between);
        message
    }

    fn expect_at_last(&self, byte: u8) -> Message {
        let message = self.last_box.retrieve(SOON).unwrap();
        expect_filled(&message, 4096, byte);
        message
    }

    /// Waits until no heaps are mapped but those of the two, and `kept` more.
    #[track_caller]
    fn wait_for_the_heaps_to_go(&self, kept: usize) {
        wait_until("the heaps of those who left are forgotten", || {
            // A receiver that looks and finds nothing tells what it has retrieved.
            let _ = (self.middle_box.retrieve(TRY).err().unwrap(), self.last_box.retrieve(TRY).err().unwrap());
            heaps() == self.heaps + kept
        });
    }
}

#[test]
fn heaps_of_nodes_that_came_and_went_are_forgotten_where_their_messages_were_posted_on() {
    let job = Job::new();
    for byte in 1..=20 {
        let passing = job.message_of_a_departed(byte);
        job.to_last.post(passing, SOON).unwrap();
        job.expect_at_last(byte);
    }
    job.wait_for_the_heaps_to_go(0);
}

#[test]
fn heaps_of_nodes_that_left_after_their_messages_were_posted_on_are_forgotten() {
    let job = Job::new();
    for byte in 1..=20 {
        let owner = invited(&job.broker);
        owner.clone_mailbox("between", SOON).unwrap().post(filled(&owner, 4096, byte), SOON).unwrap();
        job.to_last.post(job.middle_box.retrieve(SOON).unwrap(), SOON).unwrap();
        if byte % 2 == 0 {
            job.expect_at_last(byte);
        }
        leave_seen_by(owner, &job.last);
        if byte % 2 == 1 {
            job.expect_at_last(byte);
        }
    }
    job.wait_for_the_heaps_to_go(0);
}

#[test]
fn a_message_of_a_node_that_left_is_readable_as_long_as_it_is_held_wherever_it_was_posted_on_to() {
    let job = Job::new();
    // Whoever posted on keeps the one, whoever was handed it over the other.
    let [held_between, held_last] = [1, 2].map(|byte| job.message_of_a_departed(byte));
    job.to_last.post_shared(&held_between, SOON).unwrap();
    job.expect_at_last(1);
    job.to_last.post(held_last, SOON).unwrap();
    let held_last = job.expect_at_last(2);
    for byte in 3..=10 {
        let passing = job.message_of_a_departed(byte);
        job.to_last.post(passing, SOON).unwrap();
        job.expect_at_last(byte);
    }
    // The first in both nodes, as it may be posted on again; the second where it is.
    job.wait_for_the_heaps_to_go(3);
    expect_filled(&held_between, 4096, 1);
    expect_filled(&held_last, 4096, 2);
    job.to_last.post(held_between, SOON).unwrap();
    job.expect_at_last(1);
    drop(held_last);
    job.wait_for_the_heaps_to_go(0);
}

#[test]
fn a_message_of_a_node_that_left_goes_to_and_fro_and_its_heap_is_forgotten_afterwards() {
    let job = Job::new();
    let to_between = job.last.clone_mailbox("between", SOON).unwrap();
    let heaps_before = heaps();
    let mut passing = job.message_of_a_departed(1);
    for _ in 0..200 {
        job.to_last.post(passing, SOON).unwrap();
        let back = job.expect_at_last(1);
        to_between.post(back, SOON).unwrap();
        passing = job.middle_box.retrieve(SOON).unwrap();
        expect_filled(&passing, 4096, 1);
    }
    drop(passing);
    job.wait_for_the_heaps_to_go(heaps_before - job.heaps);
}

#[test]
fn a_heap_that_several_posted_on_from_is_forgotten_when_the_last_of_them_is_done_or_gone() {
    let job = Job::new();
    let other = invited(&job.broker);
    let other_box = other.mailbox("other").unwrap();
    let to_other = job.between.clone_mailbox("other", SOON).unwrap();
    let from_other = other.clone_mailbox("last", SOON).unwrap();
    let of_three = heaps() - job.heaps;
    let passing = job.message_of_a_departed(1);
    to_other.post_shared(&passing, SOON).unwrap();
    let theirs = other_box.retrieve(SOON).unwrap();
    // A receiver that looks and finds nothing tells what it has retrieved.
    other_box.retrieve(TRY).unwrap_err();
    job.to_last.post_shared(&passing, SOON).unwrap();
    from_other.post_shared(&theirs, SOON).unwrap();
    drop(passing);
    for _ in 0..2 {
        job.expect_at_last(1);
    }
    // The two that received it map the heap; the one that posted it on to both no more.
    job.wait_for_the_heaps_to_go(of_three + 2);
    from_other.post(theirs, SOON).unwrap();
    leave_seen_by(other, &job.last);
    job.expect_at_last(1);
    drop((to_other, from_other, other_box));
    job.wait_for_the_heaps_to_go(0);
}
