//! The search against trying everything, on random small models of every kind, and with numbers of every kind.

mod search_models;

use optisci::Costs;
use optisci::Model;
use optisci::model::Objective;
use optisci::search::Status;
use proptest::prelude::*;
use search_models::{Dice, Kind, Numbers, least, model, run};

/// Solves a model and compares with the best of all placements. Whether there is any.
fn compare(model: &Model, seed: u64, kind: Kind) -> bool {
    let say = || format!("{kind:?}, seed {seed}: {}", model.to_json());
    let outcome = run(model, seed);
    let least = least(model);
    if least == f64::INFINITY {
        assert_eq!(outcome.status, Status::Infeasible, "{}", say());
        assert!(outcome.reason.is_some_and(|reason| !reason.is_empty()), "{}", say());
        return false;
    }
    let (cost, bound) = (outcome.cost.unwrap_or(f64::NAN), outcome.bound.unwrap_or(f64::NAN));
    assert!(bound <= least, "bound {bound} above the optimum {least}: {}", say());
    assert!(cost >= least, "cost {cost} below the optimum {least}: {}", say());
    assert_eq!(outcome.status, Status::Optimal, "{cost} {bound} {least} {}", say());
    assert!((cost - least).abs() <= 1e-9 * least, "cost {cost}, optimum {least}: {}", say());
    let evaluation = Costs::new(model).evaluate(outcome.placement.as_ref().unwrap());
    assert!(evaluation.is_feasible(), "{:?} {}", evaluation.violations, say());
    assert_eq!(evaluation.cost(model.objective), cost, "{}", say());
    true
}

/// Compares models of one kind.
fn compare_all(kind: Kind, models: u64) {
    let seeds = (0..models).map(|number| number * 7919 + 1);
    let optimal = seeds.filter(|&seed| compare(&model(&mut Dice(seed), kind), seed, kind)).count() as u64;
    assert!(optimal > models / 3, "{optimal} of {models} could be solved");
    assert!(!kind.limits || optimal < models, "no infeasible model among {models}");
}

macro_rules! variants {
    ($($name:ident: $kind:expr;)*) => {
        $(#[test]
        fn $name() {
            compare_all($kind, 120);
        })*
    };
}

const NONE: Kind = Kind {
    free_processes: false,
    messages: false,
    limits: false,
    copies: false,
    pins: false,
    objective: Objective::Sum,
    numbers: Numbers::Plain,
};
const FREE: Kind = Kind { free_processes: true, ..NONE };
const ALL: Kind = Kind { messages: true, limits: true, copies: true, pins: true, ..FREE };

variants! {
    v1_segments_alone_are_placed_best: Kind { pins: true, ..NONE };
    v2_limits_are_obeyed_at_the_least_cost: Kind { limits: true, pins: true, ..NONE };
    v3_processes_and_segments_are_placed_best: FREE;
    v3_with_messages_and_pins: Kind { messages: true, pins: true, ..FREE };
    v3_with_limits: Kind { limits: true, messages: true, ..FREE };
    v5_the_busiest_link_is_as_idle_as_can_be: Kind { messages: true, objective: Objective::MaxLink, ..FREE };
    v5_with_limits_and_copies: Kind { objective: Objective::MaxLink, ..ALL };
    v5_with_processes_fixed: Kind { objective: Objective::MaxLink, limits: true, copies: true, ..NONE };
    v6_copies_are_made_where_they_pay: Kind { copies: true, pins: true, ..NONE };
    v6_with_limits: Kind { copies: true, limits: true, pins: true, ..NONE };
    v6_with_processes_free: Kind { copies: true, ..FREE };
    v7_the_longest_process_is_as_short_as_can_be: Kind { messages: true, objective: Objective::Makespan, ..FREE };
    v7_with_limits_and_copies: Kind { objective: Objective::Makespan, ..ALL };
    v7_with_processes_fixed: Kind { objective: Objective::Makespan, limits: true, ..NONE };
    everything_at_once: ALL;
}

fn kinds() -> impl Strategy<Value = Kind> {
    let objective = prop::sample::select(vec![Objective::Sum, Objective::Makespan, Objective::MaxLink]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (prop::sample::select(Numbers::ALL.to_vec()), objective, flags).prop_map(
        |(numbers, objective, (free_processes, messages, limits, copies, pins))| Kind {
            free_processes,
            messages,
            limits,
            copies,
            pins,
            objective,
            numbers,
        },
    )
}

proptest! {
    #[test]
    fn nothing_beats_what_is_proved_whatever_the_numbers(kind in kinds(), seed in any::<u64>()) {
        compare(&model(&mut Dice(seed), kind), seed, kind);
    }
}
