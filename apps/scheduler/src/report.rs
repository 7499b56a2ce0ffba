//! What a process did, and whether all of them together did what they should.

use std::io::{self, Write};
use std::time::Duration;

use deck::{Error, ErrorKind, Message, Result};
use user_interface::memory;

use crate::process::{OF_A_KIND, PROCESSES, Process};
use crate::task::{QUEUES, Task};

/// A task that was put into a queue, or taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which queue.
    pub queue: usize,
    /// Its place in the order of all that ever were in the queue.
    pub place: u64,
    /// Which task.
    pub task: Task,
}

/// What a process did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which process.
    pub process: Process,
    /// From the common start to its end.
    pub time: Duration,
    /// What it put in or took out, in its order: each is one access to the segment of the queue.
    pub done: Vec<Done>,
}

/// Words in front of what was done.
const HEAD: usize = 3;
/// Words for each task that was done.
const WORDS: usize = 3;
/// Tasks that are packed at a time.
const AT_ONCE: usize = 1024;

/// What to do where tasks need more memory than there is.
pub const FEWER: &str = "use fewer --tasks";

/// An empty list with room for `count` values, a certain number for each task.
///
/// # Errors
/// [`ErrorKind::NoMemory`].
pub fn room<T>(count: usize, what: &str) -> Result<Vec<T>> {
    memory::room(count, what, FEWER)
}

impl Report {
    /// How many tasks it wrote into the segment of each queue, or read from there.
    pub fn accesses(&self) -> [usize; QUEUES] {
        std::array::from_fn(|queue| self.done.iter().filter(|done| done.queue == queue).count())
    }

    /// How many bytes it takes in a message.
    pub fn bytes(&self) -> usize {
        (HEAD + WORDS * self.done.len()) * size_of::<u64>()
    }

    /// Packs it into a message.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`].
    pub fn pack(&self, message: &mut Message) -> Result<()> {
        let time = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        let head = [u64::from(self.process.number()), time, self.done.len() as u64];
        message.pack(&head)?;
        let mut words = [[0; WORDS]; AT_ONCE];
        self.done.chunks(AT_ONCE).try_for_each(|some| {
            let some = some.iter().map(|done| [done.queue as u64, done.place, done.task.to_word()]);
            let count = words.iter_mut().zip(some).map(|(words, done)| *words = done).count();
            message.pack(words[..count].as_flattened())
        })
    }

    /// Reads it from a message.
    ///
    /// # Errors
    /// [`ErrorKind::Type`], [`ErrorKind::Truncated`] or [`ErrorKind::Corrupt`] for a message that is no report;
    /// [`ErrorKind::NoMemory`].
    pub fn unpack(message: &mut Message) -> Result<Report> {
        let mut head = [0u64; HEAD];
        message.unpack(&mut head)?;
        let corrupt = || Error::new(ErrorKind::Corrupt, "reading the report of a process");
        let number = u32::try_from(head[0]).ok().filter(|number| *number < PROCESSES).ok_or_else(corrupt)?;
        // The rest of the message bounds the count.
        let count = usize::try_from(head[2])
            .ok()
            .filter(|count| *count <= message.size() / (WORDS * size_of::<u64>()))
            .ok_or_else(corrupt)?;
        let process = Process::from_number(number);
        let mut done = room(count, &format!("the report of {process}"))?;
        let mut words = [[0u64; WORDS]; AT_ONCE];
        while done.len() < count {
            let some = &mut words[..AT_ONCE.min(count - done.len())];
            message.unpack(some.as_flattened_mut())?;
            for &mut [queue, place, task] in some {
                let queue = usize::try_from(queue).ok().filter(|queue| *queue < QUEUES).ok_or_else(corrupt)?;
                done.push(Done { queue, place, task: Task::from_word(task) });
            }
        }
        Ok(Report { process, time: Duration::from_nanos(head[1]), done })
    }
}

/// Writes what each process did, a line for each task: so others can check it too.
///
/// # Errors
/// Those of `file`.
pub fn write_history(reports: &[Report], file: &mut dyn Write) -> io::Result<()> {
    writeln!(file, "process,queue,place,producer,task")?;
    reports.iter().try_for_each(|report| {
        report.done.iter().try_for_each(|Done { queue, place, task: Task { producer, number } }| {
            writeln!(file, "{},{queue},{place},{producer},{number}", report.process)
        })
    })
}

fn is_producer(process: Process) -> bool {
    matches!(process, Process::Producer(_))
}

fn is_consumer(process: Process) -> bool {
    matches!(process, Process::Consumer(_))
}

fn room_to_check<T>(count: usize) -> Result<Vec<T>> {
    room(count, "checking the reports")
}

/// Checks that every task of every producer ran once, and that each queue gave out in the order in which it took in.
///
/// # Errors
/// [`ErrorKind::Corrupt`] saying what is not so: then there is a bug in this program or in DECK;
/// [`ErrorKind::NoMemory`].
pub fn check(reports: &[Report], tasks: u64) -> Result<()> {
    let wrong = |what: String| Err(Error::new(ErrorKind::Corrupt, what).with_remedy("report it: this is a bug"));
    let of = |is_wanted: fn(Process) -> bool| reports.iter().filter(move |report| is_wanted(report.process));
    let mut ran: Vec<Task> = room_to_check(of(is_consumer).map(|report| report.done.len()).sum())?;
    for queue in 0..QUEUES {
        let in_it = |report: &Report| report.done.iter().filter(|done| done.queue == queue).count();
        // The task at each place of the queue's order.
        let mut put_in: Vec<(u64, Task)> = room_to_check(of(is_producer).map(in_it).sum())?;
        for report in of(is_producer) {
            let own = || report.done.iter().filter(|done| done.queue == queue);
            if !own().is_sorted_by_key(|done| done.task.number) || !own().is_sorted_by_key(|done| done.place) {
                return wrong(format!("{} put tasks into queue {queue} in another order than its own", report.process));
            }
            put_in.extend(own().map(|done| (done.place, done.task)));
        }
        let mut taken: Vec<(u64, Task)> = room_to_check(of(is_consumer).map(in_it).sum())?;
        for report in of(is_consumer) {
            let own = || report.done.iter().filter(|done| done.queue == queue);
            if !own().is_sorted_by_key(|done| done.place) {
                return wrong(format!(
                    "{} took tasks out of queue {queue} in another order than it held",
                    report.process
                ));
            }
            taken.extend(own().map(|done| (done.place, done.task)));
        }
        put_in.sort_unstable();
        taken.sort_unstable();
        let places = 0..put_in.len() as u64;
        if !put_in.iter().map(|(place, _)| *place).eq(places) || put_in != taken {
            return wrong(format!("queue {queue} did not give out what it took in, in that order"));
        }
        if let Some((_, task)) = taken.iter().find(|(_, task)| task.priority() != queue) {
            return wrong(format!("{task:?} was in queue {queue}"));
        }
        ran.extend(taken.into_iter().map(|(_, task)| task));
    }
    ran.sort_unstable();
    let all = (0..OF_A_KIND).flat_map(|producer| Task::all_of(producer, tasks));
    if !ran.into_iter().eq(all) {
        return wrong("not every task ran exactly once".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What four processes report when consumer 0 takes the even places and consumer 1 the odd ones.
    fn reports() -> Vec<Report> {
        let mut next = [0; QUEUES];
        let mut reports: Vec<Report> = Process::all()
            .map(|process| Report { process, time: Duration::from_micros(5), done: Vec::new() })
            .collect();
        for producer in 0..OF_A_KIND {
            for task in Task::all_of(producer, 12) {
                let queue = task.priority();
                let done = Done { queue, place: next[queue], task };
                next[queue] += 1;
                reports[(done.place % 2) as usize].done.push(done);
                reports[(OF_A_KIND + producer) as usize].done.push(done);
            }
        }
        reports
    }

    #[test]
    fn a_report_comes_out_of_its_message_as_it_went_in() {
        let node = deck::Node::join().unwrap();
        for report in reports() {
            let mut message = node.message();
            report.pack(&mut message).unwrap();
            assert_eq!(Report::unpack(&mut message).unwrap(), report);
        }
        let mut message = node.message();
        message.pack(&[0u64, 1, 1 << 60]).unwrap();
        assert_eq!(Report::unpack(&mut message).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn what_is_right_passes_and_every_fault_is_found() {
        check(&reports(), 12).unwrap();
        let faults: [fn(&mut Vec<Report>); 6] = [
            // Lost, run twice, out of order, in a wrong queue, another task, not put in.
            |reports| reports[0].done.truncate(1),
            |reports| {
                let twice = reports[0].done[0];
                reports[1].done.insert(0, twice);
            },
            |reports| reports[0].done.swap(0, 1),
            |reports| reports[1].done[0].queue ^= 1,
            |reports| reports[1].done[2].task.number ^= 1,
            |reports| reports[2].done.truncate(3),
        ];
        for (number, fault) in faults.iter().enumerate() {
            let mut reports = reports();
            fault(&mut reports);
            assert_eq!(check(&reports, 12).unwrap_err().kind(), ErrorKind::Corrupt, "fault {number}");
        }
        assert!(check(&reports(), 18).is_err(), "too few");
    }
}
