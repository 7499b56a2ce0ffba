use deck_segment::layout::DATA;
use deck_segment::{Fetching, HeapOptions, Seat};
use deck_sync::NodeId;

use super::*;

fn heap(bytes: usize) -> Arc<HeapMemory> {
    let options = HeapOptions { fetching: Fetching::ByReaders, ..HeapOptions::of(DATA + bytes) };
    HeapMemory::create(NodeId(0), Seat(0), &options).expect("there is memory")
}

fn append(parcel: &mut Parcel, element: u8, heap: &Arc<HeapMemory>) -> Result<()> {
    // SAFETY: a readable byte.
    unsafe { parcel.append(element, [7u8].as_ptr(), 1, heap) }
}

#[test]
fn no_message_has_more_runs_than_its_receiver_takes() {
    let heap = heap(1 << 20);
    let mut parcel = Parcel::default();
    for run in 0..RUNS_MAX {
        append(&mut parcel, 1 + (run % 2) as u8, &heap).unwrap();
    }
    assert_eq!(append(&mut parcel, 1, &heap).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!((parcel.size(), parcel.runs()), (RUNS_MAX as usize, RUNS_MAX as usize));
    append(&mut parcel, 2, &heap).expect("no run more, but a longer one");
    assert_eq!(parcel.run(RUNS_MAX as usize - 1), Some(Run { element: 2, bytes: 2 }));
}

#[test]
fn content_that_is_taken_out_is_fetched_and_new_content_is_not() {
    let heap = heap(1 << 20);
    let mut parcel = Parcel::default();
    parcel.resize(20_000, &heap).unwrap();
    parcel.edit(&heap).unwrap().fill(9);
    append(&mut parcel, 2, &heap).unwrap();
    let travels = |parcel: &Parcel| drop(parcel.buffer().unwrap().keep());
    let rests = |parcel: &Parcel| parcel.buffer().unwrap().wants_change();
    // Exact halves, an odd begin, and a last element of its own.
    for half in [10_000, 9_999] {
        travels(&parcel);
        let mut content = vec![0; 20_000];
        let (first, second) = content.split_at_mut(half);
        parcel.read(0, first);
        assert!(rests(&parcel), "the other half has copies elsewhere");
        parcel.read(half, second);
        parcel.read(20_000, &mut [0]);
        assert_eq!(content, [9; 20_000]);
        assert!(!rests(&parcel));
        parcel.fetch(usize::MAX, usize::MAX);
        parcel.edit(&heap).unwrap();
        assert!(rests(&parcel), "it gets new content");
    }
    travels(&parcel);
    parcel.fetch(0, usize::MAX);
    assert!(!rests(&parcel));
    assert_eq!(parcel.bytes()[..20_000], [9; 20_000]);
}

#[test]
fn content_grows_as_long_as_it_fits_into_what_is_left() {
    let heap = heap(1 << 20);
    let mut parcel = Parcel::default();
    let size = 448 << 10;
    parcel.resize(size, &heap).unwrap();
    assert_eq!(parcel.capacity(), size, "full");
    append(&mut parcel, BYTES, &heap).expect("the next size is 512 KiB: both fit into 1 MiB");
    assert_eq!((parcel.size(), parcel.bytes()[size]), (size + 1, 7));
}
