//! Which memory a buffer gets: one that has rested, and one that is near.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use super::*;
use crate::buffer::BufferName;
use crate::caches;
use crate::huge::HugePages;
use crate::layout::LINE;

mod last_room;

fn heap(bytes: usize, change: impl FnOnce(&mut HeapOptions)) -> Arc<HeapMemory> {
    let mut options = HeapOptions {
        bytes: DATA + bytes,
        fetching: Fetching::ByReaders,
        rest: Rest::new(0),
        huge_pages: HugePages::Never,
        numa: Numa::one(),
    };
    change(&mut options);
    HeapMemory::create(NodeId(0), Seat(0), &options).expect("there is memory")
}

/// The places of `rounds` buffers, each given back before the next is asked for.
fn places(heap: &Arc<HeapMemory>, size: usize, rounds: usize) -> Vec<usize> {
    (0..rounds).map(|_| heap.allocate(size).unwrap().data().as_ptr().addr()).collect()
}

fn distinct(places: &[usize]) -> usize {
    places.iter().collect::<BTreeSet<_>>().len()
}

#[test]
fn a_buffer_rests_until_as_many_bytes_of_others_were_handed_out() {
    let heap = heap(64 << 20, |options| options.rest = Rest::new(1 << 20));
    let used = places(&heap, 64 << 10, 200);
    let turn = distinct(&used);
    assert_eq!(turn, 17, "1 MiB of others in 64 KiB each");
    assert!(
        used[turn..].iter().zip(&used).all(|(later, earlier)| later == earlier),
        "the one that rested longest is next"
    );
    // Short ones, and ones that leave the caches by themselves, are used again at once.
    for size in [100, 4 << 10, 1 << 20, 3 << 20] {
        assert_eq!(distinct(&places(&heap, size, 50)), 1, "{size} bytes");
    }
}

#[test]
#[cfg_attr(miri, ignore = "memory of the system")]
fn while_the_heap_grows_for_one_thread_others_take_what_is_ready_and_a_little_more() {
    const MUCH: usize = 256 << 20;
    let heap = heap(2 * MUCH, |_| ());
    drop(heap.allocate(100).unwrap());
    let there = || rustix::fs::fstat(heap.segment.as_fd()).unwrap().st_blocks as usize * 512;
    let before = there();
    let (mut small, mut in_between) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let large = scope.spawn(|| heap.allocate(MUCH).unwrap());
        while !large.is_finished() {
            drop(heap.allocate(100).unwrap());
            if small.len() < 100 && in_between > 0 {
                small.push(heap.allocate(10_000).unwrap());
            }
            in_between += usize::from((before + (MUCH / 8)..before + MUCH / 2).contains(&there()));
        }
        drop(large.join().unwrap());
    });
    // Whoever waits until it has grown sees it in between once at most.
    assert!(in_between > 2, "seen {in_between} times");
    let bytes = small.len() * 10_000;
    assert!(heap.usage().allocated_bytes < before + MUCH + 2 * bytes + (2 << 20), "{:?}", heap.usage());
}

#[test]
fn what_goes_back_to_the_system_can_be_had_again() {
    const LARGE: usize = 100 << 20;
    let heap = heap(LARGE + (8 << 20), |_| ());
    for _ in 0..3 {
        drop(heap.allocate(LARGE).unwrap());
        assert!(heap.usage().allocated_bytes < LARGE, "more than 64 MiB are idle");
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn buffers_of_all_sizes_together_rest_in_bounded_memory() {
    let rest = 2 << 20;
    let heap = heap(256 << 20, |options| options.rest = Rest::new(rest));
    for round in 0..5000 {
        drop(heap.allocate((8 << 10) + (round * 7919) % (1 << 20)).unwrap());
    }
    // One size after the other.
    for size in (8 << 10..1 << 20).step_by(10_000) {
        places(&heap, size, 4 * rest / size);
    }
    assert!(heap.usage().allocated_bytes < 8 * rest, "{:?}", heap.usage());
    assert_eq!(heap.usage().buffers, 0);
}

#[test]
fn nobody_rests_where_memory_is_short_or_it_is_turned_off() {
    let small = heap(1 << 20, |options| options.rest = Rest::new(64 << 20).within(1 << 20));
    assert!(small.rest().bytes() <= 128 << 10);
    assert!(places(&small, 8 << 10, 1000).len() == 1000);
    let off = heap(64 << 20, |_| ());
    assert_eq!(distinct(&places(&off, 64 << 10, 100)), 1);
    // One of them in use leaves too little for rest: it is given up, not the buffer.
    let tight = heap(1 << 20, |options| options.rest = Rest::new(1 << 20));
    let _held = tight.allocate(600 << 10).unwrap();
    assert!(distinct(&places(&tight, 60 << 10, 100)) < 8);
}

/// A size that rests and that is fetched, whatever this machine's caches are like.
fn fetched_size() -> usize {
    (caches::second_level() / 4).min(64 << 10)
}

fn travelled(heap: &Arc<HeapMemory>, size: usize) -> Buffer {
    let buffer = heap.allocate(size).unwrap();
    drop(buffer.keep());
    buffer
}

fn is_fetched(buffer: &Buffer) -> bool {
    buffer.heap().readers(buffer.name().index) == layout::readers::FETCHED
}

#[test]
fn what_its_reader_has_fetched_is_used_again_at_once() {
    let heap = heap(64 << 20, |options| options.rest = Rest::new(1 << 20));
    let (size, part) = (fetched_size(), 4 << 10);
    let buffer = travelled(&heap, size);
    // SAFETY: the buffer has the byte, and nobody else uses it.
    unsafe { buffer.data().write(7) };
    buffer.fetch(0, part, false);
    assert!(buffer.wants_change(), "the end was not fetched");
    buffer.fetch(part, size - part, true);
    assert!(is_fetched(&buffer) && !buffer.wants_change());
    // SAFETY: as above.
    assert_eq!(unsafe { buffer.data().read() }, 7);
    buffer.renew();
    assert!(buffer.wants_change(), "who reads what comes next may do without");
    drop(buffer.keep());
    buffer.fetch(0, size, true);
    let place = buffer.data();
    drop(buffer);
    let buffer = heap.allocate(size).unwrap();
    assert_eq!(buffer.data(), place);
    assert!(!is_fetched(&buffer));
}

#[test]
fn nothing_is_fetched_that_is_long_or_was_not_elsewhere_or_goes_to_several() {
    let heap = heap(64 << 20, |options| options.rest = Rest::new(1 << 20));
    let size = fetched_size();
    let stayed = heap.allocate(size).unwrap();
    let long = travelled(&heap, caches::second_level() / 4 + 1);
    let to_two = travelled(&heap, size);
    drop(to_two.clone().keep());
    for buffer in [&stayed, &long, &to_two] {
        buffer.fetch(0, buffer.capacity().min(size), true);
        assert!(!is_fetched(buffer), "{buffer:?}");
    }
    // The first of two readers was quick: the second one's copies are still to be waited for.
    let quick = travelled(&heap, size);
    quick.fetch(0, size, true);
    drop(quick.keep());
    assert!(!is_fetched(&quick) && quick.wants_change());
    // Passed on by whoever has fetched it.
    let mut passed = travelled(&heap, size);
    passed.receive_again(&passed.name().clone()).unwrap();
    passed.fetch(0, size, true);
    assert!(is_fetched(&passed));
    drop(passed.keep());
    assert!(!is_fetched(&passed));
    passed.fetch(0, 0, true);
    assert!(!is_fetched(&passed), "nothing of it was");
}

#[test]
fn readers_leave_copies_where_writers_fetch() {
    let heap = heap(64 << 20, |options| options.fetching = Fetching::ByWriters);
    let buffer = travelled(&heap, 8 << 10);
    buffer.fetch(0, buffer.capacity(), true);
    assert!(!is_fetched(&buffer) && buffer.wants_change(), "it takes turns");
    assert!(!travelled(&heap, 512).wants_change());
}

#[test]
fn only_what_has_travelled_asks_for_rest() {
    let heap = heap(64 << 20, |options| options.rest = Rest::new(1 << 20));
    let buffer = heap.allocate(64 << 10).unwrap();
    assert!(!buffer.wants_change());
    drop(buffer.keep());
    assert!(buffer.wants_change() && buffer.clone().wants_change());
    let short = heap.allocate(1 << 10).unwrap();
    drop(short.keep());
    assert!(!short.wants_change());
}

#[test]
fn a_buffer_that_was_freed_since_its_name_was_checked_is_not_held() {
    let heap = heap(64 << 20, |_| ());
    let name = heap.allocate(100).unwrap().name();
    assert_eq!(heap.hold_received(&name).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!((heap.held(), heap.usage().buffers), (0, 0));
    let other = heap.allocate(100).unwrap();
    assert_eq!(other.name(), name, "handed out anew");
    let elsewhere = BufferName { offset: name.offset + LINE as u64, ..name };
    assert_eq!(heap.hold_received(&elsewhere).unwrap_err().kind(), ErrorKind::Corrupt);
    drop(other);
    assert_eq!((heap.held(), heap.usage().buffers), (0, 0));
}

fn with_indexes(indexes_max: usize) -> Arc<HeapMemory> {
    let heap = heap(64 << 20, |_| ());
    heap.blocks().unwrap().1.limit(indexes_max);
    heap
}

#[test]
fn the_last_index_goes_from_an_idle_buffer_to_one_of_another_size() {
    let heap = with_indexes(16);
    let all: Vec<Buffer> = (0..16).map(|_| heap.allocate(64).unwrap()).collect();
    assert_eq!(heap.allocate(64).unwrap_err().kind(), ErrorKind::NoMemory);
    assert_eq!(heap.allocate(200).unwrap_err().kind(), ErrorKind::NoMemory);
    assert_eq!(heap.usage().held_bytes, 16 * 64, "what failed holds nothing");
    drop(all);
    for size in [200, 64, 2 << 20, 5000] {
        let all: Vec<Buffer> = (0..16).map(|_| heap.allocate(size).unwrap()).collect();
        assert_eq!(heap.allocate(100).unwrap_err().kind(), ErrorKind::NoMemory, "16 buffers of {size} bytes");
        drop(all);
    }
}

#[test]
fn an_index_that_another_node_gave_back_is_found_however_many_it_still_has() {
    let heap = with_indexes(64);
    let all: Vec<Buffer> = (0..64).map(|_| heap.allocate(64).unwrap()).collect();
    let bits = |index: u32| heap.lines().get(index as usize * LINE_WORDS + holder::BITS);
    let indexes: Vec<u32> = all.iter().map(|buffer| buffer.name().index).collect();
    indexes.iter().for_each(|index| bits(*index).store(1, Ordering::SeqCst));
    drop(all);
    assert_eq!(heap.allocate(64).unwrap_err().kind(), ErrorKind::NoMemory);
    let (given_back, kept) = (indexes[40], indexes[0]);
    bits(given_back).store(0, Ordering::SeqCst);
    let other = heap.allocate(64).unwrap();
    assert_eq!(other.name().index, given_back);
    bits(kept).store(0, Ordering::SeqCst);
    assert_eq!(heap.allocate(200).unwrap().name().index, kept);
}

/// `heap` as the node on `seat` sees it.
fn seen_from(heap: &HeapMemory, seat: Seat) -> Arc<HeapMemory> {
    let fd = heap.segment().as_fd().try_clone_to_owned().unwrap();
    HeapMemory::adopt(fd, heap.owner(), heap.seat(), seat, heap.fetching()).unwrap()
}

#[test]
fn what_a_node_abandons_stays_held_whatever_it_lets_go_of_until_it_is_forgotten() {
    for is_abandoned_last in [false, true] {
        let owner = heap(64 << 20, |_| ());
        let view = seen_from(&owner, Seat(5));
        let mine = owner.allocate(64 << 10).unwrap();
        let name = mine.name();
        let theirs = view.receive(&name).unwrap();
        let in_flight = theirs.keep();
        drop(mine);
        if is_abandoned_last {
            drop(theirs);
            in_flight.abandon();
        } else {
            in_flight.abandon();
            assert_eq!(view.held(), 1);
            drop(theirs);
        }
        assert_eq!((view.held(), owner.usage().buffers), (0, 1), "a message in flight relies on it");
        drop(view.receive(&name).unwrap());
        assert_eq!((view.held(), owner.usage().buffers), (0, 1), "it came by once more");
        owner.forget_seat(Seat(5));
        assert_eq!(owner.usage().buffers, 0);
    }
}

#[cfg(not(miri))]
mod near {
    use super::*;
    use crate::Region;
    use crate::numa::tests::{described, this_machine};

    #[test]
    fn each_part_has_memory_of_its_own_and_takes_from_others_when_it_has_none() {
        let Some(numa) = described(c"numa:2 pu:4", false) else { return };
        let heap = heap(1 << 20, |options| options.numa = numa);
        let regions: Vec<Region> = (0..20).map(|at| heap.region_in(4096, at % 2).unwrap()).collect();
        assert!(regions.iter().enumerate().all(|(at, region)| region.part() == at % 2));
        let ends = |part: usize| {
            let mine = regions.iter().filter(|region| region.part() == part).map(Region::offset);
            (mine.clone().min().unwrap(), mine.max().unwrap() + 4096)
        };
        let (first, second) = (ends(0), ends(1));
        assert!(first.1 <= second.0 || second.1 <= first.0, "{first:?} and {second:?} overlap");
        assert_eq!(heap.region_near(64, &regions[1]).unwrap().part(), 1);
        // All of the heap, whoever asks; and what was taken from another part goes back to it.
        let all: Vec<Region> = std::iter::from_fn(|| heap.region_in(32 << 10, 1).ok()).collect();
        assert!(all.iter().any(|region| region.part() == 0), "{} regions", all.len());
        drop((all, regions));
        assert_eq!(heap.usage().held_bytes, 0);
        assert!(heap.region_in(200 << 10, 0).is_ok() && heap.region_in(200 << 10, 1).is_ok());
    }

    #[test]
    fn buffers_of_a_part_are_used_again_in_it() {
        let Some(numa) = described(c"numa:2 pu:1", false) else { return };
        let heap = heap(16 << 20, |options| options.numa = numa);
        let take = |size, part| {
            let taken = heap.take_growing(|_, blocks, supply| blocks.take(size, part, None, supply));
            taken.unwrap()
        };
        for size in [100, 5000, 100 << 10, 2 << 20] {
            let first = [0, 1].map(|part| take(size, part));
            first.iter().for_each(|(index, ..)| heap.blocks().unwrap().1.give(*index));
            for part in [1, 0] {
                assert_eq!(take(size, part), first[part], "{size} bytes, part {part}");
            }
        }
    }

    /// Since Linux 5.15.
    const PREFERRED_MANY: libc::c_int = 5;

    /// Of the address, as the kernel has it.
    fn policy(address: *const u8) -> std::io::Result<libc::c_int> {
        const OF_ADDRESS: libc::c_ulong = 2;
        let (mut mode, mut nodes) = (0, [0u64; 16]);
        // SAFETY: room for a mode and 1,024 bits; the address is looked up, not read.
        let result = unsafe {
            libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nodes.as_mut_ptr(), 1024, address, OF_ADDRESS)
        };
        if result == 0 { Ok(mode) } else { Err(std::io::Error::last_os_error()) }
    }

    #[test]
    fn areas_are_really_bound_and_found_where_they_were_bound() {
        let Some(numa) = this_machine() else { return println!("not tested: hwloc is not installed") };
        let heap = heap(64 << 20, |options| options.numa = numa.clone());
        let buffer = heap.allocate(5 << 20).unwrap();
        let told = heap.facts();
        let first = buffer.data().as_ptr();
        match policy(first) {
            Ok(mode) if !told.is_refused => {
                let last = policy(first.wrapping_add((5 << 20) - 1)).unwrap();
                for mode in [mode, last] {
                    assert!([libc::MPOL_PREFERRED, PREFERRED_MANY].contains(&mode), "policy {mode}, {told:?}");
                }
                assert!(usize::from(told.numa_nodes) == numa.count() && !told.is_elsewhere, "{told:?}");
            }
            answer => println!("not tested: the system binds nothing: {answer:?}, {told:?}"),
        }
    }

    #[test]
    fn a_system_that_refuses_to_bind_is_told_and_works() {
        // Taken for this machine, which has no NUMA node of that number.
        let Some(numa) = described(c"numa:2(indexes=0,900) pu:1", true) else { return };
        let heap = heap(16 << 20, |options| options.numa = numa.clone());
        let region = heap.region_in(1 << 20, 1).unwrap();
        region.words().get(0).store(7, Ordering::Relaxed);
        assert_eq!(region.words().get(0).load(Ordering::Relaxed), 7);
        assert_eq!(format!("{numa:?}"), "Numa([0, 900])");
        assert!(heap.facts().is_refused && heap.facts().numa_nodes == 2, "{:?}", heap.facts());
    }
}

#[test]
fn content_is_found_again_and_shared_wherever_in_its_buffer_it_lies() {
    let heap = heap(64 << 20, |_| ());
    let content = |buffer: &Buffer, from: usize, bytes: usize| {
        // SAFETY: the bytes lie in the heap's memory, which is allocated, and nobody writes them.
        unsafe { std::slice::from_raw_parts(buffer.data().as_ptr().add(from), bytes) }
    };
    let buffers = [100, 4000, 100_000].map(|bytes| heap.allocate(bytes).unwrap());
    for buffer in &buffers {
        for (from, bytes) in [(0, 100), (50, 50), (0, buffer.capacity())] {
            assert!(!buffer.is_shared());
            let share = heap.share_of(content(buffer, from, bytes)).unwrap();
            assert!(share.name() == buffer.name() && share.is_shared() && buffer.is_shared());
        }
        assert!(heap.share_of(content(buffer, 0, buffer.capacity() + 1)).is_none(), "it ends before");
    }
    assert!(heap.share_of(&[0; 1000]).is_none(), "it lies elsewhere");
    assert!(heap.share_of(content(&buffers[0], 0, 10)).is_none(), "to look costs more than to copy");

    // A share keeps the buffer, and goes as any other.
    let [first, ..] = buffers;
    let (place, share) = (first.data(), heap.share_of(content(&first, 0, 100)).unwrap());
    drop(first);
    assert!(!share.is_shared() && heap.allocate(100).unwrap().data() != place);
    let freed = content(&share, 0, 100);
    drop(share);
    assert!(heap.share_of(freed).is_none());
    assert_eq!(heap.usage().buffers, 2, "the others");
}

#[test]
fn more_handles_than_a_program_can_have_are_refused_and_the_buffer_stays() {
    let heap = heap(64 << 20, |_| ());
    let buffer = heap.allocate(100).unwrap();
    let handles = &heap.counts[buffer.name().index as usize];
    let many = holders::HANDLES_MAX;
    handles.store(many - 1, Ordering::Relaxed);
    let last = buffer.clone();
    for _ in 0..2 {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| buffer.clone())).is_err());
        assert_eq!(handles.load(Ordering::Relaxed), many);
    }
    drop(last);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(buffer.clone()))).is_ok());
    // Whoever posts or receives it is refused before that.
    assert_eq!(buffer.check_handles().unwrap_err().kind(), ErrorKind::NoMemory);
    assert_eq!(heap.receive(&buffer.name()).unwrap_err().kind(), ErrorKind::NoMemory);
    assert_eq!(handles.load(Ordering::Relaxed), many - 1);
    handles.store(1, Ordering::Relaxed);
    buffer.check_handles().unwrap();
}

#[test]
fn a_segment_that_is_not_the_heap_it_is_taken_for_is_refused() {
    let heap = heap(1 << 20, |_| ());
    let adopt = |owner, seat| {
        let fd = heap.segment().as_fd().try_clone_to_owned().unwrap();
        HeapMemory::adopt(fd, NodeId(owner), Seat(seat), Seat(5), Fetching::ByReaders)
    };
    let refused = |adopted: Result<Arc<HeapMemory>>| adopted.err().map(|error| (error.kind(), error.peer()));
    assert_eq!(refused(adopt(0, 0)), None);
    for (owner, seat) in [(1, 0), (0, 1)] {
        assert_eq!(refused(adopt(owner, seat)), Some((ErrorKind::Corrupt, Some(NodeId(owner)))), "{owner}, {seat}");
    }
    let words = Words::in_segment(heap.segment(), 0, LINE_WORDS).unwrap();
    for word in [header::MAGIC, header::VERSION, header::BYTES, header::NODE, header::SEAT] {
        let told = words.get(word).load(Ordering::Relaxed);
        for wrong in [told.wrapping_sub(1), told + 1, told | 1 << 63] {
            words.get(word).store(wrong, Ordering::Relaxed);
            assert_eq!(refused(adopt(0, 0)), Some((ErrorKind::Corrupt, Some(NodeId(0)))), "word {word}: {wrong:#x}");
        }
        words.get(word).store(told, Ordering::Relaxed);
    }
    assert_eq!(refused(adopt(0, 0)), None);
    // All is as it has to be, but nothing lies behind the tables.
    let small = Segment::create("test", DATA).unwrap();
    small.allocate(0, layout::PAGE).unwrap();
    let words = Words::in_segment(&small, 0, LINE_WORDS).unwrap();
    let fields = [(header::MAGIC, layout::MAGIC), (header::VERSION, layout::VERSION), (header::BYTES, DATA as u64)];
    fields.iter().for_each(|(word, value)| words.get(*word).store(*value, Ordering::Relaxed));
    let fd = small.as_fd().try_clone_to_owned().unwrap();
    let adopted = HeapMemory::adopt(fd, NodeId(0), Seat(0), Seat(5), Fetching::ByReaders);
    assert_eq!(refused(adopted), Some((ErrorKind::Corrupt, Some(NodeId(0)))));
}

#[test]
fn a_heap_has_room_for_something_or_is_refused() {
    let create = |bytes| {
        let (fetching, rest, numa) = (Fetching::ByReaders, Rest::new(0), Numa::one());
        let options = HeapOptions { bytes, fetching, rest, huge_pages: HugePages::Never, numa };
        HeapMemory::create(NodeId(0), Seat(0), &options)
    };
    for bytes in [0, 4096, DATA, DATA + (1 << 20) - 1] {
        assert_eq!(create(bytes).err().unwrap().kind(), ErrorKind::Invalid, "{bytes} bytes");
    }
    assert!(create(DATA + (1 << 20)).unwrap().allocate(100 << 10).is_ok());
}

#[test]
fn shares_are_as_many_as_there_are_handles_and_messages() {
    let owner = heap(64 << 20, |_| ());
    let view = seen_from(&owner, Seat(5));
    let [first, second] = [64 << 10, 64 << 10].map(|bytes| owner.allocate(bytes).unwrap());
    first.add_share();
    let mut theirs = view.receive(&first.name()).unwrap();
    assert!(first.is_shared() && theirs.is_shared());
    // It comes again and again: some of the shares stay with whoever receives it, but never more than a few.
    for _ in 0..1000 {
        first.add_share();
        theirs.receive_again(&first.name()).unwrap();
        let shares = owner.lines().get(first.name().index as usize * LINE_WORDS + holder::SHARES);
        assert!(shares.load(Ordering::Relaxed) <= 20, "{shares:?}");
        assert!(first.is_shared() && theirs.is_shared());
    }
    // Another one in its place: this one's shares have gone, and that one has none but those it came with.
    second.add_share();
    theirs.receive_again(&second.name()).unwrap();
    assert!(!first.is_shared() && second.is_shared() && theirs.is_shared());
    drop(first);
    assert_eq!((owner.usage().buffers, view.held()), (1, 1));
    // A message that does not arrive.
    second.add_share();
    second.keep().undelivered();
    drop(second);
    assert!(!theirs.is_shared());
    drop(theirs);
    assert_eq!((owner.usage().buffers, view.held()), (0, 0));
}

#[test]
fn a_region_is_zero_whatever_was_there_before() {
    let heap = heap(1 << 20, |_| ());
    let fill = |region: &crate::Region, value| {
        let words = region.words();
        (0..words.count()).for_each(|word| assert_eq!(words.get(word).swap(value, Ordering::Relaxed), 0));
        region.offset()
    };
    let places = [7, 8].map(|value| fill(&heap.region(1000).unwrap(), value));
    assert_eq!(places[0], places[1], "the same memory");
}

#[test]
fn a_heap_that_was_closed_gives_nothing_out_any_more() {
    let heap = heap(1 << 20, |_| ());
    let held = heap.allocate(100).unwrap();
    heap.close();
    assert_eq!(heap.allocate(100).unwrap_err().kind(), ErrorKind::NotInitialized);
    assert_eq!(heap.region(64).err().unwrap().kind(), ErrorKind::NotInitialized);
    drop(held);
    assert_eq!(heap.usage().buffers, 0);
}
