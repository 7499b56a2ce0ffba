//! Every collective against a simple model that does the same one element after the other.

mod group;

use deck::group::{Call, Kind};
use deck::{Completion, ElementType, Group, Node, Operation};
use group::{SOON, attaches, job, together_with};
use proptest::prelude::*;

/// What all members have to call, and how each of them does.
#[derive(Clone, Debug)]
struct Case {
    kind: Kind,
    element: ElementType,
    operation: Operation,
    root: u32,
    count: usize,
    /// Elements from each member to each other, for the kinds with counts.
    counts: Vec<usize>,
    /// A bit for each member: its buffers lie in library memory.
    in_library: u32,
    /// A bit for each member: it starts the call, and waits later.
    starts: u32,
    seed: u64,
}

impl Case {
    fn count_between(&self, size: usize, from: usize, to: usize) -> usize {
        self.counts[(from * size + to) % self.counts.len()]
    }

    fn call(&self, me: usize, size: usize) -> Call {
        let between = |from: usize, to: usize| self.count_between(size, from, to);
        let root = self.root as usize % size;
        let count = match self.kind {
            Kind::Gatherv | Kind::Allgatherv => between(me, 0),
            Kind::Scatterv => between(0, me),
            Kind::Alltoallv => 0,
            _ => self.count,
        };
        let operation = match self.element {
            ElementType::Float | ElementType::Double if self.operation as u8 > Operation::Max as u8 => Operation::Sum,
            _ => self.operation,
        };
        let from_all: Vec<usize> = (0..size).map(|from| between(from, 0)).collect();
        let (send_counts, recv_counts) = match self.kind {
            Kind::Gatherv if me == root => (vec![], from_all),
            Kind::Allgatherv => (vec![], from_all),
            Kind::Scatterv if me == root => ((0..size).map(|to| between(0, to)).collect(), vec![]),
            Kind::Alltoallv => {
                ((0..size).map(|to| between(me, to)).collect(), (0..size).map(|from| between(from, me)).collect())
            }
            _ => (vec![], vec![]),
        };
        let call = Call::new(self.kind, self.element, count).rooted(root as u32).reducing(operation);
        Call { send_counts, recv_counts, ..call }
    }

    /// What member `me` gives: elements that do not look alike, and floats whose sums depend on the order.
    fn input(&self, me: usize, bytes: usize) -> Vec<u8> {
        let mut state = self.seed ^ (me as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut input = Vec::with_capacity(bytes);
        while input.len() < bytes {
            let random = next();
            match self.element {
                ElementType::Float => input.extend((1.0 + (random % 3001) as f32 / 7.0).to_ne_bytes()),
                ElementType::Double => input.extend((1.0 + (random % 3001) as f64 / 7.0).to_ne_bytes()),
                element => input.extend(&random.to_ne_bytes()[..element.size()]),
            }
        }
        input
    }
}

fn apply(operation: Operation, element: ElementType, a: &[u8], b: &[u8]) -> Vec<u8> {
    macro_rules! integer {
        ($type:ty) => {{
            let read = |bytes: &[u8]| <$type>::from_ne_bytes(bytes.try_into().unwrap());
            let (a, b) = (read(a), read(b));
            match operation {
                Operation::Sum => a.wrapping_add(b),
                Operation::Prod => a.wrapping_mul(b),
                Operation::Min => a.min(b),
                Operation::Max => a.max(b),
                Operation::And => a & b,
                Operation::Or => a | b,
                Operation::Xor => a ^ b,
            }
            .to_ne_bytes()
            .to_vec()
        }};
    }
    macro_rules! float {
        ($type:ty) => {{
            let read = |bytes: &[u8]| <$type>::from_ne_bytes(bytes.try_into().unwrap());
            let (a, b) = (read(a), read(b));
            match operation {
                Operation::Sum => a + b,
                Operation::Prod => a * b,
                Operation::Min => a.min(b),
                Operation::Max => a.max(b),
                _ => unreachable!("floats have no bits"),
            }
            .to_ne_bytes()
            .to_vec()
        }};
    }
    match element {
        ElementType::Byte | ElementType::Uint8 => integer!(u8),
        ElementType::Char => integer!(std::ffi::c_char),
        ElementType::Int8 => integer!(i8),
        ElementType::Int16 => integer!(i16),
        ElementType::Int32 => integer!(i32),
        ElementType::Int64 => integer!(i64),
        ElementType::Uint16 => integer!(u16),
        ElementType::Uint32 => integer!(u32),
        ElementType::Uint64 => integer!(u64),
        ElementType::Float => float!(f32),
        ElementType::Double => float!(f64),
    }
}

/// The inputs of members 0 to `last`, folded one element after the other in the order of indexes.
fn fold(call: &Call, inputs: &[Vec<u8>], last: usize) -> Vec<u8> {
    let bytes = call.element.size();
    let mut sum = inputs[0].clone();
    for input in &inputs[1..=last] {
        for (sum, element) in sum.chunks_mut(bytes).zip(input.chunks(bytes)) {
            let result = apply(call.operation, call.element, sum, element);
            sum.copy_from_slice(&result);
        }
    }
    sum
}

/// Block `index` of `input`, whose blocks have these counts of elements.
fn block<'a>(input: &'a [u8], counts: &[usize], index: usize, bytes: usize) -> &'a [u8] {
    let begin: usize = counts[..index].iter().sum();
    &input[begin * bytes..(begin + counts[index]) * bytes]
}

/// What member `me` must have afterwards, if anything.
fn expected(calls: &[Call], inputs: &[Vec<u8>], me: usize) -> Option<Vec<u8>> {
    let call = &calls[me];
    let (size, root, bytes) = (calls.len(), call.root as usize, call.element.size());
    let even = vec![call.count; size];
    let is_root = me == root;
    match call.kind {
        Kind::Barrier => None,
        Kind::Bcast => Some(inputs[root].clone()),
        Kind::Reduce => is_root.then(|| fold(call, inputs, size - 1)),
        Kind::Allreduce => Some(fold(call, inputs, size - 1)),
        Kind::Scan => Some(fold(call, inputs, me)),
        Kind::Gather | Kind::Gatherv => is_root.then(|| inputs.concat()),
        Kind::Allgather | Kind::Allgatherv => Some(inputs.concat()),
        Kind::Scatter => Some(block(&inputs[root], &even, me, bytes).to_vec()),
        Kind::Scatterv => Some(block(&inputs[root], &calls[root].send_counts, me, bytes).to_vec()),
        Kind::Alltoall => Some(inputs.iter().flat_map(|input| block(input, &even, me, bytes).to_vec()).collect()),
        Kind::Alltoallv => {
            let from = |from: usize| block(&inputs[from], &calls[from].send_counts, me, bytes).to_vec();
            Some((0..size).flat_map(from).collect())
        }
    }
}

/// Starts a call whose input lies in a message, and waits for it: what the member has afterwards.
fn start_in_library(group: &mut Group, node: &Node, call: &Call, input: &[u8], output: Vec<u8>) -> Vec<u8> {
    let is_bcast_root = call.kind == Kind::Bcast && call.root == group.index();
    let given = if is_bcast_root { &output } else { input };
    let mut message = node.message();
    message.resize(given.len()).unwrap();
    message.edit().unwrap().copy_from_slice(given);
    let kept = if is_bcast_root { Vec::new() } else { output.clone() };
    let mut pending = group.start_in(call, Box::new(message.clone()), Box::new(kept)).unwrap();
    // Whoever changes it meanwhile works on a copy.
    message.edit().unwrap().fill(0x55);
    let result = pending.wait(group, SOON).unwrap();
    if is_bcast_root { output } else { result }
}

/// One call of one member: what it has afterwards.
fn take_part(group: &mut Group, node: &Node, case: &Case) -> Vec<u8> {
    let (me, size) = (group.index() as usize, group.size() as usize);
    let call = case.call(me, size);
    let (takes, gives) = call.bytes(group.index(), group.size()).unwrap();
    let (input, mut output) = match call.kind {
        Kind::Bcast => (vec![], case.input(me, gives)),
        _ => (case.input(me, takes), vec![0xAA; gives]),
    };
    let is_in_library = case.in_library >> me & 1 == 1;
    if case.starts >> me & 1 == 1 {
        if is_in_library {
            return start_in_library(group, node, &call, &input, output);
        }
        let mut pending = group.start(&call, &input, output).unwrap();
        return pending.wait(group, SOON).unwrap();
    }
    if !is_in_library {
        group.call(&call, &input, &mut output, SOON).unwrap();
        return output;
    }
    let mut messages = [node.message(), node.message()];
    for (message, content) in messages.iter_mut().zip([&input, &output]) {
        message.resize(content.len()).unwrap();
        message.edit().unwrap().copy_from_slice(content);
    }
    let [input, mut output] = messages;
    group.call(&call, input.as_bytes(), output.edit().unwrap(), SOON).unwrap();
    output.as_bytes().to_vec()
}

#[track_caller]
fn check(cases: &[Case], on: &[usize]) {
    for completion in [Completion::Everyone, Completion::Own] {
        check_with(completion, cases, on);
    }
}

#[track_caller]
fn check_with(completion: Completion, cases: &[Case], on: &[usize]) {
    let (_broker, nodes) = job(on.iter().max().unwrap() + 1);
    let size = on.len();
    let outputs = {
        let cases = cases.to_vec();
        together_with(completion, "model", &nodes, on, move |group, node| {
            cases.iter().map(|case| take_part(group, node, case)).collect::<Vec<_>>()
        })
    };
    for (number, case) in cases.iter().enumerate() {
        let calls: Vec<Call> = (0..size).map(|me| case.call(me, size)).collect();
        let bytes = |me: usize| {
            let (takes, gives) = calls[me].bytes(me as u32, size as u32).unwrap();
            if calls[me].kind == Kind::Bcast { gives } else { takes }
        };
        let inputs: Vec<Vec<u8>> = (0..size).map(|me| case.input(me, bytes(me))).collect();
        for (me, outputs) in outputs.iter().enumerate() {
            if let Some(expected) = expected(&calls, &inputs, me) {
                let got = &outputs[number];
                let differs = got.iter().zip(&expected).position(|(got, expected)| got != expected);
                assert!(
                    *got == expected,
                    "call {number} of {size} members on nodes {on:?}, {completion:?}, member {me}: {} bytes, not {}, first difference \
                     at {differs:?}; {case:?}",
                    got.len(),
                    expected.len()
                );
            }
        }
    }
}

fn element_types() -> Vec<ElementType> {
    (1..=12).map(|code| ElementType::from_code(code).unwrap()).collect()
}

fn counts() -> impl Strategy<Value = usize> {
    prop_oneof![0..6usize, 6..300usize, Just(4096), 4000..9000usize]
}

fn case() -> impl Strategy<Value = Case> {
    let what = (
        proptest::sample::select(Kind::ALL.to_vec()),
        proptest::sample::select(element_types()),
        proptest::sample::select(Operation::ALL.to_vec()),
    );
    let sizes = (0..100u32, counts(), prop::collection::vec(counts(), 1..7));
    (what, sizes, any::<u32>(), any::<u32>(), 1..u64::MAX).prop_map(
        |((kind, element, operation), (root, count, counts), in_library, starts, seed)| Case {
            kind,
            element,
            operation,
            root,
            count,
            counts,
            in_library,
            // Half of all calls are plain ones.
            starts: starts & starts >> 16,
            seed,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn members_get_what_the_model_says(
        cases in prop::collection::vec(case(), 1..6),
        on in prop::collection::vec(0..3usize, 1..7),
    ) {
        check(&cases, &on);
    }

    /// Many calls one after the other in which members need not wait for one another, long ones between them.
    #[test]
    fn members_that_are_ahead_of_others_get_what_the_model_says(
        cases in prop::collection::vec(ahead(), 1..60),
        on in prop::collection::vec(0..3usize, 2..7),
    ) {
        check_with(Completion::Own, &cases, &on);
    }

    /// Long reductions of threads of few nodes, which read one another's arrays and fold them node by node.
    #[test]
    fn members_whose_nodes_fold_one_after_the_other_get_what_the_model_says(
        cases in prop::collection::vec(long_reduction(), 1..6),
        teams in prop::collection::vec(1..5usize, 1..4),
    ) {
        let on: Vec<usize> = teams.iter().enumerate().flat_map(|(node, members)| vec![node; *members]).collect();
        check(&cases, &on);
    }

    /// Calls of two that copy what they give, one after the other and with others between them: each gives where it has
    /// just read.
    #[test]
    fn two_who_lend_one_another_memory_get_what_the_model_says(
        cases in prop::collection::vec(of_two(), 10..120),
        other in 0..2usize,
    ) {
        check(&cases, &[0, other]);
        check_with(Completion::Own, &cases, &[0, other]);
    }
}

fn long_reduction() -> impl Strategy<Value = Case> {
    let counts = prop_oneof![3 => 16_000..40_000usize, 1 => 2_000..16_000usize, 3 => 60_000..300_000usize];
    let kinds = [Kind::Reduce, Kind::Allreduce, Kind::Scan];
    (case(), proptest::sample::select(kinds.to_vec()), counts, 0..3u32).prop_map(|(case, kind, count, in_library)| {
        Case { kind, count, in_library: if in_library == 0 { case.in_library } else { 0 }, ..case }
    })
}

fn of_two() -> impl Strategy<Value = Case> {
    let kinds = [Kind::Bcast, Kind::Reduce, Kind::Gather, Kind::Scatter, Kind::Scan, Kind::Allgather, Kind::Alltoall];
    let counts = prop_oneof![8 => Just(100usize), 4 => 5..700usize, 3 => 700..9000usize];
    (case(), proptest::sample::select(kinds.to_vec()), counts, 0..10u32).prop_map(|(case, kind, count, starts)| Case {
        kind: if starts == 0 { case.kind } else { kind },
        count,
        in_library: 0,
        starts: if starts == 1 { case.starts } else { 0 },
        ..case
    })
}

fn ahead() -> impl Strategy<Value = Case> {
    let kinds = [Kind::Bcast, Kind::Reduce, Kind::Gather, Kind::Scatter, Kind::Scan, Kind::Bcast, Kind::Barrier];
    let counts = prop_oneof![8 => 0..5usize, 4 => 5..700usize, 3 => 700..9000usize];
    (case(), proptest::sample::select(kinds.to_vec()), counts).prop_map(|(case, kind, count)| Case {
        kind,
        count,
        ..case
    })
}

fn of(kind: Kind, element: ElementType, operation: Operation, count: usize) -> Case {
    Case { kind, element, operation, root: 1, count, counts: vec![3, 0, 5], in_library: 0, starts: 0, seed: 7 }
}

#[test]
fn every_operation_reduces_every_type() {
    let kinds = [Kind::Reduce, Kind::Allreduce, Kind::Scan];
    let mut cases = Vec::new();
    for kind in kinds {
        for element in element_types() {
            cases.extend(Operation::ALL.iter().map(|operation| of(kind, element, *operation, 13)));
        }
    }
    check(&cases, &[0, 1, 0]);
}

#[test]
fn long_blocks_travel_in_pieces_or_are_read_in_place() {
    for (in_library, on) in [(0, &[0, 1, 1][..]), (0b111, &[0, 1, 1]), (0b010, &[0, 1, 1]), (0b1111, &[0, 0, 1, 1])] {
        let cases: Vec<Case> = Kind::ALL
            .iter()
            .flat_map(|kind| {
                [16 << 10, 300_001].map(|count| Case {
                    counts: vec![count, 17, 100_000],
                    in_library,
                    ..of(*kind, ElementType::Double, Operation::Sum, count)
                })
            })
            .collect();
        check(&cases, on);
    }
}

/// Each way takes its turn in the first calls that are alike (`group/ways.rs`).
#[test]
fn reductions_are_the_same_whichever_way_they_go() {
    for kind in [Kind::Allreduce, Kind::Scan] {
        for in_library in [0, 0b111] {
            let of = of(kind, ElementType::Double, Operation::Sum, 100_001);
            let cases: Vec<Case> = (0..24).map(|seed| Case { in_library, seed, ..of.clone() }).collect();
            check(&cases, &[0, 1]);
            check(&cases, &[0, 1, 2]);
        }
    }
}

#[test]
fn threads_of_large_groups_count_themselves_in_their_node() {
    let on: Vec<usize> = (0..20).map(|index| index % 3).collect();
    let cases: Vec<Case> = Kind::ALL
        .iter()
        .flat_map(|kind| [1, 3000].map(|count| of(*kind, ElementType::Float, Operation::Sum, count)))
        .collect();
    check(&cases, &on);
}

/// Also mixed with arrays in library memory, and in calls that are started.
#[test]
fn all_that_holds_where_long_arrays_are_read_in_their_programs_memory() {
    let tests = [
        "members_get_what_the_model_says",
        "members_that_are_ahead_of_others_get_what_the_model_says",
        "long_blocks_travel_in_pieces_or_are_read_in_place",
    ];
    // A process that does so anyway runs them itself.
    attaches(&tests);
}
