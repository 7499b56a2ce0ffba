//! What is scheduled: tasks of three priorities, whose bytes say which they are.

/// Bytes of a task.
pub const TASK_BYTES: usize = 2048;
/// Queues, one for each priority; 0 is the highest.
pub const QUEUES: usize = 3;
/// How many tasks of each priority a producer has in six, and a consumer takes in a round.
pub const ROUND: [usize; QUEUES] = [3, 2, 1];
/// Bytes of a task that say which it is.
const HEADER: usize = 16;

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Which producer's, from 0.
    pub producer: u32,
    /// Its number among those of its producer, from 0.
    pub number: u32,
}

impl Task {
    /// The tasks of a producer, in the order in which it hands them out.
    pub fn all_of(producer: u32, count: u64) -> impl Iterator<Item = Task> {
        (0..count as u32).map(move |number| Task { producer, number })
    }

    /// Its priority, which is the number of its queue: three of 0, two of 1, one of 2, and again.
    pub fn priority(self) -> usize {
        let place = self.number as usize % ROUND.iter().sum::<usize>();
        (0..QUEUES).find(|queue| place < ROUND[..=*queue].iter().sum()).expect("a place in the round")
    }

    /// One word for it.
    pub fn to_word(self) -> u64 {
        u64::from(self.producer) << 32 | u64::from(self.number)
    }

    /// The task of such a word.
    pub fn from_word(word: u64) -> Task {
        Task { producer: (word >> 32) as u32, number: word as u32 }
    }

    /// Its bytes: who it is, and a content that follows from that.
    pub fn bytes(self) -> [u8; TASK_BYTES] {
        let mut bytes = [0; TASK_BYTES];
        bytes[..8].copy_from_slice(&self.to_word().to_le_bytes());
        bytes[8..HEADER].copy_from_slice(&(self.priority() as u64).to_le_bytes());
        for (index, chunk) in bytes[HEADER..].chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.word(index).to_le_bytes());
        }
        bytes
    }

    /// Runs a task that was taken out of a queue: calculates its content again and compares. `None` if it is not whole.
    pub fn run(bytes: &[u8; TASK_BYTES]) -> Option<Task> {
        let word = u64::from_le_bytes(bytes[..8].try_into().ok()?);
        let task = Task::from_word(word);
        (task.bytes() == *bytes).then_some(task)
    }

    /// Word `index` of its content (the mixing step of SplitMix64).
    fn word(self, index: usize) -> u64 {
        let word = (self.to_word() ^ (index as u64) << 48).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_producer_has_half_a_third_and_a_sixth_of_the_priorities() {
        let mut counts = [0; QUEUES];
        Task::all_of(1, 600).for_each(|task| counts[task.priority()] += 1);
        assert_eq!(counts, [300, 200, 100]);
        let first: Vec<usize> = Task::all_of(0, 7).map(Task::priority).collect();
        assert_eq!(first, [0, 0, 0, 1, 1, 2, 0]);
    }

    #[test]
    fn a_task_says_who_it_is_and_every_damage_is_seen() {
        let task = Task { producer: 1, number: 599 };
        let mut bytes = task.bytes();
        assert_eq!(Task::run(&bytes), Some(task));
        for at in (0..TASK_BYTES).step_by(97) {
            bytes[at] ^= 4;
            assert_eq!(Task::run(&bytes), None, "byte {at}");
            bytes[at] ^= 4;
        }
    }
}
