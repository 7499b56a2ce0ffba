//! One row of one colour is relaxed: the inner loop of everything.
//!
//! Rust never fuses or reorders floating-point operations, so a point's value depends on its four neighbours alone, and
//! the largest of some changes does not depend on the order in which they are compared. The lanes let the compiler use
//! vector instructions all the same. Standard library only: benchmarks compile this file for other programs.

/// Changes that are compared side by side.
const LANES: usize = 8;

/// Sets each point of `row` to the mean of its four neighbours, which stand at the same place of the other slices.
/// Returns the largest change.
///
/// # Panics
/// If a slice is shorter than `row`.
pub fn relax(row: &mut [f64], above: &[f64], below: &[f64], left: &[f64], right: &[f64]) -> f64 {
    let points = row.len();
    let (whole, rest) = row.split_at_mut(points - points % LANES);
    let (above, above_rest) = above[..points].split_at(whole.len());
    let (below, below_rest) = below[..points].split_at(whole.len());
    let (left, left_rest) = left[..points].split_at(whole.len());
    let (right, right_rest) = right[..points].split_at(whole.len());
    let mut largest = [0.0f64; LANES];
    let neighbours = above.chunks_exact(LANES).zip(below.chunks_exact(LANES));
    let neighbours = neighbours.zip(left.chunks_exact(LANES).zip(right.chunks_exact(LANES)));
    for (point, ((above, below), (left, right))) in whole.chunks_exact_mut(LANES).zip(neighbours) {
        for lane in 0..LANES {
            let change = relax_point(&mut point[lane], above[lane], below[lane], left[lane], right[lane]);
            largest[lane] = if change > largest[lane] { change } else { largest[lane] };
        }
    }
    let mut change = largest.into_iter().fold(0.0, f64::max);
    for (place, point) in rest.iter_mut().enumerate() {
        let here = relax_point(point, above_rest[place], below_rest[place], left_rest[place], right_rest[place]);
        change = change.max(here);
    }
    change
}

#[inline(always)]
fn relax_point(point: &mut f64, above: f64, below: f64, left: f64, right: f64) -> f64 {
    let mean = ((above + below) + (left + right)) * 0.25;
    let change = (mean - *point).abs();
    *point = mean;
    change
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_point_becomes_the_mean_and_the_largest_change_is_told(
            points in proptest::collection::vec((-9.0..9.0, -9.0..9.0, -9.0..9.0, -9.0..9.0, -9.0..9.0), 0..40),
        ) {
            let side = |pick: fn(&(f64, f64, f64, f64, f64)) -> f64| points.iter().map(pick).collect::<Vec<f64>>();
            let (before, above, below) = (side(|p| p.0), side(|p| p.1), side(|p| p.2));
            let (left, right) = (side(|p| p.3), side(|p| p.4));
            let mut row = before.clone();
            let change = relax(&mut row, &above, &below, &left, &right);
            let mut largest = 0.0f64;
            for (place, &(before, above, below, left, right)) in points.iter().enumerate() {
                prop_assert_eq!(row[place], (above + below + (left + right)) / 4.0);
                largest = largest.max((row[place] - before).abs());
            }
            prop_assert_eq!(change, largest);
        }
    }
}
