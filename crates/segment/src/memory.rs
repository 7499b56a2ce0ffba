//! Anonymous shared memory: a memfd of fixed virtual size, allocated inside as it grows.
//!
//! It carries no name, so nothing can be left behind: the memory is gone with the last process that maps it. Its size
//! is sealed, so no access inside it can end in SIGBUS because somebody shrank it; parts are really allocated before
//! use ([`Segment::allocate`]), so none can because memory ran out.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deck_sync::descriptor::beyond_standard;
use deck_sync::{Deadline, Error, ErrorKind, Result, now_ns, uncancelled};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::huge::{HUGE, HugePages, PACE, Way};
use crate::layout::PAGE;
use crate::limits;

/// What is allocated at a time: a multiple of [`HUGE`]. The kernel looks for nothing in between, not even for the
/// signal that ends the process.
const AT_A_TIME: usize = 16 << 20;
/// Not among the constants that `libc` has for every C library.
const MADV_COLLAPSE: libc::c_int = 25;
/// A dump leaves out what was given back, but for pieces smaller than this part of the segment: each costs two of the
/// 65,530 mappings that the kernel gives a process.
const HOLES_MAX: usize = 8192;
/// The unit in which a file's memory is counted.
const BLOCK: usize = 512;
/// Huge pages are made for so long in one allocation; the rest gets small pages then.
const HUGE_FOR: Duration = Duration::from_secs(1);

/// A mapped memfd, one's own or another node's.
#[derive(Debug)]
pub struct Segment {
    /// There until this is dropped.
    fd: ManuallyDrop<OwnedFd>,
    /// The device and number of the memory that `fd` was of.
    identity: Option<(u64, u64)>,
    base: NonNull<u8>,
    bytes: usize,
    huge: OnceLock<Way>,
}

// SAFETY: the mapping is plain memory, valid until drop; all access goes through atomics or raw pointers.
unsafe impl Send for Segment {}
// SAFETY: as above; `&Segment` gives no reference into the memory by itself.
unsafe impl Sync for Segment {}

impl Segment {
    /// Creates a segment of `bytes` virtual size (rounded up to pages), none of it allocated.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] where the process may not have that much address space, [`ErrorKind::System`] otherwise.
    pub fn create(label: &str, bytes: usize) -> Result<Arc<Segment>> {
        let whole = bytes.checked_next_multiple_of(crate::layout::PAGE).filter(|bytes| isize::try_from(*bytes).is_ok());
        let bytes = whole.ok_or_else(|| {
            let what = format!("a segment of {bytes} bytes, which no address space can hold");
            Error::new(ErrorKind::NoMemory, what).with_remedy("make it smaller")
        })?;
        limits::check_file_size(bytes)?;
        let fd = rustix::fs::memfd_create(label, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .and_then(beyond_standard)
            .map_err(|errno| Error::system(format!("creating the shared memory {label}"), errno.raw_os_error()))?;
        rustix::fs::ftruncate(&fd, bytes as u64)
            .and_then(|()| rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL))
            .map_err(|errno| Error::system(format!("sizing the shared memory {label}"), errno.raw_os_error()))?;
        Ok(Arc::new(Segment::map(fd, bytes)?))
    }

    /// Maps a segment that another node created, after a look at its seals and size.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it could shrink under us or has an impossible size.
    pub fn adopt(fd: OwnedFd) -> Result<Arc<Segment>> {
        let sealed = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|_| Error::new(ErrorKind::Corrupt, "a peer passed something that is no memfd as its segment"))?;
        if !sealed.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(Error::new(ErrorKind::Corrupt, "a peer passed a segment that is not sealed against shrinking"));
        }
        let size =
            rustix::fs::fstat(&fd).map_err(|errno| Error::system("fstat of a peer's segment", errno.raw_os_error()))?;
        let bytes = usize::try_from(size.st_size).unwrap_or(0);
        if bytes == 0 || !bytes.is_multiple_of(crate::layout::PAGE) {
            return Err(Error::new(ErrorKind::Corrupt, format!("a peer's segment has the impossible size {bytes}")));
        }
        let segment = Segment::map(fd, bytes)?;
        // What its owner has not allocated would be by a dump of this process.
        if usize::try_from(size.st_blocks).is_ok_and(|blocks| blocks >= bytes / BLOCK) {
            segment.dump(Advice::LinuxDoDump, 0, bytes);
        }
        Ok(Arc::new(segment))
    }

    fn map(fd: OwnedFd, bytes: usize) -> Result<Segment> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let refused = |errno: Errno| {
            let what = format!("mapping a segment of {} of address space", limits::size(bytes as u64));
            Error::new(ErrorKind::NoMemory, what)
                .with_os(errno.raw_os_error())
                .with_remedy("raise the limit of address space (ulimit -v), or ask for less (a heap: DECK_HEAP)")
        };
        // Huge pages need an address that is a multiple of theirs: more is reserved, and what is too much given back.
        let slack = if bytes < HUGE { 0 } else { HUGE };
        let reserved = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let begin = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes + slack, ProtFlags::empty(), reserved) };
        let begin = begin.map_err(refused)?;
        let head = if slack == 0 { 0 } else { begin.addr().next_multiple_of(HUGE) - begin.addr() };
        // SAFETY: `head` is at most `slack`, so all of this lies in the mapping that was just reserved, which nobody
        // knows yet; what is unmapped or mapped anew in it is therefore nobody's.
        let base = unsafe {
            let base = begin.byte_add(head);
            if head > 0 {
                let _ = munmap(begin, head);
            }
            if slack > head {
                let _ = munmap(base.byte_add(bytes), slack - head);
            }
            mmap(base, bytes, ProtFlags::READ | ProtFlags::WRITE, flags | MapFlags::FIXED, &fd, 0).inspect_err(|_| {
                let _ = munmap(base, bytes);
            })
        };
        let base = NonNull::new(base.map_err(refused)?.cast())
            .ok_or_else(|| Error::new(ErrorKind::System, "mmap returned address 0"))?;
        let identity = identity(fd.as_fd());
        let segment = Segment { fd: ManuallyDrop::new(fd), identity, base, bytes, huge: OnceLock::new() };
        segment.dump(Advice::LinuxDontDump, 0, bytes);
        Ok(segment)
    }

    /// Whether a dump of a process that crashes has what lies there. It reads whatever it is to have, which allocates
    /// memory where there is none yet: as much as the whole segment's virtual size, on disk as well.
    fn dump(&self, advice: Advice, offset: usize, bytes: usize) {
        let (begin, end) = (offset / PAGE * PAGE, (offset + bytes).next_multiple_of(PAGE).min(self.bytes));
        // A failure, as of too many mappings, makes a dump larger or leaves something out.
        let _ = self.advise(advice, begin, end - begin);
    }

    /// False if the program has closed the descriptor, although it is not its own, and may have a file of that number
    /// by now.
    fn has_descriptor(&self) -> bool {
        identity(self.fd.as_fd()) == self.identity
    }

    /// What changes the memory's pages through its descriptor, if that is still the memory's.
    fn change(&self, flags: FallocateFlags, offset: usize, bytes: usize) -> rustix::io::Result<()> {
        if !self.has_descriptor() {
            return Err(Errno::BADF);
        }
        rustix::fs::fallocate(&*self.fd, flags, offset as u64, bytes as u64)
    }

    /// Has what is allocated from now on, from byte `from` on, consist of huge pages as far as `wanted` and the system
    /// allow. Only the first call counts.
    pub fn use_huge_pages(&self, wanted: HugePages, from: usize) {
        let from = from.next_multiple_of(HUGE);
        let bytes = self.bytes.saturating_sub(from);
        // Where none fits, the system is not asked whether there are any.
        let way = if bytes < HUGE { Way::None } else { wanted.way() };
        let way = match way {
            Way::Advice if self.advise(Advice::LinuxHugepage, from, bytes).is_err() => Way::None,
            way => way,
        };
        let _ = self.huge.set(way);
    }

    /// True if whole multiples of [`HUGE`] are allocated as huge pages, as far as there are any.
    pub fn has_huge_pages(&self) -> bool {
        self.huge.get().is_some_and(|way| *way != Way::None)
    }

    fn advise(&self, advice: Advice, offset: usize, bytes: usize) -> rustix::io::Result<()> {
        let address = self.at(offset, bytes).ok_or(Errno::INVAL)?;
        // SAFETY: inside the live mapping; the advices that are given here change no content.
        unsafe { rustix::mm::madvise(address.as_ptr().cast(), bytes, advice) }
    }

    /// Allocates the whole huge pages of a range of which nothing is allocated yet, if this segment has any: as many as
    /// there are, while they are worth it.
    fn allocate_huge(&self, offset: usize, bytes: usize) {
        let (begin, end) = (offset.next_multiple_of(HUGE), (offset + bytes) / HUGE * HUGE);
        let Some(whole) = end.checked_sub(begin).filter(|whole| *whole > 0) else { return };
        let begun_ns = now_ns();
        if !PACE.is_worth_it(begun_ns) {
            return;
        }
        match self.huge.get() {
            // To allocate without touching (fallocate) knows nothing of the advice. This is a touch that fails where
            // there is too little memory, instead of a signal.
            Some(Way::Advice) => {
                let _ = self.advise(Advice::LinuxPopulateWrite, begin, whole);
            }
            Some(Way::Collapse) => {
                // A piece without any page is taken for one that is gone. With one page the kernel has little to copy:
                // with all of them it takes seven times as long.
                for piece in (begin..end).step_by(HUGE) {
                    let _ = self.change(FallocateFlags::empty(), piece, PAGE);
                }
                // All in one call, each of which may wait for all cores.
                if let Some(address) = self.at(begin, whole) {
                    // SAFETY: inside the live mapping; the content stays.
                    let _ = unsafe { libc::madvise(address.as_ptr().cast(), whole, MADV_COLLAPSE) };
                }
            }
            Some(Way::None) | None => return,
        }
        PACE.note(whole / HUGE, begun_ns, now_ns());
    }

    /// Has the page tables of this process know the pages of a range, which were allocated before.
    pub fn touch(&self, offset: usize, bytes: usize) {
        // Whoever touches them first finds out; a kernel before 5.14 does not know this.
        let _ = self.advise(Advice::LinuxPopulateRead, offset, bytes);
    }

    /// A copy of `bytes` bytes of other memory, from byte `offset` on: for those who look on and write nothing. What
    /// lies behind its end reads as zero. The bytes may be written meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`], [`ErrorKind::Corrupt`] for an impossible place, [`ErrorKind::System`] if it cannot be
    /// read.
    pub fn copy_of(fd: impl AsFd, offset: usize, bytes: usize) -> Result<Arc<Segment>> {
        let impossible = || Error::new(ErrorKind::Corrupt, format!("{bytes} bytes of memory at {offset}"));
        offset.checked_add(bytes).ok_or_else(impossible)?;
        let mut content = vec![0u8; bytes];
        let mut done = 0;
        while done < bytes {
            match rustix::io::pread(&fd, &mut content[done..], (offset + done) as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::system("reading a job's memory", errno.raw_os_error())),
            }
        }
        let copy = Segment::create("deck-copy", bytes)?;
        // The limits of control groups are not looked up for each of many copies: the content has found as much room.
        copy.allocate_pages(0, bytes).map_err(|errno| limits::refused(bytes, Some(errno.raw_os_error())))?;
        copy.store_bytes(0, &content).expect("the copy has this size");
        Ok(copy)
    }

    /// The number by which the kernel knows the memory: the same for all who map it.
    pub fn inode(&self) -> u64 {
        self.identity.map_or(0, |(_, inode)| inode)
    }

    /// True if `fd` is the memory that is mapped here.
    pub fn is_same(&self, fd: impl AsFd) -> bool {
        identity(fd.as_fd()).is_some_and(|other| self.identity == Some(other))
    }

    /// Virtual size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Address of byte `offset`; `None` unless `bytes` from there lie inside. The pointer is valid while the segment
    /// lives. Other processes may write the bytes at any time: use atomics, or copy out and then check.
    pub fn at(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: `offset` is at most the size of the mapping that `base` begins.
        (end <= self.bytes).then(|| unsafe { self.base.add(offset) })
    }

    /// Really allocates the pages of a range, zeroed where they were not allocated yet.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`] with what was wanted, what there is and what to do. Never SIGBUS later.
    pub fn allocate(&self, offset: usize, bytes: usize) -> Result<()> {
        self.allocate_while(offset, bytes, || Ok(()))
    }

    /// As [`Segment::allocate`], as long as it `goes_on`, which is asked every few milliseconds.
    ///
    /// # Errors
    /// Those of [`Segment::allocate`] and of `goes_on`; a part is allocated then.
    pub fn allocate_while(&self, offset: usize, bytes: usize, goes_on: impl Fn() -> Result<()>) -> Result<()> {
        limits::check_memory(bytes)?;
        let (end, huge_until) = (offset + bytes, Deadline::after(HUGE_FOR));
        let mut from = offset;
        while from < end {
            let to = (from / AT_A_TIME + 1).saturating_mul(AT_A_TIME).min(end);
            if from > offset {
                goes_on()?;
            }
            if !huge_until.has_passed() {
                self.allocate_huge(from, to - from);
            }
            self.allocate_pages(from, to - from).map_err(|errno| limits::refused(bytes, Some(errno.raw_os_error())))?;
            from = to;
        }
        self.dump(Advice::LinuxDoDump, offset, bytes);
        Ok(())
    }

    /// Allocates the pages of a range that are not allocated yet.
    fn allocate_pages(&self, offset: usize, bytes: usize) -> rustix::io::Result<()> {
        let (mut done, mut piece) = (0, bytes);
        while done < bytes {
            let next = piece.min(bytes - done);
            match self.change(FallocateFlags::empty(), offset + done, next) {
                Ok(()) => done += next,
                // A signal undoes what the call had done: where signals come often only small pieces ever end.
                Err(Errno::INTR) => piece = (piece / 2).next_multiple_of(PAGE),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Gives the pages of a range back to the system; they read as zero afterwards.
    pub fn release(&self, offset: usize, bytes: usize) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // A failure only keeps memory that could have been given back.
        if self.change(flags, offset, bytes).is_ok() && bytes >= self.bytes / HOLES_MAX {
            self.dump(Advice::LinuxDontDump, offset, bytes);
        }
        // The compiler takes it for a call that changes no memory, and would not read these bytes again.
        // SAFETY: no instruction; it is not told that this changes no memory.
        unsafe { std::arch::asm!("", options(nostack, preserves_flags)) };
    }
}

/// What a descriptor is of: device and number.
fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    rustix::fs::fstat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this address and size, and nothing borrows from it any more: every
        // pointer into it is kept beside an `Arc<Segment>`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        if self.has_descriptor() {
            // In whatever call the last one lets go of it.
            // SAFETY: here and nowhere else.
            uncancelled(|| unsafe { ManuallyDrop::drop(&mut self.fd) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
