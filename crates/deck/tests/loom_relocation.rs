//! Model of a place that changes while others read there: what counts was never something else, and all of it is read.
#![cfg(loom)]

use std::sync::Arc;

use deck::protocols::relocation::{moved, read_settled};
use deck_sync::atomic::{AtomicU64, Ordering};
use loom::thread;

const NOWHERE: u64 = 9;

/// Two arrays of two words, and where what is given lies. The model's kernel reads word by word.
struct Memory {
    arrays: [[AtomicU64; 2]; 2],
    place: AtomicU64,
}

impl Memory {
    fn new() -> Memory {
        let of = |value| [(); 2].map(|()| AtomicU64::new(value));
        Memory { arrays: [of(1), of(0)], place: AtomicU64::new(0) }
    }

    fn write(&self, array: usize, value: u64) {
        self.arrays[array].iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }

    /// What lies at the place; `None` where nothing does.
    fn read(&self, place: u64) -> Option<[u64; 2]> {
        let array = self.arrays.get(place as usize)?;
        Some([0, 1].map(|word| array[word].load(Ordering::Relaxed)))
    }
}

/// What somebody reads while the program makes a copy, has its array back, and does what comes `then`.
fn read_while(then: impl FnOnce(&Memory)) -> Option<Option<[u64; 2]>> {
    let memory = Arc::new(Memory::new());
    let reader = thread::spawn({
        let memory = memory.clone();
        move || read_settled(&memory.place, |place| memory.read(place))
    });
    memory.write(1, 1);
    moved(&memory.place, 1);
    then(&memory);
    reader.join().unwrap()
}

#[test]
fn a_program_has_its_array_back_while_others_read_a_copy() {
    loom::model(|| {
        let read = read_while(|memory| memory.write(0, 2));
        assert_eq!(read, Some(Some([1, 1])));
    });
}

#[test]
fn nothing_is_found_after_the_end_of_a_call() {
    loom::model(|| {
        let read = read_while(|memory| {
            moved(&memory.place, NOWHERE);
            // Both are the program's, or another's, by now.
            memory.write(0, 2);
            memory.write(1, 3);
        });
        assert!(matches!(read, Some(Some([1, 1]) | None)), "{read:?}");
    });
}
