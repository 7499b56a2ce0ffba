//! A stream: one side posts as fast as it can, the other counts what it retrieves.
//!
//! The sender keeps the time and closes with a message of another size. The receiver counts in a window that begins and
//! ends inside the stream, so neither the start nor the end of anything is in the rate.

use std::hint::black_box;
use std::time::{Duration, Instant};

use deck::{Mailbox, MailboxClone, Message, Node};

use super::clock::{self, Window};
use super::nodes::LOST;
use super::reading;

/// What is streamed, and for how long.
#[derive(Clone, Copy)]
pub struct Stream {
    /// Of each message.
    pub bytes: usize,
    /// Whether every byte is written and read.
    pub is_touched: bool,
    /// Before counting.
    pub warm_up: Duration,
    /// While counting.
    pub time: Duration,
}

impl Stream {
    /// The size of the message that ends a stream.
    fn end(&self) -> usize {
        if self.bytes == 1 { 2 } else { 1 }
    }

    /// How many messages go between two looks at the clock.
    fn stride(&self) -> u64 {
        if self.bytes > 64 << 10 { 1 } else { clock::MESSAGES }
    }

    /// Posts for as long as it lasts.
    pub fn send(&self, node: &Node, to: &MailboxClone) -> deck::Result<()> {
        let mut message = node.message();
        message.resize(self.bytes)?;
        let start = Instant::now();
        while start.elapsed() < clock::sending(self.warm_up, self.time) {
            for round in 0..self.stride() {
                if self.is_touched {
                    message.resize(self.bytes)?;
                    message.edit()?.fill(round as u8);
                }
                to.post_shared(&message, LOST)?;
            }
        }
        message.resize(self.end())?;
        to.post_shared(&message, LOST)
    }

    /// Counts until `senders` streams have ended. Returns messages per second.
    pub fn receive(&self, node: &Node, inbox: &Mailbox, senders: usize) -> deck::Result<f64> {
        let mut message = node.message();
        inbox.retrieve_into(&mut message, LOST)?;
        self.receive_since(Instant::now(), message, inbox, senders)
    }

    /// As [`Stream::receive`], with a warm-up that began at `begin`: threads that begin together have the same window,
    /// and their rates can be added up.
    pub fn receive_in_company(&self, begin: Instant, node: &Node, inbox: &Mailbox) -> deck::Result<f64> {
        let mut message = node.message();
        inbox.retrieve_into(&mut message, LOST)?;
        self.receive_since(begin, message, inbox, 1)
    }

    fn receive_since(
        &self,
        begin: Instant,
        mut message: Message,
        inbox: &Mailbox,
        senders: usize,
    ) -> deck::Result<f64> {
        let mut window = Window::new(begin, self.warm_up, self.time);
        let (mut count, mut ended) = (0u64, 0);
        loop {
            if message.size() == self.end() {
                ended += 1;
                // The others have less company from here on.
                window.close(count, Instant::now());
                if ended == senders {
                    return Ok(window.rate());
                }
            } else {
                if self.is_touched {
                    black_box(reading::sum(&message));
                    message.clear();
                }
                count += 1;
                if count.is_multiple_of(self.stride()) {
                    window.look(count, Instant::now());
                }
            }
            inbox.retrieve_into(&mut message, LOST)?;
        }
    }
}
