//! Condition variables of several nodes, all of them in this process.

mod job;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use deck::shared::{Condition, Counter, Mutex, Segment};
use deck::{ErrorKind, FOREVER, Node, Thread};

use job::{A_MOMENT, SOON, TRY, job};

/// The mutex and the condition of most tests.
fn open(node: &Node) -> (Mutex, Condition) {
    (Mutex::open(node, "m").unwrap(), Condition::open(node, "c").unwrap())
}

/// A thread that can be cancelled and waits as `wait` does, and what that tells about how far it is.
fn waiter(
    node: Node,
    wait: impl FnOnce(&Mutex, &Condition, &Sender<()>) + Send + 'static,
) -> (Thread<()>, Receiver<()>) {
    let (told, when) = channel();
    let waiter = Thread::spawn(move || {
        let (mutex, condition) = open(&node);
        wait(&mutex, &condition, &told);
    });
    (waiter.unwrap(), when)
}

#[test]
fn a_wait_in_a_condition_whose_mutex_was_closed_meanwhile_does_not_lock_it() {
    let (_broker, [a, b]) = job();
    let (mutex, condition) = open(&a);
    let elsewhere = Mutex::open(&b, "m").unwrap();
    mutex.lock_unguarded(SOON).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            // As soon as the other waits.
            let _guard = elsewhere.lock(SOON).unwrap();
            mutex.close();
            condition.signal().unwrap();
        });
        assert_eq!(condition.wait_unguarded(&mutex, SOON).unwrap_err().kind(), ErrorKind::NotLocked);
    });
    assert_eq!(mutex.lock_unguarded(SOON).unwrap_err().kind(), ErrorKind::Closed);
    drop(elsewhere.lock(SOON).unwrap());
}

#[test]
fn what_is_signalled_under_the_mutex_is_never_missed() {
    let (_broker, [a, b]) = job();
    const ITEMS: i64 = 2000;
    // A place for one item: two put in, two take out, and each wakes the other.
    let put = |node: &Node| {
        let (place, mutex) = (Segment::open(node, "place", SOON).unwrap(), Mutex::open(node, "place").unwrap());
        let [full, empty] = ["full", "empty"].map(|name| Condition::open(node, name).unwrap());
        for item in 1..=ITEMS {
            let mut guard = mutex.lock(SOON).unwrap();
            while word(&place) != 0 {
                guard = empty.wait(guard, SOON).unwrap();
            }
            place.write(0, &item.to_ne_bytes()).unwrap();
            full.signal().unwrap();
        }
    };
    let take = |node: &Node| {
        let (place, mutex) = (Segment::open(node, "place", SOON).unwrap(), Mutex::open(node, "place").unwrap());
        let [full, empty] = ["full", "empty"].map(|name| Condition::open(node, name).unwrap());
        let mut sum = 0;
        for _ in 0..ITEMS {
            let mut guard = mutex.lock(SOON).unwrap();
            while word(&place) == 0 {
                guard = full.wait(guard, SOON).unwrap();
            }
            sum += word(&place);
            place.write(0, &0i64.to_ne_bytes()).unwrap();
            empty.signal().unwrap();
        }
        sum
    };
    let _place = Segment::create(&a, "place", 8, None).unwrap();
    thread::scope(|scope| {
        let puts = [&a, &b].map(|node| scope.spawn(move || put(node)));
        let takes = [&a, &b].map(|node| scope.spawn(move || take(node)));
        puts.into_iter().for_each(|thread| thread.join().unwrap());
        let sum: i64 = takes.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, ITEMS * (ITEMS + 1));
    });
}

fn word(segment: &Segment) -> i64 {
    let mut bytes = [0; 8];
    segment.read(0, &mut bytes).unwrap();
    i64::from_ne_bytes(bytes)
}

#[test]
fn a_wait_in_a_condition_ends_with_the_mutex_locked_or_says_that_it_is_not() {
    let (_broker, [a, b]) = job();
    let (mutex, condition) = open(&a);
    assert_eq!(condition.wait_unguarded(&mutex, TRY).unwrap_err().kind(), ErrorKind::Invalid, "not held");
    let guard = mutex.lock(TRY).unwrap();
    assert_eq!(condition.wait_unguarded(&mutex, TRY).unwrap_err().kind(), ErrorKind::Invalid, "a guard holds it");
    drop(guard);
    mutex.lock_unguarded(TRY).unwrap();
    assert_eq!(condition.wait_unguarded(&mutex, A_MOMENT).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(mutex.is_mine());
    mutex.unlock().unwrap();

    let elsewhere = Mutex::open(&b, "m").unwrap();
    let (told, when) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut guard = mutex.lock(SOON).unwrap();
            told.send(()).unwrap();
            let error = loop {
                match condition.wait(guard, A_MOMENT) {
                    // The other has not got to it yet.
                    Err(early) if early.kind() == ErrorKind::Timeout => guard = early.into_guard().unwrap(),
                    ended => break ended.map(drop).unwrap_err(),
                }
            };
            assert_eq!(
                (error.kind(), error.peer(), error.is_locked()),
                (ErrorKind::NotLocked, Some(b.number()), false)
            );
            told.send(()).unwrap();
        });
        when.recv().unwrap();
        // The waiter lets go of it.
        let _guard = elsewhere.lock(SOON).unwrap();
        when.recv_timeout(SOON).unwrap();
    });
    // Somebody ends inside while another waits.
    thread::scope(|scope| {
        let guard = mutex.lock(SOON).unwrap();
        scope.spawn(|| {
            let mutex = Mutex::open(&b, "m").unwrap();
            mutex.lock_unguarded(SOON).unwrap();
            Condition::open(&b, "c").unwrap().signal().unwrap();
        });
        let error = condition.wait(guard, SOON).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.is_locked()), (ErrorKind::OwnerDied, true));
        drop(error.into_guard().unwrap());
    });
}

#[test]
fn whoever_is_cancelled_while_it_gets_the_mutex_back_still_gets_it() {
    let (_broker, [a, b]) = job();
    let (waiter, when) = waiter(a, |mutex, condition, told| {
        let guard = mutex.lock(SOON).unwrap();
        told.send(()).unwrap();
        let error = condition.wait(guard, FOREVER).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.is_locked()), (ErrorKind::Cancelled, true));
    });
    when.recv().unwrap();
    let mutex = Mutex::open(&b, "m").unwrap();
    let guard = mutex.lock(SOON).unwrap();
    for _ in 0..10_000 {
        waiter.cancel();
        thread::yield_now();
    }
    drop(guard);
    waiter.join().unwrap();
}

#[test]
fn whoever_is_cancelled_again_and_again_waits_for_the_mutex_no_longer_for_that() {
    let (_broker, [a, b]) = job();
    let (waiter, when) = waiter(a, |mutex, condition, told| {
        let mut guard = mutex.lock(SOON).unwrap();
        told.send(()).unwrap();
        let mut error = condition.wait(guard, A_MOMENT).map(drop).unwrap_err();
        // Nobody else had it yet.
        while error.is_locked() {
            assert_eq!(error.kind(), ErrorKind::Timeout);
            guard = error.into_guard().unwrap();
            error = condition.wait(guard, A_MOMENT).map(drop).unwrap_err();
        }
        assert_eq!(error.kind(), ErrorKind::NotLocked);
        told.send(()).unwrap();
    });
    when.recv().unwrap();
    let mutex = Mutex::open(&b, "m").unwrap();
    let guard = mutex.lock(SOON).unwrap();
    let since = Instant::now();
    while when.recv_timeout(A_MOMENT).is_err() {
        assert!(since.elapsed() < SOON, "it waits on");
        waiter.cancel();
    }
    drop(guard);
    waiter.join().unwrap();
}

#[test]
fn a_cancellation_that_a_wait_does_not_tell_is_told_by_the_next() {
    let (_broker, [a, b]) = job();
    let (waiter, when) = waiter(a, |mutex, condition, told| {
        let guard = mutex.lock(SOON).unwrap();
        told.send(()).unwrap();
        let error = condition.wait(guard, FOREVER).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.is_locked()), (ErrorKind::OwnerDied, true));
        let error = condition.wait(error.into_guard().unwrap(), SOON).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.is_locked()), (ErrorKind::Cancelled, true));
        drop(error);

        mutex.lock_unguarded(SOON).unwrap();
        told.send(()).unwrap();
        assert_eq!(condition.wait_unguarded(mutex, FOREVER).unwrap_err().kind(), ErrorKind::OwnerDied);
        assert_eq!(condition.wait_unguarded(mutex, SOON).unwrap_err().kind(), ErrorKind::Cancelled);
    });
    for _ in ["guarded", "unguarded"] {
        when.recv().unwrap();
        // Ends inside while the other waits, who is told when it has the mutex back.
        thread::scope(|scope| {
            scope.spawn(|| Mutex::open(&b, "m").unwrap().lock_unguarded(SOON).unwrap());
        });
        waiter.cancel();
    }
    waiter.join().unwrap();
}

/// Counts itself as waiting, and as woken after a signal.
fn be_woken(node: &Node, waiting: &Counter, woken: &Counter) {
    let (mutex, condition) = open(node);
    let guard = mutex.lock(SOON).unwrap();
    waiting.add(1).unwrap();
    drop(condition.wait(guard, SOON).unwrap());
    woken.add(1).unwrap();
}

#[test]
fn a_broadcast_wakes_all_and_a_signal_one_of_those_who_wait() {
    let (_broker, nodes) = job::<3>();
    let (waiting, woken) = (Counter::open(&nodes[0], "waiting").unwrap(), Counter::open(&nodes[0], "woken").unwrap());
    let (mutex, condition) = open(&nodes[0]);
    // One that waited in vain before is in nobody's way.
    let impatient = condition.wait(mutex.lock(SOON).unwrap(), A_MOMENT).map(drop).unwrap_err();
    assert_eq!(impatient.kind(), ErrorKind::Timeout);
    drop(impatient);
    thread::scope(|scope| {
        for node in nodes.iter().flat_map(|node| [node, node]) {
            let (waiting, woken) = (&waiting, &woken);
            scope.spawn(move || be_woken(node, waiting, woken));
        }
        waiting.wait_for(6, SOON).unwrap();
        // The last one that counted itself is in the row once the mutex is free.
        drop(mutex.lock(SOON).unwrap());
        condition.signal().unwrap();
        woken.wait_for(1, SOON).unwrap();
        condition.signal().unwrap();
        woken.wait_for(2, SOON).unwrap();
        assert_eq!(woken.wait_for(3, A_MOMENT).unwrap_err().kind(), ErrorKind::Timeout);
        condition.broadcast().unwrap();
        woken.wait_for(6, SOON).unwrap();
    });
}

/// Whoever waits there in front of others passes on what it was called to.
#[test]
fn a_node_that_leaves_in_order_wakes_nobody_and_takes_no_signal_with_it() {
    let (_broker, [here, leaving, bystander]) = job();
    let (waiting, woken) = (Counter::open(&here, "waiting").unwrap(), Counter::open(&here, "woken").unwrap());
    let (mutex, condition) = open(&here);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let (mutex, condition) = open(&leaving);
            let guard = mutex.lock(SOON).unwrap();
            waiting.add(1).unwrap();
            condition.wait(guard, FOREVER).map(drop).unwrap_err().kind()
        });
        waiting.wait_for(1, SOON).unwrap();
        scope.spawn(|| be_woken(&here, &waiting, &woken));
        waiting.wait_for(2, SOON).unwrap();
        drop(mutex.lock(SOON).unwrap());
        bystander.leave().unwrap();
        assert_eq!(woken.wait_for(1, A_MOMENT).unwrap_err().kind(), ErrorKind::Timeout);
        let guard = mutex.lock(SOON).unwrap();
        condition.signal().unwrap();
        // The first one does not get the mutex, whether it knows of its signal by now or not.
        leaving.clone().leave().unwrap();
        assert!(matches!(first.join().unwrap(), ErrorKind::NotInitialized | ErrorKind::NotLocked));
        drop(guard);
        woken.wait_for(1, SOON).unwrap();
    });
}
