//! Who is missing, in words: the errors of a group.

use deck_mudeck::{Error, ErrorKind, NodeId, NodeState};
use deck_sync::Interrupted;

/// How many of the absent are named.
const NAMED: usize = 16;

/// A member that has not come.
#[derive(Clone, Copy, Debug)]
pub struct Absent {
    pub index: u32,
    /// Its node, if one is known.
    pub node: Option<NodeId>,
    /// What is known of that node, unless it is just live.
    pub state: Option<NodeState>,
}

fn name(absent: &Absent) -> String {
    let Some(node) = absent.node else { return format!("index {}", absent.index) };
    let state = match absent.state {
        None | Some(NodeState::Live) => "",
        Some(NodeState::Frozen) => ", frozen",
        Some(NodeState::Left) => ", left",
        Some(NodeState::Lost) => ", died",
    };
    format!("index {} ({node}{state})", absent.index)
}

/// All of them in words.
fn names(absent: &[Absent]) -> String {
    let mut names: Vec<String> = absent.iter().take(NAMED).map(name).collect();
    if absent.len() > NAMED {
        names.push(format!("{} more", absent.len() - NAMED));
    }
    match names.len() {
        0 => "nobody is absent any more".into(),
        1 => format!("{} is absent", names[0]),
        _ => format!("{} are absent", names.join(", ")),
    }
}

/// The peer of an error is the first that died, or else the first at all: who died is why others leave.
fn with_first_node(error: Error, absent: &[Absent]) -> Error {
    let dead = absent.iter().find(|absent| absent.state == Some(NodeState::Lost));
    match dead.into_iter().chain(absent).find_map(|absent| absent.node) {
        Some(node) => error.with_peer(node),
        None => error,
    }
}

/// A wait that ended before all had come.
#[cold]
pub fn missing(interrupted: Interrupted, doing: &str, absent: &[Absent]) -> Error {
    let (kind, remedy) = match interrupted {
        Interrupted::Deadline if absent.iter().any(|absent| absent.state == Some(NodeState::Frozen)) => {
            (ErrorKind::Timeout, "let the frozen node continue (kill -CONT), or end it; then call again")
        }
        Interrupted::Deadline => (
            ErrorKind::Timeout,
            "wait longer (the same call again goes on), or check what the absent members do instead",
        ),
        Interrupted::Cancelled => (ErrorKind::Cancelled, ErrorKind::Cancelled.remedy()),
    };
    with_first_node(Error::new(kind, format!("{doing}: {}", names(absent))).with_remedy(remedy), absent)
}

/// A group that has lost members for good.
#[cold]
pub fn lost(doing: &str, absent: &[Absent]) -> Error {
    let has_died = absent.iter().any(|absent| absent.state == Some(NodeState::Lost));
    let kind = if has_died { ErrorKind::PeerLost } else { ErrorKind::Closed };
    with_first_node(for_good(Error::new(kind, format!("{doing}: {}", names(absent)))), absent)
}

/// The `error` of whoever needs a member that may be gone: what is to be done if it is.
#[cold]
pub fn for_good(error: Error) -> Error {
    match error.kind() {
        ErrorKind::PeerLost => error.with_remedy("leave the group and form another one of those who are left"),
        ErrorKind::Closed => error.with_remedy("a member has left the group: leave it too, and form another one"),
        _ => error,
    }
}

/// The same of whoever has not become a member, and has nothing to leave.
#[cold]
pub fn before_joining(error: Error) -> Error {
    match error.kind() {
        ErrorKind::PeerLost | ErrorKind::Closed => error.with_remedy("form another group of those who are left"),
        _ => error,
    }
}
