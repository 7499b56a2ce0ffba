//! Segments that are always best with one of their users, wherever processes go.
//!
//! If what a user saves by having the segment at home is more than all others together could ever save by having it
//! elsewhere, the segment goes where that user goes. The others' accesses then are costs between two processes, and one
//! decision is less to be searched for. On machines where being local matters and distance hardly does, as in the model
//! of SCIPOS, that is so for nearly all segments, and what is left is a quadratic assignment problem.

use super::homes;
use super::instance::{Instance, Use};

/// For each segment the process that it goes with, where that is certain.
pub fn hosts(instance: &Instance<'_>) -> Vec<Option<u32>> {
    let alone = instance.process_slots.iter().all(|&slots| slots <= 1);
    if !alone || !homes::are_separable(instance) || instance.nodes < 2 {
        return vec![None; instance.segments()];
    }
    let free = |segment: usize| instance.segment_pin(segment).is_none() && !instance.may_have_copies(segment);
    (0..instance.segments()).map(|segment| if free(segment) { host(instance, segment) } else { None }).collect()
}

/// What moving the segment may mean for one user; users are on different nodes.
struct Stake {
    process: u32,
    /// Costs from each node to each.
    costs: Vec<f64>,
}

impl Stake {
    fn row(&self, nodes: usize, a: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.costs[a * nodes..][..nodes].iter().copied().enumerate()
    }

    /// The least that the user loses when the segment leaves its node.
    fn least_loss(&self, nodes: usize) -> f64 {
        let loss = |a: usize| {
            let away = self.row(nodes, a).filter(|&(v, _)| v != a).map(|(_, cost)| cost);
            away.fold(f64::INFINITY, f64::min) - self.costs[a * nodes + a]
        };
        (0..nodes).map(loss).fold(f64::INFINITY, f64::min)
    }

    /// The most that the user gains when the segment goes from one other node to another other node, and to its own.
    fn most_gains(&self, nodes: usize) -> (f64, f64) {
        let (mut other, mut own) = (0.0f64, 0.0f64);
        for a in 0..nodes {
            let away = self.row(nodes, a).filter(|&(v, _)| v != a).map(|(_, cost)| cost);
            let (least, most) = away.fold((f64::INFINITY, 0.0f64), |(x, y), cost| (x.min(cost), y.max(cost)));
            other = other.max(most - least);
            own = own.max(most - self.costs[a * nodes + a]);
        }
        (other, own)
    }
}

fn host(instance: &Instance<'_>, segment: usize) -> Option<u32> {
    let nodes = instance.nodes;
    let mut stakes: Vec<Stake> = Vec::new();
    for entry in instance.uses_of(segment) {
        add(instance, entry, &mut stakes);
    }
    let losses: Vec<f64> = stakes.iter().map(|stake| stake.least_loss(nodes)).collect();
    let best = (0..stakes.len()).max_by(|&x, &y| losses[x].total_cmp(&losses[y]).then(y.cmp(&x)))?;
    let (mut gain, mut extra) = (0.0, 0.0f64);
    for (_, stake) in stakes.iter().enumerate().filter(|(index, _)| *index != best) {
        let (other, own) = stake.most_gains(nodes);
        gain += other;
        // At most one of them is where the segment goes to.
        extra = extra.max(own - other);
    }
    (losses[best] > (gain + extra) * (1.0 + 1e-9)).then_some(stakes[best].process)
}

fn add(instance: &Instance<'_>, entry: &Use, stakes: &mut Vec<Stake>) {
    let nodes = instance.nodes;
    let at = stakes.iter().position(|stake| stake.process == entry.process).unwrap_or_else(|| {
        stakes.push(Stake { process: entry.process, costs: vec![0.0; nodes * nodes] });
        stakes.len() - 1
    });
    for (a, row) in stakes[at].costs.chunks_exact_mut(nodes).enumerate() {
        instance.add_uses(entry, a, row);
    }
}

#[cfg(test)]
mod tests {
    use super::hosts;
    use crate::model::Objective;
    use crate::search::instance::Instance;
    use crate::table1::SCHEDULER;

    #[test]
    fn queues_of_the_paper_go_with_a_reader_once_one_reads_more() {
        let mut model = crate::Model::from_json(SCHEDULER).unwrap();
        // Both masters read as much: neither is certain.
        assert_eq!(hosts(&Instance::new(&model, Objective::Sum)), [None; 3]);
        model.accesses.iter_mut().filter(|access| access.process == 1).for_each(|access| access.count *= 2);
        assert_eq!(hosts(&Instance::new(&model, Objective::Sum)), [Some(1); 3]);
        model.process_slots = None;
        assert_eq!(hosts(&Instance::new(&model, Objective::Sum)), [None; 3]);
    }
}
