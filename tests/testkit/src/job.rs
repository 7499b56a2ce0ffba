//! A job under test: its processes, its folder, its watchdog, and the look around at its end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deck_peers::Broker;
use deck_sync::locks::lock;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::chance::{Chance, SEED_VARIABLE};
use crate::leftovers::{Before, JOB_MARK, kill_orphans};
use crate::process::{Process, Running};
use crate::trap::{POINT_VARIABLE, set_trap};
use crate::watchdog::Watchdog;

/// How long a test may take unless it says otherwise.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Programs are started one at a time: in between, the socket for one of them could be inherited by another.
static STARTING: Mutex<()> = Mutex::new(());
/// Distinguishes the jobs of a test program.
static JOBS: Mutex<u32> = Mutex::new(0);

enum Door {
    /// The launcher is the test.
    Launched(Broker),
    /// By name: the nodes find one another.
    Named,
    /// Every node is alone.
    Alone,
}

/// A job and all that was started in it.
pub struct Job {
    program: PathBuf,
    door: Door,
    mark: String,
    folder: PathBuf,
    before: Before,
    running: Arc<Mutex<Vec<Arc<Running>>>>,
    seed: u64,
    repeat: String,
    watchdog: Option<Watchdog>,
}

impl Job {
    /// A job whose nodes are invited by a broker in this process, as `deck run` does it. `program` runs
    /// [`crate::program::run`].
    pub fn launched(program: &str) -> Job {
        Job::open(program, LIMIT, |mark| Door::Launched(Broker::start(mark, 1).expect("a broker starts")))
    }

    /// A job whose nodes are started with the same `DECK_JOB`, which is unique to this job.
    pub fn by_name(program: &str) -> Job {
        Job::open(program, LIMIT, |_| Door::Named)
    }

    /// No job: every process is alone unless its environment says otherwise.
    pub fn alone(program: &str) -> Job {
        Job::open(program, LIMIT, |_| Door::Alone)
    }

    /// Gives the watchdog another limit.
    pub fn with_limit(mut self, limit: Duration) -> Job {
        self.watch(limit);
        self
    }

    fn open(program: &str, limit: Duration, door: impl FnOnce(&str) -> Door) -> Job {
        let seed = Chance::seed();
        let (mark, folder) = loop {
            let index = {
                let mut jobs = lock(&JOBS);
                *jobs += 1;
                *jobs
            };
            let mark = format!("deck-test-{}-{index}", std::process::id());
            let folder = std::env::temp_dir().join(&mark);
            match std::fs::create_dir(&folder) {
                // Of a process with the same number, whose test failed.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    made.expect("the temporary folder can be written");
                    break (mark, folder);
                }
            }
        };
        let repeat = repeat(seed);
        println!("{mark}: repeat with {repeat}");
        let mut job = Job {
            program: program.into(),
            door: door(&mark),
            before: Before::look(),
            folder,
            running: Arc::default(),
            seed,
            repeat,
            watchdog: None,
            mark,
        };
        job.watch(limit);
        job
    }

    fn watch(&mut self, limit: Duration) {
        let running = self.running.clone();
        let mark = self.mark.clone();
        let bite = move || {
            lock(&running).iter().for_each(|process| process.signal(Signal::KILL));
            kill_orphans(&mark);
        };
        self.watchdog = Some(Watchdog::start(limit, self.repeat.clone(), bite));
    }

    /// The seed of what is random in this test.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The value of `DECK_JOB` for processes of a job by name; unique on this machine.
    pub fn name(&self) -> &str {
        &self.mark
    }

    /// Starts a node and waits until it has joined.
    ///
    /// # Panics
    /// If it cannot.
    #[track_caller]
    pub fn node(&self) -> Process {
        self.node_with(&[])
    }

    /// As [`Job::node`], with additions to its environment.
    #[track_caller]
    pub fn node_with(&self, environment: &[(&str, &str)]) -> Process {
        let mut process = self.start(&[], environment);
        process.joined().words();
        process
    }

    /// Starts `count` nodes, one after the other, so that they are numbered in this order.
    #[track_caller]
    pub fn nodes<const COUNT: usize>(&self) -> [Process; COUNT] {
        std::array::from_fn(|_| self.node())
    }

    /// Starts a node and does not wait; `wrapper` is a command that shall start it, empty for none.
    #[track_caller]
    pub fn start(&self, wrapper: &[&str], environment: &[(&str, &str)]) -> Process {
        let words: Vec<&Path> = wrapper.iter().map(Path::new).chain([self.program.as_path()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        for variable in ["DECK_JOB", "DECK_LAUNCH_FD", POINT_VARIABLE, "DECK_LOG"] {
            command.env_remove(variable);
        }
        command.env(JOB_MARK, &self.mark).env("TMPDIR", &self.folder);
        let _one_at_a_time = lock(&STARTING);
        let mut invitation = None;
        match &self.door {
            Door::Launched(broker) => {
                use std::os::fd::AsRawFd;
                let socket = broker.invite().expect("the broker invites");
                fcntl_setfd(&socket, FdFlags::empty()).expect("a descriptor can be inherited");
                command.env("DECK_LAUNCH_FD", socket.as_raw_fd().to_string());
                invitation = Some(socket);
            }
            Door::Named => drop(command.env("DECK_JOB", &self.mark)),
            Door::Alone => {}
        }
        for (variable, value) in environment {
            if *variable == POINT_VARIABLE {
                set_trap(&mut command, value);
            } else {
                command.env(variable, value);
            }
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{words:?} does not start: {error}"));
        drop(invitation);
        let process = Process::new(child);
        lock(&self.running).push(process.running());
        process
    }

    /// Ends the job: kills what still runs, and looks around.
    ///
    /// # Panics
    /// If anything is left.
    #[track_caller]
    pub fn end(mut self) {
        let left = self.close();
        assert!(left.is_empty(), "the job left behind:\n  {}", left.join("\n  "));
    }

    fn close(&mut self) -> Vec<String> {
        for process in lock(&self.running).drain(..) {
            process.signal(Signal::KILL);
            process.wait();
        }
        self.door = Door::Alone;
        let left = self.before.left_behind(&self.mark, &self.folder);
        kill_orphans(&self.mark);
        let _ = std::fs::remove_dir_all(&self.folder);
        self.watchdog = None;
        left
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: repeat with {}", self.mark, self.repeat);
        }
        if self.watchdog.is_some() {
            self.close();
        }
    }
}

/// The command that runs the present test again.
pub(crate) fn repeat(seed: u64) -> String {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("").to_string();
    let program = std::env::current_exe().ok();
    let stem = program.as_ref().and_then(|path| path.file_stem()?.to_str()).unwrap_or("");
    // Cargo puts a hash behind the file's name.
    let file = stem.rsplit_once('-').map_or(stem, |(file, _)| file);
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let profile = if cfg!(debug_assertions) { "" } else { "--release " };
    format!("{SEED_VARIABLE}={seed} cargo test {profile}-p {package} --test {file} -- --exact {test} --nocapture")
}
