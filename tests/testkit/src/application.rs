//! Applications as their users run them: nodes that find each other by name, looked at through the page of `--watch`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use deck::{Door, Node};
use deck_sync::atomic::{AtomicU32, Ordering};

use crate::Chance;
use crate::job::repeat;
use crate::leftovers::{JOB_MARK, kill_orphans};
use crate::look;
use crate::process::state_of;
use crate::watchdog::Watchdog;

/// How long the nodes of a job may take.
const LIMIT: Duration = Duration::from_secs(180);

/// An application that comes to the job of another program, which leaves when it `has_come`, says so and that nothing
/// was made.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn expect_nothing_made_elsewhere(application: &mut Command, has_come: impl Fn(&Node) -> bool) {
    static JOBS: AtomicU32 = AtomicU32::new(0);
    let job = format!("deck-elsewhere-{}-{}", std::process::id(), JOBS.fetch_add(1, Ordering::Relaxed));
    let mark = job.clone();
    let _watchdog = Watchdog::start(LIMIT, repeat(Chance::seed()), move || kill_orphans(&mark));
    let other = Node::join_by(Door::Named(job.clone())).expect("a job");
    application.env("DECK_JOB", &job).env(JOB_MARK, &job).stderr(Stdio::piped());
    let mut lost = application.spawn().expect("it starts");
    while !has_come(&other) {
        let ended = lost.try_wait().expect("it was started");
        assert_eq!(ended, None, "it has not come");
        look::pause();
    }
    other.leave().expect("it leaves in order");
    let output = lost.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("node 0") && said.contains("nothing was made") && said.contains("DECK_JOB"), "{said}");
}

/// Nodes of one application in a job of its own. They end when the test ends, however it ends; a watchdog ends those
/// that hang.
pub struct Application {
    job: String,
    start: Box<dyn Fn() -> Command>,
    /// In order of their start.
    pub nodes: Vec<Child>,
    _watchdog: Watchdog,
}

impl Application {
    /// A job whose nodes are started as `start` says.
    pub fn new(name: &str, start: impl Fn() -> Command + 'static) -> Application {
        let job = format!("deck-{name}-{}", std::process::id());
        let mark = job.clone();
        let watchdog = Watchdog::start(LIMIT, repeat(Chance::seed()), move || kill_orphans(&mark));
        Application { job, start: Box::new(start), nodes: Vec::new(), _watchdog: watchdog }
    }

    /// Starts another node, with more options.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(&mut self, options: &[&str]) {
        let mut command = (self.start)();
        command
            .args(options)
            .env("DECK_JOB", &self.job)
            .env(JOB_MARK, &self.job)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.nodes.push(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")));
    }

    /// Starts node 0 with a page, and gives its address: by then whoever comes next is node 1.
    ///
    /// # Panics
    /// If it says anything else first.
    pub fn start_master(&mut self, options: &[&str]) -> String {
        self.start(&[options, &["--watch", "0"]].concat());
        let stderr = self.nodes[0].stderr.as_mut().expect("it is piped");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while byte != *b"\n" {
            stderr.read_exact(&mut byte).unwrap_or_else(|_| panic!("no page: {}", String::from_utf8_lossy(&line)));
            line.push(byte[0]);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        let (_, address) = line.split_once("http://").unwrap_or_else(|| panic!("no page: {line}"));
        address.trim_end().trim_end_matches('/').to_owned()
    }

    /// Waits for a node to end: its status, what it printed, and its notices.
    ///
    /// # Panics
    /// If it was waited for before.
    pub fn end_of(&mut self, node: usize) -> (Option<i32>, String, String) {
        let node = &mut self.nodes[node];
        let (mut report, mut notices) = (String::new(), String::new());
        node.stdout.take().expect("waited for once").read_to_string(&mut report).expect("text");
        node.stderr.take().expect("waited for once").read_to_string(&mut notices).expect("text");
        (node.wait().expect("it was started").code(), report, notices)
    }

    /// Waits until a node is stopped, by a signal or at a point of `DECK_POINT`.
    ///
    /// # Panics
    /// If it is gone.
    pub fn wait_until_stopped(&self, node: usize) {
        let pid = self.nodes[node].id();
        loop {
            match state_of(pid) {
                Some('T') => return,
                Some('Z') | None => panic!("process {pid} has ended"),
                Some(_) => look::pause(),
            }
        }
    }

    /// Sends a signal to a node, by its name.
    ///
    /// # Panics
    /// If the node is gone.
    pub fn signal(&self, node: usize, name: &str) {
        let kill = format!("kill -{name} {}", self.nodes[node].id());
        assert!(Command::new("sh").args(["-c", &kill]).status().is_ok_and(|status| status.success()), "{kill}");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// What the page at an address shows: how far the work is, and rows with the nodes that made them.
pub struct Page {
    /// As the page is told.
    pub head: serde_json::Value,
    /// First row, rows and node of each strip.
    pub strips: Vec<[u32; 3]>,
}

/// Asks the page at `address` as a browser does.
///
/// # Panics
/// If it does not answer.
pub fn page(address: &str) -> Page {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    // Version 1.0 answers in one piece.
    write!(stream, "GET /strips?from=0 HTTP/1.0\r\nHost: {address}\r\n\r\n").expect("it listens");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("it answers");
    let body = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer has a head") + 4;
    let bytes = &bytes[body..];
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let mut at = 4 + number(0) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..at]).expect("JSON");
    let width = head["width"].as_u64().expect("a number") as usize;
    let mut strips = Vec::new();
    while at < bytes.len() {
        strips.push([number(at), number(at + 4), number(at + 8)]);
        at += 12 + number(at + 4) as usize * width * 3;
    }
    Page { head, strips }
}

/// Looks at the page at `address` until it shows what a test waits for.
pub fn wait_for(address: &str, mut is_there: impl FnMut(&Page) -> bool) -> Page {
    loop {
        let page = page(address);
        if is_there(&page) {
            return page;
        }
        look::pause();
    }
}

/// Looks at the page at `address` until so much time has passed on its clock: for things that must not happen
/// meanwhile.
pub fn wait_by_the_page(address: &str, milliseconds: u64) {
    let clock = |page: &Page| page.head["milliseconds"].as_u64().expect("a number");
    let until = clock(&page(address)) + milliseconds;
    wait_for(address, |page| clock(page) >= until);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "it has not come")]
    fn an_application_that_ends_before_it_has_come_is_not_waited_for() {
        expect_nothing_made_elsewhere(&mut Command::new("false"), |_| false);
    }
}
