//! How far a calculation is whose end is told by the largest change.
//!
//! The change comes down ever more evenly: in the end by the same part with each sweep. So the sweeps that are left are
//! told by how it has come down in the last half of those that are done.

use std::collections::VecDeque;

use crate::slab::Slab;

/// Samples are so many parts of the sweeps before them apart, or more.
const PARTS: u64 = 16;

/// What was told of the calculation.
#[derive(Debug, Default)]
pub struct Pace {
    /// Sweeps and changes: the first of these is about half as many sweeps back as there are.
    samples: VecDeque<(u64, f64)>,
    /// It never goes back.
    furthest: f64,
}

impl Pace {
    /// The part of all sweeps that is done after this one with this largest change.
    pub fn fraction(&mut self, sweep: u64, change: f64, slab: &Slab) -> f64 {
        if self.samples.back().is_none_or(|(last, _)| sweep >= last + last / PARTS) {
            self.samples.push_back((sweep, change));
        }
        while self.samples.get(1).is_some_and(|(second, _)| *second <= sweep / 2) {
            self.samples.pop_front();
        }
        let (from, before) = self.samples.front().copied().unwrap_or((sweep, change));
        let for_each = (before / change).ln() / (sweep - from) as f64;
        let left = (change / slab.tolerance()).ln() / for_each;
        // Of the first one, and where the change does not come down, only the last possible sweep is known.
        let all = if left >= 0.0 { sweep as f64 + left } else { f64::INFINITY };
        self.furthest = self.furthest.max(sweep as f64 / all.min(slab.max_sweeps() as f64)).min(1.0);
        self.furthest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Source;

    fn slab(max_sweeps: u64) -> Slab {
        Slab::checked((100, 100), 1e-3, max_sweeps, Source::Uniform).unwrap()
    }

    /// The fractions at every tenth of the sweeps until the change is under the tolerance.
    fn tenths(change: impl Fn(f64) -> f64, max_sweeps: u64) -> Vec<f64> {
        let slab = slab(max_sweeps);
        let all = (1..max_sweeps).find(|sweep| change(*sweep as f64) < slab.tolerance()).unwrap_or(max_sweeps);
        let mut pace = Pace::default();
        let fractions: Vec<f64> = (1..all).map(|sweep| pace.fraction(sweep, change(sweep as f64), &slab)).collect();
        assert!(fractions.is_sorted(), "it goes back");
        (1..10).map(|tenth| fractions[(all * tenth / 10) as usize]).collect()
    }

    #[test]
    fn what_comes_down_evenly_is_half_done_after_half_of_the_sweeps() {
        for (tenth, fraction) in (1..).zip(tenths(|sweep| 10.0 * (-sweep / 700.0).exp(), 1_000_000)) {
            assert!((fraction - f64::from(tenth) / 10.0).abs() < 0.02, "{tenth}: {fraction}");
        }
    }

    #[test]
    fn what_comes_down_ever_more_evenly_is_told_better_and_better() {
        let fractions = tenths(|sweep| 100.0 / sweep * (-sweep / 2000.0).exp(), 1_000_000);
        for (tenth, fraction) in (1..).zip(fractions) {
            assert!((fraction - f64::from(tenth) / 10.0).abs() < 0.25, "{tenth}: {fraction}");
        }
    }

    #[test]
    fn where_sweeps_are_bounded_that_is_the_end() {
        let fractions = tenths(|_| 1.0, 1000);
        assert!((fractions[4] - 0.5).abs() < 0.01 && fractions[8] < 0.92, "{fractions:?}");
    }
}
