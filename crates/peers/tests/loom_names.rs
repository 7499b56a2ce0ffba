//! Models of names whose table is full: an entry that nobody owns is given to another name while somebody claims the
//! name before, or where somebody has died at it. No two own an entry, no name has two entries, and whoever has claimed
//! a name is found by it.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: these three files need nothing of the system.
#[path = "../src/names/entries.rs"]
mod entries;
#[path = "../src/names/one_at_a_time.rs"]
mod one_at_a_time;
#[path = "../src/names/owners.rs"]
mod owners;

use std::sync::Arc;
use std::time::Duration;

use deck_segment::{Seat, Words};
use deck_sync::{ErrorKind, NodeId};
use loom::thread;

use deck_sync::atomic::{AtomicBool, Ordering};
use entries::entry;
use entries::{Entries, Seating};
use one_at_a_time::OneAtATime;
use owners::{Claim, LIVES, MailboxId, OWNER, Owners};

const ENTRY_WORDS: usize = 16;
/// Nobody is stopped.
const PATIENT: Duration = Duration::from_secs(1);

/// Everybody is there but one, on the seat of the same number, and one may die.
#[derive(Clone, Debug)]
struct Job {
    is_mortal_live: Arc<AtomicBool>,
}

const DEAD: u32 = 9;
const MORTAL: u32 = 8;

impl Seating for Job {
    fn node_on(&self, Seat(seat): Seat) -> Option<NodeId> {
        Some(NodeId(u32::from(seat)))
    }

    fn is_live(&self, node: NodeId) -> bool {
        // SeqCst: whoever sees what happens after a death sees the death.
        node != NodeId(DEAD) && (node != NodeId(MORTAL) || self.is_mortal_live.load(Ordering::SeqCst))
    }
}

fn bounded(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn id(node: u32) -> MailboxId {
    MailboxId { owner: NodeId(node), index: node, generation: 1 }
}

/// A table that these names fill, which node 1 owns.
fn full_of(names: &[&str]) -> Arc<Owners<Job>> {
    let entries = Entries::new(
        Job { is_mortal_live: Arc::new(AtomicBool::new(true)) },
        Words::model(names.len() * ENTRY_WORDS),
        ENTRY_WORDS,
    );
    let owners = Owners::new(entries.clone(), OneAtATime::new(entries.seating().clone(), Words::model(1)));
    names.iter().for_each(|name| owners.claim(name, id(1), Seat(1), PATIENT).unwrap());
    Arc::new(owners)
}

/// What comes of a claim by a node.
fn claim(owners: &Owners<Job>, name: &str, node: u32) -> Option<ErrorKind> {
    owners.claim(name, id(node), Seat(node as u16), PATIENT).err().map(|error| error.kind())
}

#[test]
fn one_of_two_gets_the_last_entry_the_one_by_its_name_the_other_for_another_name() {
    bounded(|| {
        let owners = full_of(&["a"]);
        owners.release("a", id(1));
        let other = owners.clone();
        let claiming = thread::spawn(move || claim(&other, "a", 2));
        let new = claim(&owners, "b", 3);
        let old = claiming.join().unwrap();
        match (old, new) {
            (None, Some(ErrorKind::NoMemory)) => assert_eq!(owners.lookup("a"), Some(id(2))),
            (Some(ErrorKind::NoMemory), None) => assert_eq!(owners.lookup("b"), Some(id(3))),
            both => panic!("{both:?}"),
        }
        assert!(owners.lookup("a").is_none() || owners.lookup("b").is_none());
    });
}

#[test]
fn a_new_name_gets_one_entry_whoever_wants_it() {
    bounded(|| {
        let owners = full_of(&["a", "c"]);
        ["a", "c"].iter().for_each(|name| owners.release(name, id(1)));
        let other = owners.clone();
        let claiming = thread::spawn(move || claim(&other, "b", 2));
        let mine = claim(&owners, "b", 3);
        match (claiming.join().unwrap(), mine) {
            (None, Some(ErrorKind::Exists)) => assert_eq!(owners.lookup("b"), Some(id(2))),
            (Some(ErrorKind::Exists), None) => assert_eq!(owners.lookup("b"), Some(id(3))),
            both => panic!("{both:?}"),
        }
        let named = (0..2).filter(|index| owners.entries.holds(*index, "b")).count();
        assert_eq!(named, 1);
    });
}

/// Somebody finds the entry of a name, which is then given to another name and left, before the first one claims it.
#[test]
fn nobody_claims_an_entry_by_the_name_before() {
    bounded(|| {
        let owners = full_of(&["a"]);
        owners.release("a", id(1));
        let other = owners.clone();
        let going_round = thread::spawn(move || {
            if claim(&other, "b", 2).is_none() {
                other.release("b", id(2));
            }
        });
        let mine = claim(&owners, "a", 3);
        going_round.join().unwrap();
        match mine {
            None => assert_eq!(owners.lookup("a"), Some(id(3))),
            // The other one had it just then.
            Some(kind) => assert_eq!(kind, ErrorKind::NoMemory),
        }
        assert_eq!(owners.lookup("b"), None);
    });
}

/// How far a node came that died while it gave the first entry to the name "b".
#[derive(Clone, Copy)]
enum Died {
    Taken,
    Renaming,
    Renamed,
}

/// Two entries that nobody owns, at the first of which a node has died.
fn half_given(died: Died) -> Arc<Owners<Job>> {
    let owners = full_of(&["a", "c"]);
    ["a", "c"].iter().for_each(|name| owners.release(name, id(1)));
    let word = |word| owners.entries.word(owners.entries.find("a").unwrap(), word);
    let words = [OWNER, LIVES, entry::KEY, entry::LENGTH].map(word);
    let taken = MailboxId { owner: NodeId(DEAD), index: MailboxId::INDEX_MAX, generation: 0 };
    words[0].store(taken.to_word(), Ordering::Relaxed);
    words[1].store(1, Ordering::Relaxed);
    if !matches!(died, Died::Taken) {
        let upper = entries::hash("b") >> 16 << 16;
        words[2].store(upper | u64::from(DEAD) + 1, Ordering::Relaxed);
    }
    if matches!(died, Died::Renamed) {
        words[3].store(0, Ordering::Relaxed);
    }
    owners
}

#[test]
fn one_that_died_while_it_gave_an_entry_away_leaves_each_name_one_entry() {
    for died in [Died::Taken, Died::Renaming, Died::Renamed] {
        for (one, two) in [("b", "b"), ("b", "a"), ("b", "d")] {
            bounded(move || {
                let owners = half_given(died);
                let other = owners.clone();
                let claiming = thread::spawn(move || claim(&other, one, 2));
                let mine = claim(&owners, two, 3);
                let ends = (claiming.join().unwrap(), mine);
                if one == two {
                    let winner = match ends {
                        (None, Some(ErrorKind::Exists)) => 2,
                        (Some(ErrorKind::Exists), None) => 3,
                        both => panic!("{both:?}"),
                    };
                    assert_eq!(owners.lookup(one), Some(id(winner)));
                } else {
                    assert_eq!(ends, (None, None));
                    assert_eq!((owners.lookup(one), owners.lookup(two)), (Some(id(2)), Some(id(3))));
                }
                let named = |name: &str| (0..2).filter(|index| owners.entries.holds(*index, name)).count();
                assert!(["a", "b", "c", "d"].iter().all(|name| named(name) <= 1));
            });
        }
    }
}

/// Somebody who looked before the other one died, and is about to give an entry away.
#[test]
fn who_waited_for_its_turn_sees_what_another_is_finishing() {
    for died in [Died::Renaming, Died::Renamed] {
        bounded(move || {
            let owners = half_given(died);
            let other = owners.clone();
            let claiming = thread::spawn(move || claim(&other, "b", 2));
            let mine = owners.take_another("b", id(3), Seat(3), PATIENT);
            let theirs = claiming.join().unwrap();
            match mine {
                Ok(Claim::Done) => {
                    assert_eq!((theirs, owners.lookup("b")), (Some(ErrorKind::Exists), Some(id(3))));
                }
                Ok(Claim::Elsewhere) => assert_eq!((theirs, owners.lookup("b")), (None, Some(id(2)))),
                other => panic!("{other:?}"),
            }
            assert!((0..2).filter(|index| owners.entries.holds(*index, "b")).count() == 1);
        });
    }
}

fn key(name: &str, node: u32) -> u64 {
    entries::hash(name) >> 16 << 16 | u64::from(node) + 1
}

/// Whoever waits for the end of one name's entering may find that of another's.
#[test]
fn an_entry_that_is_given_away_while_somebody_waits_to_finish_it_is_not_finished_under_the_name_before() {
    // One that has the place where "a" is looked for first.
    let place = |name: &str| (entries::hash(name) >> 20) % 2;
    let before = ["c", "d", "e", "f", "g"].into_iter().find(|name| place(name) == place("a")).unwrap();
    bounded(move || {
        let owners = full_of(&[before, "a"]);
        ["a", before].iter().for_each(|name| owners.release(name, id(1)));
        let index = owners.entries.find("a").unwrap();
        let word = |word| owners.entries.word(index, word);
        word(entry::KEY).store(key("a", DEAD), Ordering::Relaxed);
        word(entry::LENGTH).store(0, Ordering::Relaxed);
        let other = owners.clone();
        let claiming = thread::spawn(move || claim(&other, "a", 2));
        // A node gives it to "b", and dies before it has written that.
        let taken = MailboxId { owner: NodeId(MORTAL), index: MailboxId::INDEX_MAX, generation: 0 };
        let nobody = word(OWNER).load(Ordering::Relaxed);
        if nobody >> 40 == 0
            && word(OWNER).compare_exchange(nobody, taken.to_word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            word(LIVES).store(1, Ordering::Relaxed);
            let _ = word(entry::KEY).compare_exchange(
                key("a", DEAD),
                key("b", MORTAL),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
        owners.entries.seating().is_mortal_live.store(false, Ordering::SeqCst);
        let mine = claim(&owners, "a", 3);
        let winner = match (claiming.join().unwrap(), mine) {
            (None, Some(ErrorKind::Exists)) => 2,
            (Some(ErrorKind::Exists), None) => 3,
            both => panic!("{both:?}"),
        };
        assert_eq!(owners.lookup("a"), Some(id(winner)));
        assert_eq!((0..2).filter(|index| owners.entries.holds(*index, "a")).count(), 1);
    });
}

/// Whoever finds one dead that was at a name may be late: it had come to its end, and the entry was given away since.
#[test]
fn an_entry_that_was_finished_by_one_that_died_is_not_finished_again() {
    bounded(|| {
        let owners = full_of(&["a", "c"]);
        owners.release("a", id(1));
        let index = owners.entries.find("a").unwrap();
        let word = |word| owners.entries.word(index, word);
        word(entry::KEY).store(key("a", MORTAL), Ordering::Relaxed);
        word(entry::LENGTH).store(0, Ordering::Relaxed);
        let other = owners.clone();
        let claiming = thread::spawn(move || claim(&other, "a", 2));
        // It ends entering, and dies. The only entry that nobody owns is that one.
        word(entry::LENGTH).store(1, Ordering::Release);
        owners.entries.seating().is_mortal_live.store(false, Ordering::SeqCst);
        let mine = claim(&owners, "d", 3);
        match (claiming.join().unwrap(), mine) {
            (None, Some(ErrorKind::NoMemory)) => assert_eq!(owners.lookup("a"), Some(id(2))),
            (Some(ErrorKind::NoMemory), None) => assert_eq!(owners.lookup("d"), Some(id(3))),
            both => panic!("{both:?}"),
        }
    });
}

/// Somebody looks up a name whose entry is given to another name, and back to the one before.
///
/// Seen to fail: with an owner that is told without another look at the name, or at the owner; without either fence
/// beside the name.
#[test]
fn a_name_is_not_found_by_the_owner_of_another_one() {
    bounded(|| {
        let owners = full_of(&["a"]);
        owners.release("a", id(1));
        let other = owners.clone();
        // The model sees that reads and writes depend on one another where the thread that began later reads.
        let looking = thread::spawn(move || other.lookup("a"));
        assert_eq!(claim(&owners, "b", 2), None);
        owners.release("b", id(2));
        assert_eq!(claim(&owners, "a", 3), None);
        let found = looking.join().unwrap();
        assert!(found.is_none() || found == Some(id(3)), "{found:?}");
        assert_eq!(owners.lookup("a"), Some(id(3)));
    });
}
