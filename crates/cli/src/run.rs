//! `deck run`: starts the nodes of a job on this host and looks after them until the last has ended.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, NodeId};
use deck_launch::signals::{self, Signals};
use deck_launch::{Launch, Started, Stream};
use deck_peers::{Broker, see_processes};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use crate::descendants::{self, Asked};
use crate::failures::{Failures, Name};
use crate::guardian::{GRACE, PATIENCE, REQUESTS, Request, Requests, guarded};
use crate::lines::{self, OURSELVES, Origin};
use crate::output::{Closed, Output, Show, Source};
use crate::poll::wait;
use crate::result::remark;

/// The exit status of a process whose reader has gone.
const PIPE_CLOSED: u8 = 128 + libc::SIGPIPE as u8;
/// A job of the same name that is being ended is gone by then.
const NAME_FREE_WITHIN: Duration = Duration::from_secs(2);
/// How often its name is tried until then.
const TRY_NAME_EVERY: Duration = Duration::from_millis(20);
/// The broker hears of the end of a process as soon as its thread runs.
const HEARD_OF_WITHIN: Duration = Duration::from_secs(1);
/// A request that ends nodes as well has come by then.
const REQUESTED_WITHIN: Duration = Duration::from_millis(50);
/// A request that comes again so soon is the same one.
const INSISTENCE: Duration = Duration::from_millis(200);

/// What the user asked for.
pub struct Options {
    /// How many nodes.
    pub nodes: u32,
    /// The job's name: others may join by it, and commands find the job.
    pub job: Option<String>,
    /// Whether each line of output begins with its node's number.
    pub tag: bool,
    /// Whether the failure of one node ends the others.
    pub kill_on_failure: bool,
    /// The program and its arguments.
    pub command: Vec<OsString>,
}

/// Runs the job to its end.
pub fn run(options: &Options) -> ExitCode {
    if let Err(error) = see_processes() {
        remark("deck run", error);
        return ExitCode::FAILURE;
    }
    let code = guarded(|requests| {
        supervise(options, &requests).unwrap_or_else(|error| {
            remark("deck run", error);
            1
        })
    });
    code.unwrap_or_else(|error| {
        let failure = Error::no_thread("starting", &error);
        let failure = match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => failure.with_remedy(
                "let it call pidfd_open, signalfd and prctl: a filter of system calls (seccomp) seems to refuse one",
            ),
            _ => failure,
        };
        remark("deck run", failure);
        ExitCode::FAILURE
    })
}

fn system(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |error| Error::io(what, &error)
}

fn supervise(options: &Options, requests: &Requests) -> deck::Result<u8> {
    let deaths = Signals::take(&[libc::SIGCHLD]).map_err(system("watching the nodes"))?;
    let broker = Arc::new(match &options.job {
        Some(job) => match named(job, options.nodes, requests)? {
            Ok(broker) => broker,
            Err(request) => return Ok(code_of(request)),
        },
        None => Broker::start("", options.nodes)?,
    });
    let (program, arguments) = options.command.split_first().expect("the command line has a program");
    let mut launch = Launch::new(program, arguments.iter().cloned(), options.nodes);
    launch.stdout = Stream::Piped;
    launch.stderr = Stream::Piped;
    // Behind a tag there are lines only.
    launch.terminal = if options.tag { None } else { columns() };
    let started = launch.start(|| broker.invite())?;

    let names = Arc::new(Names::new(&started, broker));
    let no_output = |error| Error::no_thread("passing output through", &error);
    let (mut job, output) = Job::new(options, started, names).map_err(no_output)?;
    job.look_after(requests, &deaths).and_then(|()| job.say_the_rest(output, requests)).map_err(system("waiting"))
}

/// The broker of the job of this name, as soon as no other has the name; or the request that came before.
fn named(job: &str, nodes: u32, requests: &Requests) -> deck::Result<Result<Broker, Request>> {
    let until = Instant::now() + NAME_FREE_WITHIN;
    loop {
        match Broker::start_by_name(job, nodes) {
            Err(error) if error.kind() == ErrorKind::Exists && Instant::now() < until => {}
            result => return result.map(Ok),
        }
        if requests.has_come_within(TRY_NAME_EVERY).map_err(system("waiting for the job's name"))? {
            return Ok(Err(requests.read()));
        }
    }
}

/// The exit status of a job that ends because of this.
fn code_of(request: Request) -> u8 {
    let signal = match request {
        Request::Signal(signal) => signal,
        Request::Orphaned => libc::SIGKILL,
    };
    128 + signal as u8
}

/// The width of the terminal that shows our standard error, if one does that can overwrite what it shows.
fn columns() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    // Some say that they are a terminal and do not know how wide.
    (!is_dumb).then_some(if size.ws_col > 0 { size.ws_col } else { 80 })
}

/// What the processes are called: by their node's number as soon as they have one.
struct Names {
    broker: Arc<Broker>,
    processes: HashMap<u32, usize>,
}

impl Names {
    fn new(started: &[Started], broker: Arc<Broker>) -> Names {
        let processes = started.iter().enumerate().map(|(index, process)| (process.pid, index)).collect();
        Names { broker, processes }
    }

    fn number(&self, pid: u32) -> Option<NodeId> {
        // Processes are started in the order in which they are invited.
        self.broker.node_of_invitation(self.processes[&pid])
    }

    /// `[3]` for node 3, and `[p0]` for the first process as long as it is no node.
    fn tag(&self, pid: u32) -> String {
        match self.number(pid) {
            Some(NodeId(number)) => format!("[{number}]"),
            None => format!("[p{}]", self.processes[&pid]),
        }
    }

    fn name(&self, pid: u32) -> Name {
        match self.number(pid) {
            Some(NodeId(number)) => Name::Node(number),
            None => Name::Process(self.processes[&pid] as u32),
        }
    }
}

/// How far the end has come.
#[derive(Clone, Copy)]
enum Phase {
    /// Nobody asked for it.
    Running,
    /// All were asked to end, and are killed at this time.
    Ending(Instant),
    /// All are being killed.
    Killing,
}

struct Job {
    names: Arc<Names>,
    living: Vec<u32>,
    kill_on_failure: bool,
    phase: Phase,
    asked: Asked,
    /// Whether that was done when no node was left.
    is_rest_asked: bool,
    /// Who failed and how, in the order in which they were found dead.
    failures: Vec<(Option<NodeId>, u8)>,
    /// Those that were not told yet.
    untold: Failures,
    /// The signal that ended `deck run`.
    interrupted: Option<u8>,
    /// When it was last looked for one that had not come yet.
    looked_for_requests: Option<Instant>,
    closed: Closed,
    /// Lines of our own, to be printed between those of the nodes.
    say: std::fs::File,
}

impl Job {
    fn new(options: &Options, started: Vec<Started>, names: Arc<Names>) -> io::Result<(Job, Output)> {
        // Never wait for a reader of our messages: whoever has to be ended must be ended.
        let (heard, say) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&say, true)?;
        let living = started.iter().map(|process| process.pid).collect();
        let source = |pipe: Option<OwnedFd>, process, stream| {
            pipe.map(|pipe| Source { pipe, origin: Origin { process, stream } })
        };
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        for process in started {
            stdout.extend(source(process.stdout, process.pid, lines::Stream::Output));
            stderr.extend(source(process.stderr, process.pid, lines::Stream::Error));
        }
        // Behind the others: that a process has ended is told after what it said.
        stderr.push(Source { pipe: heard, origin: OURSELVES });
        let show = if options.tag {
            let names = names.clone();
            Show::Tagged(Arc::new(move |pid| names.tag(pid)))
        } else if options.nodes == 1 {
            Show::Raw
        } else {
            Show::Lines
        };
        let output = Output::start(stdout, stderr, show)?;
        let job = Job {
            names,
            living,
            kill_on_failure: options.kill_on_failure,
            phase: Phase::Running,
            asked: Asked::default(),
            is_rest_asked: false,
            failures: Vec::new(),
            untold: Failures::default(),
            interrupted: None,
            looked_for_requests: None,
            closed: output.closed(),
            say: say.into(),
        };
        Ok((job, output))
    }

    /// Returns when no process is left.
    fn look_after(&mut self, requests: &Requests, deaths: &Signals) -> io::Result<()> {
        loop {
            while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
                if self.may_have_been_asked(status) && requests.has_come_within(REQUESTED_WITHIN)? {
                    self.obey(requests.read());
                }
                self.ended(pid, status);
            }
            if self.living.is_empty() || self.untold.patience().is_some_and(|time| time.is_zero()) {
                self.tell_failures();
            }
            // What a node left running ends with the job: nobody else would ever end it.
            if self.living.is_empty() {
                if !descendants::any() {
                    return Ok(());
                }
                match self.phase {
                    Phase::Running => self.end(),
                    Phase::Ending(_) if !self.is_rest_asked => self.ask(),
                    _ => {}
                }
            }
            if let Phase::Ending(kill_at) = self.phase
                && Instant::now() >= kill_at
            {
                self.phase = Phase::Killing;
            }
            let patience = match self.phase {
                Phase::Running => self.untold.patience(),
                Phase::Ending(kill_at) => Some(kill_at.saturating_duration_since(Instant::now())),
                Phase::Killing => {
                    self.kill();
                    return Ok(());
                }
            };
            let mut events = [PollFd::new(requests, PollFlags::IN), PollFd::new(deaths, PollFlags::IN)];
            wait(&mut events, patience)?;
            let is_requested = !events[0].revents().is_empty();
            while deaths.next().is_some() {}
            if is_requested {
                self.obey(requests.read());
            }
        }
    }

    /// Whether a process that ended so got a signal which this one may have got, too, and not been told yet: a terminal
    /// sends it to all. Asked once for those that end together.
    fn may_have_been_asked(&mut self, status: WaitStatus) -> bool {
        let is_such = status.terminating_signal().is_some_and(|signal| REQUESTS.contains(&signal));
        let is_running = matches!(self.phase, Phase::Running);
        is_running
            && is_such
            && self.looked_for_requests.replace(Instant::now()).is_none_or(|at| at.elapsed() > INSISTENCE)
    }

    fn obey(&mut self, request: Request) {
        match request {
            Request::Orphaned => {
                self.interrupted = Some(code_of(request));
                self.phase = Phase::Killing;
            }
            Request::Signal(_) => {
                self.interrupted.get_or_insert(code_of(request));
                match self.phase {
                    Phase::Running => self.end(),
                    // `timeout` and a terminal that closes say it twice: to this process, and to all of its group.
                    Phase::Ending(until) if until > Instant::now() + GRACE - INSISTENCE => {}
                    // Asked again: the user does not want to wait.
                    Phase::Ending(_) | Phase::Killing => self.phase = Phase::Killing,
                }
            }
        }
    }

    fn end(&mut self) {
        if let Phase::Running = self.phase {
            self.tell_failures();
            self.ask();
            self.phase = Phase::Ending(Instant::now() + GRACE);
        }
    }

    /// Asks all to end that were not asked before: again when no node is left, as one may have started something in the
    /// moment in which it was asked itself.
    fn ask(&mut self) {
        self.is_rest_asked = self.living.is_empty();
        self.asked.ask();
    }

    fn kill(&mut self) {
        if !descendants::kill_all(PATIENCE, |pid, status| self.ended(pid, status)) {
            self.say(descendants::STAY);
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        let pid = pid.as_raw_pid() as u32;
        // Others are processes that nodes have left behind.
        let Some(index) = self.living.iter().position(|&living| living == pid) else { return };
        self.living.swap_remove(index);
        let (code, how) = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => return,
            (Some(code), _) => (code as u8, format!("ended with exit status {code}")),
            (None, signal) => {
                let signal = signal.unwrap_or(libc::SIGKILL);
                (128 + signal as u8, format!("was killed by {}", signals::name(signal)))
            }
        };
        self.failures.push((self.names.number(pid), code));
        if let Phase::Running = self.phase {
            // A reader that has gone, as in `deck run ... | head`, is no news.
            if status.terminating_signal() != Some(libc::SIGPIPE) || !self.closed.is_so() {
                self.untold.add(self.names.name(pid), pid, how);
            }
            if self.kill_on_failure && !self.living.is_empty() {
                self.tell_failures();
                self.say("ending the other nodes (--kill-on-failure)");
                self.end();
            }
        }
    }

    fn tell_failures(&mut self) {
        self.untold.tell().iter().for_each(|line| self.say(line));
    }

    fn say(&self, line: &str) {
        // If the pipe is full, the reader of our output has stopped, and so many lines are waiting already.
        let _ = (&self.say).write_all(format!("deck run: {line}\n").as_bytes());
    }

    /// How the first node that failed did so. One that died slowly may be found dead after another that ended because
    /// of that: who was lost to the job before the one that was found first is the reason.
    fn first_failure(&self) -> Option<u8> {
        let (first, code) = *self.failures.first()?;
        let nodes: Vec<NodeId> = self.failures.iter().filter_map(|(node, _)| *node).collect();
        let (Some(first), true) = (first, nodes.len() > 1) else { return Some(code) };
        let gone = self.names.broker.gone_of(&nodes, HEARD_OF_WITHIN);
        let reason = gone.iter().take_while(|(node, _)| *node != first).find(|(_, is_lost)| *is_lost);
        let of = |node: NodeId| self.failures.iter().find(|(other, _)| *other == Some(node)).map(|(_, code)| *code);
        reason.and_then(|(node, _)| of(*node)).or(Some(code))
    }

    /// Passes on what has been printed and not yet read, and returns the exit status.
    fn say_the_rest(self, mut output: Output, requests: &Requests) -> io::Result<u8> {
        let failure = self.first_failure();
        let Job { mut interrupted, say, .. } = self;
        drop(say);
        output.finish();
        loop {
            // Whoever reads our output may take their time, but not after the user has interrupted.
            let patience = interrupted.map(|_| GRACE);
            let mut events = [PollFd::new(&output, PollFlags::IN), PollFd::new(requests, PollFlags::IN)];
            wait(&mut events, patience)?;
            if !events[0].revents().is_empty() {
                break;
            }
            if let Some(code) = interrupted {
                return Ok(code);
            }
            if !events[1].revents().is_empty() {
                interrupted = Some(code_of(requests.read()));
            }
        }
        let lost = output.join().err().map(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => PIPE_CLOSED,
            _ => 1,
        });
        Ok(interrupted.or(failure).or(lost).unwrap_or(0))
    }
}
