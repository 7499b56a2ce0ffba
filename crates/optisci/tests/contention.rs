//! What of the wire's cost lies on links that others use: worked out by hand on small rings, and against the
//! definition.

use optisci::cost::Spending;
use optisci::model::{Access, CostModel, HopBytes, Message, Op, Process, Scipos, Segment};
use optisci::placement::Home;
use optisci::topology::{Topology, Torus};
use optisci::{Costs, Model, Placement, report, table1};

/// A directed ring of four nodes, a process on each, and two segments on nodes 2 and 0.
fn ring(cost_model: CostModel, accesses: &[(u32, u32, Op, u64, u64)]) -> (Model, Placement) {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.topology = Topology::Torus(Torus { dims: vec![4], directed: true });
    model.cost_model = cost_model;
    model.processes = (0..4).map(|number| Process { id: format!("p{number}"), pin: None }).collect();
    let segment = |id: &str| Segment { id: id.to_owned(), bytes: 0, pin: None, replicable: true };
    model.segments = vec![segment("s"), segment("t")];
    let accesses = accesses.iter();
    model.accesses =
        accesses.map(|&(process, segment, op, count, size)| Access { process, segment, op, count, size }).collect();
    (model, Placement { processes: vec![0, 1, 2, 3], segments: vec![Home::One(2), Home::One(0)] })
}

fn spending((model, placement): &(Model, Placement)) -> Vec<Spending> {
    Costs::new(model).spending(placement)
}

#[track_caller]
fn assert_wires(found: &[Spending], expected: &[(f64, f64)]) {
    let found: Vec<_> = found.iter().map(|spent| (spent.wire_ns, spent.contended_ns)).collect();
    assert_eq!(found, expected);
}

const HOP_BYTES: CostModel = CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 });

#[test]
fn the_others_part_of_a_link_is_contended() {
    // p0 writes 100 bytes to node 2 over links 0 and 1, 100 ns each; p1 writes 300 over link 1 alone, 300 ns. Of the
    // 400 bytes on link 1 three quarters are the others' for p0 and one quarter for p1.
    let case = ring(HOP_BYTES, &[(0, 0, Op::Write, 1, 100), (1, 0, Op::Write, 3, 100)]);
    assert_wires(&spending(&case), &[(125.0, 75.0), (225.0, 75.0), (0.0, 0.0), (0.0, 0.0)]);
}

#[test]
fn a_read_is_on_the_links_that_its_data_takes() {
    let sci = CostModel::Scipos(Scipos::default());
    // p0 reads 64 bytes from node 2, over links 2 and 3. Request and data pass 4 nodes of 33 ns: 66 ns on each of the
    // two. p1 writes 192 bytes to node 0, over links 1, 2 and 3, 33 ns each. 256 bytes are on links 2 and 3.
    let case = ring(sci, &[(0, 0, Op::Read, 1, 64), (1, 1, Op::Write, 1, 192)]);
    assert_wires(&spending(&case), &[(33.0, 99.0), (82.5, 16.5), (0.0, 0.0), (0.0, 0.0)]);
}

#[test]
fn messages_and_every_copy_that_is_written_are_on_links_too() {
    // p3 sends 50 bytes to p1 over links 3 and 0. p0 writes 100 bytes to copies on nodes 1 and 3: link 0 twice, 1 and
    // 2.
    let (mut model, mut placement) = ring(HOP_BYTES, &[(0, 0, Op::Write, 1, 100)]);
    model.messages = vec![Message { from: 3, to: 1, count: 1, size: 50 }];
    placement.segments[0] = Home::of([1, 3]);
    // Link 0 carries 250 bytes: 50 of 250 of p0's 200 ns, 200 of 250 of p3's 50 ns.
    assert_wires(&spending(&(model, placement)), &[(360.0, 40.0), (0.0, 0.0), (0.0, 0.0), (60.0, 40.0)]);
}

#[test]
fn one_process_alone_has_none_and_neither_has_one_that_stays_at_home() {
    let alone = ring(HOP_BYTES, &[(0, 0, Op::Write, 7, 100), (0, 1, Op::Read, 3, 5), (0, 0, Op::Read, 1, 9)]);
    assert!(spending(&alone).iter().all(|spent| spent.contended_ns == 0.0));
    assert_eq!(spending(&alone)[0].wire_ns, Costs::new(&alone.0).evaluate(&alone.1).total_ns);
    let home = ring(HOP_BYTES, &[(0, 0, Op::Write, 7, 100), (2, 0, Op::Write, 7, 100)]);
    assert_wires(&spending(&home)[2..3], &[(0.0, 0.0)]);
}

#[test]
fn accesses_without_bytes_share_links_with_those_that_have_some() {
    // An SCI packet passes nodes however little it carries. All bytes on link 1 are the other's; on link 0 there are
    // none.
    let sci = CostModel::Scipos(Scipos::default());
    let case = ring(sci, &[(0, 0, Op::Write, 1, 0), (1, 0, Op::Write, 1, 64)]);
    assert_wires(&spending(&case)[..2], &[(33.0, 33.0), (33.0, 0.0)]);
}

#[test]
fn costs_of_a_matrix_are_not_those_of_links() {
    let table = vec![1.0; 16];
    let matrix = optisci::model::Matrix {
        read_ns: table.clone(),
        write_ns: table.clone(),
        read_ns_per_byte: table.clone(),
        write_ns_per_byte: table,
    };
    let case = ring(
        CostModel::Matrix(Box::new(matrix)),
        &[(0, 0, Op::Write, 1, 100), (1, 0, Op::Write, 3, 100), (2, 1, Op::Read, 1, 8)],
    );
    assert!(spending(&case).iter().all(|spent| spent.contended_ns == 0.0 && spent.bus_ns == 0.0));
}

#[test]
fn the_report_tells_it_beside_what_it_always_told() {
    let case = ring(HOP_BYTES, &[(0, 0, Op::Write, 1, 100), (1, 0, Op::Write, 3, 100)]);
    let evaluation = Costs::new(&case.0).evaluate(&case.1);
    let text = report::evaluation(&case.0, &evaluation, &spending(&case));
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["per_process"]["p1"]["write_ns"], 300.0);
    let spent = &report["spent_per_process"]["p1"];
    assert_eq!((&spent["wire_ns"], &spent["contended_ns"]), (&225.0.into(), &75.0.into()));
}
