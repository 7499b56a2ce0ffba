//! What a sleeping thread waits for, so that others can be told.
//!
//! A wait that goes to sleep says what it is about ([`crate::Waiting::about`]); the crowd of its thread notes it where
//! `deck why` finds it ([`crate::Crowd::note`]). A wait that is over before that says nothing: the fast path knows
//! nothing of this file.

use crate::NodeId;

/// How many words a wait has to say more.
pub const FACTS: usize = 8;

macro_rules! goals {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal;)*) => {
        /// What a thread waits for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u64)]
        pub enum Goal { $($(#[$doc])* $name = $code,)* }

        impl Goal {
            /// The goal with this number, if there is one.
            pub fn from_word(word: u64) -> Option<Goal> {
                match word { $($code => Some(Goal::$name),)* _ => None }
            }

            /// Its name in reports.
            pub fn word(self) -> &'static str {
                match self { $(Goal::$name => $word,)* }
            }
        }
    };
}

goals! {
    /// A message in a mail box. Facts: the mail box.
    Message = 1 "retrieve";
    /// A message in one of several mail boxes. Facts: the first of them.
    Messages = 2 "select";
    /// Room in the ring to a mail box. Facts: the mail box.
    Room = 3 "post";
    /// Bytes of this node's budget. Facts: the mail box that is posted to.
    Budget = 4 "budget";
    /// A count of a semaphore. Facts: its address.
    Semaphore = 5 "semaphore";
    /// Somebody who creates a mail box of this name.
    Name = 6 "name";
    /// Being connected with a node.
    Meeting = 7 "meeting";
    /// A ring, from the owner of a mail box. Facts: the mail box.
    Ring = 8 "clone";
    /// A mutex.
    Mutex = 9 "mutex";
    /// A signal of a condition variable.
    Condition = 10 "condition variable";
    /// The others at a barrier that is no group's.
    Barrier = 11 "barrier";
    /// The value of a counter. Facts: 1 if it is to be at least so much, and that; else zeros.
    Counter = 12 "counter";
    /// A shared segment that somebody is to create or to pass. Facts: 1 if the peer is to make it, else 0.
    Segment = 13 "segment";
    /// The members of a group, so that it is formed. Facts: owner and offset of the board, size, 0, index; if the index
    /// is the size: the end of the last group of that name.
    Group = 14 "group";
    /// The members of a group that have not come to a collective. Facts: owner and offset of the board, size, phase,
    /// index, kind; two words that tell for whom it waits.
    Collective = 15 "collective";
    /// The end of a thread of its own node. Facts: that thread, as the system numbers threads; 0 if it is not known.
    Join = 16 "join";
    /// Another thread that joins or leaves a group, which takes no longer than a few stores. Facts: owner and offset of
    /// the board.
    Board = 17 "board";
}

/// What a wait is about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// What is waited for.
    pub goal: Goal,
    /// The one node that can end the wait, if there is one.
    pub peer: Option<NodeId>,
    /// More, as told at each [`Goal`].
    pub facts: [u64; FACTS],
    /// The name of what is waited for; empty without one.
    pub name: &'a str,
    /// When the waiting began, in nanoseconds of the monotonic clock, if that was before this wait; 0 otherwise.
    pub since_ns: u64,
    /// When whoever waits gives up, on the same clock, if that is not the end of this wait; 0 otherwise.
    pub until_ns: u64,
}

impl<'a> About<'a> {
    /// A wait for `goal` at the thing `name`.
    pub fn new(goal: Goal, name: &'a str) -> About<'a> {
        About { goal, peer: None, facts: [0; FACTS], name, since_ns: 0, until_ns: 0 }
    }

    /// With the node that can end it.
    pub fn on(self, peer: NodeId) -> About<'a> {
        About { peer: Some(peer), ..self }
    }

    /// With what there is more to say, at most [`FACTS`] words.
    pub fn with(mut self, facts: impl IntoIterator<Item = u64>) -> About<'a> {
        self.facts.iter_mut().zip(facts).for_each(|(place, fact)| *place = fact);
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_read_as_it_was_written_and_nothing_else_is_one() {
        let known: Vec<Goal> = (0..40).filter_map(Goal::from_word).collect();
        assert!(known.iter().all(|goal| Goal::from_word(*goal as u64) == Some(*goal)));
        assert_eq!((known.len(), Goal::from_word(0), Goal::from_word(u64::MAX)), (17, None, None));
    }
}
