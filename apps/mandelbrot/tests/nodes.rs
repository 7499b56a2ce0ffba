//! The program as its users run it: alone, with several nodes that join a job by name, and with a node that dies.
//! The counts must be the same, bit for bit, every time.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("mandelbrot-nodes-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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

#[test]
fn the_counts_are_the_same_for_every_number_of_threads_and_slices() {
    let folder = Folder::new("alone");
    let problem = "--size 120x90 --max-iter 700";
    let expected = alone(&format!("{problem} --threads 1 --slices 1"), &folder.0.join("expected.bin"));
    assert_eq!(expected.len(), 120 * 90 * 4);
    for rest in ["--threads 1 --slices 90", "--threads 3 --slices 7", "--threads 8 --slices 64 --early-outs"] {
        let counts = alone(&format!("{problem} {rest}"), &folder.0.join("counts.bin"));
        assert!(counts == expected, "{rest}");
    }
}

#[test]
fn the_counts_are_the_same_for_every_number_of_nodes() {
    let folder = Folder::new("several");
    let problem = "--size 120x120 --max-iter 20000";
    let expected = alone(problem, &folder.0.join("expected.bin"));
    for (nodes, rest) in [
        (2, "--threads 1 --slices 1"),
        (2, "--threads 2 --slices 64"),
        (4, "--threads 1 --slices 7"),
        (4, "--threads 2 --slices 120"),
    ] {
        let mut job = Job::new(&folder, &format!("several-{nodes}"), &format!("{problem} {rest}"));
        (0..nodes).for_each(|_| job.start(""));
        for node in &mut job.nodes {
            assert!(node.wait().unwrap().success(), "{nodes} nodes, {rest}");
        }
        assert!(fs::read(&job.counts).unwrap() == expected, "{nodes} nodes, {rest}");
    }
}

/// Long enough that nobody is ready before something has happened to a node.
const LONG: &str = "--size 160x160 --max-iter 150000 --threads 1 --slices 80";

#[test]
fn a_worker_node_that_is_killed_costs_its_slice_and_no_pixel() {
    let folder = Folder::new("killed");
    let expected = alone(LONG, &folder.0.join("expected.bin"));
    let mut job = Job::new(&folder, "killed", LONG);
    let address = job.start_master();
    job.start("");
    job.start("");
    wait_for_slices_of(&address, &[1, 2]);
    job.nodes[1].kill().unwrap();
    assert!(job.nodes[2].wait().unwrap().success(), "the other worker goes on");
    let (report, notices) = job.end_of_master();
    assert!(report.contains("160x160, 150000 iterations, 80 slices, 3 nodes x 1 thread: "), "{report}");
    assert!(report.contains(" (lost)") && notices.contains("was lost; "), "{report}{notices}");
    assert!(fs::read(&job.counts).unwrap() == expected);
}

#[test]
fn a_worker_node_that_is_stopped_is_overtaken_and_ends_well_when_it_goes_on() {
    let folder = Folder::new("stopped");
    let expected = alone(LONG, &folder.0.join("expected.bin"));
    let mut job = Job::new(&folder, "stopped", LONG);
    let address = job.start_master();
    job.start("");
    wait_for_slices_of(&address, &[1]);
    signal(&job.nodes[1], "STOP");
    let (report, notices) = job.end_of_master();
    assert!(report.contains("80 slices, 2 nodes x 1 thread: "), "{report}");
    assert!(!report.contains("lost") && notices.is_empty(), "{report}{notices}");
    assert!(fs::read(&job.counts).unwrap() == expected);
    signal(&job.nodes[1], "CONT");
    assert!(job.nodes[1].wait().unwrap().success());
}

#[test]
fn without_the_master_the_workers_end_with_an_error_that_names_it() {
    let folder = Folder::new("master");
    let mut job = Job::new(&folder, "master", LONG);
    let address = job.start_master();
    job.start("");
    wait_for_slices_of(&address, &[1]);
    job.nodes[0].kill().unwrap();
    assert_eq!(job.nodes[1].wait().unwrap().code(), Some(1));
    let mut error = String::new();
    job.nodes[1].stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert!(error.contains("node 0") && error.contains("start the job again"), "{error}");
    assert!(!job.counts.exists());
}

/// Nodes that find each other by name.
struct Job {
    name: String,
    options: String,
    counts: PathBuf,
    nodes: Vec<Child>,
}

impl Job {
    fn new(folder: &Folder, name: &str, options: &str) -> Job {
        let counts = folder.0.join(format!("{name}.bin"));
        let name = format!("mandelbrot-{name}-{}", std::process::id());
        Job { name, options: options.to_owned(), counts, nodes: Vec::new() }
    }

    fn start(&mut self, options: &str) {
        let mut command = mandelbrot(&format!("{} {options}", self.options), &self.counts);
        command.env("DECK_JOB", &self.name).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.nodes.push(command.spawn().unwrap());
    }

    /// Starts node 0 with a page, and gives its address: by then whoever comes next is node 1.
    fn start_master(&mut self) -> String {
        self.start("--watch 0");
        let stderr = self.nodes[0].stderr.as_mut().unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            stderr.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).unwrap();
        line.split_once("http://").unwrap().1.trim_end().trim_end_matches('/').to_owned()
    }

    /// Waits for node 0 to succeed; what it printed, and its notices.
    fn end_of_master(&mut self) -> (String, String) {
        assert!(self.nodes[0].wait().unwrap().success());
        let (mut report, mut notices) = (String::new(), String::new());
        self.nodes[0].stdout.take().unwrap().read_to_string(&mut report).unwrap();
        self.nodes[0].stderr.take().unwrap().read_to_string(&mut notices).unwrap();
        (report, notices)
    }
}

/// Ends its processes when the test ends, however it ends.
impl Drop for Job {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

fn signal(node: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", node.id())]).status().unwrap();
    assert!(sent.success());
}

/// Looks at the page at `address` until each of `nodes` has delivered a slice: from then on it has another one.
fn wait_for_slices_of(address: &str, nodes: &[u32]) {
    loop {
        let page = slices(address);
        if nodes.iter().all(|node| page.contains(node)) {
            return;
        }
        std::thread::yield_now();
    }
}

/// The nodes that delivered the slices that the page shows.
fn slices(address: &str) -> Vec<u32> {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /slices?from=0 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let number = |at: usize| u32::from_le_bytes(bytes[body + at..body + at + 4].try_into().unwrap());
    let (width, mut at, mut nodes) = (number(0), 24, Vec::new());
    while body + at < bytes.len() {
        nodes.push(number(at + 8));
        at += 12 + (number(at + 4) * width * 3) as usize;
    }
    nodes
}

#[test]
fn a_bad_option_ends_with_status_2_and_a_bad_place_with_status_1() {
    let folder = Folder::new("bad");
    let usage = mandelbrot("--size 600", &folder.0.join("counts.bin")).output().unwrap();
    let stderr = String::from_utf8(usage.stderr).unwrap();
    assert_eq!((usage.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
    assert!(stderr.contains("use --size 600x600"), "{stderr}");
    let place = mandelbrot("--size 8x8", &folder.0.join("missing/counts.bin")).output().unwrap();
    let stderr = String::from_utf8(place.stderr).unwrap();
    assert_eq!(place.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("missing/counts.bin") && stderr.contains("folder that exists"), "{stderr}");
}
