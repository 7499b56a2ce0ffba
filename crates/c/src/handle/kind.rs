//! What handles stand for, and why one cannot be used.

use deck_api::{Error, ErrorKind};

/// What a handle stands for. The numbers are in the handles, and say where a thread has its shortcuts; nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `deck_thread_t`.
    Thread = 1,
    /// A `deck_sem_t`.
    Semaphore = 2,
    /// A `deck_msg_t`.
    Message = 3,
    /// A `deck_mbox_t`.
    Mailbox = 4,
    /// A `deck_group_t`.
    Group = 5,
    /// A `deck_request_t`.
    Request = 6,
    /// A `deck_segment_t`.
    Segment = 8,
    /// A `deck_mutex_t`.
    Mutex = 9,
    /// A `deck_cond_t`.
    Condition = 10,
    /// A `deck_barrier_t`.
    Barrier = 11,
    /// A `deck_counter_t`.
    Counter = 12,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Thread,
        Kind::Semaphore,
        Kind::Message,
        Kind::Mailbox,
        Kind::Group,
        Kind::Request,
        Kind::Segment,
        Kind::Mutex,
        Kind::Condition,
        Kind::Barrier,
        Kind::Counter,
    ];

    pub(super) fn from_number(number: u64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u64 == number)
    }

    /// What it is called.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Thread => "thread",
            Kind::Semaphore => "semaphore",
            Kind::Message => "message",
            Kind::Mailbox => "mail box",
            Kind::Group => "group",
            Kind::Request => "request",
            Kind::Segment => "segment",
            Kind::Mutex => "mutex",
            Kind::Condition => "condition variable",
            Kind::Barrier => "barrier",
            Kind::Counter => "counter",
        }
    }
}

/// What C programs have handles of.
///
/// # Safety
/// In a session there is one table of such objects, and none of another type with the same kind: a handle alone leads
/// to the object.
pub unsafe trait Object: 'static {
    /// What such a handle stands for.
    const KIND: Kind;
}

/// Why a handle cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// NULL.
    Null,
    /// Nothing that a table of this library ever gave out.
    Garbage,
    /// A handle of another kind of object.
    OtherKind(Kind),
    /// Its object was destroyed.
    Destroyed,
    /// Its object was made before the last `deck_done`.
    Past,
    /// Another thread is using the object, and it is used by one thread at a time.
    Busy,
}

impl Unusable {
    /// The error a caller gets who wanted a `T`.
    #[cold]
    pub fn error<T: Object>(self) -> Error {
        self.of_kind(T::KIND)
    }

    fn of_kind(self, kind: Kind) -> Error {
        let wanted = kind.words();
        match self {
            Unusable::Null => Error::new(ErrorKind::Invalid, format!("the {wanted} is NULL"))
                .with_remedy(format!("create the {wanted} first, and look at what the creating call returned")),
            Unusable::Garbage => Error::new(ErrorKind::Invalid, format!("the pointer is no {wanted} handle"))
                .with_remedy(format!(
                    "pass the {wanted} that DECK gave, unchanged, and look at what that call returned"
                )),
            Unusable::OtherKind(other) => {
                Error::new(ErrorKind::Invalid, format!("a {} was given where a {wanted} is required", other.words()))
            }
            Unusable::Destroyed => {
                let (how, remedy) = match kind {
                    Kind::Thread => ("was joined", "join a thread once, and use its handle no more then"),
                    Kind::Request => (
                        "has ended, or was destroyed",
                        "use a request no more then, and start another call for another",
                    ),
                    Kind::Group => ("was left", "join a group again"),
                    Kind::Mailbox => ("was destroyed", ErrorKind::Closed.remedy()),
                    Kind::Semaphore | Kind::Message => ("was destroyed", "create it again"),
                    Kind::Segment | Kind::Mutex | Kind::Condition | Kind::Barrier | Kind::Counter => {
                        ("is not open any more", "open it again")
                    }
                };
                Error::new(ErrorKind::Closed, format!("the {wanted} {how}")).with_remedy(remedy)
            }
            Unusable::Past => Error::new(ErrorKind::Closed, format!("the {wanted} was made before deck_done"))
                .with_remedy("create it again after deck_init"),
            Unusable::Busy => Error::new(ErrorKind::Invalid, format!("another thread is using the {wanted}"))
                .with_remedy(format!("let one thread at a time use a {wanted}, or give each thread its own")),
        }
    }
}
