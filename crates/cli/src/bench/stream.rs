//! A stream: one side posts as fast as it can, the other counts what it retrieves.
//!
//! The sender keeps the time and closes with a message of another size. The receiver counts in a window that begins and ends
//! inside the stream, so neither the start nor the end of anything is in the rate.

use std::hint::black_box;
use std::time::{Duration, Instant};

use deck::{Mailbox, MailboxClone, Message, Node};

use super::nodes::LOST;

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

    /// How many messages go between two looks at the clock: enough that looking costs nothing.
    fn stride(&self) -> u64 {
        if self.bytes > 64 << 10 { 1 } else { 64 }
    }

    /// Posts for as long as it lasts.
    pub fn send(&self, node: &Node, to: &MailboxClone) -> deck::Result<()> {
        let mut message = node.message();
        message.resize(self.bytes)?;
        let start = Instant::now();
        // Longer than the receiver counts, whoever began first.
        while start.elapsed() < self.warm_up * 2 + self.time {
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

    /// As [`Stream::receive`], with a warm-up that began at `begin`: threads that begin together have the same window, and
    /// their rates can be added up.
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
                    black_box(super::pingpong::sum(black_box(message.as_bytes())));
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

/// The time in which things count: the same for all threads that begin together, whether or not they were running.
pub struct Window {
    begin: Instant,
    end: Instant,
    from: Option<u64>,
    to: Option<u64>,
}

impl Window {
    /// The window of `time` behind a warm-up that begins at `begin`.
    pub fn new(begin: Instant, warm_up: Duration, time: Duration) -> Window {
        Window { begin: begin + warm_up, end: begin + warm_up + time, from: None, to: None }
    }

    /// Tells how many there have been until now. True once the window is over.
    pub fn look(&mut self, count: u64, now: Instant) -> bool {
        if now >= self.begin {
            self.from.get_or_insert(count);
        }
        if now >= self.end {
            self.to.get_or_insert(count);
        }
        self.to.is_some()
    }

    /// There will be no more: the window ends here, unless it is over.
    pub fn close(&mut self, count: u64, now: Instant) {
        if !self.look(count, now) {
            self.end = now;
            self.to = Some(count);
        }
    }

    /// How many a second.
    pub fn rate(&self) -> f64 {
        let (Some(from), Some(to)) = (self.from, self.to) else { return 0.0 };
        (to - from) as f64 / (self.end - self.begin).as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(looks: &[(u64, u64)], closed: (u64, u64)) -> f64 {
        let start = Instant::now();
        let mut window = Window::new(start, Duration::from_secs(2), Duration::from_secs(10));
        let at = |seconds| start + Duration::from_secs(seconds);
        for &(count, seconds) in looks {
            window.look(count, at(seconds));
        }
        window.close(closed.0, at(closed.1));
        window.rate()
    }

    #[test]
    fn a_window_counts_from_the_end_of_the_warm_up_to_its_own_end() {
        assert_eq!(rate(&[(64, 1), (100, 2), (192, 7), (400, 12), (9999, 13)], (99_999, 30)), 30.0);
    }

    #[test]
    fn a_thread_that_hardly_ran_has_a_low_rate_over_the_same_window() {
        assert_eq!(rate(&[(64, 11), (164, 40)], (164, 50)), 10.0);
    }

    #[test]
    fn a_stream_that_ends_early_counts_up_to_its_end() {
        assert_eq!(rate(&[(0, 2)], (30, 5)), 10.0);
    }

    #[test]
    fn a_stream_that_ends_before_the_window_counts_nothing() {
        assert_eq!(rate(&[(64, 1)], (64, 1)), 0.0);
    }
}
