//! Lanes: threads that contend for the common ring of a mail box get rings of their own, and nobody sees a difference.

mod job;

use std::cell::RefCell;

use deck_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use deck_mudeck::{ErrorKind, Mailbox, MailboxClone, MailboxOptions, Message, Node};
use job::{SOON, job_of, wait_until};

const THREADS: u64 = 4;
/// Sizes of messages that travel in a word, in one line of a slot, in both, beside it, and in a buffer that is handed
/// over.
const SIZES: [usize; 5] = [8, 62, 100, 300, 5000];

/// Numbered messages of one thread.
struct Stream<'a> {
    node: &'a Node,
    clone: &'a MailboxClone,
    thread: u64,
    number: u64,
}

impl<'a> Stream<'a> {
    fn new(node: &'a Node, clone: &'a MailboxClone, thread: u64) -> Stream<'a> {
        Stream { node, clone, thread, number: 0 }
    }

    fn post(&mut self, size: usize) -> deck_mudeck::Result<()> {
        let mut message = self.node.message();
        message.resize(size)?;
        message.edit()?[..8].copy_from_slice(&(self.thread << 48 | self.number).to_ne_bytes());
        self.number += 1;
        self.clone.post(message, SOON).map_err(|refused| refused.error)
    }
}

/// Posts the last message of its thread, when that destroys its thread-local values.
struct Last {
    node: Node,
    clone: MailboxClone,
    thread: u64,
    number: u64,
}

impl Drop for Last {
    fn drop(&mut self) {
        let Last { ref node, ref clone, thread, number } = *self;
        // Whoever counts misses it otherwise; a panic here would end the process.
        let _ = Stream { node, clone, thread, number }.post(8);
    }
}

thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });

/// The threads' streams as they arrive.
struct Arrivals([u64; THREADS as usize]);

impl Arrivals {
    fn take(&mut self, message: &Message) {
        let word = u64::from_ne_bytes(message.as_bytes()[..8].try_into().unwrap());
        let (thread, number) = ((word >> 48) as usize, word & ((1 << 48) - 1));
        assert_eq!(number, self.0[thread], "thread {thread}: messages in another order, lost or doubled");
        self.0[thread] += 1;
    }
}

/// Threads of `poster` post streams to `mailbox`, which is emptied meanwhile, until `enough` holds. Their last two
/// messages lie there together.
fn contend(mailbox: &Mailbox, poster: &Node, clone: &MailboxClone, enough: impl Fn() -> bool + Sync) {
    let (is_enough, is_empty, through) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let posted: [u64; THREADS as usize] = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (is_enough, is_empty, through) = (&is_enough, &is_empty, &through);
                scope.spawn(move || {
                    // What is used first is destroyed last.
                    LAST.with(|_| ());
                    let mut stream = Stream::new(poster, clone, thread);
                    while !is_enough.load(Ordering::Relaxed) || stream.number < 2000 {
                        let tenth = stream.number / 10;
                        let size = SIZES[if tenth * 10 == stream.number { tenth as usize % SIZES.len() } else { 0 }];
                        stream.post(size).unwrap();
                    }
                    through.fetch_add(1, Ordering::Release);
                    wait_until("all is retrieved", || is_empty.load(Ordering::Relaxed));
                    stream.post(8).unwrap();
                    let number = stream.number;
                    LAST.set(Some(Last { node: poster.clone(), clone: clone.clone(), thread, number }));
                    number + 1
                })
            })
            .collect();
        let watching = scope.spawn(|| {
            wait_until("the threads have had enough", &enough);
            is_enough.store(true, Ordering::Relaxed);
        });
        let mut arrivals = Arrivals([0; THREADS as usize]);
        let mut retrieve_until = |are_through: &dyn Fn() -> bool| loop {
            let were_through = are_through();
            match mailbox.retrieve(job::TRY) {
                Ok(message) => arrivals.take(&message),
                Err(error) if error.kind() == ErrorKind::Timeout && were_through => break,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
            }
        };
        // Acquire: what they have posted is there.
        retrieve_until(&|| through.load(Ordering::Acquire) == THREADS);
        is_empty.store(true, Ordering::Relaxed);
        watching.join().unwrap();
        let posted: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        retrieve_until(&|| true);
        assert_eq!(posted, arrivals.0, "messages were lost");
        posted.try_into().unwrap()
    });
    assert!(posted.iter().all(|posted| *posted >= 2000));
}

#[test]
fn threads_that_contend_get_lanes_and_their_messages_keep_their_order() {
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    contend(&mailbox, &poster, &clone, || clone.stats().lanes >= 2);
    let stats = clone.stats();
    assert_eq!(stats.posted, mailbox.stats().retrieved);
    // Lanes are used again by the threads that come next.
    contend(&mailbox, &poster, &clone, || clone.stats().posted > 2 * stats.posted);
    assert!(clone.stats().lanes <= THREADS);
}

#[test]
fn threads_of_the_owner_get_lanes_too() {
    let (_broker, [here]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = mailbox.clone_here().unwrap();
    contend(&mailbox, &here, &clone, || mailbox.stats().lanes >= 2);
}

#[test]
fn a_mail_box_with_little_room_has_no_lanes() {
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox_with(Some("box"), &MailboxOptions { messages: 8, ..MailboxOptions::default() }).unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    contend(&mailbox, &poster, &clone, || clone.stats().posted > 20_000);
    assert_eq!(clone.stats().lanes, 0);
}

/// Threads of `poster` post to `mailbox` until they are refused, which `end` sees to once there are lanes; why they
/// were.
fn refused(mailbox: &Mailbox, poster: &Node, clone: &MailboxClone, end: impl FnOnce()) -> Vec<ErrorKind> {
    std::thread::scope(|scope| {
        let threads: [_; THREADS as usize] = std::array::from_fn(|thread| {
            scope.spawn(move || {
                let mut stream = Stream::new(poster, clone, thread as u64);
                loop {
                    if let Err(error) = stream.post(8) {
                        break error.kind();
                    }
                }
            })
        });
        while clone.stats().lanes == 0 {
            mailbox.retrieve(SOON).unwrap();
        }
        end();
        threads.map(|thread| thread.join().unwrap()).into()
    })
}

#[test]
fn a_mail_box_that_is_closed_ends_its_lanes() {
    let (_broker, [here, poster]) = job_of();
    for _ in 0..5 {
        let mailbox = here.mailbox("box").unwrap();
        let clone = poster.clone_mailbox("box", SOON).unwrap();
        let refused = refused(&mailbox, &poster, &clone, || mailbox.close());
        assert_eq!(refused, [ErrorKind::Closed; THREADS as usize]);
    }
}

#[test]
fn threads_of_a_node_that_leaves_are_told_in_their_lanes() {
    let (_broker, [here, poster]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let clone = poster.clone_mailbox("box", SOON).unwrap();
    let refused = refused(&mailbox, &poster, &clone, || here.leave().unwrap());
    assert!(refused.iter().all(|kind| *kind != ErrorKind::Timeout), "{refused:?}");
}
