//! Models of pins: an object is never taken away under its users, and exactly once; one that is used alone is used by
//! one thread at a time. Loom's cell notices when somebody touches the object beside whoever writes it.
#![cfg(loom)]

mod bounded;

use std::sync::Arc;

use deck_sync::{Held, Key, NotPinned, Pins, Shortcuts, WhyNot};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use bounded::bounded;

const NAME: u64 = 7 * Pins::<false>::STEP;

struct Object<const ALONE: bool> {
    pins: Pins<ALONE>,
    value: UnsafeCell<u32>,
    taken: AtomicUsize,
    /// What the words of two objects differ in.
    number: u64,
}

// SAFETY: loom checks who touches the value.
unsafe impl<const ALONE: bool> Sync for Object<ALONE> {}

impl<const ALONE: bool> Object<ALONE> {
    /// An object whose favourite is the calling thread, as the last one that has pinned it.
    fn of_this_thread() -> Arc<Object<ALONE>> {
        Object::numbered(1)
    }

    fn numbered(number: u64) -> Arc<Object<ALONE>> {
        let object = Object { pins: Pins::new(NAME), value: UnsafeCell::new(0), taken: AtomicUsize::new(0), number };
        let object = Arc::new(object);
        object.pins.live();
        object.visit(|_, _| ()).unwrap();
        object
    }

    /// Pins it for as long as `visit` takes. Whoever is told so takes it away.
    fn visit(&self, visit: impl FnOnce(&Self, &Held)) -> Result<(), WhyNot> {
        self.visit_named(NAME, visit)
    }

    fn visit_named(&self, name: u64, visit: impl FnOnce(&Self, &Held)) -> Result<(), WhyNot> {
        let (result, is_last) = match self.pin(name) {
            Ok(held) => {
                // Others run between two looks at something that is shared.
                assert_eq!(self.taken(), 0, "it was taken away");
                visit(self, &held);
                assert_eq!(self.taken(), 0, "it was taken away");
                (Ok(()), self.pins.unpin(held, || self.way(NAME)))
            }
            Err(NotPinned { why, is_last }) => (Err(why), is_last),
        };
        if is_last {
            // SAFETY: loom sees whether anybody else touches it.
            self.value.with_mut(|value| unsafe { *value = u32::MAX });
            assert_eq!(self.pins.next(), NAME + Pins::<ALONE>::STEP);
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// By a shortcut, if there is one.
    fn pin(&self, name: u64) -> Result<Held, NotPinned> {
        let entered = Shortcuts::of_this_thread().and_then(|shortcuts| shortcuts.enter(self.way(name).0));
        match entered {
            Some(entered) => {
                assert_eq!(entered.object(), self.way(name).1);
                Ok(entered.into())
            }
            None => self.pins.pin(name),
        }
    }

    fn way(&self, name: u64) -> (Key, *const ()) {
        (Key { at: 0, word: name | self.number, session: 1 }, std::ptr::from_ref(self).cast())
    }

    fn read(&self) -> Result<(), WhyNot> {
        // SAFETY: loom sees whether anybody writes it meanwhile.
        self.visit(|this, _| this.value.with(|value| assert_ne!(unsafe { *value }, u32::MAX)))
    }

    fn add(&self) -> Result<(), WhyNot> {
        // SAFETY: loom sees whether anybody else touches it meanwhile.
        self.visit(|this, _| this.value.with_mut(|value| unsafe { *value += 1 }))
    }

    fn end(&self) -> Result<(), WhyNot> {
        self.visit(|this, held| assert!(this.pins.end(held)))
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// An object is put in place while another thread looks for it: whoever pins it sees it whole.
///
/// Seen to fail: with an object that lives relaxed; with a pin that is counted relaxed.
#[test]
fn whoever_pins_an_object_sees_it_whole() {
    bounded(4, || {
        let pins = Pins::<false>::new(NAME);
        let (value, taken) = (UnsafeCell::new(u32::MAX), AtomicUsize::new(0));
        let object = Arc::new(Object::<false> { pins, value, taken, number: 1 });
        let other = object.clone();
        let other = thread::spawn(move || other.read());
        // SAFETY: loom sees whether anybody reads it meanwhile.
        object.value.with_mut(|value| unsafe { *value = 1 });
        object.pins.live();
        assert!(matches!(other.join().unwrap(), Ok(()) | Err(WhyNot::Never)));
        assert_eq!(object.read(), Ok(()));
    });
}

/// The favourite comes again while another thread ends the object.
///
/// Seen to fail: without the light fences when the favourite enters and leaves, or before a pin is counted; without the
/// second look at the shortcut; without the heavy fence, the look at the favourite or `TAKEN` when the object is taken;
/// without the fence when another one becomes the favourite; with a refused pin or a favourite that does not take what
/// was left to it; with a favourite that leaves relaxed.
#[test]
fn what_is_ended_under_its_favourite_is_taken_once() {
    bounded(4, || {
        let object = Object::<false>::of_this_thread();
        let other = object.clone();
        let other = thread::spawn(move || other.end().unwrap());
        let result = object.read();
        other.join().unwrap();
        assert!(matches!(result, Ok(()) | Err(WhyNot::Ended)));
        // Before anybody else looks, who would take what was left.
        assert_eq!(object.taken(), 1);
        assert_eq!(object.read(), Err(WhyNot::Ended));
    });
}

/// The favourite means an object that is not there, and may be taken for one that uses the one that is.
///
/// Seen to fail: with a refused pin that does not take what was left to it if it was not the one that was meant.
#[test]
fn what_is_ended_under_a_favourite_that_means_another_one_is_taken_once() {
    bounded(4, || {
        let object = Object::<false>::of_this_thread();
        let other = object.clone();
        let other = thread::spawn(move || other.end().unwrap());
        let result = object.visit_named(NAME - Pins::<false>::STEP, |_, _| ());
        other.join().unwrap();
        assert_eq!(result, Err(WhyNot::Ended));
        assert_eq!(object.taken(), 1);
    });
}

/// The favourite ends the object while another thread comes, which may become the favourite.
///
/// Seen to fail: with a right that moves away from under the favourite; if the end does not close the shortcut, or a
/// shortcut to what was ended meanwhile stays open.
#[test]
fn what_its_favourite_ends_is_taken_once() {
    bounded(4, || {
        let object = Object::<false>::of_this_thread();
        let other = object.clone();
        let other = thread::spawn(move || [other.read(), other.read()]);
        object.end().unwrap();
        let results = other.join().unwrap();
        assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(WhyNot::Ended))));
        assert_eq!(object.taken(), 1);
        assert_eq!(object.read(), Err(WhyNot::Ended));
    });
}

/// Two threads take the right from one another and from a third one, which ends the object.
///
/// Seen to fail: if the object is ended relaxed, or a counted pin ends relaxed.
#[test]
fn the_right_moves_between_those_who_share() {
    bounded(2, || {
        let object = Object::<false>::of_this_thread();
        let others = [(); 2].map(|()| {
            let object = object.clone();
            thread::spawn(move || object.read())
        });
        object.end().unwrap();
        let results = others.map(|other| other.join().unwrap());
        assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(WhyNot::Ended))));
        assert_eq!(object.taken(), 1);
    });
}

/// The favourite and another thread use an object alone: each either has it or is told that it is busy, and in the end
/// it is free.
///
/// Seen to fail: with a favourite that enters without a fence or a second look; without the fence when its shortcut is
/// closed; with a relaxed counted pin.
#[test]
fn alone_is_alone() {
    bounded(4, || {
        let object = Object::<true>::of_this_thread();
        let other = object.clone();
        let other = thread::spawn(move || [other.add(), other.add()]);
        let own = [object.add(), object.add()];
        let others = other.join().unwrap();
        let results = [own, others];
        let added = results.as_flattened().iter().filter(|result| result.is_ok()).count() as u32;
        assert!(results.as_flattened().iter().all(|result| matches!(result, Ok(()) | Err(WhyNot::Busy))));
        assert_eq!(object.add(), Ok(()));
        // SAFETY: no other thread is left.
        assert_eq!(object.value.with(|value| unsafe { *value }), added + 1);
        assert_eq!(object.taken(), 0);
    });
}

/// The favourite's shortcut comes to lead to another object while another thread uses the one that it led to.
///
/// Seen to fail: with a look at who is inside that is relaxed, or a counted pin that ends relaxed; with shortcuts that
/// are opened and closed relaxed.
#[test]
fn a_shortcut_leads_elsewhere() {
    bounded(4, || {
        // The last one has the shortcut.
        let [another, object] = [1, 2].map(Object::<true>::numbered);
        let other = object.clone();
        let other = thread::spawn(move || other.add());
        let own = object.add();
        // Counted, and then by the shortcut.
        assert_eq!([another.add(), another.add()], [Ok(()); 2]);
        let added = [own, other.join().unwrap()].iter().filter(|result| result.is_ok()).count() as u32;
        assert_eq!(object.add(), Ok(()));
        // SAFETY: no other thread is left.
        assert_eq!(object.value.with(|value| unsafe { *value }), added + 1);
    });
}

/// One of the two ends it.
///
/// Seen to fail: with a look at the favourite only if the shortcut has just been closed, or one that is closed relaxed;
/// if whoever has ended the object becomes its favourite; if the favourite ends it, or a thread that the favourite has
/// kept out gives up, without a locked operation; if whoever has it alone leaves it relaxed, or ended and not taken.
#[test]
fn what_is_used_alone_and_ended_is_taken_once() {
    for favourite_ends in [false, true] {
        bounded(4, move || {
            let object = Object::<true>::of_this_thread();
            let other = object.clone();
            let run = |object: Arc<Object<true>>, ends: bool| {
                if ends {
                    while object.end() == Err(WhyNot::Busy) {
                        thread::yield_now();
                    }
                } else {
                    let results = [object.add(), object.add()];
                    assert!(!results.contains(&Err(WhyNot::Never)));
                }
            };
            let other = thread::spawn(move || run(other, !favourite_ends));
            run(object.clone(), favourite_ends);
            other.join().unwrap();
            assert_eq!(object.taken(), 1);
            assert_eq!(object.add(), Err(WhyNot::Ended));
        });
    }
}
