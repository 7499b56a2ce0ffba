//! The program as its users run it: alone, with several nodes that join a job by name, and with a node that dies.
//! The counts must be the same, bit for bit, every time.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
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

/// Ends its processes when the test ends, however it ends.
struct Nodes(Vec<Child>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            let _ = node.kill();
            let _ = node.wait();
        }
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
fn several_nodes_calculate_the_picture_that_one_calculates() {
    let folder = Folder::new("several");
    let problem = "--size 200x200 --max-iter 20000 --threads 2";
    let expected = alone(problem, &folder.0.join("expected.bin"));
    let (counts, job) = (folder.0.join("counts.bin"), format!("mandelbrot-several-{}", std::process::id()));
    let start = || mandelbrot(problem, &counts).env("DECK_JOB", &job).stdout(Stdio::null()).spawn().unwrap();
    let mut nodes = Nodes((0..3).map(|_| start()).collect());
    for node in &mut nodes.0 {
        assert!(node.wait().unwrap().success());
    }
    assert!(fs::read(&counts).unwrap() == expected);
}

#[test]
fn the_death_of_a_worker_node_costs_no_pixel() {
    let folder = Folder::new("death");
    let problem = "--size 200x200 --max-iter 100000 --threads 1 --slices 100";
    let expected = alone(problem, &folder.0.join("expected.bin"));
    let (counts, job) = (folder.0.join("counts.bin"), format!("mandelbrot-death-{}", std::process::id()));
    let start = |options: &str| {
        let mut command = mandelbrot(&format!("{problem} {options}"), &counts);
        command.env("DECK_JOB", &job).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut nodes = Nodes(vec![start("--watch 0")]);
    // The page's address says that node 0 is there and that the next ones are workers.
    let mut stderr = BufReader::new(nodes.0[0].stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.split_once("http://").unwrap().1.trim_end().trim_end_matches('/').to_owned();
    nodes.0.push(start(""));
    nodes.0.push(start(""));
    while slices_arrived(&address) < 30 {
        std::thread::yield_now();
    }
    nodes.0[1].kill().unwrap();
    assert!(nodes.0[2].wait().unwrap().success(), "the other worker goes on");
    assert!(nodes.0[0].wait().unwrap().success());
    let mut report = String::new();
    nodes.0[0].stdout.take().unwrap().read_to_string(&mut report).unwrap();
    assert!(report.contains("200x200, 100000 iterations, 100 slices, "), "{report}");
    assert!(fs::read(&counts).unwrap() == expected);
}

/// The fourth number that the page is told.
fn slices_arrived(address: &str) -> u32 {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /slices?from=1000 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    u32::from_le_bytes(bytes[body + 12..body + 16].try_into().unwrap())
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
