//! A running `deck` command, under a watchdog.

use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

/// The command under test.
pub const DECK: &str = env!("CARGO_BIN_EXE_deck");

const WATCHDOG: Duration = Duration::from_secs(60);

/// A fresh folder for one test, which goes with it.
pub struct Folder(TempDir);

pub fn folder(name: &str) -> Folder {
    let all = env!("CARGO_TARGET_TMPDIR");
    Folder(tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(all).unwrap())
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

/// `sh -c text` with arguments from `$0` on.
pub fn script(text: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text]).args(arguments);
    command
}

/// `deck run` with these arguments, to its end.
pub fn run(arguments: &[&str]) -> Ended {
    Job::run(arguments).ended()
}

pub struct Job {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

/// How a command ended, and what it printed that was not read before.
pub struct Ended {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ended {
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    pub fn errors(&self) -> String {
        String::from_utf8(self.stderr.clone()).unwrap()
    }
}

impl Job {
    pub fn run(arguments: &[&str]) -> Job {
        Job::command(&[&["run"], arguments].concat())
    }

    pub fn command(arguments: &[&str]) -> Job {
        let mut command = Command::new(DECK);
        command.args(arguments);
        Job::start(command)
    }

    pub fn start(command: Command) -> Job {
        // The tests themselves may run under nohup. `env` becomes the command, so the process is the same.
        let mut fresh = Command::new("env");
        fresh.arg("--default-signal=HUP").arg(command.get_program()).args(command.get_args());
        let mut child = fresh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        let mut errors = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            errors.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Job { child, stdout, stderr: Some(stderr) }
    }

    pub fn stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap()
    }

    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let stdout = self.stdout.as_mut().unwrap();
        if stdout.buffer().is_empty() {
            assert!(happens(stdout.get_ref(), PollFlags::IN), "nothing is printed");
        }
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// What it prints next, up to and with `end`, which need not be the end of a line.
    pub fn up_to(&mut self, end: &str) -> String {
        let stdout = self.stdout.as_mut().unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(end.as_bytes()) {
            if stdout.buffer().is_empty() {
                assert!(happens(stdout.get_ref(), PollFlags::IN), "nothing is printed after {bytes:?}");
            }
            let mut byte = [0];
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "no {end:?} in {:?}", String::from_utf8_lossy(&bytes));
            bytes.push(byte[0]);
        }
        String::from_utf8(bytes).unwrap()
    }

    /// The next lines of its output, which are numbers of running processes.
    pub fn processes(&mut self, count: usize) -> Vec<Process> {
        let numbers: Vec<String> = (0..count).map(|_| self.line()).collect();
        let process = |number: &String| {
            let pid = Pid::from_raw(number.parse().unwrap_or_else(|_| panic!("{number:?} is no process"))).unwrap();
            Process(pidfd_open(pid, PidfdFlags::empty()).ok())
        };
        numbers.iter().map(process).collect()
    }

    pub fn stop_reading(&mut self) {
        self.stdout = None;
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn children(&self) -> Vec<Pid> {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        children.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap()).collect()
    }

    /// The process behind the one that was started: its only child.
    fn worker(&self) -> Pid {
        self.children()[0]
    }

    /// Kills the child with these arguments, as soon as there is one.
    pub fn kill_child(&self, arguments: &[&str]) {
        let arguments = format!("\0{}\0", arguments.join("\0"));
        let is_it = |pid: &Pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&arguments))
        };
        let child = std::iter::repeat_with(|| self.children()).find_map(|children| children.into_iter().find(is_it));
        kill_process(child.unwrap(), Signal::KILL).unwrap();
    }

    pub fn signal_worker(&self, signal: Signal) {
        kill_process(self.worker(), signal).unwrap();
    }

    /// Returns when it has stopped.
    pub fn stop_worker(&self) {
        self.signal_worker(Signal::STOP);
        let status = format!("/proc/{}/status", self.worker());
        while !std::fs::read_to_string(&status).unwrap().contains("State:\tT") {
            std::thread::yield_now();
        }
    }

    /// Its exit status, while nobody reads its output.
    pub fn code_without_reading(&mut self) -> i32 {
        let end = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        assert!(happens(&end, PollFlags::IN), "deck does not end");
        let status = self.child.wait().unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }

    pub fn ended(mut self) -> Ended {
        drop(self.child.stdin.take());
        let stdout = self.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let code = self.code_without_reading();
        let stdout = stdout.map(|reader| reader.join().unwrap()).unwrap_or_default();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Ended { code, stdout, stderr }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // Only a failed test leaves it running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that was seen running; nothing if it had ended by then.
pub struct Process(Option<OwnedFd>);

impl Process {
    /// Waits until it has ended.
    pub fn ends(self) {
        if let Some(process) = self.0 {
            assert!(happens(&process, PollFlags::IN), "a process was left behind");
        }
    }
}

fn happens(what: impl AsFd, flags: PollFlags) -> bool {
    let timeout = Timespec::try_from(WATCHDOG).unwrap();
    let mut events = [PollFd::new(&what, flags)];
    loop {
        match poll(&mut events, Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("{errno}"),
        }
    }
}
