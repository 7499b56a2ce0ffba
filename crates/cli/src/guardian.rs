//! Two processes that watch each other, so that nothing of a job survives `deck run`, however that ends.
//!
//! `deck run` splits into a *front*, the process that the user started and sees, and behind it a *worker*, which starts
//! the nodes and does everything else. The kernel kills the nodes when the worker dies; but a node that a shell script
//! started is no child of the worker, and only an ancestor can find it again. There are two ancestors here:
//!
//! | killed     | who notices                           | who finds everything that is left |
//! |------------|---------------------------------------|-----------------------------------|
//! | the front  | the worker: the pipe between them ends | the worker, which then ends too   |
//! | the worker | the front: it waits for it             | the front, which then ends too    |
//!
//! A worker that ends by itself leaves nothing; if it ended because something of its own failed, the front kills what
//! is left.
//!
//! The front also takes the signals and writes each into that pipe. The worker blocks them: a terminal sends Ctrl-C to
//! both, and two messages for one key would look like a user who insists.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use deck_launch::signals::{self, Signals};
use deck_launch::{Half, split};
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, waitpid};

use crate::descendants;
use crate::poll::wait;
use crate::result::remark;

/// How long the guardian tries to kill what is left. A process may hang in the kernel, and then nobody can help.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long the processes have to end by themselves after they were asked to.
pub const GRACE: Duration = Duration::from_secs(2);
/// Who asks again so long after the first time does not get rid of it by the worker.
const WORKER_PATIENCE: Duration = GRACE.saturating_add(PATIENCE);

/// The signals that ask for the end of the job.
pub const REQUESTS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// What the worker hears from the front.
pub struct Requests(OwnedFd);

/// Something the worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The front got this signal: end the job.
    Signal(libc::c_int),
    /// The front is gone: kill everything now.
    Orphaned,
}

impl Requests {
    /// The next request; waits for it, so poll first.
    pub fn read(&self) -> Request {
        let mut byte = [0];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut byte)) {
            Ok(1) => Request::Signal(byte[0].into()),
            _ => Request::Orphaned,
        }
    }

    /// Whether there is one to be read, now or within this time.
    pub fn has_come_within(&self, time: Duration) -> io::Result<bool> {
        let mut events = [PollFd::new(&self.0, PollFlags::IN)];
        wait(&mut events, Some(time))?;
        Ok(!events[0].revents().is_empty())
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Splits this process; the worker calls `work` and ends with what that returns, as does the front.
///
/// Must be called before this process has a second thread.
pub fn guarded(work: impl FnOnce(Requests) -> u8) -> io::Result<ExitCode> {
    let signals = Signals::take(&REQUESTS)?;
    descendants::spare_those_there_are();
    descendants::adopt_orphans()?;
    let (hear, tell) = pipe_with(PipeFlags::CLOEXEC)?;
    match split()? {
        Half::Child => {
            drop((signals, tell));
            let code = match descendants::adopt_orphans() {
                Ok(()) => work(Requests(hear)),
                Err(error) => {
                    remark("deck run", format_args!("cannot look after its nodes: {error}"));
                    1
                }
            };
            std::process::exit(code.into())
        }
        Half::Parent { child: worker } => {
            drop(hear);
            Ok(ExitCode::from(watch(worker, &signals, &tell)?))
        }
    }
}

fn watch(worker: Pid, signals: &Signals, tell: &OwnedFd) -> io::Result<u8> {
    let ended = pidfd_open(worker, PidfdFlags::empty())?;
    let mut first_asked = None;
    loop {
        let mut events = [PollFd::new(&ended, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        wait(&mut events, None)?;
        while let Some(signal) = signals.next() {
            if first_asked.get_or_insert_with(Instant::now).elapsed() > WORKER_PATIENCE {
                descendants::signal_all(Signal::KILL);
            }
            // A worker that has just ended hears nothing, and need not.
            let _ = rustix::io::retry_on_intr(|| rustix::io::write(tell, &[signal as u8]));
        }
        if let Ok(Some((_, status))) = waitpid(Some(worker), WaitOptions::NOHANG) {
            return Ok(farewell(status));
        }
    }
}

fn farewell(worker: WaitStatus) -> u8 {
    // Before anything is said: whoever reads that may take his time.
    let are_gone = descendants::kill_all(PATIENCE, |_, _| {});
    let code = worker.exit_status().unwrap_or_else(|| {
        let signal = worker.terminating_signal().unwrap_or(libc::SIGKILL);
        let signal_name = signals::name(signal);
        remark(
            "deck run",
            format_args!("{signal_name} ended the process that looked after the nodes; they were killed"),
        );
        128 + signal
    });
    if !are_gone {
        remark("deck run", descendants::STAY);
    }
    code as u8
}
