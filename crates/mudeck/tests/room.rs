//! Room in a mail box: as many messages as its options say, whatever was posted and retrieved before.

mod job;

use deck_mudeck::{ErrorKind, FOREVER, MailboxOptions};
use job::{SOON, TRY, filled, job_of, wait_for_poster, wait_until};

#[test]
fn an_empty_mail_box_takes_all_its_messages_after_any_number_of_posts_and_retrieves() {
    let room = MailboxOptions::default().messages;
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    for before in 0..=room + 8 {
        for size in [8, 300, 5000] {
            for _ in 0..before {
                clone.post(filled(&poster, size, 1), TRY).unwrap();
                mailbox.retrieve(TRY).unwrap();
            }
            for number in 0..room {
                let posted = clone.post(filled(&poster, size, 2), TRY);
                assert!(posted.is_ok(), "message {number} of {size} bytes after {before}");
            }
            for _ in 0..room {
                mailbox.retrieve(TRY).unwrap();
            }
        }
    }
}

#[test]
fn a_mail_box_half_emptied_takes_as_many_as_were_retrieved() {
    let room = MailboxOptions::default().messages;
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    let mut inside = 0;
    for step in 1..500 {
        // A pattern of its own for every step, and never more inside than there is room for.
        for _ in 0..(room - inside).min(step * 7 % 23) {
            clone.post(filled(&poster, 8, 1), TRY).unwrap();
            inside += 1;
        }
        for _ in 0..inside.min(step * 5 % 19) {
            mailbox.retrieve(TRY).unwrap();
            inside -= 1;
        }
    }
}

#[test]
fn the_room_of_a_mail_box_is_what_was_asked_for_and_at_most_an_eighth_more() {
    let (_broker, [here, poster]) = job_of();
    for (messages, size) in
        [1, 2, 3, 7, 8, 9, 28, 29, 56, 64, 1000].into_iter().flat_map(|messages| [(messages, 8), (messages, 9)])
    {
        let options = MailboxOptions { messages, ..MailboxOptions::default() };
        let mailbox = here.mailbox_with(Some("box"), &options).unwrap();
        let clone = poster.clone_mailbox("box", SOON).unwrap();
        let posted = (0..).take_while(|_| clone.post(filled(&poster, size, 1), TRY).is_ok()).count() as u32;
        // From 28 on seven small ones have the room of one, and there is one more for a receiver to stay at.
        let (in_a_slot, spare) = if messages < 28 { (1, 0) } else { (if size == 8 { 7 } else { 1 }, 1) };
        let most = in_a_slot * (messages + messages / 8 + spare);
        assert!((in_a_slot * messages..=most).contains(&posted), "{posted} of {size} bytes instead of {messages}");
        mailbox.close();
    }
}

#[test]
fn a_post_that_waits_for_room_ends_when_the_mail_box_is_closed() {
    let (_broker, [here, poster]) = job_of();
    let options = MailboxOptions { messages: 1, ..MailboxOptions::default() };
    let mailbox = here.mailbox_with(Some("box"), &options).unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    clone.post(poster.message(), SOON).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| clone.post(poster.message(), FOREVER).unwrap_err().error.kind());
        wait_for_poster(&clone);
        mailbox.close();
        assert_eq!(waiting.join().unwrap(), ErrorKind::Closed);
    });
}

/// One of them needs bytes, which are there when all has been retrieved, the other one a slot.
#[test]
fn who_waits_for_little_room_gets_it_though_another_thread_waits_for_much() {
    const BYTES: usize = 1 << 20;
    let (_broker, [here, poster]) = job_of();
    let options = MailboxOptions { messages: 8, bytes: BYTES as u64 };
    let mailbox = here.mailbox_with(Some("box"), &options).unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    let mut inside = 0;
    while clone.post(filled(&poster, 100, 1), TRY).is_ok() {
        inside += 1;
    }
    // Behind all others something that takes bytes.
    mailbox.retrieve(TRY).unwrap();
    clone.post(filled(&poster, BYTES / 8, 1), SOON).unwrap();
    let waits = clone.stats().waits;
    std::thread::scope(|scope| {
        let much = scope.spawn(|| clone.post(filled(&poster, BYTES, 2), SOON).map_err(|refused| refused.error));
        wait_until("it waits for bytes", || clone.stats().waits == waits + 1);
        let little = scope.spawn(|| clone.post(filled(&poster, 8, 3), SOON).map_err(|refused| refused.error));
        wait_until("it waits for a slot", || clone.stats().waits == waits + 2);
        mailbox.retrieve(TRY).unwrap();
        little.join().unwrap().unwrap();
        assert!(!much.is_finished());
        for _ in 0..inside {
            mailbox.retrieve(SOON).unwrap();
        }
        much.join().unwrap().unwrap();
        mailbox.retrieve(TRY).unwrap();
    });
}
