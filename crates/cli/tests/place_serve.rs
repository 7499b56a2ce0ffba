//! `deck place serve`: what it says, what it hands out, and what it refuses before it listens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/placement")
}

/// A server that ends with the test.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start(arguments: &[&str]) -> Server {
        Server::start_reading(Stdio::null(), arguments)
    }

    fn start_reading(input: impl Into<Stdio>, arguments: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
        command.args(["place", "serve", "--port", "0"]).args(arguments).current_dir(examples());
        let mut process = command.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next());
        let port = address.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no address in {line:?}"));
        Server { process, port }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n", self.port).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_page_its_engine_and_the_model_come_from_one_binary() {
    let server = Server::start(&["scheduler.json"]);
    let page = server.get("/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>OptiSCI"), "{page}");
    let script = page.split("src=\"./").nth(1).and_then(|rest| rest.split('"').next()).expect("the page has a script");
    let script = server.get(&format!("/{script}"));
    assert!(script.starts_with("HTTP/1.1 200") && script.contains("text/javascript"), "{}", &script[..200]);
    let engine = script.split("optisci-").nth(1).and_then(|rest| rest.split(".wasm").next()).expect("it has an engine");
    let engine = server.get(&format!("/assets/optisci-{engine}.wasm"));
    assert!(engine.starts_with("HTTP/1.1 200") && engine.contains("application/wasm"), "{}", &engine[..200]);
    let model = std::fs::read_to_string(examples().join("scheduler.json")).unwrap();
    assert!(server.get("/model.json").ends_with(&model));
}

#[test]
fn a_model_that_comes_through_a_pipe_is_served_whole() {
    let model = std::fs::read_to_string(examples().join("scheduler.json")).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(model.as_bytes()).unwrap();
    drop(writer);
    let answer = Server::start_reading(reader, &["/dev/stdin"]).get("/model.json");
    assert!(answer.ends_with(&model), "{answer}");
}

#[test]
fn without_a_model_the_page_begins_with_its_examples() {
    assert!(Server::start(&[]).get("/model.json").starts_with("HTTP/1.1 204"));
}

#[test]
fn a_request_that_announces_a_huge_body_is_refused_and_serving_goes_on() {
    let server = Server::start(&[]);
    for length in ["99999999999", "18446744073709551615"] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let head = format!("POST / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: {length}", server.port);
        write!(stream, "{head}\r\n\r\nx").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{length}: {answer}");
        assert!(server.get("/model.json").starts_with("HTTP/1.1 204"));
    }
}

#[test]
fn a_broken_model_and_a_taken_port_are_told_at_once() {
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_deck"));
        command.args(["place", "serve"]).args(arguments).current_dir(examples()).output().unwrap()
    };
    let output = run(&["--port", "0", "scheduler-a.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "it must not have listened");
    assert!(String::from_utf8_lossy(&output.stderr).contains("scheduler-a.json"), "{output:?}");

    let server = Server::start(&[]);
    let output = run(&["--port", &server.port.to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--port 0"), "{output:?}");
}
