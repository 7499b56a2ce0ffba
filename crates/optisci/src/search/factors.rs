//! Processes and segments together, on machines whose costs have no structure: branch and bound over processes, where
//! each segment is one cost of all its users.
//!
//! Wherever the users of a segment are, the segment goes where that is cheapest for them together. So it is a table: an
//! entry for each way to put its users on nodes, the segment's node no longer in it. Such tables know that two users
//! cannot be on one node, which pairs of process and segment ([`super::dual_ascent`]) know less well. Tables that share
//! processes are held together by prices ([`problem::Problem`]). With every process that gets a node the tables lose a
//! dimension, and fall into each other; so the bounds get better the deeper the search is, and cheaper.
//!
//! Sources: A. Globerson and T. Jaakkola, "Fixing max-product: convergent message passing algorithms for MAP
//! LP-relaxations", 2007; P. Swoboda et al., "A study of Lagrangean decompositions and dual ascent solvers for graph
//! matching", 2017; A. Land and A. Doig 1960.

mod factor;
mod problem;

use problem::{Problem, Scratch};

use super::homes;
use super::instance::Instance;
use super::pairs::Pairs;
use super::parallel;
use super::rounding::Rounding;
use super::symmetry::Symmetry;
use super::watch::Watch;
use super::weights::Weights;
use crate::Placement;

/// Entries of all tables together up to which they are made; eight bytes each.
const MOST_ENTRIES: usize = 8_000_000;

/// Rounds of prices before the first process gets a node.
const ROOT_ROUNDS: usize = 12;

/// Rounds of prices at most below.
const ROUNDS: usize = 6;

/// A round more is worth its time if so many like the last one would show that there is nothing to find.
const PATIENCE: f64 = 3.0;

/// Whether this search is made for the instance.
pub fn suits(instance: &Instance<'_>) -> bool {
    let free = |process: &usize| instance.process_pin(*process).is_none();
    let mut entries = 0usize;
    let mut users: Vec<u32> = Vec::new();
    for segment in 0..instance.segments() {
        users.clear();
        users
            .extend(instance.uses_of(segment).iter().map(|entry| entry.process).filter(|&user| free(&(user as usize))));
        users.sort_unstable();
        users.dedup();
        entries = entries.saturating_add(instance.nodes.saturating_pow(users.len() as u32));
    }
    entries = entries.saturating_add(instance.posts.len() * instance.nodes * instance.nodes);
    homes::are_separable(instance)
        && !(0..instance.segments()).any(|segment| instance.may_have_copies(segment))
        && (2..=20).contains(&(0..instance.processes()).filter(free).count())
        && entries <= MOST_ENTRIES
}

/// What is the same for every part of the search.
struct Ground<'a> {
    instance: &'a Instance<'a>,
    symmetry: &'a Symmetry,
    rounding: Rounding,
}

/// A part of the search.
struct Search<'g, 'a> {
    ground: &'g Ground<'a>,
    go_on: &'g dyn Fn() -> bool,
    best: f64,
    enough: f64,
    found: Option<Placement>,
    /// A bound on what was left out.
    open: f64,
    work: u64,
    most_work: u64,
    scratch: Scratch,
}

/// Searches until everything was seen, the watch says stop or about `most_work` entries were looked at. Offers what it
/// finds, and raises the watch's bound.
pub fn search(instance: &Instance<'_>, watch: &mut Watch<'_>, symmetry: &Symmetry, most_work: u64) {
    let pairs = Pairs::new(instance, &Weights::even(instance), watch.cost());
    let ground = Ground { instance, symmetry, rounding: pairs.rounding };
    let (mut open, mut work) = (f64::INFINITY, 0);
    let mut children = Vec::new();
    let mut root = Problem::new(&pairs);
    if let Some(root) = &mut root {
        let mut top = Search::new(&ground, &|| true, watch.cost(), u64::MAX);
        if top.raise(root, ROOT_ROUNDS) {
            children = top.children(root);
        }
    }
    for &(process, at, bound) in &children {
        // What is left begins with this one: the most promising come first.
        let enough = ground.rounding.enough(watch.cost());
        watch.raise(instance, ground.rounding.bound(bound.min(open)).min(watch.cost()));
        if bound >= enough {
            break;
        }
        if work >= most_work || !watch.go_on() {
            open = open.min(bound);
            continue;
        }
        let Some(mut first) = root.as_ref().map(|root| root.with(process, at, bound)) else { break };
        let best = watch.cost();
        let mut top = Search::new(&ground, &|| true, best, u64::MAX);
        let mut tasks = Vec::new();
        if top.raise(&mut first, ROUNDS) {
            match first.is_complete() {
                true => top.finish(&first),
                false => tasks = top.children(&first),
            }
        }
        let most = (most_work - work) / tasks.len().max(1) as u64;
        let results = parallel::each(tasks.len(), &mut || watch.go_on(), |index, go_on| {
            let (process, at, bound) = tasks[index];
            let mut search = Search::new(&ground, go_on, best, most);
            search.explore(first.with(process, at, bound));
            (search.found, search.open, search.work)
        });
        for (found, left, done) in results.into_iter().chain([(top.found, top.open, top.work)]) {
            found.into_iter().for_each(|placement| _ = watch.offer(instance, placement));
            open = open.min(left);
            work += done;
        }
    }
    watch.raise(instance, ground.rounding.bound(open).min(watch.cost()));
}

impl<'g, 'a> Search<'g, 'a> {
    fn new(ground: &'g Ground<'a>, go_on: &'g dyn Fn() -> bool, best: f64, most_work: u64) -> Search<'g, 'a> {
        let enough = ground.rounding.enough(best);
        let scratch = Scratch::default();
        Search { ground, go_on, best, enough, found: None, open: f64::INFINITY, work: 0, most_work, scratch }
    }

    /// Raises the bound of a problem. False: there is nothing to find in it.
    fn raise(&mut self, problem: &mut Problem, rounds: usize) -> bool {
        for round in 0..rounds {
            let before = problem.bound;
            self.work += problem.entries() as u64;
            if !problem.raise(self.enough, round % 2 == 1, &mut self.scratch) || problem.bound >= self.enough {
                return false;
            }
            let (gain, missing) = (problem.bound - before, self.enough - problem.bound);
            let root = rounds == ROOT_ROUNDS;
            if problem.is_complete() || round + 1 == rounds || !root && missing > PATIENCE * gain {
                break;
            }
            problem.spread(&mut self.scratch);
        }
        true
    }

    fn explore(&mut self, mut problem: Problem) {
        if problem.bound >= self.enough {
            return;
        }
        if self.work > self.most_work || !(self.go_on)() {
            self.open = self.open.min(problem.bound);
            return;
        }
        if !self.raise(&mut problem, ROUNDS) {
            return;
        }
        if problem.is_complete() {
            self.finish(&problem);
            return;
        }
        for (process, at, bound) in self.children(&problem) {
            if bound >= self.enough {
                break;
            }
            self.explore(problem.with(process, at, bound));
        }
    }

    /// All processes have nodes.
    fn finish(&mut self, problem: &Problem) {
        // Only copies may take long, and here are none.
        let (placement, _) = homes::separate(self.ground.instance, &problem.node, &mut || true);
        let (cost, _) = self.ground.instance.evaluate(&placement);
        if cost < self.best {
            self.best = cost;
            self.enough = self.ground.rounding.enough(cost);
            self.found = Some(placement);
        }
    }

    /// The process with the fewest nodes worth trying, each with a bound on what is below, the most promising first. Of
    /// nodes that a symmetry turns into each other one is tried.
    fn children(&self, problem: &Problem) -> Vec<(usize, usize, f64)> {
        let slack = self.enough - problem.bound;
        let mut best = (usize::MAX, 0.0, 0);
        for (process, own) in problem.own.chunks_exact(problem.open.len()).enumerate() {
            let worth = own.iter().filter(|&&cost| cost < slack).count();
            let weight: f64 = own.iter().map(|cost| cost.min(slack)).sum();
            if worth < best.0 || worth == best.0 && weight > best.1 {
                best = (worth, weight, process);
            }
        }
        let process = best.2;
        let used: Vec<bool> = (0..self.ground.instance.nodes as u32).map(|at| problem.node.contains(&at)).collect();
        let orbit = self.ground.symmetry.orbits(&used);
        let own = &problem.own[process * problem.open.len()..][..problem.open.len()];
        let first = |at: &usize| orbit[problem.open[*at] as usize] == problem.open[*at];
        let worth = (0..problem.open.len()).filter(|&at| own[at] < slack).filter(first);
        let mut children: Vec<_> = worth.map(|at| (process, at, problem.bound + own[at])).collect();
        children.sort_by(|x, y| x.2.total_cmp(&y.2).then(x.1.cmp(&y.1)));
        children
    }
}
