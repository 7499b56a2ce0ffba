//! Processes and segments together, where each segment is free to follow its users: a search with a bound of its own.
//!
//! What a segment costs at a node is at least what its placed users pay there, plus what the others would pay if they
//! took the nearest nodes that are still free, the heaviest user the nearest (the rearrangement inequality: G. Hardy,
//! J. Littlewood, G. Pólya, "Inequalities", 1934, theorem 368; used for this purpose by P. Gilmore, "Optimal and
//! suboptimal algorithms for the quadratic assignment problem", 1962). The least of that over all nodes, summed over all
//! segments, is a bound that costs about a microsecond, so that millions of partial assignments can be looked at. It is
//! stronger than [`super::dual_ascent`] per second where accesses dominate and costs are few classes of distances.
//!
//! All terms are positive, so a sum is off by a part of about 1e-13 at most; what is within 1e-12 of the best is not
//! searched for.

use super::instance::Instance;
use super::parallel;
use super::symmetry::Symmetry;

const FREE: u32 = u32::MAX;

/// Pieces of the search that run side by side before they tell each other what they found. A number of its own, not that
/// of the cores, so that the result does not depend on them.
const ROUND: usize = 16;

/// Classes of distances up to which the bound is worth its time.
const MOST_CLASSES: usize = 4;

/// Tables are one class if a factor and a start turn one into the other but for this part of what differs in them.
const ALIKE: f64 = 0.02;

/// Distances that several tables have in common: `table >= start[v] + factor * base` wherever the process is.
struct Class {
    base: Vec<f64>,
    near: Vec<Vec<u32>>,
}

/// How a table belongs to a class.
struct Member {
    class: usize,
    factor: f64,
    start: Vec<f64>,
}

/// The part of the instance that the search needs, ordered for it.
struct Ground<'a> {
    instance: &'a Instance<'a>,
    nodes: usize,
    /// Processes in the order of placing.
    order: Vec<usize>,
    /// Users of each segment by class: process, class and weight, the heaviest first.
    users: Vec<Vec<(usize, usize, f64)>>,
    /// Distances that tables have in common.
    classes: Vec<Class>,
    /// How each table belongs to a class.
    members: Vec<Member>,
    /// Segments of each process with weights of tables.
    segments_of: Vec<Vec<(usize, Vec<(usize, f64)>)>>,
    /// What messages cost at least between two processes whose nodes are open.
    message_floor: Vec<Vec<(usize, f64)>>,
    exact: bool,
}

/// What was found below something.
struct Found {
    best: f64,
    node: Option<Vec<u32>>,
    open: f64,
}

/// One partial assignment.
#[derive(Clone)]
struct Partial {
    node: Vec<u32>,
    room: Vec<u64>,
    /// What the placed users of each segment pay at each node.
    sums: Vec<f64>,
    /// Part of the bound of each segment.
    floor: Vec<f64>,
    /// What processes pay for certain: messages between placed ones and accesses to pinned segments.
    paid: f64,
    bound: f64,
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
    weights: Vec<(u32, u32, u32)>,
    weight_values: Vec<f64>,
    line: Vec<f64>,
}

/// Whether this search is made for the instance.
pub fn suits(instance: &Instance<'_>) -> bool {
    let free = (0..instance.processes()).filter(|&process| instance.process_pin(process).is_none()).count();
    super::homes::are_separable(instance)
        && instance.tables.len() <= 64
        && classify(instance).0.len() <= MOST_CLASSES
        && instance.nodes <= 64
        && (2..=24).contains(&free)
        && instance.segments() <= 5_000
        && !(0..instance.segments()).any(|segment| instance.may_have_copies(segment))
        && instance.posts.len() * 4 <= instance.uses.len()
}

/// Searches for nodes of processes with a cost below `best`. Gives the best nodes, if there are any, and a bound on what
/// was not seen: infinite if everything was.
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
    (found, open)
}

/// Puts tables that differ by a factor and a start, nearly, into one class.
fn classify(instance: &Instance<'_>) -> (Vec<Class>, Vec<Member>) {
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
            Member { class: classes.len() - 1, factor: 1.0, start: vec![0.0; nodes] }
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

impl<'a> Ground<'a> {
    fn new(instance: &'a Instance<'a>) -> Ground<'a> {
        let (nodes, processes) = (instance.nodes, instance.processes());
        let (classes, members) = classify(instance);
        let mut users: Vec<Vec<(usize, usize, f64)>> = vec![Vec::new(); instance.segments()];
        let mut segments_of: Vec<Vec<(usize, Vec<(usize, f64)>)>> = vec![Vec::new(); processes];
        for segment in 0..instance.segments() {
            for entry in instance.uses_of(segment) {
                let process = entry.process as usize;
                for (table, factor) in [entry.first, entry.second] {
                    if factor == 0.0 {
                        continue;
                    }
                    // What one process pays it pays from one node: its weights of a class are one.
                    let Member { class, factor: part, .. } = members[table as usize];
                    match users[segment].iter_mut().find(|user| user.0 == process && user.1 == class) {
                        Some(user) => user.2 += factor * part,
                        None => users[segment].push((process, class, factor * part)),
                    }
                    match segments_of[process].iter_mut().rfind(|entry| entry.0 == segment) {
                        Some((_, parts)) => parts.push((table as usize, factor)),
                        _ => segments_of[process].push((segment, vec![(table as usize, factor)])),
                    }
                }
            }
            users[segment].sort_by(|x, y| x.1.cmp(&y.1).then(y.2.total_cmp(&x.2)).then(x.0.cmp(&y.0)));
        }
        let mut message_floor = vec![Vec::new(); processes];
        for post in &instance.posts {
            let room = |a: usize| instance.process_slots[a];
            let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
            let open = pairs.filter(|&(a, b)| room(a) > 0 && room(b) > 0 && (a != b || room(a) > 1));
            let least = open.map(|(a, b)| instance.post_cost(post, a, b)).fold(f64::INFINITY, f64::min);
            if least.is_finite() {
                message_floor[post.from as usize].push((post.to as usize, least));
                message_floor[post.to as usize].push((post.from as usize, least));
            }
        }
        let exact_starts =
            members.iter().all(|member| member.factor == 1.0 && member.start.iter().all(|start| *start == 0.0));
        let mut ground = Ground {
            instance,
            nodes,
            order: Vec::new(),
            users,
            classes,
            members,
            segments_of,
            message_floor,
            exact: instance.is_whole() && exact_starts,
        };
        ground.order = ground.order();
        ground
    }

    /// Pinned processes first, then each time the one that shares most with those before.
    fn order(&self) -> Vec<usize> {
        let processes = self.instance.processes();
        let mut rest: Vec<usize> = (0..processes).collect();
        let mut order: Vec<usize> = Vec::new();
        let mut placed = vec![false; processes];
        while !rest.is_empty() {
            let score = |process: usize| -> f64 {
                let pinned = self.instance.process_pin(process).is_some();
                let shared: f64 = self.segments_of[process]
                    .iter()
                    .map(|(segment, parts)| {
                        let own: f64 = parts.iter().map(|part| part.1).sum();
                        let users = self.users[*segment].iter().filter(|user| placed[user.0]).count();
                        own * (1.0 + users as f64)
                    })
                    .sum();
                if pinned { f64::INFINITY } else { shared }
            };
            let mut best = 0;
            for at in 1..rest.len() {
                if score(rest[at]) > score(rest[best]) {
                    best = at;
                }
            }
            let process = rest.remove(best);
            placed[process] = true;
            order.push(process);
        }
        order
    }

    fn root(&self) -> Partial {
        let instance = self.instance;
        let mut root = Partial {
            node: vec![FREE; instance.processes()],
            room: instance.process_slots.clone(),
            sums: vec![0.0; instance.segments() * self.nodes],
            floor: vec![0.0; instance.segments()],
            paid: 0.0,
            bound: 0.0,
        };
        for segment in 0..instance.segments() {
            if let Some(pin) = instance.segment_pin(segment) {
                let own = &mut root.sums[segment * self.nodes..][..self.nodes];
                own.iter_mut().enumerate().filter(|(at, _)| *at != pin).for_each(|(_, sum)| *sum = f64::INFINITY);
            }
        }
        for process in 0..instance.processes() {
            self.starts(&mut root, process, 1.0);
        }
        for process in 0..instance.processes() {
            if let Some(pin) = instance.process_pin(process) {
                self.place(&mut root, process, pin);
            }
        }
        root
    }

    /// Adds to the sums of segments what a process pays at least whatever its node, `sign` times.
    fn starts(&self, partial: &mut Partial, process: usize, sign: f64) {
        for (segment, parts) in &self.segments_of[process] {
            let sums = &mut partial.sums[*segment * self.nodes..][..self.nodes];
            for &(table, factor) in parts {
                let start = &self.members[table].start;
                sums.iter_mut().zip(start).for_each(|(sum, start)| *sum += sign * factor * start);
            }
        }
    }

    fn place(&self, partial: &mut Partial, process: usize, at: usize) {
        for (segment, parts) in &self.segments_of[process] {
            let sums = &mut partial.sums[segment * self.nodes..][..self.nodes];
            parts.iter().for_each(|&(table, factor)| self.instance.tables[table].add_row(at, factor, sums));
        }
        self.starts(partial, process, -1.0);
        partial.paid += self.messages(partial, process, at);
        partial.node[process] = at as u32;
        partial.room[at] -= 1;
    }

    /// Messages between a process at a node and those that are placed.
    fn messages(&self, partial: &Partial, process: usize, at: usize) -> f64 {
        let numbers = self.instance.posts_of.row(process).iter();
        numbers
            .map(|&number| {
                let post = &self.instance.posts[number as usize];
                let (from, to) = (post.from as usize, post.to as usize);
                let other = partial.node[if from == process { to } else { from }];
                if other == FREE {
                    return 0.0;
                }
                let (a, b) = if from == process { (at, other as usize) } else { (other as usize, at) };
                self.instance.post_cost(post, a, b)
            })
            .sum()
    }
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
            weight_values: Vec::new(),
            line: vec![0.0; ground.nodes],
        }
    }

    /// Whether something of this bound cannot be better than the best.
    fn hopeless(&self, bound: f64) -> bool {
        bound >= if self.ground.exact { self.best } else { self.best * (1.0 - 1e-12) }
    }

    fn explore(&mut self, partial: &Partial) {
        if self.hopeless(partial.bound) {
            return;
        }
        self.visits += 1;
        if self.visits % 64 == 0 && !(self.go_on)() {
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
        let used: Vec<bool> = (0..nodes as u32).map(|at| partial.node.contains(&at)).collect();
        let orbit = self.symmetry.orbits(&used);
        let root = partial.bound == 0.0;
        let mut children: Vec<Partial> = Vec::new();
        let mut floor = partial.floor.clone();
        for at in (0..nodes).filter(|&at| partial.room[at] > 0 && orbit[at] as usize == at) {
            let paid = partial.paid + ground.messages(partial, process, at);
            let mut room = partial.room.clone();
            room[at] -= 1;
            self.list_nearest(&room);
            let messages = self.message_bound(partial, process, at, &room);
            let mut bound = paid + messages + partial.floor.iter().sum::<f64>();
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
                for segment in 0..ground.users.len() {
                    if next.peek() == Some(&segment) {
                        next.next();
                        continue;
                    }
                    if self.weights[segment].0 == self.weights[segment].1 {
                        continue;
                    }
                    let least = self.segment_bound(partial, segment, None);
                    bound += (least - floor[segment]).max(0.0);
                    floor[segment] = floor[segment].max(least);
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

    /// Users of each segment that have no node yet, but for `process`: their weights, per table, the heaviest first.
    fn list_weights(&mut self, partial: &Partial, process: usize) {
        self.weights.clear();
        self.weight_values.clear();
        for users in &self.ground.users {
            let start = self.weight_values.len() as u32;
            for &(user, table, weight) in users {
                if partial.node[user] == FREE && user != process {
                    self.weight_values.push(table as f64);
                    self.weight_values.push(weight);
                }
            }
            self.weights.push((start, self.weight_values.len() as u32, 0));
        }
    }

    /// The nearest, second nearest, ... node with room, per table and node: `nearest[(t * depth + i) * nodes + v]`.
    fn list_nearest(&mut self, room: &[u64]) {
        let ground = self.ground;
        let (nodes, depth) = (ground.nodes, ground.instance.processes());
        self.nearest.resize(ground.classes.len() * depth * nodes, 0.0);
        for (t, class) in ground.classes.iter().enumerate() {
            for (v, near) in class.near.iter().enumerate() {
                let mut filled = 0;
                for &a in near {
                    let times = room[a as usize].min((depth - filled) as u64) as usize;
                    for _ in 0..times {
                        self.nearest[(t * depth + filled) * nodes + v] = class.base[a as usize * nodes + v];
                        filled += 1;
                    }
                    if filled == depth {
                        break;
                    }
                }
            }
        }
    }

    /// The least that a segment costs with the listed weights on the nearest nodes.
    fn segment_bound(&mut self, partial: &Partial, segment: usize, own: Option<(usize, &Vec<(usize, f64)>)>) -> f64 {
        let ground = self.ground;
        let (nodes, depth) = (ground.nodes, ground.instance.processes());
        self.line.copy_from_slice(&partial.sums[segment * nodes..][..nodes]);
        if let Some((at, parts)) = own {
            parts.iter().for_each(|&(table, factor)| {
                ground.instance.tables[table].add_row(at, factor, &mut self.line);
                let start = &ground.members[table].start;
                self.line.iter_mut().zip(start).for_each(|(sum, start)| *sum -= factor * start);
            });
        }
        let (start, end, _) = self.weights[segment];
        let (mut last, mut place) = (usize::MAX, 0);
        for pair in self.weight_values[start as usize..end as usize].chunks_exact(2) {
            let table = pair[0] as usize;
            place = if table == last { place + 1 } else { 0 };
            last = table;
            let near = &self.nearest[(table * depth + place) * nodes..][..nodes];
            let weight = pair[1];
            self.line.iter_mut().zip(near).for_each(|(sum, near)| *sum += weight * near);
        }
        self.line.iter().copied().fold(f64::INFINITY, |x, y| if y < x { y } else { x })
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
