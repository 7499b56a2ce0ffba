//! What a node under test does with shared segments, mutexes, condition variables, barriers and counters.
//!
//! A thing is opened when it is first named and stays open until the process ends, segments and counters until they are
//! closed. Locks belong to lanes, as every lane is a thread.
//!
//! | command | what it does, and the words of its answer |
//! |---|---|
//! | `segment-create NAME BYTES HOME` | creates a segment; HOME -1: here |
//! | `segment-open NAME TIME` | opens one; its size and home |
//! | `segment-write NAME OFFSET COUNT BYTE` | writes bytes that are all the same |
//! | `segment-read NAME OFFSET` | one byte |
//! | `segment-close NAME` | lets go of it |
//! | `lock NAME TIME` | locks a mutex |
//! | `unlock NAME` | unlocks it |
//! | `await CONDITION MUTEX TIME` | waits in a condition variable |
//! | `signal CONDITION`, `broadcast CONDITION` | wakes one, or all |
//! | `barrier NAME SIZE TIME` | waits at a barrier; whether it was the last |
//! | `add NAME AMOUNT` | adds to a counter; its value |
//! | `wait-for NAME AMOUNT TIME` | waits for a counter; its value |
//! | `counter-close NAME` | lets go of it |
//! | `take NAME TIME`, `give NAME` | waits for a semaphore of this node, which begins with 0; adds to it |
//! | `work NAME TIMES` | so often adds one to each of two numbers, in a segment, under a mutex, and repairs them after a death; a note after each, and how often it repaired |

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deck::shared::{Barrier, Condition, Counter, Mutex as JobMutex, Segment};
use deck::{Error, ErrorKind, Node, NodeId, Semaphore};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::program::{Outcome, Words};

/// What this node has open.
#[derive(Default)]
pub(crate) struct Named {
    segments: Mutex<HashMap<String, Arc<Segment>>>,
    mutexes: Mutex<HashMap<String, Arc<JobMutex>>>,
    conditions: Mutex<HashMap<String, Arc<Condition>>>,
    barriers: Mutex<HashMap<String, Arc<Barrier>>>,
    counters: Mutex<HashMap<String, Arc<Counter>>>,
    semaphores: Mutex<HashMap<String, Arc<Semaphore>>>,
}

type Opened<T> = Mutex<HashMap<String, Arc<T>>>;

fn open<T>(opened: &Opened<T>, name: &str, open: impl FnOnce() -> deck::Result<T>) -> Result<Arc<T>, Failure> {
    if let Some(found) = lock(opened).get(name) {
        return Ok(found.clone());
    }
    let fresh = Arc::new(open()?);
    lock(opened).insert(name.to_string(), fresh.clone());
    Ok(fresh)
}

/// A word of a segment.
pub(crate) fn word(segment: &Segment, place: usize) -> Result<u64, Error> {
    let mut bytes = [0; 8];
    segment.read(8 * place, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

pub(crate) fn set_word(segment: &Segment, place: usize, value: u64) -> Result<(), Error> {
    segment.write(8 * place, &value.to_ne_bytes())
}

fn done(result: deck::Result<()>) -> Outcome {
    Ok(result.map(|()| String::new())?)
}

impl Named {
    /// Obeys a command about such things; `None` if it is about something else.
    pub fn obey(
        &self,
        node: &Node,
        command: &str,
        words: &mut Words<'_>,
        note: &dyn Fn(String),
    ) -> Result<Option<String>, Failure> {
        let answer = match command {
            "segment-create" | "segment-open" | "segment-write" | "segment-read" | "segment-close" => {
                self.segment(node, command, words)
            }
            "lock" => done(self.mutex(node, words.next()?)?.lock_unguarded(words.time()?)),
            "unlock" => done(self.mutex(node, words.next()?)?.unlock()),
            "await" => {
                let condition = self.condition(node, words.next()?)?;
                let mutex = self.mutex(node, words.next()?)?;
                done(condition.wait_unguarded(&mutex, words.time()?))
            }
            "signal" => done(self.condition(node, words.next()?)?.signal()),
            "broadcast" => done(self.condition(node, words.next()?)?.broadcast()),
            "barrier" => {
                let (name, size) = (words.next()?, words.number()?);
                let barrier = open(&self.barriers, name, || Barrier::open(node, name, size))?;
                Ok(barrier.wait(words.time()?)?.to_string())
            }
            "add" => Ok(self.counter(node, words.next()?)?.add(words.number()?)?.to_string()),
            "wait-for" => Ok(self.counter(node, words.next()?)?.wait_for(words.number()?, words.time()?)?.to_string()),
            "counter-close" => {
                let name = words.next()?;
                let closed = lock(&self.counters).remove(name);
                closed.map(|_| String::new()).ok_or_else(|| Failure::finding(format!("no counter {name}")))
            }
            "take" => done(self.semaphore(words.next()?)?.wait(words.time()?)),
            "give" => done(self.semaphore(words.next()?)?.post()),
            "work" => self.work(node, words.next()?, words.number()?, note),
            _ => return Ok(None),
        };
        answer.map(Some)
    }

    fn mutex(&self, node: &Node, name: &str) -> Result<Arc<JobMutex>, Failure> {
        open(&self.mutexes, name, || JobMutex::open(node, name))
    }

    fn condition(&self, node: &Node, name: &str) -> Result<Arc<Condition>, Failure> {
        open(&self.conditions, name, || Condition::open(node, name))
    }

    fn counter(&self, node: &Node, name: &str) -> Result<Arc<Counter>, Failure> {
        open(&self.counters, name, || Counter::open(node, name))
    }

    fn semaphore(&self, name: &str) -> Result<Arc<Semaphore>, Failure> {
        open(&self.semaphores, name, || Ok(Semaphore::new(0)))
    }

    fn segment_of(&self, name: &str) -> Result<Arc<Segment>, Failure> {
        let found = lock(&self.segments).get(name).cloned();
        found.ok_or_else(|| Failure::finding(format!("no segment {name}")))
    }

    fn segment(&self, node: &Node, command: &str, words: &mut Words<'_>) -> Outcome {
        let name = words.next()?;
        match command {
            "segment-create" => {
                let (bytes, home) = (words.number()?, words.number::<i64>()?);
                let home = u32::try_from(home).ok().map(NodeId);
                let segment = Segment::create(node, name, bytes, home)?;
                lock(&self.segments).insert(name.to_string(), Arc::new(segment));
                Ok(String::new())
            }
            "segment-open" => {
                let segment = Segment::open(node, name, words.time()?)?;
                let answer = format!("{} {}", segment.len(), segment.home().0);
                lock(&self.segments).insert(name.to_string(), Arc::new(segment));
                Ok(answer)
            }
            "segment-write" => {
                let (offset, count, byte) = (words.number()?, words.number()?, words.number()?);
                done(self.segment_of(name)?.write(offset, &vec![byte; count]))
            }
            "segment-read" => {
                let mut byte = [0];
                self.segment_of(name)?.read(words.number()?, &mut byte)?;
                Ok(byte[0].to_string())
            }
            _ => {
                let closed = lock(&self.segments).remove(name);
                closed.map(|_| String::new()).ok_or_else(|| Failure::finding(format!("no segment {name}")))
            }
        }
    }

    fn work(&self, node: &Node, name: &str, times: u64, note: &dyn Fn(String)) -> Outcome {
        let (segment, mutex) = (self.segment_of(name)?, self.mutex(node, name)?);
        let mut repaired = 0;
        for _ in 0..times {
            match mutex.lock_unguarded(crate::SOON) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::OwnerDied => {
                    // Whoever died may have come as far as the first of the two.
                    set_word(&segment, 1, word(&segment, 0)?)?;
                    repaired += 1;
                }
                Err(error) => return Err(error.into()),
            }
            let [first, second] = [word(&segment, 0)?, word(&segment, 1)?];
            if first != second {
                return Err(Failure::finding(format!("{first} and {second}, and nobody died")));
            }
            set_word(&segment, 0, first + 1)?;
            set_word(&segment, 1, second + 1)?;
            mutex.unlock()?;
            note(String::new());
        }
        Ok(repaired.to_string())
    }
}
