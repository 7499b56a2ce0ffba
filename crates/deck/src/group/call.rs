//! What a collective call asks for, independent of buffers: checked against the buffers here, and against the calls of
//! the other members after the first phase.

use deck_mudeck::{ElementType, Error, ErrorKind, Result};
use deck_segment::content::Way;

use super::board::INLINE;
use super::choose::may_be_ahead;
use super::protocols::course::Course;
use super::reductions::operation::Operation;
use super::room;

/// Bytes that a process can address on any processor. Who asks for more has a count wrong, and no lack of memory.
const ADDRESSABLE: usize = 1 << 57;

/// The collective calls.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Everybody waits for everybody.
    Barrier = 1,
    /// The root's data to everybody.
    Bcast = 2,
    /// The reduction of all inputs to the root.
    Reduce = 3,
    /// The reduction of all inputs to everybody.
    Allreduce = 4,
    /// To member i the reduction of the inputs 0 to i.
    Scan = 5,
    /// All inputs to the root, one behind the other.
    Gather = 6,
    /// Part i of the root's input to member i.
    Scatter = 7,
    /// All inputs to everybody, one behind the other.
    Allgather = 8,
    /// Part i of each input to member i.
    Alltoall = 9,
    /// [`Kind::Gather`] with a count per member.
    Gatherv = 10,
    /// [`Kind::Scatter`] with a count per member.
    Scatterv = 11,
    /// [`Kind::Allgather`] with a count per member.
    Allgatherv = 12,
    /// [`Kind::Alltoall`] with counts per pair of members.
    Alltoallv = 13,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 13] = [
        Kind::Barrier,
        Kind::Bcast,
        Kind::Reduce,
        Kind::Allreduce,
        Kind::Scan,
        Kind::Gather,
        Kind::Scatter,
        Kind::Allgather,
        Kind::Alltoall,
        Kind::Gatherv,
        Kind::Scatterv,
        Kind::Allgatherv,
        Kind::Alltoallv,
    ];

    /// The kind with this number, if there is one.
    pub fn from_word(word: u64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| *kind as u64 == word)
    }

    /// Its name in lower case, as in messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Barrier => "barrier",
            Kind::Bcast => "bcast",
            Kind::Reduce => "reduce",
            Kind::Allreduce => "allreduce",
            Kind::Scan => "scan",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
            Kind::Allgather => "allgather",
            Kind::Alltoall => "alltoall",
            Kind::Gatherv => "gatherv",
            Kind::Scatterv => "scatterv",
            Kind::Allgatherv => "allgatherv",
            Kind::Alltoallv => "alltoallv",
        }
    }

    /// True if members may have different counts.
    pub(super) fn has_counts(self) -> bool {
        matches!(self, Kind::Gatherv | Kind::Scatterv | Kind::Allgatherv | Kind::Alltoallv)
    }

    /// True if what members give is folded: one buffer may be input and output.
    pub fn is_reduction(self) -> bool {
        matches!(self, Kind::Reduce | Kind::Allreduce | Kind::Scan)
    }

    /// Whether a member, the root or another one, needs a count per member: of what it sends, and of what it receives.
    pub fn needs_counts(self, is_root: bool) -> (bool, bool) {
        match self {
            Kind::Gatherv => (false, is_root),
            Kind::Scatterv => (is_root, false),
            Kind::Allgatherv => (false, true),
            Kind::Alltoallv => (true, true),
            _ => (false, false),
        }
    }

    /// True if one member gives a part to each: its contribution has a block per receiver.
    pub(super) fn gives_parts(self) -> bool {
        matches!(self, Kind::Scatter | Kind::Alltoall | Kind::Scatterv | Kind::Alltoallv)
    }

    /// How many blocks one of `members` gives, if it gives any.
    pub(super) fn blocks(self, members: usize) -> usize {
        if self.gives_parts() { members } else { 1 }
    }

    /// True if one member is the root.
    pub(super) fn has_root(self) -> bool {
        matches!(self, Kind::Bcast | Kind::Reduce | Kind::Gather | Kind::Scatter | Kind::Gatherv | Kind::Scatterv)
    }
}

/// A collective call of one member: what is asked for, without the buffers.
///
/// Inputs and outputs are bytes of whole elements in native order. Which member gives and gets how much:
///
/// | kind | input | output |
/// |---|---|---|
/// | barrier | - | - |
/// | bcast | - | `count` elements, at the root read, elsewhere written |
/// | reduce, gather | `count` | root: `count`; gather `count` x size |
/// | allreduce, scan | `count` | `count` |
/// | scatter | root: `count` x size | `count` |
/// | allgather | `count` | `count` x size |
/// | alltoall | `count` x size | `count` x size |
/// | gatherv, allgatherv | `count` | the sum of `recv_counts` (gatherv: root) |
/// | scatterv | root: the sum of `send_counts` | `count` |
/// | alltoallv | the sum of `send_counts` | the sum of `recv_counts` |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is called.
    pub kind: Kind,
    /// The root, for those that have one; else 0.
    pub root: u32,
    /// Type of the elements.
    pub element: ElementType,
    /// What reductions do; without meaning elsewhere.
    pub operation: Operation,
    /// Elements, as in the table above.
    pub count: usize,
    /// Elements for each member, in the order of indexes. Only for the kinds named in the table.
    pub send_counts: Vec<usize>,
    /// Elements from each member.
    pub recv_counts: Vec<usize>,
}

impl Call {
    /// A call without elements.
    pub fn barrier() -> Call {
        Call::new(Kind::Barrier, ElementType::Byte, 0)
    }

    /// A broadcast of `count` elements.
    pub fn bcast(root: u32, element: ElementType, count: usize) -> Call {
        Call::new(Kind::Bcast, element, count).rooted(root)
    }

    /// A reduction of `count` elements to the root.
    pub fn reduce(root: u32, element: ElementType, count: usize, operation: Operation) -> Call {
        Call::new(Kind::Reduce, element, count).rooted(root).reducing(operation)
    }

    /// A reduction of `count` elements to everybody.
    pub fn allreduce(element: ElementType, count: usize, operation: Operation) -> Call {
        Call::new(Kind::Allreduce, element, count).reducing(operation)
    }

    /// A scan of `count` elements.
    pub fn scan(element: ElementType, count: usize, operation: Operation) -> Call {
        Call::new(Kind::Scan, element, count).reducing(operation)
    }

    /// `count` elements of each member to the root.
    pub fn gather(root: u32, element: ElementType, count: usize) -> Call {
        Call::new(Kind::Gather, element, count).rooted(root)
    }

    /// `count` elements of the root for each member.
    pub fn scatter(root: u32, element: ElementType, count: usize) -> Call {
        Call::new(Kind::Scatter, element, count).rooted(root)
    }

    /// `count` elements of each member to everybody.
    pub fn allgather(element: ElementType, count: usize) -> Call {
        Call::new(Kind::Allgather, element, count)
    }

    /// `count` elements of each member for each other.
    pub fn alltoall(element: ElementType, count: usize) -> Call {
        Call::new(Kind::Alltoall, element, count)
    }

    /// `count` elements of this member to the root, which gets `recv_counts`.
    pub fn gatherv(root: u32, element: ElementType, count: usize, recv_counts: &[usize]) -> Call {
        Call { recv_counts: recv_counts.to_vec(), ..Call::new(Kind::Gatherv, element, count).rooted(root) }
    }

    /// `count` elements for this member of the root, which gives `send_counts`.
    pub fn scatterv(root: u32, element: ElementType, count: usize, send_counts: &[usize]) -> Call {
        Call { send_counts: send_counts.to_vec(), ..Call::new(Kind::Scatterv, element, count).rooted(root) }
    }

    /// `count` elements of this member to everybody, who gets `recv_counts`.
    pub fn allgatherv(element: ElementType, count: usize, recv_counts: &[usize]) -> Call {
        Call { recv_counts: recv_counts.to_vec(), ..Call::new(Kind::Allgatherv, element, count) }
    }

    /// Elements of each member for each other.
    pub fn alltoallv(element: ElementType, send_counts: &[usize], recv_counts: &[usize]) -> Call {
        let (send_counts, recv_counts) = (send_counts.to_vec(), recv_counts.to_vec());
        Call { send_counts, recv_counts, ..Call::new(Kind::Alltoallv, element, 0) }
    }

    /// A call of `kind` with `count` elements; the other fields are to be set where they have a meaning.
    pub fn new(kind: Kind, element: ElementType, count: usize) -> Call {
        Call {
            kind,
            root: 0,
            element,
            operation: Operation::Sum,
            count,
            send_counts: Vec::new(),
            recv_counts: Vec::new(),
        }
    }

    /// The same call with a root.
    pub fn rooted(self, root: u32) -> Call {
        Call { root, ..self }
    }

    /// The same call with an operation.
    pub fn reducing(self, operation: Operation) -> Call {
        Call { operation, ..self }
    }

    /// Bytes of a block, where all have the same. A barrier has none, whatever its count says.
    #[inline]
    pub(super) fn block(&self) -> usize {
        if self.kind == Kind::Barrier { 0 } else { self.count * self.element.size() }
    }

    /// All that each of `members` gives stands in its line on the board.
    pub(super) fn fits_lines(&self, members: usize) -> bool {
        let bytes = self.count.checked_mul(self.element.size() * self.kind.blocks(members));
        !self.kind.has_counts() && bytes.is_some_and(|bytes| bytes <= INLINE)
    }

    /// What is the same in every member, packed: for comparing.
    pub(super) fn word(&self) -> u64 {
        let operation = if self.kind.is_reduction() { self.operation as u64 } else { 0 };
        self.kind as u64 | (self.element as u64) << 8 | operation << 16 | u64::from(self.root) << 32
    }

    /// Who takes from whom.
    pub(super) fn course(kind: Kind, root: u32) -> Course {
        match kind {
            Kind::Bcast | Kind::Scatter | Kind::Scatterv => Course::From(root),
            Kind::Gather | Kind::Gatherv | Kind::Reduce => Course::To(root),
            Kind::Scan => Course::Upwards,
            _ => Course::Between,
        }
    }

    /// The way in which one of `members` takes what others give in the way `way`, in blocks of `bytes`: it fetches what
    /// nobody else reads, unless so much lies in memory that goes through the caches by itself. So do windows of pieces
    /// that flow: they are not asked about.
    pub(super) fn taking(&self, way: Way, members: u32, bytes: usize) -> Way {
        let is_short = bytes * self.kind.blocks(members as usize) < room::LONG;
        let is_to_one =
            self.kind.gives_parts() || members == 2 || matches!(Call::course(self.kind, self.root), Course::To(_));
        if way == Way::ThroughCaches && is_to_one && is_short { Way::Fetched } else { way }
    }

    /// For whom a member waits in the call that it said, where members may be ahead of others.
    pub(super) fn course_said(word: u64, length: u64, members: u32) -> Course {
        let (kind, element) = (Kind::from_word(word & 0xff), ElementType::from_code((word >> 8) as u8));
        let bytes = element.and_then(|element| usize::try_from(length).ok()?.checked_mul(element.size()));
        let root = (word >> 32) as u32;
        match kind.zip(bytes) {
            Some((kind, bytes)) if root < members && may_be_ahead(kind, bytes, members as usize) => {
                Call::course(kind, root)
            }
            _ => Course::Between,
        }
    }

    /// The call that another member said, in words.
    pub(super) fn describe(word: u64, length: u64) -> String {
        let Some(kind) = Kind::from_word(word & 0xff) else {
            return "something else".into();
        };
        if kind == Kind::Barrier {
            return "barrier".into();
        }
        let element = ElementType::from_code((word >> 8) as u8).map_or("?".into(), |element| format!("{element:?}"));
        let operation = Operation::from_code((word >> 16) as u8).filter(|_| kind.is_reduction());
        let operation = operation.map_or(String::new(), |operation| format!(" {operation:?}"));
        let count = if kind.has_counts() { String::new() } else { format!(" {length}") };
        let root = if kind.has_root() { format!(", root {}", word >> 32) } else { String::new() };
        format!("{} of{count} {element}{operation}{root}", kind.name())
    }

    /// The bytes that member `me` of `size` gives and gets.
    ///
    /// # Errors
    /// `Invalid` for a root or counts that cannot be, `TooLarge` if no memory could hold so much.
    pub fn bytes(&self, me: u32, size: u32) -> Result<(usize, usize)> {
        let kind = self.kind;
        let invalid = |what: String| Error::new(ErrorKind::Invalid, format!("{}: {what}", kind.name()));
        if self.root >= size {
            let error = invalid(format!("root {} of a group of {size}", self.root));
            return Err(match size.checked_sub(1) {
                Some(last) => error.with_remedy(format!("roots are 0 to {last}")),
                None => error.with_remedy("a group has a member at least"),
            });
        }
        if kind.is_reduction() {
            self.operation.check(self.element)?;
        }
        let is_root = me == self.root;
        let (sends, receives) = kind.needs_counts(is_root);
        for (is_wanted, counts, name) in [(sends, &self.send_counts, "send"), (receives, &self.recv_counts, "receive")]
        {
            if is_wanted && counts.len() != size as usize {
                return Err(invalid(format!("{} {name} counts in a group of {size}", counts.len()))
                    .with_remedy("give a count for each member"));
            }
        }
        let too_large = || {
            Error::new(ErrorKind::TooLarge, format!("{}: more bytes than memory can hold", kind.name()))
                .with_remedy("correct the counts: they count elements")
        };
        let of = |count: usize| {
            count.checked_mul(self.element.size()).filter(|bytes| *bytes <= ADDRESSABLE).ok_or_else(too_large)
        };
        let sum = |counts: &[usize]| {
            counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count)).ok_or_else(too_large).and_then(of)
        };
        let one = of(self.count)?;
        let all = self.count.checked_mul(size as usize).ok_or_else(too_large).and_then(of);
        Ok(match kind {
            Kind::Barrier => (0, 0),
            Kind::Bcast => (0, one),
            Kind::Reduce => (one, if is_root { one } else { 0 }),
            Kind::Allreduce | Kind::Scan => (one, one),
            Kind::Gather => (one, if is_root { all? } else { 0 }),
            Kind::Scatter => (if is_root { all? } else { 0 }, one),
            Kind::Allgather => (one, all?),
            Kind::Alltoall => (all.clone()?, all?),
            Kind::Gatherv => (one, if is_root { sum(&self.recv_counts)? } else { 0 }),
            Kind::Scatterv => (if is_root { sum(&self.send_counts)? } else { 0 }, one),
            Kind::Allgatherv => (one, sum(&self.recv_counts)?),
            Kind::Alltoallv => (sum(&self.send_counts)?, sum(&self.recv_counts)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_no_memory_could_hold_are_to_be_corrected() {
        for count in [1 << 55, 1 << 58, usize::MAX] {
            for call in [
                Call::scatterv(0, ElementType::Double, count, &[1 << 54]),
                Call::scatterv(0, ElementType::Double, 1, &[count]),
                Call::new(Kind::Bcast, ElementType::Double, count),
            ] {
                let error = call.bytes(0, 1).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
                assert!(error.remedy().starts_with("correct the counts"), "{error}");
            }
        }
        let most = Call::new(Kind::Bcast, ElementType::Double, 1 << 54);
        assert_eq!(most.bytes(0, 1).unwrap(), (0, 1 << 57));
    }

    #[test]
    fn a_group_of_nobody_has_no_root() {
        for kind in Kind::ALL {
            assert_eq!(Call::new(kind, ElementType::Byte, 0).bytes(0, 0).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_member_fetches_what_is_short_and_nobody_else_reads() {
        for (kind, members, bytes, is_fetched) in [
            (Kind::Bcast, 2, 4096, true),
            (Kind::Bcast, 3, 4096, false),
            (Kind::Allreduce, 2, 4096, true),
            (Kind::Allreduce, 8, 4096, false),
            (Kind::Scan, 3, 100, false),
            (Kind::Gather, 8, 4096, true),
            (Kind::Reduce, 8, 4096, true),
            (Kind::Scatter, 8, 4096, true),
            (Kind::Alltoall, 8, 8 << 10, false),
            (Kind::Bcast, 2, 64 << 10, false),
        ] {
            let call = Call::new(kind, ElementType::Byte, bytes);
            let way = call.taking(Way::ThroughCaches, members, bytes);
            assert_eq!(way == Way::Fetched, is_fetched, "{kind:?} of {members}, {bytes} bytes");
            assert_eq!(call.taking(Way::PastCaches, members, bytes), Way::PastCaches);
        }
    }
}
