//! A look at a job, and another one.
//!
//! A look reads node after node, and meanwhile the job goes on: what it shows of several threads need not have been so
//! at any one moment. But a wait that is seen in two looks, with the same beginning, stood all the time between them.
//! So what is told of waits together is told only if it holds for that time, and whatever is not the same in both looks
//! may have ended them.

use deck_peers::observe::JobSight;

use super::cycles::{self, Cycle, Others};
use super::waits::{self, Wait};

/// More than two are needed only if a thread was just about to sleep.
const LOOKS_MAX: u32 = 5;

/// What was seen of a job.
pub struct Look {
    /// The job itself.
    pub job: JobSight,
    /// Its threads that wait.
    pub waits: Vec<Wait>,
    others: Others,
}

impl Look {
    fn at(job: JobSight) -> Look {
        let waits = waits::of(&job);
        let others = Others::of(&job, &waits);
        Look { job, waits, others }
    }

    fn shows_a_cycle(&self) -> bool {
        cycles::are_any(&self.waits, &self.others)
    }

    /// The cycles that there were between this look and a later one.
    fn cycles_until(&self, later: &Look) -> Vec<Cycle> {
        cycles::of(&lasting(&self.waits, &later.waits), &self.others.until(&later.others))
    }
}

/// These waits; those that are not the same later, or whose threads run by then, may end by themselves.
fn lasting(waits: &[Wait], later: &[Wait]) -> Vec<Wait> {
    let lasts = |wait: &Wait| {
        let at = later.binary_search_by_key(&wait.whose(), Wait::whose);
        at.is_ok_and(|at| wait.is_same(&later[at]) && !later[at].is_passing && !later[at].runs)
    };
    waits.iter().map(|wait| Wait { is_passing: wait.is_passing || !lasts(wait), ..wait.clone() }).collect()
}

/// Looks on until it is sure which cycles there are.
pub fn until_sure(job: JobSight) -> deck::Result<(Look, Vec<Cycle>)> {
    let mut look = Look::at(job);
    for _ in 1..LOOKS_MAX {
        if !look.shows_a_cycle() {
            break;
        }
        let Some(later) = look.job.look_again()?.map(Look::at) else { break };
        let cycles = look.cycles_until(&later);
        if !cycles.is_empty() {
            return Ok((look, cycles));
        }
        look = later;
    }
    Ok((look, vec![]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use deck::NodeId;

    use super::super::cycles::tests::wait;
    use super::super::waits::Whom;
    use super::*;

    #[test]
    fn a_cycle_lasts_while_its_waits_are_the_same_and_their_threads_sleep() {
        let on = |node| [Whom::Node(NodeId(node))];
        let waits = [wait(0, 1, &on(1), false), wait(1, 2, &on(0), false)];
        let cycles = |later: &[Wait]| cycles::of(&lasting(&waits, later), &Others::default()).len();
        assert_eq!(cycles(&waits), 1);
        let changes: [fn(&mut Wait); 6] = [
            |wait| wait.since_ns += 1,
            |wait| wait.thread += 7,
            |wait| wait.facts[3] += 1,
            |wait| wait.runs = true,
            |wait| wait.is_passing = true,
            |wait| wait.on = BTreeSet::from([Whom::Node(NodeId(0)), Whom::Node(NodeId(2))]),
        ];
        for change in changes {
            let mut later = waits.clone();
            change(&mut later[1]);
            assert_eq!(cycles(&later), 0, "{later:?}");
        }
        assert_eq!(cycles(&waits[..1]), 0);
    }
}
