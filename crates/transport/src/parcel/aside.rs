//! The other one of two buffers that a parcel uses in turn.
//!
//! While a message is on its way, and until it is answered, the buffer of the message before can be fetched back
//! (`docs/design/070-buffers-rest.md`). So the next content is written there. To get it from the heap each time, and to
//! give it back, takes longer than fetching saves.

use std::mem;

use deck_segment::Buffer;

/// The buffer of the content before, which others may still read.
#[derive(Debug, Default)]
pub(super) struct Aside(Option<Box<Buffer>>);

/// A copy of a parcel has no second buffer until it needs one.
impl Clone for Aside {
    fn clone(&self) -> Aside {
        Aside::default()
    }
}

impl Aside {
    /// Puts the buffer that is aside in place of `buffer`, for `bytes` bytes, if it came back. True if so.
    pub fn change(&mut self, buffer: &mut Buffer, bytes: usize) -> bool {
        self.change_if(buffer, |aside| aside.capacity() >= bytes && aside.came_back())
    }

    /// As [`Aside::change`], if nobody else shares it: where there is no other memory.
    pub fn change_anyhow(&mut self, buffer: &mut Buffer, bytes: usize) -> bool {
        self.change_if(buffer, |aside| aside.may_hold(bytes))
    }

    fn change_if(&mut self, buffer: &mut Buffer, is_as_good: impl Fn(&Buffer) -> bool) -> bool {
        let Some(aside) = self.0.as_mut().filter(|aside| is_as_good(aside)) else { return false };
        mem::swap(&mut **aside, buffer);
        aside.put_aside();
        true
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Puts `buffer` aside if such buffers are used in turn.
    pub fn put(&mut self, buffer: Buffer) {
        if !buffer.takes_turns() {
            self.0 = None;
            return;
        }
        match &mut self.0 {
            Some(aside) => **aside = buffer,
            None => self.0 = Some(Box::new(buffer)),
        }
        // Only now: what was aside before and is let go of would be noted in its place.
        if let Some(aside) = &self.0 {
            aside.put_aside();
        }
    }

    pub fn drop(&mut self) {
        self.0 = None;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use deck_segment::layout::DATA;
    use deck_segment::{FetchBack, Fetching, HeapMemory, HeapOptions, Rest, Seat};
    use deck_sync::NodeId;

    use super::super::Parcel;
    use super::*;

    const SIZE: usize = 8 << 10;

    fn heap(bytes: usize, fetching: Fetching) -> Arc<HeapMemory> {
        let options = HeapOptions { fetching, ..HeapOptions::of(DATA + bytes) };
        HeapMemory::create(NodeId(0), Seat(0), &options).expect("there is memory")
    }

    /// New content of so many bytes is posted and received.
    fn post(parcel: &mut Parcel, bytes: usize, heap: &Arc<HeapMemory>) -> Buffer {
        parcel.resize(bytes, heap).unwrap();
        let buffer = parcel.buffer().unwrap();
        buffer.add_share();
        let in_flight = buffer.keep();
        let received = heap.receive(&buffer.name()).unwrap();
        drop(in_flight);
        received
    }

    /// The thread waits for an answer.
    fn wait(heap: &HeapMemory) {
        if let Some(mut back) = FetchBack::due(heap) {
            (0..1000).for_each(|_| _ = back.go_on(heap));
        }
    }

    /// Where the contents of some rounds lie, each of which is posted, read and let go of.
    fn places(parcel: &mut Parcel, heap: &Arc<HeapMemory>, rounds: usize, waits: bool) -> Vec<NonNull<u8>> {
        let round = |_| {
            let received = post(parcel, SIZE, heap);
            received.fetch(0, SIZE, true);
            let place = received.data();
            drop(received);
            if waits {
                wait(heap);
            }
            place
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is fetched")]
    fn new_content_goes_into_two_buffers_in_turn_if_they_come_back_and_anywhere_else_if_not() {
        for fetching in [Fetching::ByReaders, Fetching::ByWriters] {
            let (heap, mut parcel) = (heap(8 << 20, fetching), Parcel::default());
            places(&mut parcel, &heap, 3, true);
            let in_turn = places(&mut parcel, &heap, 20, true);
            assert!(in_turn[0] != in_turn[1] && in_turn.windows(3).all(|three| three[0] == three[2]), "{fetching:?}");
            let elsewhere = places(&mut parcel, &heap, 20, false);
            if fetching == Fetching::ByWriters {
                assert!(elsewhere[2..].windows(3).all(|three| three[0] != three[2]), "they rest");
            }
            assert_eq!(heap.held(), 2, "the content and the one aside");
            // A copy has none of its own, and whoever gives one up gives up both.
            let copy = parcel.clone();
            assert_eq!(heap.held(), 2);
            parcel.clear();
            assert_eq!(heap.held(), 1);
            drop(copy);
            assert_eq!(heap.held(), 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "nothing is fetched")]
    fn what_is_free_is_written_again_if_it_need_not_rest_and_the_other_one_is_not_back() {
        let (heap, mut parcel) = (heap(8 << 20, Fetching::ByWriters), Parcel::default());
        let size = 2 << 10;
        let round = |parcel: &mut Parcel| post(parcel, size, &heap).data();
        let places: Vec<_> = (0..10).map(|_| round(&mut parcel)).collect();
        assert!(places[0] != places[1] && places[1..].windows(2).all(|two| two[0] == two[1]));
        wait(&heap);
        assert_eq!(round(&mut parcel), places[0]);
    }

    #[test]
    fn nothing_stays_aside_of_a_message_whose_buffer_is_another_one() {
        let (heap, mut parcel) = (heap(8 << 20, Fetching::ByWriters), Parcel::default());
        let turns = |parcel: &mut Parcel| {
            let received = post(parcel, SIZE, &heap);
            drop(post(parcel, SIZE, &heap));
            assert_eq!(heap.held(), 2);
            drop(received);
        };
        turns(&mut parcel);
        parcel.resize(4 * SIZE, &heap).unwrap();
        assert_eq!(heap.held(), 1, "it grew");
        drop(std::mem::take(&mut parcel));
        turns(&mut parcel);
        let other = heap.allocate(100).unwrap();
        parcel.set_buffer(other, 100, 1, 0);
        assert_eq!(heap.held(), 1, "it was handed another one");
    }

    #[test]
    fn a_message_that_came_is_answered_where_it_lies() {
        let (heap, mut parcel) = (heap(8 << 20, Fetching::ByWriters), Parcel::default());
        let received = post(&mut parcel, SIZE, &heap);
        drop(parcel);
        let (place, mut answer) = (received.data(), Parcel::default());
        answer.set_buffer(received, SIZE, 1, 0);
        answer.resize(SIZE, &heap).unwrap();
        assert_eq!(answer.data(), place);
    }

    #[test]
    fn where_there_is_no_other_memory_the_one_aside_is_used_though_it_did_not_come_back() {
        let size = 300 << 10;
        let options =
            HeapOptions { fetching: Fetching::ByWriters, rest: Rest::new(0), ..HeapOptions::of(DATA + (1 << 20)) };
        let heap = HeapMemory::create(NodeId(0), Seat(0), &options).unwrap();
        let mut parcel = Parcel::default();
        drop(post(&mut parcel, size, &heap));
        let held = post(&mut parcel, size, &heap);
        let _rest = heap.allocate(size).unwrap();
        assert!(heap.allocate(size).is_err(), "there is no more");
        parcel.resize(size, &heap).expect("one is aside, and free");
        assert_ne!(parcel.data(), held.data());
    }
}
