//! Small models that tempt a search to prove what is not so, each beside the best of all placements.

mod search_models;

use std::time::Duration;

use optisci::Model;
use optisci::model::Objective;
use optisci::search::{Control, Options, Outcome, Progress, Status, solve};
use search_models::{least, run};
use serde_json::{Value, json};

/// Searches, and holds what is proved against all placements.
fn proved(model: &Value) -> Outcome {
    let model = Model::from_json(&model.to_string()).unwrap();
    let (outcome, least) = (run(&model, 7), least(&model));
    assert_eq!((outcome.status, outcome.cost), (Status::Optimal, Some(least)), "{outcome:?}");
    assert!(outcome.bound.is_some_and(|bound| bound <= least), "{outcome:?}");
    outcome
}

fn ids(letter: &str, count: usize) -> Vec<Value> {
    (0..count).map(|number| json!({"id": format!("{letter}{number}")})).collect()
}

/// On a ring that goes one way every copy that is not at home is equally near, and the lowest node is read. So a
/// placement that is rotated may load other links, and a ring with a process pinned elsewhere may have another best.
#[test]
fn of_equally_near_copies_the_lowest_is_read_so_a_rotated_ring_may_have_a_busier_best() {
    let mut segments = ids("s", 1);
    segments[0]["bytes"] = json!(1);
    segments[0]["replicable"] = json!(true);
    let best = [0, 1, 2, 3].map(|pin| {
        let mut processes = ids("p", 3);
        processes[1]["pin"] = json!(pin);
        let model = json!({
            "topology": {"kind": "torus", "dims": [4], "directed": true},
            "cost_model": {"kind": "scipos", "mem_mhz": 100, "pci_mhz": 33, "bridge_mhz": 1000, "ring_mhz": 500},
            "processes": processes,
            "segments": segments,
            "accesses": [
                {"process": "p0", "segment": "s0", "op": "read", "count": 26, "size": 291},
                {"process": "p2", "segment": "s0", "op": "read", "count": 4, "size": 107},
                {"process": "p2", "segment": "s0", "op": "write", "count": 40, "size": 190},
                {"process": "p1", "segment": "s0", "op": "read", "count": 59, "size": 56},
            ],
            "messages": [{"from": "p1", "to": "p0", "count": 1, "size": 1}],
            "process_slots": [1, 1, 1, 1],
            "objective": "max_link",
        });
        proved(&model).cost.unwrap()
    });
    assert_eq!(best, [7600.0, 7600.0, 7601.0, 7601.0]);
}

/// 0.1 + 0.2 is more than 0.3 by the last bit, ten times as much is not.
#[test]
fn a_copy_that_is_nearer_by_the_last_bit_of_one_access_is_the_one_that_is_read() {
    let model = json!({
        "topology": {"kind": "torus", "dims": [3]},
        "cost_model": {
            "kind": "matrix",
            "read_ns": [[0, 1, 1], [0.1, 0, 0.3], [1, 1, 0]],
            "read_ns_per_byte": [[0, 0, 0], [0.2, 0, 0], [0, 0, 0]],
            "write_ns": [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
            "write_ns_per_byte": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        },
        "processes": [{"id": "p0", "pin": 0}, {"id": "p1", "pin": 1}],
        "segments": [{"id": "s0", "bytes": 1, "replicable": true}],
        "accesses": [
            {"process": "p0", "segment": "s0", "op": "read", "count": 100, "size": 1},
            {"process": "p0", "segment": "s0", "op": "write", "count": 1, "size": 1},
            {"process": "p1", "segment": "s0", "op": "read", "count": 10, "size": 1},
        ],
        // Loads the way to p1 from node 0, where the copy is that p0 reads.
        "messages": [{"from": "p0", "to": "p1", "count": 5, "size": 1}],
        "segment_slots": [1, 0, 1],
        "objective": "max_link",
    });
    assert_eq!(proved(&model).cost, Some(10.0));
}

/// In parts of the dearest home all others cost nothing.
#[test]
fn beside_a_home_that_stands_for_never_the_others_are_told_apart() {
    let model = json!({
        "topology": {"kind": "torus", "dims": [3]},
        "cost_model": {
            "kind": "matrix",
            "read_ns": [[0, 0, 0], [0, 0, 0], [100, 200, 0]],
            "read_ns_per_byte": [[0, 0, 0], [0, 0, 0], [0, 0, 1e15]],
            "write_ns": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
            "write_ns_per_byte": [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
        },
        "processes": [{"id": "p0", "pin": 2}],
        // The first takes the better node, as nothing tells where else.
        "segments": [{"id": "s0", "bytes": 1}, {"id": "s1", "bytes": 1, "replicable": true}],
        "accesses": [{"process": "p0", "segment": "s1", "op": "read", "count": 1, "size": 1000}],
        "segment_slots": [1, 1, 1],
    });
    assert_eq!(proved(&model).cost, Some(100.0));
}

/// 2^53 bytes and one and one more are two more than 2^53, but not for an `f64`.
#[test]
fn room_for_the_last_byte_is_seen_however_many_bytes_there_are() {
    let model = json!({
        "topology": {"kind": "torus", "dims": [3], "directed": true},
        "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
        "processes": [{"id": "p0", "pin": 0}],
        // The first of the small ones takes the better node, as nothing tells where else.
        "segments": [{"id": "s0", "bytes": 1u64 << 53}, {"id": "s1", "bytes": 1}, {"id": "s2", "bytes": 1}],
        "accesses": [{"process": "p0", "segment": "s2", "op": "write", "count": 1, "size": 1}],
        "memory_bytes": [1u64 << 53, 1, 1],
        "objective": "makespan",
    });
    assert_eq!(proved(&model).cost, Some(1.0));
}

/// Somebody who has seen enough after so many questions.
struct Impatient(u32);

impl Control for Impatient {
    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }

    fn progress(&mut self, _: Option<&Progress<'_>>) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Tables of all pairs of its nodes would take 32 GiB each.
#[test]
fn a_small_program_has_a_placement_on_the_largest_machine() {
    let model = json!({
        "topology": {"kind": "torus", "dims": [65536], "directed": true},
        "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
        "processes": ids("p", 2),
        "segments": [{"id": "s", "replicable": true}],
        "accesses": [
            {"process": "p0", "segment": "s", "op": "read", "count": 5, "size": 64},
            {"process": "p0", "segment": "s", "op": "write", "count": 5, "size": 64},
            {"process": "p1", "segment": "s", "op": "read", "count": 5, "size": 64},
            {"process": "p1", "segment": "s", "op": "write", "count": 5, "size": 64},
        ],
        "process_slots": vec![1; 65536],
    });
    let model = Model::from_json(&model.to_string()).unwrap();
    for objective in [Objective::Sum, Objective::Makespan, Objective::MaxLink] {
        let options = Options { objective: Some(objective), ..Options::default() };
        let outcome = solve(&model, &options, &mut Impatient(100));
        assert!(outcome.placement.is_some(), "{objective:?}: {outcome:?}");
    }
}
