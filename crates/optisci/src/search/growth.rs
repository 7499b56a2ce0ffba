//! A mapping to start from on large machines: processes one after another next to their partners.
//!
//! The next process is the one that exchanges most with those that have nodes already; it goes to the free node where
//! that costs least, and of equal ones to the one with the fewest free neighbours, which leaves no holes. Source:
//! R. Glantz, H. Meyerhenke, A. Noe, "Algorithms for mapping parallel processes onto grid and torus architectures", 2015
//! (its greedy construction), with the tie-break of region growing.

use std::collections::BTreeSet;

use super::instance::Instance;
use super::random::Random;

/// Nodes of all processes; `None` when `go_on` said no.
pub fn grow(instance: &Instance<'_>, seed: u64, go_on: &mut dyn FnMut() -> bool) -> Option<Vec<u32>> {
    let (nodes, processes) = (instance.nodes, instance.processes());
    let mut random = Random::new(seed);
    let mut room = instance.process_slots.clone();
    let mut node: Vec<Option<u32>> = vec![None; processes];
    let mut weight = vec![0.0f64; processes];
    // Ordered by weight, then by when the process was first reached: layer by layer.
    let mut reached: BTreeSet<(std::cmp::Reverse<u64>, u64, u32)> = BTreeSet::new();
    let mut when = vec![u64::MAX; processes];
    let mut clock = 0;
    let mut rest: Vec<u32> = (0..processes as u32).collect();
    random.shuffle(&mut rest);
    let (mut costs, mut crowd) = (vec![0.0; nodes], vec![0u32; nodes]);
    let neighbours = |at: usize| {
        // Nodes a step away, whatever the topology calls a step.
        (0..nodes).filter(move |&other| other != at && instance.model.topology.hops(at as u32, other as u32) <= 2)
    };
    let near: Vec<Vec<u32>> = match nodes {
        0..=8192 => (0..nodes).map(|at| neighbours(at).take(64).map(|other| other as u32).collect()).collect(),
        _ => vec![Vec::new(); nodes],
    };
    let mut pinned: Vec<u32> = (0..processes as u32).filter(|&p| instance.process_pin(p as usize).is_some()).collect();
    for placed in 0..processes {
        if placed % 16 == 0 && !go_on() {
            return None;
        }
        let process = match (pinned.pop(), reached.pop_first()) {
            (Some(process), next) => {
                reached.extend(next);
                process
            }
            (None, Some((_, _, process))) => process,
            (None, None) => loop {
                let process = rest.pop()?;
                if node[process as usize].is_none() {
                    break process;
                }
            },
        };
        if node[process as usize].is_some() {
            continue;
        }
        let at = match instance.process_pin(process as usize) {
            Some(pin) => pin,
            None => {
                costs.fill(0.0);
                for &number in instance.posts_of.row(process as usize) {
                    let post = &instance.posts[number as usize];
                    let sends = post.from == process;
                    let Some(other) = node[if sends { post.to } else { post.from } as usize] else { continue };
                    for (at, cost) in costs.iter_mut().enumerate() {
                        if room[at] > 0 {
                            let (a, b) = if sends { (at, other as usize) } else { (other as usize, at) };
                            *cost += instance.post_cost(post, a, b);
                        }
                    }
                }
                let better = |&x: &usize, &y: &usize| {
                    costs[x].total_cmp(&costs[y]).then(crowd[y].cmp(&crowd[x])).then(x.cmp(&y))
                };
                (0..nodes).filter(|&at| room[at] > 0).min_by(better)?
            }
        };
        node[process as usize] = Some(at as u32);
        room[at] -= u64::from(room[at] != u64::MAX);
        near[at].iter().for_each(|&other| crowd[other as usize] += 1);
        for &number in instance.posts_of.row(process as usize) {
            let post = &instance.posts[number as usize];
            let other = if post.from == process { post.to } else { post.from };
            if node[other as usize].is_some() {
                continue;
            }
            let own = other as usize;
            reached.remove(&(std::cmp::Reverse(weight[own].to_bits()), when[own], other));
            if when[own] == u64::MAX {
                clock += 1;
                when[own] = clock;
            }
            weight[own] += post.first.1 + post.second.1;
            reached.insert((std::cmp::Reverse(weight[own].to_bits()), when[own], other));
        }
    }
    node.into_iter().collect()
}
