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
        Ok(Arc::new(Segment::map(fd, bytes)?))
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
        Ok(Segment { fd: ManuallyDrop::new(fd), identity, base, bytes, huge: OnceLock::new() })
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
                    let _ = unsafe { libc::madvise(address.as_ptr().cast(), whole, libc::MADV_COLLAPSE) };
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
        let _ = self.change(flags, offset, bytes);
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
mod tests {
    use std::cell::Cell;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_file_that_has_the_descriptors_number_by_now_stays_as_it_is() {
        let segment = Segment::create("test", 4 << 20).unwrap();
        segment.allocate(0, 1 << 20).unwrap();
        let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[7; 8192]).unwrap();
        // As if the program had closed it, and opened its own.
        // SAFETY: both are open; the segment finds that what is there by now is not its own.
        assert!(unsafe { libc::dup2(file.as_raw_fd(), segment.fd.as_raw_fd()) } >= 0);
        segment.release(0, 1 << 20);
        assert_eq!(segment.allocate(1 << 20, 1 << 20).unwrap_err().kind(), ErrorKind::NoMemory);
        let mut content = vec![0; 10_000];
        assert_eq!(rustix::io::pread(&file, &mut content, 0), Ok(8192));
        assert!(content[..8192].iter().all(|byte| *byte == 7));
    }

    #[test]
    fn a_new_segment_is_sparse_and_every_access_is_bounded() {
        let segment = Segment::create("test", 1 << 30).unwrap();
        assert_eq!(segment.bytes(), 1 << 30);
        assert!(segment.at(0, 1 << 30).is_some());
        assert!(segment.at(1, 1 << 30).is_none());
        assert!(segment.at(usize::MAX, 2).is_none());
    }

    #[test]
    fn a_second_mapping_sees_what_the_first_wrote() {
        let mine = Segment::create("test", 8192).unwrap();
        mine.allocate(0, 8192).unwrap();
        let theirs = Segment::adopt(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
        // SAFETY: both pointers are inside live mappings, allocated, and nobody else uses them.
        unsafe {
            mine.at(100, 1).unwrap().write_volatile(7);
            assert_eq!(theirs.at(100, 1).unwrap().read_volatile(), 7);
        }
        mine.release(0, 4096);
        // SAFETY: as above.
        assert_eq!(unsafe { theirs.at(100, 1).unwrap().read_volatile() }, 0);
    }

    #[test]
    fn content_and_bounds_are_the_same_in_huge_pages() {
        for wanted in [HugePages::Never, HugePages::Auto, HugePages::Always] {
            let mine = Segment::create("test", 16 << 20).unwrap();
            mine.use_huge_pages(wanted, PAGE);
            mine.allocate(0, 3 << 20).unwrap();
            mine.store_bytes((3 << 20) - 8, &[7; 8]).unwrap();
            mine.allocate(4 << 20, 8 << 20).unwrap();
            let theirs = Segment::adopt(mine.as_fd().try_clone_to_owned().unwrap()).unwrap();
            theirs.store_bytes(5 << 20, &[9; 8]).unwrap();
            let mut bytes = [0; 8];
            theirs.read((3 << 20) - 8, &mut bytes).unwrap();
            assert_eq!(bytes, [7; 8], "{wanted:?}");
            mine.read(5 << 20, &mut bytes).unwrap();
            assert_eq!(bytes, [9; 8], "{wanted:?}");
            mine.release((5 << 20) - 4096, 8192);
            mine.read(5 << 20, &mut bytes).unwrap();
            assert_eq!(bytes, [0; 8], "{wanted:?}");
            assert_eq!(mine.has_huge_pages(), wanted.way() != Way::None);
        }
    }

    /// Of the mappings of this process with this label, in bytes.
    fn huge_bytes(label: &str) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (mut is_it, mut kib) = (false, 0);
        for line in maps.lines() {
            if let Some(text) = line.strip_prefix("ShmemPmdMapped:") {
                kib += if is_it { text.trim().trim_end_matches(" kB").parse::<usize>().unwrap() } else { 0 };
            } else if line.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
                is_it = line.contains(&format!("/memfd:{label} "));
            }
        }
        kib << 10
    }

    #[test]
    fn huge_pages_that_are_asked_for_are_there_unless_the_kernel_has_none() {
        let probe = Segment::create("probe", 4 << 20).unwrap();
        probe.allocate(0, 4 << 20).unwrap();
        // SAFETY: as in `allocate_huge`.
        let can = unsafe { libc::madvise(probe.at(0, 4 << 20).unwrap().as_ptr().cast(), 4 << 20, libc::MADV_COLLAPSE) };
        for wanted in [HugePages::Auto, HugePages::Always] {
            let segment = Segment::create("test-huge", 16 << 20).unwrap();
            segment.use_huge_pages(wanted, 0);
            let is_worth_it = PACE.is_worth_it(now_ns());
            // Neither begins nor ends with a huge page.
            segment.allocate(3 << 20, 8 << 20).unwrap();
            segment.store_bytes(4 << 20, &[1; 8]).unwrap();
            let found = huge_bytes("test-huge");
            let is_worth_it = is_worth_it && PACE.is_worth_it(now_ns());
            if can == 0 && is_worth_it && segment.huge.get() == Some(&Way::Collapse) {
                assert!(found >= HUGE, "{wanted:?}: {found} bytes of 8 MiB are huge pages");
            } else {
                println!("{wanted:?}: {found} bytes of huge pages; collapsing returns {can}");
            }
        }
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let fd = rustix::fs::memfd_create("bad", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert_eq!(Segment::adopt(fd).unwrap_err().kind(), ErrorKind::Corrupt);
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(Segment::adopt(file.into()).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn what_does_not_go_on_is_not_allocated_to_its_end() {
        let segment = Segment::create("test", 4 * AT_A_TIME).unwrap();
        let allocated = || rustix::fs::fstat(&segment).unwrap().st_blocks as usize * 512;
        let asked = Cell::new(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            if asked.get() < 2 { Ok(()) } else { Err(Error::new(ErrorKind::Cancelled, "on purpose")) }
        };
        // It begins in the middle of what is allocated at a time.
        let error = segment.allocate_while(AT_A_TIME / 2, 3 * AT_A_TIME, goes_on).unwrap_err();
        assert_eq!((error.kind(), asked.get(), allocated()), (ErrorKind::Cancelled, 2, 3 * AT_A_TIME / 2));
        segment.allocate(0, 4 * AT_A_TIME).unwrap();
        assert_eq!(allocated(), 4 * AT_A_TIME);
    }

    #[test]
    fn too_little_memory_is_an_error_with_a_remedy() {
        let segment = Segment::create("test", 1 << 46).unwrap();
        let error = segment.allocate(0, 1 << 45).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoMemory);
        assert!(error.to_string().contains("wanted"), "{error}");
    }
}
