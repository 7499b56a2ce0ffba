//! Examples of collectives: what every member gives, and what each of them must have afterwards.

use std::time::Duration;

use deck::group::Call;
use deck::{Element, ElementType, Error, Group, Operation};

/// A call in which no element is like another, with what it gives.
pub struct Example {
    pub call: Call,
    pub input: Vec<u64>,
    /// What the output is before the call.
    pub output: Vec<u64>,
    pub expected: Vec<u64>,
}

impl Example {
    /// About `count` elements for each member, other ones in each `round`, which is also the root; `None` if there is
    /// no such kind.
    pub fn of(group: &Group, kind: &str, count: usize, round: u32) -> Option<Example> {
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
    pub fn run(self, group: &mut Group, is_started: bool, time: Duration) -> Result<(Vec<u64>, Vec<u64>), Error> {
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
