//! Shared segments, mutexes, barriers and counters of several nodes, all of them in this process. Condition variables:
//! `conditions.rs`.

mod job;

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use deck::shared::{Barrier, Condition, Counter, LockError, Mutex, Segment};
use deck::{Door, ErrorKind, FOREVER, Group, Node, NodeId, NodeState, Thread};

use job::{A_MOMENT, SOON, TRY, job};

#[test]
fn a_segment_is_created_once_found_by_all_and_free_when_nobody_has_it() {
    let (_broker, [a, b, c]) = job();
    for home in [None, Some(a.number()), Some(b.number()), Some(c.number())] {
        let created = Segment::create(&a, "board", 10_000, home).unwrap();
        let opened = [&a, &b, &c].map(|node| Segment::open(node, "board", SOON).unwrap());
        for (number, segment) in opened.iter().enumerate() {
            assert_eq!((segment.len(), segment.home()), (10_000, home.unwrap_or(a.number())));
            let mut bytes = [1; 3];
            created.read(9_997, &mut bytes).unwrap();
            assert_eq!(bytes, [0; 3], "zeroed");
            segment.write(1 + 3 * number, &[number as u8; 3]).unwrap();
        }
        let mut bytes = [9; 11];
        opened[1].read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 0]);

        let taken = Segment::create(&b, "board", 8, None).unwrap_err();
        assert_eq!((taken.kind(), taken.peer()), (ErrorKind::Exists, home.or(Some(a.number()))), "{taken}");
        drop(created);
        // Its creator has let go of it; the others still have it, and pass it on.
        let [of_a, of_b, of_c] = opened;
        drop((of_a, of_b));
        let again = Segment::open(&b, "board", SOON).unwrap();
        again.read(0, &mut bytes).unwrap();
        assert_eq!(bytes[4..7], [1; 3]);
        drop((again, of_c));
        assert_eq!(Segment::open(&b, "board", A_MOMENT).unwrap_err().kind(), ErrorKind::Timeout);
    }
}

#[test]
fn an_error_says_a_name_in_one_line_that_no_terminal_obeys() {
    let (_broker, [a]) = job();
    let name = "evil\u{1b}[31m\n  node 7: live";
    let mailbox = a.mailbox(name).unwrap();
    let segment = Segment::create(&a, name, 8, None).unwrap();
    for error in [
        mailbox.retrieve(TRY).unwrap_err(),
        a.mailbox(name).unwrap_err(),
        a.clone_mailbox(&format!("{name}?"), TRY).unwrap_err(),
        Segment::create(&a, name, 8, None).unwrap_err(),
        Segment::open(&a, &format!("{name}?"), TRY).unwrap_err(),
        segment.read(8, &mut [0]).unwrap_err(),
        Barrier::open(&a, name, 2).unwrap().wait(TRY).unwrap_err(),
        Group::join(&a, name, 2, None, TRY).err().unwrap(),
    ] {
        let said = error.to_string();
        assert!(said.contains(r#""evil\u{1b}[31m\n  node 7: live"#) && !said.contains(char::is_control), "{said:?}");
    }
}

#[test]
fn an_error_for_want_of_names_says_what_was_to_be_done() {
    let (_broker, [a]) = job();
    let counter = |number| Counter::open(&a, &format!("counter {number}"));
    let _open: Vec<Counter> = (0..).map_while(|number| counter(number).ok()).collect();
    for (error, doing) in [
        (Segment::create(&a, "one more", 8, None).unwrap_err(), "creating segment \"one more\": a job has at most"),
        (Mutex::open(&a, "one more").unwrap_err(), "opening the mutex \"one more\": a job has at most"),
    ] {
        let told = error.to_string();
        assert!(error.kind() == ErrorKind::NoMemory && told.starts_with(doing), "{told}");
    }
}

#[test]
fn opening_waits_until_a_segment_is_created() {
    let (_broker, [a, b]) = job();
    assert_eq!(Segment::open(&b, "late", TRY).unwrap_err().kind(), ErrorKind::Timeout);
    thread::scope(|scope| {
        let opener = scope.spawn(|| Segment::open(&b, "late", SOON).unwrap().len());
        let _created = Segment::create(&a, "late", 77, None).unwrap();
        assert_eq!(opener.join().unwrap(), 77);
    });
}

#[test]
fn whoever_tries_again_and_again_without_waiting_opens_a_segment_at_last() {
    let (_broker, [a, b]) = job();
    let created = Segment::create(&a, "tried", 77, None).unwrap();
    let begin = Instant::now();
    let opened = loop {
        match Segment::open(&b, "tried", Duration::ZERO) {
            Ok(opened) => break opened,
            Err(error) => assert!(error.kind() == ErrorKind::Timeout && begin.elapsed() < SOON, "{error}"),
        }
        thread::yield_now();
    };
    created.write(0, &[1; 77]).unwrap();
    let mut bytes = [0; 77];
    opened.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 77]);
}

#[test]
fn many_who_create_and_open_the_same_name_meet_in_one_segment() {
    let (_broker, nodes) = job::<4>();
    for _ in 0..30 {
        let barrier = std::sync::Barrier::new(nodes.len());
        let segments = thread::scope(|scope| {
            let come = |node| {
                barrier.wait();
                Segment::create(node, "raced", 4096, None).or_else(|error| {
                    assert_eq!(error.kind(), ErrorKind::Exists, "{error}");
                    Segment::open(node, "raced", SOON)
                })
            };
            let threads = nodes.each_ref().map(|node| scope.spawn(move || come(node).unwrap()));
            threads.map(|thread| thread.join().unwrap())
        });
        for (number, segment) in segments.iter().enumerate() {
            segment.write(number, &[number as u8 + 1]).unwrap();
        }
        for segment in &segments {
            let mut bytes = [0; 4];
            segment.read(0, &mut bytes).unwrap();
            assert_eq!(bytes, [1, 2, 3, 4]);
        }
    }
}

#[test]
fn impossible_segments_are_refused_with_the_reason() {
    let (_broker, [a, b]) = job();
    let kind = |result: deck::Result<Segment>| result.unwrap_err().kind();
    assert_eq!(kind(Segment::create(&a, "", 8, None)), ErrorKind::Invalid);
    assert_eq!(kind(Segment::create(&a, "none", 0, None)), ErrorKind::Invalid);
    assert_eq!(kind(Segment::create(&a, "far", 8, Some(NodeId(2)))), ErrorKind::Invalid);
    assert_eq!(kind(Segment::create(&a, "huge", 1 << 50, None)), ErrorKind::NoMemory);
    let error = Segment::create(&a, "huge", 1 << 50, Some(b.number())).unwrap_err();
    assert_eq!((error.kind(), error.peer()), (ErrorKind::NoMemory, Some(b.number())), "{error}");
    // Nothing of it is left.
    let segment = Segment::create(&a, "huge", 8, Some(b.number())).unwrap();
    for (offset, bytes) in [(0, 9), (8, 1), (9, 0), (usize::MAX, 2)] {
        assert_eq!(segment.read(offset, &mut vec![0; bytes]).unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(segment.write(offset, &vec![0; bytes]).unwrap_err().kind(), ErrorKind::Invalid);
    }
    segment.write(8, &[]).unwrap();
}

#[test]
fn a_segment_outlives_its_home_and_its_creator() {
    let (_broker, [a, b, c]) = job();
    let created = Segment::create(&a, "left behind", 100, Some(b.number())).unwrap();
    let kept = Segment::open(&c, "left behind", SOON).unwrap();
    created.write(50, b"still here").unwrap();
    drop(created);
    a.leave().unwrap();
    b.leave().unwrap();
    let (again, mut bytes) = (Segment::open(&c, "left behind", SOON).unwrap(), [0; 10]);
    again.read(50, &mut bytes).unwrap();
    assert_eq!(&bytes, b"still here");
    assert_eq!(Segment::create(&c, "left behind", 5, None).unwrap_err().kind(), ErrorKind::Exists);
    drop((kept, again));
    drop(Segment::create(&c, "left behind", 5, None).unwrap());
}

#[test]
fn one_thread_of_all_nodes_is_inside_a_mutex() {
    let (_broker, nodes) = job::<3>();
    let segment = Segment::create(&nodes[0], "sums", 16, None).unwrap();
    const ROUNDS: u64 = 3000;
    thread::scope(|scope| {
        for node in nodes.iter().flat_map(|node| [node, node]) {
            scope.spawn(move || {
                let (segment, mutex) = (Segment::open(node, "sums", SOON).unwrap(), Mutex::open(node, "sums").unwrap());
                for _ in 0..ROUNDS {
                    let _guard = mutex.lock(SOON).unwrap();
                    let mut words = [0; 16];
                    segment.read(0, &mut words).unwrap();
                    let sum = u128::from_le_bytes(words) + 1 + (1 << 64);
                    segment.write(0, &sum.to_le_bytes()).unwrap();
                }
            });
        }
    });
    let mut words = [0; 16];
    segment.read(0, &mut words).unwrap();
    assert_eq!(u128::from_le_bytes(words), u128::from(6 * ROUNDS) * (1 + (1 << 64)));
}

#[test]
fn a_mutex_is_not_locked_twice_nor_unlocked_by_others() {
    let (_broker, [a, b]) = job();
    let (mutex, same, elsewhere) =
        (Mutex::open(&a, "m").unwrap(), Mutex::open(&a, "m").unwrap(), Mutex::open(&b, "m").unwrap());
    assert_eq!(mutex.unlock().unwrap_err().kind(), ErrorKind::Invalid);
    let guard = mutex.lock(TRY).unwrap();
    assert_eq!(same.lock(SOON).unwrap_err().kind(), ErrorKind::Invalid);
    let held = elsewhere.lock(A_MOMENT).unwrap_err();
    assert_eq!((held.kind(), held.peer(), held.is_locked()), (ErrorKind::Timeout, Some(a.number()), false), "{held}");
    assert_eq!(elsewhere.unlock().unwrap_err().kind(), ErrorKind::Invalid);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(same.unlock().unwrap_err().kind(), ErrorKind::Invalid));
    });
    assert_eq!(same.unlock().unwrap_err().kind(), ErrorKind::Invalid, "the guard's own is to unlock it");
    guard.unlock();
    drop(elsewhere.lock(TRY).unwrap());
    same.lock_unguarded(TRY).unwrap();
    mutex.unlock().unwrap();
    // Names of other kinds are other names.
    drop(Condition::open(&a, "m").unwrap());
}

#[test]
fn a_thread_that_ends_with_a_mutex_leaves_it_to_the_next_who_is_told_once() {
    let (_broker, [a, b]) = job();
    let mutex = Mutex::open(&b, "m").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mine = Mutex::open(&a, "m").unwrap();
            mine.lock_unguarded(TRY).unwrap();
        });
    });
    let told = mutex.lock(SOON).unwrap_err();
    assert_eq!((told.kind(), told.peer(), told.is_locked()), (ErrorKind::OwnerDied, Some(a.number()), true), "{told}");
    assert!(told.to_string().contains("ended its thread without unlocking: the holder is gone (node 0)"), "{told}");
    assert_eq!(mutex.holder(), Some(b.number()));
    // Whoever does not look leaves it to the next one.
    drop(told);
    let told = mutex.lock(SOON).unwrap_err();
    assert_eq!((told.kind(), told.peer()), (ErrorKind::OwnerDied, Some(a.number())));
    drop(told.into_guard().unwrap());
    drop(mutex.lock(TRY).unwrap());
}

#[test]
fn a_node_that_leaves_with_a_mutex_leaves_it_to_the_next_who_is_told() {
    let (_broker, [a, b]) = job();
    let (leaving, mutex) = (Mutex::open(&a, "m").unwrap(), Mutex::open(&b, "m").unwrap());
    let guard = leaving.lock(TRY).unwrap();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| mutex.lock(SOON).map(drop).unwrap_err().error);
        a.clone().leave().unwrap();
        let told = waiter.join().unwrap();
        assert_eq!((told.kind(), told.peer()), (ErrorKind::OwnerDied, Some(a.number())));
        assert!(told.to_string().contains("left its job without unlocking: the holder is gone (node 0)"), "{told}");
    });
    drop(guard);
    assert_eq!(leaving.lock(TRY).unwrap_err().kind(), ErrorKind::NotInitialized);
    assert_eq!(Mutex::open(&a, "m").unwrap_err().kind(), ErrorKind::NotInitialized);
}

#[test]
fn a_node_that_never_had_the_mutex_and_leaves_while_its_threads_wait_for_it_is_no_dead_holder() {
    let (broker, [stays]) = job();
    let mutex = Mutex::open(&stays, "m").unwrap();
    for _ in 0..300 {
        let leaves = Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap();
        thread::scope(|scope| {
            let guard = mutex.lock(SOON).unwrap();
            let waiters: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| Mutex::open(&leaves, "m")?.lock_unguarded(FOREVER).map(|()| "held")))
                .collect();
            let leaving = scope.spawn(|| leaves.clone().leave().unwrap());
            drop(guard);
            let is_told = mutex.lock(SOON).map_or_else(|told| told.into_guard().is_ok(), |_| false);
            leaving.join().unwrap();
            let had = waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(Result::is_ok).count();
            // A thread that had no core for more than a second makes its node count as lost.
            let is_lost = stays.state(leaves.number()).unwrap() == NodeState::Lost;
            assert!(!is_told || had > 0 || is_lost);
            // Of one that had it later its end is told now.
            drop(mutex.lock(SOON).or_else(LockError::into_guard).unwrap());
        });
    }
}

#[test]
fn a_thread_whose_node_leaves_takes_nothing_over_from_its_own_node() {
    let (broker, [stays]) = job();
    for _ in 0..100 {
        let leaves = Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap();
        let held = Mutex::open(&leaves, "m").unwrap();
        held.lock_unguarded(SOON).unwrap();
        thread::scope(|scope| {
            let leaving = scope.spawn(|| Mutex::open(&leaves, "m")?.lock_unguarded(FOREVER));
            let staying = scope.spawn(|| {
                let mutex = Mutex::open(&stays, "m").unwrap();
                let error = mutex.lock(SOON).map(drop).unwrap_err();
                let kind = error.kind();
                drop(error.into_guard().unwrap());
                kind
            });
            leaves.clone().leave().unwrap();
            assert_eq!(leaving.join().unwrap().unwrap_err().kind(), ErrorKind::NotInitialized);
            assert_eq!(staying.join().unwrap(), ErrorKind::OwnerDied);
        });
    }
}

#[test]
fn leaving_and_cancelling_end_every_wait() {
    let (_broker, [a, b]) = job();
    let held = Mutex::open(&b, "m").unwrap();
    let _guard = held.lock(TRY).unwrap();
    let waits: [fn(&Node) -> deck::Result<()>; 5] = [
        |node| Mutex::open(node, "m")?.lock(FOREVER).map(drop).map_err(Into::into),
        |node| {
            let mutex = Mutex::open(node, "free")?;
            let guard = mutex.lock(SOON)?;
            Condition::open(node, "c")?.wait(guard, FOREVER).map(drop).map_err(Into::into)
        },
        |node| Barrier::open(node, "b", 3)?.wait(FOREVER).map(drop),
        |node| Counter::open(node, "n")?.wait_for(1, FOREVER).map(drop),
        |node| Segment::open(node, "s", FOREVER).map(drop),
    ];
    for wait in waits {
        let node = a.clone();
        let thread = Thread::spawn(move || wait(&node)).unwrap();
        thread.cancel();
        assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    }
    let (begun, wait_until_begun) = channel();
    let threads = waits.map(|wait| {
        let (node, begun) = (a.clone(), begun.clone());
        thread::spawn(move || {
            begun.send(()).unwrap();
            wait(&node)
        })
    });
    waits.iter().for_each(|_| wait_until_begun.recv().unwrap());
    a.leave().unwrap();
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::NotInitialized);
    }
    // What they had begun does not count.
    assert_eq!(Barrier::open(&b, "b", 3).unwrap().wait(TRY).unwrap_err().kind(), ErrorKind::Timeout);
}

#[test]
fn who_has_left_does_not_count_at_a_barrier_any_more() {
    for _ in 0..10 {
        let (_broker, [a, b]) = job();
        let barrier = Barrier::open(&b, "b", 3).unwrap();
        let has_come = |count: u32| {
            let error = barrier.wait(TRY).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            error.to_string().contains(&format!("{count} of 3"))
        };
        let inside = thread::spawn({
            let a = a.clone();
            move || Barrier::open(&a, "b", 3).unwrap().wait(FOREVER).unwrap_err().kind()
        });
        while !has_come(2) {
            thread::yield_now();
        }
        a.leave().unwrap();
        assert!(has_come(1));
        assert_eq!(inside.join().unwrap(), ErrorKind::NotInitialized);
    }
}

/// One thread takes the mutex again as soon as it has let go of it; another only tries now and then and still gets it.
#[test]
fn a_greedy_thread_does_not_starve_the_others() {
    let (_broker, [a, b, c]) = job();
    let is_over = Counter::open(&a, "is over").unwrap();
    thread::scope(|scope| {
        for node in [&a, &b] {
            let is_over = &is_over;
            scope.spawn(move || {
                let mutex = Mutex::open(node, "wanted").unwrap();
                while is_over.read().unwrap() == 0 {
                    let _guard = mutex.lock(SOON).unwrap();
                    (0..100).for_each(|_| std::hint::spin_loop());
                }
            });
        }
        let mutex = Mutex::open(&c, "wanted").unwrap();
        for _ in 0..50 {
            drop(mutex.lock(SOON).unwrap());
        }
        is_over.add(1).unwrap();
    });
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come_round_after_round() {
    let (_broker, nodes) = job::<2>();
    let came = Counter::open(&nodes[0], "came").unwrap();
    const ROUNDS: i64 = 500;
    const THREADS: i64 = 4;
    let last: i64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS as usize)
            .map(|number| {
                let (node, came) = (&nodes[number % 2], &came);
                scope.spawn(move || {
                    let barrier = Barrier::open(node, "b", THREADS as u32).unwrap();
                    let mut last = 0;
                    for round in 1..=ROUNDS {
                        came.add(1).unwrap();
                        last += i64::from(barrier.wait(SOON).unwrap());
                        let come = came.read().unwrap();
                        assert!(come >= round * THREADS && come < (round + 1) * THREADS, "{come} in round {round}");
                    }
                    last
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(last, ROUNDS, "one of each round came last");
}

#[test]
fn a_barrier_has_one_size_and_whoever_gives_up_has_not_come() {
    let (_broker, [a, b]) = job();
    let barrier = Barrier::open(&a, "b", 2).unwrap();
    let error = Barrier::open(&b, "b", 3).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("opened for 2"), "{error}");
    assert_eq!(Barrier::open(&b, "zero", 0).unwrap_err().kind(), ErrorKind::Invalid);
    for _ in 0..3 {
        let error = barrier.wait(A_MOMENT).unwrap_err();
        assert!(error.kind() == ErrorKind::Timeout && error.to_string().contains("1 of 2"), "{error}");
    }
    thread::scope(|scope| {
        let other = scope.spawn(|| Barrier::open(&b, "b", 2).unwrap().wait(SOON).unwrap());
        assert_ne!(barrier.wait(SOON).unwrap(), other.join().unwrap());
    });
}

#[test]
fn a_counter_counts_what_all_add_and_wakes_those_it_is_enough_for() {
    let (_broker, nodes) = job::<3>();
    let counter = Counter::open(&nodes[0], "n").unwrap();
    thread::scope(|scope| {
        for node in &nodes {
            scope.spawn(move || {
                let counter = Counter::open(node, "n").unwrap();
                (0..1000).for_each(|_| assert!(counter.add(2).unwrap() <= 6000));
                assert_eq!(counter.wait_for(6000, SOON).unwrap(), 6000);
            });
        }
        assert_eq!(counter.wait_until(|now| now % 6000 == 0 && now > 0, SOON).unwrap(), 6000);
    });
    let error = counter.wait_for(6001, A_MOMENT).unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.to_string().contains("6000"), "{error}");
    assert_eq!(counter.add(-7000).unwrap(), -1000);
    assert_eq!(counter.add(i64::MIN).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(counter.read().unwrap(), -1000);
}

#[test]
fn a_try_does_not_wait() {
    let (_broker, [a, b]) = job();
    let (held, mutex) = (Mutex::open(&a, "m").unwrap(), Mutex::open(&b, "m").unwrap());
    let _guard = held.lock(TRY).unwrap();
    let began = Instant::now();
    for _ in 0..100 {
        assert_eq!(mutex.lock(TRY).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(Counter::open(&b, "n").unwrap().wait_for(1, TRY).unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(Barrier::open(&b, "b", 2).unwrap().wait(TRY).unwrap_err().kind(), ErrorKind::Timeout);
    }
    assert!(began.elapsed() < SOON);
}

#[test]
fn a_thread_that_panics_inside_is_told_of_and_one_that_locks_while_it_panics_is_not() {
    struct AtTheEnd(Node);
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            drop(Mutex::open(&self.0, "log").unwrap().lock(SOON).unwrap());
        }
    }
    let (_broker, [node, other]) = job();
    let careless = Thread::spawn({
        let node = node.clone();
        move || {
            let _at_the_end = AtTheEnd(node.clone());
            let mutex = Mutex::open(&node, "account").unwrap();
            let _guard = mutex.lock(SOON).unwrap();
            panic!("half changed");
        }
    })
    .unwrap();
    assert!(careless.join().is_err());
    let mutex = Mutex::open(&other, "account").unwrap();
    let refused = mutex.lock(SOON).unwrap_err();
    assert_eq!((refused.kind(), refused.peer()), (ErrorKind::OwnerDied, Some(node.number())), "{refused}");
    drop(refused.into_guard().unwrap());
    drop(mutex.lock(SOON).expect("it is told once"));
    drop(Mutex::open(&other, "log").unwrap().lock(SOON).expect("that was whole"));
}

#[test]
fn nobody_comes_to_a_barrier_through_a_handle_that_is_closed() {
    let (_broker, [node]) = job();
    let barrier = Barrier::open(&node, "last", 1).unwrap();
    assert!(barrier.wait(TRY).unwrap());
    barrier.close();
    assert_eq!(barrier.wait(TRY).unwrap_err().kind(), ErrorKind::Closed);
}
