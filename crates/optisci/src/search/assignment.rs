//! The cheapest way to give each row a column, when each column takes only so many rows.
//!
//! Shortest augmenting paths with row and column prices, started from the row minima. Every cost is a whole number held
//! in an `f64` below 2^53 (or infinite: forbidden), so prices and reduced costs are exact. Sources: R. Jonker and
//! A. Volgenant, "A shortest augmenting path algorithm for dense and sparse linear assignment problems", 1987;
//! N. Tomizawa 1971. Columns that take several rows: the transportation problem with supplies of one.

const NONE: u32 = u32::MAX;

/// Solves assignments one after another without allocating anew.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    /// Price of each row; with `column_price` a bound on every cost: `cost >= row + column`.
    pub row_price: Vec<f64>,
    /// Price of each column, never positive, 0 while the column has room.
    pub column_price: Vec<f64>,
    /// Column of each row.
    pub column: Vec<u32>,
    load: Vec<u32>,
    first: Vec<u32>,
    next: Vec<u32>,
    distance: Vec<f64>,
    from: Vec<u32>,
    done: Vec<bool>,
    scanned: Vec<u32>,
}

impl Assignment {
    /// The least cost, or `None` when no assignment exists. `cost` holds `rows` rows of `room.len()` columns.
    pub fn solve(&mut self, cost: &[f64], rows: usize, room: &[u32]) -> Option<f64> {
        let columns = room.len();
        self.reset(rows, columns);
        let mut unassigned = 0;
        for row in 0..rows {
            let costs = &cost[row * columns..][..columns];
            let (mut least, mut at) = (f64::INFINITY, usize::MAX);
            for (column, &cost) in costs.iter().enumerate() {
                if cost < least {
                    (least, at) = (cost, column);
                }
            }
            if at == usize::MAX {
                return None;
            }
            self.row_price[row] = least;
            if self.load[at] < room[at] {
                self.put(row, at);
            } else {
                unassigned += 1;
            }
        }
        if unassigned > 0 {
            for row in 0..rows {
                if self.column[row] == NONE && !self.augment(cost, row, room) {
                    return None;
                }
            }
        }
        let rows: f64 = self.row_price[..rows].iter().sum();
        Some(rows + room.iter().zip(&self.column_price).map(|(&room, price)| f64::from(room) * price).sum::<f64>())
    }

    fn reset(&mut self, rows: usize, columns: usize) {
        self.row_price.clear();
        self.row_price.resize(rows, 0.0);
        self.column.clear();
        self.column.resize(rows, NONE);
        self.next.clear();
        self.next.resize(rows, NONE);
        self.column_price.clear();
        self.column_price.resize(columns, 0.0);
        self.load.clear();
        self.load.resize(columns, 0);
        self.first.clear();
        self.first.resize(columns, NONE);
    }

    fn put(&mut self, row: usize, column: usize) {
        self.column[row] = column as u32;
        self.next[row] = self.first[column];
        self.first[column] = row as u32;
        self.load[column] += 1;
    }

    fn take(&mut self, row: usize) {
        let column = self.column[row] as usize;
        let after = self.next[row];
        if self.first[column] == row as u32 {
            self.first[column] = after;
        } else {
            let mut before = self.first[column] as usize;
            while self.next[before] != row as u32 {
                before = self.next[before] as usize;
            }
            self.next[before] = after;
        }
        self.load[column] -= 1;
    }

    /// Finds room for one more row along a shortest path of moves.
    fn augment(&mut self, cost: &[f64], start: usize, room: &[u32]) -> bool {
        let columns = room.len();
        self.distance.clear();
        self.from.clear();
        self.from.resize(columns, start as u32);
        self.done.clear();
        self.done.resize(columns, false);
        self.scanned.clear();
        let price = self.row_price[start];
        let costs = &cost[start * columns..][..columns];
        self.distance.extend(costs.iter().zip(&self.column_price).map(|(cost, column)| cost - price - column));
        let (end, length) = loop {
            let (mut least, mut at) = (f64::INFINITY, usize::MAX);
            for column in 0..columns {
                if !self.done[column] && self.distance[column] < least {
                    (least, at) = (self.distance[column], column);
                }
            }
            if at == usize::MAX {
                return false;
            }
            if self.load[at] < room[at] {
                break (at, least);
            }
            self.done[at] = true;
            self.scanned.push(at as u32);
            let mut row = self.first[at];
            while row != NONE {
                let costs = &cost[row as usize * columns..][..columns];
                let offset = least - self.row_price[row as usize];
                for (column, cost) in costs.iter().enumerate() {
                    let distance = offset + cost - self.column_price[column];
                    if !self.done[column] && distance < self.distance[column] {
                        self.distance[column] = distance;
                        self.from[column] = row;
                    }
                }
                row = self.next[row as usize];
            }
        };
        for at in 0..self.scanned.len() {
            let column = self.scanned[at] as usize;
            let change = length - self.distance[column];
            self.column_price[column] -= change;
            let mut row = self.first[column];
            while row != NONE {
                self.row_price[row as usize] += change;
                row = self.next[row as usize];
            }
        }
        self.row_price[start] += length;
        let mut column = end;
        loop {
            let row = self.from[column] as usize;
            if row == start {
                self.put(row, column);
                return true;
            }
            let before = self.column[row] as usize;
            self.take(row);
            self.put(row, column);
            column = before;
        }
    }
}
