//! One option for each item, proved best: the segments, once the processes are fixed, for every objective and limit.
//!
//! An item is a segment, its options are the homes it may have. An option adds to *rows* (one row for the sum; one per
//! process for the makespan; one per link) of which the largest counts, and uses slots and memory of nodes. Prices on
//! limits and weights of rows turn each option into one number; the sum of the least of them is a bound. The search
//! goes depth first and drops each option that would bring the bound to what is known already. Sources: M. Fisher, "The
//! Lagrangian relaxation method for solving integer programming problems", 1981; M. Held, P. Wolfe, H. Crowder,
//! "Validation of subgradient optimization", 1974; A. Geoffrion 1974 for fixing by reduced costs.

use super::limits::room;
use crate::model::UNLIMITED;

/// Items and options.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// First option of each item, and the end.
    pub start: Vec<u32>,
    /// Bytes that each copy of an item uses.
    pub bytes: Vec<u64>,
    /// Rows and what each option adds to them.
    pub adds: Vec<(u32, f64)>,
    add_start: Vec<u32>,
    /// Nodes of each option.
    pub nodes: Vec<u32>,
    node_start: Vec<u32>,
    /// What the rows hold before any option was chosen.
    pub base: Vec<f64>,
    /// Copies that each node can take, or [`UNLIMITED`].
    pub slots: Vec<u64>,
    /// Bytes that each node can take, or [`UNLIMITED`].
    pub memory: Vec<u64>,
}

/// What is paid for limits, and what rows weigh.
#[derive(Clone, Debug)]
pub struct Prices {
    /// Weight of each row; together at most 1.
    pub row: Vec<f64>,
    /// Price of a slot of each node.
    pub slot: Vec<f64>,
    /// Price of a byte of each node.
    pub byte: Vec<f64>,
}

impl Choice {
    /// No items yet.
    pub fn new(base: Vec<f64>, slots: Vec<u64>, memory: Vec<u64>) -> Choice {
        Choice { start: vec![0], add_start: vec![0], node_start: vec![0], base, slots, memory, ..Choice::default() }
    }

    /// Adds an option to the item that is being built.
    pub fn option(&mut self, nodes: &[u32], adds: impl IntoIterator<Item = (u32, f64)>) {
        self.nodes.extend_from_slice(nodes);
        self.node_start.push(self.nodes.len() as u32);
        self.adds.extend(adds);
        self.add_start.push(self.adds.len() as u32);
    }

    /// Ends the item that is being built.
    pub fn item(&mut self, bytes: u64) {
        self.start.push(self.add_start.len() as u32 - 1);
        self.bytes.push(bytes);
    }

    /// Number of items.
    pub fn items(&self) -> usize {
        self.bytes.len()
    }

    /// Nodes of an option.
    #[inline]
    pub fn nodes_of(&self, option: usize) -> &[u32] {
        &self.nodes[self.node_start[option] as usize..self.node_start[option + 1] as usize]
    }

    /// Rows and what an option adds to them.
    #[inline]
    pub fn adds_of(&self, option: usize) -> &[(u32, f64)] {
        &self.adds[self.add_start[option] as usize..self.add_start[option + 1] as usize]
    }

    /// Options of an item.
    pub fn options(&self, item: usize) -> std::ops::Range<usize> {
        self.start[item] as usize..self.start[item + 1] as usize
    }

    /// What an option costs at these prices, rounded down to a whole number.
    fn priced(&self, prices: &Prices, item: usize, option: usize) -> f64 {
        let rows: f64 = match self.base.len() {
            1 => self.adds_of(option).iter().map(|&(_, add)| add).sum(),
            _ => self.adds_of(option).iter().map(|&(row, add)| prices.row[row as usize] * add).sum(),
        };
        let copy = |&node: &u32| prices.slot[node as usize] + prices.byte[node as usize] * self.bytes[item] as f64;
        let limits: f64 = self.nodes_of(option).iter().map(copy).sum();
        match self.base.len() {
            1 => rows + (limits * (1.0 - 1e-12)).floor(),
            _ => ((rows + limits) * (1.0 - 1e-12)).floor(),
        }
    }

    /// What a solution pays whatever it chooses, less what it may use of the limits for nothing.
    fn constant(&self, prices: &Prices) -> f64 {
        let rows: f64 = match self.base.len() {
            1 => self.base[0],
            _ => (self.base.iter().zip(&prices.row).map(|(base, row)| base * row).sum::<f64>() * (1.0 - 1e-12)).floor(),
        };
        let of = |limits: &[u64], prices: &[f64]| -> f64 {
            limits.iter().zip(prices).map(|(&limit, price)| if *price > 0.0 { limit as f64 * price } else { 0.0 }).sum()
        };
        rows - ((of(&self.slots, &prices.slot) + of(&self.memory, &prices.byte)) * (1.0 + 1e-12)).ceil()
    }

    /// Prices and weights that give a good bound, by subgradient steps towards `target`, and the bound.
    pub fn prices(&self, target: f64, steps: usize) -> (Prices, f64) {
        let (rows, nodes) = (self.base.len(), self.slots.len());
        let mut now = Prices { row: vec![1.0 / rows as f64; rows], slot: vec![0.0; nodes], byte: vec![0.0; nodes] };
        let mut best = (now.clone(), f64::NEG_INFINITY);
        let limited = self.slots.iter().chain(&self.memory).any(|&limit| limit != UNLIMITED);
        if rows == 1 && !limited {
            let bound = self.bound(&now);
            return (now, bound);
        }
        let (mut scale, mut since) = (1.0, 0);
        let mut usage = Usage { load: vec![0.0; rows], slots: vec![0.0; nodes], bytes: vec![0.0; nodes] };
        for _ in 0..steps {
            let Some(value) = self.take_cheapest(&now, &mut usage) else { return (now, f64::INFINITY) };
            if value > best.1 + 1e-9 * value.abs() {
                best = (now.clone(), value);
                since = 0;
            } else {
                since += 1;
                if since % 10 == 0 {
                    scale *= 0.6;
                }
                if scale < 1e-4 {
                    break;
                }
            }
            let goal = if target.is_finite() { target } else { value.abs() * 1.05 + 1.0 };
            let norm = self.norm(&now, &usage);
            if norm == 0.0 {
                break;
            }
            let step = scale * (goal - value).max(1e-6 * goal.abs()) / norm;
            weigh_loaded_rows(&mut now.row, &usage.load, step, scale);
            self.price_limits(&mut now, &usage, step);
        }
        best
    }

    /// Takes the cheapest option of each item, whatever the limits; what that costs. `None` if an item has no option.
    fn take_cheapest(&self, prices: &Prices, usage: &mut Usage) -> Option<f64> {
        usage.load.clone_from(&self.base);
        usage.slots.fill(0.0);
        usage.bytes.fill(0.0);
        let mut value = self.constant(prices);
        for item in 0..self.items() {
            let mut least = (f64::INFINITY, usize::MAX);
            for option in self.options(item) {
                let cost = self.priced(prices, item, option);
                if cost < least.0 {
                    least = (cost, option);
                }
            }
            if least.1 == usize::MAX {
                return None;
            }
            value += least.0;
            self.adds_of(least.1).iter().for_each(|&(row, add)| usage.load[row as usize] += add);
            for &node in self.nodes_of(least.1) {
                usage.slots[node as usize] += 1.0;
                usage.bytes[node as usize] += self.bytes[item] as f64;
            }
        }
        Some(value)
    }

    /// How much more of a node's slots is used than there is; `None` without a limit.
    fn over_slots(&self, usage: &Usage, node: usize) -> Option<f64> {
        (self.slots[node] != UNLIMITED).then(|| usage.slots[node] - self.slots[node] as f64)
    }

    /// As [`Choice::over_slots`] of its memory, as a part of it, and what one byte is of it.
    fn over_memory(&self, usage: &Usage, node: usize) -> Option<(f64, f64)> {
        let byte = if self.memory[node] > 0 { 1.0 / self.memory[node] as f64 } else { 0.0 };
        let over = || (usage.bytes[node] - self.memory[node] as f64) * byte;
        (self.memory[node] != UNLIMITED).then(|| (over(), byte))
    }

    /// The square of how far all that is used is from what it should be.
    fn norm(&self, prices: &Prices, usage: &Usage) -> f64 {
        let mut norm = 0.0;
        if prices.row.len() > 1 {
            let mean = mean(&prices.row, &usage.load);
            norm += usage.load.iter().map(|load| (load - mean) * (load - mean)).sum::<f64>() / usage.load.len() as f64;
        }
        for node in 0..self.slots.len() {
            norm += self.over_slots(usage, node).map_or(0.0, |over| over.powi(2));
            norm += self.over_memory(usage, node).map_or(0.0, |(over, _)| over.powi(2));
        }
        norm
    }

    /// What is used too much costs more from now on.
    fn price_limits(&self, prices: &mut Prices, usage: &Usage, step: f64) {
        for node in 0..self.slots.len() {
            if let Some(over) = self.over_slots(usage, node) {
                prices.slot[node] = (prices.slot[node] + step * over).max(0.0);
            }
            if let Some((over, byte)) = self.over_memory(usage, node) {
                prices.byte[node] = (prices.byte[node] + step * over * byte).max(0.0);
            }
        }
    }

    /// The bound of these prices.
    pub fn bound(&self, prices: &Prices) -> f64 {
        let least = |item: usize| {
            self.options(item).map(|option| self.priced(prices, item, option)).fold(f64::INFINITY, f64::min)
        };
        self.constant(prices) + (0..self.items()).map(least).sum::<f64>()
    }
}

/// What the cheapest options make of rows and limits.
struct Usage {
    load: Vec<f64>,
    /// Slots of each node.
    slots: Vec<f64>,
    /// Bytes of each node.
    bytes: Vec<f64>,
}

fn mean(row: &[f64], load: &[f64]) -> f64 {
    load.iter().zip(row).map(|(load, row)| load * row).sum()
}

/// Rows that hold more than the mean weigh more from now on. Multiplicative steps keep the weights positive.
fn weigh_loaded_rows(row: &mut [f64], load: &[f64], step: f64, most: f64) {
    if row.len() < 2 {
        return;
    }
    let mean = mean(row, load);
    let spread = load.iter().map(|load| (load - mean).abs()).fold(0.0, f64::max);
    if spread > 0.0 {
        let push = (step * spread).min(most);
        row.iter_mut().zip(load).for_each(|(row, load)| {
            *row = (*row * (push * (load - mean) / spread).exp()).max(1e-9);
        });
        let sum: f64 = row.iter().sum::<f64>() * (1.0 + 1e-12);
        row.iter_mut().for_each(|row| *row /= sum);
    }
}

/// One item on the way down.
struct Level {
    /// What the items before it cost.
    spent: f64,
    /// What those behind it cost at least.
    tail: f64,
    options: std::vec::IntoIter<u32>,
    taken: Option<usize>,
}

/// A search for the best options.
pub struct Chooser<'a> {
    choice: &'a Choice,
    reduced: Vec<f64>,
    order: Vec<u32>,
    tail: Vec<f64>,
    tail_bytes: Vec<u128>,
    row: Vec<f64>,
    // What limits still allow. Whole numbers: one byte decides, and an `f64` does not count them above 2^53.
    slots: Vec<u64>,
    memory: Vec<u64>,
    chosen: Vec<u32>,
    enough: f64,
    found: Option<Vec<u32>>,
    visits: u64,
    most_visits: u64,
    open: f64,
    dynamic: bool,
    go_on: &'a mut dyn FnMut() -> bool,
    stopped: bool,
}

impl<'a> Chooser<'a> {
    /// The option of each item in the best solution below `enough`, if there is one, and a bound on what was left out
    /// (infinite: everything was seen).
    pub fn solve(
        choice: &'a Choice,
        prices: &Prices,
        enough: f64,
        most_visits: u64,
        go_on: &'a mut dyn FnMut() -> bool,
    ) -> (Option<(f64, Vec<u32>)>, f64) {
        let items = choice.items();
        let mut reduced = vec![0.0; choice.add_start.len() - 1];
        let mut least = vec![f64::INFINITY; items];
        for (item, least) in least.iter_mut().enumerate() {
            for option in choice.options(item) {
                reduced[option] = choice.priced(prices, item, option);
                *least = least.min(reduced[option]);
            }
        }
        let constant = choice.constant(prices);
        let root = constant + least.iter().sum::<f64>();
        if root >= enough {
            return (None, f64::INFINITY);
        }
        // Options that cannot be in anything better, and items by how much their second choice costs.
        let regret = |item: usize| {
            let mut costs: Vec<f64> = choice.options(item).map(|option| reduced[option] - least[item]).collect();
            costs.retain(|&cost| root + cost < enough);
            costs.sort_by(f64::total_cmp);
            costs.get(1).copied().unwrap_or(f64::INFINITY)
        };
        let regrets: Vec<f64> = (0..items).map(regret).collect();
        let mut order: Vec<u32> = (0..items as u32).collect();
        let limited = choice.memory.iter().any(|&limit| limit != UNLIMITED);
        order.sort_by(|&x, &y| {
            let (x, y) = (x as usize, y as usize);
            let by_bytes = if limited { choice.bytes[y].cmp(&choice.bytes[x]) } else { std::cmp::Ordering::Equal };
            let sure = |item: usize| regrets[item] == f64::INFINITY;
            sure(y).cmp(&sure(x)).then(regrets[y].total_cmp(&regrets[x])).then(by_bytes).then(x.cmp(&y))
        });
        let (mut tail, mut tail_bytes) = (vec![0.0; items + 1], vec![0u128; items + 1]);
        for depth in (0..items).rev() {
            tail[depth] = tail[depth + 1] + least[order[depth] as usize];
            tail_bytes[depth] = tail_bytes[depth + 1] + u128::from(choice.bytes[order[depth] as usize]);
        }
        let mut chooser = Chooser {
            choice,
            reduced,
            order,
            tail,
            tail_bytes,
            row: choice.base.clone(),
            slots: choice.slots.clone(),
            memory: choice.memory.clone(),
            chosen: vec![0; items],
            enough,
            found: None,
            visits: 0,
            most_visits,
            open: f64::INFINITY,
            dynamic: choice.add_start.len() <= 4000
                && choice.slots.iter().chain(&choice.memory).any(|&limit| limit != UNLIMITED),
            go_on,
            stopped: false,
        };
        chooser.explore(constant);
        let open = chooser.open;
        let enough = chooser.enough;
        (chooser.found.map(|chosen| (enough, chosen)), open)
    }

    fn fits(&self, item: usize, option: usize) -> bool {
        let bytes = self.choice.bytes[item];
        self.choice
            .nodes_of(option)
            .iter()
            .all(|&node| self.slots[node as usize] >= 1 && self.memory[node as usize] >= bytes)
    }

    /// Depth first. Choices stand in a list of their own: there may be more of them than calls fit on a stack.
    fn explore(&mut self, spent: f64) {
        let mut levels = Vec::new();
        levels.extend(self.enter(0, spent));
        while let Some(depth) = levels.len().checked_sub(1) {
            let item = self.order[depth] as usize;
            let level: &mut Level = &mut levels[depth];
            if let Some(option) = level.taken.take() {
                self.give_back(item, option);
            }
            let next =
                level.options.next().map(|option| (option as usize, level.spent + self.reduced[option as usize]));
            let Some((option, next)) = next.filter(|(_, next)| next + level.tail < self.enough) else {
                levels.pop();
                continue;
            };
            level.taken = Some(option);
            self.take(item, option);
            self.chosen[item] = option as u32;
            levels.extend(self.enter(depth + 1, next));
        }
    }

    /// What may be tried for the next item; `None` if nothing is left to try below what was chosen so far.
    fn enter(&mut self, depth: usize, spent: f64) -> Option<Level> {
        if depth == self.order.len() {
            let worst = self.row.iter().copied().fold(0.0, f64::max);
            if worst < self.enough {
                self.enough = worst;
                self.found = Some(self.chosen.clone());
            }
            return None;
        }
        self.visits += 1;
        self.stopped |= self.visits.is_multiple_of(512) && !(self.go_on)();
        if self.stopped || self.visits > self.most_visits {
            self.open = self.open.min(spent + self.tail[depth]);
            return None;
        }
        let worst = self.row.iter().copied().fold(0.0, f64::max);
        if worst >= self.enough || self.too_full(depth) {
            return None;
        }
        let tail = if self.dynamic { self.tail_that_fits(depth + 1) } else { self.tail[depth + 1] };
        let item = self.order[depth] as usize;
        let mut options: Vec<u32> = self.choice.options(item).map(|option| option as u32).collect();
        options.retain(|&option| {
            spent + self.reduced[option as usize] + tail < self.enough && self.fits(item, option as usize)
        });
        options.sort_by(|&x, &y| self.reduced[x as usize].total_cmp(&self.reduced[y as usize]).then(x.cmp(&y)));
        Some(Level { spent, tail, options: options.into_iter(), taken: None })
    }

    fn take(&mut self, item: usize, option: usize) {
        let choice = self.choice;
        choice.adds_of(option).iter().for_each(|&(row, add)| self.row[row as usize] += add);
        for node in choice.nodes_of(option).iter().map(|&node| node as usize) {
            self.slots[node] -= u64::from(choice.slots[node] != UNLIMITED);
            self.memory[node] -= if choice.memory[node] != UNLIMITED { choice.bytes[item] } else { 0 };
        }
    }

    fn give_back(&mut self, item: usize, option: usize) {
        let choice = self.choice;
        choice.adds_of(option).iter().for_each(|&(row, add)| self.row[row as usize] -= add);
        for node in choice.nodes_of(option).iter().map(|&node| node as usize) {
            self.slots[node] += u64::from(choice.slots[node] != UNLIMITED);
            self.memory[node] += if choice.memory[node] != UNLIMITED { choice.bytes[item] } else { 0 };
        }
    }

    /// The least that the items from `depth` on cost if each takes an option that still fits.
    fn tail_that_fits(&self, depth: usize) -> f64 {
        let mut sum = 0.0;
        for &item in &self.order[depth..] {
            let item = item as usize;
            let mut least = f64::INFINITY;
            for option in self.choice.options(item) {
                if self.reduced[option] < least && self.fits(item, option) {
                    least = self.reduced[option];
                }
            }
            sum += least;
        }
        sum
    }

    fn too_full(&self, depth: usize) -> bool {
        room(&self.slots) < (self.order.len() - depth) as u128 || room(&self.memory) < self.tail_bytes[depth]
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Chooser, Prices};
    use crate::model::UNLIMITED;

    #[test]
    fn more_items_than_calls_fit_on_a_stack() {
        let items = 100_000;
        let mut choice = Choice::new(vec![0.0], vec![UNLIMITED; 2], vec![UNLIMITED; 2]);
        for _ in 0..items {
            choice.option(&[0], [(0, 1.0)]);
            choice.option(&[1], [(0, 1.0)]);
            choice.item(8);
        }
        let prices = Prices { row: vec![1.0], slot: vec![0.0; 2], byte: vec![0.0; 2] };
        let (found, open) = Chooser::solve(&choice, &prices, f64::INFINITY, u64::MAX, &mut || true);
        let (cost, chosen) = found.unwrap();
        assert_eq!((cost, chosen.len(), open), (items as f64, items, f64::INFINITY));
    }
}
