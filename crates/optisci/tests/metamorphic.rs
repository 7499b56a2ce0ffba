//! What must not change, and how the rest must change, when a model is changed in a known way. No expected values are
//! needed: the rules relate one cost to another.

use optisci::cost::{Item, Violation};
use optisci::model::{Access, CostModel, HopBytes, Matrix, Message, Objective, Op, Process, Scipos, Segment};
use optisci::placement::Home;
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Evaluation, Model, Placement};
use proptest::prelude::*;

const PROCESSES: u32 = 4;
const SEGMENTS: u32 = 5;

fn topologies() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (2u32..7, any::<bool>()).prop_map(|(size, directed)| Topology::Torus(Torus { dims: vec![size], directed })),
        (1u32..4, 1u32..4, any::<bool>())
            .prop_map(|(x, y, directed)| Topology::Torus(Torus { dims: vec![x, y], directed })),
        (1u32..4, 1u32..4).prop_map(|(leaf, root)| Topology::FatTree(FatTree { radices: vec![leaf, root] })),
    ]
}

/// A model without limits, and a placement of it.
fn cases() -> impl Strategy<Value = (Model, Placement)> {
    let access = (0..PROCESSES, 0..SEGMENTS, any::<bool>(), 1u64..1000, 0u64..5000);
    let message = (0..PROCESSES, 0..PROCESSES, 1u64..1000, 0u64..5000);
    let nodes = (
        prop::collection::vec(any::<u32>(), PROCESSES as usize),
        prop::collection::vec(prop::collection::vec(any::<u32>(), 1..3), SEGMENTS as usize),
    );
    (
        topologies(),
        0..3,
        prop::collection::vec(access, 0..20),
        prop::collection::vec(message, 0..8),
        nodes,
        any::<u64>(),
    )
        .prop_map(|(topology, kind, accesses, messages, (processes, segments), seed)| {
            let nodes = topology.nodes();
            // A linear congruential generator: any numbers will do.
            let random = |place: usize| {
                let state = seed.wrapping_add(place as u64).wrapping_mul(6_364_136_223_846_793_005);
                (state >> 40) as f64
            };
            let cost_model = match kind {
                0 => CostModel::Scipos(Scipos::default()),
                1 => CostModel::HopBytes(HopBytes { ns_per_byte_hop: 0.75 }),
                _ => {
                    let table =
                        |first: usize| (0..nodes * nodes).map(|place| random(first + place)).collect::<Vec<f64>>();
                    let (read_ns, write_ns) = (table(0), table(7));
                    let (read_ns_per_byte, write_ns_per_byte) = (table(3), table(11));
                    CostModel::Matrix(Box::new(Matrix { read_ns, write_ns, read_ns_per_byte, write_ns_per_byte }))
                }
            };
            let op = |is_read: bool| if is_read { Op::Read } else { Op::Write };
            let model = Model {
                id: None,
                topology,
                cost_model,
                processes: (0..PROCESSES).map(|number| Process { id: format!("p{number}"), pin: None }).collect(),
                segments: (0..SEGMENTS)
                    .map(|number| Segment {
                        id: format!("s{number}"),
                        bytes: u64::from(number) * 100,
                        pin: None,
                        replicable: true,
                    })
                    .collect(),
                accesses: accesses
                    .into_iter()
                    .map(|(process, segment, is_read, count, size)| Access {
                        process,
                        segment,
                        op: op(is_read),
                        count,
                        size,
                    })
                    .collect(),
                messages: messages
                    .into_iter()
                    .map(|(from, to, count, size)| Message { from, to, count, size })
                    .collect(),
                process_slots: None,
                segment_slots: None,
                memory_bytes: None,
                objective: Objective::Sum,
            };
            let node = |node: u32| node % nodes as u32;
            let placement = Placement {
                processes: processes.into_iter().map(node).collect(),
                segments: segments
                    .into_iter()
                    .map(|copies| Home::of(copies.into_iter().map(node).collect::<Vec<u32>>()))
                    .collect(),
            };
            (model, placement)
        })
}

fn evaluate(model: &Model, placement: &Placement) -> Evaluation {
    Costs::new(model).evaluate(placement)
}

fn moved(placement: &Placement, to: impl Fn(u32) -> u32) -> Placement {
    let home = |home: &Home| Home::of(home.nodes().iter().map(|&node| to(node)).collect::<Vec<u32>>());
    Placement {
        processes: placement.processes.iter().map(|&node| to(node)).collect(),
        segments: placement.segments.iter().map(home).collect(),
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// As close as a part of `all` can be that was rounded with it.
fn close_beside(a: f64, b: f64, all: f64) -> bool {
    (a - b).abs() <= 1e-12 * all.abs()
}

fn sorted(mut loads: Vec<u64>) -> Vec<u64> {
    loads.sort_unstable();
    loads
}

proptest! {
    #[test]
    fn a_ring_may_be_rotated((model, placement) in cases(), by in 1u32..7) {
        let Topology::Torus(Torus { dims, .. }) = &model.topology else { return Ok(()) };
        if matches!(model.cost_model, CostModel::Matrix(_)) {
            return Ok(());
        }
        // Along the first dimension of the torus.
        let dim = dims[0];
        let rotated = moved(&placement, |node| node - node % dim + (node % dim + by) % dim);
        let (before, after) = (evaluate(&model, &placement), evaluate(&model, &rotated));
        prop_assert!(close(before.total_ns, after.total_ns) && close(before.makespan_ns, after.makespan_ns));
        let tie_free = model.accesses.iter().all(|access| placement.segments[access.segment as usize].nodes().len() == 1);
        // Of equally near copies the lowest node is read, which a rotation changes.
        if tie_free {
            prop_assert_eq!(sorted(before.per_link), sorted(after.per_link));
            let [before, after] = [&placement, &rotated].map(|placement| Costs::new(&model).spending(placement));
            for (before, after) in before.iter().zip(&after) {
                let pairs = before.parts().into_iter().zip(after.parts());
                prop_assert!(pairs.clone().all(|(a, b)| close_beside(a, b, before.total_ns())), "{before:?} {after:?}");
            }
        }
    }

    #[test]
    fn what_is_spent_is_what_is_paid((model, placement) in cases()) {
        let (spending, evaluation) = (Costs::new(&model).spending(&placement), evaluate(&model, &placement));
        for (spent, pays) in spending.iter().zip(&evaluation.per_process) {
            prop_assert!(close(spent.total_ns(), pays.total_ns()), "{spent:?} {pays:?}");
            prop_assert!(spent.parts().iter().all(|&part| part >= 0.0), "{spent:?}");
        }
    }

    /// Contention by its definition: process by process, link by link.
    #[test]
    fn contended_is_what_lies_on_the_links_of_others((model, placement) in cases()) {
        let costs = Costs::new(&model);
        let without = |process: u32| {
            let mut others = model.clone();
            others.accesses.retain(|access| access.process != process);
            others.messages.retain(|message| message.from != process);
            evaluate(&others, &placement).per_link
        };
        let all = evaluate(&model, &placement).per_link;
        for (process, spent) in (0..PROCESSES).zip(costs.spending(&placement)) {
            let a = placement.processes[process as usize];
            let mut transfers = Vec::new();
            for access in model.accesses.iter().filter(|access| access.process == process) {
                let home = &placement.segments[access.segment as usize];
                let nearest = [costs.nearest(home, access.size, a).0];
                let nodes = if access.op == Op::Read { &nearest[..] } else { home.nodes() };
                for &b in nodes {
                    let (from, to) = if access.op == Op::Read { (b, a) } else { (a, b) };
                    transfers.push((access.op, access.count, access.size, a, b, from, to));
                }
            }
            for message in model.messages.iter().filter(|message| message.from == process) {
                let b = placement.processes[message.to as usize];
                transfers.push((Op::Write, message.count, message.size, a, b, a, b));
            }
            let others = without(process);
            let mut contended_ns = 0.0;
            for (op, count, size, a, b, from, to) in transfers {
                let mut route = Vec::new();
                model.topology.route(from, to, |link| route.push(link));
                let wire_ns = count as f64 * costs.terms(op, size, a, b).wire_ns / route.len().max(1) as f64;
                let used = route.into_iter().filter(|&link| all[link] > 0);
                contended_ns += used.map(|link| wire_ns * others[link] as f64 / all[link] as f64).sum::<f64>();
            }
            if matches!(model.cost_model, CostModel::Matrix(_)) {
                contended_ns = 0.0;
            }
            prop_assert!(close_beside(spent.contended_ns, contended_ns, spent.total_ns()), "{spent:?} {contended_ns}");
        }
    }

    #[test]
    fn a_process_that_nobody_is_beside_contends_with_nobody((model, placement) in cases(), process in 0..PROCESSES) {
        let mut alone = model;
        alone.accesses.retain(|access| access.process == process);
        alone.messages.retain(|message| message.from == process);
        let spending = Costs::new(&alone).spending(&placement);
        prop_assert!(spending.iter().all(|spent| spent.contended_ns == 0.0), "{spending:?}");
    }

    #[test]
    fn counts_scale_everything((model, placement) in cases(), factor in 2u64..50) {
        let mut scaled = model.clone();
        scaled.accesses.iter_mut().for_each(|access| access.count *= factor);
        scaled.messages.iter_mut().for_each(|message| message.count *= factor);
        let (before, after) = (evaluate(&model, &placement), evaluate(&scaled, &placement));
        let factor_ns = factor as f64;
        prop_assert!(close(before.total_ns * factor_ns, after.total_ns));
        prop_assert!(close(before.makespan_ns * factor_ns, after.makespan_ns));
        let loads: Vec<u64> = before.per_link.iter().map(|bytes| bytes * factor).collect();
        prop_assert_eq!(loads, after.per_link);
        let [before, after] = [&model, &scaled].map(|model| Costs::new(model).spending(&placement));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(close_beside(before.contended_ns * factor_ns, after.contended_ns, after.total_ns()));
        }
    }

    #[test]
    fn entries_may_be_split_and_come_in_any_order((model, placement) in cases()) {
        let mut split = model.clone();
        let halves = model.accesses.iter().rev().flat_map(|access| {
            let half = access.count / 2;
            [Access { count: half, ..*access }, Access { count: access.count - half, ..*access }]
        });
        split.accesses = halves.collect();
        split.messages.reverse();
        let (before, after) = (evaluate(&model, &placement), evaluate(&split, &placement));
        prop_assert!(close(before.total_ns, after.total_ns) && close(before.makespan_ns, after.makespan_ns));
        prop_assert_eq!(before.per_link, after.per_link);
        let [before, after] = [&model, &split].map(|model| Costs::new(model).spending(&placement));
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(close_beside(before.contended_ns, after.contended_ns, before.total_ns()));
        }
    }

    #[test]
    fn a_node_that_holds_nothing_costs_nothing((model, placement) in cases()) {
        let mut larger = model.clone();
        let Topology::FatTree(FatTree { radices }) = &mut larger.topology else { return Ok(()) };
        if matches!(model.cost_model, CostModel::Matrix(_)) {
            return Ok(());
        }
        *radices.last_mut().unwrap() += 1;
        let (before, after) = (evaluate(&model, &placement), evaluate(&larger, &placement));
        prop_assert_eq!((before.total_ns, before.makespan_ns), (after.total_ns, after.makespan_ns));
        prop_assert_eq!(before.max_link_bytes, after.max_link_bytes);
    }

    #[test]
    fn a_limit_that_is_lifted_breaks_less_and_costs_the_same((model, placement) in cases(), limit in 0u64..3, lifted in 0usize..100) {
        let mut tight = model.clone();
        let nodes = model.nodes();
        tight.process_slots = Some(vec![limit; nodes]);
        tight.segment_slots = Some(vec![limit; nodes]);
        tight.memory_bytes = Some(vec![limit * 100; nodes]);
        let mut loose = tight.clone();
        let node = lifted % nodes;
        for limits in [&mut loose.process_slots, &mut loose.segment_slots, &mut loose.memory_bytes] {
            limits.as_mut().unwrap()[node] += 1000;
        }
        let (before, after) = (evaluate(&tight, &placement), evaluate(&loose, &placement));
        prop_assert_eq!(before.total_ns, after.total_ns);
        let at_node = |violation: &&Violation| match violation {
            Violation::ProcessSlots { node: at, .. } | Violation::SegmentSlots { node: at, .. } | Violation::Memory { node: at, .. } => *at as usize == node,
            _ => false,
        };
        let expected: Vec<&Violation> = before.violations.iter().filter(|violation| !at_node(violation)).collect();
        prop_assert_eq!(expected, after.violations.iter().collect::<Vec<&Violation>>());
        // What is broken is what is counted.
        let most = placement.processes.iter().filter(|&&at| at as usize == node).count() as u64;
        let breaks_process_slots = before.violations.iter().any(|violation| matches!(violation, Violation::ProcessSlots { node: at, .. } if *at as usize == node));
        prop_assert_eq!(breaks_process_slots, most > limit);
    }

    #[test]
    fn a_pin_costs_nothing_and_is_kept_or_told((model, placement) in cases(), process in 0..PROCESSES as usize, segment in 0..SEGMENTS as usize, node in any::<u32>()) {
        let node = node % model.nodes() as u32;
        let mut pinned = model.clone();
        pinned.processes[process].pin = Some(node);
        pinned.segments[segment].pin = Some(node);
        let (before, after) = (evaluate(&model, &placement), evaluate(&pinned, &placement));
        prop_assert_eq!(before.total_ns, after.total_ns);
        let kept = usize::from(placement.processes[process] != node) + usize::from(placement.segments[segment].nodes() != [node]);
        prop_assert_eq!(after.violations.len(), kept);
        prop_assert_eq!(after.is_feasible(), kept == 0);
    }

    #[test]
    fn a_copy_more_makes_no_read_dearer_and_adds_its_writes((model, placement) in cases(), segment in 0..SEGMENTS as usize, node in any::<u32>()) {
        let node = node % model.nodes() as u32;
        let mut nodes = placement.segments[segment].nodes().to_vec();
        if nodes.contains(&node) {
            return Ok(());
        }
        nodes.push(node);
        let mut copied = placement.clone();
        copied.segments[segment] = Home::of(nodes);
        let (before, after) = (evaluate(&model, &placement), evaluate(&model, &copied));
        let costs = Costs::new(&model);
        let writes = model.accesses.iter().filter(|access| access.op == Op::Write && access.segment as usize == segment);
        let added: f64 = writes.map(|access| access.count as f64 * costs.access_ns(Op::Write, access.size, placement.processes[access.process as usize], node)).sum();
        let sum = |evaluation: &Evaluation, of: fn(&optisci::cost::ProcessCost) -> f64| evaluation.per_process.iter().map(of).sum::<f64>();
        prop_assert!(close(sum(&before, |cost| cost.write_ns) + added, sum(&after, |cost| cost.write_ns)));
        prop_assert!(before.per_process.iter().zip(&after.per_process).all(|(before, after)| after.read_ns <= before.read_ns * (1.0 + 1e-12)));
    }

    #[test]
    fn a_segment_with_copies_that_may_have_none_is_told((mut model, placement) in cases()) {
        model.segments.iter_mut().for_each(|segment| segment.replicable = false);
        let several = placement.segments.iter().filter(|home| home.nodes().len() > 1).count();
        prop_assert_eq!(evaluate(&model, &placement).violations.len(), several);
    }

    #[test]
    fn a_move_saves_what_it_says_and_no_other_saves_more((mut model, placement) in cases(), slots in 1u64..6) {
        model.segment_slots = Some(vec![slots; model.nodes()]);
        let costs = Costs::new(&model);
        let before = costs.evaluate(&placement);
        let moves = costs.best_moves(&placement, usize::MAX);
        let mut of_segment = vec![0.0; model.segments.len()];
        for best in &moves {
            let mut moved = placement.clone();
            match best.item {
                Item::Process(process) => moved.processes[process] = best.to,
                Item::Segment(segment) => {
                    moved.segments[segment] = Home::One(best.to);
                    of_segment[segment] = best.saves_ns;
                }
            }
            let after = costs.evaluate(&moved);
            let tolerance = 1e-9 * before.total_ns;
            prop_assert!((before.total_ns - after.total_ns - best.saves_ns).abs() <= tolerance);
            prop_assert!(after.violations.len() <= before.violations.len());
        }
        // Every segment to every node that has room.
        for (segment, saves_ns) in of_segment.into_iter().enumerate().filter(|(segment, _)| placement.segments[*segment].nodes().len() == 1) {
            for node in 0..model.nodes() as u32 {
                let mut moved = placement.clone();
                moved.segments[segment] = Home::One(node);
                let after = costs.evaluate(&moved);
                let has_room = !after.violations.iter().any(|violation| matches!(violation, Violation::SegmentSlots { node: at, .. } if *at == node));
                prop_assert!(!has_room || before.total_ns - after.total_ns <= saves_ns + 1e-8 * before.total_ns);
            }
        }
    }

    #[test]
    fn the_dearest_entries_are_the_total((model, placement) in cases()) {
        let costs = Costs::new(&model);
        let all = costs.dearest(&placement, usize::MAX);
        prop_assert!(close(all.iter().map(|entry| entry.ns()).sum(), costs.evaluate(&placement).total_ns));
        prop_assert!(all.windows(2).all(|pair| pair[0].ns() >= pair[1].ns()));
        prop_assert_eq!(&costs.dearest(&placement, 3)[..], &all[..all.len().min(3)]);
    }

    #[test]
    fn a_model_is_written_and_read_as_the_same((model, placement) in cases()) {
        let text = model.to_json();
        prop_assert_eq!(&Model::from_json(&text).unwrap(), &model);
        prop_assert_eq!(Placement::from_json(&placement.to_json(&model), &model).unwrap(), placement);
    }
}
