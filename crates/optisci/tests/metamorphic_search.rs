//! What a search must find again, or must not lose, when a model is changed in a known way.
//!
//! The rules hold for costs of the best placements; a search knows them only between its bound and its cost. So the
//! bound of one model is held against the cost of the other: that is true of any search, and sharp where it proves.

use std::time::Duration;

use optisci::model::{Access, CostModel, HopBytes, Message, Model, Objective, Op, Process, Scipos, Segment};
use optisci::search::{Control, Options, Outcome, Progress, Status, solve};
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Placement};
use proptest::prelude::*;

/// A clock that stands still: the search ends by what it does.
struct Still;

impl Control for Still {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _: Option<&Progress<'_>>) -> bool {
        true
    }
}

fn search(model: &Model, objective: Objective) -> Outcome {
    let outcome = solve(model, &Options { objective: Some(objective), time_limit: None, seed: 7 }, &mut Still);
    if let (Some(placement), Some(cost), Some(bound)) = (&outcome.placement, outcome.cost, outcome.bound) {
        let evaluation = Costs::new(model).evaluate(placement);
        assert!(evaluation.is_feasible(), "{:?}", evaluation.violations);
        assert!(no_more(evaluation.cost(objective), cost) && no_more(cost, evaluation.cost(objective)), "{outcome:?}");
        assert!(no_more(bound, cost), "{outcome:?}");
        assert!(outcome.status != Status::Optimal || no_more(cost, bound), "{outcome:?}");
    } else {
        assert!(outcome.status == Status::Infeasible && outcome.reason.is_some(), "{outcome:?}");
    }
    outcome
}

fn no_more(a: f64, b: f64) -> bool {
    a <= b + 1e-9 * b.abs()
}

/// The best of `less` is no dearer than the best of `more`.
fn ordered(less: &Outcome, more: &Outcome) -> bool {
    match (less.bound, more.cost) {
        (Some(bound), Some(cost)) => no_more(bound, cost),
        // What only `more` allows nothing of may be infeasible there alone.
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

fn cost(outcome: &Outcome) -> f64 {
    outcome.cost.unwrap()
}

/// Three processes, three segments, three or four nodes; a limit of one or two processes per node.
fn models() -> impl Strategy<Value = Model> {
    let topology = prop_oneof![
        (3u32..5, any::<bool>()).prop_map(|(size, directed)| Topology::Torus(Torus { dims: vec![size], directed })),
        Just(Topology::FatTree(FatTree { radices: vec![2, 2] })),
    ];
    let access = (0u32..3, 0u32..3, any::<bool>(), 1u64..100, 1u64..300);
    let message = (0u32..3, 0u32..3, 1u64..100, 1u64..300);
    let lists = (prop::collection::vec(access, 1..8), prop::collection::vec(message, 0..3));
    (topology, any::<bool>(), any::<bool>(), lists, 1u64..3).prop_map(
        |(topology, is_scipos, replicable, lists, slots)| {
            let (accesses, messages) = lists;
            let op = |is_read: bool| if is_read { Op::Read } else { Op::Write };
            let accesses = accesses.into_iter();
            let accesses = accesses.map(|(process, segment, is_read, count, size)| Access {
                process,
                segment,
                op: op(is_read),
                count,
                size,
            });
            let messages = messages.into_iter().map(|(from, to, count, size)| Message { from, to, count, size });
            let segment = |number| Segment { id: format!("s{number}"), bytes: 1, pin: None, replicable };
            Model {
                id: None,
                process_slots: Some(vec![slots; topology.nodes()]),
                topology,
                cost_model: match is_scipos {
                    true => CostModel::Scipos(Scipos::default()),
                    false => CostModel::HopBytes(HopBytes { ns_per_byte_hop: 0.5 }),
                },
                processes: (0..3).map(|number| Process { id: format!("p{number}"), pin: None }).collect(),
                segments: (0..3).map(segment).collect(),
                accesses: accesses.collect(),
                messages: messages.collect(),
                segment_slots: None,
                memory_bytes: None,
                objective: Objective::Sum,
            }
        },
    )
}

fn objectives() -> impl Strategy<Value = Objective> {
    prop_oneof![Just(Objective::Sum), Just(Objective::Makespan), Just(Objective::MaxLink)]
}

/// Everything where the placement has it.
fn pinned(model: &Model, placement: &Placement) -> Model {
    let mut pinned = model.clone();
    pinned.processes.iter_mut().zip(&placement.processes).for_each(|(process, &node)| process.pin = Some(node));
    pinned
}

proptest! {
    // Searches take longer than what other properties look at: a fifth of the usual number, however many that is.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.div_ceil(5), ..ProptestConfig::default() })]

    #[test]
    fn a_rotated_ring_has_the_same_best(model in models(), objective in objectives(), process in 0usize..3, node in 0u32..4, by in 1u32..4) {
        let Topology::Torus(torus) = &model.topology else { return Ok(()) };
        let size = torus.dims[0];
        let mut here = model.clone();
        if objective == Objective::MaxLink {
            // Of equally near copies the lowest node is read, which a rotation changes, and with it what links carry.
            here.segments.iter_mut().for_each(|segment| segment.replicable = false);
        }
        let mut there = here.clone();
        here.processes[process].pin = Some(node % size);
        there.processes[process].pin = Some((node + by) % size);
        let (here, there) = (search(&here, objective), search(&there, objective));
        prop_assert!(ordered(&here, &there) && ordered(&there, &here), "{here:?}\n{there:?}");
    }

    #[test]
    fn scaled_counts_scale_the_best(model in models(), objective in objectives(), factor in 2u64..9) {
        let mut scaled = model.clone();
        scaled.accesses.iter_mut().for_each(|access| access.count *= factor);
        scaled.messages.iter_mut().for_each(|message| message.count *= factor);
        let (before, after) = (search(&model, objective), search(&scaled, objective));
        let factor = factor as f64;
        prop_assert!(no_more(before.bound.unwrap() * factor, cost(&after)) && no_more(after.bound.unwrap(), cost(&before) * factor));
    }

    #[test]
    fn a_node_more_makes_nothing_dearer(model in models(), objective in objectives()) {
        let mut larger = model.clone();
        let Topology::FatTree(tree) = &mut larger.topology else { return Ok(()) };
        *tree.radices.last_mut().unwrap() += 1;
        let nodes = larger.nodes();
        larger.process_slots.as_mut().unwrap().resize(nodes, 1);
        let (before, after) = (search(&model, objective), search(&larger, objective));
        prop_assert!(ordered(&after, &before), "{before:?}\n{after:?}");
    }

    #[test]
    fn a_lifted_limit_makes_nothing_dearer(model in models(), objective in objectives(), slots in 0u64..3, node in 0usize..3) {
        let mut tight = model.clone();
        tight.segment_slots = Some(vec![slots; model.nodes()]);
        let mut loose = tight.clone();
        loose.segment_slots.as_mut().unwrap()[node] += 1;
        loose.process_slots = None;
        let (before, after) = (search(&tight, objective), search(&loose, objective));
        prop_assert!(ordered(&after, &before), "{before:?}\n{after:?}");
        prop_assert_eq!(before.status == Status::Infeasible, slots == 0);
    }

    #[test]
    fn pins_where_the_best_is_keep_it_and_others_make_nothing_cheaper(model in models(), objective in objectives(), node in 0u32..3) {
        let free = search(&model, objective);
        let kept = search(&pinned(&model, free.placement.as_ref().unwrap()), objective);
        prop_assert!(ordered(&free, &kept) && no_more(cost(&kept), cost(&free)), "{free:?}\n{kept:?}");
        let mut elsewhere = model.clone();
        elsewhere.processes[0].pin = Some(node);
        elsewhere.segments[1].pin = Some(node);
        let elsewhere = search(&elsewhere, objective);
        prop_assert!(ordered(&free, &elsewhere), "{free:?}\n{elsewhere:?}");
    }

    #[test]
    fn leave_to_copy_makes_nothing_dearer(mut model in models(), objective in objectives()) {
        model.segments.iter_mut().for_each(|segment| segment.replicable = false);
        let single = search(&model, objective);
        model.segments.iter_mut().for_each(|segment| segment.replicable = true);
        let copied = search(&model, objective);
        prop_assert!(ordered(&copied, &single), "{single:?}\n{copied:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(model in models(), objective in objectives()) {
        let (mut one, mut two) = (search(&model, objective), search(&model, objective));
        (one.seconds, two.seconds) = (0.0, 0.0);
        prop_assert_eq!(optisci::report::outcome(&model, &one), optisci::report::outcome(&model, &two));
    }
}
