//! HiGHS for what is still open once processes are fixed (feature `highs`): a mixed-integer program of [`Choice`].
//!
//! One binary variable for each option, one of them for each item; slots and memory as rows; for several objective rows
//! a variable that none of them may exceed. HiGHS computes in floating point: its bound is taken off by a part of 5e-10
//! before it counts, which is less than what [`super::watch::PROVED`] allows. Source: Q. Huangfu and J. Hall,
//! "Parallelizing the dual revised simplex method", 2018.

use std::time::Duration;

use highs::{Col, HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};

use super::choice::Choice;
use crate::model::UNLIMITED;

/// What HiGHS's bound may be off by, relatively.
const TOLERANCE: f64 = 5e-10;

/// Costs are handed over as numbers of about this size, to suit HiGHS's tolerances.
const SIZE: f64 = 1e6;

/// What HiGHS found in one go.
#[derive(Debug)]
pub struct Solved {
    /// The option of each item in its best solution, if it has one.
    pub chosen: Option<Vec<u32>>,
    /// No solution costs less; infinite if there is none, negative infinity if nothing is known.
    pub bound: f64,
    /// More time would change nothing.
    pub finished: bool,
}

/// Searches for the best options, for at most `time`. Costs are about `expected`.
pub fn solve(choice: &Choice, expected: f64, time: Duration) -> Solved {
    let unit = if expected > 0.0 && expected.is_finite() { expected / SIZE } else { 1.0 };
    let (problem, options) = program(choice, unit);
    let nothing = Solved { chosen: None, bound: f64::NEG_INFINITY, finished: true };
    let Ok(mut model) = problem.try_optimise(Sense::Minimise) else { return nothing };
    model.make_quiet();
    model.set_option("time_limit", time.as_secs_f64());
    model.set_option("mip_rel_gap", 0.0);
    model.set_option("mip_abs_gap", 1e-9);
    let Ok(solved) = model.try_solve() else { return nothing };
    let constant = if choice.base.len() == 1 { choice.base[0] } else { 0.0 };
    let bound = solved.double_info_value(c"mip_dual_bound").map_or(f64::NEG_INFINITY, |bound| bound * unit + constant);
    let has_solution = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
    let chosen = has_solution.then(|| {
        let values = solved.get_solution();
        let taken = |item: usize| {
            let most = choice.options(item).max_by(|&x, &y| {
                let value = |option: usize| values.columns()[options[option].index()];
                value(x).total_cmp(&value(y)).then(y.cmp(&x))
            });
            most.unwrap_or_default() as u32
        };
        (0..choice.items()).map(taken).collect()
    });
    let bound = match solved.status() {
        HighsModelStatus::Infeasible => f64::INFINITY,
        _ if bound.is_finite() => bound - TOLERANCE * bound.abs(),
        _ => f64::NEG_INFINITY,
    };
    Solved { chosen, bound, finished: solved.status() != HighsModelStatus::ReachedTimeLimit }
}

fn program(choice: &Choice, unit: f64) -> (RowProblem, Vec<Col>) {
    let mut problem = RowProblem::default();
    let single = choice.base.len() == 1;
    let mut rows: Vec<Vec<(Col, f64)>> = vec![Vec::new(); choice.base.len()];
    let nodes = choice.slots.len();
    let (mut slots, mut memory) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
    let mut options = Vec::new();
    for item in 0..choice.items() {
        let mut one = Vec::new();
        for option in choice.options(item) {
            let cost = if single { choice.adds_of(option).iter().map(|add| add.1).sum::<f64>() / unit } else { 0.0 };
            let column = problem.add_integer_column(cost, 0..=1);
            options.push(column);
            one.push((column, 1.0));
            if !single {
                choice.adds_of(option).iter().for_each(|&(row, add)| rows[row as usize].push((column, add / unit)));
            }
            for &node in choice.nodes_of(option) {
                slots[node as usize].push((column, 1.0));
                memory[node as usize].push((column, choice.bytes[item] as f64));
            }
        }
        problem.add_row(1.0..=1.0, one);
    }
    if !single {
        let largest = problem.add_column(1.0, 0.0..);
        for (row, base) in rows.into_iter().zip(&choice.base) {
            problem.add_row(..=-base / unit, row.into_iter().chain([(largest, -1.0)]));
        }
    }
    for (rows, limits) in [(slots, &choice.slots), (memory, &choice.memory)] {
        for (row, &limit) in rows.into_iter().zip(limits).filter(|&(_, &limit)| limit != UNLIMITED) {
            // As parts of the limit: bytes are large numbers.
            let part = limit.max(1) as f64;
            problem.add_row(..=limit as f64 / part, row.into_iter().map(|(column, used)| (column, used / part)));
        }
    }
    (problem, options)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::solve;
    use crate::model::UNLIMITED;
    use crate::search::choice::{Choice, Chooser};
    use crate::search::random::Random;

    /// Both agree on random choices of one row and of several, with limits.
    #[test]
    fn highs_and_branch_and_bound_agree() {
        let mut random = Random::new(5);
        let mut solvable = 0;
        for number in 0..60 {
            let (nodes, rows) = (3, if number % 2 == 0 { 1 } else { 3 });
            let base = (0..rows).map(|_| random.below(20) as f64).collect();
            let mut choice = Choice::new(base, vec![3; nodes], vec![20, UNLIMITED, 15]);
            for _ in 0..7 {
                for node in 0..nodes as u32 {
                    let adds = (0..rows as u32).map(|row| (row, random.below(50) as f64)).collect::<Vec<_>>();
                    choice.option(&[node], adds);
                }
                choice.item(1 + random.below(9) as u64);
            }
            let (prices, _) = choice.prices(1e6, 50);
            let (best, _) = Chooser::solve(&choice, &prices, 1e6, u64::MAX, &mut || true);
            let solved = solve(&choice, 100.0, Duration::from_secs(600));
            assert!(solved.finished);
            let Some((cost, _)) = best else {
                assert_eq!(solved.chosen, None, "model {number}");
                continue;
            };
            solvable += 1;
            assert!((solved.bound - cost).abs() < 1e-6 * cost.max(1.0), "model {number}: {} {cost}", solved.bound);
            assert!(solved.bound <= cost && solved.chosen.is_some(), "model {number}");
        }
        assert!(solvable > 20, "{solvable}");
    }
}
