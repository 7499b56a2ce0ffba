//! Better and better placements by random moves: for every objective, limit and kind of segment.
//!
//! A move takes a process or a segment to another node, exchanges two, or adds or drops a copy. It is kept if it helps,
//! and with a probability that falls with time if it does not. Only what a move touches is computed anew. For the
//! largest of several loads the eighth powers are added up, which tells which of two placements is closer to a smaller
//! maximum even while the maximum stays. Limits are obeyed at every step. Sources: S. Kirkpatrick, C. Gelatt, M.
//! Vecchi, "Optimization by Simulated Annealing", 1983; D. Connolly, "An improved annealing scheme for the QAP", 1990,
//! for temperatures taken from sampled moves.

mod moves;

use super::instance::Instance;
use super::random::Random;
use crate::Placement;
use crate::model::{Objective, Op};
use crate::placement::Home;

/// A placement that is being changed.
#[derive(Clone)]
struct Annealing<'a> {
    instance: &'a Instance<'a>,
    node: Vec<u32>,
    copies: Vec<Vec<u32>>,
    on_node: Vec<u64>,
    segments_on: Vec<u64>,
    bytes_on: Vec<u64>,
    row: Vec<f64>,
    change: Vec<f64>,
    touched: Vec<u32>,
    marked: Vec<bool>,
    scale: f64,
    movable_processes: Vec<u32>,
    movable_segments: Vec<u32>,
    guests: Vec<Vec<u32>>,
    /// Segments of one copy on each node that may move, and where in its list each of them stands.
    residents: Vec<Vec<u32>>,
    seats: Vec<u32>,
}

/// The best that comes of `start`, which obeys all limits, in `steps` moves; `heat` is how warm it begins, as a part of
/// the usual. `start` itself, if `go_on` says no before all costs of that are known.
pub fn anneal(
    instance: &Instance<'_>,
    start: &Placement,
    random: &mut Random,
    steps: u64,
    heat: f64,
    go_on: &mut dyn FnMut() -> bool,
) -> Placement {
    let mut state = Annealing::new(instance, start);
    if !state.add_up(go_on) {
        return start.clone();
    }
    state.cool(random, steps, heat, go_on)
}

impl<'a> Annealing<'a> {
    /// Nothing is counted yet.
    fn new(instance: &'a Instance<'a>, placement: &Placement) -> Annealing<'a> {
        let nodes = instance.nodes;
        let rows = match instance.objective {
            Objective::Sum => 1,
            Objective::Makespan => instance.processes(),
            Objective::MaxLink => instance.model.topology.links(),
        };
        let mut state = Annealing {
            instance,
            node: placement.processes.clone(),
            copies: placement.segments.iter().map(|home| home.nodes().to_vec()).collect(),
            on_node: vec![0; nodes],
            segments_on: vec![0; nodes],
            bytes_on: vec![0; nodes],
            row: vec![0.0; rows],
            change: vec![0.0; rows],
            touched: Vec::new(),
            marked: vec![false; rows],
            scale: 1.0,
            movable_processes: (0..instance.processes() as u32)
                .filter(|&process| instance.process_pin(process as usize).is_none() && nodes > 1)
                .collect(),
            movable_segments: (0..instance.segments() as u32)
                .filter(|&segment| {
                    instance.segment_pin(segment as usize).is_none()
                        && nodes > 1
                        && !instance.uses_of(segment as usize).is_empty()
                })
                .collect(),
            guests: vec![Vec::new(); nodes],
            residents: vec![Vec::new(); nodes],
            seats: vec![0; instance.segments()],
        };
        for (process, &at) in (0..).zip(&placement.processes) {
            state.on_node[at as usize] += 1;
            state.guests[at as usize].push(process);
        }
        for (segment, copies) in state.copies.iter().enumerate() {
            for &at in copies {
                state.segments_on[at as usize] += 1;
                state.bytes_on[at as usize] += instance.model.segments[segment].bytes;
            }
        }
        for index in 0..state.movable_segments.len() {
            state.settle(state.movable_segments[index]);
        }
        state
    }

    /// Computes all rows. False if `go_on` says no before the end: they are of no use then.
    fn add_up(&mut self, go_on: &mut dyn FnMut() -> bool) -> bool {
        for segment in 0..self.copies.len() {
            if segment % 32 == 0 && !go_on() {
                return false;
            }
            self.segment_load(segment, 1.0, None);
        }
        for number in 0..self.instance.posts.len() {
            if number % 32 == 0 && !go_on() {
                return false;
            }
            self.post_load(number, 1.0, None);
        }
        for &row in &self.touched {
            self.row[row as usize] += self.change[row as usize];
            self.change[row as usize] = 0.0;
            self.marked[row as usize] = false;
        }
        self.touched.clear();
        self.scale = self.row.iter().copied().fold(0.0, f64::max).max(1e-300);
        true
    }

    #[inline]
    fn touch(&mut self, row: usize, amount: f64) {
        if !self.marked[row] {
            self.marked[row] = true;
            self.touched.push(row as u32);
        }
        self.change[row] += amount;
    }

    /// Adds what one access costs, `sign` times, with its process on `a`.
    fn use_load(&mut self, number: usize, a: usize, sign: f64) {
        let instance = self.instance;
        let entry = &instance.uses[number];
        let copies = self.copies[entry.segment as usize].len();
        if copies == 1 || entry.op == Op::Write {
            for copy in 0..copies {
                self.pay(number, a, self.copies[entry.segment as usize][copy] as usize, sign);
            }
            return;
        }
        let at = instance.nearest(entry, &self.copies[entry.segment as usize], a);
        self.pay(number, a, at, sign);
    }

    #[inline]
    fn pay(&mut self, number: usize, a: usize, v: usize, sign: f64) {
        let instance = self.instance;
        let entry = &instance.uses[number];
        match instance.objective {
            Objective::Sum => self.change[0] += sign * instance.use_cost(entry, a, v),
            Objective::Makespan => self.touch(entry.process as usize, sign * instance.use_cost(entry, a, v)),
            Objective::MaxLink => instance.use_route(entry, a, v, |link| self.touch(link, sign * entry.bytes)),
        }
    }

    fn segment_load(&mut self, segment: usize, sign: f64, moved: Option<(u32, u32)>) {
        let uses = self.instance.uses_of(segment);
        let start = self.instance.first_use(segment);
        for (offset, entry) in uses.iter().enumerate() {
            let a = match moved {
                Some((process, at)) if process == entry.process => at,
                _ => self.node[entry.process as usize],
            };
            self.use_load(start + offset, a as usize, sign);
        }
        if self.instance.objective == Objective::Sum {
            self.touch(0, 0.0);
        }
    }

    fn post_load(&mut self, number: usize, sign: f64, swapped: Option<(u32, u32, u32, u32)>) {
        let instance = self.instance;
        let post = &instance.posts[number];
        let place = |process: u32| match swapped {
            Some((p, a, _, _)) if p == process => a as usize,
            Some((_, _, q, b)) if q == process => b as usize,
            _ => self.node[process as usize] as usize,
        };
        let (a, b) = (place(post.from), place(post.to));
        match instance.objective {
            Objective::Sum => self.touch(0, sign * instance.post_cost(post, a, b)),
            Objective::Makespan => {
                let cost = instance.post_cost(post, a, b);
                self.touch(post.from as usize, sign * cost);
            }
            Objective::MaxLink => {
                let bytes = sign * post.bytes;
                instance.model.topology.route(a as u32, b as u32, |link| self.touch(link, bytes));
            }
        }
    }

    /// What everything that a process takes part in costs, `sign` times. `of`: leave out what `of` takes part in too.
    fn process_load(&mut self, process: u32, at: u32, sign: f64, other: Option<(u32, u32)>) {
        let instance = self.instance;
        for &number in instance.of_process().row(process as usize) {
            self.use_load(number as usize, at as usize, sign);
        }
        for &number in instance.posts_of.row(process as usize) {
            let post = &instance.posts[number as usize];
            // A message between two that are exchanged is counted with the first of them.
            if let Some((other, _)) = other
                && (post.from == other || post.to == other)
                && process > other
            {
                continue;
            }
            let (q, b) = other.unwrap_or((process, at));
            self.post_load(number as usize, sign, Some((process, at, q, b)));
        }
        if instance.objective == Objective::Sum {
            self.touch(0, 0.0);
        }
    }

    fn level(&self, value: f64) -> f64 {
        let x = value / self.scale;
        let (x2, x4) = (x * x, x * x * x * x);
        x4 * x4 + 1e-6 * x2
    }

    /// What the changes collected so far mean for the energy.
    fn difference(&self) -> f64 {
        if self.instance.objective == Objective::Sum {
            return self.change[0];
        }
        let of = |&row: &u32| {
            let (before, change) = (self.row[row as usize], self.change[row as usize]);
            if change == 0.0 { 0.0 } else { self.level(before + change) - self.level(before) }
        };
        self.touched.iter().map(of).sum()
    }

    fn forget(&mut self) {
        for &row in &self.touched {
            self.change[row as usize] = 0.0;
            self.marked[row as usize] = false;
        }
        self.touched.clear();
    }

    fn keep(&mut self) {
        for &row in &self.touched {
            self.row[row as usize] += self.change[row as usize];
            self.change[row as usize] = 0.0;
            self.marked[row as usize] = false;
        }
        self.touched.clear();
    }

    fn energy(&self) -> f64 {
        match self.instance.objective {
            Objective::Sum => self.row[0],
            _ => self.row.iter().map(|&row| self.level(row)).sum(),
        }
    }

    /// The objective as it stands.
    pub fn cost(&self) -> f64 {
        self.row.iter().copied().fold(0.0, f64::max)
    }

    /// Cools once, in `steps` moves; `heat` is the start as a part of the usual one. Gives the best placement seen.
    fn cool(mut self, random: &mut Random, steps: u64, heat: f64, go_on: &mut dyn FnMut() -> bool) -> Placement {
        let mut sizes: Vec<f64> = Vec::new();
        for _ in 0..200 {
            if !go_on() {
                return self.placement();
            }
            if let Some(step) = self.propose(random) {
                let difference = self.try_move(step).abs();
                self.forget();
                if difference > 0.0 {
                    sizes.push(difference);
                }
            }
        }
        if sizes.is_empty() {
            return self.placement();
        }
        sizes.sort_by(f64::total_cmp);
        let start = sizes[sizes.len() / 2] * heat;
        let end = sizes[sizes.len() / 20] * 0.02;
        let factor = (end.min(start * 0.1) / start).powf(1.0 / steps.max(1) as f64);
        let mut temperature = start;
        let mut best = (self.cost(), self.energy(), self.node.clone(), self.copies.clone());
        let mut energy = best.1;
        let mut snapshot = false;
        for step_number in 0..steps {
            // Where one move goes over all links of a large machine, a few dozen take a moment.
            if step_number % 32 == 0 && !go_on() {
                break;
            }
            temperature *= factor;
            let Some(step) = self.propose(random) else { continue };
            let difference = self.try_move(step);
            if difference <= 0.0 || random.unit() < (-difference / temperature).exp() {
                // The best is copied when it is about to be left, not each time it is improved.
                if snapshot && difference > 0.0 {
                    let cost = self.cost();
                    if cost < best.0 || cost == best.0 && energy < best.1 {
                        self.forget();
                        best = (cost, energy, self.node.clone(), self.copies.clone());
                        self.try_move(step);
                    }
                    snapshot = false;
                }
                self.commit(step);
                energy += difference;
                snapshot |= difference < 0.0 && energy < best.1;
            } else {
                self.forget();
            }
        }
        if self.cost() > best.0 {
            return Placement { processes: best.2, segments: best.3.into_iter().map(Home::of).collect() };
        }
        self.placement()
    }

    /// The placement as it stands.
    fn placement(&self) -> Placement {
        Placement {
            processes: self.node.clone(),
            segments: self.copies.iter().map(|copies| Home::of(copies.clone())).collect(),
        }
    }
}
