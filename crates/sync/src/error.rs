//! The one error type of DECK.
//!
//! An [`Error`] is one word wide, cheap to clone and built in cold functions only. It answers four questions: what
//! happened ([`std::fmt::Display`]), how much is lost ([`Error::scope`]), who caused it ([`Error::peer`]) and what to
//! do ([`Error::remedy`]). It lives in the lowest crate because every layer above reports through it; users find it as
//! `deck::Error`. The shape (opaque, one pointer, predicates instead of variants with fields) follows `jiff`.

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use crate::NodeId;

/// Result of a DECK call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How much is lost with a failure, widening. Of a call all objects are as they were, but for the mutex of
/// [`ErrorKind::NotLocked`]; above that, what is lost has to be replaced: a message by smaller ones, a mail box that
/// was closed by another one, a node by one of those that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// This call only; objects are as they were.
    Call,
    /// The message.
    Message,
    /// The mail box.
    Mailbox,
    /// One other node.
    Peer,
    /// This node.
    Node,
    /// The job.
    Job,
}

/// `D0401` has 401.
const fn number_in(code: &str) -> u16 {
    let (letter, digits) = code.as_bytes().split_at(1);
    assert!(letter[0] == b'D' && digits.len() == 4, "a code is a D with four digits");
    let (mut number, mut at) = (0, 0);
    while at < digits.len() {
        assert!(digits[at].is_ascii_digit(), "a code is a D with four digits");
        number = number * 10 + (digits[at] - b'0') as u16;
        at += 1;
    }
    number
}

const fn ending_in_zero(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a zero byte ends the text and nothing else"),
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $code:literal, $scope:ident, $short:literal, $remedy:literal;)*) => {
        /// What kind of failure an [`Error`] is. Every kind has a stable code with a page in `docs/errors`.
        #[non_exhaustive]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        impl ErrorKind {
            /// Every kind, for tables and tests.
            pub const ALL: &'static [ErrorKind] = &[$(ErrorKind::$kind),*];

            /// Stable code, the name of its page in `docs/errors`.
            pub fn code(self) -> &'static str { match self { $(ErrorKind::$kind => $code,)* } }
            /// The number in its code. What C and other languages have without the letter.
            pub fn number(self) -> u16 { match self { $(ErrorKind::$kind => const { number_in($code) },)* } }
            /// What is lost.
            pub fn scope(self) -> Scope { match self { $(ErrorKind::$kind => Scope::$scope,)* } }
            /// A few words for it.
            #[doc(alias = "deck_strerror")]
            pub fn describe(self) -> &'static str { match self { $(ErrorKind::$kind => $short,)* } }
            /// The same words as C wants them.
            #[doc(hidden)]
            pub fn describe_c(self) -> &'static CStr {
                match self { $(ErrorKind::$kind => const { ending_in_zero(concat!($short, "\0")) },)* }
            }
            /// What to do when the error itself knows nothing better.
            pub fn remedy(self) -> &'static str { match self { $(ErrorKind::$kind => $remedy,)* } }
        }
    };
}

kinds! {
    /// An argument no call accepts.
    Invalid = "D0101", Call, "invalid argument", "correct the argument";
    /// The deadline passed first.
    Timeout = "D0102", Call, "timed out", "wait longer, or check that whoever is to end the wait still runs";
    /// The wait was cancelled from another thread.
    Cancelled = "D0103", Call, "cancelled", "nothing: another thread asked for this";
    /// Not possible here.
    Unsupported = "D0104", Call, "not supported here", "see the documentation of the call for what it needs";
    /// Nothing of that name or number.
    NotFound = "D0105", Call, "not found", "check the spelling, or create it first";
    /// No permission.
    Access = "D0106", Call, "access refused", "use the same user for all nodes of a job";
    /// The operating system refused something.
    System = "D0107", Call, "system error", "see the operating system's reason";
    /// The next element of the message has another type.
    Type = "D0201", Call, "element of another type", "unpack in the order and with the types that were packed";
    /// The message has fewer elements of the type.
    Truncated = "D0202", Call, "fewer elements than asked for", "unpack no more elements than were packed";
    /// More than a node's budget allows.
    TooLarge = "D0203", Message, "message too large", "send it in parts, or raise DECK_BUDGET";
    /// Not enough memory.
    NoMemory = "D0204", Call, "not enough memory", "free messages, or give the node more memory";
    /// The name is taken.
    Exists = "D0301", Call, "name in use", "choose another name, or close the other mail box";
    /// The object was closed or destroyed.
    Closed = "D0302", Mailbox, "closed", "create or clone it again";
    /// A wait in a condition variable ended, and the mutex was not to be had again.
    NotLocked = "D0303", Call, "the mutex is not held", "lock the mutex before touching what it protects";
    /// A node died.
    PeerLost = "D0401", Peer, "a node was lost", "go on without it, or start a new node";
    /// The holder of a lock died, left, or ended its thread.
    OwnerDied = "D0402", Peer, "the holder is gone", "check what it protected; the lock is yours";
    /// Bytes that a peer wrote make no sense.
    Corrupt = "D0403", Peer, "corrupt data from a peer", "run the same version of DECK in every node; if it persists, report it";
    /// No job: before init, after done, or in a forked child.
    NotInitialized = "D0501", Node, "not a node of a job", "join a job first, in this process";
}

struct Detail {
    kind: ErrorKind,
    what: String,
    peer: Option<NodeId>,
    remedy: Option<Cow<'static, str>>,
    os_error: Option<i32>,
}

/// A failed call: what was lost, which peer, the remedy and a stable code.
///
/// "Try again" is never an `Error` by itself: a wait that ended at its deadline is [`ErrorKind::Timeout`] and says what
/// it was waiting for.
///
/// ```
/// use deck_sync::{Error, ErrorKind, NodeId};
/// let error = Error::new(ErrorKind::PeerLost, "post to mail box \"results\"").with_peer(NodeId(3));
/// assert_eq!(error.code(), "D0401");
/// assert!(error.to_string().contains("node 3"));
/// ```
#[doc(alias = "deck_last_error")]
#[derive(Clone)]
pub struct Error(Arc<Detail>);

impl Error {
    /// A failure of `kind`; `what` says in one sentence, without a full stop, what happened.
    #[cold]
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Arc::new(Detail { kind, what: what.into(), peer: None, remedy: None, os_error: None }))
    }

    /// A system call that failed with `errno` while doing `what`.
    #[cold]
    pub fn system(what: impl Into<String>, errno: i32) -> Error {
        let error = Error::new(ErrorKind::System, what).with_os(errno);
        match errno {
            libc::EMFILE => {
                error.with_remedy("raise this process's limit of descriptors (ulimit -n), or let it close files")
            }
            libc::ENOSPC => error.with_remedy("free space"),
            _ => error,
        }
    }

    /// What the standard library reports of a system call that failed while doing `what`; with its number, if it has
    /// one.
    #[cold]
    pub fn io(what: impl Into<String>, error: &std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(errno) => Error::system(what, errno),
            None => Error::new(ErrorKind::System, format!("{}: {error}", what.into())),
        }
    }

    /// A thread that could not be started while doing `what`.
    #[cold]
    pub fn no_thread(what: impl Into<String>, error: &std::io::Error) -> Error {
        let failure = Error::io(what, error);
        match failure.os_error() {
            // The system says the same where a stack finds no address space.
            Some(libc::EAGAIN) => failure.with_remedy(
                "start fewer nodes or threads, or raise the limit of processes (ulimit -u, or the container's) or of \
                 address space (ulimit -v)",
            ),
            _ => failure,
        }
    }

    #[cold]
    fn change(self, change: impl FnOnce(&mut Detail)) -> Error {
        let mut detail = Arc::try_unwrap(self.0).unwrap_or_else(|shared| Detail {
            kind: shared.kind,
            what: shared.what.clone(),
            peer: shared.peer,
            remedy: shared.remedy.clone(),
            os_error: shared.os_error,
        });
        change(&mut detail);
        Error(Arc::new(detail))
    }

    /// Names the node that the failure is about.
    #[cold]
    pub fn with_peer(self, peer: NodeId) -> Error {
        self.change(|detail| detail.peer = Some(peer))
    }

    /// Replaces the kind's general remedy by a better one.
    #[cold]
    pub fn with_remedy(self, remedy: impl Into<Cow<'static, str>>) -> Error {
        self.change(|detail| detail.remedy = Some(remedy.into()))
    }

    /// Adds the operating system's error number.
    #[cold]
    pub fn with_os(self, errno: i32) -> Error {
        self.change(|detail| detail.os_error = Some(errno))
    }

    /// Puts `what` in front: the larger thing that failed because of this.
    #[cold]
    pub fn context(self, what: impl Into<String>) -> Error {
        let what = what.into();
        self.change(|detail| detail.what = format!("{what}: {}", detail.what))
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// How much is lost.
    pub fn scope(&self) -> Scope {
        self.0.kind.scope()
    }

    /// The node it is about, if it is about one.
    pub fn peer(&self) -> Option<NodeId> {
        self.0.peer
    }

    /// Stable code such as `D0401`; `docs/errors` has a page for each.
    pub fn code(&self) -> &'static str {
        self.0.kind.code()
    }

    /// What to do about it.
    pub fn remedy(&self) -> &str {
        self.0.remedy.as_deref().unwrap_or(self.0.kind.remedy())
    }

    /// The operating system's error number, if a system call failed.
    pub fn os_error(&self) -> Option<i32> {
        self.0.os_error
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.what, self.0.kind.describe())?;
        if let Some(peer) = self.0.peer {
            write!(f, " ({peer})")?;
        }
        if let Some(errno) = self.0.os_error {
            write!(f, ": {}", std::io::Error::from_raw_os_error(errno))?;
        }
        write!(f, "; {} [{}]", self.remedy(), self.code())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a program prints whose main function returns an error.
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn every_kind_has_a_code_of_its_own_and_a_remedy() {
        let mut codes: Vec<_> = ErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        // Remedies of all languages: what a call of one is called stands in the errors of that one.
        assert!(ErrorKind::ALL.iter().all(|kind| !kind.remedy().is_empty() && !kind.remedy().contains("deck_")));
    }

    #[test]
    fn numbers_and_words_for_c_are_those_of_the_table() {
        for kind in ErrorKind::ALL {
            assert_eq!(format!("D{:04}", kind.number()), kind.code());
            assert_eq!(kind.describe_c().to_str(), Ok(kind.describe()));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has its own words for the errors of a system")]
    fn display_says_what_why_who_and_what_to_do() {
        let error = Error::system("connecting", 2).with_peer(NodeId(7)).with_remedy("plug it in").context("post");
        assert_eq!(
            error.to_string(),
            "post: connecting: system error (node 7): No such file or directory (os error 2); plug it in [D0107]"
        );
        let numbered = Error::io("connecting", &std::io::Error::from_raw_os_error(2));
        assert_eq!(numbered.to_string(), Error::system("connecting", 2).to_string());
        let thread = Error::no_thread("starting a thread", &std::io::Error::from_raw_os_error(libc::EAGAIN));
        assert!(thread.to_string().contains("(os error 11); start fewer ") && thread.remedy().contains("ulimit -u"));
        let other = Error::io("starting", &std::io::Error::other("no such name"));
        assert!(other.to_string().starts_with("starting: no such name: system error; "), "{other}");
    }
}
