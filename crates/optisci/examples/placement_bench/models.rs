//! Models of the kinds that users have, and the classics of the literature.

use optisci::model::{Access, CostModel, HopBytes, Matrix, Message, Model, Objective, Op, Process, Scipos, Segment};
use optisci::topology::{Topology, Torus};

/// Numbers that are the same on every machine (G. Steele, D. Lea, C. Flood, "SplitMix", 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % end
    }

    fn shuffled(&mut self, count: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..count as u32).collect();
        (1..count).rev().for_each(|at| all.swap(at, self.below(at as u64 + 1) as usize));
        all
    }
}

fn torus(dims: &[u32], directed: bool) -> Topology {
    Topology::Torus(Torus { dims: dims.to_vec(), directed })
}

fn model(topology: Topology, cost_model: CostModel, processes: usize, segments: usize) -> Model {
    Model {
        id: None,
        topology,
        cost_model,
        processes: (0..processes).map(|number| Process { id: format!("p{number}"), pin: None }).collect(),
        segments: (0..segments)
            .map(|number| Segment { id: format!("s{number}"), bytes: 1, pin: None, replicable: false })
            .collect(),
        accesses: Vec::new(),
        messages: Vec::new(),
        process_slots: None,
        segment_slots: None,
        memory_bytes: None,
        objective: Objective::Sum,
    }
}

fn hop_bytes() -> CostModel {
    CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 })
}

/// Every segment has `sharers` users; reads and, if `write`, writes.
fn share(model: &mut Model, dice: &mut Dice, sharers: usize, write: bool) {
    let processes = model.processes.len();
    for segment in 0..model.segments.len() as u32 {
        let mut users: Vec<u32> = Vec::new();
        while users.len() < sharers {
            let user = dice.below(processes as u64) as u32;
            if !users.contains(&user) {
                users.push(user);
            }
        }
        for process in users {
            let op = if write && dice.below(3) == 0 { Op::Write } else { Op::Read };
            model.accesses.push(Access { process, segment, op, count: 1 + dice.below(100), size: 64 });
        }
    }
}

fn separable(seed: u64, segments: usize, nodes: u32) -> Model {
    let mut dice = Dice(seed);
    let mut model = model(torus(&[16, nodes / 16], false), hop_bytes(), nodes as usize, segments);
    model.processes.iter_mut().zip(dice.shuffled(nodes as usize)).for_each(|(process, node)| process.pin = Some(node));
    share(&mut model, &mut dice, 4, true);
    model
}

fn both_free(seed: u64, size: usize, kind: &str) -> Model {
    let mut dice = Dice(seed);
    let ring = torus(&[size as u32], kind == "scipos");
    let cost_model = match kind {
        "scipos" => CostModel::Scipos(Scipos::default()),
        "matrix" => {
            let mut costs = || -> Vec<f64> {
                let entry = |at: usize, dice: &mut Dice| if at / size == at % size { 1 } else { 10 + dice.below(90) };
                (0..size * size).map(|at| entry(at, &mut dice) as f64).collect()
            };
            let (read, write) = (costs(), costs());
            let none = vec![0.0; size * size];
            CostModel::Matrix(Box::new(Matrix {
                read_ns: read,
                write_ns: write,
                read_ns_per_byte: none.clone(),
                write_ns_per_byte: none,
            }))
        }
        _ => hop_bytes(),
    };
    let mut model = model(ring, cost_model, size, 60);
    share(&mut model, &mut dice, 4, true);
    model.process_slots = Some(vec![1; size]);
    model
}

/// Segments of different sizes for nodes with little memory; each node holds one process that is there to stay.
fn capacitated(seed: u64, segments: usize, nodes: usize) -> Model {
    let mut dice = Dice(seed);
    let mut costs = || (0..nodes * nodes).map(|_| (10 + dice.below(90)) as f64).collect::<Vec<f64>>();
    let (read, write) = (costs(), costs());
    let none = vec![0.0; nodes * nodes];
    let matrix = Matrix { read_ns: read, write_ns: write, read_ns_per_byte: none.clone(), write_ns_per_byte: none };
    let mut model = model(torus(&[nodes as u32], false), CostModel::Matrix(Box::new(matrix)), nodes, segments);
    model.processes.iter_mut().zip(0..).for_each(|(process, node)| process.pin = Some(node));
    share(&mut model, &mut dice, 4, true);
    model.segments.iter_mut().for_each(|segment| segment.bytes = 5 + dice.below(21));
    let total: u64 = model.segments.iter().map(|segment| segment.bytes).sum();
    model.memory_bytes = Some(vec![total * 10 / 8 / nodes as u64; nodes]);
    model
}

fn nugent(name: &str) -> Model {
    let path = format!("{}/../../bench/placement/{name}.flow", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let numbers = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    let numbers: Vec<u64> = numbers.map(|word| word.parse().expect("a whole number")).collect();
    let (size, width) = (numbers[0] as usize, numbers[1] as usize);
    let place = |node: usize| (node % width, node / width);
    let distance = |a: usize, b: usize| {
        let ((ax, ay), (bx, by)) = (place(a), place(b));
        (ax.abs_diff(bx) + ay.abs_diff(by)) as f64
    };
    let write = (0..size * size).map(|at| distance(at / size, at % size)).collect();
    let none = vec![0.0; size * size];
    let matrix =
        Matrix { read_ns: none.clone(), write_ns: write, read_ns_per_byte: none.clone(), write_ns_per_byte: none };
    let mut model = model(torus(&[size as u32], false), CostModel::Matrix(Box::new(matrix)), size, 0);
    let mut flows = numbers[2..].iter();
    for from in 0..size as u32 {
        for to in from + 1..size as u32 {
            let count = *flows.next().expect("one flow per pair");
            model.messages.push(Message { from, to, count, size: 1 });
            model.messages.push(Message { from: to, to: from, count, size: 1 });
        }
    }
    model.process_slots = Some(vec![1; size]);
    model
}

/// Each process exchanges messages with its neighbours on a torus; then processes are shuffled.
fn halo(seed: u64, dims: &[u32]) -> Model {
    let machine = torus(dims, false);
    let nodes = machine.nodes();
    let names = Dice(seed).shuffled(nodes);
    let mut model = model(machine, hop_bytes(), nodes, 0);
    for node in 0..nodes as u32 {
        let mut stride = 1;
        for &dim in dims {
            let at = node / stride % dim;
            let next = node - at * stride + (at + 1) % dim * stride;
            for (from, to) in [(node, next), (next, node)] {
                let (from, to) = (names[from as usize], names[to as usize]);
                model.messages.push(Message { from, to, count: 1, size: 1 });
            }
            stride *= dim;
        }
    }
    model.process_slots = Some(vec![1; nodes]);
    model
}

/// Makes a model of a seed.
pub type Make = fn(u64) -> Model;

/// All of them, by name.
pub const MODELS: &[(&str, Make)] = &[
    ("separable-64", |seed| separable(seed, 1_000_000, 64)),
    ("separable-256", |seed| separable(seed, 1_000_000, 256)),
    ("both-10-hops", |seed| both_free(seed, 10, "hops")),
    ("both-10-scipos", |seed| both_free(seed, 10, "scipos")),
    ("both-10-matrix", |seed| both_free(seed, 10, "matrix")),
    ("both-12-hops", |seed| both_free(seed, 12, "hops")),
    ("both-12-scipos", |seed| both_free(seed, 12, "scipos")),
    ("both-12-matrix", |seed| both_free(seed, 12, "matrix")),
    ("gap-200x16", |seed| capacitated(seed, 200, 16)),
    ("gap-2000x16", |seed| capacitated(seed, 2000, 16)),
    ("gap-5000x64", |seed| capacitated(seed, 5000, 64)),
    ("nug12", |_| nugent("nug12")),
    ("nug30", |_| nugent("nug30")),
    ("halo-6x6x6", |seed| halo(seed, &[6, 6, 6])),
    ("halo-16x16", |seed| halo(seed, &[16, 16])),
    ("halo-64x64", |seed| halo(seed, &[64, 64])),
];
