//! What the README and the guide show of `deck place` is what it prints.

use std::path::Path;

use serde_json::{Value, json};

use super::{Folder, deck, examples, stdout};

/// The blocks of the guide are what the commands print, byte for byte. A line of `...` stands for any lines.
#[test]
fn the_guide_shows_what_is_really_printed() {
    assert!(shown_commands("docs/guide/placement.md") >= 5);
}

#[test]
fn the_readme_shows_what_is_really_printed() {
    assert!(shown_commands("README.md") >= 1);
}

/// The names of the fields in it, without those that are ids.
fn fields(value: &Value) -> Vec<String> {
    match value {
        Value::Array(list) => list.iter().flat_map(fields).collect(),
        Value::Object(object) => {
            let ids = ["per_process", "spent_per_process", "processes", "segments"];
            let within = |(name, value): (&String, &Value)| match value {
                Value::Object(by_id) if ids.contains(&name.as_str()) => by_id.values().flat_map(fields).collect(),
                value => fields(value),
            };
            object.iter().flat_map(within).chain(object.keys().cloned()).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_field_of_the_json_objects_stands_in_the_guide() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    let mut model: Value = serde_json::from_str(optisci::table1::SCHEDULER).unwrap();
    model["process_slots"] = json!([0, 0, 0, 0]);
    folder.file("full.json", &model.to_string());
    let guide = include_str!("../../../../docs/guide/placement.md");
    for line in ["cost model.json a.json --json", "solve model.json --json", "solve full.json --json"] {
        let text = stdout(&deck(folder.path(), &line.split_whitespace().collect::<Vec<_>>()));
        for name in fields(&serde_json::from_str(&text).unwrap()) {
            assert!(guide.contains(&format!("`{name}`")), "docs/guide/placement.md says nothing of `{name}`: {line}");
        }
    }
}

/// Runs the `deck place` commands of a page and compares; how many there were.
fn shown_commands(page: &str) -> usize {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = std::fs::read_to_string(root.join(page)).unwrap();
    let folder = Folder::new();
    for entry in std::fs::read_dir(examples()).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../optisci/tests/fixtures/hwloc/one-node.xml");
    std::fs::copy(machine, folder.path().join("machine.xml")).unwrap();
    let mut blocks = 0;
    for block in guide.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for step in block.split("$ ").skip(1) {
            let (line, expected) = step.split_once('\n').unwrap();
            let Some(arguments) = line.strip_prefix("deck place ") else { continue };
            let words: Vec<&str> = arguments.split_whitespace().collect();
            let ended = deck(folder.path(), &words);
            let printed = String::from_utf8(ended.stdout).unwrap() + &String::from_utf8(ended.stderr).unwrap();
            assert!(agree(&printed, expected), "$ {line}\nprints:\n{printed}\n{page} says:\n{expected}");
            blocks += 1;
        }
    }
    blocks
}

fn agree(printed: &str, expected: &str) -> bool {
    // Times differ from run to run.
    let without_time = |line: &str| match (line.rsplit_once(", "), line.split_once("\"seconds\":")) {
        (Some((before, time)), _) if time.ends_with(" s") => before.to_owned(),
        (_, Some((before, rest))) => before.to_owned() + rest.split_once(',').map_or("", |(_, after)| after),
        _ => line.to_owned(),
    };
    let mut printed = printed.lines().map(without_time);
    let mut skips = false;
    for expected in expected.lines().map(without_time) {
        if expected == "..." {
            skips = true;
        } else if skips {
            skips = false;
            if !printed.any(|line| line == expected) {
                return false;
            }
        } else if printed.next().as_deref() != Some(&expected) {
            return false;
        }
    }
    skips || printed.next().is_none()
}
