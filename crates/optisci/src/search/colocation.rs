//! Who shares a node with whom: the choice that decides where an access costs far more than one link of its way.
//!
//! Of the users of a segment only those on its node are near. So a segment saves, over having all users far, what the
//! users on one node weigh. With at most `k` processes on a node this is at most what its heaviest user weighs, and
//! what pairs of processes that share a node add to that; no process is in more than `k - 1` such pairs. The heaviest
//! choice of pairs is a matching (`k` = 2); it is bounded from above by an assignment of processes to partners, or by
//! each one's heaviest partners (J. Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", 1965, for what is
//! relaxed here). The bound holds for any costs and limits; how near it comes depends on how little distances between
//! nodes matter.

use super::assignment::Assignment;
use super::instance::Instance;
use super::random::Random;
use super::rounding::{self, Rounding};
use super::table::Table;
use crate::model::Op;
use crate::sum::Sum;

/// Processes for which a table of all pairs is kept.
const MOST_PROCESSES: usize = 2048;

/// Nodes of which all pairs are looked at.
const MOST_NODES: usize = 1024;

/// Processes up to which partners are assigned; above, each one's heaviest partners count.
const MOST_ASSIGNED: usize = 512;

/// Pairs of users of one segment, over all segments.
const MOST_PAIRS: usize = 20_000_000;

/// What is saved by whom on one node.
pub struct Colocation {
    processes: usize,
    /// What everything costs with every user far from its segment, less what the heaviest user of each saves.
    apart: f64,
    /// What two processes save by being on one node, besides.
    gain: Vec<f64>,
    /// The most that all segments and messages can save for all that is known of each alone.
    near: f64,
    /// Processes that a node takes at most.
    guests: usize,
    /// All that was added and taken away for `apart`, `near` and `gain`: what they can be off by is a part of it, not
    /// of them.
    moved: f64,
}

impl Colocation {
    /// Looks at the sum of all costs; `None` for models that are too large.
    pub fn new(instance: &Instance<'_>) -> Option<Colocation> {
        let (processes, nodes) = (instance.processes(), instance.nodes);
        let pairs = (0..instance.segments()).map(|segment| instance.uses_of(segment).len().pow(2)).sum::<usize>();
        if processes > MOST_PROCESSES || !(2..=MOST_NODES).contains(&nodes) || pairs > MOST_PAIRS {
            return None;
        }
        let guests = instance.process_slots.iter().copied().max().unwrap_or(0).min(processes as u64) as usize;
        let least: Vec<(f64, f64)> = instance.tables.iter().map(|table| near_and_far(table, nodes)).collect();
        let cost = |parts: [(u32, f64); 2]| {
            let used = parts.into_iter().filter(|&(_, factor)| factor != 0.0);
            used.fold((0.0, 0.0), |(near, far), (table, factor)| {
                let of = least[table as usize];
                (near + factor * of.0, far + factor * of.1)
            })
        };
        let mut made =
            Colocation { processes, apart: 0.0, gain: vec![0.0; processes * processes], near: 0.0, guests, moved: 0.0 };
        let (mut apart, mut together) = (Sum::default(), Sum::default());
        let mut weights: Vec<(u32, f64)> = Vec::new();
        for segment in 0..instance.segments() {
            let copies = instance.may_have_copies(segment);
            weights.clear();
            for entry in instance.uses_of(segment) {
                let (near, far) = cost([entry.first(), entry.second()]);
                if copies && entry.op == Op::Read {
                    // Each reader may have a copy of its own.
                    apart.add(near.min(far));
                    together.add(near.min(far));
                    made.moved += near.min(far);
                    continue;
                }
                apart.add(far);
                together.add(far);
                made.moved += near + far;
                let saved = (far - near).max(0.0);
                match weights.iter_mut().find(|other| other.0 == entry.process) {
                    Some(other) => other.1 += saved,
                    None => weights.push((entry.process, saved)),
                }
            }
            weights.sort_by(|x, y| y.1.total_cmp(&x.1));
            let heaviest = weights.first().map_or(0.0, |first| first.1);
            apart.add(-heaviest);
            weights.iter().take(guests).for_each(|weight| together.add(-weight.1));
            for (index, &(p, mine)) in weights.iter().enumerate() {
                for &(q, theirs) in &weights[..index] {
                    // More than a pair may meet: then each adds what it weighs to the heaviest.
                    let gain = if guests == 2 { mine + theirs - heaviest } else { mine };
                    made.moved += if guests == 2 { heaviest } else { 0.0 };
                    made.add(p, q, gain);
                }
            }
        }
        let mut saved_by_messages = vec![0.0; processes * processes];
        for post in &instance.posts {
            let far = cost([post.first, post.second]).1.max(0.0);
            apart.add(far);
            together.add(far);
            made.moved += far;
            made.add(post.from, post.to, far);
            saved_by_messages[post.from as usize * processes + post.to as usize] += far;
            saved_by_messages[post.to as usize * processes + post.from as usize] += far;
        }
        let saved_by_messages = halved(&saved_by_messages, processes, guests);
        together.add(-saved_by_messages);
        made.moved += 100.0 * saved_by_messages;
        (made.apart, made.near) = (apart.value(), together.value());
        for p in 0..processes {
            for q in 0..p {
                let pins = (instance.process_pin(p), instance.process_pin(q));
                if let (Some(a), Some(b)) = pins
                    && a != b
                {
                    (made.gain[p * processes + q], made.gain[q * processes + p]) = (0.0, 0.0);
                }
            }
        }
        Some(made)
    }

    fn add(&mut self, p: u32, q: u32, gain: f64) {
        if gain > 0.0 && p != q {
            let (p, q) = (p as usize, q as usize);
            self.gain[p * self.processes + q] += gain;
            self.gain[q * self.processes + p] += gain;
        }
    }

    /// No placement costs less.
    pub fn bound(&self) -> f64 {
        let pairs = match self.guests {
            0 | 1 => 0.0,
            2 if self.processes <= MOST_ASSIGNED => self.matched(),
            _ => halved(&self.gain, self.processes, self.guests),
        };
        let bound = (self.apart - pairs).max(self.near);
        // What was added up first may be far larger than what is left of it. Gains are added up without compensation.
        (bound - (self.moved + (self.apart.abs() + pairs) * 100.0) * rounding::RELATIVE).max(0.0)
    }

    /// What pairs save at most, each process being in one: half of what an assignment of partners saves.
    fn matched(&self) -> f64 {
        let n = self.processes;
        let most = self.gain.iter().copied().fold(0.0, f64::max);
        let rounding = Rounding::new(most * n as f64, n, false);
        let top = rounding.whole(most);
        let cost: Vec<f64> = self.gain.iter().map(|&gain| top - rounding.whole(gain)).collect();
        let least = Assignment::default().solve(&cost, n, &vec![1; n]).unwrap_or(0.0);
        // Each entry was rounded by at most a half.
        rounding.cost(top * n as f64 - least + n as f64) / 2.0
    }

    /// Brings together who saves most that way: from `start`, by exchanges and moves with less and less heat. Pins and
    /// slots of processes are obeyed.
    pub fn gather(
        &self,
        instance: &Instance<'_>,
        start: &[u32],
        random: &mut Random,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Vec<u32> {
        let n = self.processes;
        let mut node = start.to_vec();
        let mut guests: Vec<Vec<u32>> = vec![Vec::new(); instance.nodes];
        (0..).zip(start).for_each(|(process, &at)| guests[at as usize].push(process));
        let movable: Vec<u32> = (0..n as u32).filter(|&p| instance.process_pin(p as usize).is_none()).collect();
        let most = self.gain.iter().copied().fold(0.0, f64::max);
        if movable.is_empty() || most == 0.0 || self.guests < 2 {
            return node;
        }
        let with = |guests: &[u32], p: u32, except: u32| -> f64 {
            let row = &self.gain[p as usize * n..][..n];
            guests.iter().filter(|&&other| other != except).map(|&other| row[other as usize]).sum()
        };
        let steps = (4_000 * n as u64).clamp(20_000, 2_000_000);
        let factor = 1e-4f64.powf(1.0 / steps as f64);
        let mut temperature = most * 0.3;
        for step in 0..steps {
            if step % 4096 == 0 && !go_on() {
                break;
            }
            temperature *= factor;
            let p = movable[random.below(movable.len())];
            // Somebody who would be good company, or any node.
            let to = if random.below(4) == 0 { random.below(instance.nodes) as u32 } else { node[random.below(n)] };
            let from = node[p as usize];
            if from == to {
                continue;
            }
            let there = &guests[to as usize];
            let room = (there.len() as u64) < instance.process_slots[to as usize];
            let other = match there.len() {
                0 => None,
                count if room => Some(random.below(count + 1)).filter(|&at| at < count),
                count => Some(random.below(count)),
            };
            if other.is_none() && !room {
                continue;
            }
            let other = other.map(|at| there[at]);
            let mut change = with(there, p, other.unwrap_or(p)) - with(&guests[from as usize], p, p);
            if let Some(q) = other {
                if instance.process_pin(q as usize).is_some() {
                    continue;
                }
                change += with(&guests[from as usize], q, p) - with(there, q, q);
            }
            if change >= 0.0 || random.unit() < (change / temperature).exp() {
                let mut go = |process: u32, from: u32, to: u32| {
                    guests[from as usize].retain(|&guest| guest != process);
                    guests[to as usize].push(process);
                    node[process as usize] = to;
                };
                go(p, from, to);
                if let Some(q) = other {
                    go(q, to, from);
                }
            }
        }
        node
    }
}

/// The least that an access costs on one node, and between two.
fn near_and_far(table: &Table, nodes: usize) -> (f64, f64) {
    let rows = if matches!(table, Table::Pairs { .. }) { nodes } else { 1 };
    let (mut near, mut far) = (f64::INFINITY, f64::INFINITY);
    for a in 0..rows {
        for b in 0..nodes {
            let least = if a == b { &mut near } else { &mut far };
            *least = least.min(table.at(a, b));
        }
    }
    (near, far)
}

/// Half the sum of each row's `guests - 1` largest entries: more than any groups of `guests` have inside.
fn halved(gain: &[f64], processes: usize, guests: usize) -> f64 {
    let partners = guests.saturating_sub(1).min(processes);
    if partners == 0 {
        return 0.0;
    }
    let mut row = Vec::with_capacity(processes);
    let mut sum = 0.0;
    for gains in gain.chunks(processes.max(1)) {
        row.clear();
        row.extend_from_slice(gains);
        if partners < row.len() {
            row.select_nth_unstable_by(partners - 1, |x, y| y.total_cmp(x));
        }
        sum += row.iter().take(partners).sum::<f64>();
    }
    sum / 2.0
}

#[cfg(test)]
mod tests {
    use super::Colocation;
    use crate::model::{CostModel, Matrix, Objective};
    use crate::search::instance::Instance;
    use crate::search::random::Random;
    use crate::{Costs, Model, Placement, placement::Home};

    /// Processes of which each two neighbours read one segment; `slots` of them on each node of a ring.
    fn model(processes: usize, slots: usize, messages: bool) -> Model {
        let entries = |entry: &dyn Fn(usize) -> String| (0..processes).map(entry).collect::<Vec<_>>().join(",");
        let each = |entry: &dyn Fn(usize) -> String| (0..processes / 2).map(entry).collect::<Vec<_>>().join(",");
        let nodes = processes / slots;
        let (accesses, posts) = if messages {
            let post =
                |pair: usize| format!(r#"{{"from":"p{}","to":"p{}","count":9,"size":64}}"#, 2 * pair, 2 * pair + 1);
            (String::new(), each(&post))
        } else {
            let access = |process: usize| {
                format!(
                    r#"{{"process":"p{process}","segment":"s{}","op":"read","count":{},"size":2048}}"#,
                    process / 2,
                    process + 1
                )
            };
            (entries(&access), String::new())
        };
        let text = format!(
            r#"{{"topology":{{"kind":"torus","nodes":{nodes},"dims":[{nodes}],"directed":true}},
                "cost_model":{{"kind":"scipos","mem_mhz":100,"pci_mhz":33,"bridge_mhz":1000,"ring_mhz":500}},
                "processes":[{}],"segments":[{}],"accesses":[{accesses}],"messages":[{posts}],
                "process_slots":[{}]}}"#,
            entries(&|process| format!(r#"{{"id":"p{process}"}}"#)),
            each(&|pair| format!(r#"{{"id":"s{pair}","bytes":8}}"#)),
            vec![slots.to_string(); nodes].join(","),
        );
        Model::from_json(&text).unwrap()
    }

    #[test]
    fn pairs_that_share_are_brought_together_and_nothing_is_cheaper() {
        for (processes, slots, messages) in [(12, 2, false), (12, 2, true), (12, 4, false), (4, 2, true)] {
            let model = model(processes, slots, messages);
            let instance = Instance::new(&model, Objective::Sum);
            let colocation = Colocation::new(&instance).unwrap();
            // Dealt out so that no pair is together.
            let nodes = processes / slots;
            let start: Vec<u32> = (0..processes as u32).map(|process| process % nodes as u32).collect();
            let node = colocation.gather(&instance, &start, &mut Random::new(1), &mut || true);
            let segments = (0..processes / 2).map(|pair| Home::One(node[2 * pair])).collect();
            let cost = Costs::new(&model).evaluate(&Placement { processes: node, segments }).total_ns;
            let bound = colocation.bound();
            assert!(bound <= cost && cost - bound <= 1e-9 * cost, "{processes} {slots} {messages}: {bound} {cost}");
        }
    }

    #[test]
    fn alone_on_every_node_the_heaviest_users_are_near() {
        let model = model(12, 1, false);
        let instance = Instance::new(&model, Objective::Sum);
        let bound = Colocation::new(&instance).unwrap().bound();
        // One of each pair pays the way to the next node.
        let segments = (0..6).map(|pair| Home::One(2 * pair + 1)).collect();
        let cost = Costs::new(&model).evaluate(&Placement { processes: (0..12).collect(), segments }).total_ns;
        assert!(bound <= cost && cost - bound <= 1e-3 * cost, "{bound} {cost}");
    }

    /// What is saved by being at home is as inexact as what being away costs.
    #[test]
    fn where_away_stands_for_never_the_bound_stays_true() {
        for number in 0..50 {
            let mut model = model(4, 2, false);
            let home = 10.0 + f64::from(number) / 97.0;
            let (read_ns, nothing) = (vec![home, 1e15, 1e15, home], vec![0.0; 4]);
            let [write_ns, read_ns_per_byte, write_ns_per_byte] = std::array::from_fn(|_| nothing.clone());
            model.cost_model =
                CostModel::Matrix(Box::new(Matrix { read_ns, write_ns, read_ns_per_byte, write_ns_per_byte }));
            let segments = vec![Home::One(0), Home::One(1)];
            let cost = Costs::new(&model).evaluate(&Placement { processes: vec![0, 0, 1, 1], segments }).total_ns;
            let bound = Colocation::new(&Instance::new(&model, Objective::Sum)).unwrap().bound();
            assert!(bound <= cost, "{bound} {cost}");
        }
    }
}
