//! Applications that are nearly stencils: a mapping as good as the one that they were made from.

use optisci::model::{CostModel, HopBytes, Message, Model, Objective, Process};
use optisci::search::{Control, Options, Progress, solve};
use optisci::topology::{Topology, Torus};
use optisci::{Costs, Placement};

/// Numbers that are the same on every machine (G. Steele, D. Lea, C. Flood, "SplitMix", 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end as u64) as usize
    }
}

/// A clock that stands still: only work ends the search.
struct Still;

impl Control for Still {
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    fn progress(&mut self, _: Option<&Progress<'_>>) -> bool {
        true
    }
}

/// Places of a square torus exchange `bytes` with those `step` away; every place but the `missing` has a process.
fn application(
    side: usize,
    steps: &[((usize, usize), u64)],
    open: bool,
    missing: impl Fn(usize) -> bool,
    noise: usize,
) -> (Model, Placement) {
    let mut dice = Dice(5);
    let mut places: Vec<usize> = (0..side * side).filter(|&place| !missing(place)).collect();
    (1..places.len()).rev().for_each(|at| places.swap(at, dice.below(at + 1)));
    let process = |place: usize| places.iter().position(|&other| other == place);
    let mut messages = Vec::new();
    let mut exchange = |from: usize, to: usize, size: u64| {
        for (from, to) in [(from as u32, to as u32), (to as u32, from as u32)] {
            messages.push(Message { from, to, count: 1, size });
        }
    };
    for place in 0..side * side {
        let (x, y) = (place % side, place / side);
        for &((dx, dy), size) in steps {
            if open && (x + dx >= side || y + dy >= side) {
                continue;
            }
            let other = (y + dy) % side * side + (x + dx) % side;
            if let (Some(from), Some(to)) = (process(place), process(other)) {
                exchange(from, to, size);
            }
        }
    }
    for _ in 0..noise {
        let (from, to) = (dice.below(places.len()), dice.below(places.len()));
        if from != to {
            exchange(from, to, 1);
        }
    }
    let model = Model {
        id: None,
        topology: Topology::Torus(Torus { dims: vec![side as u32; 2], directed: false }),
        cost_model: CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 }),
        processes: (0..places.len()).map(|number| Process { id: format!("p{number}"), pin: None }).collect(),
        segments: Vec::new(),
        accesses: Vec::new(),
        messages,
        process_slots: Some(vec![1; side * side]),
        segment_slots: None,
        memory_bytes: None,
        objective: Objective::Sum,
    };
    let processes = places.iter().map(|&place| place as u32).collect();
    (model, Placement { processes, segments: Vec::new() })
}

fn check((model, intended): (Model, Placement), part: f64) {
    let intended = Costs::new(&model).objective(Objective::Sum, &intended);
    let outcome = solve(&model, &Options::default(), &mut Still);
    let (cost, bound) = (outcome.cost.unwrap(), outcome.bound.unwrap());
    assert!(bound <= cost && bound <= intended, "bound {bound}, cost {cost}, intended {intended}");
    assert!(cost <= part * intended, "cost {cost}, intended {intended}: {}", model.to_json());
}

const AXES: [((usize, usize), u64); 2] = [((1, 0), 1), ((0, 1), 1)];

#[test]
fn random_messages_do_not_hide_a_halo() {
    check(application(16, &AXES, false, |_| false, 12), 1.0);
}

#[test]
fn a_halo_may_weigh_more_in_one_direction() {
    check(application(14, &[((1, 0), 8), ((0, 1), 1)], false, |_| false, 6), 1.0);
}

#[test]
fn processes_may_be_missing_and_edges_open() {
    check(application(14, &AXES, true, |place| place % 23 == 7, 0), 1.0);
    check(application(14, &AXES, false, |place| place % 23 == 7, 5), 1.02);
}

#[test]
fn corners_may_be_exchanged_too() {
    let corner = |size| [((1, 0), 8), ((0, 1), 8), ((1, 1), size), ((1, 13), size)];
    check(application(14, &corner(1), false, |_| false, 0), 1.0);
    check(application(14, &corner(8), false, |_| false, 0), 1.0);
}
