//! A cost that several processes have together: a table with a dimension for each, and the prices of its entries.

/// The least of a row is taken in so many parts, so that the processor can compute them side by side.
const LANES: usize = 8;

/// A table of costs and its prices. What an entry costs is what the table says plus a price for each of its processes'
/// nodes, and never less than nothing.
#[derive(Clone, Debug)]
pub struct Factor {
    /// Its processes, as numbered in the problem; the last one's node varies fastest in the table.
    pub users: Vec<usize>,
    /// What the table says.
    pub costs: Vec<f64>,
    /// A row for each user: the price of each node.
    pub prices: Vec<f64>,
}

/// Memory that is used again.
#[derive(Default)]
pub struct Scratch {
    rows: Vec<f64>,
    columns: Vec<f64>,
    least: Vec<f64>,
    marginal: Vec<f64>,
}

impl Factor {
    /// Moves to `own` (a row for each process of the problem) what a process pays here at a node wherever the others
    /// are, one process after another.
    pub fn raise(&mut self, nodes: usize, own: &mut [f64], backwards: bool, scratch: &mut Scratch) {
        // The first half of the users as rows, the others as columns: each half needs one look at the table only.
        let half = self.users.len() / 2;
        for columns in [backwards, !backwards] {
            let Scratch { rows, columns: sums, least, marginal } = scratch;
            add_up(&self.prices[..half * nodes], nodes, rows);
            add_up(&self.prices[half * nodes..], nodes, sums);
            least.clear();
            let width = sums.len();
            let range = if columns {
                least.resize(width, f64::INFINITY);
                for (costs, &row) in self.costs.chunks_exact(width).zip(rows.iter()).filter(|(_, row)| row.is_finite())
                {
                    for (least, cost) in least.iter_mut().zip(costs) {
                        let sum = cost + row;
                        *least = if sum < *least { sum } else { *least };
                    }
                }
                least.iter_mut().zip(sums.iter()).for_each(|(least, sum)| *least += sum);
                half..self.users.len()
            } else {
                least.extend(
                    self.costs
                        .chunks_exact(width)
                        .zip(rows.iter())
                        .map(|(costs, &row)| if row.is_finite() { row + least_sum(costs, sums) } else { row }),
                );
                0..half
            };
            let mut stride = least.len();
            for axis in range {
                stride /= nodes;
                marginals(least, nodes, stride, marginal);
                let own = &mut own[self.users[axis] * nodes..][..nodes];
                let prices = &mut self.prices[axis * nodes..][..nodes];
                for ((own, price), moved) in own.iter_mut().zip(prices).zip(marginal.iter_mut()) {
                    *own += *moved;
                    // What is forbidden stays so.
                    *moved = if moved.is_finite() { *moved } else { 0.0 };
                    *price -= *moved;
                }
                for block in least.chunks_exact_mut(stride * nodes) {
                    for (part, moved) in block.chunks_exact_mut(stride).zip(marginal.iter()) {
                        part.iter_mut().for_each(|least| *least -= moved);
                    }
                }
            }
        }
    }

    /// What is left once `process` is at the node `at`; with `gone` nobody else can go there. The numbers of processes
    /// behind it move up.
    pub fn with(&self, nodes: usize, process: usize, at: usize, gone: bool) -> Factor {
        let axis = self.users.iter().position(|&user| user == process);
        let left = |user: &&usize| **user != process;
        let users: Vec<usize> =
            self.users.iter().filter(left).map(|&user| user - usize::from(user > process)).collect();
        let width = nodes - usize::from(gone);
        let mut costs = Vec::with_capacity(width.pow(users.len() as u32));
        copy(&self.costs, nodes, axis, at, gone, &mut costs);
        let mut prices = Vec::with_capacity(users.len() * width);
        for (number, prices_of) in self.prices.chunks_exact(nodes).enumerate() {
            if Some(number) != axis {
                prices.extend((0..nodes).filter(|&node| !(gone && node == at)).map(|node| prices_of[node]));
            }
        }
        if let Some(axis) = axis {
            let paid = self.prices[axis * nodes + at];
            match prices.get_mut(..width) {
                Some(first) => first.iter_mut().for_each(|price| *price += paid),
                None => costs.iter_mut().for_each(|cost| *cost += paid),
            }
        }
        Factor { users, costs, prices }
    }

    /// Whether all users of `other` are users of this one, too.
    pub fn contains(&self, other: &Factor) -> bool {
        other.users.iter().all(|user| self.users.contains(user))
    }

    /// Takes in another one, all of whose users are users of this one.
    pub fn absorb(&mut self, nodes: usize, other: &Factor) {
        let places: Vec<Option<usize>> =
            self.users.iter().map(|user| other.users.iter().position(|own| own == user)).collect();
        let strides: Vec<usize> = places
            .iter()
            .map(|place| place.map_or(0, |place| nodes.pow((other.users.len() - 1 - place) as u32)))
            .collect();
        add_strided(&mut self.costs, nodes, &strides, &other.costs, 0);
        for (place, prices) in places.iter().zip(self.prices.chunks_exact_mut(nodes)) {
            if let Some(place) = place {
                let others = &other.prices[place * nodes..][..nodes];
                prices.iter_mut().zip(others).for_each(|(price, other)| *price += other);
            }
        }
    }
}

/// All sums of one price of each row, the last row's varying fastest.
fn add_up(prices: &[f64], nodes: usize, sums: &mut Vec<f64>) {
    sums.clear();
    sums.push(0.0);
    for row in prices.chunks_exact(nodes).rev() {
        let before = sums.len();
        for &price in row {
            (0..before).for_each(|at| sums.push(sums[at] + price));
        }
        sums.drain(..before);
    }
}

/// The least sum of two entries at the same place.
fn least_sum(costs: &[f64], prices: &[f64]) -> f64 {
    let mut least = [f64::INFINITY; LANES];
    let (costs, rest) = costs.as_chunks::<LANES>();
    let (prices, last) = prices.as_chunks::<LANES>();
    for (costs, prices) in costs.iter().zip(prices) {
        for lane in 0..LANES {
            let sum = costs[lane] + prices[lane];
            least[lane] = if sum < least[lane] { sum } else { least[lane] };
        }
    }
    for (lane, (cost, price)) in rest.iter().zip(last).enumerate() {
        least[lane] = least[lane].min(cost + price);
    }
    least.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The least entry for each place of the dimension with this stride.
fn marginals(entries: &[f64], nodes: usize, stride: usize, marginal: &mut Vec<f64>) {
    marginal.clear();
    marginal.resize(nodes, f64::INFINITY);
    for block in entries.chunks_exact(stride * nodes) {
        for (least, part) in marginal.iter_mut().zip(block.chunks_exact(stride)) {
            *least = part.iter().copied().fold(*least, |x, y| if y < x { y } else { x });
        }
    }
}

/// Copies a table with the dimension `axis` fixed at `at`, and with `gone` all others without `at`.
fn copy(costs: &[f64], nodes: usize, axis: Option<usize>, at: usize, gone: bool, out: &mut Vec<f64>) {
    let stride = costs.len() / nodes;
    let left = axis.and_then(|axis| axis.checked_sub(1));
    match (axis, stride) {
        (Some(0), _) => {
            let part = &costs[at * stride..][..stride];
            if gone && stride > 1 { copy(part, nodes, None, at, gone, out) } else { out.extend_from_slice(part) }
        }
        (_, 1) if gone => {
            out.extend_from_slice(&costs[..at]);
            out.extend_from_slice(&costs[at + 1..]);
        }
        (_, 1) => out.extend_from_slice(costs),
        _ => {
            for (node, part) in costs.chunks_exact(stride).enumerate() {
                if !(gone && node == at) {
                    copy(part, nodes, left, at, gone, out);
                }
            }
        }
    }
}

/// Adds to each entry that of another table with the given stride for each dimension.
fn add_strided(costs: &mut [f64], nodes: usize, strides: &[usize], other: &[f64], start: usize) {
    let (Some((&step, deeper)), part) = (strides.split_first(), costs.len() / nodes) else { return };
    for (node, costs) in costs.chunks_exact_mut(part).enumerate() {
        let at = start + node * step;
        match deeper {
            [] => costs[0] += other[at],
            _ => add_strided(costs, nodes, deeper, other, at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Factor, Scratch};
    use crate::search::random::Random;

    fn table(users: &[usize], nodes: usize, random: &mut Random) -> Factor {
        let costs = (0..nodes.pow(users.len() as u32)).map(|_| random.below(100) as f64).collect();
        Factor { users: users.to_vec(), costs, prices: vec![0.0; users.len() * nodes] }
    }

    /// What an assignment of nodes costs here.
    fn cost(factor: &Factor, nodes: usize, at: &[usize]) -> f64 {
        let entry = factor.users.iter().fold(0, |entry, &user| entry * nodes + at[user]);
        let prices = factor.users.iter().enumerate().map(|(axis, &user)| factor.prices[axis * nodes + at[user]]);
        factor.costs[entry] + prices.sum::<f64>()
    }

    fn assignments(nodes: usize, processes: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..nodes.pow(processes as u32))
            .map(move |number| (0..processes).map(|process| number / nodes.pow(process as u32) % nodes).collect())
    }

    #[test]
    fn moving_costs_to_processes_changes_no_sum() {
        let (nodes, random) = (3, &mut Random::new(1));
        for users in [&[0, 1][..], &[2, 0, 3], &[3, 1, 2, 0]] {
            let before = table(users, nodes, random);
            let (mut factor, mut own) = (before.clone(), vec![0.0; 4 * nodes]);
            for backwards in [false, true, false] {
                factor.raise(nodes, &mut own, backwards, &mut Scratch::default());
                for at in assignments(nodes, 4) {
                    let paid: f64 = (0..4).map(|process| own[process * nodes + at[process]]).sum();
                    assert!(cost(&factor, nodes, &at) >= 0.0);
                    assert_eq!(cost(&factor, nodes, &at) + paid, cost(&before, nodes, &at));
                }
                let total: f64 = own.iter().sum();
                assert!(total > 0.0);
            }
        }
    }

    #[test]
    fn placing_a_process_leaves_the_costs_of_the_others() {
        let (nodes, random) = (3, &mut Random::new(2));
        for users in [&[0, 1][..], &[2, 0, 3], &[3, 1, 2, 0]] {
            let mut factor = table(users, nodes, random);
            factor.raise(nodes, &mut [0.0; 12], false, &mut Scratch::default());
            for process in 0..4 {
                for (at, gone) in [(1, false), (2, true), (0, true)] {
                    let rest = factor.with(nodes, process, at, gone);
                    let width = nodes - usize::from(gone);
                    for others in assignments(width, 3) {
                        let far = |node: usize| node + usize::from(gone && node >= at);
                        let mut all: Vec<usize> = others.iter().map(|&node| far(node)).collect();
                        all.insert(process, at);
                        assert_eq!(cost(&rest, width, &others), cost(&factor, nodes, &all), "{users:?} {process} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_absorbed_is_paid_there() {
        let (nodes, random) = (3, &mut Random::new(3));
        let large = table(&[3, 1, 0], nodes, random);
        for users in [&[0, 3][..], &[1], &[0, 1, 3]] {
            let mut small = table(users, nodes, random);
            small.prices.iter_mut().for_each(|price| *price = random.below(9) as f64);
            let mut both = large.clone();
            assert!(both.contains(&small) && !both.contains(&table(&[2], nodes, random)));
            both.absorb(nodes, &small);
            for at in assignments(nodes, 4) {
                assert_eq!(cost(&both, nodes, &at), cost(&large, nodes, &at) + cost(&small, nodes, &at));
            }
        }
    }
}
