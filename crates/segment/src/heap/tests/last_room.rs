//! The last room of a heap: what is free can be had, however it became free.

use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::*;
use crate::layout::PAGE;

/// Whether `waiting` ends, as it is told of what it waits for. One that nobody has told is told now.
fn was_told<T>(waiting: &ScopedJoinHandle<'_, T>, own: &Own) -> bool {
    let since = Instant::now();
    while !waiting.is_finished() && since.elapsed() < Duration::from_secs(10) {
        thread::yield_now();
    }
    let was_told = waiting.is_finished();
    own.has_come.notify_all();
    was_told
}

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

#[test]
#[cfg_attr(miri, ignore = "memory of the system")]
fn whoever_waits_for_memory_is_told_when_a_buffer_has_gone_back_to_the_system() {
    const LARGE: usize = 100 << 20;
    let heap = heap(LARGE + (1 << 20), |_| ());
    let large = heap.allocate(LARGE).unwrap();
    let (own, mut blocks) = heap.blocks().unwrap();
    // All else is on its way, so that there is something to wait for.
    let rest: Vec<_> = std::iter::from_fn(|| blocks.begin_growth(PAGE, PAGE, 0)).collect();
    drop(blocks);
    thread::scope(|scope| {
        let other = scope.spawn(|| heap.allocate(LARGE).map(drop));
        // Long enough for it to come to its wait. Before that it need not be told.
        (0..1000).take_while(|_| !other.is_finished()).for_each(|_| thread::yield_now());
        drop(large);
        let was_told = was_told(&other, own);
        rest.into_iter().for_each(|growth| lock(&own.blocks).end_growth(growth, false));
        own.has_come.notify_all();
        assert!(was_told && other.join().unwrap().is_ok());
    });
}

#[test]
#[cfg_attr(miri, ignore = "memory of the system")]
fn whoever_waits_for_memory_is_told_when_another_thread_has_got_it() {
    const ALL: usize = 256 << 20;
    let heap = heap(ALL, |_| ());
    let (own, blocks) = heap.blocks().unwrap();
    drop(blocks);
    let there = || rustix::fs::fstat(heap.segment.as_fd()).unwrap().st_blocks as usize * 512;
    let before = there();
    thread::scope(|scope| {
        let all = scope.spawn(|| heap.allocate(ALL));
        while there() == before && !all.is_finished() {
            thread::yield_now();
        }
        let other = scope.spawn(|| heap.allocate(100).map(drop));
        assert!(was_told(&other, own));
        let (all, refused) = (all.join().unwrap(), other.join().unwrap().unwrap_err());
        assert_eq!((all.unwrap().capacity(), refused.kind()), (ALL, ErrorKind::NoMemory));
    });
}
