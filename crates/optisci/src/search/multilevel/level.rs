//! Groups of processes and blocks of places, all of one size: as many of the ones as of the others.

use super::super::instance::Instance;
use super::super::random::Random;
use super::super::table::Table;
use crate::topology::Topology;

/// Blocks up to which the distances of all pairs are kept.
const MOST_BLOCKS_IN_TABLE: usize = 2048;

/// Blocks around a block that something is tried on.
const NEAR: usize = 8;

/// What two groups exchange.
#[derive(Clone, Copy)]
pub struct Partner {
    /// The other group.
    pub group: u32,
    /// Both ways together.
    pub weight: f64,
}

enum Distances<'a> {
    /// Of all pairs of blocks.
    All(Vec<f32>),
    /// Of the nodes of the blocks' first places; empty blocks have none.
    Nodes(&'a Table, Vec<u32>),
}

/// Groups and blocks. Groups without a process fill up the places that are left.
pub struct Level<'a> {
    groups: usize,
    start: Vec<u32>,
    partners: Vec<Partner>,
    distances: Distances<'a>,
    near: Vec<[u32; NEAR]>,
    /// Block that a group has to be on.
    pub fixed: Vec<Option<u32>>,
    /// The two groups of the level below that make up a group, one for each half of its block.
    halves: Vec<[u32; 2]>,
}

/// Nodes so that what is near in the machine is near in the order: halves, quarters, and so on.
pub fn order(instance: &Instance<'_>) -> Vec<u32> {
    let mut nodes = Vec::with_capacity(instance.nodes);
    match &instance.model.topology {
        Topology::Torus(torus) => {
            let whole: Vec<(u32, u32)> = torus.dims.iter().map(|&dim| (0, dim)).collect();
            halve(&torus.dims, whole, &mut nodes);
        }
        Topology::FatTree(_) => nodes.extend(0..instance.nodes as u32),
    }
    nodes
}

fn halve(dims: &[u32], part: Vec<(u32, u32)>, nodes: &mut Vec<u32>) {
    let Some(longest) = (0..part.len()).max_by_key(|&dim| (part[dim].1 - part[dim].0, dim)) else { return };
    let (low, high) = part[longest];
    if high - low <= 1 {
        nodes.push((0..dims.len()).rev().fold(0, |node, dim| node * dims[dim] + part[dim].0));
        return;
    }
    let middle = low + (high - low).div_ceil(2);
    for half in [(low, middle), (middle, high)] {
        let mut part = part.clone();
        part[longest] = half;
        halve(dims, part, nodes);
    }
}

impl<'a> Level<'a> {
    /// A group for each process and each place that is left, a block for each place on these nodes.
    pub fn finest(instance: &'a Instance<'a>, node: &[u32]) -> Option<Level<'a>> {
        // Distances are those of the table that costs most; the others are about proportional to it.
        let mut total = vec![0.0; instance.tables.len()];
        for post in &instance.posts {
            for (table, factor) in [post.first, post.second] {
                total[table as usize] += factor * instance.tables[table as usize].largest();
            }
        }
        let main = (0..total.len()).max_by(|&x, &y| total[x].total_cmp(&total[y]).then(y.cmp(&x)))?;
        let scale = instance.tables[main].largest();
        let mut edges = Vec::with_capacity(2 * instance.posts.len());
        for post in &instance.posts {
            let parts = [post.first, post.second];
            let cost: f64 =
                parts.iter().map(|&(table, factor)| factor * instance.tables[table as usize].largest()).sum();
            let weight = cost / scale;
            edges.push((post.from, Partner { group: post.to, weight }));
            edges.push((post.to, Partner { group: post.from, weight }));
        }
        let groups = node.len();
        let mut fixed = vec![None; groups];
        let mut taken = vec![false; groups];
        for (process, fixed) in fixed.iter_mut().enumerate().take(instance.processes()) {
            if let Some(pin) = instance.process_pin(process) {
                let place = (0..groups).find(|&place| node[place] as usize == pin && !taken[place])?;
                taken[place] = true;
                *fixed = Some(place as u32);
            }
        }
        let table = &instance.tables[main];
        let distances = if groups <= MOST_BLOCKS_IN_TABLE {
            let row = |&a: &u32| node.iter().map(move |&b| (a as usize, b as usize));
            Distances::All(node.iter().flat_map(row).map(|(a, b)| both_ways(table, a, b) as f32).collect())
        } else {
            Distances::Nodes(table, node.to_vec())
        };
        Some(Level::of(groups, edges, distances, fixed, Vec::new()))
    }

    fn of(
        groups: usize,
        mut edges: Vec<(u32, Partner)>,
        distances: Distances<'a>,
        fixed: Vec<Option<u32>>,
        halves: Vec<[u32; 2]>,
    ) -> Level<'a> {
        edges.sort_by_key(|(from, partner)| (*from, partner.group));
        edges.dedup_by(|next, before| {
            let same = (next.0, next.1.group) == (before.0, before.1.group);
            before.1.weight += if same { next.1.weight } else { 0.0 };
            same
        });
        let mut start = vec![0u32; groups + 1];
        edges.iter().for_each(|(from, _)| start[*from as usize + 1] += 1);
        (0..groups).for_each(|group| start[group + 1] += start[group]);
        let partners = edges.into_iter().map(|(_, partner)| partner).collect();
        let mut level = Level { groups, start, partners, distances, near: Vec::new(), fixed, halves };
        level.near = (0..groups).map(|block| level.nearest(block)).collect();
        level
    }

    /// How many groups, and blocks, there are.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Groups that a group exchanges something with.
    #[inline]
    pub fn partners(&self, group: usize) -> &[Partner] {
        &self.partners[self.start[group] as usize..self.start[group + 1] as usize]
    }

    /// The distance of two blocks, there and back, in the mean.
    #[inline]
    pub fn distance(&self, a: u32, b: u32) -> f64 {
        match &self.distances {
            Distances::All(all) => f64::from(all[a as usize * self.groups + b as usize]),
            Distances::Nodes(table, node) => both_ways(table, node[a as usize] as usize, node[b as usize] as usize),
        }
    }

    /// Blocks around a block.
    #[inline]
    pub fn near(&self, block: u32) -> &[u32; NEAR] {
        &self.near[block as usize]
    }

    fn nearest(&self, block: usize) -> [u32; NEAR] {
        // On large machines only what comes near in the order, too.
        let window = 1024.min(self.groups);
        let first = (block.saturating_sub(window / 2)).min(self.groups - window);
        let all = if self.groups <= 4 * MOST_BLOCKS_IN_TABLE { 0..self.groups } else { first..first + window };
        let mut list: Vec<(f64, u32)> = Vec::with_capacity(NEAR + 1);
        for other in all.filter(|&other| other != block) {
            let distance = self.distance(block as u32, other as u32);
            if list.len() < NEAR || distance < list[NEAR - 1].0 {
                let at = list.partition_point(|entry| entry.0 <= distance);
                list.insert(at, (distance, other as u32));
                list.truncate(NEAR);
            }
        }
        std::array::from_fn(|at| list.get(at % list.len().max(1)).map_or(block as u32, |entry| entry.1))
    }

    /// Groups on blocks, those that are free anywhere.
    pub fn some_places(&self, random: &mut Random) -> Vec<u32> {
        let taken: std::collections::HashSet<u32> = self.fixed.iter().flatten().copied().collect();
        let mut rest: Vec<u32> = (0..self.groups as u32).filter(|block| !taken.contains(block)).collect();
        random.shuffle(&mut rest);
        let mut rest = rest.into_iter();
        self.fixed.iter().map(|fixed| fixed.or_else(|| rest.next()).unwrap_or(0)).collect()
    }

    /// Pairs of groups on pairs of blocks that follow each other. Of an odd number the last block gets a group that is
    /// paired with nothing.
    pub fn pair(&self, random: &mut Random) -> Level<'a> {
        let blocks = self.groups.div_ceil(2);
        let mut mate: Vec<Option<[u32; 2]>> = vec![None; self.groups];
        let mut halves: Vec<[u32; 2]> = Vec::with_capacity(blocks);
        let mut fixed: Vec<Option<u32>> = Vec::with_capacity(blocks);
        let mut on_block = vec![u32::MAX; self.groups + 1];
        (0..).zip(&self.fixed).for_each(|(group, fixed)| fixed.iter().for_each(|at| on_block[*at as usize] = group));
        let mut order: Vec<u32> = (0..self.groups as u32).collect();
        random.shuffle(&mut order);
        // Lone ones first: few are left to be paired with those that have few partners.
        order.sort_by_key(|&group| {
            let partners = self.partners(group as usize).len();
            if partners == 0 { usize::MAX } else { partners }
        });
        let mut next = 0;
        let mut join = |pair: [u32; 2], at: Option<u32>, mate: &mut Vec<Option<[u32; 2]>>| {
            pair.iter().filter(|&&group| group != NONE).for_each(|&group| mate[group as usize] = Some(pair));
            halves.push(pair);
            fixed.push(at);
        };
        if self.groups % 2 == 1 {
            let last = self.groups as u32 - 1;
            let lone = match on_block[last as usize] {
                u32::MAX => order.iter().rev().copied().find(|&group| self.fixed[group as usize].is_none()),
                group => Some(group),
            };
            join([lone.unwrap_or(0), NONE], Some(last / 2), &mut mate);
        }
        let best = |group: u32, mate: &[Option<[u32; 2]>]| {
            let free = |partner: &&Partner| {
                mate[partner.group as usize].is_none() && self.fixed[partner.group as usize].is_none()
            };
            let heavier = |x: &&Partner, y: &&Partner| x.weight.total_cmp(&y.weight).then(y.group.cmp(&x.group));
            self.partners(group as usize).iter().filter(free).max_by(heavier).map(|partner| partner.group)
        };
        let spare = |next: &mut usize, mate: &[Option<[u32; 2]>]| {
            // Whoever is left, from those with the most partners.
            while let Some(&group) = order.len().checked_sub(*next + 1).and_then(|at| order.get(at)) {
                if mate[group as usize].is_none() && self.fixed[group as usize].is_none() {
                    return Some(group);
                }
                *next += 1;
            }
            None
        };
        for group in 0..self.groups as u32 {
            let Some(at) = self.fixed[group as usize].filter(|_| mate[group as usize].is_none()) else { continue };
            let beside = on_block[(at ^ 1) as usize];
            mate[group as usize] = Some([group, NONE]);
            let other =
                if beside != u32::MAX { Some(beside) } else { best(group, &mate).or_else(|| spare(&mut next, &mate)) };
            let other = other.unwrap_or(NONE);
            join(if at % 2 == 0 { [group, other] } else { [other, group] }, Some(at / 2), &mut mate);
        }
        for &group in &order {
            if mate[group as usize].is_none() {
                mate[group as usize] = Some([group, NONE]);
                let other =
                    best(group, &mate).or_else(|| self.second(group, &mate)).or_else(|| spare(&mut next, &mate));
                join([group, other.unwrap_or(NONE)], None, &mut mate);
            }
        }
        Level::of(blocks, self.edges_of(&halves), self.distances_of(blocks), fixed, halves)
    }

    /// What these pairs of groups exchange with each other.
    fn edges_of(&self, pairs: &[[u32; 2]]) -> Vec<(u32, Partner)> {
        let mut number = vec![0u32; self.groups];
        for (at, pair) in (0..).zip(pairs) {
            pair.iter().filter(|&&group| group != NONE).for_each(|&group| number[group as usize] = at);
        }
        let paired = |partner: &Partner| Partner { group: number[partner.group as usize], weight: partner.weight };
        let edges = (0..self.groups).flat_map(|group| {
            let own = number[group];
            self.partners(group).iter().map(move |partner| (own, partner))
        });
        edges.map(|(own, partner)| (own, paired(partner))).filter(|(own, partner)| *own != partner.group).collect()
    }

    /// The distances of so many pairs of blocks that follow each other.
    fn distances_of(&self, blocks: usize) -> Distances<'a> {
        if let Distances::Nodes(table, node) = &self.distances
            && blocks > MOST_BLOCKS_IN_TABLE
        {
            return Distances::Nodes(table, (0..blocks).map(|block| node[2 * block]).collect());
        }
        let pair = |block: usize| [2 * block as u32, (2 * block as u32 + 1).min(self.groups as u32 - 1)];
        let distance = |at: usize| {
            let (a, b) = (pair(at / blocks), pair(at % blocks));
            (a.iter().flat_map(|&a| b.iter().map(move |&b| self.distance(a, b))).sum::<f64>() / 4.0) as f32
        };
        Distances::All((0..blocks * blocks).map(distance).collect())
    }

    /// A partner's partner that has no mate: groups whose partners are all taken are still paired with somebody near.
    fn second(&self, group: u32, mate: &[Option<[u32; 2]>]) -> Option<u32> {
        let further = self.partners(group as usize).iter().flat_map(|partner| self.partners(partner.group as usize));
        let free = |other: &&Partner| {
            other.group != group && mate[other.group as usize].is_none() && self.fixed[other.group as usize].is_none()
        };
        further.filter(free).max_by(|x, y| x.weight.total_cmp(&y.weight).then(y.group.cmp(&x.group))).map(|p| p.group)
    }

    /// Blocks of the groups below, when these are on `places`.
    pub fn open(&self, places: &[u32]) -> Vec<u32> {
        let count = self.halves.iter().flatten().filter(|&&group| group != NONE).count();
        let mut below = vec![0; count];
        for (pair, &block) in self.halves.iter().zip(places) {
            for (half, &group) in (0..).zip(pair) {
                if group != NONE {
                    below[group as usize] = 2 * block + half;
                }
            }
        }
        below
    }
}

/// Marks the half of a pair that is not there.
const NONE: u32 = u32::MAX;

fn both_ways(table: &Table, a: usize, b: usize) -> f64 {
    if a == b { 0.0 } else { 0.5 * (table.at(a, b) + table.at(b, a)) }
}
