//! What is written is read as the same, for any program.

use std::collections::BTreeMap;

use optisci::export;
use optisci::import::{self, Format, Input};
use optisci::model::{Access, CostModel, Counts, HopBytes, Matrix, Message, Model, Objective, Op, Process, Segment};
use optisci::placement::Home;
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Placement};
use proptest::prelude::*;

/// Ids as people write them, with what tables and shells treat in their own way.
fn ids(count: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::hash_set("[a-zA-Z0-9 ,\"';$%#äß]{0,8}[a-z]", count).prop_map(|ids| {
        let mut ids: Vec<String> = ids.into_iter().map(|id| id.trim().to_owned()).collect();
        ids.sort();
        ids.dedup();
        ids
    })
}

fn topologies() -> impl Strategy<Value = Topology> {
    let sizes = prop::collection::vec(1u32..5, 1..5);
    prop_oneof![
        sizes.clone().prop_map(|dims| Topology::Torus(Torus { dims, directed: false })),
        sizes.prop_map(|radices| Topology::FatTree(FatTree { radices })),
    ]
}

fn cases() -> impl Strategy<Value = (Model, Placement)> {
    let entry = || (any::<u32>(), any::<u32>(), any::<bool>(), 1u64..500, 0u64..3);
    (
        topologies(),
        ids(5),
        ids(4),
        prop::collection::vec(entry(), 0..25),
        prop::collection::vec(entry(), 0..10),
        any::<u32>(),
    )
        .prop_map(|(topology, processes, segments, accesses, messages, seed)| {
            let (process_count, segment_count) = (processes.len() as u32, segments.len() as u32);
            let node = |place: u32| (seed.rotate_left(place) ^ place) % topology.nodes() as u32;
            let pin = |place: u32| (seed >> (place % 32) & 1 == 1).then(|| node(place));
            let placement = Placement {
                processes: (0..process_count).map(node).collect(),
                segments: (0..segment_count).map(|place| Home::One(node(place + 7))).collect(),
            };
            let op = |is_read| if is_read { Op::Read } else { Op::Write };
            let model = Model {
                id: None,
                processes: (0..).zip(processes).map(|(place, id)| Process { id, pin: pin(place) }).collect(),
                segments: (0..)
                    .zip(segments)
                    .map(|(place, id)| Segment {
                        id,
                        bytes: u64::from(place) * 1000,
                        pin: pin(place + 9),
                        replicable: place % 2 == 1,
                    })
                    .collect(),
                accesses: accesses
                    .into_iter()
                    .map(|(process, segment, is_read, count, size)| Access {
                        process: process % process_count,
                        segment: segment % segment_count,
                        op: op(is_read),
                        count,
                        size: size * 64,
                    })
                    .collect(),
                messages: messages
                    .into_iter()
                    .map(|(from, to, _, count, size)| Message {
                        from: from % process_count,
                        to: to % process_count,
                        count,
                        size: size * 100,
                    })
                    .collect(),
                topology,
                cost_model: CostModel::HopBytes(HopBytes { ns_per_byte_hop: 1.0 }),
                process_slots: None,
                segment_slots: None,
                memory_bytes: None,
                objective: Objective::Sum,
            };
            (model, placement)
        })
}

fn again(format: Format, text: &str, base: Option<Model>) -> Model {
    match import::read(format, &[Input { name: "again", text }], base).unwrap().result {
        import::Result::Model(model) => model,
        import::Result::Placement(..) => panic!("{} gives a model", format.name()),
    }
}

fn write(format: export::Format, model: &Model, placement: &Placement) -> String {
    export::write(format, model, placement, &[]).unwrap()
}

/// Accesses by ids, those of one kind and size together.
fn accesses(model: &Model) -> BTreeMap<(&str, &str, Op, u64), u64> {
    let mut counts = BTreeMap::new();
    for access in &model.accesses {
        let (process, segment) =
            (&model.processes[access.process as usize].id, &model.segments[access.segment as usize].id);
        *counts.entry((process.as_str(), segment.as_str(), access.op, access.size)).or_default() += access.count;
    }
    counts
}

fn messages(model: &Model) -> BTreeMap<(&str, &str, u64), u64> {
    let mut counts = BTreeMap::new();
    for message in &model.messages {
        let (from, to) = (&model.processes[message.from as usize].id, &model.processes[message.to as usize].id);
        *counts.entry((from.as_str(), to.as_str(), message.size)).or_default() += message.count;
    }
    counts
}

/// Bytes between each two processes, either way.
fn bytes(model: &Model) -> BTreeMap<(u32, u32), u64> {
    let mut bytes = BTreeMap::new();
    for message in model.messages.iter().filter(|message| message.from != message.to && message.size > 0) {
        let pair = (message.from.min(message.to), message.from.max(message.to));
        *bytes.entry(pair).or_default() += message.count * message.size;
    }
    bytes
}

proptest! {
    #[test]
    fn tables_keep_processes_segments_and_every_count((model, placement) in cases()) {
        let text = write(export::Format::Csv, &model, &placement);
        let read = again(Format::Csv, &text, Some(model.clone()));
        prop_assert_eq!(&read.processes, &model.processes);
        prop_assert_eq!(&read.segments, &model.segments);
        prop_assert_eq!(accesses(&read), accesses(&model));
        prop_assert_eq!(messages(&read), messages(&model));
    }

    #[test]
    fn tables_keep_every_cost((mut model, placement) in cases(), costs in prop::collection::vec(0.0f64..1e9, 4)) {
        let nodes = model.nodes();
        let table = |first: usize| (0..nodes * nodes).map(|place| costs[(place + first) % 4] / (place + 1) as f64).collect();
        let matrix = Matrix { read_ns: table(0), write_ns: table(1), read_ns_per_byte: table(2), write_ns_per_byte: table(3) };
        model.topology = Topology::FatTree(FatTree { radices: vec![nodes as u32] });
        model.cost_model = CostModel::Matrix(Box::new(matrix));
        let read = again(Format::Csv, &write(export::Format::Csv, &model, &placement), None);
        prop_assert_eq!((&read.cost_model, &read.topology), (&model.cost_model, &model.topology));
    }

    #[test]
    fn graphs_keep_every_byte_between_processes((mut model, placement) in cases()) {
        model.segments.clear();
        model.accesses.clear();
        let placement = Placement { segments: Vec::new(), ..placement };
        for (format, back) in [(export::Format::Metis, Format::Metis), (export::Format::ScotchGraph, Format::ScotchGraph)] {
            let read = again(back, &write(format, &model, &placement), None);
            prop_assert_eq!(read.processes.len(), model.processes.len());
            prop_assert_eq!(bytes(&read), bytes(&model));
        }
    }

    #[test]
    fn architectures_keep_every_distance((model, placement) in cases()) {
        let target = write(export::Format::ScotchTarget, &model, &placement);
        let mut bare = model.clone();
        bare.processes.clear();
        bare.segments.clear();
        bare.accesses.clear();
        bare.messages.clear();
        let read = again(Format::ScotchTarget, &target, Some(bare));
        prop_assert_eq!(Costs::new(&read).message_table(3), Costs::new(&model).message_table(3));
    }

    #[test]
    fn mappings_and_partitions_keep_every_place((model, placement) in cases()) {
        for (format, back) in [(export::Format::ScotchMap, Format::ScotchMap), (export::Format::MetisPart, Format::MetisPart)] {
            let text = write(format, &model, &placement);
            let result = import::read(back, &[Input { name: "again", text: &text }], Some(model.clone())).unwrap().result;
            prop_assert_eq!(result, import::Result::Placement(model.clone(), placement.clone()));
        }
    }

    #[test]
    fn no_text_makes_an_import_fall_over(text in "(torus2D|tleaf|0|[0-9 \n,.-]|[a-zE<>/=\"]|read 8){0,40}", which in 0..Format::ALL.len()) {
        let base = Some(cases_base());
        let _ = import::read(Format::ALL[which], &[Input { name: "text", text: &text }], base);
    }
}

/// A cell takes 2^53, and where each entry weighs once, a cell is one entry.
#[test]
fn entries_that_cannot_be_one_cell_are_several() {
    let mut model = cases_base();
    let placement = Placement { processes: vec![0, 1, 2, 3], segments: vec![Home::One(3); 3] };
    let cost = |model: &Model| Costs::new(model).evaluate(&placement).total_ns;
    let [mut first, mut other] = [model.accesses[0], model.accesses[1]];
    (first.count, first.size, other.size) = (1 << 53, 0, 0);
    model.accesses = vec![first, other, first, first];
    model.messages = vec![Message { from: 0, to: 1, count: 1 << 53, size: 0 }; 2];
    for once in [false, true] {
        if let CostModel::Scipos(scipos) = &mut model.cost_model
            && once
        {
            scipos.readings.counts = Counts::Once;
            model.accesses.iter_mut().for_each(|access| access.size = 8);
        }
        let read = again(Format::Csv, &write(export::Format::Csv, &model, &placement), Some(model.clone()));
        assert_eq!((read.accesses.len(), read.messages.len()), (4, 2));
        assert_eq!((accesses(&read), messages(&read)), (accesses(&model), messages(&model)));
        assert_eq!(cost(&read), cost(&model));
    }
}

fn cases_base() -> Model {
    Model::from_json(optisci::table1::SCHEDULER).unwrap()
}
