//! Processes and segments together, where each segment is free to follow its users: a search with a bound of its own.
//!
//! What a segment costs at a node is at least what its placed users pay there, plus what the others would pay if they
//! took the nearest nodes that are still free, the heaviest user the nearest (the rearrangement inequality: G. Hardy,
//! J. Littlewood, G. Pólya, "Inequalities", 1934, theorem 368; used for this purpose by P. Gilmore, "Optimal and
//! suboptimal algorithms for the quadratic assignment problem", 1962). The least of that over all nodes, summed over
//! all segments, is a bound that costs about a microsecond, so that millions of partial assignments can be looked at.
//! It is stronger than [`super::dual_ascent`] per second where accesses dominate and costs are few classes of
//! distances.
//!
//! Where all terms are positive a sum is off by a part of about 1e-13 at most; what is within 1e-12 of the best is not
//! searched for. What else sums may be off by is known beforehand, and the bound that is told is lower by that much.

mod classes;
mod ground;

use ground::{FREE, Ground, Partial};

use super::instance::Instance;
use super::parallel;
use super::rounding::RELATIVE;
use super::symmetry::Symmetry;

/// Pieces of the search that run side by side before they tell each other what they found. A number of its own, not
/// that of the cores, so that the result does not depend on them.
const ROUND: usize = 16;

/// Classes of distances up to which the bound is worth its time.
const MOST_CLASSES: usize = 4;

/// What was found below something.
struct Found {
    best: f64,
    node: Option<Vec<u32>>,
    open: f64,
}

struct Search<'g, 'a> {
    ground: &'g Ground<'a>,
    symmetry: &'g Symmetry,
    best: f64,
    found: Option<Vec<u32>>,
    open: f64,
    visits: u64,
    most_visits: u64,
    stopped: bool,
    go_on: &'g dyn Fn() -> bool,
    nearest: Vec<f64>,
    weights: Vec<(u32, u32)>,
    parts: Vec<(usize, f64)>,
    room_near: Vec<f64>,
    place_of: Vec<u32>,
    line: Vec<f64>,
}

/// Whether this search is made for the instance.
pub fn suits(instance: &Instance<'_>) -> bool {
    let free = (0..instance.processes()).filter(|&process| instance.process_pin(process).is_none()).count();
    super::homes::are_separable(instance)
        && instance.tables.len() <= 64
        && instance.nodes <= 64
        && (2..=24).contains(&free)
        && instance.segments() <= 5_000
        && !(0..instance.segments()).any(|segment| instance.may_have_copies(segment))
        && instance.posts.len() * 4 <= instance.uses.len()
        // Last: it takes memory with the square of the nodes.
        && classes::classify(instance).0.len() <= MOST_CLASSES
}

/// Searches for nodes of processes with a cost below `best`. Gives the best nodes, if there are any, and a bound on all
/// that were not looked at: infinite if none of them can be cheaper.
pub fn search(
    instance: &Instance<'_>,
    symmetry: &Symmetry,
    mut best: f64,
    most_visits: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> (Option<Vec<u32>>, f64) {
    let ground = Ground::new(instance);
    let root = ground.root();
    let mut tasks = vec![root];
    // Cut the first levels of the search into pieces.
    let free = ground.order.iter().filter(|&&process| instance.process_pin(process).is_none()).count();
    for _ in 0..2.min(free.saturating_sub(1)) {
        let always = || true;
        let mut search = Search::new(&ground, symmetry, best, u64::MAX, &always);
        tasks = tasks.iter().flat_map(|task| search.children(task)).collect();
    }
    tasks.sort_by(|x, y| x.bound.total_cmp(&y.bound).then_with(|| x.node.cmp(&y.node)));
    let mut found = None;
    let mut open = f64::INFINITY;
    let mut stopped = false;
    let per_task = (most_visits / tasks.len().max(1) as u64).max(1000);
    for round in tasks.chunks(ROUND) {
        if stopped || !go_on() {
            stopped = true;
            open = round.iter().map(|task| task.bound).fold(open, f64::min);
            continue;
        }
        let results = parallel::each(round.len(), go_on, |index, go_on| {
            let mut search = Search::new(&ground, symmetry, best, per_task, go_on);
            search.explore(&round[index]);
            Found { best: search.best, node: search.found, open: search.open }
        });
        for result in results {
            open = open.min(result.open);
            if result.best < best
                && let Some(node) = result.node
            {
                (best, found) = (result.best, Some(node));
            }
        }
    }
    if !ground.exact {
        open = open.min(best * (1.0 - RELATIVE)) - ground.error;
    }
    (found, open)
}

impl<'g, 'a> Search<'g, 'a> {
    fn new(
        ground: &'g Ground<'a>,
        symmetry: &'g Symmetry,
        best: f64,
        most_visits: u64,
        go_on: &'g dyn Fn() -> bool,
    ) -> Search<'g, 'a> {
        Search {
            ground,
            symmetry,
            best,
            found: None,
            open: f64::INFINITY,
            visits: 0,
            most_visits,
            stopped: false,
            go_on,
            nearest: Vec::new(),
            weights: Vec::new(),
            parts: Vec::new(),
            room_near: Vec::new(),
            place_of: Vec::new(),
            line: vec![0.0; ground.nodes],
        }
    }

    /// Whether something of this bound cannot be better than the best.
    fn hopeless(&self, bound: f64) -> bool {
        bound >= if self.ground.exact { self.best } else { self.best * (1.0 - RELATIVE) }
    }

    fn explore(&mut self, partial: &Partial) {
        if self.hopeless(partial.bound) {
            return;
        }
        self.visits += 1;
        if self.visits.is_multiple_of(64) && !(self.go_on)() {
            self.stopped = true;
        }
        if self.stopped || self.visits > self.most_visits {
            self.open = self.open.min(partial.bound);
            return;
        }
        if partial.node.iter().all(|&node| node != FREE) {
            // With all processes placed the bound is the cost.
            self.best = partial.bound;
            self.found = Some(partial.node.clone());
            return;
        }
        for child in self.children(partial) {
            self.explore(&child);
        }
    }

    /// The next process on each node that is worth it, the most promising first.
    fn children(&mut self, partial: &Partial) -> Vec<Partial> {
        let ground = self.ground;
        let nodes = ground.nodes;
        let Some(&process) = ground.order.iter().find(|&&process| partial.node[process] == FREE) else {
            return vec![partial.clone()];
        };
        self.list_weights(partial, process);
        self.list_room(&partial.room);
        let used: Vec<bool> = (0..nodes as u32).map(|at| partial.node.contains(&at)).collect();
        let orbit = self.symmetry.orbits(&used);
        let root = partial.bound == 0.0;
        let mut children: Vec<Partial> = Vec::new();
        let mut floor = partial.floor.clone();
        let sum: f64 = floor.iter().sum();
        let mut room = partial.room.clone();
        for at in (0..nodes).filter(|&at| partial.room[at] > 0 && orbit[at] as usize == at) {
            let paid = partial.paid + ground.messages(partial, process, at);
            self.list_nearest(at);
            room[at] -= 1;
            let messages = self.message_bound(partial, process, at, &room);
            room[at] += 1;
            let mut bound = paid + messages + sum;
            floor.clone_from(&partial.floor);
            // Its own segments first: they decide mostly.
            let mut alive = true;
            let own = &ground.segments_of[process];
            for (segment, parts) in own {
                let least = self.segment_bound(partial, *segment, Some((at, parts)));
                bound += (least - floor[*segment]).max(0.0);
                floor[*segment] = floor[*segment].max(least);
                if self.hopeless(bound) && !root {
                    alive = false;
                    break;
                }
            }
            if alive {
                let mut next = own.iter().map(|entry| entry.0).peekable();
                for (segment, floor) in floor.iter_mut().enumerate() {
                    if next.peek() == Some(&segment) {
                        next.next();
                        continue;
                    }
                    if self.weights[segment].0 == self.weights[segment].1 {
                        continue;
                    }
                    let least = self.segment_bound(partial, segment, None);
                    bound += (least - *floor).max(0.0);
                    *floor = floor.max(least);
                    if self.hopeless(bound) {
                        alive = false;
                        break;
                    }
                }
            }
            // Summed anew: differences would collect rounding.
            let bound = paid + messages + floor.iter().sum::<f64>();
            if alive && !self.hopeless(bound) {
                let mut child = partial.clone();
                ground.place(&mut child, process, at);
                child.floor.clone_from(&floor);
                child.bound = bound;
                children.push(child);
            }
        }
        children.sort_by(|x, y| x.bound.total_cmp(&y.bound));
        children
    }

    /// Users of each segment that have no node yet, but for `process`: their weights, the heaviest first, each with the
    /// row of `nearest` that it meets.
    fn list_weights(&mut self, partial: &Partial, process: usize) {
        let depth = self.ground.depth;
        self.weights.clear();
        self.parts.clear();
        for users in &self.ground.users {
            let start = self.parts.len() as u32;
            let (mut last, mut place) = (usize::MAX, 0);
            for &(user, class, weight) in users {
                if partial.node[user] == FREE && user != process {
                    place = if class == last { place + 1 } else { 0 };
                    last = class;
                    self.parts.push((class * depth + place, weight));
                }
            }
            self.weights.push((start, self.parts.len() as u32));
        }
    }

    /// The nearest, second nearest, ... node with room, one more than are needed: row `class * (depth + 1) + i` of
    /// `room_near`; and at which `i` each node comes first: row `class * nodes + node` of `place_of`.
    fn list_room(&mut self, room: &[u64]) {
        let ground = self.ground;
        let (nodes, most) = (ground.nodes, ground.depth + 1);
        self.room_near.resize(ground.classes.len() * most * nodes, 0.0);
        self.place_of.clear();
        self.place_of.resize(ground.classes.len() * nodes * nodes, u32::MAX);
        for (t, class) in ground.classes.iter().enumerate() {
            for (v, near) in class.near.iter().enumerate() {
                let mut filled = 0;
                for &a in near {
                    let a = a as usize;
                    if filled == most {
                        break;
                    }
                    if room[a] > 0 {
                        self.place_of[(t * nodes + a) * nodes + v] = filled as u32;
                    }
                    for _ in 0..room[a].min((most - filled) as u64) {
                        self.room_near[(t * most + filled) * nodes + v] = class.base[a * nodes + v];
                        filled += 1;
                    }
                }
            }
        }
    }

    /// The nearest nodes once `at` has one place less: row `class * depth + i` of `nearest`.
    fn list_nearest(&mut self, at: usize) {
        let ground = self.ground;
        let (nodes, depth) = (ground.nodes, ground.depth);
        self.nearest.resize(ground.classes.len() * depth * nodes, 0.0);
        for t in 0..ground.classes.len() {
            let place_of = &self.place_of[(t * nodes + at) * nodes..][..nodes];
            for i in 0..depth {
                let there = &self.room_near[(t * (depth + 1) + i) * nodes..][..2 * nodes];
                let (own, next) = there.split_at(nodes);
                let out = &mut self.nearest[(t * depth + i) * nodes..][..nodes];
                for (v, out) in out.iter_mut().enumerate() {
                    *out = if (i as u32) < place_of[v] { own[v] } else { next[v] };
                }
            }
        }
    }

    /// The least that a segment costs with the listed weights on the nearest nodes.
    fn segment_bound(&mut self, partial: &Partial, segment: usize, own: Option<(usize, &Vec<(usize, f64)>)>) -> f64 {
        let ground = self.ground;
        let nodes = ground.nodes;
        let line = &mut self.line[..nodes];
        line.copy_from_slice(&partial.sums[segment * nodes..][..nodes]);
        if let Some((at, parts)) = own {
            parts.iter().for_each(|&(table, factor)| {
                ground.instance.tables[table].add_row(at, factor, line);
                let start = &ground.members[table].start;
                line.iter_mut().zip(start).for_each(|(sum, start)| *sum -= factor * start);
            });
        }
        let (start, end) = self.weights[segment];
        for &(row, weight) in &self.parts[start as usize..end as usize] {
            let near = &self.nearest[row * nodes..][..nodes];
            line.iter_mut().zip(near).for_each(|(sum, near)| *sum += weight * near);
        }
        line.iter().copied().fold(f64::INFINITY, |x, y| if y < x { y } else { x })
    }

    /// What messages still to be paid for cost at least.
    fn message_bound(&self, partial: &Partial, process: usize, at: usize, room: &[u64]) -> f64 {
        let ground = self.ground;
        if ground.instance.posts.is_empty() {
            return 0.0;
        }
        let mut bound = 0.0;
        for other in (0..partial.node.len()).filter(|&other| partial.node[other] == FREE && other != process) {
            let least = (0..ground.nodes).filter(|&b| room[b] > 0).map(|b| {
                let with_new: f64 = ground
                    .instance
                    .posts_of
                    .row(other)
                    .iter()
                    .map(|&number| {
                        let post = &ground.instance.posts[number as usize];
                        match (post.from as usize == process, post.to as usize == process) {
                            (true, _) => ground.instance.post_cost(post, at, b),
                            (_, true) => ground.instance.post_cost(post, b, at),
                            _ => 0.0,
                        }
                    })
                    .sum();
                with_new + ground.messages(partial, other, b)
            });
            bound += least.fold(f64::INFINITY, f64::min);
            let open = |partner: usize| partial.node[partner] == FREE && partner != process && partner > other;
            bound += ground.message_floor[other].iter().filter(|entry| open(entry.0)).map(|entry| entry.1).sum::<f64>();
        }
        if bound.is_finite() { bound } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::{search, suits};
    use crate::Model;
    use crate::model::{CostModel, Matrix, Objective};
    use crate::search::homes;
    use crate::search::instance::Instance;
    use crate::search::random::Random;
    use crate::search::symmetry::Symmetry;

    /// Processes on a ring, segments that some of them access, some messages; `slots` processes on a node.
    fn model(random: &mut Random, nodes: usize, processes: usize, slots: usize) -> Model {
        let mut accesses = Vec::new();
        for segment in 0..4 {
            for process in (0..processes).filter(|process| (process + segment) % 3 > 0) {
                let op = ["read", "write"][random.below(2)];
                let count = 1 + random.below(9);
                accesses.push(serde_json::json!({
                    "process": format!("p{process}"), "segment": format!("s{segment}"),
                    "op": op, "count": count, "size": 8,
                }));
            }
        }
        let names = |letter: &str, count: usize| -> Vec<_> {
            (0..count).map(|number| serde_json::json!({"id": format!("{letter}{number}")})).collect()
        };
        let mut segments = names("s", 4);
        segments.iter_mut().for_each(|segment| segment["bytes"] = 1.into());
        let model = serde_json::json!({
            "topology": {"kind": "torus", "nodes": nodes, "dims": [nodes], "directed": random.below(2) == 0},
            "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1.0},
            "processes": names("p", processes), "segments": segments, "accesses": accesses,
            "messages": [{"from": "p0", "to": "p1", "count": random.below(30), "size": 1}],
            "process_slots": vec![slots; nodes], "objective": "sum",
        });
        Model::from_json(&model.to_string()).unwrap()
    }

    #[test]
    fn finds_the_best_of_all_assignments() {
        let mut random = Random::new(11);
        for (nodes, processes, slots) in [(4, 4, 1), (3, 5, 2), (5, 3, 1)].repeat(8) {
            let model = model(&mut random, nodes, processes, slots);
            let instance = Instance::new(&model, Objective::Sum);
            assert!(suits(&instance));
            let cost = |node: &[u32]| instance.evaluate(&homes::separate(&instance, node, &mut || true).0);
            let node = |number: usize| -> Vec<u32> {
                (0..processes).map(|process| (number / nodes.pow(process as u32) % nodes) as u32).collect()
            };
            let all = (0..nodes.pow(processes as u32)).map(|number| cost(&node(number)));
            let least = all.filter(|(_, obeys)| *obeys).map(|(cost, _)| cost).fold(f64::INFINITY, f64::min);
            let symmetry = Symmetry::of(&instance);
            let (found, open) = search(&instance, &symmetry, f64::INFINITY, 1_000_000, &mut || true);
            assert_eq!(open, f64::INFINITY);
            assert_eq!(cost(&found.unwrap()), (least, true), "{}", model.to_json());
            // Nothing is cheaper than the best, and that is seen, too.
            assert_eq!(search(&instance, &symmetry, least, 1_000_000, &mut || true), (None, f64::INFINITY));
        }
    }

    #[test]
    fn beside_costs_that_stand_for_never_the_bound_stays_true() {
        let mut random = Random::new(12);
        for _ in 0..400 {
            let mut model = model(&mut random, 4, 4, 1);
            // Reads and writes are alike but for how dear never is: some tables start far below nothing.
            let never: Vec<bool> = (0..16).map(|_| random.below(10) == 0).collect();
            let mut costs = |spread: usize| -> Vec<f64> {
                let mut dear = |never: bool| if never { 1e15 - 1e12 * random.below(spread) as f64 } else { 10.0 };
                never.iter().map(|&never| dear(never)).collect()
            };
            let (mut read_ns, mut write_ns) = (costs(1), costs(20));
            read_ns.iter_mut().chain(&mut write_ns).for_each(|cost| *cost += random.below(50) as f64 * 1e-4);
            let (read_ns_per_byte, write_ns_per_byte) = (vec![0.0; 16], vec![0.0; 16]);
            model.cost_model =
                CostModel::Matrix(Box::new(Matrix { read_ns, write_ns, read_ns_per_byte, write_ns_per_byte }));
            let instance = Instance::new(&model, Objective::Sum);
            assert!(suits(&instance));
            let all = (0..256u32).map(|number| [0, 2, 4, 6].map(|bits| number >> bits & 3));
            let cost = |node: &[u32]| instance.evaluate(&homes::separate(&instance, node, &mut || true).0);
            let least =
                all.map(|node| cost(&node)).filter(|cost| cost.1).map(|cost| cost.0).fold(f64::INFINITY, f64::min);
            let symmetry = Symmetry::of(&instance);
            let (found, open) = search(&instance, &symmetry, f64::INFINITY, 1_000_000, &mut || true);
            let known = cost(&found.unwrap()).0;
            assert!(open.min(known) <= least * (1.0 + 1e-9), "{open} {known} {least}");
        }
    }
}
