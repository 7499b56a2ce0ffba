//! A queue that threads of several nodes share: in a segment, under a mutex, with a condition for those who wait for room and one for
//! those who wait for numbers.
//!
//! Whoever is killed inside leaves two counts that differ, which the next one is told of and mends. All wait, now and then, for a moment
//! only, and try again.
//!
//! | command | what it does, and the words of its answer |
//! |---|---|
//! | `queue-create NAME`, `queue-open NAME` | creates one; opens it |
//! | `queue-put NAME SEED MAKER` | puts numbers of this maker into it until it is ended; how many |
//! | `queue-take NAME SEED MAKER` | takes numbers until it is ended and empty; how many |
//! | `queue-end NAME` | ends it |
//! | `queue-close NAME` | lets go of it |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deck::shared::{Condition, Mutex as JobMutex, Segment};
use deck::{ErrorKind, Node};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::chance::Chance;
use crate::program::{Outcome, Words};

/// Numbers that fit.
const ROOM: u64 = 4;
/// Nobody has to wait for so long.
const TIME: Duration = Duration::from_secs(60);

/// The words of the segment.
mod word {
    /// Counts everything that is done, before it is done.
    pub const BEGUN: usize = 0;
    /// The same, when it is done.
    pub const DONE: usize = 1;
    pub const TAKEN: usize = 2;
    pub const PUT: usize = 3;
    pub const IS_ENDED: usize = 4;
    pub const NUMBERS: usize = 8;
    pub const COUNT: usize = NUMBERS + super::ROOM as usize;
}

/// The queues that this node has open.
#[derive(Default)]
pub(crate) struct Queues {
    open: Mutex<HashMap<String, Arc<Queue>>>,
}

struct Queue {
    segment: Segment,
    mutex: JobMutex,
    room: Condition,
    filled: Condition,
}

impl Queues {
    /// Obeys a command about queues; `None` if it is about something else.
    pub fn obey(&self, node: &Node, command: &str, words: &mut Words<'_>) -> Result<Option<String>, Failure> {
        let answer = match command {
            "queue-create" => {
                let name = words.next()?;
                self.keep(node, name, Segment::create(node, name, 8 * word::COUNT, None)?)
            }
            "queue-open" => {
                let name = words.next()?;
                self.keep(node, name, Segment::open(node, name, TIME)?)
            }
            "queue-put" => self.queue(words.next()?)?.put_all(Chance::new(words.number()?), words.number()?),
            "queue-take" => self.queue(words.next()?)?.take_all(Chance::new(words.number()?)),
            "queue-end" => self.queue(words.next()?)?.end(),
            "queue-close" => {
                lock(&self.open).remove(words.next()?);
                Ok(String::new())
            }
            _ => return Ok(None),
        };
        answer.map(Some)
    }

    fn keep(&self, node: &Node, name: &str, segment: Segment) -> Outcome {
        let queue = Queue {
            segment,
            mutex: JobMutex::open(node, name)?,
            room: Condition::open(node, &format!("{name}, room"))?,
            filled: Condition::open(node, &format!("{name}, filled"))?,
        };
        lock(&self.open).insert(name.to_string(), Arc::new(queue));
        Ok(String::new())
    }

    fn queue(&self, name: &str) -> Result<Arc<Queue>, Failure> {
        lock(&self.open).get(name).cloned().ok_or_else(|| Failure::finding(format!("no queue {name}")))
    }
}

impl Queue {
    fn read(&self, word: usize) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        self.segment.read(8 * word, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn write(&self, word: usize, value: u64) -> Result<(), Failure> {
        Ok(self.segment.write(8 * word, &value.to_ne_bytes())?)
    }

    /// Puts numbers of `maker` into it, each larger than the one before, until it is ended.
    fn put_all(&self, chance: Chance, maker: u32) -> Outcome {
        let mut worker = Worker { queue: self, chance };
        let mut put = 0u64;
        loop {
            worker.enter()?;
            while self.len()? == ROOM && !self.is_ended()? {
                worker.wait(&self.room)?;
            }
            if self.is_ended()? {
                break;
            }
            let at = self.read(word::PUT)?;
            self.change(|| {
                self.write(word::NUMBERS + (at % ROOM) as usize, u64::from(maker) << 32 | put)?;
                self.write(word::PUT, at + 1)
            })?;
            put += 1;
            worker.tell_and_leave(&self.filled)?;
        }
        self.mutex.unlock()?;
        Ok(put.to_string())
    }

    /// Takes numbers until it is ended and empty. Those of each maker come in their order.
    fn take_all(&self, chance: Chance) -> Outcome {
        let mut worker = Worker { queue: self, chance };
        let mut last: HashMap<u64, u64> = HashMap::new();
        let mut taken = 0u64;
        loop {
            worker.enter()?;
            while self.len()? == 0 && !self.is_ended()? {
                worker.wait(&self.filled)?;
            }
            if self.len()? == 0 {
                break;
            }
            let at = self.read(word::TAKEN)?;
            let number = self.read(word::NUMBERS + (at % ROOM) as usize)?;
            self.change(|| self.write(word::TAKEN, at + 1))?;
            let (maker, number) = (number >> 32, number & u64::from(u32::MAX));
            if let Some(last) = last.insert(maker, number)
                && last >= number
            {
                return Err(Failure::finding(format!("number {number} of maker {maker} came after {last}")));
            }
            taken += 1;
            worker.tell_and_leave(&self.room)?;
        }
        self.mutex.unlock()?;
        Ok(taken.to_string())
    }

    fn end(&self) -> Outcome {
        Worker { queue: self, chance: Chance::new(0) }.enter()?;
        self.write(word::IS_ENDED, 1)?;
        self.room.broadcast()?;
        self.filled.broadcast()?;
        self.mutex.unlock()?;
        Ok(String::new())
    }

    fn len(&self) -> Result<u64, Failure> {
        Ok(self.read(word::PUT)? - self.read(word::TAKEN)?)
    }

    fn is_ended(&self) -> Result<bool, Failure> {
        Ok(self.read(word::IS_ENDED)? != 0)
    }

    fn change(&self, change: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let before = self.read(word::BEGUN)?;
        self.write(word::BEGUN, before + 1)?;
        change()?;
        self.write(word::DONE, before + 1)
    }

    /// Nobody else is inside, and nobody died there.
    fn check(&self) -> Result<(), Failure> {
        let (begun, done) = (self.read(word::BEGUN)?, self.read(word::DONE)?);
        if begun == done {
            return Ok(());
        }
        Err(Failure::finding(format!("{begun} changes have begun and {done} are done, and nobody died")))
    }

    /// After a death inside: whom the dead one would have told is told.
    fn mend(&self) -> Result<(), Failure> {
        self.write(word::DONE, self.read(word::BEGUN)?)?;
        self.room.broadcast()?;
        Ok(self.filled.broadcast()?)
    }
}

/// A thread that works with a queue.
struct Worker<'a> {
    queue: &'a Queue,
    chance: Chance,
}

impl Worker<'_> {
    /// All of the time, or now and then a moment.
    fn time(&mut self) -> Duration {
        match self.chance.below(4) {
            0 => Duration::from_micros(self.chance.below(2_000) as u64),
            _ => TIME,
        }
    }

    fn enter(&mut self) -> Result<(), Failure> {
        loop {
            let time = self.time();
            match self.queue.mutex.lock_unguarded(time).map_err(|error| (error.kind(), error)) {
                Ok(()) => return self.queue.check(),
                Err((ErrorKind::OwnerDied, _)) => return self.queue.mend(),
                Err((ErrorKind::Timeout, _)) if time < TIME => {}
                Err((_, error)) => return Err(error.into()),
            }
        }
    }

    /// Waits in a condition, inside before and after.
    fn wait(&mut self, condition: &Condition) -> Result<(), Failure> {
        let time = self.time();
        let ended = condition.wait_unguarded(&self.queue.mutex, time);
        match ended.map_err(|error| (error.kind(), error)) {
            Ok(()) => self.queue.check(),
            Err((ErrorKind::OwnerDied, _)) => self.queue.mend(),
            Err((ErrorKind::Timeout, _)) if time < TIME => self.queue.check(),
            Err((ErrorKind::NotLocked, _)) if time < TIME => self.enter(),
            Err((_, error)) => Err(error.into()),
        }
    }

    /// Tells one who waits there, or all.
    fn tell_and_leave(&mut self, condition: &Condition) -> Result<(), Failure> {
        match self.chance.below(8) {
            0 => condition.broadcast()?,
            _ => condition.signal()?,
        }
        Ok(self.queue.mutex.unlock()?)
    }
}
