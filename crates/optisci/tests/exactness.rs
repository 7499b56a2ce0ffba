//! Totals agree with whole-number arithmetic to 1e-9 relative, however long and uneven the sums are, and are the same
//! bytes on every run.

use optisci::model::{Access, CostModel, HopBytes, Message, Op};
use optisci::placement::Home;
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Model, Placement, report, table1};
use proptest::prelude::*;

/// Processes and segments on a directed torus of 5 x 3, with accesses of very different weights.
fn case() -> impl Strategy<Value = (Model, Placement)> {
    let access = (0u32..6, 0u32..8, any::<bool>(), 0u64..1 << 30, prop_oneof![0u64..200, 0u64..1 << 20]);
    let message = (0u32..6, 0u32..6, 0u64..1 << 30, 0u64..1 << 12);
    let nodes = (prop::collection::vec(0u32..15, 6), prop::collection::vec(prop::collection::vec(0u32..15, 1..4), 8));
    (prop::collection::vec(access, 0..60), prop::collection::vec(message, 0..20), nodes).prop_map(
        |(accesses, messages, (processes, segments))| {
            let mut model = Model::from_json(table1::SCHEDULER).unwrap();
            model.topology = Topology::Torus(Torus { dims: vec![5, 3], directed: true });
            model.process_slots = None;
            let (process, segment) = (model.processes[0].clone(), model.segments[0].clone());
            model.processes = vec![process; 6];
            model.segments = vec![segment; 8];
            let op = |is_read: bool| if is_read { Op::Read } else { Op::Write };
            let accesses = accesses.into_iter();
            model.accesses = accesses
                .map(|(process, segment, is_read, count, size)| Access {
                    process,
                    segment,
                    op: op(is_read),
                    count,
                    size,
                })
                .collect();
            let messages = messages.into_iter();
            model.messages = messages.map(|(from, to, count, size)| Message { from, to, count, size }).collect();
            let segments = segments.into_iter().map(Home::of).collect();
            (model, Placement { processes, segments })
        },
    )
}

/// The cost of one access in units of 1/33 ns, which makes every term a whole number.
fn units(op: Op, size: u64, a: u32, b: u32) -> i128 {
    let (size, memory) = (i128::from(size), 33 * 140 * i128::from(size.div_ceil(8)));
    let packets = (size + 63) / 64;
    if a == b {
        return memory;
    }
    let leg = |a: u32, b: u32| {
        let ahead = |from: u32, to: u32, dim: u32| i128::from((to + dim - from) % dim);
        let (x, y) = (ahead(a % 5, b % 5, 5), ahead(a / 5, b / 5, 3));
        let turns = i128::from(x > 0 && y > 0);
        2 * 3 * 1000 * ((size + 3) / 4) + 33 * (20 * packets + 200 * packets + 33 * (x + y) + 12 * turns * packets)
    };
    let write = 2 * memory + leg(a, b);
    match op {
        Op::Write => write,
        Op::Read => write + leg(b, a) + memory,
    }
}

fn total_units(model: &Model, placement: &Placement) -> i128 {
    let accesses = model.accesses.iter().map(|access| {
        let a = placement.processes[access.process as usize];
        let copies = placement.segments[access.segment as usize].nodes().iter();
        let one: i128 = match access.op {
            Op::Read => copies.map(|&b| units(Op::Read, access.size, a, b)).min().unwrap(),
            Op::Write => copies.map(|&b| units(Op::Write, access.size, a, b)).sum(),
        };
        i128::from(access.count) * one
    });
    let messages = model.messages.iter().map(|message| {
        let (a, b) = (placement.processes[message.from as usize], placement.processes[message.to as usize]);
        if a == b { 0 } else { i128::from(message.count) * units(Op::Write, message.size, a, b) }
    });
    accesses.sum::<i128>() + messages.sum::<i128>()
}

proptest! {
    #[test]
    fn totals_agree_with_whole_numbers((model, placement) in case()) {
        let exact = total_units(&model, &placement) as f64 / 33.0;
        let evaluation = Costs::new(&model).evaluate(&placement);
        prop_assert!((evaluation.total_ns - exact).abs() <= 1e-9 * exact, "{} instead of {exact}", evaluation.total_ns);
        let per_process: f64 = evaluation.per_process.iter().map(|cost| cost.total_ns()).sum();
        prop_assert!((per_process - exact).abs() <= 1e-9 * exact);
        let spending = Costs::new(&model).spending(&placement);
        let spent: f64 = spending.iter().map(|spent| spent.total_ns()).sum();
        prop_assert!((spent - exact).abs() <= 1e-9 * exact, "{spent} instead of {exact}");
    }

    #[test]
    fn the_same_placement_is_the_same_bytes((model, placement) in case()) {
        let text = |model: &Model| {
            let costs = Costs::new(model);
            report::evaluation(model, &costs.evaluate(&placement), &costs.spending(&placement))
        };
        prop_assert_eq!(text(&model), text(&model.clone()));
    }
}

#[test]
fn small_terms_are_not_lost_beside_large_ones() {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.cost_model = CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 });
    let access = |count, size| Access { process: 0, segment: 0, op: Op::Write, count, size };
    model.accesses = vec![access(1, 1 << 53)];
    // Each of these alone would vanish beside the first.
    model.accesses.extend(std::iter::repeat_n(access(1, 1), 1_000_000));
    let placement = Placement { processes: vec![0, 1, 2, 3], segments: vec![Home::One(1), Home::One(0), Home::One(0)] };
    let expected = ((1u64 << 53) + 1_000_000) as f64;
    assert_eq!(Costs::new(&model).evaluate(&placement).total_ns, expected);
}

#[test]
fn link_loads_are_whole_bytes_on_the_way_that_packets_take() {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.topology = Topology::FatTree(FatTree { radices: vec![2, 2] });
    model.accesses = vec![
        Access { process: 0, segment: 0, op: Op::Read, count: 3, size: 5 },
        Access { process: 0, segment: 1, op: Op::Write, count: 7, size: 11 },
    ];
    model.messages = vec![Message { from: 1, to: 2, count: 2, size: 13 }];
    let placement = Placement { processes: vec![0, 1, 2, 3], segments: vec![Home::One(3), Home::One(1), Home::One(0)] };
    let evaluation = Costs::new(&model).evaluate(&placement);
    let mut loads: Vec<(String, u64)> = evaluation
        .per_link
        .iter()
        .enumerate()
        .filter(|(_, bytes)| **bytes > 0)
        .map(|(number, bytes)| {
            let link = model.topology.link(number);
            (format!("{} -> {}", link.from, link.to), *bytes)
        })
        .collect();
    loads.sort();
    let mut expected = vec![
        // The read of 15 bytes comes from node 3 over the root.
        ("3 -> switch 1.1".to_owned(), 15),
        ("switch 1.1 -> switch 2.0".to_owned(), 15),
        ("switch 2.0 -> switch 1.0".to_owned(), 15),
        ("switch 1.0 -> 0".to_owned(), 15),
        // The write of 77 bytes goes to the node beside.
        ("0 -> switch 1.0".to_owned(), 77),
        ("switch 1.0 -> 1".to_owned(), 77),
        // The message of 26 bytes goes from node 1 to node 2.
        ("1 -> switch 1.0".to_owned(), 26),
        ("switch 1.0 -> switch 2.0".to_owned(), 26),
        ("switch 2.0 -> switch 1.1".to_owned(), 26),
        ("switch 1.1 -> 2".to_owned(), 26),
    ];
    expected.sort();
    assert_eq!(loads, expected);
    assert_eq!(evaluation.max_link_bytes, 77);
}
