//! The program as its users run it: alone, with several nodes that join a job by name, and with a node that dies.
//! The counts must be the same, bit for bit, every time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use deck_testkit::application::{Application, expect_nothing_made_elsewhere, wait_by_the_page, wait_for};
use deck_testkit::see::deck;
use deck_testkit::set_trap;
use tempfile::{TempDir, tempdir};

fn mandelbrot(options: &str, counts: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mandelbrot"));
    command.args(options.split_whitespace()).arg("--counts").arg(counts).env_remove("DECK_JOB");
    command
}

fn alone(options: &str, counts: &Path) -> Vec<u8> {
    let output = mandelbrot(options, counts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "silent in a pipe: {}", String::from_utf8_lossy(&output.stderr));
    fs::read(counts).unwrap()
}

/// Nodes that find each other by name, and the file of their counts.
fn job(folder: &TempDir, name: &str, options: &str) -> (Application, PathBuf) {
    let counts = folder.path().join(format!("{name}.bin"));
    let (options, file) = (options.to_owned(), counts.clone());
    (Application::new(&format!("mandelbrot-{name}"), move || mandelbrot(&options, &file)), counts)
}

#[test]
fn the_counts_are_the_same_for_every_number_of_threads_and_slices() {
    let folder = tempdir().unwrap();
    let problem = "--size 120x90 --max-iter 700";
    let expected = alone(&format!("{problem} --threads 1 --slices 1"), &folder.path().join("expected.bin"));
    assert_eq!(expected.len(), 120 * 90 * 4);
    for rest in ["--threads 1 --slices 90", "--threads 3 --slices 7", "--threads 8 --slices 64 --early-outs"] {
        let counts = alone(&format!("{problem} {rest}"), &folder.path().join("counts.bin"));
        assert!(counts == expected, "{rest}");
    }
}

#[test]
fn the_counts_are_the_same_for_every_number_of_nodes() {
    let folder = tempdir().unwrap();
    let problem = "--size 120x120 --max-iter 20000";
    let expected = alone(problem, &folder.path().join("expected.bin"));
    for (nodes, rest) in [
        (2, "--threads 1 --slices 1"),
        (2, "--threads 2 --slices 64"),
        (4, "--threads 1 --slices 7"),
        (4, "--threads 2 --slices 120"),
    ] {
        let (mut job, counts) = job(&folder, &format!("several-{nodes}"), &format!("{problem} {rest}"));
        (0..nodes).for_each(|_| job.start(&[]));
        for node in 0..nodes {
            assert_eq!(job.end_of(node).0, Some(0), "{nodes} nodes, {rest}");
        }
        assert!(fs::read(&counts).unwrap() == expected, "{nodes} nodes, {rest}");
    }
}

#[test]
fn nothing_depends_on_whether_anybody_reads_what_is_said_beside_the_result() {
    let folder = tempdir().unwrap();
    let counts = folder.path().join("counts.bin");
    let status = |options: &str, counts: &Path| {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        mandelbrot(options, counts).stderr(writer).output().unwrap().status.code()
    };
    assert_eq!(status("--size 12x9 --watch 0", &counts), Some(0));
    assert_eq!(fs::metadata(&counts).unwrap().len(), 12 * 9 * 4);
    assert_eq!(status("--size 12", &counts), Some(2), "a wrong option");
    assert_eq!(status("--size 12x9", folder.path()), Some(1), "a folder is no file");
}

/// Long enough that nobody is ready before something has happened to a node.
const LONG: &str = "--size 160x160 --max-iter 150000 --threads 1 --slices 80";

#[test]
fn a_worker_node_that_is_killed_costs_its_slice_and_no_pixel() {
    let folder = tempdir().unwrap();
    let expected = alone(LONG, &folder.path().join("expected.bin"));
    let (mut job, counts) = job(&folder, "killed", LONG);
    let address = job.start_master(&[]);
    job.start(&[]);
    job.start(&[]);
    wait_for_slices_of(&address, &[1, 2]);
    job.nodes[1].kill().unwrap();
    assert_eq!(job.end_of(2).0, Some(0), "the other worker goes on");
    let (status, report, notices) = job.end_of(0);
    assert_eq!(status, Some(0), "{notices}");
    assert!(report.contains("160x160, 150000 iterations, 80 slices, 3 nodes x 1 thread: "), "{report}");
    assert!(report.contains(" (lost)") && notices.contains("was lost; "), "{report}{notices}");
    assert!(fs::read(&counts).unwrap() == expected);
}

#[test]
fn a_worker_node_that_is_stopped_is_overtaken_and_ends_well_when_it_goes_on() {
    let folder = tempdir().unwrap();
    let expected = alone(LONG, &folder.path().join("expected.bin"));
    let (mut job, counts) = job(&folder, "stopped", LONG);
    let address = job.start_master(&[]);
    job.start(&[]);
    wait_for_slices_of(&address, &[1]);
    job.signal(1, "STOP");
    let (status, report, notices) = job.end_of(0);
    assert_eq!(status, Some(0), "{notices}");
    assert!(report.contains("80 slices, 2 nodes x 1 thread: "), "{report}");
    assert!(!report.contains("lost") && notices.is_empty(), "{report}{notices}");
    assert!(fs::read(&counts).unwrap() == expected);
    job.signal(1, "CONT");
    assert_eq!(job.end_of(1).0, Some(0));
}

#[test]
#[cfg_attr(not(debug_assertions), ignore = "its points are in builds with debug assertions")]
fn a_worker_node_that_is_stopped_right_after_hello_gets_slices_when_it_goes_on() {
    let folder = tempdir().unwrap();
    let counts = folder.path().join("hello.bin");
    let started = std::cell::Cell::new(0);
    let mut job = Application::new("mandelbrot-hello", move || {
        let mut command = mandelbrot("--size 160x160 --max-iter 2000000 --threads 1 --slices 80", &counts);
        // Its first post is its thread's hello.
        if started.replace(started.get() + 1) == 1 {
            set_trap(&mut command, "post/published:1:stop");
        }
        command
    });
    let address = job.start_master(&[]);
    job.start(&[]);
    job.wait_until_stopped(1);
    wait_by_the_page(&address, 2000);
    job.signal(1, "CONT");
    wait_for_slices_of(&address, &[1]);
}

#[test]
fn without_the_master_the_workers_end_with_an_error_that_names_it() {
    let folder = tempdir().unwrap();
    let (mut job, counts) = job(&folder, "master", LONG);
    let address = job.start_master(&[]);
    job.start(&[]);
    wait_for_slices_of(&address, &[1]);
    job.nodes[0].kill().unwrap();
    let (status, _, error) = job.end_of(1);
    assert_eq!(status, Some(1));
    assert!(error.contains("node 0") && error.contains("start the job again"), "{error}");
    assert!(!counts.exists());
}

/// Looks at the page until each of `nodes` has delivered a slice: from then on it has another one.
fn wait_for_slices_of(address: &str, nodes: &[u32]) {
    wait_for(address, |page| nodes.iter().all(|node| page.strips.iter().any(|strip| strip[2] == *node)));
}

#[test]
fn who_is_in_the_job_of_another_program_says_that_nothing_was_made() {
    let folder = tempdir().unwrap();
    let counts = folder.path().join("lost.bin");
    expect_nothing_made_elsewhere(&mut mandelbrot("--size 9x9", &counts), |job| job.count() == 2);
    assert!(!counts.exists());
}

/// The thread's own word about it is too long for that budget, too.
#[test]
fn a_thread_that_can_post_neither_its_lines_nor_why_is_not_waited_for() {
    let folder = tempdir().unwrap();
    let mut limited = Command::new("timeout");
    limited.args(["60", env!("CARGO_BIN_EXE_mandelbrot"), "--size", "120x90", "--max-iter", "70", "--counts"]);
    let ended =
        limited.arg(folder.path().join("counts.bin")).env_remove("DECK_JOB").env("DECK_BUDGET", "1").output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(1) && told.contains("raise DECK_BUDGET"), "{}: {told}", ended.status);
}

#[test]
fn a_result_that_cannot_be_printed_is_a_failure() {
    let folder = tempdir().unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        mandelbrot("--size 4x4 --slices 1 --max-iter 9", &folder.path().join("counts")).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("printing the result") && said.contains("print elsewhere"), "{said}");
    assert!(folder.path().join("counts").exists(), "the files are there all the same");
}

#[test]
fn all_nodes_of_deck_run_end_alike_and_the_first_one_says_what_is_wrong_or_asked_for() {
    let run = |options: &[&str]| {
        let mut command = Command::new(deck());
        command.args(["run", "-n", "4", env!("CARGO_BIN_EXE_mandelbrot")]).args(options).env_remove("DECK_JOB");
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, stdout, stderr) = run(&["--bad-option"]);
    let said: Vec<&str> = stderr.lines().filter(|line| line.starts_with("mandelbrot: ")).collect();
    assert_eq!((status, stdout.as_str(), said.len()), (Some(2), "", 1), "{stderr}");
    assert!(said[0].contains("--bad-option"), "{stderr}");
    assert_eq!(stderr.matches("ended with exit status 2").count(), 4, "{stderr}");
    let (status, stdout, stderr) = run(&["--help"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert_eq!(stdout.matches("Usage:").count(), 1, "{stdout}");
}

#[test]
fn each_of_those_that_nodes_start_as_jobs_of_their_own_says_what_is_wrong() {
    let mut command = Command::new(deck());
    command.args(["run", "-n", "3", "env", "-u", "DECK_LAUNCH_FD", env!("CARGO_BIN_EXE_mandelbrot"), "--bad-option"]);
    let stderr = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert_eq!(stderr.lines().filter(|line| line.starts_with("mandelbrot: ")).count(), 3, "{stderr}");
}

#[test]
fn a_bad_option_ends_with_status_2_and_a_bad_place_with_status_1() {
    let folder = tempdir().unwrap();
    let usage = mandelbrot("--size 600", &folder.path().join("counts.bin")).output().unwrap();
    let stderr = String::from_utf8(usage.stderr).unwrap();
    assert_eq!((usage.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("use --size 600x600"), "{stderr}");
    let place = mandelbrot("--size 8x8", &folder.path().join("missing/counts.bin")).output().unwrap();
    let stderr = String::from_utf8(place.stderr).unwrap();
    assert_eq!(place.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("missing/counts.bin") && stderr.contains("folder that exists"), "{stderr}");
    // What the place is called commands no terminal.
    let place = mandelbrot("--size 8x8", &folder.path().join("evil\u{1b}[2J\u{9b}31m/counts.bin")).output().unwrap();
    let stderr = String::from_utf8(place.stderr).unwrap();
    assert!(stderr.contains("/evil [2J 31m/counts.bin: "), "{stderr:?}");
}
