//! Segments of one size for nodes with so many places each: exact, by shortest augmenting paths.
//!
//! Each segment starts where it is cheapest. As long as a node holds too many, one of them goes elsewhere along the
//! cheapest chain of moves that ends where there is room. With prices on nodes no chain is ever cheaper than nothing,
//! so Dijkstra's algorithm finds it; what remains at the end is optimal. Sources: J. Edmonds and R. Karp 1972, N.
//! Tomizawa 1971 (successive shortest paths with potentials); the transportation problem: F. Hitchcock 1941.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// One segment that could go from one node to another.
struct Exit {
    cost: f64,
    segment: u32,
}

impl PartialEq for Exit {
    fn eq(&self, other: &Exit) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Exit {}

impl PartialOrd for Exit {
    fn partial_cmp(&self, other: &Exit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exit {
    /// The cheapest is the greatest: heaps give the greatest first.
    fn cmp(&self, other: &Exit) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.segment.cmp(&self.segment))
    }
}

/// The node of each segment in a cheapest assignment; `None`: there is no room, or `go_on` said no.
pub fn assign(cost: &[f64], room: &[u64], go_on: &mut dyn FnMut() -> bool) -> Option<Vec<u32>> {
    let nodes = room.len();
    let segments = cost.len() / nodes.max(1);
    let row = |segment: usize| &cost[segment * nodes..][..nodes];
    let mut at = Vec::with_capacity(segments);
    let mut load = vec![0u64; nodes];
    for segment in 0..segments {
        let least = (0..nodes).min_by(|&x, &y| row(segment)[x].total_cmp(&row(segment)[y]).then(x.cmp(&y)))?;
        if row(segment)[least] == f64::INFINITY {
            return None;
        }
        at.push(least as u32);
        load[least] += 1;
    }
    let mut exits: Vec<BinaryHeap<Exit>> = (0..nodes * nodes).map(|_| BinaryHeap::new()).collect();
    let add = |exits: &mut Vec<BinaryHeap<Exit>>, segment: usize, from: usize| {
        for to in (0..nodes).filter(|&to| to != from) {
            let cost = row(segment)[to] - row(segment)[from];
            if cost.is_finite() {
                exits[from * nodes + to].push(Exit { cost, segment: segment as u32 });
            }
        }
    };
    let full: Vec<bool> = (0..nodes).map(|node| load[node] > room[node]).collect();
    if full.iter().any(|&full| full) {
        (0..segments).for_each(|segment| add(&mut exits, segment, at[segment] as usize));
    }
    let mut potential = vec![0.0; nodes];
    let (mut distance, mut from, mut done) = (vec![0.0; nodes], vec![usize::MAX; nodes], vec![false; nodes]);
    for source in 0..nodes {
        let mut count = 0u32;
        while load[source] > room[source] {
            count += 1;
            if count.is_multiple_of(64) && !go_on() {
                return None;
            }
            distance.fill(f64::INFINITY);
            done.fill(false);
            distance[source] = 0.0;
            let end = loop {
                let nearest = (0..nodes)
                    .filter(|&node| !done[node] && distance[node] < f64::INFINITY)
                    .min_by(|&x, &y| distance[x].total_cmp(&distance[y]).then(x.cmp(&y)))?;
                done[nearest] = true;
                if load[nearest] < room[nearest] {
                    break nearest;
                }
                for to in (0..nodes).filter(|&to| !done[to]) {
                    let heap = &mut exits[nearest * nodes + to];
                    while heap.peek().is_some_and(|exit| at[exit.segment as usize] as usize != nearest) {
                        heap.pop();
                    }
                    let Some(exit) = heap.peek() else { continue };
                    let length = distance[nearest] + (exit.cost + potential[nearest] - potential[to]).max(0.0);
                    if length < distance[to] {
                        distance[to] = length;
                        from[to] = nearest;
                    }
                }
            };
            for node in 0..nodes {
                potential[node] += distance[node].min(distance[end]);
            }
            let mut node = end;
            while node != source {
                let before = from[node];
                let exit = exits[before * nodes + node].pop()?;
                at[exit.segment as usize] = node as u32;
                add(&mut exits, exit.segment as usize, node);
                node = before;
            }
            load[source] -= 1;
            load[end] += 1;
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::assign;
    use crate::search::assignment::Assignment;
    use crate::search::random::Random;

    #[test]
    fn chains_lead_to_the_cost_that_prices_prove() {
        let mut random = Random::new(5);
        for _ in 0..300 {
            let (nodes, segments) = (1 + random.below(6), 1 + random.below(12));
            let cost: Vec<f64> = (0..nodes * segments).map(|_| random.below(50) as f64).collect();
            let room: Vec<u64> = (0..nodes).map(|_| random.below(5) as u64).collect();
            let small: Vec<u32> = room.iter().map(|&room| room as u32).collect();
            let proved = Assignment::default().solve(&cost, segments, &small);
            let found = assign(&cost, &room, &mut || true);
            let paid = found.map(|at| at.iter().enumerate().map(|(s, &at)| cost[s * nodes + at as usize]).sum::<f64>());
            assert_eq!(paid, proved, "{cost:?} {room:?}");
        }
    }
}
