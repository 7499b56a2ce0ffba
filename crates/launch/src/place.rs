//! Where this process belongs, read from its environment.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use deck_sync::{Error, ErrorKind, Result};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::manager;

/// The variable in which `deck run` tells a process the number of its socket.
pub const LAUNCH_VARIABLE: &str = "DECK_LAUNCH_FD";
/// The variable in which `deck run` tells a process how many it has started before. Not the number of a node: that one
/// is given in the order of joining.
pub const ORDER_VARIABLE: &str = "DECK_LAUNCH_ORDER";
/// The variable in which a user names the job that a process shall join, or open.
pub const JOB_VARIABLE: &str = "DECK_JOB";
/// The variable in which `deck run` tells its processes how many columns the terminal has that shows what they write to
/// standard error; not set where none does.
pub const TERMINAL_VARIABLE: &str = "DECK_TERMINAL";
/// The longest name of a job, in bytes.
pub const JOB_NAME_LIMIT: usize = 63;

/// Where a process belongs.
#[derive(Debug)]
pub enum Place {
    /// Nobody said anything: the process is a job of one node.
    Alone,
    /// `deck run` started it.
    Launched {
        /// This process's own descriptor of the socket that leads to the launcher, closed when a program is executed.
        socket: OwnedFd,
    },
    /// It joins the job of this name, or opens it if there is none.
    ByName {
        /// The name, already checked.
        name: String,
    },
}

/// Where this process belongs, according to its environment: `DECK_LAUNCH_FD`, which only `deck run` sets, before
/// `DECK_JOB`, which users set, before being alone.
///
/// May be called again after the process left its job: the socket of the launcher stays open and each call returns a
/// duplicate. From the first call on, programs that this process executes no longer inherit that socket, because a
/// place in a job belongs to one process; such a program finds `DECK_LAUNCH_FD` without a socket behind it and gets an
/// error (with the remedy) rather than a second hand on somebody else's place. A wrapper that is no node itself, such
/// as a shell, passes the socket on untouched.
///
/// # Errors
/// * `NotInitialized`: `DECK_LAUNCH_FD` is set, but there is no socket of `deck run` behind it.
/// * `Invalid`: `DECK_LAUNCH_FD` is no number, or `DECK_JOB` is no name for a job.
/// * `Unsupported`: a manager that DECK cannot join started this process as one of several.
///
/// # Blocking
/// Never.
pub fn place() -> Result<Place> {
    place_from(|name| std::env::var_os(name))
}

/// [`place`] with the environment given by `lookup`: for tests, and for those who keep their settings elsewhere.
///
/// # Errors
/// As [`place`].
pub fn place_from(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Place> {
    if let Some(number) = lookup(LAUNCH_VARIABLE) {
        return Ok(Place::Launched { socket: launch_socket(&number)? });
    }
    if let Some(name) = lookup(JOB_VARIABLE) {
        let name = check_job_name(&name).map_err(|error| error.context(JOB_VARIABLE))?;
        return Ok(Place::ByName { name: name.to_owned() });
    }
    match manager::detect(&lookup) {
        None => Ok(Place::Alone),
        Some(manager) => {
            let of = manager.processes.map_or("several".to_owned(), |processes| processes.to_string());
            let what =
                format!("started by {} as one of {of} processes, which this build of DECK cannot join", manager.name);
            Err(Error::new(ErrorKind::Unsupported, what)
                .with_remedy("start it with `deck run`, or set DECK_JOB=name for all processes of one host"))
        }
    }
}

/// Checks the name of a job and returns it: 1 to [`JOB_NAME_LIMIT`] bytes, each a letter, a digit, `.`, `_` or `-`.
///
/// # Errors
/// `Invalid`, saying what is allowed.
///
/// ```
/// assert_eq!(deck_launch::check_job_name("weather-7".as_ref()).unwrap(), "weather-7");
/// assert!(deck_launch::check_job_name("two words".as_ref()).is_err());
/// ```
pub fn check_job_name(name: &OsStr) -> Result<&str> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    match name.to_str() {
        Some(text) if (1..=JOB_NAME_LIMIT).contains(&text.len()) && text.as_bytes().iter().all(allowed) => Ok(text),
        _ => {
            let shown = String::from_utf8_lossy(&name.as_bytes()[..name.len().min(80)]).into_owned();
            Err(Error::new(ErrorKind::Invalid, format!("{shown:?} is no name for a job"))
                .with_remedy(format!("use 1 to {JOB_NAME_LIMIT} letters, digits, '.', '_' and '-'")))
        }
    }
}

fn launch_socket(number: &OsStr) -> Result<OwnedFd> {
    let Some(fd) = number.to_str().and_then(|text| text.parse::<RawFd>().ok()).filter(|fd| *fd >= 0) else {
        return Err(Error::new(ErrorKind::Invalid, format!("{LAUNCH_VARIABLE}={number:?} is no file descriptor"))
            .with_remedy(format!("unset {LAUNCH_VARIABLE}: only `deck run` sets it")));
    };
    let missing = || {
        Error::new(ErrorKind::NotInitialized, format!("{LAUNCH_VARIABLE}={fd}, but there is no socket of `deck run`"))
            .with_remedy(format!(
                "start the program with `deck run`; if a node started it, or a wrapper that closes files, use `env -u {LAUNCH_VARIABLE}`"
            ))
    };
    // SAFETY:
    // - `borrow_raw` asks for a descriptor that is not -1: filtered above.
    // - It asks that it stays open while borrowed: nothing here closes descriptors, and if another thread does, the
    //   calls below fail with EBADF or meet another file, which the checks refuse. No memory depends on it.
    let launcher = unsafe { BorrowedFd::borrow_raw(fd) };
    let is_ours = sockopt::socket_domain(launcher) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(launcher) == Ok(SocketType::SEQPACKET);
    if !is_ours {
        return Err(missing());
    }
    let socket = fcntl_dupfd_cloexec(launcher, 3).map_err(|errno| {
        Error::system("duplicating the socket of `deck run`", errno.raw_os_error())
            .with_remedy("close files, or raise the limit with `ulimit -n`")
    })?;
    fcntl_setfd(launcher, FdFlags::CLOEXEC).map_err(|_| missing())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::fd::{AsFd, AsRawFd};

    use rustix::io::fcntl_getfd;
    use rustix::net::{SocketFlags, socketpair};

    use super::*;

    fn placed(environment: &[(&str, &str)]) -> Result<Place> {
        let environment: HashMap<_, _> = environment.iter().copied().collect();
        place_from(|name| environment.get(name).map(OsString::from))
    }

    fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None).unwrap()
    }

    fn is_cloexec(fd: impl AsFd) -> bool {
        fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC)
    }

    #[test]
    fn nothing_said_is_alone() {
        assert!(matches!(placed(&[("PATH", "/bin")]), Ok(Place::Alone)));
    }

    #[test]
    fn a_job_is_joined_by_name() {
        let longest = "x".repeat(JOB_NAME_LIMIT);
        for given in ["a", "weather-7", "A.b_c", longest.as_str()] {
            assert!(matches!(placed(&[(JOB_VARIABLE, given)]), Ok(Place::ByName { name }) if name == given));
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_what_is_allowed() {
        let too_long = "x".repeat(JOB_NAME_LIMIT + 1);
        for given in ["", "two words", "a/b", "naïve", "a\0", too_long.as_str()] {
            let error = placed(&[(JOB_VARIABLE, given)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{given:?}");
            assert!(error.remedy().contains("1 to 63"), "{error}");
        }
    }

    #[test]
    fn the_launchers_socket_can_be_taken_again_and_is_not_passed_on() {
        let (_launcher, node) = pair(SocketType::SEQPACKET);
        let number = node.as_raw_fd().to_string();
        assert!(!is_cloexec(&node));
        for _ in 0..2 {
            let Ok(Place::Launched { socket }) = placed(&[(LAUNCH_VARIABLE, &number), (JOB_VARIABLE, "other")]) else {
                panic!("the launcher comes before a name")
            };
            assert_ne!(socket.as_raw_fd(), node.as_raw_fd());
            assert!(is_cloexec(&socket) && is_cloexec(&node));
        }
    }

    #[test]
    fn what_is_no_socket_of_the_launcher_is_refused_with_the_remedy() {
        let (stream, _peer) = pair(SocketType::STREAM);
        let file = std::fs::File::open("/dev/null").unwrap();
        for fd in [stream.as_raw_fd(), file.as_raw_fd(), 999_999] {
            let error = placed(&[(LAUNCH_VARIABLE, &fd.to_string())]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotInitialized);
            assert!(error.remedy().contains("deck run"), "{error}");
        }
        for text in ["", "-1", "three", "99999999999"] {
            assert_eq!(placed(&[(LAUNCH_VARIABLE, text)]).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_foreign_manager_is_an_error_unless_deck_was_told_its_job() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_STEP_ID", "0"), ("SLURM_NTASKS", "4")];
        let error = placed(&slurm).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("started by Slurm as one of 4 processes"), "{error}");
        assert!(error.remedy().contains("deck run") && error.remedy().contains("DECK_JOB=name"), "{error}");

        let mut named = slurm.to_vec();
        named.push((JOB_VARIABLE, "mine"));
        assert!(matches!(placed(&named), Ok(Place::ByName { .. })));
    }
}
