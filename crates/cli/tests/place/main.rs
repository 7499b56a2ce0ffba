//! `deck place` as its users and their programs see it: output, files, messages and exit status.

mod pages;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

fn deck(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
    // Help is wrapped to the width of the terminal, which a test has none of.
    command.arg("place").args(arguments).current_dir(folder).env_remove("COLUMNS").output().unwrap()
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/placement")
}

/// A folder of its own that goes with the test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str) -> &Folder {
        std::fs::write(self.path().join(name), text).unwrap();
        self
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap()
    }
}

#[track_caller]
fn stderr(ended: &Output) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

fn stdout(ended: &Output) -> String {
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {errors}", ended.status);
    String::from_utf8(ended.stdout.clone()).unwrap()
}

/// It ends with this status, prints nothing, and says these things in one line.
#[track_caller]
fn refuse(ended: &Output, status: i32, parts: &[&str]) {
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(status), 0), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{part} is not in: {said}"));
}

#[test]
fn cost_prints_one_json_object_with_every_part() {
    let text = stdout(&deck(&examples(), &["cost", "scheduler.json", "scheduler-a.json", "--json"]));
    assert_eq!(text.lines().count(), 1);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert!((report["total_ns"].as_f64().unwrap() - 494_133_327.272_727).abs() < 0.01, "{report}");
    assert!(report["makespan_ns"].as_f64().unwrap() < report["total_ns"].as_f64().unwrap());
    assert_eq!((&report["feasible"], &report["violations"]), (&Value::Bool(true), &Value::Array(Vec::new())));
    let processes = report["per_process"].as_object().unwrap();
    let sum: f64 = processes
        .values()
        .flat_map(|cost| ["read_ns", "write_ns", "message_ns"].map(|part| cost[part].as_f64().unwrap()))
        .sum();
    assert_eq!(processes.len(), 4);
    assert!((sum - report["total_ns"].as_f64().unwrap()).abs() < 1e-3);
    let links = report["per_link"].as_array().unwrap();
    let most = links.iter().map(|link| link["bytes"].as_u64().unwrap()).max();
    assert_eq!(most, report["max_link_bytes"].as_u64());
}

#[test]
fn what_a_placement_breaks_is_told_beside_its_cost() {
    let folder = Folder::new();
    let places = r#"{ "processes": { "master 0": 0, "master 1": 0, "slave 0": 1, "slave 1": 2 },
                      "segments": { "queue 0": 0, "queue 1": 0, "queue 2": 0 } }"#;
    folder.file("model.json", optisci::table1::SCHEDULER).file("crowded.json", places);
    let text = stdout(&deck(folder.path(), &["cost", "model.json", "crowded.json", "--json"]));
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["feasible"], false);
    assert_eq!(report["violations"][0], "node 0 holds 2 processes and has 1 process slot");
    let text = stdout(&deck(folder.path(), &["cost", "model.json", "crowded.json"]));
    assert!(text.contains("breaks 1 limit or pin:") && text.contains("node 0 holds 2 processes"), "{text}");
}

#[test]
fn what_things_are_called_ends_no_line_and_commands_no_terminal() {
    let folder = Folder::new();
    let evil = "evil\u{1b}[2J\n  0.0 ns";
    let mut model = json!({
        "topology": {"kind": "torus", "dims": [2]},
        "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
        "processes": [{"id": evil, "pin": 0}],
        "segments": [{"id": evil, "bytes": 8}],
        "accesses": [{"process": evil, "segment": evil, "op": "read", "count": 1, "size": 8}],
        "process_slots": [1, 1],
    });
    let placement = json!({"processes": {evil: 1}, "segments": {evil: 0}});
    folder.file("m.json", &model.to_string()).file("p.json", &placement.to_string());
    model["memory_bytes"] = json!([7, 7]);
    folder.file("full.json", &model.to_string());
    for (line, lines) in [("cost m.json p.json", 21), ("solve m.json", 5), ("solve full.json", 2)] {
        let text = stdout(&deck(folder.path(), &line.split_whitespace().collect::<Vec<_>>()));
        assert!(text.contains("evil [2J   0.0 ns") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(text.lines().count(), lines, "{text}");
    }
    for (line, told) in [
        (&["cost", evil, "p.json"][..], "deck place cost: evil [2J   0.0 ns cannot be read: name a file that exists\n"),
        (
            &["import", "json", "m.json", "-o", evil],
            "evil [2J   0.0 ns: 2 nodes, 1 process, 1 segment, 1 entry of accesses",
        ),
    ] {
        let said = stderr(&deck(folder.path(), line));
        assert!(said.starts_with(told) && said.lines().count() == 1, "{said:?}");
    }
}

#[test]
fn table_1_is_printed_with_what_it_claims() {
    let text = stdout(&deck(&examples(), &["table1"]));
    assert!(text.contains("91.7%") && text.contains("Claim:"), "{text}");
    let table: Value = serde_json::from_str(&stdout(&deck(&examples(), &["table1", "--json"]))).unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), 3);
}

#[test]
fn a_broken_file_is_told_by_name_and_path() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER);
    folder.file("op.json", &optisci::table1::SCHEDULER.replacen("\"read\"", "\"sniff\"", 1));
    folder.file(
        "colour.json",
        &optisci::table1::SCHEDULER.replacen("{\"id\": \"master 1\"}", "{\"id\": \"master 1\", \"colour\": 1}", 1),
    );
    folder.file("half.json", r#"{ "processes": { "master 0": 0 } }"#);
    folder.file("bytes.json", "");
    std::fs::write(folder.path().join("bytes.json"), [0xff, 0xfe]).unwrap();
    let run = |arguments: &[&str]| deck(folder.path(), arguments);
    refuse(&run(&["solve", "op.json"]), 1, &["op.json: accesses[0].op: ", "`read` or `write`"]);
    refuse(&run(&["solve", "colour.json", "--json"]), 1, &["colour.json: processes[1].colour: "]);
    refuse(&run(&["cost", "model.json", "half.json"]), 1, &["half.json: processes.master 1: is missing"]);
    refuse(&run(&["cost", "nowhere.json", "half.json"]), 1, &["nowhere.json cannot be read"]);
    refuse(&run(&["cost", "bytes.json", "half.json"]), 1, &["bytes.json is no text"]);
}

#[test]
fn a_usage_error_says_what_to_type() {
    let run = |arguments: &[&str]| deck(&examples(), arguments);
    refuse(&run(&[]), 2, &["type: deck place cost|"]);
    refuse(&run(&["costs"]), 2, &["there is no command 'costs'"]);
    refuse(&run(&["cost", "scheduler.json"]), 2, &["type: deck place cost MODEL.json PLACEMENT.json"]);
    refuse(&run(&["solve", "scheduler.json", "--objective", "fun"]), 2, &["sum, makespan or max_link"]);
    refuse(&run(&["solve", "scheduler.json", "--time-limit", "-1"]), 2, &["deck place solve"]);
    refuse(&run(&["solve", "scheduler.json", "--time-limit", "soon"]), 2, &["a number of seconds"]);
    refuse(&run(&["import", "gif", "x", "-o", "y"]), 2, &["this version reads: json, csv"]);
    refuse(&run(&["export", "gif", "x", "y", "-o", "z"]), 2, &["this version writes: json, csv"]);
    refuse(&run(&["import", "csv", "x"]), 2, &["type: deck place import FORMAT FILE..."]);
}

#[test]
fn a_result_may_go_to_standard_output_that_is_a_file() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    let export = ["place", "export", "json", "model.json", "a.json", "-o"];
    let run = |path: &str, printed: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
        let printed = std::fs::File::create(folder.path().join(printed)).unwrap();
        let ended = command.args(export).arg(path).current_dir(folder.path()).stdout(printed).output().unwrap();
        assert!(ended.status.success(), "{}", stderr(&ended));
    };
    run("plain.json", "nothing");
    run("/proc/self/fd/1", "printed.json");
    assert_eq!(folder.read("printed.json"), folder.read("plain.json"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "nothing but what was asked for");
}

#[test]
fn a_dash_is_standard_output() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    let run = |line: &str| deck(folder.path(), &line.split_whitespace().collect::<Vec<_>>());
    for line in ["export csv model.json a.json -o", "import json model.json -o", "solve model.json -o"] {
        let printed = run(&format!("{line} -"));
        stdout(&run(&format!("{line} ./-")));
        assert_eq!(stdout(&printed), folder.read("-"), "{line}");
        std::fs::remove_file(folder.path().join("-")).unwrap();
    }
    // What people are told is no part of it.
    assert!(stderr(&run("import json model.json -o -")).starts_with("standard output: 4 nodes, "));
    let said = stderr(&run("solve model.json -o -"));
    assert!(
        said.contains("proved to be the best") && said.ends_with("the placement is in standard output\n"),
        "{said}"
    );
    refuse(&run("solve model.json --json -o -"), 2, &["--json", "-o -", "leave one out"]);
    // Nor is a file of that name in the way.
    std::fs::rename(folder.path().join("a.json"), folder.path().join("-")).unwrap();
    stdout(&run("export csv model.json - -o -"));
    refuse(&run("export csv model.json - -o ./-"), 2, &["another name"]);
}

#[test]
fn the_exit_status_is_the_same_when_nobody_reads_the_messages() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.args(arguments).current_dir(folder.path()).stderr(writer).output().unwrap().status.code()
    };
    assert_eq!(run(&["place", "import", "json", "model.json", "-o", "same.json"]), Some(0));
    assert!(folder.path().join("same.json").exists());
    assert_eq!(run(&["place", "import", "json", "nowhere.json", "-o", "none.json"]), Some(1));
    assert_eq!(run(&["place", "import"]), Some(2));
    assert_eq!(run(&["why", "a job that nobody has"]), Some(1));
    assert_eq!(run(&["run", "-n", "1", "/nowhere/program"]), Some(1));
}

#[test]
fn tables_go_out_and_come_back() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    stdout(&deck(folder.path(), &["export", "csv", "model.json", "a.json", "-o", "a.csv"]));
    stdout(&deck(folder.path(), &["import", "csv", "a.csv", "--onto", "model.json", "-o", "again.json"]));
    stdout(&deck(folder.path(), &["import", "json", "model.json", "-o", "same.json"]));
    assert_eq!(folder.read("again.json"), folder.read("same.json"));
    refuse(&deck(folder.path(), &["import", "csv", "a.json", "-o", "x.json"]), 1, &["a.json: line 1: "]);
    refuse(&deck(folder.path(), &["import", "hwloc", "a.csv", "-o", "x.json"]), 1, &["a.csv: line 1: "]);
    assert!(!folder.path().join("x.json").exists());
}

#[test]
fn what_cannot_be_written_is_told() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    let ended = deck(folder.path(), &["export", "json", "model.json", "a.json", "-o", "missing/out.json"]);
    refuse(&ended, 1, &["missing/out.json cannot be written"]);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_cannot_be_written_is_told_before_a_long_search() {
    let folder = Folder::new();
    // Nobody waits for the end of this search.
    folder.file("model.json", &long_model());
    let ended = deck(folder.path(), &["solve", "model.json", "-o", "missing/out.json"]);
    refuse(&ended, 1, &["missing/out.json cannot be written"]);
    refuse(&deck(folder.path(), &["solve", "model.json", "-o", "."]), 1, &[". cannot be written: it is a folder"]);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn solve_prints_one_json_object_and_writes_what_cost_confirms() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER);
    for objective in ["sum", "makespan", "max_link"] {
        let arguments = ["solve", "model.json", "--objective", objective, "--seed", "3", "--json", "-o", "best.json"];
        let text = stdout(&deck(folder.path(), &arguments));
        assert_eq!(text.lines().count(), 1);
        let outcome: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&outcome["status"], &outcome["objective"]), (&"optimal".into(), &objective.into()));
        assert_eq!((&outcome["seed"], &outcome["gap"]), (&3.into(), &0.0.into()));
        assert!(outcome["method"].is_string() && outcome["seconds"].is_f64() && outcome["reason"].is_null());
        assert_eq!(outcome["placement"], serde_json::from_str::<Value>(&folder.read("best.json")).unwrap());

        let text = stdout(&deck(folder.path(), &["cost", "model.json", "best.json", "--json"]));
        let report: Value = serde_json::from_str(&text).unwrap();
        let field = match objective {
            "sum" => "total_ns",
            "makespan" => "makespan_ns",
            _ => "max_link_bytes",
        };
        assert_eq!(report["feasible"], true);
        assert_eq!(report[field].as_f64(), outcome["cost"].as_f64());
        let (cost, bound) = (outcome["cost"].as_f64().unwrap(), outcome["bound"].as_f64().unwrap());
        assert!((cost - bound).abs() <= 1e-9 * cost, "{outcome}");
    }
}

/// The search asks how many processors it may use: one of them, or all.
#[test]
fn the_same_seed_gives_the_same_bytes_on_one_processor_and_on_all() {
    let folder = Folder::new();
    let slots = optisci::table1::SCHEDULER.replace("[1, 1, 1, 1]", "[2, 1, 2, 1]");
    folder.file("model.json", &slots);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = allowed.split(['-', ',']).next().unwrap();
    for objective in ["sum", "makespan", "max_link"] {
        let solve = |processors: &str| {
            let mut command = Command::new("taskset");
            command.args(["-c", processors, env!("CARGO_BIN_EXE_deck"), "place", "solve", "model.json", "--json"]);
            let ended =
                command.args(["--seed", "9", "--objective", objective]).current_dir(folder.path()).output().unwrap();
            let mut outcome: Value = serde_json::from_str(&stdout(&ended)).unwrap();
            outcome.as_object_mut().unwrap().remove("seconds");
            outcome.to_string()
        };
        assert_eq!(solve(first), solve(allowed));
        assert_eq!(solve(allowed), solve(allowed));
    }
}

#[test]
fn a_model_that_allows_nothing_is_answered_with_the_reason() {
    let folder = Folder::new();
    folder.file("model.json", &optisci::table1::SCHEDULER.replace("[1, 1, 1, 1]", "[1, 1, 1, 0]"));
    let outcome: Value =
        serde_json::from_str(&stdout(&deck(folder.path(), &["solve", "model.json", "--json"]))).unwrap();
    assert_eq!((&outcome["status"], &outcome["placement"]), (&"infeasible".into(), &Value::Null));
    assert!(!outcome["reason"].as_str().unwrap().is_empty());
    assert!(stdout(&deck(folder.path(), &["solve", "model.json"])).starts_with("infeasible: "));
    // There is nothing to write, which whoever waits for the file must know.
    let ended = deck(folder.path(), &["solve", "model.json", "-o", "best.json"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no placement to write"));
    assert!(!folder.path().join("best.json").exists());
}

/// A mapping of 20 processes on a ring, which no search of ours proves before it is interrupted.
fn long_model() -> String {
    let ids: Vec<String> = (0..20).map(|number| format!("{{\"id\": \"p{number}\"}}")).collect();
    let mut messages = Vec::new();
    for from in 0..20u64 {
        for to in 0..20u64 {
            let count = (from * 7919 + to * 104_729) % 97;
            messages.push(format!("{{\"from\": \"p{from}\", \"to\": \"p{to}\", \"count\": {count}, \"size\": 1}}"));
        }
    }
    format!(
        "{{\"topology\": {{\"kind\": \"torus\", \"dims\": [5, 4]}}, \"cost_model\": {{\"kind\": \"hop_bytes\", \"ns_per_byte_hop\": 1}},
          \"processes\": [{}], \"messages\": [{}], \"process_slots\": {:?}}}",
        ids.join(", "),
        messages.join(", "),
        vec![1; 20]
    )
}

#[test]
fn a_time_limit_ends_the_search_with_a_placement_and_a_bound() {
    let folder = Folder::new();
    folder.file("model.json", &long_model());
    let arguments = ["solve", "model.json", "--time-limit", "0.5", "--json"];
    let outcome: Value = serde_json::from_str(&stdout(&deck(folder.path(), &arguments))).unwrap();
    assert_eq!(outcome["status"], "feasible", "{outcome}");
    let [cost, bound, gap] = ["cost", "bound", "gap"].map(|field| outcome[field].as_f64().unwrap());
    assert!(0.0 < bound && bound < cost && (gap - (cost - bound) / cost).abs() < 1e-9, "{outcome}");
}

/// Interrupted at any moment, the search prints what it has. It is told only once it watches for the signal, which its
/// mask of blocked signals shows.
#[test]
fn ctrl_c_takes_the_best_so_far() {
    let folder = Folder::new();
    folder.file("model.json", &long_model());
    let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
    command.args(["place", "solve", "model.json", "--json", "-o", "best.json"]).current_dir(folder.path());
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let watches = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigBlk:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> (libc::SIGINT - 1) & 1 == 1)
    };
    let began = std::time::Instant::now();
    while !watches() {
        assert!(began.elapsed().as_secs() < 60, "the command does not watch for Ctrl-C");
        std::thread::yield_now();
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let outcome: Value = serde_json::from_str(&stdout(&ended)).unwrap();
    assert_eq!(outcome["status"], "feasible", "{outcome}");
    assert_eq!(outcome["placement"], serde_json::from_str::<Value>(&folder.read("best.json")).unwrap());
}

#[test]
fn a_model_and_a_placement_that_are_mistaken_for_each_other_are_told_apart() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("a.json", optisci::table1::MAPPINGS[0].1);
    let ended = deck(folder.path(), &["cost", "a.json", "model.json"]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        stderr(&ended).contains("a.json: processes: ") && stderr(&ended).contains("this is a placement"),
        "{ended:?}"
    );
    let ended = deck(folder.path(), &["cost", "model.json", "model.json"]);
    assert!(stderr(&ended).contains("this is a model; a placement is wanted here"), "{ended:?}");
}

/// A shell runs what was exported; `numactl` itself is played by a script that says what it was asked.
#[test]
fn the_script_for_numactl_binds_each_process_and_each_segment() {
    let folder = Folder::new();
    let awkward = optisci::table1::SCHEDULER.replace("queue 0", "it's $HOME; `x`");
    let places = optisci::table1::MAPPINGS[0].1.replace("queue 0", "it's $HOME; `x`");
    folder.file("model.json", &awkward).file("a.json", &places);
    let says = "for word; do printf '[%s]' \"$word\"; done\necho\n";
    folder.file("says", &format!("#!/bin/sh\n[ \"$*\" != '--membind=9 true' ] || exit 1\n{says}"));
    std::fs::create_dir(folder.path().join("shm")).unwrap();
    // Written by another process: what other tests start just then would keep a file open that this one has written.
    let mut install = Command::new("install");
    let installed = install.args(["-m", "755", "says", "numactl"]).current_dir(folder.path()).status();
    assert!(installed.unwrap().success(), "{install:?}");
    stdout(&deck(folder.path(), &["export", "numactl", "model.json", "a.json", "-o", "bind.sh"]));
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let sh = |arguments: &[&str], rank: &str| {
        let mut command = Command::new("sh");
        command.arg("bind.sh").args(arguments).current_dir(folder.path()).env("PATH", &path).env("PMI_RANK", rank);
        command.output().unwrap()
    };
    assert_eq!(
        stdout(&sh(&["segments", "shm"], "")),
        "[--length=1228800][--file=shm/it's $HOME; `x`][--membind=2][--touch]\n\
         [--length=819200][--file=shm/queue 1][--membind=3][--touch]\n\
         [--length=409600][--file=shm/queue 2][--membind=2][--touch]\n"
    );
    let expected = "[--cpunodebind=2][--localalloc][--][./slave][a b]\n";
    assert_eq!(stdout(&sh(&["run", "2", "./slave", "a b"], "")), expected);
    assert_eq!(stdout(&sh(&["rank", "./slave", "a b"], "2")), expected);
    for (arguments, rank) in [(&["run", "4", "x"][..], ""), (&["rank", "x"], ""), (&["fly", "x"], "1"), (&[], "1")] {
        assert_eq!(sh(arguments, rank).status.code(), Some(2), "{arguments:?}");
    }
    assert!(stderr(&sh(&["segments", "nowhere"], "")).contains("there is no directory nowhere"));
    // A machine that has fewer nodes than the placement.
    folder
        .file("bind.sh", &folder.read("bind.sh").replace("reach 2 3", "reach 2 9").replace("process 2 ", "process 9 "));
    for arguments in [&["segments", "shm"][..], &["run", "2", "./slave"]] {
        let ended = sh(arguments, "");
        assert!(stderr(&ended).contains("NUMA node 9"), "{ended:?}");
        assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0));
    }
}

#[test]
fn a_standard_output_that_is_a_file_has_everything_in_its_order() {
    let folder = Folder::new();
    folder.file("model.json", optisci::table1::SCHEDULER).file("log", "before\n");
    for log in [
        std::fs::File::options().append(true).open(folder.path().join("log")).unwrap(),
        std::fs::File::create(folder.path().join("log")).unwrap(),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
        command.args(["place", "solve", "model.json", "-o", "/dev/stdout"]).current_dir(folder.path());
        assert!(command.stdout(log).status().unwrap().success());
        let text = folder.read("log");
        let text = text.strip_prefix("before\n").unwrap_or(&text);
        let (placement, report) = text.split_once("sum ").unwrap();
        assert!(serde_json::from_str::<Value>(placement).unwrap()["processes"].is_object(), "{text}");
        assert!(report.ends_with("the placement is in /dev/stdout\n"), "{text}");
    }
}

#[test]
fn what_is_read_is_not_written_over() {
    let folder = Folder::new();
    let model = optisci::table1::SCHEDULER;
    folder.file("m.json", model).file("p.json", "{}").file("a.csv", "from,to,bytes\n");
    std::os::unix::fs::symlink("m.json", folder.path().join("link.json")).unwrap();
    std::fs::hard_link(folder.path().join("m.json"), folder.path().join("twin.json")).unwrap();
    for (line, input) in [
        ("solve m.json -o m.json", "m.json"),
        ("solve m.json -o ./link.json", "m.json"),
        ("solve link.json --output twin.json", "link.json"),
        ("import csv a.csv --onto m.json -o a.csv", "a.csv"),
        ("import csv m.json -o m.json", "m.json"),
        ("import scotch-map a.map --onto m.json -o m.json", "m.json"),
        ("export rankfile m.json p.json -o p.json", "p.json"),
    ] {
        let ended = deck(folder.path(), &line.split_whitespace().collect::<Vec<_>>());
        refuse(&ended, 2, &["-o", input, "another name", "type: deck place "]);
    }
    assert_eq!((folder.read("m.json"), folder.read("p.json")), (model.to_owned(), "{}".to_owned()));
}

#[test]
fn a_placement_alone_is_no_model() {
    let folder = Folder::new();
    for format in ["record-placement", "scotch-map", "metis-part"] {
        let ended = deck(folder.path(), &["import", format, "a", "-o", "p.json"]);
        refuse(&ended, 2, &[format, "say of which model with --onto", "type: deck place import "]);
    }
}

#[test]
fn a_model_is_brought_up_to_date_in_its_own_file() {
    let folder = Folder::new();
    folder.file("m.json", optisci::table1::SCHEDULER).file("a.csv", "messages 8,p,q\np,0,3\nq,0,0\n");
    let processes = || serde_json::from_str::<Value>(&folder.read("m.json")).unwrap()["processes"].to_string();
    for (line, has_new) in [("import json m.json -o m.json", false), ("import csv a.csv --onto m.json -o m.json", true)]
    {
        stdout(&deck(folder.path(), &line.split_whitespace().collect::<Vec<_>>()));
        assert_eq!((processes().contains("\"p\""), processes().contains("master 0")), (has_new, !has_new), "{line}");
    }
    // One that cannot be read stays.
    folder.file("m.json", "{}");
    assert_eq!(deck(folder.path(), &["import", "json", "m.json", "-o", "m.json"]).status.code(), Some(1));
    assert_eq!(folder.read("m.json"), "{}");
}

#[test]
fn what_has_no_end_is_not_read_to_it() {
    let folder = Folder::new();
    std::fs::File::create(folder.path().join("endless.json")).unwrap().set_len((1 << 30) + 1).unwrap();
    refuse(&deck(folder.path(), &["cost", "endless.json", "p.json"]), 1, &["endless.json", "more than 1 GiB"]);
}
