//! What nodes and the broker say to one another over their sockets: small frames of words, one per datagram.
//!
//! Frames come from other processes: [`Frame::decode`] refuses what is none. File descriptors travel beside the frame
//! and are not part of it.

use deck_segment::Seat;
use deck_sync::{Error, ErrorKind, NodeId};

use crate::process::namespace;
use crate::table::NODES_MAX;

/// First word of every frame: magic number and version of this protocol.
const PREFIX: u64 = u64::from_le_bytes(*b"DECKwire") ^ VERSION;
/// Changes with every change of a frame.
const VERSION: u64 = 9;
/// The most words a frame has, prefix and code included.
const WORDS_MAX: usize = 16;

macro_rules! frames {
    ($($(#[$doc:meta])* $name:ident = $code:literal { $($field:ident),* };)*) => {
        /// One frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Frame { $($(#[$doc])* $name { $($field: u64),* },)* }

        impl Frame {
            /// The bytes of the frame.
            pub fn encode(&self) -> Vec<u8> {
                let words: Vec<u64> = match *self { $(Frame::$name { $($field),* } => vec![PREFIX, $code, $($field),*],)* };
                words.into_iter().flat_map(u64::to_le_bytes).collect()
            }

            fn from_words(code: u64, fields: &[u64]) -> Option<Frame> {
                match code {
                    $($code => match fields { [$($field),*] => Some(Frame::$name { $($field: *$field),* }), _ => None },)*
                    _ => None,
                }
            }
        }
    };
}

frames! {
    /// Node to broker: wants to join. `process` is, here and below, as it stands in the job's table. `retries` counts
    /// brokers that died before they answered.
    Join = 1 { process, network, fences, retries };
    /// Broker to node, with the job's table: joined.
    Welcome = 2 { number, seat, broker };
    /// Broker to node: not joined, and why (a [`Refusal`]).
    Refuse = 3 { reason };
    /// Node to broker after the broker changed: still here. `attempt` counts how often it has said so: earlier ones may
    /// still lie in the queue of the listening socket and come to be read later. `table` tells the job, as another one
    /// may have its name.
    Rejoin = 4 { number, seat, process, attempt, table };
    /// Node to broker: wants to talk to another node.
    Connect = 5 { to };
    /// Broker to both, each with its end of a socket.
    Introduce = 6 { peer, seat };
    /// Broker to a node that wants to talk to another: not now, for want of descriptors, or not any more, as that one
    /// is gone.
    NotIntroduced = 14 { peer };
    /// Broker to all: a node is gone. The job's table tells how.
    Gone = 7 { number };
    /// Node to broker: everything the gone node had posted here has been taken over.
    Adopted = 8 { number };
    /// Broker to all: every node has taken over; forget what the gone node held.
    Reclaim = 9 { number, seat };
    /// Node to broker: forgotten.
    Reclaimed = 10 { number };
    /// Node to broker: leaves in order. Others may have come through the same connection: `process` tells who leaves.
    Leave = 11 { process };
    /// Broker to node, with the socket that the job listens on: whoever becomes the broker goes on with it, so that the
    /// job's name is never free while a node lives.
    Listener = 12 {};
    /// Broker to node, after [`Frame::Rejoin`]: known again, and which node the broker lives in.
    Rejoined = 13 { broker };
    /// Node to node, with the sender's heap: first frame in both directions.
    Hello = 20 { number, seat, process };
    /// Clone a mail box: asks its owner for a ring.
    RingRequest = 21 { request, mailbox, generation, credit };
    /// The ring.
    RingGrant = 22 { request, ring, messages, bytes, area_lines, place, bell, event };
    /// No ring, and why (a [`Refusal`]).
    RingRefuse = 23 { request, reason };
    /// Owner to poster: the mail box is closed; post no more.
    RingClose = 24 { ring };
    /// Poster to owner: threads wait for room, and credits may not have been told yet.
    RoomWanted = 30 { ring };
    /// Poster to owner: nothing behind `tail` was ever posted.
    RingEnded = 25 { ring, tail };
    /// With a third node's heap, whose buffers will be handed over.
    Heap = 26 { number, seat };
    /// To a node that has passed a heap, its own or a third node's, which there was no room for: pass it again.
    HeapWanted = 46 { number };
    /// To a node that was passed this heap, whose owner is gone: whatever was posted there and lies in it has been
    /// retrieved.
    HeapRelease = 47 { number };
    /// To the home of a new segment: make it, and pass it.
    SegmentMake = 40 { request, entry, generation, bytes };
    /// To a node that has a segment: pass it.
    SegmentOpen = 41 { request, entry, generation };
    /// The segment that was asked for.
    SegmentGrant = 42 { request };
    /// No segment, and why (a [`Refusal`]).
    SegmentRefuse = 43 { request, reason };
    /// Nobody has this segment open any more, which you made for others.
    SegmentRelease = 44 { entry, generation };
    /// The segment that was to be made.
    SegmentMade = 45 { request, entry, generation };
    /// Are you running?
    Ping = 27 { count };
    /// Yes.
    Pong = 28 { count };
    /// Leaves in order: the end of this connection is no loss.
    Bye = 29 {};
}

impl Frame {
    /// Whoever asks can be told that nobody listens. All others tell what the other side must come to know.
    pub fn is_question(&self) -> bool {
        matches!(self, Frame::RingRequest { .. } | Frame::SegmentMake { .. } | Frame::SegmentOpen { .. })
    }

    /// To say it twice is to say it once. Heaps are asked for again and again while they wait to be passed, and each
    /// takes a descriptor; a release takes back what was to be passed after one that still waits.
    pub fn is_said_once(&self) -> bool {
        matches!(
            self,
            Frame::RoomWanted { .. }
                | Frame::HeapWanted { .. }
                | Frame::HeapRelease { .. }
                | Frame::Hello { .. }
                | Frame::Heap { .. }
        )
    }
}

/// From this bit on the word of a refusal has a node.
const BECAUSE_OF: u32 = 32;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// No such mail box (any more).
    Closed = 1,
    /// Not enough memory.
    NoMemory = 2,
    /// The job is full.
    Full = 3,
    /// Another network namespace.
    Network = 4,
    /// Another user.
    User = 5,
    /// This place in the job is taken by another process.
    Taken = 6,
    /// The request made no sense.
    Nonsense = 7,
    /// The node that listens has no descriptors left.
    Descriptors = 9,
    /// Not yet: what is wanted is on its way there.
    Contended = 10,
    /// The job has given all numbers of nodes that there are.
    Numbers = 11,
    /// There is no room to map the memory of the node that asks.
    NoRoom = 12,
}

impl Refusal {
    /// As it travels: with the node that keeps the asked from agreeing, if there is one.
    pub fn to_word(self, because_of: Option<NodeId>) -> u64 {
        self as u64 | because_of.map_or(0, |node| u64::from(node.0) + 1) << BECAUSE_OF
    }

    /// The node in such a word.
    pub fn because_of(word: u64) -> Option<NodeId> {
        u32::try_from(word >> BECAUSE_OF).ok().and_then(|node| node.checked_sub(1)).map(NodeId)
    }

    /// The reason in such a word; unknown ones read as nonsense.
    pub fn from_word(word: u64) -> Refusal {
        let number = word & ((1 << BECAUSE_OF) - 1);
        [
            Refusal::Closed,
            Refusal::NoMemory,
            Refusal::Full,
            Refusal::Network,
            Refusal::User,
            Refusal::Taken,
            Refusal::Descriptors,
            Refusal::Contended,
            Refusal::Numbers,
            Refusal::NoRoom,
        ]
        .into_iter()
        .find(|reason| *reason as u64 == number)
        .unwrap_or(Refusal::Nonsense)
    }

    /// Why the broker refused, as an error for the one who wanted to join; `because_of` this node.
    #[cold]
    pub fn of_a_join(self, because_of: Option<NodeId>) -> Error {
        if let (Refusal::Full, Some(node)) = (self, because_of) {
            let places = Seat::COUNT;
            let what = format!(
                "joining: all {places} places of the job are taken, and {node} keeps those of nodes that are gone"
            );
            let error = Error::new(ErrorKind::NoMemory, what).with_peer(node);
            return error.with_remedy(
                "try again; if it stays so, that node is stopped, or has left with messages of others that its process \
                 still holds: let it continue, or end it",
            );
        }
        match self {
            Refusal::Full => {
                Error::new(ErrorKind::NoMemory, format!("joining: the job has {} nodes already", Seat::COUNT))
                    .with_remedy("start fewer nodes, or wait until others have left")
            }
            Refusal::Numbers => Error::new(
                ErrorKind::NoMemory,
                format!("joining: the job has had {NODES_MAX} nodes, and numbers are not used again"),
            )
            .with_remedy("begin another job"),
            Refusal::NoMemory => Error::new(ErrorKind::NoMemory, "joining: there is no memory for the job's table")
                .with_remedy("free memory on this machine"),
            Refusal::Network if namespace::network() == 0 => {
                let what = "joining: in which network namespace this process runs cannot be told without /proc";
                Error::new(ErrorKind::Access, what).with_remedy("mount it (mount -t proc proc /proc)")
            }
            Refusal::Network => Error::new(ErrorKind::Access, "joining: the job runs in another network namespace")
                .with_remedy("start all nodes of a job in the same container or network namespace"),
            Refusal::User => Error::new(ErrorKind::Access, "joining: the job belongs to another user"),
            Refusal::Taken => {
                Error::new(ErrorKind::Invalid, "joining: this place in the job is taken by another process")
                    .with_remedy("start one node for each place: deck run -n N")
            }
            Refusal::Descriptors => {
                Error::new(ErrorKind::NoMemory, "joining: the node that listens for the job has no descriptors left")
                    .with_remedy("raise its limit (ulimit -n), or let it close files")
            }
            other => Error::new(ErrorKind::Corrupt, format!("joining: the broker refused ({other:?})")),
        }
    }

    /// Why the owner of a mail box refused a ring, as an error for the one who asked for it.
    #[cold]
    pub fn of_a_ring(self) -> Error {
        match self {
            Refusal::Closed => Error::new(ErrorKind::Closed, "the mail box was closed"),
            Refusal::Full => Error::new(ErrorKind::NoMemory, "the mail box has as many rings as it can have"),
            Refusal::NoMemory => Error::new(ErrorKind::NoMemory, "the owner of the mail box has no memory for a ring"),
            Refusal::NoRoom => {
                let what = "the owner of the mail box has no address space, or no descriptor, for this node's memory";
                Error::new(ErrorKind::NoMemory, what)
                    .with_remedy("raise its limits (ulimit -v, ulimit -n), or set DECK_HEAP to less in all nodes")
            }
            other => Error::new(ErrorKind::Corrupt, format!("the owner of the mail box refused a ring ({other:?})")),
        }
    }
}

impl Frame {
    /// The largest frame in bytes.
    pub const BYTES_MAX: usize = WORDS_MAX * 8;

    /// Reads a frame; `None` for bytes that are none of this version.
    pub fn decode(bytes: &[u8]) -> Option<Frame> {
        if !bytes.len().is_multiple_of(8) || bytes.len() > Frame::BYTES_MAX {
            return None;
        }
        let mut words = [0u64; WORDS_MAX];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().ok()?);
        }
        match &words[..bytes.len() / 8] {
            [PREFIX, code, fields @ ..] => Frame::from_words(*code, fields),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_was_encoded_is_decoded() {
        let frame =
            Frame::RingGrant { request: 1, ring: 2, messages: 3, bytes: 4, area_lines: 5, place: 6, bell: 7, event: 8 };
        assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        assert_eq!(Frame::decode(&Frame::Bye {}.encode()), Some(Frame::Bye {}));
    }

    #[test]
    fn short_long_and_foreign_frames_are_refused() {
        let mut bytes = Frame::Ping { count: 1 }.encode();
        assert_eq!(Frame::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Frame::decode(&bytes[..16]), None);
        bytes.extend([0; 8]);
        assert_eq!(Frame::decode(&bytes), None);
        assert_eq!(Frame::decode(b"GET / HTTP/1.1\r\n"), None);
        let mut other = Frame::Ping { count: 1 }.encode();
        other[0] ^= 1;
        assert_eq!(Frame::decode(&other), None, "it begins as no frame does");
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&bytes);
        }

        #[test]
        fn any_words_behind_the_prefix_are_decoded_or_refused(words in prop::collection::vec(0u64..50, 0..14)) {
            let bytes: Vec<u8> = std::iter::once(PREFIX).chain(words).flat_map(u64::to_le_bytes).collect();
            if let Some(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
