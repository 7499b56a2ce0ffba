//! Files of other tools. The files in `fixtures` were written by the tools themselves: lstopo and hwloc-annotate 2.9,
//! Open MPI 4.1 with its monitoring component, Scotch 7.0, METIS 5.1.

use optisci::export;
use optisci::import::{self, Format, Imported, Input};
use optisci::model::{CostModel, Message};
use optisci::topology::{FatTree, Topology, Torus};
use optisci::{Costs, Model, Placement, table1};

macro_rules! fixture {
    ($path:literal) => {
        Input { name: $path, text: include_str!(concat!("fixtures/", $path)) }
    };
}

fn read(format: Format, inputs: &[Input<'_>]) -> (Model, Vec<String>) {
    let Imported { result, notes } = import::read(format, inputs, None).unwrap();
    match result {
        import::Result::Model(model) => (model, notes),
        import::Result::Placement(..) => panic!("{} gives a model", format.name()),
    }
}

fn one(format: Format, input: Input<'_>) -> Model {
    read(format, &[input]).0
}

fn placement(format: Format, input: Input<'_>, model: &Model) -> Placement {
    match import::read(format, &[input], Some(model.clone())).unwrap().result {
        import::Result::Placement(_, placement) => placement,
        import::Result::Model(_) => panic!("{} gives a placement", format.name()),
    }
}

fn text(text: &str) -> Input<'_> {
    Input { name: "test", text }
}

#[track_caller]
fn refuse(format: Format, broken: &str, place: &str, part: &str) {
    let error = import::read(format, &[text(broken)], None).unwrap_err().to_string();
    assert!(error.starts_with(&format!("test: {place}")) && error.contains(part), "{error}");
}

fn rows(model: &Model, of: fn(&optisci::model::Matrix) -> &Vec<f64>) -> Vec<f64> {
    let CostModel::Matrix(matrix) = &model.cost_model else { panic!("{:?}", model.cost_model) };
    of(matrix).clone()
}

#[test]
fn lstopo_of_one_node_gives_its_cores_and_its_memory() {
    let (model, notes) = read(Format::Hwloc, &[fixture!("hwloc/one-node.xml")]);
    assert_eq!(model.topology, Topology::FatTree(FatTree { radices: vec![1] }));
    assert_eq!(model.process_slots, Some(vec![2]));
    assert!(model.memory_bytes.as_ref().unwrap()[0] > 1 << 30);
    assert!(notes.iter().any(|note| note.contains("assumed, 100 ns")), "{notes:?}");
}

#[test]
fn lstopo_of_packages_gives_a_tree_of_packages() {
    let model = one(Format::Hwloc, fixture!("hwloc/two-packages.xml"));
    assert_eq!(model.topology, Topology::FatTree(FatTree { radices: vec![2, 2] }));
    assert_eq!(model.process_slots.as_ref().unwrap().iter().sum::<u64>(), 16);
    assert_eq!(model.memory_bytes, Some(vec![16 << 30; 4]));
}

#[test]
fn a_table_of_distances_scales_what_is_assumed() {
    let (model, notes) = read(Format::Hwloc, &[fixture!("hwloc/distances-only.xml")]);
    let expected =
        [10, 21, 31, 21, 21, 10, 21, 31, 31, 21, 10, 21, 21, 31, 21, 10].map(|distance| f64::from(distance) * 10.0);
    for (found, expected) in rows(&model, |matrix| &matrix.read_ns).into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    assert!(notes.iter().any(|note| note.contains("own table")), "{notes:?}");
}

#[test]
fn memory_attributes_are_taken_as_they_are_with_their_direction() {
    let (model, notes) = read(Format::Hwloc, &[fixture!("hwloc/ring-of-four.xml")]);
    // From the cores of node 0 to the memory of nodes 0, 1, 2, 3.
    assert_eq!(rows(&model, |matrix| &matrix.read_ns)[..4], [90.0, 170.0, 160.0, 150.0]);
    assert_eq!(rows(&model, |matrix| &matrix.write_ns)[4..8], [150.0, 90.0, 170.0, 160.0]);
    let per_byte = |mib_per_s: f64| 1e9 / (mib_per_s * 1_048_576.0);
    let found = rows(&model, |matrix| &matrix.read_ns_per_byte);
    assert_eq!((found[0], found[1]), (per_byte(100_000.0), per_byte(30_000.0)));
    assert!(notes.iter().any(|note| note.contains("16 of 16 pairs")), "{notes:?}");
}

#[test]
fn memory_that_several_packages_share_has_no_cores_of_its_own() {
    let model = one(Format::Hwloc, fixture!("hwloc/shared-memory.xml"));
    let (slots, memory) = (model.process_slots.unwrap(), model.memory_bytes.unwrap());
    let mut nodes: Vec<(u64, u64)> = slots.into_iter().zip(memory).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [(0, 64 << 30), (4, 16 << 30), (4, 16 << 30)]);
}

#[test]
fn memory_without_cores_is_as_good_as_for_those_that_are_nearest() {
    let value = |cpus: &str, value: u32| {
        format!(
            "<memattr_value target_obj_gp_index=\"22\" target_obj_type=\"NUMANode\" value=\"{value}\" \
             initiator_cpuset=\"{cpus}\"/>"
        )
    };
    let attribute = |name: &str, near: u32, far: u32| {
        format!("<memattr name=\"{name}\">{}{}</memattr>", value("0x0000000f", near), value("0x000000f0", far))
    };
    let told = attribute("ReadLatency", 200, 400) + &attribute("ReadBandwidth", 20_000, 10_000) + "</topology>";
    let file = include_str!("fixtures/hwloc/shared-memory.xml").replace("</topology>", &told);
    let model = one(Format::Hwloc, text(&file));
    let per_byte = |mib_per_s: f64| 1e9 / (mib_per_s * 1_048_576.0);
    let column = |rows: Vec<f64>| [2, 5, 8].map(|entry| rows[entry]);
    assert_eq!(column(rows(&model, |matrix| &matrix.read_ns)), [200.0, 400.0, 200.0]);
    let bandwidths = [20_000.0, 10_000.0, 20_000.0].map(per_byte);
    assert_eq!(column(rows(&model, |matrix| &matrix.read_ns_per_byte)), bandwidths);
}

#[test]
fn a_machine_that_is_no_hwloc_file_is_told_with_its_line() {
    let good = include_str!("fixtures/hwloc/distances-only.xml");
    refuse(Format::Hwloc, "", "line 1", "");
    refuse(Format::Hwloc, "<topology version=\"2.0\">\n<object\n</topology>", "line ", "");
    refuse(Format::Hwloc, "<html/>", "line 1", "<topology>");
    refuse(Format::Hwloc, &good.replace("version=\"2.0\"", "version=\"1.0\""), "line 3", "hwloc 2");
    refuse(Format::Hwloc, &good.replace("NUMANode", "Misc"), "line 3", "0 objects");
    refuse(Format::Hwloc, &good.replacen("0x00000003", "many", 1), "line ", "set of processors");
    refuse(Format::Hwloc, &good.replace("10 21 31 21", "10 x 31 21"), "line ", "whole number");
    refuse(Format::Hwloc, &good.replace("nbobjs=\"4\"", "nbobjs=\"5\""), "line ", "expected 4, 4 and 16");
    refuse(
        Format::Hwloc,
        &good.replace("NUMANode\" os_index=\"1\"", "NUMANode\" os_index=\"one\""),
        "line ",
        "os_index",
    );
}

const PROFILES: [Input<'static>; 4] = [
    fixture!("openmpi/halo.0.prof"),
    fixture!("openmpi/halo.1.prof"),
    fixture!("openmpi/halo.2.prof"),
    fixture!("openmpi/halo.3.prof"),
];

#[test]
fn open_mpi_files_give_every_byte_and_message_with_its_direction() {
    let (model, notes) = read(Format::OpenMpi, &PROFILES);
    assert_eq!((model.processes.len(), model.nodes()), (4, 4));
    let between = |from: u32, to: u32| {
        let messages = model.messages.iter().filter(|message| (message.from, message.to) == (from, to));
        messages.fold((0, 0), |(bytes, count), message| (bytes + message.count * message.size, count + message.count))
    };
    // The program's own, the library's, and what was put: 10000 and 4288; 4096 and 4320; 144; 4320 and 4.
    assert_eq!(between(0, 1), (14_288, 37));
    assert_eq!(between(0, 2), (8416, 28));
    assert_eq!(between(1, 0), (144, 25));
    assert_eq!(between(1, 3), (4324, 24));
    assert!(notes.iter().any(|note| note.contains("12 lines of collectives")), "{notes:?}");
}

#[test]
fn data_that_was_got_flows_the_other_way() {
    let model = one(Format::OpenMpi, text("R 0 1 100 bytes 2 msgs sent"));
    assert_eq!(model.messages, [Message { from: 1, to: 0, count: 2, size: 50 }]);
}

#[test]
fn broken_profiles_are_told_with_file_and_line() {
    let error = import::read(Format::OpenMpi, &[PROFILES[0], text("# POINT TO POINT\nE\t0\tx\t1 bytes")], None);
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("test: line 2: \"x\": expected a rank"), "{error}");
    refuse(Format::OpenMpi, "E 0 1 10 octets 1 msgs sent", "line 1", "bytes");
    refuse(Format::OpenMpi, "E 0 1 10 bytes", "line 1", "a number of messages");
    refuse(Format::OpenMpi, "E 0 1 -1 bytes 1 msgs sent", "line 1", "whole number");
    refuse(Format::OpenMpi, "\nX 0 1 10 bytes 1 msgs sent", "line 2", "a tag");
    let error = import::read(Format::OpenMpi, &[text("# POINT TO POINT\n")], None).unwrap_err().to_string();
    assert!(error.contains("no data"), "{error}");
    let error =
        import::read(Format::OpenMpi, &[text("E 0 16777216 1 bytes 1 msgs sent")], None).unwrap_err().to_string();
    assert!(error.contains("rank 16777216 is named, but the data has 1 line"), "{error}");
}

#[test]
fn a_matrix_of_bytes_keeps_its_direction() {
    for matrix in ["0 5 0\n7 0 1.4\n0 0 9\n", "0,5,0\r\n7,0,1.4\r\n0,0,9\r\n", "\n0\t5;0\n\n7 0 1.4\n0 0 9"] {
        let model = one(Format::Matrix, text(matrix));
        let message = |from, to, size| Message { from, to, count: 1, size };
        assert_eq!(model.messages, [message(0, 1, 5), message(1, 0, 7), message(1, 2, 1)]);
    }
    refuse(Format::Matrix, "0 1\n1\n", "line 2", "expected 2");
    refuse(Format::Matrix, "0 1\n1 one\n", "line 2", "\"one\"");
    refuse(Format::Matrix, "0 -1\n1 0\n", "line 1", "\"-1\"");
    refuse(Format::Matrix, "\n", "line 1", "empty");
}

/// The torus that both graph tools wrote has its 32 edges, and the mapping that Scotch found keeps neighbours together.
#[test]
fn graphs_of_scotch_and_metis_are_the_same_program() {
    let scotch = one(Format::ScotchGraph, fixture!("scotch/torus-4x4.grf"));
    let metis = one(Format::Metis, fixture!("metis/torus-4x4.graph"));
    assert_eq!((scotch.processes.len(), scotch.messages.len()), (16, 32));
    assert_eq!((&scotch.processes, &scotch.messages), (&metis.processes, &metis.messages));
}

#[test]
fn a_mapping_of_scotch_is_a_placement() {
    let graph = one(Format::ScotchGraph, fixture!("scotch/torus-4x4.grf"));
    let onto = import::read(Format::ScotchTarget, &[fixture!("scotch/torus-4x4.tgt")], Some(graph)).unwrap();
    let import::Result::Model(model) = onto.result else { panic!("a target is a machine") };
    assert_eq!(model.topology, Topology::Torus(Torus { dims: vec![4, 4], directed: false }));
    let placement = placement(Format::ScotchMap, fixture!("scotch/torus-4x4.map"), &model);
    let evaluation = Costs::new(&model).evaluate(&placement);
    // Scotch reported a dilation of 1: each of 32 edges is one link long.
    assert_eq!((evaluation.total_ns, evaluation.is_feasible()), (32.0, true));
}

#[test]
fn a_partition_of_metis_is_a_placement() {
    let mut model = one(Format::Metis, fixture!("metis/torus-4x4.graph"));
    model.topology = Topology::FatTree(FatTree { radices: vec![4] });
    model.process_slots = Some(vec![4; 4]);
    let placement = placement(Format::MetisPart, fixture!("metis/torus-4x4.graph.part.4"), &model);
    let evaluation = Costs::new(&model).evaluate(&placement);
    // METIS reported 16 cut edges; each is two links of the switch.
    assert_eq!((evaluation.total_ns, evaluation.is_feasible()), (32.0, true));
}

#[test]
fn architectures_have_the_distances_that_scotch_gives_them() {
    // Largest and mean distance of two different terminals, as `atst` of Scotch 7.0.3 prints them.
    let cases = [
        ("torus2D 4 4\n", 4.0, 2.13333),
        ("torusXD\n1 4\n", 2.0, 1.33333),
        ("torusXD 4 2 2 2 2", 4.0, 2.13333),
        ("hcub 4", 4.0, 2.13333),
        ("tleaf 2 2 4 4 2\n", 6.0, 4.28571),
        (include_str!("fixtures/scotch/tree.tgt"), 5.0, 4.2),
        ("cmplt 8\n", 1.0, 1.0),
    ];
    for (target, most, mean) in cases {
        let model = one(Format::ScotchTarget, text(target));
        let table = Costs::new(&model).message_table(1);
        let (nodes, sum) = (model.nodes() as f64, table.iter().sum::<f64>());
        assert_eq!(table.iter().copied().fold(0.0, f64::max), most, "{target}");
        assert!((sum / (nodes * (nodes - 1.0)) - mean).abs() < 1e-5, "{target}");
    }
}

#[test]
fn broken_graphs_are_told_with_their_line() {
    refuse(Format::Metis, "", "line 1", "empty");
    refuse(Format::Metis, "% nothing\n2 x\n", "line 2", "number of edges");
    refuse(Format::Metis, "2 1 002\n2\n1\n", "line 1", "three digits");
    refuse(Format::Metis, "2 1\n2\n3\n", "line 3", "a vertex");
    refuse(Format::Metis, "2 1\n2\n\n", "line 2", "one of them only");
    refuse(Format::Metis, "2 1\n1\n\n", "line 2", "cannot have the neighbour 1");
    refuse(Format::Metis, "2 1 001\n2 5\n1 6\n", "line 3", "weighs 6, but 5 in line 2");
    refuse(Format::Metis, "2 2\n2\n1\n", "line 1", "says 2 edges, but there are 1");
    refuse(Format::Metis, "2 1\n2\n1\n7\n", "line 4", "expected the end");
    refuse(Format::Metis, "16777216 0\n", "line 1", "says 16777216 vertices, but the text has 1 line");
    refuse(Format::ScotchGraph, "1\n", "line 1", "version of Scotch");
    refuse(Format::ScotchGraph, "0\n2 2\n0 00\n1 1\n1 0\n", "line 3", "three digits");
    refuse(Format::ScotchGraph, "0\n2 2\n0 000\n1 1\n", "line 4", "the text ends");
    refuse(Format::ScotchGraph, "0\n2 2\n0 000\n1 2\n1 0\n", "line 4", "2 cannot be a neighbour");
    refuse(Format::ScotchGraph, "0\n2 2\n0 010\n1 3 1\n1 4 0\n", "line 5", "has the load 4, but 3 in line 4");
    refuse(Format::ScotchGraph, "0\n2 4\n0 000\n1 1\n1 0\n", "line 2", "says 4 arcs, but there are 2");
    refuse(Format::ScotchTarget, "mesh2D 4 4", "line 1", "meshes");
    refuse(Format::ScotchTarget, "torus2D 4", "line 1", "the text ends");
    refuse(Format::ScotchTarget, "torus2D 400 400", "line 1", "65536");
    refuse(Format::ScotchTarget, "tleaf 2 3000 1 2 2", "line 1", "2048");
    refuse(Format::ScotchTarget, "torus2D 0 4", "line 1", "no nodes");
}

#[test]
fn mappings_of_another_graph_are_refused() {
    let model = one(Format::ScotchGraph, fixture!("scotch/torus-4x4.grf"));
    for (format, mapping, part) in [
        (Format::ScotchMap, "3\n0 0\n1 1\n2 2\n", "the model has 16 processes"),
        (Format::ScotchMap, "16\n0 16\n", "line 2: \"16\": expected a node"),
        (Format::ScotchMap, "16\n0 1\n0 1\n", "line 3: vertex 0 is placed twice"),
        (Format::MetisPart, "0\n1\n", "the model has 16 processes"),
        (Format::MetisPart, "0\n1\nx\n", "line 3"),
    ] {
        let error = import::read(format, &[text(mapping)], Some(model.clone())).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = import::read(Format::ScotchMap, &[text("0\n")], None).unwrap_err().to_string();
    assert!(error.contains("--onto"), "{error}");
}

#[test]
fn a_table_of_costs_leaves_the_limits_of_its_model_and_says_so_where_it_cannot() {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.segment_slots = Some(vec![1, 1, 1, 1]);
    let table = |nodes: usize| {
        let head: String = (0..nodes).map(|node| format!(",{node}")).collect();
        let rows: String = (0..nodes).map(|node| format!("{node}{}\n", ",5".repeat(nodes))).collect();
        format!("read_ns{head}\n{rows}")
    };
    let onto = |nodes| import::read(Format::Csv, &[text(&table(nodes))], Some(model.clone()));
    let Imported { result: import::Result::Model(again), notes } = onto(4).unwrap() else { panic!("a model") };
    assert_eq!((&again.segment_slots, &again.topology), (&model.segment_slots, &model.topology));
    assert!(matches!(again.cost_model, CostModel::Matrix(_)) && !notes.iter().any(|note| note.contains("--onto")));
    let Imported { result: import::Result::Model(other), notes } = onto(5).unwrap() else { panic!("a model") };
    assert_eq!((other.nodes(), other.segment_slots), (5, None));
    assert!(notes.iter().any(|note| note.contains("its limits are left out")), "{notes:?}");
}

#[test]
fn what_scotch_reported_of_our_own_files_is_what_they_say() {
    let model = Model::from_json(table1::SCHEDULER).unwrap();
    let placement = Placement::from_json(table1::MAPPINGS[0].1, &model).unwrap();
    let write = |format| export::write(format, &model, &placement, &[]).unwrap();
    // `gtst` accepts the graph, `graphchk` the other, and `atst` the architecture.
    assert_eq!(write(export::Format::ScotchTarget), "torusXD 1 4\n");
    assert!(write(export::Format::ScotchGraph).starts_with("0\n7 24\n0 010\n3 614400 4 409600 5 204800 6\n"));
    assert!(write(export::Format::Metis).starts_with("7 12 001\n5 614400 6 409600 7 204800\n"));
    assert_eq!(write(export::Format::MetisPart), "0\n1\n2\n3\n2\n3\n2\n");
}

#[test]
fn weights_that_tools_cannot_add_up_are_scaled_down_together() {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    model.accesses.iter_mut().for_each(|access| access.count *= 1_000_000);
    let placement = Placement::from_json(table1::MAPPINGS[0].1, &model).unwrap();
    let graph = export::write(export::Format::Metis, &model, &placement, &[]).unwrap();
    let again = one(Format::Metis, text(&graph));
    let total: u64 = again.messages.iter().map(|message| message.size).sum();
    assert!(total <= 1 << 30);
    let ratio = again.messages[0].size as f64 / again.messages[2].size as f64;
    assert!((ratio - 1.5).abs() < 1e-4, "{ratio}");
}

#[test]
fn launchers_get_one_line_per_process() {
    let mut model = Model::from_json(table1::SCHEDULER).unwrap();
    let placement = Placement::from_json(table1::MAPPINGS[0].1, &model).unwrap();
    let hosts: Vec<String> = ["a", "b", "a", "c"].map(str::to_owned).to_vec();
    let write = |format, hosts: &[String]| export::write(format, &model, &placement, hosts);
    let rankfile = write(export::Format::Rankfile, &hosts).unwrap();
    // Two nodes of one host share its slots.
    assert_eq!(rankfile, "rank 0=a slot=0\nrank 1=b slot=0\nrank 2=a slot=1\nrank 3=c slot=0\n");
    assert_eq!(write(export::Format::Slurm, &hosts).unwrap(), "a\nb\na\nc\n");
    assert_eq!(write(export::Format::Slurm, &[]).unwrap(), "node0\nnode1\nnode2\nnode3\n");
    for (hosts, part) in
        [(&hosts[..3], "3 hosts were named"), (&["a", "b", "c d", "e"].map(str::to_owned)[..], "\"c d\"")]
    {
        let error = write(export::Format::Rankfile, hosts).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    model.segments[0].replicable = true;
    let mut copied = placement.clone();
    copied.segments[0] = optisci::placement::Home::of([0, 1]);
    for format in [export::Format::Numactl, export::Format::ScotchMap, export::Format::MetisPart] {
        let error = export::write(format, &model, &copied, &[]).unwrap_err().to_string();
        assert!(error.contains("\"queue 0\" has 2 copies"), "{error}");
    }
}

const RECORD: &str = r#"{
  "deck_access_record": 1,
  "program": "scheduler",
  "topology": {"kind": "torus", "dims": [4], "directed": true},
  "processes": [{"id": "master 0", "node": 0}],
  "segments": [{"id": "queue 0", "home": 2, "bytes": 4096}],
  "accesses": [{"process": "master 0", "segment": "queue 0", "op": "read", "count": 300, "size": 2048}]
}"#;
const OTHER_RECORD: &str = r#"{
  "deck_access_record": 1,
  "processes": [{"id": "slave 0", "node": 2}],
  "segments": [{"id": "queue 0", "home": 2, "bytes": 4096}],
  "accesses": [{"process": "slave 0", "segment": "queue 0", "op": "write", "count": 300, "size": 2048}],
  "messages": [{"from": "slave 0", "to": "master 0", "count": 1, "size": 8}]
}"#;

#[test]
fn records_of_several_nodes_are_one_program_and_one_placement() {
    let inputs = [Input { name: "0", text: RECORD }, Input { name: "1", text: OTHER_RECORD }];
    let (model, notes) = read(Format::Record, &inputs);
    assert_eq!(model.id.as_deref(), Some("scheduler"));
    assert_eq!(model.topology, Topology::Torus(Torus { dims: vec![4], directed: true }));
    assert_eq!((model.processes.len(), model.segments.len(), model.accesses.len(), model.messages.len()), (2, 1, 2, 1));
    assert!(notes.iter().any(|note| note.contains("1 ns per byte and link is assumed")), "{notes:?}");
    let result = import::read(Format::RecordPlacement, &inputs, Some(model.clone())).unwrap().result;
    let import::Result::Placement(_, placement) = result else { panic!("a placement") };
    assert_eq!((placement.processes, placement.segments[0].nodes()), (vec![0, 2], &[2][..]));
}

#[test]
fn one_of_a_kind_is_told_as_one() {
    let record = r#"{"deck_access_record": 1, "processes": [{"id": "a", "node": 0}], "segments": [], "accesses": []}"#;
    let (model, notes) = read(Format::Record, &[text(record)]);
    assert!(notes.iter().any(|note| note.contains("assumed: 1 node with one process each")), "{notes:?}");
    let broken = Model { process_slots: Some(vec![1, 1]), ..model };
    let error = Model::from_json(&broken.to_json()).unwrap_err().to_string();
    assert!(error.contains("has 2 entries: one for each of 1 node is needed"), "{error}");
}

#[test]
fn a_machine_that_records_do_not_tell_is_one_on_which_they_could_be_made() {
    let record = r#"{
  "deck_access_record": 1,
  "processes": [{"id": "a", "node": 0}, {"id": "b", "node": 0}],
  "segments": [{"id": "far", "home": 7, "bytes": 4096}],
  "accesses": [{"process": "a", "segment": "far", "op": "read", "count": 1, "size": 64}]
}"#;
    let inputs = [text(record)];
    let (model, notes) = read(Format::Record, &inputs);
    assert!(
        notes.iter().any(|note| note.contains("8 nodes with one process each or as many as ran there")),
        "{notes:?}"
    );
    assert_eq!(model.process_slots, Some(vec![2, 1, 1, 1, 1, 1, 1, 1]));
    let result = import::read(Format::RecordPlacement, &inputs, Some(model)).unwrap().result;
    let import::Result::Placement(_, placement) = result else { panic!("a placement") };
    assert_eq!((placement.processes, placement.segments[0].nodes()), (vec![0, 0], &[7][..]));
}

#[test]
fn records_that_contradict_each_other_are_told_with_file_and_path() {
    let refuse_second = |second: &str, path: &str, part: &str| {
        let inputs = [Input { name: "0", text: RECORD }, text(second)];
        let error = import::read(Format::Record, &inputs, None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("test: {path}: ")) && error.contains(part), "{error}");
    };
    refuse_second(&OTHER_RECORD.replace("\"home\": 2", "\"home\": 1"), "segments[0].home", "was 2 before");
    refuse_second(&OTHER_RECORD.replace("4096", "4095"), "segments[0].bytes", "was 4096 before");
    refuse_second(&OTHER_RECORD.replace("\"node\": 2", "\"node\": 4"), "processes[0].node", "nodes 0 to 3");
    refuse_second(&RECORD.replace("[4]", "[5]"), "topology", "another one");
    refuse_second(
        &OTHER_RECORD.replace("\"slave 0\", \"node\"", "\"master 0\", \"node\""),
        "processes[0].node",
        "was 0 before",
    );
    refuse_second(
        &OTHER_RECORD.replace("\"to\": \"master 0\"", "\"to\": \"master 9\""),
        "messages[0].to",
        "no process \"master 9\"",
    );
    refuse_second(
        &OTHER_RECORD.replace("\"op\": \"write\"", "\"op\": \"erase\""),
        "accesses[0].op",
        "`read` or `write`",
    );
    refuse_second(&OTHER_RECORD.replace("record\": 1", "record\": 2"), "deck_access_record", "version 1");
    let in_turn = r#"{ "deck_access_record": 1, "processes": [["slave 0", 2]] }"#;
    refuse_second(in_turn, "processes[0]", "expected an object with the id of a process and its node");
    let in_turn = r#"{ "deck_access_record": 1, "topology": ["torus", 4, [4]] }"#;
    refuse_second(in_turn, "topology", "expected an object");
}

#[test]
fn a_machine_and_a_program_of_different_files_make_a_model() {
    let program = one(Format::Csv, text("read 8,s\np,3\n"));
    let result = import::read(Format::Hwloc, &[fixture!("hwloc/ring-of-four.xml")], Some(program)).unwrap().result;
    let import::Result::Model(model) = result else { panic!("a model") };
    assert_eq!((model.nodes(), model.processes.len(), model.accesses[0].count), (4, 1, 3));
    // A pin to a node that the other machine does not have.
    let program = one(Format::Csv, text("process,pin\np,1\nq,0\n"));
    let error = import::read(Format::Hwloc, &[fixture!("hwloc/one-node.xml")], Some(program)).unwrap_err().to_string();
    assert!(error.contains("processes[0].pin"), "{error}");
}

#[test]
fn blanks_around_the_cells_of_a_table_are_no_part_of_an_id() {
    let model = one(Format::Csv, text("segment,bytes\ns1,64\n\nread 8, s1\np0,5\n\nmessages 8, p0 ,p1\n p1 ,1,0\n"));
    let ids: Vec<&str> = model.processes.iter().map(|process| process.id.as_str()).collect();
    assert_eq!(ids, ["p0", "p1"]);
    assert_eq!((model.segments.len(), model.segments[0].bytes, model.accesses[0].count), (1, 64, 5));
    assert_eq!(model.messages, [Message { from: 1, to: 0, count: 1, size: 8 }]);
}

#[test]
fn broken_tables_are_told_with_their_line() {
    refuse(Format::Csv, "", "line 1", "empty");
    refuse(Format::Csv, "reads 8,s\np,3\n", "line 1", "read SIZE");
    refuse(Format::Csv, "read 8,s\np,3\n\nwrite x,s\n", "line 4", "bytes of each access");
    refuse(Format::Csv, "read 8,s\np,three\n", "line 2", "\"three\"");
    refuse(Format::Csv, "read 8,s\np,3,4\n", "line 2", "2 columns");
    refuse(Format::Csv, "segment,size\ns,3\n", "line 2", "no column \"size\"");
    refuse(Format::Csv, "segment,replicable\ns,maybe\n", "line 2", "true or false");
    refuse(Format::Csv, "read 8,s\n\"p,3\n", "line 2", "quoted");
    refuse(Format::Csv, "read_ns,0,1\n0,1,2\n", "line 1", "2 columns and 1 row:");
    refuse(Format::Csv, "read_ns,0,1\n0,1,2\n2,1,2\n", "line 3", "node 2: expected 1");
    refuse(Format::Csv, "read_ns,0,1\n0,1,2\n1,1,far\n", "line 3", "\"far\"");
    refuse(Format::Csv, "read_ns,0\n0,1\n\nread_ns,0\n0,1\n", "line 4", "in line 1 already");
    refuse(Format::Csv, "read_ns,0\n0,1\n\nwrite_ns,0,1\n0,1,1\n1,1,1\n", "line 4", "another number of nodes");
}

#[test]
fn costs_that_were_measured_come_from_a_table() {
    let table = "read_ns,0,1\n0,90,140\n1,150,95\n\nread_ns_per_byte,0,1\n0,0.1,0.25\n1,0.25,0.1\n";
    let program = one(Format::Csv, text("read 8,s\np,3\n"));
    let imported = import::read(Format::Csv, &[text(table)], Some(program)).unwrap();
    let import::Result::Model(model) = imported.result else { panic!("a model") };
    let costs = Costs::new(&model);
    assert_eq!(costs.access_ns(optisci::model::Op::Read, 8, 1, 0), 150.0 + 8.0 * 0.25);
    assert_eq!((model.nodes(), model.accesses.len()), (2, 1));
    assert!(imported.notes.iter().any(|note| note.starts_with("start-up: one matrix")), "{:?}", imported.notes);
}
