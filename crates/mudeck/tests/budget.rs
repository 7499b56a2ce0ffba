//! The budget: what a node may have posted and not yet retrieved. It comes back with every retrieve and every end of a
//! mail box, and whoever waits for it is woken.

mod job;

use std::sync::Once;

use deck_mudeck::{ErrorKind, FOREVER, Node};
use deck_peers::Broker;
use job::{SOON, TRY, filled, job_of, wait_for_poster};

const BUDGET: usize = 1 << 20;

/// A job of nodes with a budget of 1 MiB each.
fn small_job<const COUNT: usize>() -> (Broker, [Node; COUNT]) {
    static ONCE: Once = Once::new();
    // SAFETY: every test of this program comes here before it does anything else, so that no other thread is past this
    // line; and whatever else looks at the environment does so through the standard library, which has a lock for it.
    ONCE.call_once(|| unsafe { std::env::set_var("DECK_BUDGET", BUDGET.to_string()) });
    job_of()
}

#[test]
fn the_budget_is_back_when_a_message_was_retrieved_and_many_short_ones_came_after_it() {
    let (_broker, [here, poster]) = small_job();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    for short in [0, 1, 55, 100, 200] {
        clone.post(filled(&poster, 600 << 10, 1), SOON).unwrap();
        mailbox.retrieve(SOON).unwrap();
        for _ in 0..short {
            clone.post(filled(&poster, 8, 1), SOON).unwrap();
            mailbox.retrieve(SOON).unwrap();
        }
    }
}

#[test]
fn the_budget_is_of_the_node_and_not_of_the_mail_box() {
    let (_broker, [here, poster]) = small_job();
    let boxes = ["one", "two"].map(|name| here.mailbox(name).unwrap());
    let clones = ["one", "two"].map(|name| poster.clone_mailbox(name, SOON).unwrap());
    clones[0].post(filled(&poster, 600 << 10, 1), TRY).unwrap();
    let refused = clones[1].post(filled(&poster, 600 << 10, 2), TRY).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Timeout);
    assert!(refused.error.to_string().contains("DECK_BUDGET"), "{}", refused.error);
    boxes[0].retrieve(SOON).unwrap();
    clones[1].post(refused.message, SOON).unwrap();
    assert_eq!(boxes[1].retrieve(SOON).unwrap().as_bytes()[0], 2);
}

#[test]
fn a_message_larger_than_the_budget_is_refused_at_once() {
    let (_broker, [here, poster]) = small_job();
    let _mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    let refused = clone.post(filled(&poster, BUDGET + 1, 1), FOREVER).unwrap_err();
    assert_eq!((refused.error.kind(), refused.message.size()), (ErrorKind::TooLarge, BUDGET + 1));
}

#[test]
fn a_post_that_waits_for_budget_goes_on_when_another_mail_box_is_closed() {
    for _ in 0..10 {
        let (_broker, [here, poster]) = small_job();
        let (wanted, closing) = (here.mailbox("wanted").unwrap(), here.mailbox("closing").unwrap());
        let to_wanted = poster.clone_mailbox("wanted", SOON).unwrap();
        let to_closing = poster.clone_mailbox("closing", SOON).unwrap();
        for _ in 0..25 {
            to_closing.post(filled(&poster, 32 << 10, 1), TRY).unwrap();
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| to_wanted.post(filled(&poster, 900 << 10, 1), SOON).map_err(|it| it.error));
            wait_for_poster(&to_wanted);
            closing.close();
            waiting.join().unwrap().unwrap();
        });
        assert_eq!(wanted.retrieve(SOON).unwrap().size(), 900 << 10);
    }
}

#[test]
fn a_post_that_waits_for_budget_goes_on_when_the_node_that_has_it_leaves() {
    let (_broker, [here, poster, leaving]) = small_job();
    let (wanted, _leaving) = (here.mailbox("wanted").unwrap(), leaving.mailbox("leaving").unwrap());
    let to_wanted = poster.clone_mailbox("wanted", SOON).unwrap();
    poster.clone_mailbox("leaving", SOON).unwrap().post(filled(&poster, 600 << 10, 1), SOON).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| to_wanted.post(filled(&poster, 900 << 10, 1), SOON).map_err(|it| it.error));
        wait_for_poster(&to_wanted);
        leaving.leave().unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(wanted.retrieve(SOON).unwrap().size(), 900 << 10);
}

#[test]
fn a_post_that_waits_for_budget_goes_on_when_a_mail_box_cloned_meanwhile_gives_it_back() {
    let (_broker, [here, poster]) = small_job();
    let (one, two) = (here.mailbox("one").unwrap(), here.mailbox("two").unwrap());
    let to_one = poster.clone_mailbox("one", SOON).unwrap();
    to_one.post(filled(&poster, 300 << 10, 1), SOON).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| to_one.post(filled(&poster, 900 << 10, 2), SOON).map_err(|it| it.error));
        wait_for_poster(&to_one);
        let to_two = poster.clone_mailbox("two", SOON).unwrap();
        to_two.post(filled(&poster, 500 << 10, 3), SOON).unwrap();
        assert_eq!(one.retrieve(SOON).unwrap().as_bytes()[0], 1);
        assert_eq!(two.retrieve(SOON).unwrap().as_bytes()[0], 3);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(one.retrieve(SOON).unwrap().as_bytes()[0], 2);
}
