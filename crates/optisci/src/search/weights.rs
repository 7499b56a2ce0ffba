//! One number for each access, whatever the objective: what the search engines add up.
//!
//! The largest of several loads is at least any weighted mean of them. So for weights of processes (makespan) or links
//! (busiest link) that add up to at most 1, a lower bound on the weighted sum is one on the objective, and everything
//! that is known about sums serves all three objectives. For the sum each process weighs 1.

use super::instance::{Instance, Post, Use};
use crate::model::{Objective, Op};

/// What counts how much, and what limits cost.
#[derive(Clone, Debug)]
pub struct Weights {
    process: Vec<f64>,
    /// Weighted links from each node to each node, per byte; empty unless links count.
    way: Vec<f64>,
    nodes: usize,
    /// Price of a segment slot of each node.
    pub slot: Vec<f64>,
    /// Price of a byte of each node.
    pub byte: Vec<f64>,
}

impl Weights {
    /// Each process counts 1 (sum) or its part (makespan), or each link its part.
    pub fn even(instance: &Instance<'_>) -> Weights {
        let rows = match instance.objective {
            Objective::Sum => 1,
            Objective::Makespan => instance.processes(),
            Objective::MaxLink => instance.model.topology.links(),
        };
        Weights::new(instance, &vec![1.0 / rows.max(1) as f64; rows])
    }

    /// Of rows as they are in a choice: one for the sum, otherwise one per process or per link, adding up to at most 1.
    pub fn new(instance: &Instance<'_>, rows: &[f64]) -> Weights {
        let nodes = instance.nodes;
        let mut weights = Weights {
            process: vec![1.0; instance.processes()],
            way: Vec::new(),
            nodes,
            slot: vec![0.0; nodes],
            byte: vec![0.0; nodes],
        };
        match instance.objective {
            Objective::Sum => {}
            Objective::Makespan => weights.process.copy_from_slice(rows),
            Objective::MaxLink => {
                weights.way = vec![0.0; nodes * nodes];
                for a in 0..nodes {
                    for b in 0..nodes {
                        let way = &mut weights.way[a * nodes + b];
                        instance.model.topology.route(a as u32, b as u32, |link| *way += rows[link]);
                    }
                }
            }
        }
        weights
    }

    /// What accesses count with the process on `a` and the segment on `b`.
    #[inline]
    pub fn of_use(&self, instance: &Instance<'_>, entry: &Use, a: usize, b: usize) -> f64 {
        if self.way.is_empty() {
            return self.process[entry.process as usize] * instance.use_cost(entry, a, b);
        }
        let (from, to) = if entry.op == Op::Read { (b, a) } else { (a, b) };
        entry.bytes * self.way[from * self.nodes + to]
    }

    /// What messages count from a process on `a` to one on `b`.
    #[inline]
    pub fn of_post(&self, instance: &Instance<'_>, post: &Post, a: usize, b: usize) -> f64 {
        if self.way.is_empty() {
            return self.process[post.from as usize] * instance.post_cost(post, a, b);
        }
        post.bytes * self.way[a * self.nodes + b]
    }

    /// Whether all that counts is a whole number.
    pub fn are_whole(&self, instance: &Instance<'_>) -> bool {
        instance.objective == Objective::Sum && instance.is_whole()
    }
}
