//! Models of the kinds that users have, and the classics of the literature.

use optisci::Placement;
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

/// Processes that exchange messages with their neighbours on a torus and are then shuffled; and what real applications
/// have instead of a perfect halo.
struct Stencil<'a> {
    /// Processes in each dimension.
    dims: &'a [u32],
    /// The machine, if it has another shape.
    machine: &'a [u32],
    /// Bytes to the neighbours in each dimension; the last counts for all further ones.
    bytes: &'a [u64],
    /// Bytes to diagonal neighbours in the first two dimensions.
    corner: u64,
    /// Nothing goes around the edges.
    open: bool,
    /// One process of so many is missing.
    missing: u64,
    /// Messages between random pairs, one byte each way.
    noise: usize,
}

impl<'a> Stencil<'a> {
    fn new(dims: &'a [u32]) -> Stencil<'a> {
        Stencil { dims, machine: dims, bytes: &[1], corner: 0, open: false, missing: 0, noise: 0 }
    }

    /// The model, and the placement that it was made from, where machine and application have the same shape.
    fn model(&self, seed: u64) -> (Model, Option<Placement>) {
        let mut dice = Dice(seed);
        let count: u32 = self.dims.iter().product();
        let places: Vec<u32> = (0..count).filter(|_| self.missing == 0 || dice.below(self.missing) > 0).collect();
        let names = if self.missing == 0 { Dice(seed).shuffled(places.len()) } else { dice.shuffled(places.len()) };
        let mut name = vec![None; count as usize];
        places.iter().zip(&names).for_each(|(&place, &process)| name[place as usize] = Some(process));
        let mut model = model(torus(self.machine, false), hop_bytes(), places.len(), 0);
        let mut exchange = |from: Option<u32>, to: Option<u32>, size: u64| {
            if let (Some(from), Some(to)) = (from, to) {
                for (from, to) in [(from, to), (to, from)] {
                    model.messages.push(Message { from, to, count: 1, size });
                }
            }
        };
        for place in 0..count {
            let at = self.coordinates(place);
            for dim in 0..self.dims.len() {
                let mut step = vec![0; self.dims.len()];
                step[dim] = 1;
                let bytes = self.bytes[dim.min(self.bytes.len() - 1)];
                exchange(name[place as usize], self.neighbour(&at, &step).and_then(|place| name[place]), bytes);
            }
            for step in [[1, 1], [1, -1]].iter().filter(|_| self.corner > 0) {
                exchange(name[place as usize], self.neighbour(&at, step).and_then(|place| name[place]), self.corner);
            }
        }
        for _ in 0..self.noise {
            let mut any = || Some(dice.below(places.len() as u64) as u32);
            let (from, to) = (any(), any());
            if from != to {
                exchange(from, to, 1);
            }
        }
        model.process_slots = Some(vec![1; model.topology.nodes()]);
        let mut nodes = vec![0; places.len()];
        places.iter().zip(&names).for_each(|(&place, &process)| nodes[process as usize] = place);
        let intended = Placement { processes: nodes, segments: Vec::new() };
        (model, (self.dims == self.machine).then_some(intended))
    }

    fn coordinates(&self, place: u32) -> Vec<u32> {
        let mut rest = place;
        let split = self.dims.iter().map(|&dim| {
            let at = rest % dim;
            rest /= dim;
            at
        });
        split.collect()
    }

    fn neighbour(&self, at: &[u32], step: &[i64]) -> Option<usize> {
        let mut number = 0;
        for dim in (0..self.dims.len()).rev() {
            let size = i64::from(self.dims[dim]);
            let to = i64::from(at[dim]) + step[dim];
            if self.open && !(0..size).contains(&to) {
                return None;
            }
            number = number * size + to.rem_euclid(size);
        }
        Some(number as usize)
    }
}

/// Points in a square, each of which exchanges messages with those nearest to it, as in an unstructured mesh.
fn mesh(seed: u64, dims: &[u32]) -> Model {
    let mut dice = Dice(seed);
    let machine = torus(dims, false);
    let count = machine.nodes();
    let points: Vec<(i64, i64)> = (0..count).map(|_| (dice.below(10_000) as i64, dice.below(10_000) as i64)).collect();
    let mut model = model(machine, hop_bytes(), count, 0);
    for (from, &(x, y)) in points.iter().enumerate() {
        let mut others: Vec<usize> = (0..count).filter(|&other| other != from).collect();
        others.sort_by_key(|&other| ((points[other].0 - x).pow(2) + (points[other].1 - y).pow(2), other));
        for &to in &others[..5] {
            for (from, to) in [(from, to), (to, from)] {
                model.messages.push(Message { from: from as u32, to: to as u32, count: 1, size: 1 });
            }
        }
    }
    model.process_slots = Some(vec![1; count]);
    model
}

/// Makes a model of a seed, and tells the placement that it was made from, if there is one.
pub type Make = fn(u64) -> (Model, Option<Placement>);

/// All of them, by name.
pub const MODELS: &[(&str, Make)] = &[
    ("separable-64", |seed| (separable(seed, 1_000_000, 64), None)),
    ("separable-256", |seed| (separable(seed, 1_000_000, 256), None)),
    ("both-10-hops", |seed| (both_free(seed, 10, "hops"), None)),
    ("both-10-scipos", |seed| (both_free(seed, 10, "scipos"), None)),
    ("both-10-matrix", |seed| (both_free(seed, 10, "matrix"), None)),
    ("both-12-hops", |seed| (both_free(seed, 12, "hops"), None)),
    ("both-12-scipos", |seed| (both_free(seed, 12, "scipos"), None)),
    ("both-12-matrix", |seed| (both_free(seed, 12, "matrix"), None)),
    ("gap-200x16", |seed| (capacitated(seed, 200, 16), None)),
    ("gap-2000x16", |seed| (capacitated(seed, 2000, 16), None)),
    ("gap-5000x64", |seed| (capacitated(seed, 5000, 64), None)),
    ("nug12", |_| (nugent("nug12"), None)),
    ("nug30", |_| (nugent("nug30"), None)),
    ("halo-6x6x6", |seed| Stencil::new(&[6, 6, 6]).model(seed)),
    ("halo-16x16", |seed| Stencil::new(&[16, 16]).model(seed)),
    ("halo-64x64", |seed| Stencil::new(&[64, 64]).model(seed)),
    ("noisy-64x64", |seed| Stencil { noise: 200, ..Stencil::new(&[64, 64]) }.model(seed)),
    ("noisy-12x12x12", |seed| Stencil { noise: 100, ..Stencil::new(&[12, 12, 12]) }.model(seed)),
    ("open-32x32", |seed| Stencil { open: true, ..Stencil::new(&[32, 32]) }.model(seed)),
    ("uneven-32x32", |seed| Stencil { bytes: &[8, 1], noise: 50, ..Stencil::new(&[32, 32]) }.model(seed)),
    ("holes-32x32", |seed| Stencil { missing: 20, ..Stencil::new(&[32, 32]) }.model(seed)),
    ("nine-32x32", |seed| Stencil { corner: 1, bytes: &[8], ..Stencil::new(&[32, 32]) }.model(seed)),
    ("nine-even-32x32", |seed| Stencil { corner: 1, ..Stencil::new(&[32, 32]) }.model(seed)),
    ("sheet-64x64-cube", |seed| Stencil { machine: &[16, 16, 16], ..Stencil::new(&[64, 64]) }.model(seed)),
    ("mesh-32x32", |seed| (mesh(seed, &[32, 32]), None)),
];
