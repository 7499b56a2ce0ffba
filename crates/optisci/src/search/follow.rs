//! Moving processes while every segment follows its users: annealing over the nodes of processes alone.
//!
//! For each segment the sum that its users pay is kept for every node; the least of it is what the segment costs. A
//! move of a process changes a row of that for each segment that it accesses, so the best homes are known exactly at
//! every step, where alternating between processes and segments would stay caught. Source of annealing with moves and
//! exchanges: D. Connolly, "An improved annealing scheme for the QAP", 1990.

use super::instance::Instance;
use super::random::Random;

/// Nodes of processes, and what segments cost everywhere.
#[derive(Clone)]
pub struct Follow<'a> {
    instance: &'a Instance<'a>,
    node: Vec<u32>,
    guests: Vec<Vec<u32>>,
    room: Vec<u64>,
    sums: Vec<f64>,
    least: Vec<f64>,
    movable: Vec<u32>,
    /// Uses of each process, those of one segment together.
    segments_of: Vec<Vec<(u32, Vec<u32>)>>,
    line: Vec<f64>,
    touched: Vec<(u32, f64)>,
    mark: Vec<u32>,
    stamp: u32,
    whole_nodes: bool,
}

impl<'a> Follow<'a> {
    /// Starts with processes on these nodes.
    pub fn new(instance: &'a Instance<'a>, node: &[u32]) -> Follow<'a> {
        let nodes = instance.nodes;
        let segments_of = (0..instance.processes()).map(|process| {
            let mut list: Vec<(u32, Vec<u32>)> = Vec::new();
            for &number in instance.of_process().row(process) {
                let segment = instance.uses[number as usize].segment;
                match list.last_mut() {
                    Some((last, numbers)) if *last == segment => numbers.push(number),
                    _ => list.push((segment, vec![number])),
                }
            }
            list
        });
        let mut follow = Follow {
            instance,
            node: node.to_vec(),
            guests: vec![Vec::new(); nodes],
            room: instance.process_slots.clone(),
            sums: vec![0.0; instance.segments() * nodes],
            least: vec![0.0; instance.segments()],
            movable: (0..node.len() as u32)
                .filter(|&process| instance.process_pin(process as usize).is_none())
                .collect(),
            segments_of: segments_of.collect(),
            line: vec![0.0; nodes],
            touched: Vec::new(),
            mark: vec![0; instance.segments()],
            stamp: 0,
            whole_nodes: false,
        };
        for (process, &at) in (0..).zip(node) {
            follow.guests[at as usize].push(process);
            follow.room[at as usize] -= 1;
        }
        follow.recount();
        follow
    }

    /// Also tries to exchange all processes of two nodes at once.
    pub fn exchanging_nodes(mut self) -> Follow<'a> {
        self.whole_nodes = true;
        self
    }

    /// What all segments and messages cost, computed anew.
    fn recount(&mut self) -> f64 {
        let nodes = self.instance.nodes;
        for segment in 0..self.least.len() {
            let sums = &mut self.sums[segment * nodes..][..nodes];
            match self.instance.segment_pin(segment) {
                Some(pin) => {
                    sums.fill(f64::INFINITY);
                    sums[pin] = 0.0;
                }
                None => sums.fill(0.0),
            }
            for entry in self.instance.uses_of(segment) {
                self.instance.add_uses(entry, self.node[entry.process as usize] as usize, sums);
            }
            self.least[segment] = sums.iter().copied().fold(f64::INFINITY, f64::min);
        }
        let posts = self.instance.posts.iter().map(|post| {
            self.instance.post_cost(post, self.node[post.from as usize] as usize, self.node[post.to as usize] as usize)
        });
        self.least.iter().sum::<f64>() + posts.sum::<f64>()
    }

    /// What changes if these processes go from their nodes to others. Leaves the new costs of segments in `touched`.
    fn difference(&mut self, moves: &[(u32, u32)]) -> f64 {
        let nodes = self.instance.nodes;
        let mut difference = 0.0;
        self.touched.clear();
        self.stamp += 1;
        for &(process, _) in moves {
            for at in 0..self.segments_of[process as usize].len() {
                let segment = self.segments_of[process as usize][at].0 as usize;
                if self.mark[segment] == self.stamp {
                    continue;
                }
                self.mark[segment] = self.stamp;
                self.line.copy_from_slice(&self.sums[segment * nodes..][..nodes]);
                for &(process, to) in moves {
                    let list = &self.segments_of[process as usize];
                    let Ok(place) = list.binary_search_by_key(&(segment as u32), |entry| entry.0) else { continue };
                    self.instance.shift_uses(&list[place].1, self.node[process as usize], to, &mut self.line);
                }
                let least = self.line.iter().copied().fold(f64::INFINITY, |x, y| if y < x { y } else { x });
                difference += least - self.least[segment];
                self.touched.push((segment as u32, least));
            }
        }
        let place = |process: u32| {
            moves.iter().find(|entry| entry.0 == process).map_or(self.node[process as usize], |entry| entry.1) as usize
        };
        for (index, &(process, _)) in moves.iter().enumerate() {
            for &number in self.instance.posts_of.row(process as usize) {
                let post = &self.instance.posts[number as usize];
                let other = if post.from == process { post.to } else { post.from };
                if moves[..index].iter().any(|entry| entry.0 == other) {
                    continue;
                }
                let (a, b) = (self.node[post.from as usize] as usize, self.node[post.to as usize] as usize);
                difference += self.instance.post_cost(post, place(post.from), place(post.to));
                difference -= self.instance.post_cost(post, a, b);
            }
        }
        difference
    }

    fn commit(&mut self, moves: &[(u32, u32)]) {
        let nodes = self.instance.nodes;
        // Of two that change places each goes where there is room only once the other has left.
        moves.iter().for_each(|&(process, _)| self.room[self.node[process as usize] as usize] += 1);
        for &(process, to) in moves {
            let from = self.node[process as usize];
            for (segment, numbers) in &self.segments_of[process as usize] {
                let sums = &mut self.sums[*segment as usize * nodes..][..nodes];
                self.instance.shift_uses(numbers, from, to, sums);
            }
            self.guests[from as usize].retain(|&other| other != process);
            self.guests[to as usize].push(process);
            self.room[to as usize] -= 1;
            self.node[process as usize] = to;
        }
        self.touched.iter().for_each(|&(segment, least)| self.least[segment as usize] = least);
    }

    /// Processes and where to; none where the random choice leads nowhere.
    fn propose(&self, random: &mut Random, moves: &mut Vec<(u32, u32)>) {
        moves.clear();
        let process = self.movable[random.below(self.movable.len())];
        let from = self.node[process as usize];
        let to = random.below(self.instance.nodes) as u32;
        if from == to {
            return;
        }
        if self.whole_nodes && random.below(2) == 0 {
            return self.exchange_nodes(from, to, moves);
        }
        let guests = &self.guests[to as usize];
        if self.room[to as usize] > 0 && (guests.is_empty() || random.below(2) == 0) {
            return moves.push((process, to));
        }
        if guests.is_empty() {
            return;
        }
        let other = guests[random.below(guests.len())];
        if self.instance.process_pin(other as usize).is_none() {
            moves.extend([(process, to), (other, from)]);
        }
    }

    /// All processes of two nodes change places: who shares a node goes on doing so.
    fn exchange_nodes(&self, a: u32, b: u32, moves: &mut Vec<(u32, u32)>) {
        let slots = |node: u32| self.instance.process_slots[node as usize];
        let guests = |node: u32| &self.guests[node as usize];
        let fits = guests(a).len() as u64 <= slots(b) && guests(b).len() as u64 <= slots(a);
        let mut both = guests(a).iter().chain(guests(b));
        if fits && both.all(|&process| self.instance.process_pin(process as usize).is_none()) {
            moves.extend(guests(a).iter().map(|&process| (process, b)));
            moves.extend(guests(b).iter().map(|&process| (process, a)));
        }
    }

    /// Cools once in `steps` moves and gives the best nodes seen and their cost.
    pub fn cool(
        &mut self,
        random: &mut Random,
        steps: u64,
        heat: f64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> (f64, Vec<u32>) {
        let mut cost = self.recount();
        let mut best = (cost, self.node.clone());
        if self.movable.is_empty() || self.instance.nodes < 2 {
            return best;
        }
        let mut moves = Vec::new();
        let mut sizes: Vec<f64> = Vec::new();
        for _ in 0..100 {
            self.propose(random, &mut moves);
            sizes.push(self.difference(&moves).abs());
        }
        sizes.retain(|&size| size > 0.0);
        if sizes.is_empty() {
            return best;
        }
        sizes.sort_by(f64::total_cmp);
        let mut temperature = sizes[sizes.len() / 2] * heat;
        let end = (sizes[0] * 0.2).min(temperature * 0.02);
        let factor = (end / temperature).powf(1.0 / steps.max(1) as f64);
        for step in 0..steps {
            if step % 256 == 0 {
                if !go_on() {
                    break;
                }
                if step % 65_536 == 0 {
                    cost = self.recount();
                }
            }
            temperature *= factor;
            self.propose(random, &mut moves);
            if moves.is_empty() {
                continue;
            }
            let difference = self.difference(&moves);
            if difference <= 0.0 || random.unit() < (-difference / temperature).exp() {
                self.commit(&moves);
                cost += difference;
                if cost < best.0 * (1.0 - 1e-12) {
                    best = (cost, self.node.clone());
                }
            }
        }
        best
    }
}
