//! Tables that differ by a factor and a start, nearly: one order of distances serves them all.

use crate::search::instance::Instance;

/// Tables are one class if a factor and a start turn one into the other but for this part of what differs in them.
const ALIKE: f64 = 0.02;

/// Distances that several tables have in common: `table >= start[v] + factor * base` wherever the process is.
pub struct Class {
    /// Rows: the process's node first.
    pub base: Vec<f64>,
    /// For each node of a segment, nodes of processes, the nearest first.
    pub near: Vec<Vec<u32>>,
}

/// How a table belongs to a class.
pub struct Member {
    /// The class.
    pub class: usize,
    /// What its distances are multiplied with.
    pub factor: f64,
    /// What is added, by the segment's node; nothing if that is nothing everywhere.
    pub start: Vec<f64>,
}

/// Puts tables that differ by a factor and a start, nearly, into one class.
pub fn classify(instance: &Instance<'_>) -> (Vec<Class>, Vec<Member>) {
    let nodes = instance.nodes;
    let mut classes: Vec<Class> = Vec::new();
    let mut members = Vec::new();
    for table in &instance.tables {
        let costs: Vec<f64> = (0..nodes * nodes).map(|at| table.at(at / nodes, at % nodes)).collect();
        let fits = classes.iter().enumerate().find_map(|(class, Class { base, .. })| {
            let factor = slope(base, &costs);
            let rest = |a: usize, v: usize| costs[a * nodes + v] - factor * base[a * nodes + v];
            let start: Vec<f64> =
                (0..nodes).map(|v| (0..nodes).map(|a| rest(a, v)).fold(f64::INFINITY, f64::min)).collect();
            let lost: f64 = (0..nodes * nodes).map(|at| rest(at / nodes, at % nodes) - start[at % nodes]).sum();
            let spread: f64 = costs.iter().sum::<f64>()
                - (0..nodes)
                    .map(|v| (0..nodes).map(|a| costs[a * nodes + v]).fold(f64::INFINITY, f64::min))
                    .sum::<f64>()
                    * nodes as f64;
            (factor > 0.0 && lost <= ALIKE * spread).then_some(Member { class, factor, start })
        });
        let member = fits.unwrap_or_else(|| {
            let near = (0..nodes).map(|v| {
                let mut order: Vec<u32> = (0..nodes as u32).collect();
                order.sort_by(|&x, &y| {
                    costs[x as usize * nodes + v].total_cmp(&costs[y as usize * nodes + v]).then(x.cmp(&y))
                });
                order
            });
            let near = near.collect();
            classes.push(Class { base: costs, near });
            Member { class: classes.len() - 1, factor: 1.0, start: Vec::new() }
        });
        members.push(member);
    }
    (classes, members)
}

/// The factor that turns `base` best into `costs`, but for a start: their covariance over the variance.
fn slope(base: &[f64], costs: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (middle, centre) = (mean(base), mean(costs));
    let joint: f64 = base.iter().zip(costs).map(|(x, y)| (x - middle) * (y - centre)).sum();
    let own: f64 = base.iter().map(|x| (x - middle) * (x - middle)).sum();
    if own > 0.0 { joint / own } else { 0.0 }
}
