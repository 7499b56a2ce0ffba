//! Model and placement files: what they may say, and how a mistake in them is told.

use optisci::model::{Changing, CostModel, Local, Objective, UNLIMITED};
use optisci::placement::Home;
use optisci::{Model, Placement, table1};
use proptest::prelude::*;
use serde_json::{Value, json};

fn model() -> Value {
    json!({
        "id": "example",
        "version": 1,
        "topology": { "kind": "torus", "nodes": 6, "dims": [3, 2], "directed": false },
        "cost_model": { "kind": "hop_bytes", "ns_per_byte_hop": 1.5 },
        "processes": [{ "id": "p" }, { "id": "q", "pin": 5 }],
        "segments": [{ "id": "s", "bytes": 100 }, { "id": "t", "bytes": 0, "pin": 0, "replicable": true }],
        "accesses": [{ "process": "p", "segment": "s", "op": "read", "count": 3, "size": 8 }],
        "messages": [{ "from": "p", "to": "q", "count": 1, "size": 1 }],
        "process_slots": [1, 1, 1, 1, 1, 1],
        "segment_slots": [1, null, 1, 1, 1, 1],
        "memory_bytes": [1000, 1000, 1000, 1000, 1000, 1000],
        "objective": "makespan",
    })
}

fn matrix() -> Value {
    let mut value = model();
    value["topology"] = json!({ "kind": "fat_tree", "radices": [2] });
    let rows = json!([[1, 2], [3.5, 4]]);
    value["cost_model"] = json!({
        "kind": "matrix", "read_ns": rows, "write_ns": rows, "read_ns_per_byte": rows, "write_ns_per_byte": rows
    });
    value["processes"][1] = json!({ "id": "q" });
    for field in ["process_slots", "segment_slots", "memory_bytes"] {
        value.as_object_mut().unwrap().remove(field);
    }
    value
}

/// Replaces what stands at a pointer, or adds it to its object.
fn changed(mut value: Value, pointer: &str, new: Value) -> String {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent).unwrap() {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), new);
        }
        list => list[key.parse::<usize>().unwrap()] = new,
    }
    value.to_string()
}

#[track_caller]
fn refuse(text: &str, path: &str, part: &str) {
    let error = Model::from_json(text).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{path}: ")) && error.contains(part), "{error}");
}

#[test]
fn only_an_object_is_a_model_or_a_placement() {
    let model = Model::from_json(&model().to_string()).unwrap();
    for text in ["[]", "null", "\"model\"", "7", "", " \n ", "[\"example\", 1, {}]", "\u{feff}{}"] {
        let error = Model::from_json(text).unwrap_err().to_string();
        assert!(error.contains("a JSON object is expected"), "{text:?}: {error}");
        let error = Placement::from_json(text, &model).unwrap_err().to_string();
        assert!(error.contains("a JSON object is expected"), "{text:?}: {error}");
    }
}

#[test]
fn a_model_says_what_its_file_says() {
    let model = Model::from_json(&model().to_string()).unwrap();
    assert_eq!((model.nodes(), model.objective, model.processes[1].pin), (6, Objective::Makespan, Some(5)));
    assert_eq!(model.segment_slots.as_ref().unwrap()[..2], [1, UNLIMITED]);
    assert!(model.segments[1].replicable && !model.segments[0].replicable);
    assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
}

#[test]
fn what_may_be_absent_has_its_default() {
    let text = r#"{ "topology": { "kind": "torus", "dims": [2] }, "cost_model": { "kind": "hop_bytes", "ns_per_byte_hop": 1 } }"#;
    let model = Model::from_json(text).unwrap();
    assert_eq!((model.objective, model.process_slots.clone(), model.processes.len()), (Objective::Sum, None, 0));
    assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
}

#[test]
fn readings_are_part_of_the_cost_model() {
    let mut value: Value = serde_json::from_str(table1::SCHEDULER).unwrap();
    value["cost_model"]["readings"] = json!({ "local": "two_memories", "changing": "always" });
    let model = Model::from_json(&value.to_string()).unwrap();
    let CostModel::Scipos(scipos) = &model.cost_model else { panic!("{:?}", model.cost_model) };
    assert_eq!((scipos.readings.local, scipos.readings.changing), (Local::TwoMemories, Changing::Always));
    assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
    let wrong = changed(value.clone(), "/cost_model/readings/local", json!("half"));
    refuse(&wrong, "cost_model.readings.local", "two_memories");
    refuse(&changed(value, "/cost_model/readings/speed", json!(1)), "cost_model.readings.speed", "unknown field");
}

#[test]
fn unknown_fields_are_refused_with_their_path() {
    for (pointer, path) in [
        ("/colour", "colour"),
        ("/topology/colour", "topology.colour"),
        ("/cost_model/colour", "cost_model.colour"),
        ("/processes/1/colour", "processes[1].colour"),
        ("/segments/0/colour", "segments[0].colour"),
        ("/accesses/0/colour", "accesses[0].colour"),
        ("/messages/0/colour", "messages[0].colour"),
    ] {
        refuse(&changed(model(), pointer, json!("blue")), path, "unknown field");
    }
}

#[test]
fn fields_of_another_kind_are_refused_with_their_path() {
    refuse(&changed(model(), "/topology/radices", json!([2, 3])), "topology.radices", "does not belong to kind torus");
    refuse(
        &changed(model(), "/cost_model/mem_mhz", json!(100)),
        "cost_model.mem_mhz",
        "does not belong to kind hop_bytes",
    );
    refuse(
        &changed(matrix(), "/topology/directed", json!(true)),
        "topology.directed",
        "does not belong to kind fat_tree",
    );
    refuse(&changed(matrix(), "/topology/dims", json!([2])), "topology.dims", "does not belong to kind fat_tree");
}

#[test]
fn another_version_is_told_before_what_it_has_and_lacks() {
    refuse(&json!({ "version": 99 }).to_string(), "version", "is 99: this program reads version 1");
    refuse(&json!({ "version": 2, "machine": {} }).to_string(), "version", "is 2: this program reads version 1");
    refuse(&json!({ "version": 1 }).to_string(), "topology", "is missing");
}

#[test]
fn wrong_values_are_told_with_their_path_and_what_was_expected() {
    for (pointer, new, path, part) in [
        ("/version", json!(2), "version", "reads version 1"),
        ("/topology/kind", json!("ring"), "topology.kind", "torus or fat_tree"),
        ("/topology/nodes", json!(7), "topology.nodes", "dims make 6"),
        ("/topology/dims", json!([]), "topology.dims", "at least one"),
        ("/topology/dims", json!([3, 0]), "topology.dims[1]", "at least 1"),
        ("/topology/dims", json!([300, 300]), "topology.dims[1]", "65536"),
        ("/topology/dims", json!(vec![1; 17]), "topology.dims", "17 sizes"),
        ("/topology/dims", json!(3), "topology.dims", "sequence"),
        ("/cost_model/kind", json!("cheap"), "cost_model.kind", "scipos, matrix or hop_bytes"),
        ("/cost_model/ns_per_byte_hop", json!(-1), "cost_model.ns_per_byte_hop", "0 to 1e15"),
        ("/cost_model/ns_per_byte_hop", json!("1"), "cost_model.ns_per_byte_hop", "invalid type"),
        ("/processes/1/pin", json!(6), "processes[1].pin", "nodes 0 to 5"),
        ("/processes/1/pin", json!(-1), "processes[1].pin", "whole number from 0"),
        ("/processes/1/id", json!("p"), "processes[1].id", "already the id of processes[0]"),
        ("/segments/1/pin", json!(1.5), "segments[1].pin", "whole number"),
        ("/segments/0/bytes", json!(1e300), "segments[0].bytes", "whole number"),
        ("/segments/0/replicable", json!(1), "segments[0].replicable", "boolean"),
        ("/accesses/0/process", json!("r"), "accesses[0].process", "no process \"r\""),
        ("/accesses/0/segment", json!("r"), "accesses[0].segment", "no segment \"r\""),
        ("/accesses/0/op", json!("append"), "accesses[0].op", "`read` or `write`"),
        ("/accesses/0/count", json!(-3), "accesses[0].count", "whole number"),
        ("/accesses/0/size", json!(9.1e15), "accesses[0].size", "2^53"),
        ("/messages/0/to", json!("r"), "messages[0].to", "no process \"r\""),
        ("/messages/0", json!({ "from": "p", "to": "q", "count": 1 }), "messages[0].size", "is missing"),
        ("/process_slots", json!([1]), "process_slots", "one for each of 6 nodes"),
        ("/segment_slots/2", json!("1"), "segment_slots[2]", "whole number"),
        ("/objective", json!("fun"), "objective", "makespan"),
    ] {
        refuse(&changed(model(), pointer, new), path, part);
    }
    let matrices = [
        ("/cost_model/read_ns", json!([[1, 2]]), "cost_model.read_ns", "each of 2 nodes"),
        ("/cost_model/write_ns/1", json!([1]), "cost_model.write_ns[1]", "each of 2 nodes"),
        ("/cost_model/write_ns_per_byte/1/0", json!(-1), "cost_model.write_ns_per_byte[1][0]", "0 to 1e15"),
        ("/cost_model/read_ns_per_byte/1/0", json!(null), "cost_model.read_ns_per_byte[1][0]", "invalid type"),
    ];
    for (pointer, new, path, part) in matrices {
        refuse(&changed(matrix(), pointer, new), path, part);
    }
    let mut without = matrix();
    without["cost_model"].as_object_mut().unwrap().remove("write_ns");
    refuse(&without.to_string(), "cost_model.write_ns", "is missing");
    let mut scheduler: Value = serde_json::from_str(table1::SCHEDULER).unwrap();
    for clock in ["mem_mhz", "pci_mhz", "bridge_mhz", "ring_mhz"] {
        let mhz = scheduler["cost_model"][clock].take();
        for wrong in [json!(0), json!(-33), json!(1e-308), json!(0.0009), json!(1.1e9), json!(1e308)] {
            scheduler["cost_model"][clock] = wrong;
            refuse(&scheduler.to_string(), &format!("cost_model.{clock}"), "0.001 to 1e9");
        }
        for right in [json!(0.001), json!(1e9), mhz] {
            scheduler["cost_model"][clock] = right;
            assert!(Model::from_json(&scheduler.to_string()).is_ok());
        }
    }
}

#[test]
fn more_bytes_than_can_be_added_up_are_refused() {
    let mut value = model();
    value["accesses"][0]["count"] = json!(1u64 << 40);
    value["accesses"][0]["size"] = json!(1u64 << 40);
    refuse(&value.to_string(), "accesses[0].count", "2^64");
    value["accesses"] = json!([]);
    value["messages"][0]["count"] = json!(1u64 << 53);
    value["messages"][0]["size"] = json!(1u64 << 53);
    refuse(&value.to_string(), "messages[0].count", "2^64");
}

#[test]
fn numbers_that_other_programs_write_with_a_point_are_whole_numbers_too() {
    let text = changed(model(), "/accesses/0/count", json!(300.0));
    assert!(text.contains("300.0"));
    assert_eq!(Model::from_json(&text).unwrap().accesses[0].count, 300);
}

#[test]
fn a_number_keeps_its_last_bit() {
    // Readers that round twice take the neighbour of this number.
    let text = model().to_string().replace("1.5", "214018471.47894678");
    let model = Model::from_json(&text).unwrap();
    let CostModel::HopBytes(costs) = &model.cost_model else { panic!("{:?}", model.cost_model) };
    assert_eq!(costs.ns_per_byte_hop.to_bits(), 214_018_471.478_946_78_f64.to_bits());
    assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
}

#[test]
fn values_in_turn_are_no_object() {
    let refuse =
        |pointer: &str, new: Value, path: &str, part: &str| refuse(&changed(model(), pointer, new), path, part);
    refuse("/topology", json!(["torus", 6, [3, 2], false]), "topology", "sequence, expected an object with the kind");
    refuse("/topology", json!("torus"), "topology", "expected an object with the kind");
    refuse("/cost_model", json!(["hop_bytes"]), "cost_model", "sequence, expected an object with the kind");
    refuse("/processes/1", json!(["q", 5]), "processes[1]", "sequence, expected an object with the id of a process");
    refuse("/processes/1", json!("q"), "processes[1]", "expected an object with the id of a process");
    refuse("/processes/1", Value::Null, "processes[1]", "expected an object with the id of a process");
    refuse("/segments/0", json!(["s", 100]), "segments[0]", "sequence, expected an object with the id and bytes");
    let access = json!(["p", "s", "read", 3, 8]);
    refuse(
        "/accesses/0",
        access,
        "accesses[0]",
        "sequence, expected an object with process, segment, op, count and size",
    );
    refuse("/messages/0", json!(["p", "q", 1, 1]), "messages[0]", "sequence, expected an object with from, to");
    refuse("/processes", json!({ "p": 0 }), "processes", "map, expected a sequence");
    let scipos = json!({ "kind": "scipos", "mem_mhz": 100, "pci_mhz": 33, "bridge_mhz": 1000, "ring_mhz": 500,
        "readings": ["zero"] });
    refuse("/cost_model", scipos, "cost_model.readings", "sequence, expected an object with the readings");
}

#[test]
fn what_is_no_json_is_told_with_its_line() {
    let error = Model::from_json("{\n  \"id\": \"a\",\n  topology").unwrap_err().to_string();
    assert!(error.contains("line 3"), "{error}");
    let error = Model::from_json(&format!("{} {{}}", model())).unwrap_err().to_string();
    assert!(error.contains("trailing"), "{error}");
    assert!(Model::from_json("").is_err() && Model::from_json("[]").is_err());
}

#[test]
fn a_placement_names_every_process_and_segment_and_nothing_else() {
    let model = Model::from_json(&model().to_string()).unwrap();
    let read = |text: &str| Placement::from_json(text, &model);
    let placement = read(r#"{ "processes": { "p": 0, "q": 5 }, "segments": { "s": [3], "t": [5, 1] } }"#).unwrap();
    assert_eq!(placement.processes, [0, 5]);
    assert_eq!(placement.segments, [Home::One(3), Home::of([1, 5])]);
    assert_eq!(read(&placement.to_json(&model)).unwrap(), placement);

    for (text, path, part) in [
        (r#"{ "processes": { "p": 0 }, "segments": { "s": 3, "t": 0 } }"#, "processes.q", "is missing"),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": 3 } }"#, "segments.t", "is missing"),
        (r#"{ "processes": { "p": 0, "q": 6 }, "segments": { "s": 3, "t": 0 } }"#, "processes.q", "nodes 0 to 5"),
        (
            r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": [0, 9], "t": 0 } }"#,
            "segments.s[1]",
            "nodes 0 to 5",
        ),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": [], "t": 0 } }"#, "segments.s", "empty list"),
        (
            r#"{ "processes": { "p": 0, "q": 0, "p": 1 }, "segments": { "s": 3, "t": 0 } }"#,
            "processes",
            "\"p\" is there twice",
        ),
        (
            r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "t": 1, "s": 3, "t": 0 } }"#,
            "segments",
            "\"t\" is there twice",
        ),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": [1, 1], "t": 0 } }"#, "segments.s", "twice"),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": "1", "t": 0 } }"#, "segments.s", "a node, or a list"),
        (r#"{ "processes": { "p": 0, "q": 0, "r": 0 }, "segments": { "s": 1, "t": 0 } }"#, "processes.r", "no process"),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": 1, "t": 0, "u": 1 } }"#, "segments.u", "no segment"),
        (r#"{ "processes": { "p": 0, "q": 0 }, "segments": { "s": 1, "t": 0 }, "cost": 1 }"#, "cost", "unknown field"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{path}: ")) && error.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fall_over(text in "\\PC*") {
        let _ = Model::from_json(&text);
    }

    #[test]
    fn a_file_that_was_damaged_is_read_or_refused(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = model().to_string().into_bytes();
        let place = at.index(bytes.len());
        bytes[place] = with;
        if let Ok(text) = String::from_utf8(bytes)
            && let Ok(model) = Model::from_json(&text)
        {
            prop_assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
        }
    }
}
