//! Groups of a node under test: joined by name, and their collectives with results that are checked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deck::group::Call;
use deck::{Completion, Element, ElementType, Error, Group, GroupOptions, Node, Operation};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::program::Words;

/// The groups that this node's threads are in.
#[derive(Default)]
pub struct Groups {
    joined: Mutex<HashMap<String, Arc<Mutex<Group>>>>,
    /// The array of an allreduce in place that has not come to its end.
    array: Mutex<Option<Vec<u64>>>,
}

impl Groups {
    /// `NAME SIZE INDEX TIME [own]`: joins, a group whose calls end with the member's own part; the index. From then on `NAME` is the group as the
    /// thread that joined last sees it, and `NAME@INDEX` as this one does.
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

    /// `NAME KIND COUNT ROUNDS TIME`: calls a collective so often, and checks every result; how often it succeeded. With `distinct-KIND`
    /// no element is like another, `start-distinct-KIND` starts it first and waits for it then.
    pub fn collective(&self, words: &mut Words<'_>) -> Result<String, Failure> {
        let name = words.next()?;
        let group = lock(&self.joined).get(name).cloned();
        let group = group.ok_or_else(|| Failure::finding(format!("no group {name}")))?;
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
                // As C has it with one array for both: what a call takes as its input is what the one before it has left there.
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

/// A call in which no element is like another, with what it gives.
struct Example {
    call: Call,
    input: Vec<u64>,
    /// What the output is before the call.
    output: Vec<u64>,
    expected: Vec<u64>,
}

impl Example {
    /// About `count` elements for each member, other ones in each `round`, which is also the root; `None` if there is no such kind.
    fn of(group: &Group, kind: &str, count: usize, round: u32) -> Option<Example> {
        const TYPE: ElementType = u64::TYPE;
        const SUM: Operation = Operation::Sum;
        let (me, size, root) = (group.index() as usize, group.size() as usize, round % group.size());
        let value =
            |from: usize, to: usize, at: usize| (u64::from(round) + 1) << 48 | (from << 40 | to << 36 | at) as u64;
        // The same count for all, or another one for each two members.
        let is_even = !kind.ends_with('v');
        let len = |from: usize, to: usize| if is_even { count } else { count.saturating_sub(from + 2 * to) };
        let block = |from: usize, to: usize| (0..len(from, to)).map(move |at| value(from, to, at));
        let from_all = |to: usize| (0..size).flat_map(|from| block(from, to)).collect::<Vec<u64>>();
        let to_all = |from: usize| (0..size).flat_map(|to| block(from, to)).collect::<Vec<u64>>();
        let own = || block(me, 0).collect::<Vec<u64>>();
        let sum_of = |members: usize| (0..count).map(|at| (0..members).map(|from| value(from, 0, at)).sum()).collect();
        let counts_from = |to: usize| (0..size).map(|from| len(from, to)).collect::<Vec<usize>>();
        let counts_to = |from: usize| (0..size).map(|to| len(from, to)).collect::<Vec<usize>>();
        let root_index = root as usize;
        let (call, input, expected) = match kind {
            "bcast" => (Call::bcast(root, TYPE, count), vec![], block(root_index, 0).collect()),
            "reduce" => (Call::reduce(root, TYPE, count, SUM), own(), sum_of(size)),
            "allreduce" => (Call::allreduce(TYPE, count, SUM), own(), sum_of(size)),
            "scan" => (Call::scan(TYPE, count, SUM), own(), sum_of(me + 1)),
            "gather" => (Call::gather(root, TYPE, count), own(), from_all(0)),
            "allgather" => (Call::allgather(TYPE, count), own(), from_all(0)),
            "gatherv" => (Call::gatherv(root, TYPE, len(me, 0), &counts_from(0)), own(), from_all(0)),
            "allgatherv" => (Call::allgatherv(TYPE, len(me, 0), &counts_from(0)), own(), from_all(0)),
            "scatter" => (Call::scatter(root, TYPE, count), to_all(me), block(root_index, me).collect()),
            "scatterv" => {
                let call = Call::scatterv(root, TYPE, len(root_index, me), &counts_to(root_index));
                (call, to_all(me), block(root_index, me).collect())
            }
            "alltoall" => (Call::alltoall(TYPE, count), to_all(me), from_all(me)),
            "alltoallv" => (Call::alltoallv(TYPE, &counts_to(me), &counts_from(me)), to_all(me), from_all(me)),
            _ => return None,
        };
        let (_, gives) = call.bytes(group.index(), group.size()).ok()?;
        // Whoever is not the root may be given nothing.
        let expected = if gives == 0 { vec![] } else { expected };
        let is_giving = kind == "bcast" && me == root_index;
        let output = if is_giving { expected.clone() } else { vec![0; gives / size_of::<u64>()] };
        Some(Example { call, input, output, expected })
    }

    /// What the call gives, and what it should.
    fn run(self, group: &mut Group, is_started: bool, time: Duration) -> Result<(Vec<u64>, Vec<u64>), Error> {
        let Example { call, input, mut output, expected } = self;
        let got = if is_started {
            group.start(&call, &input, output)?.wait(group, time)?
        } else {
            group.call(&call, u64::as_bytes(&input), u64::as_bytes_mut(&mut output), time)?;
            output
        };
        Ok((got, expected))
    }
}
