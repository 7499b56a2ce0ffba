//! Mapping processes onto machines of hundreds and thousands of nodes: as few large groups first, then finer and finer.
//!
//! Processes that exchange most are paired, pairs are paired again, and so on; nodes likewise, neighbours first. Sixty
//! groups on sixty blocks of the machine are arranged well in a moment, and what is near stays near when groups are
//! opened again: then only the places within and around each block are sought. So the arrangement as a whole is right
//! before its details are, which exchanges of single processes never achieve. Sources: B. Hendrickson and R. Leland, "A
//! multilevel algorithm for partitioning graphs", 1995; C. Walshaw and M. Cross, "Multilevel mesh partitioning for
//! heterogeneous communication networks", 2001.

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
const STEPS: u64 = 400;
const HEAT: f64 = 0.35;

/// Exchanges that are tried per process to mend a mapping that is nearly right.
const MENDING_STEPS: u64 = 300;
const MENDING_HEAT: f64 = 0.08;

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
