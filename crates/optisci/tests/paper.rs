//! The cost model of R. B. Ávila et al. 2002, term by term: the printed formulas for the printed clocks, and every
//! reading of them. Expected values are worked out here from the paper's text, not by the crate.

use optisci::cost::Terms;
use optisci::model::{
    Changing, CostModel, Counts, Insertion, Local, Op, PassNode, Passes, Readings, ReturnPath, Scipos, Units,
};
use optisci::topology::{Topology, Torus};
use optisci::{Costs, Model, Placement, table1};

/// A directed torus of 4 x 3 nodes with the paper's clocks.
fn torus(readings: Readings) -> Model {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.topology = Topology::Torus(Torus { dims: vec![4, 3], directed: true });
    model.process_slots = None;
    model.cost_model = CostModel::Scipos(Scipos { readings, ..Scipos::default() });
    model
}

fn ring(readings: Readings) -> Model {
    let mut model = torus(readings);
    model.topology = Topology::Torus(Torus { dims: vec![4], directed: true });
    model
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} instead of {expected}");
}

#[track_caller]
fn assert_terms(found: Terms, expected: [f64; 5]) {
    let parts = [found.memory_ns, found.bus_ns, found.bridge_ns, found.insertion_ns, found.wire_ns];
    for (found, expected) in parts.into_iter().zip(expected) {
        assert_close(found, expected);
    }
}

const PCI_NS: f64 = 1000.0 / 33.0;

#[test]
fn each_printed_term_has_its_printed_value() {
    let model = ring(Readings::default());
    let costs = Costs::new(&model);
    for (size, memory, bus, packets) in
        [(2048, 35_840.0, 512.0 * 3.0 * PCI_NS, 32.0), (64, 1120.0, 16.0 * 3.0 * PCI_NS, 1.0)]
    {
        // One link: memory twice, the bus twice, preparing 12 and receiving 8 cycles of 1 ns, insertion 200 ns, one
        // node.
        let write = [2.0 * memory, 2.0 * bus, 20.0 * packets, 200.0 * packets, 33.0];
        assert_terms(costs.terms(Op::Write, size, 0, 1), write);
        // There and back is a whole turn of 4 links, and one memory access more.
        let read = [3.0 * memory, 4.0 * bus, 40.0 * packets, 400.0 * packets, 4.0 * 33.0];
        assert_terms(costs.terms(Op::Read, size, 0, 1), read);
        assert_terms(costs.terms(Op::Write, size, 2, 2), [memory, 0.0, 0.0, 0.0, 0.0]);
        assert_terms(costs.terms(Op::Read, size, 2, 2), [memory, 0.0, 0.0, 0.0, 0.0]);
    }
}

#[test]
fn a_write_of_2_kib_on_the_ring_costs_33_ns_per_link_and_a_read_the_same_everywhere() {
    let model = ring(Readings::default());
    let costs = Costs::new(&model);
    for links in 1..4 {
        let fixed = 2.0 * 35_840.0 + 2.0 * 512.0 * 3.0 * PCI_NS + 384.0 + 6400.0 + 256.0;
        assert_close(costs.access_ns(Op::Write, 2048, 0, links), fixed + 33.0 * f64::from(links));
        let read = 3.0 * 35_840.0 + 4.0 * 512.0 * 3.0 * PCI_NS + 2.0 * (384.0 + 6400.0 + 256.0) + 4.0 * 33.0;
        assert_close(costs.access_ns(Op::Read, 2048, 0, links), read);
        assert!((read - 307_913.82).abs() < 0.005 && (fixed - 171_810.91).abs() < 0.005);
    }
}

#[test]
fn a_packet_that_changes_dimension_pays_for_it_once() {
    let model = torus(Readings::default());
    let costs = Costs::new(&model);
    // From (0, 0) to (1, 2): 1 link along the first dimension, 2 along the second, one change of 12 cycles per packet.
    let terms = costs.terms(Op::Write, 128, 0, 9);
    assert_terms(terms, [2.0 * 2240.0, 2.0 * 96.0 * PCI_NS, 2.0 * 20.0 + 2.0 * 12.0, 400.0, 99.0]);
    // Along one dimension nothing changes.
    assert_close(costs.terms(Op::Write, 128, 0, 8).bridge_ns, 2.0 * 20.0);
}

#[test]
fn messages_cost_what_writes_cost_and_nothing_at_home() {
    let model = torus(Readings::default());
    let costs = Costs::new(&model);
    assert_eq!(costs.message_ns(100, 3, 7), costs.access_ns(Op::Write, 100, 3, 7));
    assert_eq!(costs.message_ns(100, 3, 3), 0.0);
}

#[test]
fn sizes_count_as_whole_units_or_as_fractions() {
    let whole = ring(Readings::default());
    let fractions = ring(Readings { units: Units::Fractions, ..Readings::default() });
    // 65 bytes: 9 of 8 bytes, 17 of 4 bytes, 2 packets.
    let expected = [2.0 * 14.0 * 9.0 * 10.0, 2.0 * 3.0 * 17.0 * PCI_NS, 40.0, 400.0, 33.0];
    assert_terms(Costs::new(&whole).terms(Op::Write, 65, 0, 1), expected);
    let packets = 65.0 / 64.0;
    let expected = [2.0 * 140.0 * 65.0 / 8.0, 2.0 * 3.0 * 65.0 / 4.0 * PCI_NS, 20.0 * packets, 200.0 * packets, 33.0];
    assert_terms(Costs::new(&fractions).terms(Op::Write, 65, 0, 1), expected);
    // For 2048 bytes the two readings are one.
    assert_eq!(Costs::new(&whole).table(Op::Read, 2048), Costs::new(&fractions).table(Op::Read, 2048));
}

#[test]
fn each_reading_changes_its_term_and_no_other() {
    let terms = |readings: Readings, op: Op, a: u32, b: u32| {
        let model = torus(readings);
        Costs::new(&model).terms(op, 2048, a, b)
    };
    let default = Readings::default();
    // (0, 0) to (1, 2) is 3 links and a turn; back it is 3 + 1 links and a turn.
    let (there, back) = (3.0, 4.0);
    let base = terms(default, Op::Read, 0, 9);
    assert_close(base.wire_ns, 33.0 * (there + back));

    let local = |local: Local| terms(Readings { local, ..default }, Op::Write, 5, 5).total_ns();
    assert_close(local(Local::Memory), 35_840.0);
    assert_eq!(local(Local::Zero), 0.0);
    assert_close(local(Local::TwoMemories), 71_680.0);
    assert_close(local(Local::Remote), 71_680.0 + 2.0 * 1536.0 * PCI_NS + 640.0 + 6400.0);

    let nodes = terms(Readings { pass_node: PassNode::Nodes, ..default }, Op::Read, 0, 9);
    // Each of the two sums of each way has one node more than links.
    assert_terms(nodes, [base.memory_ns, base.bus_ns, base.bridge_ns, base.insertion_ns, 33.0 * (there + back + 4.0)]);

    let packets = terms(Readings { passes: Passes::PerPacket, ..default }, Op::Read, 0, 9);
    assert_terms(packets, [base.memory_ns, base.bus_ns, base.bridge_ns, base.insertion_ns, 32.0 * base.wire_ns]);

    let always = terms(Readings { changing: Changing::Always, ..default }, Op::Read, 0, 1);
    assert_close(always.bridge_ns, 2.0 * 32.0 * (20.0 + 12.0));
    assert_close(terms(default, Op::Read, 0, 1).bridge_ns, 2.0 * 32.0 * 20.0);

    let printed = terms(Readings { return_path: ReturnPath::AsPrinted, ..default }, Op::Read, 0, 9);
    assert_close(printed.wire_ns, 33.0 * 2.0 * there);

    let per_link = terms(Readings { insertion: Insertion::PerLink, ..default }, Op::Read, 0, 9);
    assert_close(per_link.insertion_ns, 6400.0 * (there + back));
}

#[test]
fn without_counts_every_entry_weighs_once() {
    let model = ring(Readings { counts: Counts::Once, ..Readings::default() });
    let placement = Placement::from_json(table1::MAPPINGS[0].1, &model).unwrap();
    let costs = Costs::new(&model);
    let once: f64 = model
        .accesses
        .iter()
        .map(|access| {
            let home = placement.segments[access.segment as usize].nodes()[0];
            costs.access_ns(access.op, access.size, placement.processes[access.process as usize], home)
        })
        .sum();
    assert_close(costs.evaluate(&placement).total_ns, once);
}

#[test]
fn the_percentages_of_table_1_come_out_and_only_these() {
    let table = table1::table();
    let rounded: Vec<f64> = table.rows.iter().map(|row| row.percent.round()).collect();
    assert_eq!(rounded, [100.0, 92.0, 86.0]);
    let printed: Vec<f64> = table.rows.iter().map(|row| row.paper_simulated_percent.round()).collect();
    assert_eq!(rounded, printed);
    assert_eq!(table.rows.iter().map(|row| row.tasks_at_writers).collect::<Vec<u64>>(), [600, 300, 100]);
    // Not the absolute values: the middle one misses by three units on the paper's own scale.
    assert!((table.rows[1].scaled - table.rows[1].paper_simulated).abs() > 2.0);
    // All queues at readers is the best, all at writers the worst.
    assert!((table.best_ms - 412.485).abs() < 0.001 && (table.worst_ms - 494.147).abs() < 0.001);
    assert_eq!(table.placements, 64);
}

#[test]
fn a_queue_that_moves_from_a_writer_to_a_reader_saves_in_proportion_to_its_tasks() {
    let model = Model::from_json(table1::SCHEDULER).unwrap();
    let costs = Costs::new(&model);
    let worst = Placement::from_json(table1::MAPPINGS[0].1, &model).unwrap();
    let total = |placement: &Placement| costs.evaluate(placement).total_ns;
    for (queue, tasks) in [(0, 300.0), (1, 200.0), (2, 100.0)] {
        let mut moved = worst.clone();
        moved.segments[queue] = optisci::placement::Home::One(0);
        let saved_per_100 = (total(&worst) - total(&moved)) / tasks * 100.0;
        assert!((saved_per_100 - 13.604e6).abs() < 0.02e6, "queue {queue}: {saved_per_100} ns per 100 tasks");
    }
}
