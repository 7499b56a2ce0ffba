//! The program as its users run it: alone, with several nodes that join a job by name, and with a node that dies.
//! The temperatures must be the same, bit for bit, every time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use deck_testkit::application::{Application, expect_nothing_made_elsewhere, wait_by_the_page, wait_for};
use deck_testkit::set_trap;
use tempfile::{TempDir, tempdir};

fn laplace(options: &str, temperatures: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_laplace"));
    command.args(options.split_whitespace()).arg("--temperatures").arg(temperatures).env_remove("DECK_JOB");
    command
}

/// The temperatures' bytes and what was printed.
fn alone(options: &str, temperatures: &Path) -> (Vec<u8>, String) {
    said_by(&mut laplace(options, temperatures), temperatures)
}

fn said_by(command: &mut Command, temperatures: &Path) -> (Vec<u8>, String) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "silent in a pipe: {}", String::from_utf8_lossy(&output.stderr));
    (fs::read(temperatures).unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Nodes that find each other by name, and the file of their temperatures.
fn job(folder: &TempDir, name: &str, options: &str) -> (Application, PathBuf) {
    let temperatures = folder.path().join(format!("{name}.bin"));
    let (options, file) = (options.to_owned(), temperatures.clone());
    (Application::new(&format!("laplace-{name}"), move || laplace(&options, &file)), temperatures)
}

/// As [`job`], with one node, by the order of their starts, that is killed or stopped at a point.
fn trapped(folder: &TempDir, name: &str, options: &str, node: u32, point: &str) -> (Application, PathBuf) {
    let temperatures = folder.path().join(format!("{name}.bin"));
    let (options, file, point) = (options.to_owned(), temperatures.clone(), point.to_owned());
    let started = std::cell::Cell::new(0);
    let start = move || {
        let mut command = laplace(&options, &file);
        if started.replace(started.get() + 1) == node {
            set_trap(&mut command, &point);
        }
        command
    };
    (Application::new(&format!("laplace-{name}"), start), temperatures)
}

/// The number before a word of a report.
fn number_before(report: &str, word: &str) -> f64 {
    let before = report.split(word).next().unwrap().trim_end();
    before.rsplit([' ', ',']).next().unwrap().parse().unwrap_or_else(|_| panic!("{report}"))
}

#[test]
fn the_temperatures_are_the_same_for_every_number_of_nodes_and_threads() {
    let folder = tempdir().unwrap();
    let slab = "--size 61x47 --tolerance 1e-2";
    let (expected, report) = alone(&format!("{slab} --threads 1"), &folder.path().join("expected.bin"));
    assert_eq!(expected.len(), 61 * 47 * 8);
    let sweeps = number_before(&report, " sweeps");
    let (three, _) = alone(&format!("{slab} --threads 3"), &folder.path().join("three.bin"));
    assert!(three == expected, "3 threads");
    // The last one has more threads than rows.
    for (nodes, threads) in [(2, 1), (2, 2), (3, 2), (4, 12)] {
        let options = format!("{slab} --threads {threads} --nodes {nodes}");
        let (mut job, temperatures) = job(&folder, &format!("several-{nodes}-{threads}"), &options);
        (0..nodes).for_each(|_| job.start(&[]));
        // Whoever joins first is node 0.
        let mut report = String::new();
        for node in 0..nodes {
            let (status, printed, notices) = job.end_of(node);
            assert_eq!((status, notices.as_str()), (Some(0), ""), "{nodes} nodes, {threads} threads");
            report += &printed;
        }
        assert!(fs::read(&temperatures).unwrap() == expected, "{nodes} nodes, {threads} threads");
        assert_eq!(number_before(&report, " sweeps"), sweeps, "{report}");
    }
}

#[test]
fn the_temperatures_are_written_also_when_nobody_reads_the_notices() {
    let folder = tempdir().unwrap();
    let temperatures = folder.path().join("unread.bin");
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = laplace("--size 9x7 --watch 0", &temperatures).stderr(writer).output().unwrap();
    assert_eq!((output.status.code(), fs::metadata(&temperatures).unwrap().len()), (Some(0), 9 * 7 * 8));
}

#[test]
fn far_more_bands_than_a_mail_box_holds_changes_come_to_the_end() {
    let folder = tempdir().unwrap();
    let slab = "--size 40x140 --tolerance 1e-9 --max-sweeps 60";
    let (expected, _) = alone(&format!("{slab} --threads 1"), &folder.path().join("expected.bin"));
    for nodes in [1, 2] {
        let options = format!("{slab} --threads 64 --nodes {nodes}");
        let (mut job, temperatures) = job(&folder, &format!("many-{nodes}"), &options);
        (0..nodes).for_each(|_| job.start(&[]));
        for node in 0..nodes {
            let (status, _, notices) = job.end_of(node);
            assert_eq!((status, notices.as_str()), (Some(0), ""), "{nodes} nodes");
        }
        assert!(fs::read(&temperatures).unwrap() == expected, "{nodes} nodes");
    }
}

#[test]
fn the_exact_solution_comes_nearer_with_the_square_of_the_distance_between_points() {
    let folder = tempdir().unwrap();
    let error = |size: &str| {
        let options = format!("--source sine --size {size} --tolerance 1e-11 --threads 2");
        number_before(&alone(&options, &folder.path().join("exact.bin")).1, " degrees")
    };
    let (coarse, fine) = (error("17x17"), error("33x33"));
    assert!((3.5..4.5).contains(&(coarse / fine)), "{coarse} {fine}");
}

#[test]
fn the_end_comes_when_no_point_changes_by_the_tolerance_or_after_so_many_sweeps() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("end.bin");
    let (_, report) = alone("--size 20x20 --tolerance 1e-3", &file);
    let sweeps = number_before(&report, " sweeps");
    assert!(report.lines().count() == 1 && sweeps > 50.0, "{report}");
    // Whether it goes on is decided two sweeps late; how far it came is told of the last one.
    for (most, is_met) in [(sweeps - 2.0, true), (sweeps - 3.0, false)] {
        let (_, report) = alone(&format!("--size 20x20 --tolerance 1e-3 --max-sweeps {most} --threads 3"), &file);
        assert!(
            report.contains("not at the tolerance yet") != is_met && number_before(&report, " sweeps") == most,
            "{report}"
        );
    }
    let (_, report) = alone("--size 20x20 --tolerance 1e-3 --max-sweeps 7 --threads 2", &file);
    assert!(report.contains(" 7 sweeps") && report.contains("not at the tolerance yet"), "{report}");
}

/// Long enough that nobody is ready before something has happened to a node.
const LONG: &str = "--size 300x300 --tolerance 1e-12 --nodes 3 --threads 1";

/// Three nodes whose numbers are those of their starts: they are given in the order of joining.
fn start_in_order(job: &mut Application) -> String {
    start_in_order_of(job, 3)
}

/// Starts three of `nodes` nodes.
fn start_in_order_of(job: &mut Application, nodes: u32) -> String {
    let address = job.start_master(&[]);
    job.start(&[]);
    wait_for(&address, |page| page.head["words"] == format!("2 of {nodes} nodes"));
    job.start(&[]);
    address
}

#[test]
fn when_a_node_is_killed_all_others_end_with_an_error_that_names_it() {
    let folder = tempdir().unwrap();
    let (mut job, temperatures) = job(&folder, "killed", LONG);
    let address = start_in_order(&mut job);
    wait_for(&address, |page| page.strips.len() >= 3);
    job.nodes[2].kill().unwrap();
    let page = wait_for(&address, |page| page.head["ended"] == true);
    assert!(page.head["failure"].as_str().is_some_and(|why| why.contains("node 2 was lost")), "{}", page.head);
    for node in [0, 1] {
        let (status, _, error) = job.end_of(node);
        assert_eq!(status, Some(1), "node {node}");
        assert!(error.contains("node 2") && error.contains("start the job again"), "node {node}: {error}");
    }
    assert!(!temperatures.exists());
}

#[test]
fn the_page_does_not_wait_for_a_stopped_node_that_was_killed() {
    let folder = tempdir().unwrap();
    let (mut job, _) = job(&folder, "page", LONG);
    let address = start_in_order(&mut job);
    wait_for(&address, |page| page.strips.len() >= 3);
    job.signal(2, "STOP");
    wait_for(&address, |page| page.head["notice"] == "node 2 is stopped, and all wait for it");
    job.nodes[2].kill().unwrap();
    let page = wait_for(&address, |page| page.head["ended"] == true);
    assert_eq!((&page.head["notice"], &page.head["lost"]), (&"".into(), &vec![2].into()), "{}", page.head);
    assert!(page.head["words"].as_str().is_some_and(|words| words.starts_with("sweep ")), "{}", page.head);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn when_a_node_is_killed_while_rows_are_collected_all_others_end_with_an_error_that_names_it() {
    let folder = tempdir().unwrap();
    let options = "--size 40x40 --tolerance 1e-12 --max-sweeps 20 --nodes 3 --threads 1";
    // Its hello, and two halos and a change of each sweep are posted: these would be its rows.
    let (mut job, temperatures) = trapped(&folder, "rows", options, 2, "post/reserved:62");
    start_in_order(&mut job);
    assert_eq!(job.end_of(2).0, None, "it is killed");
    for node in [0, 1] {
        let (status, _, error) = job.end_of(node);
        assert_eq!(status, Some(1), "node {node}: {error}");
        assert!(error.contains("node 2") && error.contains("start the job again"), "node {node}: {error}");
    }
    assert!(!temperatures.exists());
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_may_die_anywhere_in_a_post_or_a_retrieve() {
    let folder = tempdir().unwrap();
    for point in ["post/reserved:40", "post/published:41", "retrieve/held:42", "retrieve/credited:43"] {
        let (mut job, _) = trapped(&folder, &point.replace(['/', ':'], "-"), LONG, 1, point);
        start_in_order(&mut job);
        for node in [0, 2] {
            let (status, _, error) = job.end_of(node);
            assert_eq!(status, Some(1), "{point}, node {node}");
            assert!(error.contains("node 1"), "{point}, node {node}: {error}");
        }
    }
}

#[test]
fn a_stopped_node_holds_the_others_up_and_loses_nothing() {
    let folder = tempdir().unwrap();
    let slab = "--size 200x200 --tolerance 1e-5 --threads 1";
    let (expected, _) = alone(slab, &folder.path().join("expected.bin"));
    let (mut job, temperatures) = job(&folder, "stopped", &format!("{slab} --nodes 2"));
    let address = job.start_master(&[]);
    job.start(&[]);
    wait_for(&address, |page| page.strips.len() >= 2);
    job.signal(1, "STOP");
    // The sweep that the page tells stays the same.
    let mut last = None;
    wait_for(&address, |page| {
        let words = page.head["words"].clone();
        let milliseconds = page.head["milliseconds"].as_u64().unwrap();
        let (since, seen) = last.get_or_insert((milliseconds, words.clone()));
        if *seen != words {
            (*since, *seen) = (milliseconds, words);
        }
        milliseconds - *since > 1000
    });
    wait_for(&address, |page| page.head["notice"] == "node 1 is stopped, and all wait for it");
    job.signal(1, "CONT");
    assert_eq!(job.end_of(0).0, Some(0));
    assert_eq!(job.end_of(1).0, Some(0));
    assert!(fs::read(&temperatures).unwrap() == expected);
}

/// Its first post is its thread's hello.
const STOPPED_AFTER_HELLO: &str = "post/published:1:stop";

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_that_is_stopped_right_after_hello_holds_the_others_up_and_loses_nothing() {
    let folder = tempdir().unwrap();
    let slab = "--size 60x60 --tolerance 1e-3 --threads 1";
    let (expected, _) = alone(slab, &folder.path().join("expected.bin"));
    let (mut job, temperatures) = trapped(&folder, "hello", &format!("{slab} --nodes 2"), 1, STOPPED_AFTER_HELLO);
    let address = job.start_master(&[]);
    job.start(&[]);
    job.wait_until_stopped(1);
    wait_by_the_page(&address, 2000);
    job.signal(1, "CONT");
    assert_eq!((job.end_of(0).0, job.end_of(1).0), (Some(0), Some(0)));
    assert!(fs::read(&temperatures).unwrap() == expected);
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_node_that_is_not_needed_may_stop_right_after_hello() {
    let folder = tempdir().unwrap();
    let long = "--size 300x300 --tolerance 1e-12 --max-sweeps 20000 --nodes 1 --threads 1";
    let (mut job, _) = trapped(&folder, "needless-hello", long, 1, STOPPED_AFTER_HELLO);
    let address = job.start_master(&[]);
    wait_for(&address, |page| !page.strips.is_empty());
    job.start(&[]);
    job.wait_until_stopped(1);
    // The page is there for as long as the calculation goes on.
    wait_by_the_page(&address, 600);
    job.signal(1, "CONT");
    assert_eq!((job.end_of(1).0, job.end_of(0).0), (Some(0), Some(0)));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn when_a_node_dies_before_all_are_welcome_the_others_name_it() {
    let folder = tempdir().unwrap();
    let options = "--size 40x40 --tolerance 1e-12 --nodes 4 --threads 1";
    let (mut job, _) = trapped(&folder, "unwelcome", options, 2, "post/published:1");
    start_in_order_of(&mut job, 4);
    for node in [0, 1] {
        let (status, _, error) = job.end_of(node);
        assert_eq!(status, Some(1), "node {node}: {error}");
        assert!(error.contains("node 2"), "node {node}: {error}");
    }
}

#[test]
fn a_node_that_is_not_needed_ends_well() {
    let folder = tempdir().unwrap();
    let (mut job, _) = job(&folder, "needless", "--size 300x300 --tolerance 1e-5 --nodes 1 --threads 1");
    let address = job.start_master(&[]);
    wait_for(&address, |page| !page.strips.is_empty());
    job.start(&[]);
    assert_eq!((job.end_of(1).0, job.end_of(0).0), (Some(0), Some(0)));
}

#[test]
fn nodes_that_are_not_needed_may_come_before_the_others_are_there() {
    let folder = tempdir().unwrap();
    let (mut job, _) = job(&folder, "too-many", "--size 300x300 --tolerance 1e-5 --nodes 2 --threads 1");
    (0..4).for_each(|_| job.start(&[]));
    for node in 0..4 {
        let (status, _, notices) = job.end_of(node);
        assert_eq!((status, notices.as_str()), (Some(0), ""), "node {node}");
    }
}

#[test]
fn when_some_do_not_come_all_others_say_so_and_nothing_else() {
    let folder = tempdir().unwrap();
    let temperatures = folder.path().join("absent.bin");
    let start = move || {
        let mut command = laplace("--size 9x9 --nodes 4 --threads 2", &temperatures);
        command.env("DECK_TIMEOUT", "3");
        command
    };
    let mut job = Application::new("laplace-absent", start);
    (0..3).for_each(|_| job.start(&[]));
    for node in 0..3 {
        let (status, _, said) = job.end_of(node);
        assert_eq!((status, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.starts_with("laplace: 3 of 4 nodes came: timed out; ") && said.contains("--nodes 3"), "{said}");
    }
}

#[test]
fn who_is_in_the_job_of_another_program_says_that_nothing_was_made() {
    let folder = tempdir().unwrap();
    let temperatures = folder.path().join("lost.bin");
    expect_nothing_made_elsewhere(&mut laplace("--size 9x9", &temperatures), |job| job.count() == 2);
    assert!(!temperatures.exists());
}

/// Where there is no memory for a result, and where there is some for the result and none for the band.
#[test]
fn a_slab_for_which_there_is_no_memory_is_refused() {
    let folder = tempdir().unwrap();
    for size in ["5800x5800", "16384x16384"] {
        let all = laplace(&format!("--size {size} --max-sweeps 3 --threads 1"), &folder.path().join("t.bin"));
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\""]).arg(all.get_program()).args(all.get_args());
        // Without it some threads reserve so much that others do not start.
        let output = limited.env_remove("DECK_JOB").env("MALLOC_ARENA_MAX", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{size}: {said}");
        assert!(said.contains(" MiB for ") && said.contains("choose a smaller --size"), "{size}: {said}");
    }
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let folder = tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = laplace("--size 9x9", &folder.path().join("temperatures")).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("printing the result") && said.contains("print elsewhere"), "{said}");
    assert!(folder.path().join("temperatures").exists(), "the files are there all the same");
}

#[test]
fn a_bad_option_ends_with_status_2_and_a_bad_place_with_status_1() {
    let folder = tempdir().unwrap();
    let usage = laplace("--size 600", &folder.path().join("t.bin")).output().unwrap();
    let stderr = String::from_utf8(usage.stderr).unwrap();
    assert_eq!((usage.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    let place = laplace("--size 8x8", &folder.path().join("missing/t.bin")).output().unwrap();
    let stderr = String::from_utf8(place.stderr).unwrap();
    assert_eq!(place.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("missing/t.bin") && stderr.contains("folder that exists"), "{stderr}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pixels(path: &Path) -> (u32, u32, Vec<u8>) {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    (frame.width, frame.height, pixels)
}

/// `DECK_BLESS=1` paints it anew.
#[test]
fn the_picture_of_the_documentation_is_what_the_program_makes() {
    let folder = tempdir().unwrap();
    let shown = repository().join("docs/applications/laplace.png");
    let out = folder.path().join("slab.png");
    let temperatures = folder.path().join("slab.bin");
    said_by(laplace("--size 480x320 --tolerance 2e-3", &temperatures).arg("--out").arg(&out), &temperatures);
    if std::env::var_os("DECK_BLESS").is_some() {
        fs::create_dir_all(shown.parent().unwrap()).unwrap();
        fs::copy(&out, &shown).unwrap();
    }
    assert!(pixels(&out) == pixels(&shown), "{}", shown.display());
}

#[test]
fn the_readme_shows_what_is_printed() {
    let folder = tempdir().unwrap();
    let readme = fs::read_to_string(repository().join("apps/laplace/README.md")).unwrap();
    let (_, shown) = readme.split_once("$ laplace ").unwrap();
    let (options, shown) = shown.split_once('\n').unwrap();
    let shown: Vec<_> = shown.lines().take_while(|line| *line != "```").map(without_time).collect();
    let (_, printed) = alone(options, &folder.path().join("slab.bin"));
    assert_eq!(printed.lines().map(without_time).collect::<Vec<_>>(), shown);
}

/// A line without the time that it tells.
fn without_time(line: &str) -> String {
    match line.split_once(": ").and_then(|(before, after)| Some((before, after.split_once(" s, ")?.1))) {
        Some((before, after)) => format!("{before}: _ s, {after}"),
        None => line.to_owned(),
    }
}
