//! A course of collectives that a seed decides: which ones all members call, one after the other, and how each of them
//! does.
//!
//! Members wait, try for a moment and call again, or start several calls and do the rest later, with arrays in memory
//! of their own or of the library, and now and then dawdle. Every result is checked.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use deck::group::{Kind, Pending};
use deck::{Element, Error, ErrorKind, Group, Message, Node};

use crate::answer::Failure;
use crate::chance::Chance;
use crate::example::Example;

/// Elements of most calls, of many, and of few.
const COUNTS: [usize; 16] = [5, 5, 5, 5, 5, 5, 5, 700, 700, 700, 700, 5_000, 5_000, 20_000, 60_000, 200_000];

/// How many calls of a course are made again and again, so that members come to try several ways of making them.
const FAVOURITES: usize = 3;

/// Calls that are under way at most.
const STARTED_MAX: usize = 3;

/// A course of one member.
pub struct Course<'a> {
    node: &'a Node,
    group: &'a mut Group,
    /// What is the same in every member.
    common: Chance,
    /// What is this member's own.
    own: Chance,
    /// For each call.
    time: Duration,
    started: VecDeque<Started>,
}

struct Started {
    what: What,
    pending: Pending<u64>,
    expected: Vec<u64>,
}

/// One call of the course.
#[derive(Clone, Copy)]
struct What {
    number: u32,
    kind: Kind,
    count: usize,
    round: u32,
}

impl What {
    fn failed(self, error: Error) -> Failure {
        let failure = Failure::from(error);
        Failure { text: format!("{} ({})", failure.text, self.text()), ..failure }
    }

    fn check(self, got: &[u64], expected: &[u64]) -> Result<(), Failure> {
        let differs = got.iter().zip(expected).position(|(got, expected)| got != expected);
        if got.len() == expected.len() && differs.is_none() {
            return Ok(());
        }
        let (lengths, first) = ((got.len(), expected.len()), differs.map(|at| (at, got[at], expected[at])));
        Err(Failure::finding(format!("{} gave something else: {lengths:?} elements, {first:x?}", self.text())))
    }

    fn text(self) -> String {
        format!("call {}, {} of {} in round {}", self.number, self.kind.name(), self.count, self.round)
    }
}

impl<'a> Course<'a> {
    pub fn new(node: &'a Node, group: &'a mut Group, seed: u64, time: Duration) -> Course<'a> {
        let own = Chance::new(seed ^ u64::from(group.index() + 1) << 32);
        Course { node, group, common: Chance::new(seed), own, time, started: VecDeque::new() }
    }

    /// Makes so many calls.
    pub fn run(mut self, calls: u32) -> Result<(), Failure> {
        let favourites: [_; FAVOURITES] = std::array::from_fn(|_| self.another());
        for number in 0..calls {
            let (kind, count) = match self.common.below(2 * FAVOURITES) {
                favourite if favourite < FAVOURITES => favourites[favourite],
                _ => self.another(),
            };
            let round = self.common.below(4000) as u32;
            self.dawdle();
            self.one(What { number, kind, count, round })?;
        }
        while let Some(started) = self.started.pop_front() {
            self.finish(started)?;
        }
        Ok(())
    }

    /// A kind of call, and a count.
    fn another(&mut self) -> (Kind, usize) {
        let kind = Kind::ALL[self.common.below(Kind::ALL.len())];
        let most = COUNTS[self.common.below(COUNTS.len())];
        // All members' blocks together are as long as one.
        let most = if kind.name().starts_with("all") { most / self.group.size() as usize } else { most };
        (kind, self.common.below(most + 1))
    }

    fn one(&mut self, what: What) -> Result<(), Failure> {
        if what.kind == Kind::Barrier {
            return self.until_done(what, |group, time| group.barrier(time));
        }
        let example = Example::of(self.group, what.kind.name(), what.count, what.round);
        let no_example = || Failure::finding(format!("there is no example of {}", what.text()));
        let Example { call, input, mut output, expected } = example.ok_or_else(no_example)?;
        match self.own.below(8) {
            0 | 1 => {
                let pending = self.group.start(&call, &input, output).map_err(|error| what.failed(error))?;
                self.started.push_back(Started { what, pending, expected });
                let keeps = self.own.below(STARTED_MAX + 1);
                while self.started.len() > keeps
                    && let Some(first) = self.started.pop_front()
                {
                    self.finish(first)?;
                }
                return Ok(());
            }
            2 => {
                let given = self.message(&input).map_err(|error| what.failed(error))?;
                let mut taken = self.message(&output).map_err(|error| what.failed(error))?;
                let bytes = taken.edit().map_err(|error| what.failed(error))?;
                self.until_done(what, |group, time| group.call(&call, given.as_bytes(), bytes, time))?;
                u64::as_bytes_mut(&mut output).copy_from_slice(taken.as_bytes());
            }
            _ => {
                let bytes = u64::as_bytes_mut(&mut output);
                self.until_done(what, |group, time| group.call(&call, u64::as_bytes(&input), bytes, time))?;
            }
        }
        what.check(&output, &expected)
    }

    fn message(&self, content: &[u64]) -> Result<Message, Error> {
        let mut message = self.node.message();
        message.resize(size_of_val(content))?;
        message.edit()?.copy_from_slice(u64::as_bytes(content));
        Ok(message)
    }

    fn finish(&mut self, started: Started) -> Result<(), Failure> {
        let Started { what, mut pending, expected } = started;
        let mut looks = self.own.below(40);
        let got: Vec<u64> = loop {
            if looks == 0 {
                break self.until_done(what, |group, time| pending.wait(group, time))?;
            }
            looks -= 1;
            if let Some(got) = pending.test(self.group).map_err(|error| what.failed(error))? {
                break got;
            }
            std::thread::yield_now();
        };
        what.check(&got, &expected)
    }

    /// Calls, now and then for a moment only, until it is done or all of the time is over.
    fn until_done<T>(
        &mut self,
        what: What,
        mut call: impl FnMut(&mut Group, Duration) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + self.time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let moment = match self.own.below(8) {
                0 => Duration::from_micros(self.own.below(2_000) as u64),
                _ => left,
            };
            match call(self.group, moment.min(left)) {
                Err(error) if error.kind() == ErrorKind::Timeout && moment < left => {}
                ended => return ended.map_err(|error| what.failed(error)),
            }
        }
    }

    fn dawdle(&mut self) {
        match self.own.below(32) {
            0 => std::thread::park_timeout(Duration::from_micros(self.own.below(1_500) as u64)),
            1..4 => std::thread::yield_now(),
            _ => {}
        }
    }
}
