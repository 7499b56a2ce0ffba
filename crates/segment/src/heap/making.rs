//! Making a heap: the owner's new one, and another node's, which this one maps.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use deck_sync::atomic::{AtomicBool, AtomicU32, Ordering};
use deck_sync::{Error, ErrorKind, Limit, NodeId, Result};

use super::table::Table;
use super::{HeapMemory, Own};
use crate::blocks::Blocks;
use crate::held::Held;
use crate::huge::{HUGE, HugePages};
use crate::layout::{self, DATA, LINE_WORDS, header};
use crate::rest::Rest;
use crate::{Fetching, Numa, NumaChoice, Seat, Segment, Words, limits};

/// A heap that is smaller, tables included, has no huge pages.
const HUGE_FROM: usize = DATA + 32 * HUGE;
/// There is no smaller heap, tables not included.
const LEAST: usize = 1 << 20;

/// What a node's heap is like.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// Address space in bytes, tables included.
    pub bytes: usize,
    /// Who fetches its buffers.
    pub fetching: Fetching,
    /// How long buffers rest before they are used again.
    pub rest: Rest,
    /// Whether it consists of huge pages.
    pub huge_pages: HugePages,
    /// The NUMA nodes among which it is divided.
    pub numa: Arc<Numa>,
}

impl HeapOptions {
    /// A heap of `bytes` bytes of address space, in all else as this machine has it best.
    pub fn of(bytes: usize) -> HeapOptions {
        let numa = Numa::of_this_machine(NumaChoice::default());
        let fetching = Fetching::of_this_machine();
        HeapOptions { bytes, fetching, rest: Rest::with(fetching), huge_pages: HugePages::default(), numa }
    }
}

/// Of the address space that a process may have, the part that a heap takes by default: those of its peers are mapped
/// there, too.
const SHARE_OF_ADDRESS_SPACE: u64 = 8;

/// The default virtual size of a node's segment: all of the machine's memory and room for the tables; less where the
/// process has limits (`ulimit -v`, `ulimit -f`).
pub fn default_bytes() -> usize {
    let memory = limits::machine_total().next_multiple_of(1 << 30);
    let addresses = Limit::AddressSpace.now().map(|most| most / SHARE_OF_ADDRESS_SPACE);
    let file = Limit::FileSize.now().map(|most| most.saturating_sub(DATA as u64));
    let least = [addresses, file].into_iter().flatten().fold(memory, u64::min);
    let heap = usize::try_from(least).unwrap_or(usize::MAX / 4);
    DATA + (heap / LEAST * LEAST).max(LEAST)
}

fn zeroed_counts() -> Result<Table<AtomicU32>> {
    #[cfg(not(loom))]
    // SAFETY: all zero bytes are a valid AtomicU32.
    return unsafe { Table::zeroed() };
    #[cfg(loom)]
    Ok(Table::empty())
}

impl HeapMemory {
    /// Creates this node's segment: a few pages of its address space allocated.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] with the remedy. Never blocks.
    pub fn create(owner: NodeId, seat: Seat, options: &HeapOptions) -> Result<Arc<HeapMemory>> {
        let bytes = options.bytes;
        if bytes < DATA + LEAST {
            // The tables come on top of what the user asks for.
            let heap = limits::size(bytes.saturating_sub(DATA) as u64);
            return Err(Error::new(ErrorKind::Invalid, format!("a heap of {heap} is too small"))
                .with_remedy("set DECK_HEAP to at least 1M"));
        }
        let segment = Segment::create(layout::LABEL, bytes)?;
        // What is left over in huge pages is more than a small heap can spare.
        let huge_pages = if bytes < HUGE_FROM { HugePages::Never } else { options.huge_pages };
        segment.use_huge_pages(huge_pages, DATA);
        segment.allocate(0, layout::HOLDERS)?;
        let words = Words::in_segment(&segment, 0, LINE_WORDS).expect("the header lies inside");
        let pid = rustix::process::getpid().as_raw_nonzero().get() as u64;
        let fields = [
            (header::VERSION, layout::VERSION),
            (header::BYTES, segment.bytes() as u64),
            (header::NODE, u64::from(owner.0)),
            (header::SEAT, u64::from(seat.0)),
            (header::PID, pid),
            (header::MAGIC, layout::MAGIC),
        ];
        for (word, value) in fields {
            // Release: pairs with: heap/header. The magic number comes last.
            words.get(word).store(value, Ordering::Release);
        }
        // SAFETY: all zero bytes are a valid pair of AtomicU64.
        let places = unsafe { Table::zeroed() }?;
        let rest = options.rest.within(bytes - DATA);
        let blocks = Mutex::new(Blocks::new(segment.clone(), rest, options.numa.clone()));
        let own = Own { blocks, has_come: Condvar::new(), places, numa: options.numa.clone() };
        HeapMemory::assemble(segment, owner, seat, options.fetching, None, Some((own, rest)))
    }

    /// Maps the segment of another node, seen from the node on seat `my_seat`, which reads it as `fetching` says.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] for a wrong magic number, layout version, size, node or seat.
    pub fn adopt(fd: OwnedFd, owner: NodeId, seat: Seat, my_seat: Seat, fetching: Fetching) -> Result<Arc<HeapMemory>> {
        let segment = Segment::adopt(fd).map_err(|error| error.with_peer(owner))?;
        let words = Words::in_segment(&segment, 0, LINE_WORDS).expect("a segment has at least a page");
        // Acquire: pairs with: heap/header. The magic number is read first.
        let read = |word: usize| words.get(word).load(Ordering::Acquire);
        let corrupt = |what: String| Err(Error::new(ErrorKind::Corrupt, what).with_peer(owner));
        if read(header::MAGIC) != layout::MAGIC {
            return corrupt(format!(
                "its segment begins with {:#x}, not with DECK's magic number",
                read(header::MAGIC)
            ));
        }
        if read(header::VERSION) != layout::VERSION {
            let (theirs, ours) = (read(header::VERSION), layout::VERSION);
            return corrupt(format!("its segment has layout version {theirs}, this one has {ours}"));
        }
        let expected = (segment.bytes() as u64, u64::from(owner.0), u64::from(seat.0));
        let told = (read(header::BYTES), read(header::NODE), read(header::SEAT));
        if told != expected || segment.bytes() <= DATA {
            return corrupt(format!("its segment says size, node and seat {told:?}, not {expected:?}"));
        }
        HeapMemory::assemble(segment, owner, seat, fetching, Some(my_seat), None)
    }

    fn assemble(
        segment: Arc<Segment>,
        owner: NodeId,
        seat: Seat,
        fetching: Fetching,
        my_seat: Option<Seat>,
        own: Option<(Own, Rest)>,
    ) -> Result<Arc<HeapMemory>> {
        let (own, rest) = own.map_or((None, Rest::new(0)), |(own, rest)| (Some(own), rest));
        #[cfg(not(loom))]
        let lines =
            Words::in_segment(&segment, layout::HOLDERS, layout::BUFFERS * LINE_WORDS).expect("checked by size");
        #[cfg(loom)]
        let lines = Words::model(0);
        Ok(Arc::new(HeapMemory {
            segment,
            lines,
            owner,
            seat,
            my_seat,
            counts: zeroed_counts()?,
            held: Held::default(),
            is_closed: AtomicBool::new(false),
            reserve: OnceLock::new(),
            fetching,
            rest,
            own,
        }))
    }

    /// A heap without buffers, for models that post only what fits into a slot.
    ///
    /// # Errors
    /// As [`Segment::create`].
    #[cfg(loom)]
    pub fn model(owner: NodeId, seat: Seat) -> Result<Arc<HeapMemory>> {
        HeapMemory::assemble(Segment::create("deck-model", layout::PAGE)?, owner, seat, Fetching::default(), None, None)
    }
}
