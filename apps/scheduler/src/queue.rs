//! A first-in, first-out queue of tasks in a shared segment.
//!
//! Producers take turns at its tail and consumers at its head, each under a mutex of their own, so that putting in and
//! taking out go on at the same time (the two-lock queue of Michael and Scott, 1996). How many tasks were ever put in
//! and taken out is told by two counters: whoever finds no room waits for the second one.

use deck::shared::{Counter, Mutex, Segment};
use deck::{Error, ErrorKind, Node, NodeId, Result};

use crate::patience::Patience;
use crate::task::{TASK_BYTES, Task};

/// A queue, as a node has it open.
pub struct Queue {
    patience: Patience,
    segment: Segment,
    slots: u64,
    tail: Mutex,
    head: Mutex,
    put_in: Counter,
    taken_out: Counter,
}

/// Name of queue `number`, and the beginning of the names of its parts.
pub fn name(number: usize) -> String {
    format!("q{number}")
}

/// Creates the memory of a queue in the memory of `home`. It is there as long as any process has the queue open.
///
/// # Errors
/// Those of [`Segment::create`], except that time runs out, and of [`Patience::check`].
pub fn create(node: &Node, patience: &Patience, number: usize, slots: u32, home: NodeId) -> Result<Segment> {
    // It has a time of its own.
    patience.wait(|_| Segment::create(node, &name(number), slots as usize * TASK_BYTES, Some(home)))
}

impl Queue {
    /// Opens a queue that node 0 has created or is going to.
    ///
    /// # Errors
    /// Those of [`Segment::open`], except that time runs out, and of [`Patience::check`].
    pub fn open(node: &Node, patience: &Patience, number: usize) -> Result<Queue> {
        let name = name(number);
        // Each time whoever has it is asked anew: a stopped node answers all of these questions when it goes on.
        let segment = patience.wait(|time| Segment::open(node, &name, time))?;
        let mutex = |end: &str| Mutex::open(node, &format!("{name} {end}"));
        let counter = |what: &str| Counter::open(node, &format!("{name} {what}"));
        Ok(Queue {
            patience: patience.clone(),
            slots: (segment.len() / TASK_BYTES) as u64,
            segment,
            tail: mutex("tail")?,
            head: mutex("head")?,
            put_in: counter("put in")?,
            taken_out: counter("taken out")?,
        })
    }

    /// How many tasks were ever taken out.
    ///
    /// # Errors
    /// Those of [`Counter::read`].
    pub fn taken_out(&self) -> Result<u64> {
        Ok(self.taken_out.read()?.unsigned_abs())
    }

    fn offset(&self, place: u64) -> usize {
        (place % self.slots) as usize * TASK_BYTES
    }

    /// Puts a task in at the tail, and gives its place in the order of all that ever were in the queue. Waits for room.
    ///
    /// # Errors
    /// [`ErrorKind::PeerLost`] and [`ErrorKind::OwnerDied`] if a node dies that uses the queue.
    pub fn put(&self, task: &[u8; TASK_BYTES]) -> Result<u64> {
        let _turn = self.patience.wait(|time| Ok(self.tail.lock(time)?))?;
        let place = self.put_in.read()?;
        let room_after = place + 1 - self.slots.cast_signed();
        self.patience.wait(|time| self.taken_out.wait_for(room_after, time))?;
        let place = place.unsigned_abs();
        self.segment.write(self.offset(place), task)?;
        self.put_in.add(1)?;
        Ok(place)
    }

    /// Takes the task at the head out and runs it: which it was, and its place. `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::OwnerDied`] if a node died while it took a task; [`ErrorKind::Corrupt`] for a task that is not
    /// whole.
    pub fn take(&self) -> Result<Option<(Task, u64)>> {
        let mut task = [0; TASK_BYTES];
        let place = {
            let _turn = self.patience.wait(|time| Ok(self.head.lock(time)?))?;
            let place = self.taken_out.read()?;
            if place == self.put_in.read()? {
                return Ok(None);
            }
            let place = place.unsigned_abs();
            self.segment.read(self.offset(place), &mut task)?;
            self.taken_out.add(1)?;
            place
        };
        let ran = Task::run(&task).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("task {place} of {} is not what was put in", self.segment.name()))
        })?;
        Ok(Some((ran, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_come_out_in_the_order_in_which_they_went_in_round_and_round() {
        let node = Node::join().unwrap();
        let patience = Patience::new(&node, 1);
        let _memory = create(&node, &patience, 0, 3, node.number()).unwrap();
        let [one, other] = [(); 2].map(|()| Queue::open(&node, &patience, 0).unwrap());
        let tasks: Vec<Task> = Task::all_of(0, 60).collect();
        for (round, tasks) in tasks.chunks(3).enumerate() {
            for (index, task) in tasks.iter().enumerate() {
                assert_eq!(one.put(&task.bytes()).unwrap(), (3 * round + index) as u64);
            }
            for (index, task) in tasks.iter().enumerate() {
                assert_eq!(other.take().unwrap(), Some((*task, (3 * round + index) as u64)));
            }
            assert_eq!(one.take().unwrap(), None);
        }
    }

    #[test]
    fn whoever_finds_no_room_goes_on_when_there_is_some() {
        let node = Node::join().unwrap();
        let patience = Patience::new(&node, 1);
        let _memory = create(&node, &patience, 1, 2, node.number()).unwrap();
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let queue = Queue::open(&node, &patience, 1).unwrap();
                Task::all_of(0, 300).for_each(|task| assert!(queue.put(&task.bytes()).unwrap() < 300));
            });
            let queue = Queue::open(&node, &patience, 1).unwrap();
            for task in Task::all_of(0, 300) {
                let taken = std::iter::repeat_with(|| queue.take().unwrap()).find_map(|taken| taken);
                assert_eq!(taken.map(|(task, _)| task), Some(task));
            }
            producer.join().unwrap();
        });
    }
}
