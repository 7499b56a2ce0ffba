//! Groups of a node under test: joined by name, and their collectives with results that are checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use deck::{Completion, Error, Group, GroupOptions, Node, Operation};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::course::Course;
use crate::example::Example;
use crate::program::Words;

/// The groups that this node's threads are in.
#[derive(Default)]
pub struct Groups {
    joined: Mutex<HashMap<String, Arc<Mutex<Group>>>>,
    /// The array of an allreduce in place that has not come to its end.
    array: Mutex<Option<Vec<u64>>>,
}

impl Groups {
    /// `NAME SIZE INDEX TIME [own]`: joins, a group whose calls end with the member's own part; the index. From then on
    /// `NAME` is the group as the thread that joined last sees it, and `NAME@INDEX` as this one does.
    pub fn join(&self, node: &Node, words: &mut Words<'_>) -> Result<String, Failure> {
        let name = words.next()?;
        let (size, index, time) = (words.number()?, words.number()?, words.time()?);
        let completion =
            if words.next().is_ok_and(|word| word == "own") { Completion::Own } else { Completion::Everyone };
        let group = Group::join_with(node, name, size, Some(index), &GroupOptions { completion }, time)?;
        let index = group.index().to_string();
        let group = Arc::new(Mutex::new(group));
        lock(&self.joined).extend([(name.to_string(), group.clone()), (format!("{name}@{index}"), group)]);
        Ok(index)
    }

    /// `NAME`: leaves.
    pub fn leave(&self, words: &mut Words<'_>) -> Result<String, Failure> {
        let mut joined = lock(&self.joined);
        if let Some(left) = joined.remove(words.next()?) {
            joined.retain(|_, group| !Arc::ptr_eq(group, &left));
        }
        Ok(String::new())
    }

    /// `NAME SEED CALLS TIME`: see the `course` module.
    pub fn course(&self, node: &Node, words: &mut Words<'_>) -> Result<String, Failure> {
        let group = self.group(words.next()?)?;
        let (seed, calls, time) = (words.number()?, words.number::<u32>()?, words.time()?);
        let mut group = lock(&group);
        Course::new(node, &mut group, seed, time).run(calls)?;
        Ok(calls.to_string())
    }

    fn group(&self, name: &str) -> Result<Arc<Mutex<Group>>, Failure> {
        let group = lock(&self.joined).get(name).cloned();
        group.ok_or_else(|| Failure::finding(format!("no group {name}")))
    }

    /// `NAME KIND COUNT ROUNDS TIME`: calls a collective so often, and checks every result; how often it succeeded.
    /// With `distinct-KIND` no element is like another, `start-distinct-KIND` starts it first and waits for it then.
    pub fn collective(&self, words: &mut Words<'_>) -> Result<String, Failure> {
        let group = self.group(words.next()?)?;
        let (kind, count, rounds) = (words.next()?, words.number()?, words.number::<u32>()?);
        let time = words.time()?;
        let mut group = lock(&group);
        for round in 0..rounds {
            let (me, size) = (u64::from(group.index()) + 1, u64::from(group.size()));
            let own = vec![me + u64::from(round); count];
            let of_all = |block: usize| block as u64 + 1 + u64::from(round);
            let (got, expected): (Vec<u64>, Vec<u64>) = match kind {
                "barrier" => group.barrier(time).map(|()| (vec![], vec![])),
                "bcast" => {
                    let root = round % group.size();
                    let mut data = own;
                    group.bcast(root, &mut data, time).map(|()| (data, vec![of_all(root as usize); count]))
                }
                // Everywhere but at the root the output stays as it is.
                "reduce" => {
                    let (mut sum, root) = (vec![0; count], round % group.size());
                    let is_root = if root == group.index() { 1 } else { 0 };
                    let expected = is_root * (size * (size + 1) / 2 + size * u64::from(round));
                    group.reduce(root, &own, &mut sum, Operation::Sum, time).map(|()| (sum, vec![expected; count]))
                }
                "gather" => {
                    let (mut all, root) = (vec![0; count * size as usize], round % group.size());
                    let is_root = if root == group.index() { 1 } else { 0 };
                    let expected = (0..size as usize).flat_map(|block| vec![is_root * of_all(block); count]).collect();
                    group.gather(root, &own, &mut all, time).map(|()| (all, expected))
                }
                "scatter" => {
                    let (parts, mut part): (Vec<u64>, _) = (own.repeat(size as usize), vec![0; count]);
                    let root = round % group.size();
                    group.scatter(root, &parts, &mut part, time).map(|()| (part, vec![of_all(root as usize); count]))
                }
                "allreduce" => {
                    let mut sum = vec![0; count];
                    let expected = size * (size + 1) / 2 + size * u64::from(round);
                    group.allreduce(&own, &mut sum, Operation::Sum, time).map(|()| (sum, vec![expected; count]))
                }
                "start-allreduce" => {
                    let expected = size * (size + 1) / 2 + size * u64::from(round);
                    let started = group.start_allreduce(&own, Operation::Sum);
                    let ended = started.and_then(|mut pending| pending.wait(&mut group, time));
                    ended.map(|sum| (sum, vec![expected; count]))
                }
                // As C has it with one array for both: what a call takes as its input is what the one before it has
                // left there.
                "allreduce-in-place" => {
                    let mut kept = lock(&self.array);
                    let array = kept.get_or_insert(own);
                    let expected = size * (size + 1) / 2 + size * u64::from(round);
                    let input = array.clone();
                    let called = group.allreduce(&input, array, Operation::Sum, time);
                    called.map(|()| (kept.take().unwrap_or_default(), vec![expected; count]))
                }
                "allgather" => {
                    let mut all = vec![0; count * size as usize];
                    let expected = (0..size as usize).flat_map(|block| vec![of_all(block); count]).collect();
                    group.allgather(&own, &mut all, time).map(|()| (all, expected))
                }
                other => {
                    let (rest, is_started) = other.strip_prefix("start-").map_or((other, false), |rest| (rest, true));
                    let kind = rest.strip_prefix("distinct-");
                    let example = kind.and_then(|kind| Example::of(&group, kind, count, round));
                    let unknown = || Failure::finding(format!("no collective {other}"));
                    example.ok_or_else(unknown)?.run(&mut group, is_started, time)
                }
            }
            .map_err(|error: Error| Failure::from(error))?;
            if got != expected {
                return Err(Failure::finding(format!("round {round} of {kind} gave something else")));
            }
        }
        Ok(rounds.to_string())
    }
}
