//! Dense mappings of processes onto nodes, one to each: robust tabu search.
//!
//! Every exchange of two processes has its difference in a table; after an exchange the other entries change by a product
//! of flows and distances, so that a step costs about as many operations as there are pairs. What was just left must not
//! come back for a random while, unless it gives the best so far or was away for very long. Sources: E. Taillard, "Robust
//! taboo search for the quadratic assignment problem", 1991; R. Burkard and F. Rendl 1984 for the differences.

use super::instance::Instance;
use super::random::Random;

/// Machines up to this size: the table has a square of that.
const MOST_NODES: usize = 160;

/// Flows and distances; flow 0 for processes that are only there to hold a node.
pub struct Quadratic {
    nodes: usize,
    classes: Vec<(Vec<f64>, Vec<f64>)>,
    movable: Vec<bool>,
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
            let cost = |at: usize| if at / nodes == at % nodes { 0.0 } else { table.at(at / nodes, at % nodes) };
            (flow, (0..nodes * nodes).map(cost).collect())
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
        let pairs = |flow: &[f64], distance: &[f64]| -> f64 {
            (0..n * n).map(|at| flow[at] * distance[node[at / n] as usize * n + node[at % n] as usize]).sum()
        };
        self.classes.iter().map(|(flow, distance)| pairs(flow, distance)).sum::<f64>()
    }

    fn difference(&self, node: &[u32], r: usize, s: usize) -> f64 {
        let n = self.nodes;
        let (a, b) = (node[r] as usize, node[s] as usize);
        let mut sum = 0.0;
        for (f, d) in &self.classes {
            sum += f[r * n + r] * (d[b * n + b] - d[a * n + a])
                + f[r * n + s] * (d[b * n + a] - d[a * n + b])
                + f[s * n + r] * (d[a * n + b] - d[b * n + a])
                + f[s * n + s] * (d[a * n + a] - d[b * n + b]);
            for k in (0..n).filter(|&k| k != r && k != s) {
                let c = node[k] as usize;
                sum += (f[k * n + r] - f[k * n + s]) * (d[c * n + b] - d[c * n + a])
                    + (f[r * n + k] - f[s * n + k]) * (d[b * n + c] - d[a * n + c]);
            }
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
        let mut differences = vec![0.0; n * n];
        let movable: Vec<usize> = (0..n).filter(|&process| self.movable[process]).collect();
        for (at, &u) in movable.iter().enumerate() {
            for &v in &movable[at + 1..] {
                differences[u * n + v] = self.difference(&node, u, v);
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
            cost += difference;
            if cost < best.0 * (1.0 - 1e-12) {
                best = (cost, node.clone());
            }
            self.update(&node, &movable, r, s, &mut differences);
        }
        (best.0, best.1)
    }

    /// Differences after `r` and `s` were exchanged.
    fn update(&self, node: &[u32], movable: &[usize], r: usize, s: usize, differences: &mut [f64]) {
        let n = self.nodes;
        for (at, &u) in movable.iter().enumerate() {
            for &v in &movable[at + 1..] {
                if u == r || u == s || v == r || v == s {
                    differences[u * n + v] = self.difference(node, u, v);
                }
            }
        }
        let (pr, ps) = (node[r] as usize, node[s] as usize);
        for (f, d) in &self.classes {
            let (fr, fs) = (&f[r * n..][..n], &f[s * n..][..n]);
            let (dr, ds) = (&d[pr * n..][..n], &d[ps * n..][..n]);
            for (at, &u) in movable.iter().enumerate() {
                if u == r || u == s {
                    continue;
                }
                let pu = node[u] as usize;
                let (flow_to, flow_from) = (fr[u] - fs[u], f[u * n + r] - f[u * n + s]);
                let (way_to, way_from) = (ds[pu] - dr[pu], d[pu * n + ps] - d[pu * n + pr]);
                for &v in &movable[at + 1..] {
                    if v == r || v == s {
                        continue;
                    }
                    let pv = node[v] as usize;
                    differences[u * n + v] += (flow_to - fr[v] + fs[v]) * (way_to + dr[pv] - ds[pv])
                        + (flow_from - f[v * n + r] + f[v * n + s]) * (way_from + d[pv * n + pr] - d[pv * n + ps]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Quadratic;
    use crate::search::random::Random;

    #[test]
    fn differences_that_are_kept_up_lead_to_the_cost_that_is_computed_anew() {
        let mut random = Random::new(3);
        let n = 9;
        let mut square = || (0..n * n).map(|_| random.below(20) as f64).collect::<Vec<f64>>();
        let classes = vec![(square(), square()), (square(), square())];
        let quadratic = Quadratic { nodes: n, classes, movable: vec![true; n] };
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let start = quadratic.shuffled(&[], &mut random);
            let (cost, node) = quadratic.search(start, &mut random, 300, &|| true);
            assert_eq!(cost, quadratic.cost(&node));
        }
    }
}
