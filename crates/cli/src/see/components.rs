//! Which vertices of a graph come back to one another: its strongly connected components.
//!
//! One search in depth finds them all (Gabow, 2000: *Path-based depth-first search for strong and biconnected
//! components*). It keeps the vertices whose components are not known yet in the order in which it came to them, and of
//! these the roots: each vertex belongs with the last root before it. An edge back to such a vertex joins all that lie
//! behind it: their roots are none any more.

/// For each of `count` vertices its component: they have the same if there is a way from each to the other.
pub fn of<Next: Iterator<Item = usize>>(count: usize, next: impl Fn(usize) -> Next) -> Vec<usize> {
    let mut components: Vec<Option<usize>> = vec![None; count];
    let mut positions: Vec<Option<usize>> = vec![None; count];
    let (mut open, mut roots, mut path) = (Vec::new(), Vec::new(), Vec::new());
    for start in 0..count {
        let mut new = positions[start].is_none().then_some(start);
        loop {
            if let Some(vertex) = new.take() {
                positions[vertex] = Some(open.len());
                roots.push(open.len());
                path.push((open.len(), next(vertex)));
                open.push(vertex);
            }
            let Some((position, edges)) = path.last_mut() else { break };
            match edges.next() {
                Some(to) => match positions[to] {
                    None => new = Some(to),
                    Some(back) if components[to].is_none() => {
                        roots.truncate(roots.partition_point(|root| *root <= back))
                    }
                    Some(_) => {}
                },
                None => {
                    let position = *position;
                    path.pop();
                    if roots.pop_if(|root| *root == position).is_some() {
                        let name = open[position];
                        open.drain(position..).for_each(|vertex| components[vertex] = Some(name));
                    }
                }
            }
        }
    }
    components.into_iter().map(|component| component.expect("all were searched")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The graph of so many vertices in which each bit of `edges` is one edge.
    fn has_edge(count: usize, edges: u32, from: usize, to: usize) -> bool {
        edges >> (from * count + to) & 1 == 1
    }

    /// For each two vertices whether there is a way from one to the other, by trying all that may lie between
    /// (Warshall, 1962).
    fn ways(count: usize, edges: u32) -> Vec<Vec<bool>> {
        let mut ways: Vec<Vec<bool>> = (0..count)
            .map(|from| (0..count).map(|to| from == to || has_edge(count, edges, from, to)).collect())
            .collect();
        for between in 0..count {
            for from in 0..count {
                for to in 0..count {
                    ways[from][to] |= ways[from][between] && ways[between][to];
                }
            }
        }
        ways
    }

    #[test]
    fn in_all_small_graphs_those_are_together_that_come_back_to_one_another() {
        for count in 0..=4 {
            for edges in 0..1 << (count * count) {
                let components = of(count, |from| (0..count).filter(move |to| has_edge(count, edges, from, *to)));
                let ways = ways(count, edges);
                for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
                    let are_together = ways[one][other] && ways[other][one];
                    assert_eq!(
                        components[one] == components[other],
                        are_together,
                        "{count} vertices, edges {edges:#b}"
                    );
                }
            }
        }
    }
}
