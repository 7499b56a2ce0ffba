//! A stream: one side posts as fast as it can, the other counts what it retrieves.
//!
//! The sender keeps the time and closes with a message of another size. The receiver counts in a window that begins and ends
//! inside the stream, so neither the start nor the end of anything is in the rate.

use std::hint::black_box;
use std::time::{Duration, Instant};

use deck::{Mailbox, MailboxClone, Node};

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
        let mut ended = 0;
        let mut window = Window { warm_up: self.warm_up, time: self.time, from: None, to: None };
        let mut count = 0u64;
        while ended < senders {
            inbox.retrieve_into(&mut message, LOST)?;
            if message.size() == self.end() {
                ended += 1;
                // The others have less company from here on.
                window.close(count, Instant::now());
                continue;
            }
            if self.is_touched {
                black_box(super::pingpong::sum(black_box(message.as_bytes())));
                message.clear();
            }
            if count.is_multiple_of(self.stride()) {
                window.look(count, Instant::now());
            }
            count += 1;
        }
        Ok(window.rate())
    }
}

/// The time in which messages count. It ends when somebody looks, not when it should: a thread that was not running then has
/// the time in which it was not running in its rate.
struct Window {
    warm_up: Duration,
    time: Duration,
    from: Option<(u64, Instant)>,
    to: Option<(u64, Instant)>,
}

impl Window {
    fn look(&mut self, count: u64, now: Instant) {
        let (_, start) = *self.from.get_or_insert((count, now));
        if count > 0 && !self.warm_up.is_zero() && now - start >= self.warm_up {
            // From here on it counts.
            self.from = Some((count, now));
            self.warm_up = Duration::ZERO;
        } else if self.warm_up.is_zero() && now - start >= self.time {
            self.close(count, now);
        }
    }

    fn close(&mut self, count: u64, now: Instant) {
        self.to.get_or_insert((count, now));
    }

    fn rate(&self) -> f64 {
        let (Some((first, start)), Some((last, end))) = (self.from, self.to) else { return 0.0 };
        (last - first) as f64 / (end - start).as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_counts_after_the_warm_up_and_includes_a_stall_at_its_end() {
        let [warm_up, time] = [2, 10].map(Duration::from_secs);
        let mut window = Window { warm_up, time, from: None, to: None };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        for (count, seconds) in [(0, 0), (64, 1), (128, 2), (192, 7), (528, 22), (9999, 23)] {
            window.look(count, at(seconds));
        }
        window.close(99_999, at(30));
        assert_eq!(window.rate(), 20.0);
    }

    #[test]
    fn a_stream_that_ends_early_counts_up_to_its_end() {
        let mut window = Window { warm_up: Duration::ZERO, time: Duration::from_secs(10), from: None, to: None };
        let start = Instant::now();
        window.look(0, start);
        window.close(30, start + Duration::from_secs(3));
        assert_eq!(window.rate(), 10.0);
    }
}
