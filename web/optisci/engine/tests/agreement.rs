//! What the page computes quickly is what an evaluation of the whole model says.

use optisci::cost::{Crossings, Evaluation};
use optisci::placement::{Home, Placement};
use optisci::{Costs, Model};
use optisci_page::Session;
use optisci_page::trial::{Item, Links, Obstacle, moved};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Small models of every topology and cost model, with copies, messages, limits and pins.
fn model() -> impl Strategy<Value = Value> {
    let topology = prop_oneof![
        (2u32..6, any::<bool>()).prop_map(|(n, directed)| json!({"kind": "torus", "dims": [n], "directed": directed})),
        any::<bool>().prop_map(|directed| json!({"kind": "torus", "dims": [3, 2], "directed": directed})),
        Just(json!({"kind": "fat_tree", "radices": [2, 3]})),
    ];
    let costs = prop_oneof![
        Just(json!({"kind": "scipos", "mem_mhz": 100, "pci_mhz": 33, "bridge_mhz": 1000, "ring_mhz": 500})),
        Just(json!({"kind": "hop_bytes", "ns_per_byte_hop": 0.5})),
        // One of the readings where an access at home pays for wires and crosses no link.
        Just(json!({"kind": "scipos", "mem_mhz": 100, "pci_mhz": 33, "bridge_mhz": 1000, "ring_mhz": 500,
            "readings": {"local": "remote", "pass_node": "nodes", "passes": "per_packet"}})),
    ];
    let access = (0u32..4, 0u32..5, any::<bool>(), 1u32..50, 1u32..5000);
    let message = (0u32..4, 0u32..4, 1u32..50, 1u32..5000);
    let accesses = prop::collection::vec(access, 0..20);
    let messages = prop::collection::vec(message, 0..6);
    (topology, costs, accesses, messages, 1u32..4, any::<bool>()).prop_map(
        |(topology, cost_model, accesses, messages, slots, pins)| {
            let nodes = Value::as_array(topology.get("dims").or(topology.get("radices")).unwrap()).unwrap().iter();
            let nodes = nodes.map(|size| size.as_u64().unwrap()).product::<u64>();
            let pin = if pins { json!(1) } else { Value::Null };
            json!({
                "topology": topology,
                "cost_model": cost_model,
                "processes": (0..4).map(|p| json!({"id": format!("p{p}")})).collect::<Vec<_>>(),
                "segments": (0..5)
                    .map(|s| match (s, &pin) {
                        (4, Value::Number(_)) => json!({"id": "s4", "bytes": 100, "pin": pin}),
                        _ => json!({"id": format!("s{s}"), "bytes": 100 * (s + 1), "replicable": s < 3}),
                    })
                    .collect::<Vec<_>>(),
                "accesses": accesses
                    .iter()
                    .map(|(p, s, read, count, size)| json!({
                        "process": format!("p{p}"), "segment": format!("s{s}"),
                        "op": if *read { "read" } else { "write" }, "count": count, "size": size,
                    }))
                    .collect::<Vec<_>>(),
                "messages": messages
                    .iter()
                    .map(|(a, b, count, size)| json!({"from": format!("p{a}"), "to": format!("p{b}"), "count": count, "size": size}))
                    .collect::<Vec<_>>(),
                "process_slots": vec![slots; nodes as usize],
                "segment_slots": vec![slots; nodes as usize],
                "memory_bytes": vec![slots * 300; nodes as usize],
            })
        },
    )
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A placement from any numbers, with copies where they are allowed.
fn placement(model: &Model, seed: &[u32]) -> Placement {
    let nodes = model.nodes() as u32;
    let at = |index: usize| seed[index % seed.len()] % nodes;
    let home = |index: usize| match model.segments[index].replicable && seed[index % seed.len()].is_multiple_of(3) {
        true => Home::of([at(index + 4), at(index + 9)]),
        false => Home::One(at(index + 4)),
    };
    Placement {
        processes: (0..model.processes.len()).map(at).collect(),
        segments: (0..model.segments.len()).map(home).collect(),
    }
}

fn numbers(model: &Model, placement: &Placement, evaluation: &Evaluation) -> Vec<f64> {
    let crossings = Crossings::new(&Costs::new(model), placement);
    optisci_page::numbers::of(model, placement, evaluation, &crossings)
}

fn with_items(session: &Placement, items: &[Item], node: u32) -> Placement {
    let mut placement = session.clone();
    for &item in items {
        match item {
            Item::Process(index) => placement.processes[index] = node,
            Item::Segment { index, from } => placement.segments[index] = moved(&session.segments[index], from, node),
        }
    }
    placement
}

proptest! {
    #[test]
    fn a_trial_says_what_an_evaluation_says(
        model in model(),
        seed in prop::collection::vec(any::<u32>(), 16),
        chosen in prop::collection::btree_set(0usize..9, 1..5),
    ) {
        let text = model.to_string();
        let mut session = Session::open(&text).unwrap();
        let model = Model::from_json(&text).unwrap();
        let shown = placement(&model, &seed);
        session.show(shown.clone());
        let items: Vec<Item> = chosen
            .iter()
            .map(|&index| match index {
                0..4 => Item::Process(index),
                _ => Item::Segment { index: index - 4, from: shown.segments[index - 4].nodes()[0] },
            })
            .collect();
        let trial = session.trial(&items, Links::Count);
        let before = Costs::new(&model).evaluate(&shown);
        for node in 0..model.nodes() {
            let mut dropped = with_items(&shown, &items, node as u32);
            if let (Some(other), &[Item::Process(index)]) = (trial.swaps[node], &items[..]) {
                dropped.processes[other] = shown.processes[index];
            }
            let after: Evaluation = Costs::new(&model).evaluate(&dropped);
            // Something that was taken off whole leaves rounding of what was there.
            let scale = after.total_ns.max(before.total_ns).max(1.0);
            let agree = |a: f64, b: f64| close(a, b) || (a - b).abs() <= 1e-12 * scale;
            prop_assert!(agree(trial.total_ns[node], after.total_ns), "{} {}", trial.total_ns[node], after.total_ns);
            prop_assert!(agree(trial.makespan_ns[node], after.makespan_ns));
            prop_assert_eq!(trial.max_link_bytes[node], after.max_link_bytes);
            let followed = session.numbers_with(&items, node as u32);
            let expected = numbers(&model, &dropped, &after);
            for (a, b) in followed.iter().zip(&expected) {
                prop_assert!(agree(*a, *b), "{a} {b}");
            }
            prop_assert_eq!(followed.len(), expected.len());
            if trial.obstacles[node] == Obstacle::None {
                // A drop that is allowed makes nothing worse than it was.
                prop_assert!(after.violations.len() <= before.violations.len(), "{:?}", after.violations);
            }
        }
    }

    #[test]
    fn the_numbers_of_the_page_add_up(model in model(), seed in prop::collection::vec(any::<u32>(), 16)) {
        let text = model.to_string();
        let model = Model::from_json(&text).unwrap();
        let shown = placement(&model, &seed);
        let evaluation = Costs::new(&model).evaluate(&shown);
        let numbers = numbers(&model, &shown, &evaluation);
        prop_assert_eq!(numbers[0], evaluation.total_ns);
        let spending = Costs::new(&model).spending(&shown);
        for (process, spent) in numbers[3..3 + 9 * model.processes.len()].chunks(9).zip(spending) {
            prop_assert!(close(process[..3].iter().sum(), process[3..].iter().sum()), "{process:?}");
            for (found, expected) in process[3..].iter().zip(spent.parts()) {
                prop_assert!((found - expected).abs() <= 1e-12 * evaluation.total_ns, "{process:?} {spent:?}");
            }
        }
        let segments: f64 = numbers[3 + 9 * model.processes.len()..][..model.segments.len()].iter().sum();
        let messages: f64 = evaluation.per_process.iter().map(|process| process.message_ns).sum();
        prop_assert!(close(segments + messages, evaluation.total_ns));
    }
}

#[test]
fn the_first_advice_is_the_move_that_helps_most() {
    let mut session = Session::open(include_str!("../../../../examples/placement/scheduler.json")).unwrap();
    let shown = Placement { processes: vec![0, 1, 2, 3], segments: vec![Home::One(2); 3] };
    session.show(shown.clone());
    let total = |placement: &Placement| Costs::new(session.model()).evaluate(placement).total_ns;
    let items = (0..4).map(Item::Process).chain((0..3).map(|index| Item::Segment { index, from: 2 }));
    let moves = items.flat_map(|item| (0..4).map(move |node| (item, node)));
    let swaps = (0..4).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| {
        let mut placement = shown.clone();
        placement.processes.swap(a, b);
        placement
    });
    let all = moves.map(|(item, node)| with_items(&shown, &[item], node)).chain(swaps);
    let allowed = all.filter(|placement| Costs::new(session.model()).evaluate(placement).is_feasible());
    let best = allowed.map(|placement| total(&placement)).fold(f64::INFINITY, f64::min);
    let explanation = session.explain(optisci::model::Objective::Sum, 10);
    assert!(best < total(&shown));
    assert!(close(explanation.moves[0].cost, best), "{} {best}", explanation.moves[0].cost);
    assert!(explanation.moves.is_sorted_by(|a, b| a.cost <= b.cost));
    assert_eq!(explanation.contributions.len(), 10);
    assert!(explanation.contributions.is_sorted_by(|a, b| a.amount >= b.amount));
}

#[test]
fn a_placement_of_another_model_is_refused() {
    let session = Session::open(include_str!("../../../../examples/placement/scheduler.json")).unwrap();
    let good = [0, 1, 2, 3, 1, 0, 1, 0, 2, 1, 3];
    assert!(session.placement(&good).is_ok());
    assert!(session.placement(&good[..10]).is_err());
    assert!(session.placement(&[&good[..], &[0]].concat()).is_err());
    assert!(session.placement(&[4, 1, 2, 3, 1, 0, 1, 0, 1, 3]).is_err());
    assert!(session.placement(&[0, 1, 2, 3, 0, 1, 0, 1, 3]).is_err());
}
