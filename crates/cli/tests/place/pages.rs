//! What the README and the guide show of `deck place` is what it prints.

use std::path::Path;

use super::{Folder, deck, examples};

/// The blocks of the guide are what the commands print, byte for byte. A line of `...` stands for any lines.
#[test]
fn the_guide_shows_what_is_really_printed() {
    assert!(shown_commands("docs/guide/placement.md") >= 5);
}

#[test]
fn the_readme_shows_what_is_really_printed() {
    assert!(shown_commands("README.md") >= 1);
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
