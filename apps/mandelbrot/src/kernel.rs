//! Escape-time iteration of z := z² + c from z = 0, fast and exact.
//!
//! The count of a point is the number of iterations until |z| > 2, at most `max_iter`, which also marks the points
//! inside. `count_plainly` in the tests is the definition; everything else in this file is a faster way to the same
//! numbers, bit for bit:
//!
//! * Rust never fuses or reorders floating-point operations, and every path does the same operations in the same order
//!   for a point, so a count depends on the point alone, not on its neighbours, the slice or the thread.
//! * [`LANES`] points are iterated side by side, so that the compiler uses vector instructions and the processor
//!   overlaps their latencies. A finished point makes room for the next one of the slice.
//! * A block of [`BLOCK`] iterations runs blind; a point that left the disc meanwhile is repeated step by step from
//!   the block's start to find the iteration. That is exact: |z| > 2 ≥ |c| grows for ever, except where rounding takes
//!   it back to 2, which needs c within a few units in the last place of -2, where one step moves z away from 2 by a
//!   factor of 4 at most: after a block it is still nearer to 2 than [`SUSPICIOUS`], and repeated.
//! * Where the problem allows early outs, points inside are recognised: those well within the main cardioid and the
//!   disc left of it by formula, the others when z takes exactly a value that it had before, because from there on it
//!   repeats itself.

use std::ops::Range;

use crate::problem::Problem;

/// Points iterated side by side.
const LANES: usize = 8;
/// Iterations between two looks at the points.
const BLOCK: u32 = 16;
/// |z|² from which a block is repeated step by step.
const SUSPICIOUS: f64 = 3.99;

/// Counts of the given rows, row by row from the left.
#[allow(dead_code, reason = "programs of benchmarks and tests, who have the memory")]
pub fn counts(problem: &Problem, rows: Range<u32>) -> Vec<u32> {
    let mut counts = vec![0; rows.len() * problem.width() as usize];
    count(problem, rows, &mut counts);
    counts
}

/// Counts the given rows, row by row from the left, of which there are as many points as `counts`.
pub fn count(problem: &Problem, rows: Range<u32>, counts: &mut [u32]) {
    counts.fill(problem.max_iter());
    let columns: Vec<f64> = (0..problem.width()).map(|column| problem.x(column)).collect();
    let points = rows.flat_map(|row| {
        let y = problem.y(row);
        columns.iter().map(move |&x| (x, y))
    });
    let early_outs = problem.early_outs();
    // Most points outside leave within a few iterations: not worth a lane. What lies beyond the lead is whole blocks.
    let max_iter = problem.max_iter();
    let lead = if max_iter < BLOCK { max_iter } else { BLOCK + max_iter % BLOCK };
    let mut lanes = Lanes::new(lead, (max_iter - lead) / BLOCK, early_outs);
    for (pixel, c) in points.enumerate() {
        if early_outs && is_well_inside(c) {
            continue;
        }
        let mut z = (0.0, 0.0);
        if let Some(steps) = steps_to_escape(&mut z, c, lead) {
            counts[pixel] = steps;
        } else if lead < max_iter {
            while lanes.is_full() {
                lanes.advance(counts);
            }
            lanes.admit(pixel, c, z);
        }
    }
    while !lanes.is_empty() {
        lanes.advance(counts);
    }
}

/// One step of the iteration. Both this and [`Lanes::advance`] spell it in the same operations and order.
#[inline(always)]
fn step(zx: f64, zy: f64, cx: f64, cy: f64) -> (f64, f64) {
    let xy = zx * zy;
    ((zx * zx - zy * zy) + cx, (xy + xy) + cy)
}

/// Iterates at most `limit` times; after how many of them z had left the disc of radius 2, if it did.
#[inline]
fn steps_to_escape(z: &mut (f64, f64), (cx, cy): (f64, f64), limit: u32) -> Option<u32> {
    for steps in 1..=limit {
        *z = step(z.0, z.1, cx, cy);
        if z.0 * z.0 + z.1 * z.1 > 4.0 {
            return Some(steps);
        }
    }
    None
}

/// Whether the point lies in the main cardioid or in the disc of period 2, by more than rounding could matter.
#[inline]
fn is_well_inside((x, y): (f64, f64)) -> bool {
    const MARGIN: f64 = 1e-9;
    let y2 = y * y;
    let q = (x - 0.25) * (x - 0.25) + y2;
    q * (q + (x - 0.25)) < 0.25 * y2 - MARGIN || (x + 1.0) * (x + 1.0) + y2 < 0.0625 - MARGIN
}

/// The points that are being iterated. Lanes from `used` on are empty and only keep the arithmetic company.
struct Lanes {
    zx: [f64; LANES],
    zy: [f64; LANES],
    cx: [f64; LANES],
    cy: [f64; LANES],
    /// An earlier value of z: meeting it again proves that the point never leaves.
    earlier_x: [f64; LANES],
    earlier_y: [f64; LANES],
    /// Blocks that are done.
    blocks: [u32; LANES],
    /// Block after which `earlier` is renewed or the point is at its last iteration.
    due: [u32; LANES],
    pixel: [usize; LANES],
    used: usize,
    /// Iterations that every point did before it came here.
    lead: u32,
    /// Blocks after which a point counts as inside.
    all_blocks: u32,
    early_outs: bool,
}

impl Lanes {
    fn new(lead: u32, all_blocks: u32, early_outs: bool) -> Lanes {
        Lanes {
            zx: [0.0; LANES],
            zy: [0.0; LANES],
            cx: [0.0; LANES],
            cy: [0.0; LANES],
            earlier_x: [f64::NAN; LANES],
            earlier_y: [f64::NAN; LANES],
            blocks: [0; LANES],
            due: [u32::MAX; LANES],
            pixel: [0; LANES],
            used: 0,
            lead,
            all_blocks,
            early_outs,
        }
    }

    fn is_full(&self) -> bool {
        self.used == LANES
    }

    fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Takes in a point that has done the lead and is at `z`.
    fn admit(&mut self, pixel: usize, c: (f64, f64), z: (f64, f64)) {
        let lane = self.used;
        self.used += 1;
        (self.cx[lane], self.cy[lane]) = c;
        (self.zx[lane], self.zy[lane]) = z;
        self.blocks[lane] = 0;
        self.pixel[lane] = pixel;
        self.renew(lane);
    }

    /// Remembers z and decides when to do so next: after twice as many blocks (R. P. Brent's way to find a cycle of
    /// any length with one remembered value).
    fn renew(&mut self, lane: usize) {
        if self.early_outs {
            (self.earlier_x[lane], self.earlier_y[lane]) = (self.zx[lane], self.zy[lane]);
        }
        self.due[lane] = self.blocks[lane].saturating_mul(2).clamp(1, self.all_blocks);
    }

    /// One block of iterations for all lanes, then the lanes that need it are looked at.
    fn advance(&mut self, counts: &mut [u32]) {
        let (start_x, start_y) = (self.zx, self.zy);
        let (mut zx, mut zy) = (self.zx, self.zy);
        for _ in 0..BLOCK {
            for lane in 0..LANES {
                (zx[lane], zy[lane]) = step(zx[lane], zy[lane], self.cx[lane], self.cy[lane]);
            }
        }
        (self.zx, self.zy) = (zx, zy);
        let mut attention = false;
        for lane in 0..LANES {
            self.blocks[lane] = self.blocks[lane].wrapping_add(1);
            let stays = zx[lane] * zx[lane] + zy[lane] * zy[lane] <= SUSPICIOUS;
            let repeats = (zx[lane] == self.earlier_x[lane]) & (zy[lane] == self.earlier_y[lane]);
            attention |= !stays | repeats | (self.blocks[lane] == self.due[lane]);
        }
        if attention {
            // Downwards, because the last lane moves into the place of one that ends.
            for lane in (0..self.used).rev() {
                if let Some(count) = self.examine(lane, (start_x[lane], start_y[lane])) {
                    counts[self.pixel[lane]] = count;
                    self.dismiss(lane);
                }
            }
        }
    }

    /// The count of a lane's point, if it is known after the present block, which began at `start`.
    fn examine(&mut self, lane: usize, start: (f64, f64)) -> Option<u32> {
        let c = (self.cx[lane], self.cy[lane]);
        let (zx, zy) = (self.zx[lane], self.zy[lane]);
        let stays = zx * zx + zy * zy <= SUSPICIOUS;
        if !stays {
            let mut z = start;
            if let Some(steps) = steps_to_escape(&mut z, c, BLOCK) {
                return Some(self.lead + (self.blocks[lane] - 1) * BLOCK + steps);
            }
        }
        let repeats = zx == self.earlier_x[lane] && zy == self.earlier_y[lane];
        if repeats || self.blocks[lane] == self.all_blocks {
            return Some(self.lead + self.all_blocks * BLOCK);
        }
        if self.blocks[lane] == self.due[lane] {
            self.renew(lane);
        }
        None
    }

    /// Moves the last point into the lane.
    fn dismiss(&mut self, lane: usize) {
        self.used -= 1;
        let last = self.used;
        for field in [&mut self.zx, &mut self.zy, &mut self.cx, &mut self.cy, &mut self.earlier_x, &mut self.earlier_y]
        {
            field[lane] = field[last];
        }
        self.blocks[lane] = self.blocks[last];
        self.due[lane] = self.due[last];
        self.pixel[lane] = self.pixel[last];
        (self.cx[last], self.cy[last], self.zx[last], self.zy[last]) = (0.0, 0.0, 0.0, 0.0);
        (self.earlier_x[last], self.earlier_y[last], self.due[last]) = (f64::NAN, f64::NAN, u32::MAX);
    }
}

/// The definition of a count, one iteration at a time: what the tests hold the fast paths against.
#[cfg(test)]
fn count_plainly(cx: f64, cy: f64, max_iter: u32) -> u32 {
    let (mut zx, mut zy, mut count) = (0.0, 0.0, 0);
    while count < max_iter && zx * zx + zy * zy <= 4.0 {
        (zx, zy) = (zx * zx - zy * zy + cx, 2.0 * zx * zy + cy);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use slices::Work;

    use super::*;
    use crate::problem::Region;
    use proptest::prelude::*;

    fn both_ways(size: (u32, u32), max_iter: u32, region: Region) {
        for early_outs in [true, false] {
            let problem = Problem::checked(size, 1, max_iter, region, early_outs).unwrap();
            let fast = counts(&problem, 0..problem.height());
            for (pixel, &count) in fast.iter().enumerate() {
                let (x, y) = (problem.x(pixel as u32 % size.0), problem.y(pixel as u32 / size.0));
                assert_eq!(count, count_plainly(x, y, max_iter), "at {x:e}{y:+e}i, early outs {early_outs}");
            }
        }
    }

    #[test]
    fn the_full_set_has_the_counts_of_the_definition() {
        both_ways((150, 150), 1750, Region::FULL_SET);
    }

    #[test]
    fn every_limit_around_the_block_length_has_the_counts_of_the_definition() {
        for max_iter in (1..=70).chain([255, 256, 257]) {
            both_ways((40, 40), max_iter, Region::FULL_SET);
        }
    }

    #[test]
    fn the_boundary_of_the_set_has_the_counts_of_the_definition() {
        both_ways((60, 60), 20_000, Region { x0: -0.7500001, x1: -0.7499999, y0: -1e-7, y1: 1e-7 });
        both_ways((60, 60), 20_000, Region { x0: 0.2499, x1: 0.2501, y0: -1e-4, y1: 1e-4 });
        both_ways((60, 60), 5_000, Region { x0: -0.7436, x1: -0.7435, y0: 0.1313, y1: 0.1314 });
    }

    #[test]
    fn points_within_rounding_of_the_edge_of_the_disc_have_the_counts_of_the_definition() {
        // Some units in the last place around -2, 2 and 2i.
        for (x, y) in [(-2.0, 0.0), (2.0, 0.0), (0.0, 2.0), (-2.0, 1e-16)] {
            let d = 8.0 * f64::EPSILON;
            both_ways((33, 33), 1000, Region { x0: x - d, x1: x + d, y0: y - d, y1: y + d });
        }
    }

    #[test]
    fn slices_join_to_the_same_picture() {
        let whole = Problem::checked((97, 61), 1, 700, Region::FULL_SET, false).unwrap();
        let expected = counts(&whole, 0..61);
        for slices in [2, 7, 16, 61] {
            let problem = Problem::checked((97, 61), slices, 700, Region::FULL_SET, false).unwrap();
            let joined: Vec<u32> = (0..slices).flat_map(|slice| counts(&problem, problem.cut().rows(slice))).collect();
            assert_eq!(joined, expected, "{slices} slices");
        }
    }

    proptest! {
        #[test]
        fn any_region_has_the_counts_of_the_definition(
            x in -2.2f64..0.8, y in -1.4f64..1.4, zoom in 0.0f64..14.0, max_iter in 1u32..3000,
        ) {
            let half = 10f64.powf(-zoom);
            both_ways((9, 7), max_iter, Region { x0: x - half, x1: x + half, y0: y - half, y1: y + half });
        }
    }
}
