//! Rounds between two who answer one another.

use std::time::{Duration, Instant};

use deck::{Mailbox, MailboxClone, Message};

use super::clock::{self, Window, mean_ns};
use super::nodes::LOST;

/// Plays with one that [answers](answer) and stops it. Returns the mean time of one way, half a round, in nanoseconds.
pub fn ping(
    message: &mut Message,
    inbox: &Mailbox,
    to: &MailboxClone,
    warm_up: Duration,
    time: Duration,
) -> deck::Result<f64> {
    let bytes = message.size();
    let round = mean_ns(warm_up, time, || {
        to.post_shared(message, LOST)?;
        inbox.retrieve_into(message, LOST)
    })?;
    message.resize(bytes + 1)?;
    to.post_shared(message, LOST)?;
    Ok(round / 2.0)
}

/// Plays with one that [answers](answer) until the window is over, and stops it. Returns messages a second, both ways
/// together.
pub fn ping_in_company(
    message: &mut Message,
    inbox: &Mailbox,
    to: &MailboxClone,
    mut window: Window,
) -> deck::Result<f64> {
    let bytes = message.size();
    let mut rounds = 0;
    while !window.look(rounds, Instant::now()) {
        for _ in 0..clock::ROUNDS {
            to.post_shared(message, LOST)?;
            inbox.retrieve_into(message, LOST)?;
        }
        rounds += clock::ROUNDS;
    }
    message.resize(bytes + 1)?;
    to.post_shared(message, LOST)?;
    Ok(2.0 * window.rate())
}

/// Answers messages of the size that `message` has until one of another size comes.
pub fn answer(message: &mut Message, inbox: &Mailbox, to: &MailboxClone) -> deck::Result<()> {
    let bytes = message.size();
    loop {
        inbox.retrieve_into(message, LOST)?;
        if message.size() != bytes {
            return Ok(());
        }
        to.post_shared(message, LOST)?;
    }
}
