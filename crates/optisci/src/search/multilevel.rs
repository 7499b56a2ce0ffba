//! Mapping processes onto machines of hundreds and thousands of nodes: as few large groups first, then finer and finer.
//!
//! Processes that exchange most are paired, pairs are paired again, and so on; nodes likewise, neighbours first. Some
//! dozens of groups on as many blocks of the machine are arranged well in a moment, and what is near stays near when
//! groups are opened again: then only the places within and around each block are sought. So the arrangement as a whole
//! is right before its details are, which exchanges of single processes never achieve. Sources: B. Hendrickson and R.
//! Leland, "A multilevel algorithm for partitioning graphs", 1995; C. Walshaw and M. Cross, "Multilevel mesh
//! partitioning for heterogeneous communication networks", 2001.

mod exchange;
mod level;

use exchange::Exchange;
use level::Level;

use super::instance::Instance;
use super::random::Random;

/// Groups are paired until so many are left.
const FEWEST_GROUPS: usize = 48;

/// Exchanges that are tried per group and level, and heat where groups have just been opened, in parts of what an
/// exchange changes in the mean.
const STEPS: u64 = 250;
const HEAT: f64 = 0.12;

/// Exchanges that are tried per process to mend a mapping that is nearly right.
const MENDING_STEPS: u64 = 300;
const MENDING_HEAT: f64 = 0.08;

/// Attempts side by side; fewer where each takes seconds.
const ATTEMPTS: usize = 4;
const ATTEMPTS_ON_LARGE: usize = 2;
const LARGE: usize = 2000;

/// The instance as groups of one process and places of one slot.
pub struct Multilevel<'a> {
    level: Level<'a>,
    processes: usize,
    /// Node of each place.
    node: Vec<u32>,
}

impl<'a> Multilevel<'a> {
    /// `None` where exchanging one for one is not the point: unlimited slots, or no messages.
    pub fn new(instance: &'a Instance<'a>) -> Option<Multilevel<'a>> {
        let processes = instance.processes();
        let order = level::order(instance);
        let places = order.iter().flat_map(|&at| {
            let slots = instance.process_slots[at as usize].min(processes as u64 + 1);
            std::iter::repeat_n(at, slots as usize)
        });
        let node: Vec<u32> = places.take(4 * processes + instance.nodes + 1).collect();
        let fits = node.len() <= 4 * processes + instance.nodes && node.len() >= processes;
        if !fits || instance.posts.is_empty() || processes < 4 {
            return None;
        }
        let level = Level::finest(instance, &node)?;
        Some(Multilevel { level, processes, node })
    }

    /// How many attempts with random numbers of their own are worth their time.
    pub fn attempts(&self) -> usize {
        if self.level.groups() > LARGE { ATTEMPTS_ON_LARGE } else { ATTEMPTS }
    }

    /// Nodes of processes, found from large to small, with `longer` times the usual number of steps.
    pub fn search(&self, random: &mut Random, longer: u64, go_on: &dyn Fn() -> bool) -> Vec<u32> {
        let mut levels = vec![];
        let mut finest = &self.level;
        while finest.groups() > FEWEST_GROUPS {
            levels.push(finest.pair(random));
            finest = levels.last().unwrap_or(&self.level);
        }
        let mut exchange = Exchange::new(finest, finest.some_places(random));
        exchange.cool(random, 4 * longer * STEPS * finest.groups() as u64, 1.0, go_on);
        let mut places = exchange.places();
        for fine in (0..levels.len()).rev() {
            let below = if fine == 0 { &self.level } else { &levels[fine - 1] };
            let mut exchange = Exchange::new(below, levels[fine].open(&places));
            exchange.cool(random, longer * STEPS * below.groups() as u64, HEAT, go_on);
            places = exchange.places();
        }
        self.nodes(&places)
    }

    /// Exchanges processes where that helps, near a mapping that is nearly right.
    pub fn mend(&self, nodes: &[u32], random: &mut Random, longer: u64, go_on: &dyn Fn() -> bool) -> Vec<u32> {
        let mut exchange = Exchange::new(&self.level, self.places(nodes));
        let steps = longer * MENDING_STEPS * self.level.groups() as u64;
        exchange.cool(random, steps, MENDING_HEAT, go_on);
        self.nodes(&exchange.places())
    }

    fn nodes(&self, places: &[u32]) -> Vec<u32> {
        places[..self.processes].iter().map(|&place| self.node[place as usize]).collect()
    }

    /// A place on its node for each process, and what is left for those that are not there.
    fn places(&self, nodes: &[u32]) -> Vec<u32> {
        let most = self.node.iter().copied().max().unwrap_or(0) as usize;
        let mut free: Vec<Vec<u32>> = vec![Vec::new(); most + 1];
        (0..).zip(&self.node).for_each(|(place, &node)| free[node as usize].push(place));
        let mut places: Vec<u32> = nodes.iter().filter_map(|&node| free[node as usize].pop()).collect();
        let mut rest = free.into_iter().flatten();
        places.extend(rest.by_ref());
        places
    }
}

#[cfg(test)]
mod tests {
    use super::Multilevel;
    use crate::model::Objective;
    use crate::search::instance::Instance;
    use crate::search::random::Random;
    use crate::{Model, Placement};

    /// A chain of processes on a torus, some of them pinned, several on a node, and nodes that take none.
    fn chain(dims: &[u32], slots: impl Fn(usize) -> usize, pins: &[(usize, usize)], processes: usize) -> Model {
        let nodes = dims.iter().product::<u32>() as usize;
        let messages: Vec<_> = (1..processes)
            .map(
                |to| serde_json::json!({"from": format!("p{}", to - 1), "to": format!("p{to}"), "count": 3, "size": 1}),
            )
            .collect();
        let mut list: Vec<_> = (0..processes).map(|number| serde_json::json!({"id": format!("p{number}")})).collect();
        pins.iter().for_each(|&(process, node)| list[process]["pin"] = node.into());
        let model = serde_json::json!({
            "topology": {"kind": "torus", "nodes": nodes, "dims": dims},
            "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 2.0},
            "processes": list, "segments": [], "accesses": [], "messages": messages,
            "process_slots": (0..nodes).map(slots).collect::<Vec<_>>(), "objective": "sum",
        });
        Model::from_json(&model.to_string()).unwrap()
    }

    fn check(model: &Model, most: f64) {
        let instance = Instance::new(model, Objective::Sum);
        let multilevel = Multilevel::new(&instance).unwrap();
        let nodes = multilevel.search(&mut Random::new(1), 4, &|| true);
        for nodes in [multilevel.mend(&nodes, &mut Random::new(2), 1, &|| true), nodes] {
            let (cost, obeys) = instance.evaluate(&Placement { processes: nodes, segments: Vec::new() });
            assert!(obeys && cost <= most, "{cost} is more than {most} or breaks limits: {}", model.to_json());
        }
    }

    #[test]
    fn a_chain_stays_together_on_any_machine() {
        // Every link of the chain can be one link of the machine: 6 each. Twice that is nearly right.
        check(&chain(&[16, 16], |_| 1, &[], 256), 2.0 * 6.0 * 255.0);
        check(&chain(&[7, 5, 3], |_| 1, &[], 99), 2.0 * 6.0 * 98.0);
        check(&chain(&[9, 9], |_| 2, &[], 150), 6.0 * 150.0);
        check(&chain(&[13, 11], |at| at % 3, &[], 130), 2.0 * 6.0 * 130.0);
    }

    #[test]
    fn pinned_processes_stay_where_they_are() {
        check(&chain(&[8, 9], |_| 1, &[(0, 71), (1, 70), (40, 3), (41, 60), (71, 0)], 72), 3.0 * 6.0 * 72.0);
        check(&chain(&[5, 5, 3], |at| 1 + at % 2, &[(0, 74), (3, 73), (50, 73), (51, 1)], 100), 3.0 * 6.0 * 100.0);
    }
}
