//! Starting the processes of a job on this host.
//!
//! Each process gets one end of a socket (an *invitation*, made by whoever serves the job) and its number in
//! `DECK_LAUNCH_FD`, and in `DECK_LAUNCH_ORDER` how many were started before. All stay in the session and process group
//! of the launcher: a terminal's Ctrl-C reaches them, and the kernel's `sched_yield` only finds others of the same
//! scheduling group, which with automatic grouping is the session. They die with the launcher: the kernel sends each
//! SIGKILL when the *thread* that started it ends.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use deck_sync::{Error, ErrorKind, Result};

use crate::place::{LAUNCH_VARIABLE, ORDER_VARIABLE, TERMINAL_VARIABLE};

/// Where an output stream of the processes goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// To where the launcher's own goes.
    Inherited,
    /// Into a pipe of its own, whose reading end is in [`Started`].
    Piped,
}

/// What to start, and how often.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program: a path, or a name to be found along `PATH`.
    pub program: OsString,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// How many processes.
    pub nodes: u32,
    /// Where their standard output goes.
    pub stdout: Stream,
    /// Where their standard error output goes.
    pub stderr: Stream,
    /// The width of the terminal that shows their standard error output in the end, although they write into a pipe:
    /// they find it in `DECK_TERMINAL` and may draw progress bars, each ended by a carriage return.
    pub terminal: Option<u16>,
}

/// A process that was started. The launcher has to wait for it, by its number.
#[derive(Debug)]
pub struct Started {
    /// Its process number.
    pub pid: u32,
    /// What it writes to standard output, with [`Stream::Piped`].
    pub stdout: Option<OwnedFd>,
    /// What it writes to standard error, with [`Stream::Piped`].
    pub stderr: Option<OwnedFd>,
}

impl Launch {
    /// `nodes` times `program` with `arguments`, writing to where the launcher writes.
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item = OsString>, nodes: u32) -> Launch {
        Launch {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
            nodes,
            stdout: Stream::Inherited,
            stderr: Stream::Inherited,
            terminal: None,
        }
    }

    /// Starts the processes, in order; `invite` is asked for one socket for each. The first process reads the
    /// launcher's standard input, the others read `/dev/null`: which of several would get a line is nobody's choice.
    ///
    /// Signals are neither blocked nor is SIGPIPE ignored in the processes, whatever the launcher does for itself.
    ///
    /// # Errors
    /// What `invite` returns; `NotFound` or `Access` if there is no such program or it may not be executed; `System` if
    /// the system cannot start a process. After an error nothing runs: what was started already has been killed.
    ///
    /// # Threads
    /// The processes are killed when the calling thread ends, so it has to outlive them.
    pub fn start(&self, mut invite: impl FnMut() -> Result<OwnedFd>) -> Result<Vec<Started>> {
        let mut children = Running(Vec::new());
        for index in 0..self.nodes {
            let invitation = invite()?;
            children.0.push(self.start_one(index, &invitation)?);
        }
        let children = std::mem::take(&mut children.0);
        Ok(children
            .into_iter()
            .map(|child| Started {
                pid: child.id(),
                stdout: child.stdout.map(OwnedFd::from),
                stderr: child.stderr.map(OwnedFd::from),
            })
            .collect())
    }

    fn start_one(&self, index: u32, invitation: &OwnedFd) -> Result<Child> {
        let stdio = |stream| match stream {
            Stream::Inherited => Stdio::inherit(),
            Stream::Piped => Stdio::piped(),
        };
        let socket = invitation.as_raw_fd();
        let launcher = std::process::id();
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env(LAUNCH_VARIABLE, socket.to_string())
            .env(ORDER_VARIABLE, index.to_string())
            .stdin(if index == 0 { Stdio::inherit() } else { Stdio::null() })
            .stdout(stdio(self.stdout))
            .stderr(stdio(self.stderr));
        match self.terminal {
            Some(columns) => command.env(TERMINAL_VARIABLE, columns.to_string()),
            // What another launcher told this one is not true for its processes.
            None => command.env_remove(TERMINAL_VARIABLE),
        };
        // SAFETY:
        // - The closure runs between fork and exec and may only do what is safe in a signal handler: it makes plain
        //   system calls and allocates nothing (`from_raw_os_error` does not).
        // - `socket` is open in the child: `invitation` is borrowed until after `spawn`.
        unsafe {
            command.pre_exec(move || prepare(launcher, socket));
        }
        command.spawn().map_err(|error| cannot_start(&self.program, &error))
    }
}

/// Runs in the new process just before it becomes the program.
fn prepare(launcher: u32, socket: RawFd) -> io::Result<()> {
    let check = |result: libc::c_int| if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: takes only integers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // The launcher may have died before the line above: then nobody would ever send that signal.
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::getppid() } as u32 != launcher {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // Only this child's copy of the descriptor survives exec; the launcher's stays close-on-exec, so that no other
    // child inherits it. SAFETY: takes only integers; `socket` is open here.
    check(unsafe { libc::fcntl(socket, libc::F_SETFD, 0) })?;
    // SAFETY: `nothing` is initialized by sigemptyset before it is read, and both live on this stack.
    check(unsafe {
        let mut nothing = std::mem::zeroed();
        libc::sigemptyset(&mut nothing);
        libc::sigprocmask(libc::SIG_SETMASK, &nothing, std::ptr::null_mut())
    })
}

/// Children that are killed again if not all could be started.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // Failing means that it ended by itself, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn cannot_start(program: &OsStr, error: &io::Error) -> Error {
    let shown = program.to_string_lossy();
    let is_name = !shown.contains('/');
    let found = Some(program).filter(|_| is_name).and_then(along_path).unwrap_or_else(|| program.into());
    let (kind, remedy) = match error.raw_os_error() {
        // What the nodes read from, opened for each.
        Some(libc::ENOENT | libc::EACCES) if File::open("/dev/null").is_err() => {
            (ErrorKind::System, "let /dev/null be there and be read by everybody".to_owned())
        }
        Some(libc::ENOENT) if is_name && Path::new(program).exists() => {
            (ErrorKind::NotFound, format!("for the file of this folder type ./{shown}"))
        }
        Some(libc::ENOENT) if !is_name && Path::new(program).exists() => {
            (ErrorKind::NotFound, "install the interpreter that its first line names".to_owned())
        }
        Some(libc::ENOENT) if is_name => (ErrorKind::NotFound, "check the spelling, or give its path".to_owned()),
        Some(libc::ENOENT) => (ErrorKind::NotFound, "check the path".to_owned()),
        Some(libc::EACCES) if found.is_dir() => {
            (ErrorKind::Access, format!("{} is a folder: name the program inside", found.display()))
        }
        Some(libc::EACCES) => (ErrorKind::Access, format!("make it executable: chmod +x {}", found.display())),
        Some(libc::ENOEXEC) => (
            ErrorKind::System,
            "a script needs a first line such as #!/bin/sh; a program has to be made for this machine".to_owned(),
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            (ErrorKind::System, "start fewer nodes, or raise the number of open files with `ulimit -n`".to_owned())
        }
        Some(libc::EAGAIN) => (
            ErrorKind::System,
            "start fewer nodes, or raise the limit of processes (ulimit -u, or the container's)".to_owned(),
        ),
        _ => (ErrorKind::System, "see the operating system's reason".to_owned()),
    };
    Error::new(kind, format!("cannot start {shown:?}"))
        .with_remedy(remedy)
        .with_os(error.raw_os_error().unwrap_or(libc::EINVAL))
}

/// Where the system found a name that it could not start.
fn along_path(name: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::process::{Pid, WaitOptions, waitpid};

    use super::*;

    fn invitation() -> Result<OwnedFd> {
        // The other end is dropped: the programs here never join.
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        pair.map(|(node, _launcher)| node).map_err(|errno| Error::system("socketpair", errno.raw_os_error()))
    }

    fn shell(script: &str, nodes: u32) -> Launch {
        let mut launch = Launch::new("sh", ["-c".into(), script.into()], nodes);
        launch.stdout = Stream::Piped;
        launch
    }

    fn output_and_status(started: Started) -> (String, i32) {
        let mut output = String::new();
        File::from(started.stdout.unwrap()).read_to_string(&mut output).unwrap();
        let pid = Pid::from_raw(started.pid as i32);
        let (_, status) = waitpid(pid, WaitOptions::empty()).unwrap().unwrap();
        (output, status.exit_status().unwrap_or(-1))
    }

    #[test]
    fn each_process_inherits_its_own_invitation_and_no_other() {
        let script = "readlink /proc/self/fd/$DECK_LAUNCH_FD; ls -l /proc/self/fd";
        let seen: Vec<_> = shell(script, 3).start(invitation).unwrap().into_iter().map(output_and_status).collect();
        let sockets: Vec<&str> = seen.iter().map(|(output, _)| output.lines().next().unwrap()).collect();
        for (index, (output, status)) in seen.iter().enumerate() {
            assert!(sockets[index].starts_with("socket:") && *status == 0, "{output}");
            let held = sockets.iter().filter(|socket| output.split_once('\n').unwrap().1.contains(**socket));
            assert_eq!(held.collect::<Vec<_>>(), [&sockets[index]]);
        }
    }

    #[test]
    fn processes_start_with_no_blocked_signal_and_in_the_launchers_session_and_group() {
        // As `deck run` does: what the launcher blocks for itself is nothing that programs expect.
        // SAFETY: `set` is initialized by sigemptyset before it is read, and only this test's thread is changed.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            libc::sigaddset(&mut set, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        }
        // Started without a shell: one may block signals for a moment while it starts a program.
        let mut launch = Launch::new("grep", ["SigBlk".into(), "/proc/self/status".into()], 2);
        launch.stdout = Stream::Piped;
        for started in launch.start(invitation).unwrap() {
            assert_eq!(output_and_status(started).0, "SigBlk:\t0000000000000000\n");
        }
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let own: Vec<&str> = own.rsplit(')').next().unwrap().split(' ').collect();
        for started in shell("cut -d' ' -f5,6 /proc/$$/stat", 2).start(invitation).unwrap() {
            assert_eq!(output_and_status(started).0, format!("{} {}\n", own[3], own[4]));
        }
    }

    #[test]
    fn processes_are_told_of_a_terminal_only_if_there_is_one() {
        let mut launch = shell("echo ${DECK_TERMINAL-none}", 1);
        for (terminal, told) in [(Some(132), "132\n"), (None, "none\n")] {
            launch.terminal = terminal;
            let started = launch.start(invitation).unwrap();
            assert_eq!(started.into_iter().map(output_and_status).collect::<Vec<_>>(), [(told.to_owned(), 0)]);
        }
    }

    #[test]
    fn each_process_is_told_how_many_were_started_before() {
        let started = shell("echo $DECK_LAUNCH_ORDER", 3).start(invitation).unwrap();
        let told: Vec<String> = started.into_iter().map(|started| output_and_status(started).0).collect();
        assert_eq!(told, ["0\n", "1\n", "2\n"]);
    }

    #[test]
    fn a_missing_program_is_an_error_with_a_remedy() {
        let error = Launch::new("no-such-program-anywhere", [], 2).start(invitation).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
        assert!(error.remedy().contains("spelling"), "{error}");

        let error = Launch::new("/etc/passwd", [], 1).start(invitation).unwrap_err();
        assert_eq!((error.kind(), error.os_error()), (ErrorKind::Access, Some(libc::EACCES)));
    }

    #[test]
    fn if_one_cannot_be_invited_the_others_are_killed() {
        let mut invitations = 0;
        let mut launch = shell("exec sleep 1000", 3);
        launch.stdout = Stream::Inherited;
        let error = launch
            .start(|| {
                invitations += 1;
                if invitations == 3 { Err(Error::new(ErrorKind::System, "no more")) } else { invitation() }
            })
            .unwrap_err();
        assert_eq!((error.kind(), invitations), (ErrorKind::System, 3));
    }
}
