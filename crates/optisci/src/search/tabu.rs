//! Dense mappings of processes onto nodes, one to each: robust tabu search.
//!
//! Every exchange of two processes has its difference in a table; after an exchange the other entries change by a
//! product of flows and distances, so that a step costs about as many operations as there are pairs. What was just left
//! must not come back for a random while, unless it gives the best so far or was away for very long. Sources: E.
//! Taillard, "Robust taboo search for the quadratic assignment problem", 1991; R. Burkard and F. Rendl 1984 for the
//! differences.

use super::instance::Instance;
use super::random::Random;

/// Machines up to this size: the table has a square of that.
const MOST_NODES: usize = 160;

/// Flows and distances; flow 0 for processes that are only there to hold a node.
pub struct Quadratic {
    nodes: usize,
    classes: Vec<Class>,
    movable: Vec<bool>,
}

struct Class {
    flow: Square,
    distance: Square,
    /// Both are the same from either side.
    symmetric: bool,
}

/// A square of numbers by rows and by columns, each padded with zeros to whole groups of [`LANES`].
#[derive(Clone)]
struct Square {
    width: usize,
    rows: Vec<f64>,
    columns: Vec<f64>,
}

/// Numbers that a processor adds at once.
const LANES: usize = 4;

impl Square {
    fn new(nodes: usize, entry: impl Fn(usize, usize) -> f64) -> Square {
        let width = nodes.next_multiple_of(LANES);
        let mut square = Square { width, rows: vec![0.0; nodes * width], columns: vec![0.0; nodes * width] };
        for row in 0..nodes {
            for column in 0..nodes {
                square.rows[row * width + column] = entry(row, column);
                square.columns[column * width + row] = entry(row, column);
            }
        }
        square
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.rows[row * self.width + column]
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.rows[row * self.width..][..self.width]
    }

    fn column(&self, column: usize) -> &[f64] {
        &self.columns[column * self.width..][..self.width]
    }

    /// Exchanges two rows and the two columns of the same numbers.
    fn exchange(&mut self, r: usize, s: usize) {
        let width = self.width;
        for lines in [&mut self.rows, &mut self.columns] {
            (0..width).for_each(|at| lines.swap(r * width + at, s * width + at));
            lines.chunks_exact_mut(width).for_each(|line| line.swap(r, s));
        }
    }
}

impl Class {
    fn new(flow: Square, distance: Square) -> Class {
        let symmetric = [&flow, &distance].iter().all(|square| square.rows == square.columns);
        Class { flow, distance, symmetric }
    }
}

/// The sum of `(x[k] - y[k]) * (v[k] - u[k])`.
fn product(x: &[f64], y: &[f64], u: &[f64], v: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let groups = |line| <[f64]>::chunks_exact(line, LANES);
    for ((x, y), (u, v)) in groups(x).zip(groups(y)).zip(groups(u).zip(groups(v))) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum += (x[lane] - y[lane]) * (v[lane] - u[lane]);
        }
    }
    sums.iter().sum()
}

impl Quadratic {
    /// The model, if it is of this kind: messages only, one process per node.
    pub fn new(instance: &Instance<'_>) -> Option<Quadratic> {
        let (nodes, processes) = (instance.nodes, instance.processes());
        let plain = instance.uses.is_empty()
            && (2..=MOST_NODES).contains(&nodes)
            && instance.process_slots.iter().all(|&slots| slots == 1)
            && instance.objective == crate::model::Objective::Sum;
        if !plain || processes > nodes {
            return None;
        }
        let mut numbers: Vec<u32> = instance
            .posts
            .iter()
            .flat_map(|post| [post.first, post.second])
            .filter(|part| part.1 != 0.0)
            .map(|part| part.0)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.is_empty() || numbers.len() > 4 {
            return None;
        }
        let classes = numbers.iter().map(|&number| {
            let mut flow = vec![0.0; nodes * nodes];
            for post in &instance.posts {
                for (table, factor) in [post.first, post.second] {
                    if table == number {
                        flow[post.from as usize * nodes + post.to as usize] += factor;
                    }
                }
            }
            let table = &instance.tables[number as usize];
            let cost = |a: usize, b: usize| if a == b { 0.0 } else { table.at(a, b) };
            Class::new(Square::new(nodes, |from, to| flow[from * nodes + to]), Square::new(nodes, cost))
        });
        let classes = classes.collect();
        let movable =
            (0..nodes).map(|process| process >= processes || instance.process_pin(process).is_none()).collect();
        Some(Quadratic { nodes, classes, movable })
    }

    /// Nodes for all `nodes` places, processes first, the rest in any order.
    pub fn complete(&self, node: &[u32]) -> Vec<u32> {
        let mut all = node.to_vec();
        all.extend((0..self.nodes as u32).filter(|at| !node.contains(at)));
        all
    }

    /// A random start that keeps pins.
    pub fn shuffled(&self, node: &[u32], random: &mut Random) -> Vec<u32> {
        let mut all = self.complete(node);
        let movable: Vec<usize> = (0..self.nodes).filter(|&process| self.movable[process]).collect();
        let mut nodes: Vec<u32> = movable.iter().map(|&process| all[process]).collect();
        random.shuffle(&mut nodes);
        movable.iter().zip(nodes).for_each(|(&process, node)| all[process] = node);
        all
    }

    fn cost(&self, node: &[u32]) -> f64 {
        let n = self.nodes;
        let pairs = |class: &Class| -> f64 {
            let pair = |at: usize| {
                let (from, to) = (at / n, at % n);
                class.flow.at(from, to) * class.distance.at(node[from] as usize, node[to] as usize)
            };
            (0..n * n).map(pair).sum()
        };
        self.classes.iter().map(pairs).sum::<f64>()
    }

    /// What it changes if `r` and `s` exchange their nodes; `ways` are the distances between processes.
    fn difference(&self, ways: &[Square], r: usize, s: usize) -> f64 {
        let mut sum = 0.0;
        for (Class { flow: f, symmetric, .. }, w) in self.classes.iter().zip(ways) {
            let rows = product(f.row(r), f.row(s), w.row(r), w.row(s));
            sum += rows;
            sum += if *symmetric { rows } else { product(f.column(r), f.column(s), w.column(r), w.column(s)) };
            // With each other the two are not as with all others.
            for k in [r, s] {
                sum -= (f.at(r, k) - f.at(s, k)) * (w.at(s, k) - w.at(r, k))
                    + (f.at(k, r) - f.at(k, s)) * (w.at(k, s) - w.at(k, r));
            }
            sum += (f.at(r, r) - f.at(s, s)) * (w.at(s, s) - w.at(r, r))
                + (f.at(r, s) - f.at(s, r)) * (w.at(s, r) - w.at(r, s));
        }
        sum
    }

    /// Searches from `node` for `steps` steps; the best nodes seen and their cost.
    pub fn search(
        &self,
        mut node: Vec<u32>,
        random: &mut Random,
        steps: u64,
        go_on: &dyn Fn() -> bool,
    ) -> (f64, Vec<u32>) {
        let n = self.nodes;
        let mut cost = self.cost(&node);
        let mut best = (cost, node.clone());
        let between =
            |class: &Class| Square::new(n, |from, to| class.distance.at(node[from] as usize, node[to] as usize));
        let mut ways: Vec<Square> = self.classes.iter().map(between).collect();
        let mut differences = vec![0.0; n * n];
        let movable: Vec<usize> = (0..n).filter(|&process| self.movable[process]).collect();
        for (at, &u) in movable.iter().enumerate() {
            for &v in &movable[at + 1..] {
                differences[u * n + v] = self.difference(&ways, u, v);
            }
        }
        let mut until = vec![0u64; n * n];
        let aspiration = (8 * n * n) as u64;
        for step in 1..=steps {
            if step % 128 == 0 && !go_on() {
                break;
            }
            let mut chosen = (f64::INFINITY, usize::MAX, usize::MAX, false);
            for (at, &u) in movable.iter().enumerate() {
                for &v in &movable[at + 1..] {
                    let (to_u, to_v) = (until[u * n + node[v] as usize], until[v * n + node[u] as usize]);
                    let free = to_u < step || to_v < step;
                    let difference = differences[u * n + v];
                    let aspired = to_u + aspiration < step && to_v + aspiration < step
                        || cost + difference < best.0 * (1.0 - 1e-12);
                    if (aspired && !chosen.3) || (aspired == chosen.3 && (aspired || free) && difference < chosen.0) {
                        chosen = (difference, u, v, aspired);
                    }
                }
            }
            let (difference, r, s, _) = chosen;
            if r == usize::MAX {
                continue;
            }
            let tenure = |random: &mut Random| (0.9 * n as f64 + 0.2 * n as f64 * random.unit()) as u64 + 1;
            until[r * n + node[r] as usize] = step + tenure(random);
            until[s * n + node[s] as usize] = step + tenure(random);
            node.swap(r, s);
            ways.iter_mut().for_each(|ways| ways.exchange(r, s));
            cost += difference;
            if cost < best.0 * (1.0 - 1e-12) {
                best = (cost, node.clone());
            }
            self.update(&ways, &movable, r, s, &mut differences);
        }
        (best.0, best.1)
    }

    /// Differences after `r` and `s` were exchanged.
    fn update(&self, ways: &[Square], movable: &[usize], r: usize, s: usize, differences: &mut [f64]) {
        let n = self.nodes;
        let less = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<f64>>();
        for (Class { flow, symmetric, .. }, ways) in self.classes.iter().zip(ways) {
            let sides = [
                (less(flow.row(r), flow.row(s)), less(ways.row(s), ways.row(r))),
                (less(flow.column(r), flow.column(s)), less(ways.column(s), ways.column(r))),
            ];
            // Both sides are the same: one of them, twice.
            let (sides, times) = if *symmetric { (&sides[..1], 2.0) } else { (&sides[..], 1.0) };
            for (flows, ways) in sides {
                for &u in movable {
                    let (flow, way) = (flows[u] * times, ways[u]);
                    let line = &mut differences[u * n..][u + 1..n];
                    for (difference, (other, to)) in line.iter_mut().zip(flows[u + 1..].iter().zip(&ways[u + 1..])) {
                        *difference += (flow - times * other) * (way - to);
                    }
                }
            }
        }
        for &other in movable {
            for own in [r, s].into_iter().filter(|&own| own != other) {
                let (u, v) = (own.min(other), own.max(other));
                differences[u * n + v] = self.difference(ways, u, v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Quadratic, Square};
    use crate::search::random::Random;

    #[test]
    fn differences_that_are_kept_up_lead_to_the_cost_that_is_computed_anew() {
        let mut random = Random::new(3);
        let n = 9;
        let mut square = |symmetric: bool| {
            let numbers: Vec<f64> = (0..n * n).map(|_| random.below(20) as f64).collect();
            Square::new(n, |a, b| if symmetric { numbers[a.min(b) * n + a.max(b)] } else { numbers[a * n + b] })
        };
        let classes = [false, true, false].map(|symmetric| Class::new(square(symmetric), square(symmetric)));
        assert_eq!(classes.each_ref().map(|class| class.symmetric), [false, true, false]);
        let quadratic = Quadratic { nodes: n, classes: classes.into(), movable: vec![true; n] };
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let start = quadratic.shuffled(&[], &mut random);
            let (cost, node) = quadratic.search(start, &mut random, 300, &|| true);
            assert_eq!(cost, quadratic.cost(&node));
        }
    }
}
