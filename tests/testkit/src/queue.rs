//! A queue that threads of several nodes share: in a segment, under a mutex, with a condition for those who wait for
//! room and one for those who wait for numbers.
//!
//! Whoever is killed inside leaves two counts that differ, which the next one is told of and mends. Who is impatient
//! waits, now and then, for a moment only, and tries again.
//!
//! | command | what it does, and the words of its answer |
//! |---|---|
//! | `queue-create NAME ROOM`, `queue-open NAME` | creates one with room for so many numbers, 4 at most; opens it |
//! | `queue-put NAME MAKER SEED [impatient]` | puts numbers of this maker into it until it is ended; how many |
//! | `queue-take NAME SEED [impatient]` | takes numbers until it is ended and empty; how many |
//! | `queue-goes-on NAME COUNT` | waits, without touching it, until so many more were taken |
//! | `queue-end NAME` | ends it |
//! | `queue-close NAME` | lets go of it |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deck::shared::{Condition, Mutex as JobMutex, Segment};
use deck::{ErrorKind, Node};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::chance::Chance;
use crate::named;
use crate::program::{Outcome, Words};

/// Numbers that fit at most.
const ROOM_MAX: u64 = 4;
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
    pub const ROOM: usize = 5;
    pub const NUMBERS: usize = 8;
    pub const COUNT: usize = NUMBERS + super::ROOM_MAX as usize;
}

/// The queues that this node has open.
#[derive(Default)]
pub(crate) struct Queues {
    open: Mutex<HashMap<String, Arc<Queue>>>,
}

struct Queue {
    segment: Segment,
    mutex: JobMutex,
    has_room: Condition,
    has_numbers: Condition,
}

impl Queues {
    /// Obeys a command about queues; `None` if it is about something else.
    pub fn obey(&self, node: &Node, command: &str, words: &mut Words<'_>) -> Result<Option<String>, Failure> {
        let answer = match command {
            "queue-create" => {
                let (name, room) = (words.next()?, words.number::<u64>()?);
                let segment = Segment::create(node, name, 8 * word::COUNT, None)?;
                named::set_word(&segment, word::ROOM, room.clamp(1, ROOM_MAX))?;
                self.keep(node, name, segment)
            }
            "queue-open" => {
                let name = words.next()?;
                self.keep(node, name, Segment::open(node, name, TIME)?)
            }
            "queue-put" => {
                let (queue, maker) = (self.queue(words.next()?)?, words.number()?);
                Worker::of(&queue, words)?.put_all(maker)
            }
            "queue-take" => {
                let queue = self.queue(words.next()?)?;
                Worker::of(&queue, words)?.take_all()
            }
            "queue-goes-on" => self.queue(words.next()?)?.goes_on(words.number()?),
            "queue-end" => {
                let queue = self.queue(words.next()?)?;
                Worker { queue: &queue, chance: Chance::new(0), is_impatient: false }.end()
            }
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
            has_room: Condition::open(node, &format!("{name}, room"))?,
            has_numbers: Condition::open(node, &format!("{name}, numbers"))?,
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
        Ok(named::word(&self.segment, word)?)
    }

    fn write(&self, word: usize, value: u64) -> Result<(), Failure> {
        Ok(named::set_word(&self.segment, word, value)?)
    }

    /// Waits until `count` more numbers were taken.
    fn goes_on(&self, count: u64) -> Outcome {
        let (before, began) = (self.read(word::TAKEN)?, Instant::now());
        loop {
            let more = self.read(word::TAKEN)? - before;
            if more >= count {
                return Ok(String::new());
            }
            if began.elapsed() > crate::SOON {
                return Err(Failure::finding(format!(
                    "{more} and not {count} numbers were taken in {:?}",
                    crate::SOON
                )));
            }
            std::thread::yield_now();
        }
    }

    fn len(&self) -> Result<u64, Failure> {
        Ok(self.read(word::PUT)? - self.read(word::TAKEN)?)
    }

    /// Numbers that fit.
    fn room(&self) -> Result<u64, Failure> {
        self.read(word::ROOM)
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
        self.has_room.broadcast()?;
        Ok(self.has_numbers.broadcast()?)
    }
}

/// A thread that works with a queue.
struct Worker<'a> {
    queue: &'a Queue,
    chance: Chance,
    is_impatient: bool,
}

impl<'a> Worker<'a> {
    fn of(queue: &'a Queue, words: &mut Words<'_>) -> Result<Worker<'a>, Failure> {
        let chance = Chance::new(words.number()?);
        Ok(Worker { queue, chance, is_impatient: words.next().is_ok_and(|word| word == "impatient") })
    }

    /// Puts numbers of `maker` into it, each larger than the one before, until it is ended.
    fn put_all(mut self, maker: u32) -> Outcome {
        let queue = self.queue;
        let mut put = 0u64;
        loop {
            self.enter()?;
            while queue.len()? == queue.room()? && !queue.is_ended()? {
                self.wait(&queue.has_room)?;
            }
            if queue.is_ended()? {
                break;
            }
            let at = queue.read(word::PUT)?;
            queue.change(|| {
                queue.write(word::NUMBERS + (at % queue.room()?) as usize, u64::from(maker) << 32 | put)?;
                queue.write(word::PUT, at + 1)
            })?;
            put += 1;
            self.tell_and_leave(&queue.has_numbers)?;
        }
        queue.mutex.unlock()?;
        Ok(put.to_string())
    }

    /// Takes numbers until it is ended and empty. Those of each maker come in their order.
    fn take_all(mut self) -> Outcome {
        let queue = self.queue;
        let mut last: HashMap<u64, u64> = HashMap::new();
        let mut taken = 0u64;
        loop {
            self.enter()?;
            while queue.len()? == 0 && !queue.is_ended()? {
                self.wait(&queue.has_numbers)?;
            }
            if queue.len()? == 0 {
                break;
            }
            let at = queue.read(word::TAKEN)?;
            let number = queue.read(word::NUMBERS + (at % queue.room()?) as usize)?;
            queue.change(|| queue.write(word::TAKEN, at + 1))?;
            let (maker, number) = (number >> 32, number & u64::from(u32::MAX));
            if let Some(last) = last.insert(maker, number)
                && last >= number
            {
                return Err(Failure::finding(format!("number {number} of maker {maker} came after {last}")));
            }
            taken += 1;
            self.tell_and_leave(&queue.has_room)?;
        }
        queue.mutex.unlock()?;
        Ok(taken.to_string())
    }

    fn end(mut self) -> Outcome {
        self.enter()?;
        self.queue.write(word::IS_ENDED, 1)?;
        self.queue.has_room.broadcast()?;
        self.queue.has_numbers.broadcast()?;
        self.queue.mutex.unlock()?;
        Ok(String::new())
    }

    /// All of the time, or a moment.
    fn time(&mut self) -> Duration {
        match self.is_impatient && self.chance.below(4) == 0 {
            true => Duration::from_micros(self.chance.below(2_000) as u64),
            false => TIME,
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
