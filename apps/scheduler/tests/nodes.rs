//! The program as its users run it: alone, and with nodes that join a job by name; and with one that dies.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use deck_testkit::application::{Application, expect_nothing_made_elsewhere};
use deck_testkit::see::deck;
use deck_testkit::{look, set_trap};
use optisci::import::{self, Format, Input};
use optisci::model::Op;
use serde_json::Value;
use tempfile::tempdir;

fn scheduler(folder: &Path, options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
    command.args(options.split_whitespace()).arg("--record").arg(folder.join("record.json"));
    command.env_remove("DECK_JOB").env_remove("DECK_POINT").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends what a test leaves running, however it ends.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// Runs `nodes` nodes to their ends, numbered in whatever order they join; the last to be started dies at the point
/// `trap`.
fn run(folder: &Path, name: &str, nodes: usize, options: &str, trap: Option<&str>) -> Vec<Output> {
    let job = format!("scheduler-{name}-{}", std::process::id());
    let mut started = Nodes(Vec::new());
    for node in 0..nodes {
        let mut command = scheduler(folder, &format!("{options} --nodes {nodes}"));
        command.env("DECK_JOB", &job);
        if let Some(point) = trap.filter(|_| node + 1 == nodes) {
            set_trap(&mut command, point);
        }
        started.0.push(command.spawn().unwrap());
    }
    std::mem::take(&mut started.0).into_iter().map(|node| node.wait_with_output().unwrap()).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn expect_success(outputs: &[Output]) -> String {
    for output in outputs {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(output.stderr.is_empty(), "silent in a pipe: {}", text(&output.stderr));
    }
    // Node 0 alone says something.
    outputs.iter().map(|output| text(&output.stdout)).collect()
}

fn record(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap()
}

/// The sum of the counts of all accesses that `wanted` accepts.
fn counted(record: &Value, process: &str, segment: &str, op: &str) -> u64 {
    let accesses = record["accesses"].as_array().unwrap().iter();
    let wanted = accesses.filter(|access| {
        assert_eq!(access["size"], 2048);
        access["process"].as_str().unwrap().starts_with(process) && access["segment"] == segment && access["op"] == op
    });
    wanted.map(|access| access["count"].as_u64().unwrap()).sum()
}

#[track_caller]
fn expect_accesses(record: &Value, homes: [u32; 3], nodes: u32, sixths: u64) {
    assert_eq!((&record["deck_access_record"], &record["program"]), (&1.into(), &"scheduler".into()));
    for (queue, share) in [3, 2, 1].into_iter().enumerate() {
        let segment = format!("q{queue}");
        let told = &record["segments"][queue];
        assert_eq!((&told["id"], &told["home"]), (&segment.as_str().into(), &homes[queue].into()));
        for producer in ["producer 0", "producer 1"] {
            assert_eq!(counted(record, producer, &segment, "write"), share * sixths);
            assert_eq!(counted(record, producer, &segment, "read"), 0);
        }
        assert_eq!(counted(record, "consumer", &segment, "read"), 2 * share * sixths);
        assert_eq!(counted(record, "consumer", &segment, "write"), 0);
    }
    for consumer in ["consumer 0", "consumer 1"] {
        // Neither is more than a round ahead, and nobody takes more than six tasks in one.
        let taken: u64 = (0..3).map(|queue| counted(record, consumer, &format!("q{queue}"), "read")).sum();
        assert!(taken >= sixths - 1, "{consumer} took {taken} of {} tasks", 12 * sixths);
    }
    let processes = record["processes"].as_array().unwrap().iter();
    let told: Vec<(&str, u64)> =
        processes.map(|process| (process["id"].as_str().unwrap(), process["node"].as_u64().unwrap())).collect();
    let on = |process: u32| u64::from(process % nodes);
    let expected = [("consumer 0", on(0)), ("consumer 1", on(1)), ("producer 0", on(2)), ("producer 1", on(3))];
    assert_eq!(told, expected);
}

#[test]
fn one_node_runs_the_program_of_the_paper() {
    let folder = tempdir().unwrap();
    let report = expect_success(&[scheduler(folder.path(), "").output().unwrap()]);
    assert!(report.starts_with("1200 tasks of 2048 bytes in "), "{report}");
    assert!(report.contains("each ran once, in the order of its queue"), "{report}");
    expect_accesses(&record(folder.path()), [0, 0, 0], 1, 100);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the record is left");
}

#[test]
fn the_mappings_of_the_paper_and_others_run_every_task_once() {
    let folder = tempdir().unwrap();
    for (name, nodes, options, homes) in [
        ("c", 4, "--place q0=0,q1=0,q2=3", [0, 0, 3]),
        ("far", 5, "--place q0=4,q1=2,q2=4 --slots 3", [4, 2, 4]),
        ("two", 2, "--place q2=0,q1=1,q0=1 --slots 1 --tasks 60", [1, 1, 0]),
    ] {
        let report = expect_success(&run(folder.path(), name, nodes, options, None));
        assert!(report.contains("each ran once"), "{report}");
        expect_accesses(&record(folder.path()), homes, nodes as u32, if name == "two" { 10 } else { 100 });
    }
}

#[test]
fn the_record_is_a_program_and_a_placement_for_deck_place() {
    let folder = tempdir().unwrap();
    expect_success(&run(folder.path(), "import", 4, "--place q0=0,q1=0,q2=3 --slots 8", None));
    let text = fs::read_to_string(folder.path().join("record.json")).unwrap();
    let inputs = [Input { name: "record.json", text: &text }];
    let import::Result::Model(model) = import::read(Format::Record, &inputs, None).unwrap().result else {
        panic!("a model")
    };
    assert_eq!(model.id.as_deref(), Some("scheduler"));
    let processes: Vec<&str> = model.processes.iter().map(|process| process.id.as_str()).collect();
    assert_eq!(processes, ["consumer 0", "consumer 1", "producer 0", "producer 1"]);
    let segments: Vec<(&str, u64)> =
        model.segments.iter().map(|segment| (segment.id.as_str(), segment.bytes)).collect();
    assert_eq!(segments, [("q0", 8 * 2048), ("q1", 8 * 2048), ("q2", 8 * 2048)]);
    for (segment, tasks) in [(0, 600), (1, 400), (2, 200)] {
        for op in [Op::Read, Op::Write] {
            let accesses = model.accesses.iter().filter(|access| access.segment == segment && access.op == op);
            let bytes: u64 = accesses.map(|access| access.count * access.size).sum();
            assert_eq!(bytes, tasks * 2048, "q{segment}, {op:?}");
        }
    }
    let placement = import::read(Format::RecordPlacement, &inputs, Some(model)).unwrap().result;
    let import::Result::Placement(_, placement) = placement else { panic!("a placement") };
    assert_eq!(placement.processes, [0, 1, 2, 3]);
    let homes: Vec<&[u32]> = placement.segments.iter().map(|segment| segment.nodes()).collect();
    assert_eq!(homes, [[0], [0], [3]]);
}

#[test]
fn the_history_tells_every_task_twice_and_agrees_with_the_record() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("history.csv");
    expect_success(&[scheduler(folder.path(), "--tasks 60").arg("--history").arg(&path).output().unwrap()]);
    let (history, record) = (fs::read_to_string(&path).unwrap(), record(folder.path()));
    let mut lines = history.lines();
    assert_eq!(lines.next(), Some("process,queue,place,producer,task"));
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 2 * 120, "each task goes in and comes out");
    for process in ["consumer 0", "consumer 1", "producer 0", "producer 1"] {
        for queue in ["0", "1", "2"] {
            let told = lines.iter().filter(|line| line[0] == process && line[1] == queue).count() as u64;
            let op = if process.starts_with("producer") { "write" } else { "read" };
            assert_eq!(told, counted(&record, process, &format!("q{queue}"), op), "{process}, q{queue}");
        }
    }
    // The same tasks in the same places, whoever tells it.
    let sorted = |kind: &str| {
        let mut told: Vec<_> = lines.iter().filter(|line| line[0].starts_with(kind)).map(|line| &line[1..]).collect();
        told.sort_unstable();
        told
    };
    assert_eq!(sorted("producer"), sorted("consumer"));
    let producer_0: Vec<_> = lines.iter().filter(|line| line[0] == "producer 0").map(|line| line[4].parse()).collect();
    assert_eq!(producer_0, (0..60).map(Ok).collect::<Vec<Result<u32, _>>>(), "in its order");
}

#[test]
fn the_readme_shows_what_is_printed() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let (_, shown) = readme.split_once("$ deck run -n 4 scheduler ").unwrap();
    let (options, shown) = shown.split_once('\n').unwrap();
    let (shown, _) = shown.split_once("\n```").unwrap();
    let folder = tempdir().unwrap();
    let printed = expect_success(&run(folder.path(), "readme", 4, options, None));
    assert_eq!(what_never_changes(&printed), what_never_changes(shown));
}

/// What is printed in every run: without the time, the folder of the record, and how consumers shared the tasks of a
/// queue.
fn what_never_changes(printed: &str) -> Vec<String> {
    let mut taken = [0; 3];
    let mut lines = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        lines.push(match words[..] {
            ["consumer", number, node, .., first, second, third] => {
                let counts = [first, second, third].map(|count| count.parse::<u32>().unwrap());
                std::iter::zip(&mut taken, counts).for_each(|(sum, count)| *sum += count);
                format!("consumer {number} on {node}, {} characters", line.len())
            }
            [.., "in", time, unit, "each", "ran", "once,", "in", "the", "order", "of", "its", "queue"] => {
                let number_of_two_decimals = time.split_once('.').map(|(_, decimals)| decimals.len());
                assert_eq!((number_of_two_decimals, unit.trim_start_matches('m')), (Some(2), "s:"), "{line}");
                line.replacen(&format!("{time} {unit}"), "some time:", 1)
            }
            // The path goes to the end of the line: it may have blanks.
            ["what", "was", "read", "and", "written", "where", "is", "in", ..] => {
                format!("{}is in a file", line.split_once("is in ").expect("as matched").0)
            }
            _ => line.to_owned(),
        });
    }
    lines.push(format!("consumers took {taken:?}"));
    lines
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn when_a_node_dies_the_others_end_with_an_error_that_names_one_and_there_is_no_record() {
    for (name, point) in [("taken", "mutex/taken:20"), ("freed", "mutex/freed:30"), ("added", "counter/added:40")] {
        let folder = tempdir().unwrap();
        let outputs = run(folder.path(), name, 4, "--place q0=0,q1=0,q2=3 --tasks 6000", Some(point));
        let (victim, others) = outputs.split_last().unwrap();
        assert_eq!(victim.status.code(), None, "{name}: killed: {}", text(&victim.stderr));
        for output in others {
            assert_eq!(output.status.code(), Some(1), "{name}: {}", text(&output.stdout));
            // Whoever sees first that a node failed ends, and may be the one that others name.
            assert!(text(&output.stderr).contains("(node "), "{name}: {}", text(&output.stderr));
        }
        assert!(!folder.path().join("record.json").exists());
    }
}

#[test]
fn nodes_that_are_started_by_hand_have_to_be_told_how_many_there_are() {
    let folder = tempdir().unwrap();
    let job = format!("scheduler-by-hand-{}", std::process::id());
    // The first node waits for the others until this test has seen it, however slow the machine is.
    let start = |options: &str| {
        scheduler(folder.path(), options).env("DECK_JOB", &job).env("DECK_TIMEOUT", "600").spawn().unwrap()
    };
    deck();
    let _first = Nodes(vec![start("--nodes 3")]);
    wait_until_joined(&job, 1);
    let second = start("--tasks 6").wait_with_output().unwrap();
    let errors = text(&second.stderr);
    assert_eq!((second.status.code(), errors.lines().count()), (Some(2), 1), "{errors}");
    assert!(errors.contains("--nodes N"), "{errors}");
}

/// Longer than any wait goes on without a look at the nodes: the application's own, and those of DECK with the timeout
/// that the nodes are told.
const STOPPED_FOR: Duration = Duration::from_secs(5);
const DECK_TIMEOUT: &str = "2";

/// Starts three nodes, the last of which stops at a point, and waits until it has.
fn stopped(folder: &Path, point: &str) -> Application {
    let (record, point) = (folder.join("record.json"), point.to_owned());
    let name = format!("scheduler-stopped-{}", point.replace(['/', ':'], "-"));
    let job = format!("deck-{name}-{}", std::process::id());
    let started = std::cell::Cell::new(0);
    let start = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scheduler"));
        command.args("--nodes 3 --tasks 600 --place q0=0,q1=1,q2=2 --record".split(' ')).arg(&record);
        command.env_remove("DECK_POINT").env("DECK_TIMEOUT", DECK_TIMEOUT);
        if started.replace(started.get() + 1) == 2 {
            set_trap(&mut command, &point);
        }
        command
    };
    let mut nodes = Application::new(&name, start);
    for node in 0..2 {
        nodes.start(&[]);
        wait_until_joined(&job, node + 1);
    }
    nodes.start(&[]);
    nodes.wait_until_stopped(2);
    nodes
}

fn wait_until_joined(job: &str, nodes: usize) {
    loop {
        let told = Command::new(deck()).args(["ls", job, "--json"]).output().unwrap();
        let told: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
        if told["jobs"][0]["nodes"].as_array().is_some_and(|joined| joined.len() == nodes) {
            return;
        }
        look::pause();
    }
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
#[expect(clippy::disallowed_methods, reason = "nothing is to happen for so long")]
fn a_stopped_node_holds_the_others_up_and_loses_nothing() {
    // Before the meeting; asked for memory of a queue; on the way to the mail box for reports; with a queue's mutex;
    // and without.
    let points = ["join/welcomed:1", "segment/making:1", "clone/requested:1", "mutex/taken:20", "counter/added:40"];
    deck();
    let jobs = points.map(|point| {
        let folder = tempdir().unwrap();
        let nodes = stopped(folder.path(), &format!("{point}:stop"));
        (point, folder, nodes)
    });
    std::thread::sleep(STOPPED_FOR);
    for (point, folder, mut nodes) in jobs {
        nodes.signal(2, "CONT");
        let ends = [0, 1, 2].map(|node| nodes.end_of(node));
        let ended_well = ends.iter().all(|(status, _, notices)| *status == Some(0) && notices.is_empty());
        assert!(ended_well, "{point}: {ends:#?}");
        let report = ends.map(|(_, printed, _)| printed).concat();
        assert!(report.contains("1200 tasks") && report.contains("each ran once"), "{point}: {report}");
        expect_accesses(&record(folder.path()), [0, 1, 2], 3, 100);
    }
}

#[test]
fn nodes_that_do_not_come_are_waited_for_as_long_as_the_environment_says() {
    let folder = tempdir().unwrap();
    let output = scheduler(folder.path(), "--nodes 5").env("DECK_TIMEOUT", "1").output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("1 of 5 nodes came") && stderr.contains("--nodes 1"), "{stderr}");
}

#[test]
fn when_some_do_not_come_all_others_say_so_and_nothing_else() {
    let folder = tempdir().unwrap();
    let job = format!("scheduler-absent-{}", std::process::id());
    let start =
        |_| scheduler(folder.path(), "--nodes 4").env("DECK_JOB", &job).env("DECK_TIMEOUT", "3").spawn().unwrap();
    let mut nodes = Nodes((0..3).map(start).collect());
    for node in std::mem::take(&mut nodes.0) {
        let output = node.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.starts_with("scheduler: 3 of 4 nodes came: timed out; ") && said.contains("--nodes 3"), "{said}");
    }
}

#[test]
fn who_is_in_the_job_of_another_program_says_that_nothing_was_made() {
    let folder = tempdir().unwrap();
    // It looks what node 0 is before it comes to the meeting.
    let has_come = |job: &deck::Node| {
        let meeting = deck::shared::Barrier::open(job, "meeting", 3).unwrap();
        meeting.wait(Duration::ZERO).is_err_and(|error| error.to_string().contains("2 of 3 have come"))
    };
    expect_nothing_made_elsewhere(&mut scheduler(folder.path(), "--nodes 3"), has_come);
}

#[test]
fn tasks_for_which_there_is_no_memory_are_refused() {
    let folder = tempdir().unwrap();
    let all = scheduler(folder.path(), "--tasks 6000000");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\""]).arg(all.get_program()).args(all.get_args());
    // Without it some threads reserve so much that others do not start.
    let output = limited.env_remove("DECK_JOB").env("MALLOC_ARENA_MAX", "1").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains(" MiB for ") && said.contains("use fewer --tasks"), "{said}");
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure_and_a_closed_pipe_is_none() {
    let folder = tempdir().unwrap();
    for options in ["--tasks 6", "--help"] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = scheduler(folder.path(), options).stdout(full).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{options}: {stderr}");
        assert!(stderr.contains("printing the result") && stderr.contains("print elsewhere"), "{options}: {stderr}");
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        let output = scheduler(folder.path(), options).stdout(closed).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{options}: {}", text(&output.stderr));
    }
}

#[test]
fn why_nothing_can_be_done_is_said_by_the_first_node_alone() {
    for (name, options, status, said) in
        [("place", "--place q0=5,q1=0,q2=0", 2, "placing q0 on node 5"), ("folder", "", 1, "missing/record.json")]
    {
        let folder = tempdir().unwrap();
        let missing = folder.path().join(if status == 1 { "missing" } else { "" });
        let outputs = run(&missing, &format!("once-{name}"), 3, options, None);
        // Who comes when the first one has left is the first of another job.
        let (firsts, others): (Vec<_>, Vec<_>) = outputs.iter().partition(|output| !output.stderr.is_empty());
        assert!(!firsts.is_empty() && others.iter().all(|output| output.status.success()), "{outputs:?}");
        for first in firsts {
            let stderr = text(&first.stderr);
            assert_eq!((first.status.code(), stderr.lines().count()), (Some(status), 1), "{outputs:?}");
            assert!(stderr.contains(said), "{outputs:?}");
        }
    }
}

#[test]
fn a_bad_option_and_an_impossible_place_end_with_status_2() {
    let folder = tempdir().unwrap();
    let usage = scheduler(folder.path(), "--place 0,0,3").output().unwrap();
    assert_eq!((usage.status.code(), text(&usage.stderr).lines().count()), (Some(2), 1), "{}", text(&usage.stderr));
    let place = scheduler(folder.path(), "--place q0=0,q1=0,q2=3").output().unwrap();
    let stderr = text(&place.stderr);
    assert_eq!(place.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("placing q2 on node 3 of a job of 1 node:") && stderr.contains("deck run -n 4"),
        "{stderr}"
    );
    let missing = folder.path().join("missing");
    let file = scheduler(&missing, "").output().unwrap();
    assert!(
        file.status.code() == Some(1) && text(&file.stderr).contains("missing/record.json"),
        "{}",
        text(&file.stderr)
    );
}
