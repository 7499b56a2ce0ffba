//! Models of names whose table is full: an entry that nobody owns is given to another name while somebody claims the name before. No two own an
//! entry, no name has two entries, and whoever has claimed a name is found by it.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub)]

// The crate itself is not compiled for models: these two files need nothing of the system.
#[path = "../src/entries.rs"]
mod entries;
#[path = "../src/owners.rs"]
mod owners;

use std::sync::Arc;

use deck_segment::{Seat, Words};
use deck_sync::{ErrorKind, NodeId};
use loom::thread;

use entries::{Entries, Seating};
use owners::{MailboxId, Owners};

const ENTRY_WORDS: usize = 16;

/// Everybody is there, on the seat of the same number.
#[derive(Clone, Debug)]
struct All;

impl Seating for All {
    fn node_on(&self, Seat(seat): Seat) -> Option<NodeId> {
        Some(NodeId(u32::from(seat)))
    }

    fn is_live(&self, _: NodeId) -> bool {
        true
    }
}

fn bounded(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

fn id(node: u32) -> MailboxId {
    MailboxId { owner: NodeId(node), index: node, generation: 1 }
}

/// A table that these names fill, which node 1 owns.
fn full_of(names: &[&str]) -> Arc<Owners<All>> {
    let entries = Entries::new(All, Words::model(names.len() * ENTRY_WORDS), ENTRY_WORDS);
    let owners = Owners::new(entries, Words::model(1));
    names.iter().for_each(|name| owners.claim(name, id(1), Seat(1)).unwrap());
    Arc::new(owners)
}

/// What comes of a claim by a node.
fn claim(owners: &Owners<All>, name: &str, node: u32) -> Option<ErrorKind> {
    owners.claim(name, id(node), Seat(node as u16)).err().map(|error| error.kind())
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
