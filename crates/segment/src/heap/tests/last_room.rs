//! The last room of a heap: what is free can be had, however it became free.

use std::thread;

use super::*;
use crate::layout::PAGE;

#[test]
#[cfg_attr(miri, ignore = "memory of the system")]
fn free_memory_in_a_row_can_be_had_though_only_some_of_it_was_in_use_before() {
    const ALL: usize = 64 << 20;
    for huge_pages in [HugePages::Never, HugePages::default()] {
        let heap = heap(ALL, |options| options.huge_pages = huge_pages);
        let held = heap.allocate(100).unwrap();
        // Of buffers that are a little longer each time, none fits into what the ones before have left.
        for size in (1 << 20..ALL - (3 << 20)).step_by(7 << 20) {
            let large = heap.allocate(size).unwrap_or_else(|error| panic!("{size} bytes: {error}"));
            // SAFETY: the buffer has the bytes, and nobody else uses it.
            unsafe { large.data().write_bytes(7, size) };
        }
        let small: Vec<Buffer> = (0..32).map(|_| heap.allocate(1 << 20).unwrap()).collect();
        assert_eq!(heap.allocate(40 << 20).unwrap_err().kind(), ErrorKind::NoMemory, "so much is not there");
        drop(small);
        let large = heap.allocate(ALL - (3 << 20)).unwrap();
        let usage = heap.usage();
        assert!(usage.held_bytes <= usage.allocated_bytes && usage.allocated_bytes <= ALL + DATA, "{usage:?}");
        drop((held, large));
        assert_eq!((heap.usage().held_bytes, heap.usage().buffers), (0, 0));
    }
}

#[test]
#[cfg_attr(miri, ignore = "memory of the system")]
fn a_hole_that_begins_and_ends_inside_of_a_page_is_joined_with_what_is_free_beside_it() {
    const ALL: usize = 256 << 20;
    let heap = heap(ALL, |_| ());
    let held = heap.allocate(100).unwrap();
    // Too long to be idle, and behind the one that is held: so is the hole that it leaves.
    let long = heap.allocate(100 << 20).unwrap();
    assert!(!long.data().addr().get().is_multiple_of(PAGE));
    drop(long);
    let longer = heap.allocate(ALL - (1 << 20)).unwrap();
    // SAFETY: the buffer has the bytes, and nobody else uses it.
    unsafe { longer.data().write_bytes(7, ALL - (1 << 20)) };
    drop((held, longer));
    assert_eq!((heap.usage().held_bytes, heap.usage().buffers), (0, 0));
}

#[test]
fn what_is_on_its_way_to_another_thread_is_waited_for_before_there_is_no_memory() {
    for is_there in [true, false] {
        let heap = heap(1 << 20, |_| ());
        let (own, mut blocks) = heap.blocks().unwrap();
        let growth = blocks.begin_growth(1 << 20, PAGE, 0).expect("nothing is in use");
        drop(blocks);
        thread::scope(|scope| {
            let other = scope.spawn(|| heap.allocate(100).map(|buffer| buffer.capacity()));
            // Long enough for whoever does not wait; it makes no difference to whoever does.
            (0..1000).take_while(|_| !other.is_finished()).for_each(|_| thread::yield_now());
            if is_there {
                heap.segment.allocate(growth.offset, growth.bytes).unwrap();
            }
            lock(&own.blocks).end_growth(growth, is_there);
            own.has_come.notify_all();
            assert_eq!(other.join().unwrap().expect("all of the heap is free"), 128);
        });
    }
}
