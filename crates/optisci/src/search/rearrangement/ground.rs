//! The instance as the search wants it, and partial assignments of processes to nodes.

use super::classes::{Class, Member, classify};
use crate::search::instance::Instance;
use crate::search::rounding::RELATIVE;

/// Marks a process that has no node yet.
pub const FREE: u32 = u32::MAX;

/// A segment and what one process weighs on it: tables and factors.
pub type Share = (usize, Vec<(usize, f64)>);

/// The part of the instance that the search needs, ordered for it.
pub struct Ground<'a> {
    /// The instance.
    pub instance: &'a Instance<'a>,
    /// Number of nodes.
    pub nodes: usize,
    /// Processes in the order of placing.
    pub order: Vec<usize>,
    /// Users of each segment by class: process, class and weight, the heaviest first.
    pub users: Vec<Vec<(usize, usize, f64)>>,
    /// Distances that tables have in common.
    pub classes: Vec<Class>,
    /// How each table belongs to a class.
    pub members: Vec<Member>,
    /// Segments of each process with weights of tables.
    pub segments_of: Vec<Vec<Share>>,
    /// What messages cost at least between two processes whose nodes are open.
    pub message_floor: Vec<Vec<(usize, f64)>>,
    /// Whether sums are exact.
    pub exact: bool,
    /// What sums may be off by, beside a part of what they are: a start below nothing is taken back later, and leaves
    /// behind what was rounded beside it.
    pub error: f64,
    /// Most users of a class that a segment has: so many nearest nodes are needed.
    pub depth: usize,
}

/// One partial assignment.
#[derive(Clone)]
pub struct Partial {
    /// Node of each process, or [`FREE`].
    pub node: Vec<u32>,
    /// Process slots left.
    pub room: Vec<u64>,
    /// What the placed users of each segment pay at each node.
    pub sums: Vec<f64>,
    /// Part of the bound of each segment.
    pub floor: Vec<f64>,
    /// What processes pay for certain: messages between placed ones and accesses to pinned segments.
    pub paid: f64,
    /// No assignment that goes on from this one costs less.
    pub bound: f64,
}

impl<'a> Ground<'a> {
    /// Puts the instance in order.
    pub fn new(instance: &'a Instance<'a>) -> Ground<'a> {
        let (nodes, processes) = (instance.nodes, instance.processes());
        let (classes, members) = classify(instance);
        let mut users: Vec<Vec<(usize, usize, f64)>> = vec![Vec::new(); instance.segments()];
        let mut segments_of: Vec<Vec<Share>> = vec![Vec::new(); processes];
        for (segment, users) in users.iter_mut().enumerate() {
            for entry in instance.uses_of(segment) {
                let process = entry.process as usize;
                for (table, factor) in [entry.first(), entry.second()] {
                    if factor == 0.0 {
                        continue;
                    }
                    // What one process pays it pays from one node: its weights of a class are one.
                    let Member { class, factor: part, .. } = members[table as usize];
                    match users.iter_mut().find(|user| user.0 == process && user.1 == class) {
                        Some(user) => user.2 += factor * part,
                        None => users.push((process, class, factor * part)),
                    }
                    match segments_of[process].iter_mut().rfind(|entry| entry.0 == segment) {
                        Some((_, parts)) => parts.push((table as usize, factor)),
                        _ => segments_of[process].push((segment, vec![(table as usize, factor)])),
                    }
                }
            }
            users.sort_by(|x, y| x.1.cmp(&y.1).then(y.2.total_cmp(&x.2)).then(x.0.cmp(&y.0)));
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
        let of_class = |users: &Vec<(usize, usize, f64)>, class| users.iter().filter(|user| user.1 == class).count();
        let depths = users.iter().flat_map(|users| (0..classes.len()).map(move |class| of_class(users, class)));
        let depth = depths.max().unwrap_or(0);
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
            error: 0.0,
            depth,
        };
        ground.order = ground.order();
        let below = |table: usize| ground.members[table].start.iter().fold(0.0, |least, &start| start.min(least));
        let parts = ground.segments_of.iter().flatten().flat_map(|(_, parts)| parts);
        ground.error = -RELATIVE * parts.map(|&(table, factor)| factor * below(table)).sum::<f64>();
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

    /// Only pinned processes are placed.
    pub fn root(&self) -> Partial {
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

    /// Places one more process.
    pub fn place(&self, partial: &mut Partial, process: usize, at: usize) {
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
    pub fn messages(&self, partial: &Partial, process: usize, at: usize) -> f64 {
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
