//! Which buffer a wait fetches back, and who is handed it.

use std::sync::Arc;

use deck_sync::NodeId;

use super::*;
use crate::{Buffer, HeapOptions, Seat, fetching, layout};

fn heap_of(fetching: Fetching) -> Arc<HeapMemory> {
    let options = HeapOptions { fetching, ..HeapOptions::of(layout::DATA + (8 << 20)) };
    HeapMemory::create(NodeId(0), Seat(0), &options).unwrap()
}

fn heap() -> Arc<HeapMemory> {
    heap_of(Fetching::ByReaders)
}

/// A buffer with new content is posted, received, and fetched by its receiver.
fn post(buffer: &Buffer) -> Buffer {
    buffer.renew();
    buffer.add_share();
    let in_flight = buffer.keep();
    let received = buffer.heap().receive(&buffer.name()).unwrap();
    drop(in_flight);
    received.fetch(0, received.capacity(), true);
    received
}

/// How many times a wait fetches something until all is fetched, in `looks` looks.
fn fetches(heap: &HeapMemory, looks: usize) -> usize {
    FetchBack::due(heap).map_or(0, |mut back| (0..looks).filter(|_| back.go_on(heap)).count())
}

#[test]
fn what_was_posted_is_fetched_back_once_when_its_reader_has_let_go() {
    let heap = heap();
    let buffer = heap.allocate(16 << 10).unwrap();
    let received = post(&buffer);
    assert_eq!(fetches(&heap, 1000), 0, "its reader has it");
    let mut back = FetchBack::due(&heap).unwrap();
    assert!(!(0..1000).any(|_| back.go_on(&heap)));
    drop(received);
    let steps = buffer.capacity() / (LINES * LINE);
    assert_eq!((0..10_000).filter(|_| back.go_on(&heap)).count(), steps);
    assert!(FetchBack::due(&heap).is_none(), "it is back");
    // By other content, not by the same.
    drop(buffer.keep());
    assert!(FetchBack::due(&heap).is_none());
    drop(post(&buffer));
    assert_eq!(fetches(&heap, 10_000), steps);
}

#[test]
fn what_was_let_go_of_comes_first_and_nothing_that_was_taken_meanwhile() {
    let heap = heap();
    let [first, second] = [8 << 10; 2].map(|bytes| heap.allocate(bytes).unwrap());
    drop(post(&first));
    drop(first);
    drop(post(&second));
    let last = second.data();
    let steps = (8 << 10) / (LINES * LINE);
    assert_eq!(fetches(&heap, steps), steps, "from the first look on, as it is free");
    assert_eq!(fetches(&heap, 10_000), 0, "the second one had its chance");

    drop(post(&second));
    drop(second);
    let mut back = FetchBack::due(&heap).unwrap();
    assert!(back.go_on(&heap));
    let again = heap.allocate(8 << 10).unwrap();
    assert_eq!(again.data(), last);
    assert!(!(0..100).any(|_| back.go_on(&heap)), "somebody writes it");
}

#[test]
fn what_is_noted_while_a_wait_goes_on_is_there_for_the_next_one() {
    let heap = heap();
    let [first, second] = [16 << 10; 2].map(|bytes| heap.allocate(bytes).unwrap());
    drop(post(&first));
    let mut back = FetchBack::due(&heap).unwrap();
    assert!((0..1000).any(|_| back.go_on(&heap)), "not all of it");
    // As the message that ends the wait takes the place of another one.
    drop(post(&second));
    drop(second);
    let noted = NOTED.get();
    drop(back);
    assert!(noted.is_some() && NOTED.get() == noted);
}

#[test]
fn what_is_never_free_in_time_and_what_went_to_two_is_forgotten() {
    let heap = heap();
    let buffer = heap.allocate(16 << 10).unwrap();
    let _received = post(&buffer);
    let waits = (0..).take_while(|_| FetchBack::due(&heap).is_some_and(|mut back| !back.go_on(&heap))).count();
    assert_eq!(waits, VAIN_WAITS as usize);
    buffer.renew();
    drop(buffer.keep());
    assert!(FetchBack::due(&heap).is_some());
    drop(buffer.keep());
    assert!(FetchBack::due(&heap).is_none());
}

#[test]
fn a_wait_that_is_over_at_once_tells_nothing() {
    let heap = heap();
    let buffer = heap.allocate(16 << 10).unwrap();
    let _received = post(&buffer);
    let before = LOOKS.get();
    (0..1000).for_each(|_| drop(FetchBack::due(&heap).expect("what is noted stays")));
    assert_eq!(LOOKS.get(), before);
}

#[test]
fn what_rests_after_its_reader_stays_away() {
    let heap = heap();
    let [rests, is_short] = [16 << 10, 4 << 10].map(|bytes| heap.allocate(bytes).unwrap());
    let read = |buffer: &Buffer| {
        let received = post(buffer);
        heap.tell_readers(buffer.name().index, readers::NOT_TOLD);
        drop(received);
        fetches(&heap, 10_000)
    };
    assert_eq!([&rests, &is_short].map(read), [0, (4 << 10) / (LINES * LINE)]);
    assert!(FetchBack::due(&heap).is_none());
}

#[test]
fn where_writers_fetch_new_messages_have_two_buffers_in_turn_if_their_thread_waits_between() {
    for waits in [true, false] {
        let (heap, mut received) = (heap_of(Fetching::ByWriters), None);
        let round = |_| {
            // The reader of the message before is through.
            received = None;
            let buffer = heap.allocate(16 << 10).unwrap();
            received = Some(post(&buffer));
            let place = buffer.data();
            drop(buffer);
            if waits {
                fetches(&heap, 100_000);
            }
            place
        };
        let places: Vec<_> = (0..10).map(round).collect();
        let in_turn = places[2..].windows(3).all(|three| three[0] == three[2] && three[0] != three[1]);
        assert_eq!(in_turn, waits, "those that are not fetched back rest: {places:?}");
    }
}

/// As `post(message)` has it: the sender keeps what it has posted until it posts again.
#[test]
fn what_is_still_kept_when_it_is_asked_for_first_has_its_turn_with_the_next_one() {
    for bytes in [4 << 10, 16 << 10, 2 << 20] {
        let (heap, mut in_flight) = (heap_of(Fetching::ByWriters), None);
        let round = |_| {
            let buffer = heap.allocate(bytes).unwrap();
            buffer.renew();
            buffer.add_share();
            // Letting go of the one before.
            in_flight = Some(buffer.keep());
            let received = heap.receive(&buffer.name()).unwrap();
            let place = buffer.data();
            drop(buffer);
            drop(received);
            assert!(fetches(&heap, 1_000_000) > 0 || BACK.get().is_some());
            place
        };
        let places: Vec<_> = (0..20).map(round).collect();
        assert!(places[6..].windows(3).all(|three| three[0] == three[2] && three[0] != three[1]), "{places:?}");
    }
}

#[test]
fn what_was_put_aside_goes_before_what_was_let_go_of_earlier() {
    let heap = heap_of(Fetching::ByWriters);
    let [first, second, third, put_aside] = [8 << 10; 4].map(|bytes| heap.allocate(bytes).unwrap());
    for buffer in [first, second] {
        drop(post(&buffer));
    }
    assert!(fetches(&heap, 1000) > 0, "the first one is back");
    drop(post(&third));
    drop(third);
    drop(post(&put_aside));
    put_aside.put_aside();
    assert!(fetches(&heap, 1000) > 0 && put_aside.came_back());
}

#[test]
fn what_is_back_is_taken_by_whoever_comes_first() {
    for bytes in [4 << 10, 16 << 10, 2 << 20] {
        let heap = heap_of(Fetching::ByWriters);
        let all = || std::iter::repeat_with(|| heap.allocate(bytes)).map_while(Result::ok).collect::<Vec<_>>();
        drop(post(&heap.allocate(bytes).unwrap()));
        assert!(fetches(&heap, 1_000_000) > 0);
        let others = std::thread::scope(|scope| scope.spawn(all).join().unwrap());
        assert!(heap.allocate(bytes).is_err(), "somebody else has them all");
        drop(others);
        drop(heap.allocate(bytes).expect("as any other time"));
    }
}

#[test]
fn nothing_is_noted_that_is_short_or_long_or_belongs_to_another_heap() {
    let (heap, other) = (heap(), heap());
    for bytes in [1 << 10, crate::caches::second_level() / fetching::FETCHED_PART + 1] {
        drop(post(&heap.allocate(bytes).unwrap()));
        assert!(FetchBack::due(&heap).is_none(), "{bytes} bytes");
    }
    drop(post(&heap.allocate(4 << 10).unwrap()));
    assert!(FetchBack::due(&heap).is_some());
    // Whoever waits in another node has no more to do with it; nor does it keep what is posted there from being noted.
    drop(post(&other.allocate(4 << 10).unwrap()));
    let elsewhere = other.allocate(16 << 10).unwrap();
    drop(post(&elsewhere));
    assert!(FetchBack::due(&heap).is_none() && FetchBack::due(&other).is_none());
    drop(post(&heap.allocate(4 << 10).unwrap()));
    drop(post(&elsewhere));
    assert!(FetchBack::due(&other).is_some());
}

#[test]
fn what_was_put_aside_comes_back_from_the_first_look_on_and_is_told_once() {
    for fetching in [Fetching::ByReaders, Fetching::ByWriters] {
        let heap = heap_of(fetching);
        let [first, second, other] = [8 << 10; 3].map(|bytes| heap.allocate(bytes).unwrap());
        let steps = first.capacity() / (LINES * LINE);
        let received = post(&first);
        first.put_aside();
        drop(post(&second));
        let mut back = FetchBack::due(&heap).unwrap();
        assert!(!(0..100).any(|_| back.go_on(&heap)), "its reader has it");
        assert!(!first.came_back());
        drop(received);
        assert_eq!((0..100).filter(|_| back.go_on(&heap)).count(), steps);
        assert!(first.came_back() && !first.came_back());

        first.put_aside();
        assert_eq!(fetches(&heap, steps), steps, "from the first look on");
        let again = first.clone();
        assert!(!first.came_back(), "somebody shares it");
        drop(again);

        first.put_aside();
        assert_eq!(fetches(&heap, 1), 1);
        assert!(!other.came_back(), "it is another one");
    }
}

#[test]
fn what_rests_is_fetched_back_where_it_is_used_in_turn_and_its_reader_leaves_copies() {
    let fetched = |fetching| {
        let heap = heap_of(fetching);
        let buffer = heap.allocate(8 << 10).unwrap();
        drop(buffer.keep());
        buffer.put_aside();
        assert!(heap.rest().is_for(buffer.capacity()));
        fetches(&heap, 100) > 0
    };
    assert_eq!([Fetching::ByReaders, Fetching::ByWriters].map(fetched), [false, true]);
}

#[test]
fn the_first_question_comes_when_readers_have_mostly_let_go() {
    let heap = heap();
    let buffer = heap.allocate(16 << 10).unwrap();
    // Its reader lets go after so many looks, and the answer comes after some more.
    let wait = |lets_go: usize| {
        let mut received = Some(post(&buffer));
        let mut back = FetchBack::due(&heap).unwrap();
        for look in 0..lets_go + 200 {
            if look == lets_go {
                received = None;
            }
            back.go_on(&heap);
        }
        assert!(received.is_none());
        matches!(back.stage, Stage::Fetches(_))
    };
    for lets_go in [100, 300, 20] {
        let fetched = (0..500).filter(|_| wait(lets_go)).count();
        assert!(fetched > 400, "{fetched} of 500 where {lets_go}");
        let first = LOOKS.get() as usize;
        assert!((lets_go - lets_go / 10..lets_go + 20).contains(&first), "{first} for {lets_go}");
    }
    // One that never lets go in time is left alone.
    let received = post(&buffer);
    (0..100).for_each(|_| assert_eq!(fetches(&heap, 500), 0));
    assert!(LOOKS.get() > 400, "{}", LOOKS.get());
    drop(received);
}
