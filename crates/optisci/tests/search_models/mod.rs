//! Random small models of every kind, and the best placement of each by trying all.
#![allow(dead_code)]

use optisci::model::{
    Access, Changing, CostModel, Counts, HopBytes, Insertion, Local, Matrix, Message, Model, Objective, Op, PassNode,
    Passes, Process, Readings, ReturnPath, Scipos, Segment, Units,
};
use optisci::placement::Home;
use optisci::search::{Control, Options, Outcome, Progress, solve};
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Placement};
use std::time::Duration;

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// No clock, never stops; keeps what it was told.
#[derive(Default)]
pub struct Patient {
    pub told: Vec<(f64, f64)>,
}

impl Control for Patient {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, incumbent: Option<&Progress<'_>>) -> bool {
        self.told.extend(incumbent.map(|progress| (progress.cost, progress.bound)));
        true
    }
}

pub fn run(model: &Model, seed: u64) -> Outcome {
    solve(model, &Options { seed, ..Options::default() }, &mut Patient::default())
}

/// What a random model may contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub free_processes: bool,
    pub messages: bool,
    pub limits: bool,
    pub copies: bool,
    pub pins: bool,
    pub objective: Objective,
    pub numbers: Numbers,
}

/// What is hard about the numbers of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Nothing.
    #[default]
    Plain,
    /// Costs are decimal fractions of which many are equal but for the last bit.
    NearlyEqual,
    /// Some pairs of nodes cost so much that it stands for *never*.
    Never,
    /// Everything but home does.
    OnlyHome,
    /// Costs from next to nothing to more than a week.
    Uneven,
    /// Limits that a byte more or less decides about, together more than an `f64` can count.
    ManyBytes,
    /// Accesses so often that bytes are more than an `f64` can count.
    ManyAccesses,
    /// Clocks and readings of every kind.
    Readings,
}

impl Numbers {
    pub const ALL: [Numbers; 8] = [
        Numbers::Plain,
        Numbers::NearlyEqual,
        Numbers::Never,
        Numbers::OnlyHome,
        Numbers::Uneven,
        Numbers::ManyBytes,
        Numbers::ManyAccesses,
        Numbers::Readings,
    ];

    /// Puts them into a model.
    fn put(self, model: &mut Model, dice: &mut Dice) {
        let nodes = model.nodes();
        let whole = |dice: &mut Dice, most: u64, unit: f64| dice.below(most) as f64 * unit;
        match self {
            Numbers::Plain => {}
            Numbers::NearlyEqual => {
                model.cost_model = matrix(nodes, dice, |dice, _| whole(dice, 4, 0.1));
                model.accesses.iter_mut().for_each(|access| access.size = 1 + access.size % 3);
                model.accesses.iter_mut().for_each(|access| access.count = 1 + 3 * access.count);
            }
            Numbers::Never => {
                let cost = |dice: &mut Dice, _| if dice.chance(15) { 1e15 } else { whole(dice, 30, 1.0 / 7.0) };
                model.cost_model = matrix(nodes, dice, cost);
            }
            Numbers::OnlyHome => {
                let away = [1e15, 1e14, 3e14 / 7.0];
                let cost = |dice: &mut Dice, home| match home {
                    true => whole(dice, 30, 1.0 / 7.0),
                    false => away[dice.below(3) as usize],
                };
                model.cost_model = matrix(nodes, dice, cost);
            }
            Numbers::Uneven => {
                let costs = [0.0, 1e-3, 0.7, 1e3, 1e9, 1e15];
                model.cost_model = matrix(nodes, dice, |dice, _| costs[dice.below(6) as usize]);
                model.accesses.iter_mut().for_each(|access| access.count <<= dice.below(20));
            }
            Numbers::ManyBytes => {
                // A file has numbers up to 2^53.
                let mut many = |bytes: u64, spread: u64| ((bytes << 49) + dice.below(spread)).min(1 << 53);
                model.segments.iter_mut().for_each(|segment| segment.bytes = many(segment.bytes, 4));
                let memory = model.memory_bytes.iter_mut().flatten();
                memory.for_each(|bytes| *bytes = many(*bytes, 8));
            }
            Numbers::ManyAccesses => {
                let mut many = |count: &mut u64| *count = (*count << (30 + dice.below(18))) + dice.below(5);
                model.accesses.iter_mut().for_each(|access| many(&mut access.count));
                model.messages.iter_mut().for_each(|message| many(&mut message.count));
            }
            Numbers::Readings => {
                let mut clock = || [100.0, 33.0, 1000.0, 0.3, 7.1][dice.below(5) as usize];
                let [mem_mhz, pci_mhz, bridge_mhz, ring_mhz] = std::array::from_fn(|_| clock());
                let readings = readings(dice);
                model.cost_model = CostModel::Scipos(Scipos { mem_mhz, pci_mhz, bridge_mhz, ring_mhz, readings });
                model.accesses.iter_mut().for_each(|access| access.size = dice.below(300));
            }
        }
    }
}

/// Costs of every pair of nodes; whether it is one node.
fn matrix(nodes: usize, dice: &mut Dice, cost: impl Fn(&mut Dice, bool) -> f64) -> CostModel {
    let mut table = || (0..nodes * nodes).map(|at| cost(dice, at / nodes == at % nodes)).collect();
    CostModel::Matrix(Box::new(Matrix {
        read_ns: table(),
        write_ns: table(),
        read_ns_per_byte: table(),
        write_ns_per_byte: table(),
    }))
}

fn readings(dice: &mut Dice) -> Readings {
    let mut one = || dice.chance(50);
    Readings {
        local: [Local::Memory, Local::Zero, Local::TwoMemories, Local::Remote]
            [2 * usize::from(one()) + usize::from(one())],
        pass_node: if one() { PassNode::Links } else { PassNode::Nodes },
        passes: if one() { Passes::PerAccess } else { Passes::PerPacket },
        changing: if one() { Changing::Turns } else { Changing::Always },
        units: if one() { Units::Whole } else { Units::Fractions },
        return_path: if one() { ReturnPath::Back } else { ReturnPath::AsPrinted },
        insertion: if one() { Insertion::Once } else { Insertion::PerLink },
        counts: if one() { Counts::Weighted } else { Counts::Once },
    }
}

pub fn model(dice: &mut Dice, kind: Kind) -> Model {
    let topology = match dice.below(4) {
        0 => Topology::Torus(Torus { dims: vec![2 + dice.below(3) as u32], directed: dice.chance(50) }),
        1 => Topology::Torus(Torus { dims: vec![2, 2], directed: dice.chance(50) }),
        2 => Topology::FatTree(FatTree { radices: vec![2, 2] }),
        _ => Topology::Torus(Torus { dims: vec![3], directed: true }),
    };
    let nodes = topology.nodes();
    let processes = 1 + dice.below(if kind.free_processes { 4 } else { 5 }) as usize;
    let states: f64 = if kind.free_processes { (nodes as f64).powi(processes as i32) } else { 1.0 };
    let homes = if kind.copies { (1 << nodes) as f64 } else { nodes as f64 };
    let most = ((60_000.0 / states).ln() / homes.ln()).floor().clamp(1.0, 6.0) as u64;
    let segments = 1 + dice.below(most) as usize;
    let cost_model = match dice.below(3) {
        0 => CostModel::Scipos(Scipos::default()),
        1 => CostModel::HopBytes(HopBytes { ns_per_byte_hop: if dice.chance(50) { 1.0 } else { 0.37 } }),
        _ => {
            let mut matrix = |most: u64, whole: bool| -> Vec<f64> {
                let number = |dice: &mut Dice| dice.below(most) as f64 + if whole { 0.0 } else { 1.0 / 3.0 };
                (0..nodes * nodes).map(|_| number(dice)).collect()
            };
            CostModel::Matrix(Box::new(Matrix {
                read_ns: matrix(100, true),
                write_ns: matrix(100, false),
                read_ns_per_byte: matrix(3, true),
                write_ns_per_byte: matrix(3, true),
            }))
        }
    };
    let pin =
        |dice: &mut Dice, percent: u64| (kind.pins && dice.chance(percent)).then(|| dice.below(nodes as u64) as u32);
    let process = |index: usize, dice: &mut Dice| Process {
        id: format!("p{index}"),
        pin: if kind.free_processes { pin(dice, 25) } else { Some(dice.below(nodes as u64) as u32) },
    };
    let processes: Vec<Process> = (0..processes).map(|index| process(index, dice)).collect();
    let segments: Vec<Segment> = (0..segments)
        .map(|index| Segment {
            id: format!("s{index}"),
            bytes: dice.below(10),
            pin: pin(dice, 20),
            replicable: kind.copies && dice.chance(60),
        })
        .collect();
    let mut accesses = Vec::new();
    for process in 0..processes.len() as u32 {
        for segment in 0..segments.len() as u32 {
            for op in [Op::Read, Op::Write] {
                if dice.chance(if op == Op::Read { 65 } else { 35 }) {
                    let size = [1, 8, 64, 100][dice.below(4) as usize];
                    accesses.push(Access { process, segment, op, count: dice.below(6), size });
                }
            }
        }
    }
    let mut messages = Vec::new();
    if kind.messages {
        for from in 0..processes.len() as u32 {
            for to in 0..processes.len() as u32 {
                if dice.chance(50) {
                    messages.push(Message { from, to, count: dice.below(5), size: 1 + dice.below(100) });
                }
            }
        }
    }
    let mut limit = |least: u64, spread: u64| -> Option<Vec<u64>> {
        dice.chance(60).then(|| (0..nodes).map(|_| least + dice.below(spread)).collect())
    };
    let (slots, segment_slots, memory) = if kind.limits {
        let fair = (segments.len() as u64).div_ceil(nodes as u64);
        (limit(1, 2), limit(fair.saturating_sub(1), 3), limit(4 * fair, 12))
    } else {
        (if kind.free_processes { limit(1, 2) } else { None }, None, None)
    };
    let mut model = Model {
        id: None,
        topology,
        cost_model,
        processes,
        segments,
        accesses,
        messages,
        process_slots: slots,
        segment_slots,
        memory_bytes: memory,
        objective: kind.objective,
    };
    kind.numbers.put(&mut model, dice);
    model
}

/// The least cost of all placements that obey the limits; infinite if there is none.
pub fn least(model: &Model) -> f64 {
    let costs = Costs::new(model);
    let nodes = model.nodes() as u32;
    let mut best = f64::INFINITY;
    let mut placement =
        Placement { processes: vec![0; model.processes.len()], segments: vec![Home::One(0); model.segments.len()] };
    fn processes(model: &Model, costs: &Costs<'_>, at: usize, nodes: u32, placement: &mut Placement, best: &mut f64) {
        if at == model.processes.len() {
            return segments(model, costs, 0, nodes, placement, best);
        }
        for node in 0..nodes {
            if model.processes[at].pin.is_none_or(|pin| pin == node) {
                placement.processes[at] = node;
                let used = placement.processes[..=at].iter().filter(|&&other| other == node).count() as u64;
                if model.process_slots.as_ref().is_none_or(|slots| used <= slots[node as usize]) {
                    processes(model, costs, at + 1, nodes, placement, best);
                }
            }
        }
    }
    fn segments(model: &Model, costs: &Costs<'_>, at: usize, nodes: u32, placement: &mut Placement, best: &mut f64) {
        if at == model.segments.len() {
            let evaluation = costs.evaluate(placement);
            if evaluation.is_feasible() {
                *best = best.min(evaluation.cost(model.objective));
            }
            return;
        }
        let entry = &model.segments[at];
        for set in 1u32..1 << nodes {
            let pinned = entry.pin.is_some_and(|pin| set != 1 << pin);
            if pinned || set.count_ones() > 1 && !entry.replicable {
                continue;
            }
            let copies: Vec<u32> = (0..nodes).filter(|node| set >> node & 1 == 1).collect();
            placement.segments[at] = Home::of(copies);
            segments(model, costs, at + 1, nodes, placement, best);
        }
    }
    processes(model, &costs, 0, nodes, &mut placement, &mut best);
    best
}
