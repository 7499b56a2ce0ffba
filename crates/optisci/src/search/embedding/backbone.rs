//! The messages that show what an application is like: those that its neighbourhoods agree about.
//!
//! On a grid whoever is beside me has neighbours beside mine: every edge closes squares. A message from one end of the
//! machine to the other closes none, and one to a diagonal neighbour fewer triangles than one straight ahead. So an
//! edge counts as much as its bytes and the ways around it of two or three steps say, and each process keeps as many
//! edges as a node has neighbours. Source of looking at short cycles to see whom an edge belongs to: F. Radicchi et
//! al., "Defining and identifying communities in networks", 2004.

use std::collections::HashMap;

use super::super::instance::Instance;

/// Ways around edges that are counted at most.
const MOST_WORK: usize = 50_000_000;

/// Edges of the backbone, both ways, at most `most` for each process; `None` when there is none or too much to count.
/// The strongest edges are taken, or with `typical` those with about as many ways around them as most have: a message
/// across the corner of a square has more.
pub fn edges(instance: &Instance<'_>, most: usize, typical: bool) -> Option<Vec<(u32, u32)>> {
    let mut weights: HashMap<(u32, u32), f64> = HashMap::new();
    for post in &instance.posts {
        *weights.entry((post.from.min(post.to), post.from.max(post.to))).or_insert(0.0) += post.first.1;
    }
    let mut partners: Vec<Vec<u32>> = vec![Vec::new(); instance.processes()];
    for &(x, y) in weights.keys() {
        partners[x as usize].push(y);
        partners[y as usize].push(x);
    }
    partners.iter_mut().for_each(|partners| partners.sort_unstable());
    let degree = |process: u32| partners[process as usize].len();
    let work: usize = weights.keys().map(|&(x, y)| degree(x) * degree(y)).sum();
    if work > MOST_WORK {
        return None;
    }
    let mut strong: Vec<Vec<(f64, u32)>> = vec![Vec::new(); instance.processes()];
    let mut arounds: Vec<((u32, u32), f64)> = Vec::with_capacity(weights.len());
    for &(x, y) in weights.keys() {
        let mut around = 0;
        for &a in partners[x as usize].iter().filter(|&&a| a != y) {
            // Triangles say more than squares: a diagonal closes squares, too.
            around += 4 * usize::from(partners[y as usize].binary_search(&a).is_ok());
            let square = |&&b: &&u32| b != x && b != a && partners[a as usize].binary_search(&b).is_ok();
            around += partners[y as usize].iter().filter(square).count();
        }
        arounds.push(((x, y), around as f64));
    }
    let mut sorted: Vec<f64> = arounds.iter().map(|entry| entry.1).collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    for ((x, y), around) in arounds {
        let around = if typical && around > median { median * median / around } else { around };
        let strength = weights[&(x, y)] * around;
        if strength > 0.0 {
            strong[x as usize].push((strength, y));
            strong[y as usize].push((strength, x));
        }
    }
    let mut kept: Vec<(u32, u32)> = Vec::new();
    for (process, list) in (0..).zip(&mut strong) {
        list.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        kept.extend(list.iter().take(most).map(|&(_, other)| (process, other)));
    }
    kept.sort_unstable();
    let both: Vec<(u32, u32)> = kept.iter().copied().filter(|&(x, y)| kept.binary_search(&(y, x)).is_ok()).collect();
    (!both.is_empty()).then_some(both)
}
