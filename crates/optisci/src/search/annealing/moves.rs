//! Moves: which one is tried, what it changes, and the placement after it.

use super::super::random::Random;
use super::Annealing;

#[derive(Clone, Copy)]
pub(super) enum Move {
    /// A process, and where to.
    Process(u32, u32),
    SwapProcesses(u32, u32),
    /// A segment or a copy of it, from where and where to.
    Segment(u32, u32, u32),
    SwapSegments(u32, u32),
    /// A segment, and where it has one more copy, or one less.
    Add(u32, u32),
    Drop(u32, u32),
}

impl Annealing<'_> {
    fn bytes(&self, segment: u32) -> u64 {
        self.instance.model.segments[segment as usize].bytes
    }

    fn room_for(&self, segment: u32, at: u32) -> bool {
        let at = at as usize;
        self.segments_on[at] < self.instance.segment_slots[at]
            && self.instance.memory[at].saturating_sub(self.bytes_on[at]) >= self.bytes(segment)
    }

    /// Where to: any node, or one where something is that has to do with what moves. On a large machine hardly any
    /// other node is of use.
    fn target(&self, random: &mut Random, near: impl Fn(&mut Random) -> Option<u32>) -> u32 {
        let node = if random.below(2) == 0 { near(random) } else { None };
        node.unwrap_or_else(|| random.below(self.instance.nodes) as u32)
    }

    /// The node of a segment that a process accesses, or of a partner of its messages.
    fn near_process(&self, process: u32, random: &mut Random) -> Option<u32> {
        let uses = self.instance.of_process().row(process as usize);
        let posts = self.instance.posts_of.row(process as usize);
        match random.below((uses.len() + posts.len()).max(1)) {
            at if at < uses.len() => {
                let copies = &self.copies[self.instance.uses[uses[at] as usize].segment as usize];
                Some(copies[random.below(copies.len())])
            }
            at if at - uses.len() < posts.len() => {
                let post = &self.instance.posts[posts[at - uses.len()] as usize];
                Some(self.node[if post.from == process { post.to } else { post.from } as usize])
            }
            _ => None,
        }
    }

    /// A move that obeys all limits, or none this time.
    pub(super) fn propose(&self, random: &mut Random) -> Option<Move> {
        let (processes, segments) = (self.movable_processes.len(), self.movable_segments.len());
        if processes + segments == 0 {
            return None;
        }
        // Processes are fewer but weigh more: at least a third of the moves.
        let weight = if processes == 0 { 0 } else { processes.max(segments / 2).max(1) };
        if random.below(weight + segments) < weight {
            let process = self.movable_processes[random.below(processes)];
            let target = self.target(random, |random| self.near_process(process, random));
            let from = self.node[process as usize];
            if from == target {
                return None;
            }
            let room = self.on_node[target as usize] < self.instance.process_slots[target as usize];
            let guests = &self.guests[target as usize];
            if room && (guests.is_empty() || random.below(2) == 0) {
                return Some(Move::Process(process, target));
            }
            if guests.is_empty() {
                return None;
            }
            let other = guests[random.below(guests.len())];
            let free = self.instance.process_pin(other as usize).is_none();
            return free.then_some(Move::SwapProcesses(process, other));
        }
        let segment = self.movable_segments[random.below(segments)];
        let target = self.target(random, |random| {
            let uses = self.instance.uses_of(segment as usize);
            Some(self.node[uses[random.below(uses.len())].process as usize])
        });
        let copies = &self.copies[segment as usize];
        let replicable = self.instance.may_have_copies(segment as usize);
        if copies.contains(&target) {
            return (copies.len() > 1).then_some(Move::Drop(segment, target));
        }
        if replicable && random.below(2) == 0 {
            return self.room_for(segment, target).then_some(Move::Add(segment, target));
        }
        let from = copies[random.below(copies.len())];
        if self.room_for(segment, target) {
            return Some(Move::Segment(segment, from, target));
        }
        if copies.len() > 1 {
            return None;
        }
        // Exchange with a segment that is there.
        let there = &self.residents[target as usize];
        let fits =
            |at: u32, out: u64, into: u64| self.bytes_on[at as usize] - out + into <= self.instance.memory[at as usize];
        for _ in 0..if there.is_empty() { 0 } else { 8 } {
            let other = there[random.below(there.len())];
            let (mine, theirs) = (self.bytes(segment), self.bytes(other));
            if fits(from, mine, theirs) && fits(target, theirs, mine) {
                return Some(Move::SwapSegments(segment, other));
            }
        }
        None
    }

    /// Collects what a move changes.
    pub(super) fn try_move(&mut self, step: Move) -> f64 {
        match step {
            Move::Process(process, to) => {
                let from = self.node[process as usize];
                self.process_load(process, from, -1.0, None);
                self.process_load(process, to, 1.0, None);
            }
            Move::SwapProcesses(p, q) => {
                let (a, b) = (self.node[p as usize], self.node[q as usize]);
                self.process_load(p, a, -1.0, Some((q, b)));
                self.process_load(q, b, -1.0, Some((p, a)));
                self.process_load(p, b, 1.0, Some((q, a)));
                self.process_load(q, a, 1.0, Some((p, b)));
            }
            Move::Segment(segment, from, to) => {
                self.segment_load(segment as usize, -1.0, None);
                self.replace(segment, from, to);
                self.segment_load(segment as usize, 1.0, None);
                self.replace(segment, to, from);
            }
            Move::SwapSegments(s, t) => {
                let (a, b) = (self.copies[s as usize][0], self.copies[t as usize][0]);
                for (segment, from, to) in [(s, a, b), (t, b, a)] {
                    self.segment_load(segment as usize, -1.0, None);
                    self.replace(segment, from, to);
                    self.segment_load(segment as usize, 1.0, None);
                    self.replace(segment, to, from);
                }
            }
            Move::Add(segment, at) => {
                self.segment_load(segment as usize, -1.0, None);
                self.copies[segment as usize].push(at);
                self.segment_load(segment as usize, 1.0, None);
                self.copies[segment as usize].pop();
            }
            Move::Drop(segment, at) => {
                self.segment_load(segment as usize, -1.0, None);
                let place = self.copies[segment as usize].iter().position(|&other| other == at).unwrap_or(0);
                let removed = self.copies[segment as usize].remove(place);
                self.segment_load(segment as usize, 1.0, None);
                self.copies[segment as usize].insert(place, removed);
            }
        }
        self.difference()
    }

    fn replace(&mut self, segment: u32, from: u32, to: u32) {
        self.copies[segment as usize].iter_mut().filter(|at| **at == from).for_each(|at| *at = to);
    }

    pub(super) fn commit(&mut self, step: Move) {
        self.keep();
        match step {
            Move::Process(process, to) => self.relocate(process, to),
            Move::SwapProcesses(p, q) => {
                let (a, b) = (self.node[p as usize], self.node[q as usize]);
                self.relocate(p, b);
                self.relocate(q, a);
            }
            Move::Segment(segment, from, to) => {
                self.leave(segment);
                self.replace(segment, from, to);
                self.settle(segment);
                self.count(segment, from, false);
                self.count(segment, to, true);
            }
            Move::SwapSegments(s, t) => {
                let (a, b) = (self.copies[s as usize][0], self.copies[t as usize][0]);
                self.commit(Move::Segment(s, a, b));
                self.commit(Move::Segment(t, b, a));
            }
            Move::Add(segment, at) => {
                self.leave(segment);
                self.copies[segment as usize].push(at);
                self.count(segment, at, true);
            }
            Move::Drop(segment, at) => {
                self.copies[segment as usize].retain(|&other| other != at);
                self.settle(segment);
                self.count(segment, at, false);
            }
        }
    }

    /// Lists a segment where it is, if it has one copy.
    pub(super) fn settle(&mut self, segment: u32) {
        if let [at] = self.copies[segment as usize][..] {
            let there = &mut self.residents[at as usize];
            self.seats[segment as usize] = there.len() as u32;
            there.push(segment);
        }
    }

    /// Takes a segment off the list of where it is, if it has one copy.
    fn leave(&mut self, segment: u32) {
        if let [at] = self.copies[segment as usize][..] {
            let (there, seat) = (&mut self.residents[at as usize], self.seats[segment as usize]);
            there.swap_remove(seat as usize);
            if let Some(&moved) = there.get(seat as usize) {
                self.seats[moved as usize] = seat;
            }
        }
    }

    fn relocate(&mut self, process: u32, to: u32) {
        let from = self.node[process as usize] as usize;
        self.node[process as usize] = to;
        self.on_node[from] -= 1;
        self.on_node[to as usize] += 1;
        self.guests[from].retain(|&other| other != process);
        self.guests[to as usize].push(process);
    }

    fn count(&mut self, segment: u32, at: u32, arrives: bool) {
        let bytes = self.bytes(segment);
        let (slots, held) = (&mut self.segments_on[at as usize], &mut self.bytes_on[at as usize]);
        if arrives {
            *slots += 1;
            *held += bytes;
        } else {
            *slots -= 1;
            *held -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Annealing, Move, Random};
    use crate::model::Objective;
    use crate::placement::Home;
    use crate::search::instance::Instance;
    use crate::{Model, Placement};

    /// Where all memory is taken, exchanges are all there is, however many nodes there are.
    #[test]
    fn segments_of_full_nodes_are_exchanged() {
        let (nodes, each) = (64, 10);
        let segments = (0..nodes * each).map(|number| json!({"id": format!("s{number}"), "bytes": 10}));
        let access =
            |number| json!({"process": "p", "segment": format!("s{number}"), "op": "read", "count": 1, "size": 8});
        let model = json!({
            "topology": {"kind": "torus", "dims": [nodes]},
            "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
            "processes": [{"id": "p", "pin": 0}],
            "segments": segments.collect::<Vec<_>>(),
            "accesses": (0..nodes * each).map(access).collect::<Vec<_>>(),
            "memory_bytes": vec![10 * each; nodes],
        });
        let model = Model::from_json(&model.to_string()).unwrap();
        let instance = Instance::new(&model, Objective::Sum);
        let homes = (0..nodes * each).map(|number| Home::One((number / each) as u32));
        let mut state = Annealing::new(&instance, &Placement { processes: vec![0], segments: homes.collect() });
        let mut random = Random::new(1);
        let mut exchanges = 0;
        for _ in 0..1000 {
            let Some(step) = state.propose(&mut random) else { continue };
            let Move::SwapSegments(one, other) = step else { panic!("there is room on a full node") };
            assert_ne!(state.copies[one as usize], state.copies[other as usize]);
            state.commit(step);
            exchanges += 1;
        }
        assert!(exchanges > 900, "{exchanges}");
        for (node, there) in state.residents.iter().enumerate() {
            assert_eq!(there.len(), each);
            assert!(there.iter().all(|&segment| state.copies[segment as usize] == [node as u32]));
        }
    }
}
