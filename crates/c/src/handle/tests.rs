//! Unit tests of the handle table.

use super::*;
use std::sync::{Arc, MutexGuard};
use std::thread;

type Opaque = [u8; 0];

/// Takes the place of a semaphore.
struct Other(i32);

static SESSION: AtomicU64 = AtomicU64::new(0);

/// The calling thread in the session of the test that has its turn.
fn here() -> Caller {
    Caller::here(SESSION.load(Ordering::Relaxed))
}

/// The calling thread in a later session.
fn later() -> Caller {
    Caller::here(here().session() + 1)
}

// SAFETY: each table has a session of its own, but for those of different kinds.
unsafe impl Object for i32 {
    const KIND: Kind = Kind::Message;
}

// SAFETY: each table has a session of its own, but for those of different kinds.
unsafe impl Object for usize {
    const KIND: Kind = Kind::Mailbox;
}

// SAFETY: each table has a session of its own, but for those of different kinds.
unsafe impl Object for Other {
    const KIND: Kind = Kind::Semaphore;
}

// SAFETY: each table has a session of its own, but for those of different kinds.
unsafe impl Object for Arc<()> {
    const KIND: Kind = Kind::Segment;
}

/// The only table of its kind that is in use: no other test has tables until the calling one ends, and none has the
/// same sessions, as another may have objects with the same handles.
fn table<T: Object, const ALONE: bool>() -> &'static Table<T, ALONE> {
    static TURN: Mutex<()> = Mutex::new(());
    thread_local!(static OWN_TURN: MutexGuard<'static, ()> = lock(&TURN));
    OWN_TURN.with(|_| ());
    SESSION.fetch_add(2, Ordering::Relaxed);
    // Reachable to the end, as a table in a static is: so Miri does not take it for a leak.
    static TABLES: Mutex<Vec<AtomicPtr<()>>> = Mutex::new(Vec::new());
    let table: &'static mut Table<T, ALONE> = Box::leak(Box::new(Table::new()));
    lock(&TABLES).push(AtomicPtr::new(ptr::from_mut(table).cast()));
    table
}

fn put<T: Object, const ALONE: bool>(table: &'static Table<T, ALONE>, object: T) -> *mut Opaque {
    table.insert(here().session(), object).expect("there is room")
}

/// What `caller` is told.
fn told<T: Object, const ALONE: bool>(
    table: &'static Table<T, ALONE>,
    handle: *const Opaque,
    caller: Caller,
) -> String {
    table.pin(handle, caller).err().expect("the handle is unusable").to_string()
}

/// That the handle is refused, and why.
fn assert_refused<T: Object, const ALONE: bool>(table: &'static Table<T, ALONE>, handle: *const Opaque, why: Unusable) {
    assert_eq!(told(table, handle, here()), why.error::<T>().to_string(), "{handle:?}");
}

/// Often enough that the calling thread is the favourite of an object.
fn come_often<T: Object, const ALONE: bool>(table: &'static Table<T, ALONE>, handle: *const Opaque) {
    deck_sync::barrier::register();
    (0..100).for_each(|_| drop(table.pin(handle, here()).expect("it is there")));
}

#[test]
fn a_handle_leads_to_its_object() {
    let table: &Table<_> = table();
    let (one, two) = (put(table, 1), put(table, 2));
    assert_ne!(one, two);
    assert_eq!(*table.pin(one, here()).unwrap(), 1);
    assert_eq!(*table.pin_of_any_session(two).unwrap(), 2);
}

#[test]
fn null_garbage_and_wrong_kinds_are_told_apart() {
    let table: &Table<_> = table();
    let handle = put(table, 5);
    assert_refused(table, ptr::null(), Unusable::Null);
    let on_the_stack = 0;
    for garbage in [1, 0x1000, usize::MAX, handle.addr() | 1, ptr::from_ref(&on_the_stack).addr()] {
        assert_refused(table, ptr::without_provenance(garbage), Unusable::Garbage);
    }
    let others: &Table<_> = self::table();
    let semaphore = put(others, Other(5));
    assert_eq!(others.pin(semaphore, here()).unwrap().0, 5);
    assert_refused(table, semaphore, Unusable::OtherKind(Kind::Semaphore));
}

fn forged(kind: Kind, generation: u64, index: u32) -> u64 {
    name(kind, generation) | u64::from(index) << LOW_BITS
}

#[test]
fn handles_that_were_never_given_out_are_garbage() {
    let table: &Table<_> = table();
    put(table, 5);
    let unused_slot = forged(Kind::Message, 1, 1);
    let future_generation = forged(Kind::Message, 2, 0);
    let past_the_table = forged(Kind::Message, 1, CAPACITY - 1);
    for forged in [unused_slot, future_generation, past_the_table] {
        assert_refused(table, ptr::without_provenance(forged as usize), Unusable::Garbage);
    }
}

#[test]
fn a_removed_handle_stays_destroyed_when_its_slot_is_used_again() {
    let table: &Table<_> = table();
    let old = put(table, 1);
    assert!(table.pin(old, here()).unwrap().remove());
    let new = put(table, 2);
    assert_eq!(
        decode(Kind::Message, old.addr() as u64).unwrap().0,
        decode(Kind::Message, new.addr() as u64).unwrap().0
    );
    assert_refused(table, old, Unusable::Destroyed);
    assert_eq!(*table.pin(new, here()).unwrap(), 2);
}

#[test]
fn a_slot_whose_generations_are_used_up_is_retired() {
    let table: &Table<_> = table();
    let first = put(table, 1);
    table.pin_of_any_session(first).unwrap().remove();
    // SAFETY: the table has this slot, and nobody else uses it.
    unsafe { (*table.chunks[0].load(Ordering::Relaxed)).pins = Pins::new(name(Kind::Message, RETIRED - 1)) };
    let last = put(table, 2);
    assert!(table.pin_of_any_session(last).unwrap().remove());
    let elsewhere = put(table, 3);
    assert_eq!(decode(Kind::Message, elsewhere.addr() as u64).unwrap().0, 1);
    assert_refused(table, first, Unusable::Destroyed);
    assert_refused(table, last, Unusable::Destroyed);
}

#[test]
fn an_object_lives_until_its_last_pin_goes() {
    for has_favourite in [false, true] {
        let table: &Table<_> = table();
        let object = Arc::new(());
        let handle = put(table, Arc::clone(&object));
        if has_favourite {
            come_often(table, handle);
        }
        let waiting = table.pin(handle, here()).unwrap();
        let address = handle.addr();
        thread::scope(|scope| {
            let end = || assert!(table.pin(ptr::without_provenance::<Opaque>(address), here()).unwrap().remove());
            scope.spawn(end).join().unwrap();
        });
        assert!(!waiting.remove(), "only one of them ends it");
        assert_refused(table, handle, Unusable::Destroyed);
        assert_eq!(Arc::strong_count(&object), 2);
        drop(waiting);
        assert_eq!(Arc::strong_count(&object), 1);
    }
}

#[test]
fn an_object_used_alone_is_busy_for_everybody_else() {
    for has_favourite in [false, true] {
        let table: &Table<_, true> = table();
        let handle = put(table, 1);
        if has_favourite {
            come_often(table, handle);
        }
        let mut alone = table.pin(handle, here()).unwrap();
        *alone += 1;
        assert_refused(table, handle, Unusable::Busy);
        let address = handle.addr();
        thread::scope(|scope| {
            let other = || assert_refused(table, ptr::without_provenance(address), Unusable::Busy);
            scope.spawn(other).join().unwrap();
        });
        drop(alone);
        assert_eq!(*table.pin(handle, here()).unwrap(), 2);
    }
}

#[test]
fn objects_of_an_earlier_session_are_past_and_can_still_be_removed() {
    let table: &Table<_> = table();
    let handle = put(table, 1);
    assert_eq!(told(table, handle, later()), Unusable::Past.error::<i32>().to_string());
    come_often(table, handle);
    assert_eq!(told(table, handle, later()), Unusable::Past.error::<i32>().to_string(), "for its favourite too");
    assert!(table.pin_of_any_session(handle).unwrap().remove());
    assert_eq!(told(table, handle, later()), Unusable::Destroyed.error::<i32>().to_string());
}

/// A thread has fewer shortcuts than a program has objects.
#[test]
fn objects_with_the_same_shortcut_are_told_apart() {
    let (table, other): (&Table<i32>, &Table<usize, true>) = (table(), self::table());
    let handles: Vec<_> = (0..40).map(|number| (put(table, number as i32), put(other, number))).collect();
    for handle in [0, 8, 16, 0, 1] {
        come_often(table, handles[handle].0);
        come_often(other, handles[handle].1);
        for (number, (shared, alone)) in handles.iter().enumerate() {
            assert_eq!(*table.pin(*shared, here()).unwrap(), number as i32);
            assert_eq!(*other.pin(*alone, here()).unwrap(), number);
        }
    }
}

/// What was closed has the word of no object, which is what a program may pass by mistake.
#[test]
fn null_leads_nowhere_after_a_shortcut_was_closed() {
    let (shared, alone): (&Table<usize>, &Table<i32, true>) = (table(), table());
    for number in 0..40 {
        let handles = (put(shared, number), put(alone, number as i32));
        come_often(shared, handles.0);
        come_often(alone, handles.1);
        assert!(shared.pin(handles.0, here()).unwrap().remove());
        assert!(alone.pin(handles.1, here()).unwrap().remove());
        put(shared, number);
        assert_refused(shared, ptr::null(), Unusable::Null);
        assert_refused(alone, ptr::null(), Unusable::Null);
    }
}

#[test]
fn find_asks_live_objects_only() {
    let table: &Table<_> = table();
    let handles: Vec<_> = (0..100).map(|number| put(table, number)).collect();
    for handle in &handles[..50] {
        table.pin_of_any_session(*handle).unwrap().remove();
    }
    let mut asked = Vec::new();
    assert_eq!(table.find(|number| (asked.push(*number), None::<()>).1), None);
    assert_eq!(asked, (50..100).collect::<Vec<_>>());
    assert_eq!(table.find(|number| (*number == 77).then_some("found")), Some("found"));
}

#[test]
fn every_index_has_a_place_of_its_own() {
    let mut expected = (0, 0);
    for index in 0..10_000 {
        assert_eq!(locate(index), expected);
        expected.1 += 1;
        if expected.1 == FIRST_CHUNK << expected.0 {
            expected = (expected.0 + 1, 0);
        }
    }
    assert!(locate(CAPACITY - 1).0 < CHUNKS);
}

#[test]
fn a_handle_survives_encoding() {
    for (generation, index) in [(1, 0), (RETIRED - 1, CAPACITY - 1), (12_345, 678)] {
        assert_eq!(decode(Kind::Mailbox, forged(Kind::Mailbox, generation, index)), Ok((index, generation)));
    }
}

/// Threads create, use, exchange and destroy at the same time; each object must be dropped once, and a handle must
/// never lead to another object than its own.
#[test]
fn threads_that_create_and_destroy_never_meet_a_wrong_object() {
    const THREADS: usize = 4;
    const ROUNDS: usize = if cfg!(miri) { 40 } else { 20_000 };
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted(usize);
    // SAFETY: each table has a session of its own, but for those of different kinds.
    unsafe impl Object for Counted {
        const KIND: Kind = Kind::Message;
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }

    deck_sync::barrier::register();
    let table: &Table<Counted> = table();
    let offered: Vec<_> = (0..THREADS).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (table, offered) = (table, &offered);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let name = me * ROUNDS + round;
                    let handle = put(table, Counted(name));
                    offered[me].store(handle.addr(), Ordering::Release);
                    let other = offered[(me + round) % THREADS].load(Ordering::Acquire);
                    match table.pin(ptr::without_provenance::<Opaque>(other), here()) {
                        Ok(pin) => assert_eq!(pin.0 / ROUNDS, (me + round) % THREADS),
                        Err(error) => {
                            let why = if other == 0 { Unusable::Null } else { Unusable::Destroyed };
                            assert_eq!(error.to_string(), why.error::<Counted>().to_string());
                        }
                    }
                    if round % 8 == 0 {
                        come_often(table, handle);
                    }
                    let own = table.pin(handle, here()).expect("nobody else removes it");
                    assert_eq!(own.0, name);
                    assert!(own.remove());
                }
            });
        }
    });
    assert_eq!(DROPPED.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert!(*table.fresh.lock().unwrap() <= 2 * THREADS as u32, "slots are used again");
}

/// Exclusive use is exclusive: a plain counter changed by many threads loses no step.
#[test]
fn alone_means_alone_between_threads() {
    const STEPS: usize = if cfg!(miri) { 50 } else { 10_000 };
    deck_sync::barrier::register();
    let table: &Table<_, true> = table();
    let handle = put(table, 0_usize).addr();
    let total = thread::scope(|scope| {
        let counting = (0..3).map(|_| {
            scope.spawn(|| {
                let taken = (0..STEPS).filter(|_| {
                    let alone = table.pin(ptr::without_provenance::<Opaque>(handle), here());
                    alone.map(|mut counter| *counter += 1).is_ok()
                });
                taken.count()
            })
        });
        counting.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(*table.pin_of_any_session(ptr::without_provenance::<Opaque>(handle)).unwrap(), total);
}
