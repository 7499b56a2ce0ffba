//! The best homes of all segments once the nodes of all processes are given: for every objective and limit.
//!
//! What is searched for is cheaper than what is known. A home that by itself costs more is left out beforehand: costs
//! are rounded to parts of all that is left, and beside a cost that stands for *never* everything else would be alike.

use super::choice::{Choice, Chooser, Prices};
use super::instance::Instance;
use super::rounding::{RELATIVE, Rounding};
use super::separable;
use super::watch::Watch;
use crate::Placement;
use crate::model::{Objective, Op};
use crate::placement::Home;

/// Homes that a search may choose from are listed as long as there are at most this many.
const MOST_OPTIONS: usize = 200_000;

/// Machines up to this size have all sets of copies listed.
const MOST_NODES_IN_SETS: usize = 10;

/// The segments that remain, as a choice, and how its numbers were rounded.
pub struct Rest {
    /// The choice.
    pub choice: Choice,
    /// Its rounding.
    pub rounding: Rounding,
}

impl Rest {
    /// The choice of homes with processes on these nodes that could cost less than `known`; `None` when there would be
    /// too many to list.
    pub fn new(instance: &Instance<'_>, node: &[u32], known: f64) -> Option<Rest> {
        Rest::among(instance, node, known, |_| (0..instance.nodes as u32).collect())
    }

    /// As [`new`](Rest::new), where segments of one copy may only be on the nodes that `among` gives.
    pub fn among(instance: &Instance<'_>, node: &[u32], known: f64, among: impl Fn(usize) -> Vec<u32>) -> Option<Rest> {
        let nodes = instance.nodes;
        let sets = |segment: usize| match instance.may_have_copies(segment) {
            true if nodes <= MOST_NODES_IN_SETS => Some((1usize << nodes) - 1),
            true => None,
            false => Some(if instance.segment_pin(segment).is_some() { 1 } else { among(segment).len() }),
        };
        let options = (0..instance.segments()).try_fold(0, |sum, segment| Some(sum + sets(segment)?))?;
        if options > MOST_OPTIONS {
            return None;
        }
        let rows = match instance.objective {
            Objective::Sum => 1,
            Objective::Makespan => instance.processes(),
            Objective::MaxLink => instance.model.topology.links(),
        };
        let mut base = vec![0.0; rows.max(1)];
        for post in &instance.posts {
            let (a, b) = (node[post.from as usize] as usize, node[post.to as usize] as usize);
            match instance.objective {
                Objective::Sum => base[0] += instance.post_cost(post, a, b),
                Objective::Makespan => base[post.from as usize] += instance.post_cost(post, a, b),
                Objective::MaxLink => {
                    instance.model.topology.route(a as u32, b as u32, |link| base[link] += post.bytes);
                }
            }
        }
        let mut choice = Choice::new(base, instance.segment_slots.clone(), instance.memory.clone());
        let mut adds = Vec::new();
        let mut total = choice.base.iter().sum::<f64>();
        for segment in 0..instance.segments() {
            let bytes = instance.model.segments[segment].bytes;
            let mut most = 0.0f64;
            let mut option = |copies: &[u32], choice: &mut Choice| {
                let room =
                    |&&at: &&u32| instance.memory[at as usize] >= bytes && instance.segment_slots[at as usize] > 0;
                if copies.iter().filter(room).count() < copies.len() {
                    return;
                }
                loads(instance, segment, copies, node, &mut adds);
                let largest = adds.iter().map(|&(_, add)| add).fold(0.0, f64::max);
                if largest > known * (1.0 + RELATIVE) {
                    return;
                }
                most = most.max(largest);
                choice.option(copies, adds.iter().copied());
            };
            match (instance.segment_pin(segment), instance.may_have_copies(segment)) {
                (Some(pin), _) => option(&[pin as u32], &mut choice),
                (None, false) => among(segment).into_iter().for_each(|at| option(&[at], &mut choice)),
                (None, true) => {
                    for set in 1u32..1 << nodes {
                        let copies: Vec<u32> = (0..nodes as u32).filter(|at| set >> at & 1 == 1).collect();
                        option(&copies, &mut choice);
                    }
                }
            }
            choice.item(bytes);
            total += most;
        }
        let whole =
            choice.adds.iter().map(|&(_, add)| add).chain(choice.base.iter().copied()).all(|x| x.fract() == 0.0);
        let rounding = Rounding::new(total, instance.segments() + 1, whole);
        choice.adds.iter_mut().for_each(|(_, add)| *add = rounding.whole(*add));
        choice.base.iter_mut().for_each(|base| *base = rounding.whole(*base));
        Some(Rest { choice, rounding })
    }

    /// Where everything is if these options are chosen.
    fn placement(&self, node: &[u32], chosen: &[u32]) -> Placement {
        let home = |&option: &u32| Home::of(self.choice.nodes_of(option as usize).to_vec());
        Placement { processes: node.to_vec(), segments: chosen.iter().map(home).collect() }
    }

    /// What HiGHS makes of it: as [`solve`](Rest::solve), for at most `time`; and whether it is through.
    #[cfg(feature = "highs")]
    pub fn solve_by_highs(
        &self,
        node: &[u32],
        expected: f64,
        time: std::time::Duration,
    ) -> (Option<Placement>, f64, bool) {
        let solved = super::mixed_integer::solve(&self.choice, self.rounding.enough(expected), time);
        let placement = solved.chosen.map(|chosen| self.placement(node, &chosen));
        (placement, self.rounding.bound(solved.bound), solved.finished)
    }

    /// Weights of rows and prices of limits towards a cost that is hoped for, in ns or bytes, and the bound they give.
    pub fn prices(&self, target: f64, steps: usize) -> (Prices, f64) {
        let (prices, bound) = self.choice.prices(self.rounding.enough(target), steps);
        (prices, self.rounding.bound(bound))
    }

    /// Homes of less than `enough`, the best there are but for rounding, as a placement, and what all homes of less
    /// than `enough` cost at least: infinite if there are none.
    pub fn solve(
        &self,
        node: &[u32],
        enough: f64,
        steps: usize,
        most_visits: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> (Option<Placement>, f64) {
        let target = self.rounding.enough(enough);
        let (prices, bound) = self.choice.prices(target, steps);
        if bound >= target {
            return (None, f64::INFINITY);
        }
        let (found, open) = Chooser::solve(&self.choice, &prices, target, most_visits, go_on);
        // Others may be as cheap in whole numbers, and cheaper by what was rounded off.
        let least = found.as_ref().map_or(f64::INFINITY, |(cost, _)| *cost);
        let placement = found.map(|(_, chosen)| self.placement(node, &chosen));
        (placement, self.rounding.bound(open.max(bound).min(least)))
    }
}

/// Offers the best homes that cost less than what is known, if there are any. Gives the last choice that was looked at,
/// and what homes that are still cheaper cost at least: infinite if there are none. `below` makes the choice for a
/// cost.
pub fn search(
    instance: &Instance<'_>,
    watch: &mut Watch<'_>,
    node: &[u32],
    (steps, most_visits): (usize, u64),
    below: impl Fn(f64) -> Option<Rest>,
) -> Option<(Rest, f64)> {
    loop {
        let rest = below(watch.cost())?;
        let (placement, least) = rest.solve(node, watch.cost(), steps, most_visits, &mut || watch.go_on());
        let better = placement.is_some_and(|placement| watch.offer(instance, placement));
        // Beside a cost that was far too high, the costs of good homes were rounded to the same numbers. Now it is
        // lower.
        if !better || rest.rounding.tells_apart(watch.cost()) {
            return Some((rest, least));
        }
    }
}

/// What a home of one segment adds to the rows.
fn loads(instance: &Instance<'_>, segment: usize, copies: &[u32], node: &[u32], adds: &mut Vec<(u32, f64)>) {
    adds.clear();
    let mut add = |row: u32, amount: f64| {
        if amount != 0.0 {
            match adds.iter_mut().find(|(other, _)| *other == row) {
                Some((_, sum)) => *sum += amount,
                None => adds.push((row, amount)),
            }
        }
    };
    for entry in instance.uses_of(segment) {
        let a = node[entry.process as usize] as usize;
        let mut pay = |v: usize, cost: f64| match instance.objective {
            Objective::Sum => add(0, cost),
            Objective::Makespan => add(entry.process, cost),
            Objective::MaxLink => instance.use_route(entry, a, v, |link| add(link as u32, entry.bytes)),
        };
        match entry.op {
            Op::Write => copies.iter().for_each(|&v| pay(v as usize, instance.use_cost(entry, a, v as usize))),
            Op::Read => {
                let v = instance.nearest(entry, copies, a);
                pay(v, instance.use_cost(entry, a, v));
            }
        }
    }
}

/// Whether the best homes are found segment by segment.
pub fn are_separable(instance: &Instance<'_>) -> bool {
    instance.objective == Objective::Sum && !instance.limits_segments()
}

/// The best placement with processes on these nodes, where segments do not hinder each other, and a bound on its cost.
/// When `go_on` says no, it may not be the best.
pub fn separate(instance: &Instance<'_>, node: &[u32], go_on: &mut dyn FnMut() -> bool) -> (Placement, f64) {
    let (homes, _, bound) = separable::homes(instance, node, go_on);
    let posts = instance
        .posts
        .iter()
        .map(|post| instance.post_cost(post, node[post.from as usize] as usize, node[post.to as usize] as usize));
    let bound = bound + posts.sum::<f64>();
    (Placement { processes: node.to_vec(), segments: homes }, bound)
}
