//! A segment as Miri can follow it: memory of this process, known by a file descriptor.
//!
//! Miri has no mapped memory. All that is built on a [`Segment`] (heaps, rings, parcels) is to run under it
//! nevertheless, so this stands in for the real one, with the same calls: every "node" of a test lives in one process,
//! and whoever adopts the descriptor gets the same bytes. Nothing is known here about seals, and memory runs out for
//! nobody.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};

use deck_sync::locks::lock;
use deck_sync::{Error, ErrorKind, Result};

use crate::huge::{HugePages, Way};
use crate::layout::PAGE;

/// Zeroed memory that several segments share.
#[derive(Debug)]
struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory, valid until drop; all access goes through atomics or raw pointers.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` gives no reference into it.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated by `Segment::create` with this layout; every pointer into it is kept beside its segment.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// All memory of this process; a segment's file holds an index into it.
static MEMORIES: Mutex<Vec<Weak<Memory>>> = Mutex::new(Vec::new());

/// Stands for a mapped memfd.
#[derive(Debug)]
pub struct Segment {
    file: File,
    memory: Arc<Memory>,
}

impl Segment {
    /// Creates a segment of `bytes` (rounded up to pages).
    ///
    /// # Errors
    /// [`ErrorKind::System`] if there is no folder for temporary files.
    pub fn create(label: &str, bytes: usize) -> Result<Arc<Segment>> {
        let layout = Layout::from_size_align(bytes.next_multiple_of(PAGE), PAGE)
            .map_err(|_| Error::new(ErrorKind::NoMemory, "a segment of impossible size"))?;
        // SAFETY: the layout is not empty: no segment is.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let memory = Arc::new(Memory { base, layout });
        let mut memories = lock(&MEMORIES);
        let index = memories.len() as u64;
        memories.push(Arc::downgrade(&memory));
        let path = std::env::temp_dir().join(format!("{label}-{}-{index}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).and_then(|file| {
            std::fs::remove_file(&path)?;
            file.write_all_at(&index.to_le_bytes(), 0)?;
            Ok(file)
        });
        let file = file.map_err(|error| Error::io(format!("naming the memory of the {label}"), &error))?;
        Ok(Arc::new(Segment { file, memory }))
    }

    /// The segment that `fd` is of.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is of none.
    pub fn adopt(fd: OwnedFd) -> Result<Arc<Segment>> {
        let file = File::from(fd);
        let mut index = [0; 8];
        let memories = lock(&MEMORIES);
        let memory = file
            .read_exact_at(&mut index, 0)
            .ok()
            .and_then(|()| memories.get(usize::try_from(u64::from_le_bytes(index)).ok()?)?.upgrade());
        let memory =
            memory.ok_or_else(|| Error::new(ErrorKind::Corrupt, "a peer passed something that is no segment"))?;
        Ok(Arc::new(Segment { file, memory }))
    }

    /// A copy of `bytes` bytes of other memory, from byte `offset` on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if `fd` is of none, or for an impossible place.
    pub fn copy_of(fd: impl AsFd, offset: usize, bytes: usize) -> Result<Arc<Segment>> {
        let corrupt = || Error::new(ErrorKind::Corrupt, format!("{bytes} bytes of memory at {offset}"));
        let original = Segment::adopt(fd.as_fd().try_clone_to_owned().map_err(|_| corrupt())?)?;
        let (mut content, copy) = (vec![0; bytes], Segment::create("deck-copy", bytes)?);
        original.load_bytes(offset, &mut content).ok_or_else(corrupt)?;
        copy.store_bytes(0, &content).expect("the copy has this size");
        Ok(copy)
    }

    /// A number by which the memory is known: the same for all who have adopted it.
    pub fn inode(&self) -> u64 {
        self.memory.base.addr().get() as u64
    }

    /// True if `fd` is of the memory that is here.
    pub fn is_same(&self, fd: impl AsFd) -> bool {
        let other = fd.as_fd().try_clone_to_owned().ok().and_then(|fd| Segment::adopt(fd).ok());
        other.is_some_and(|other| Arc::ptr_eq(&other.memory, &self.memory))
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.layout.size()
    }

    /// Address of byte `offset`; `None` unless `bytes` from there lie inside. The pointer is valid while the segment
    /// lives.
    pub fn at(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: `offset` is at most the size of the memory that `base` begins.
        (end <= self.bytes()).then(|| unsafe { self.memory.base.add(offset) })
    }

    /// There are none.
    pub fn use_huge_pages(&self, wanted: HugePages, _from: usize) {
        debug_assert!(wanted.way() == Way::None);
    }

    /// Never.
    pub fn has_huge_pages(&self) -> bool {
        false
    }

    /// There are no page tables.
    pub fn touch(&self, _offset: usize, _bytes: usize) {}

    /// All of it is there from the begin.
    ///
    /// # Errors
    /// None.
    pub fn allocate(&self, _offset: usize, _bytes: usize) -> Result<()> {
        Ok(())
    }

    /// The same.
    ///
    /// # Errors
    /// None.
    pub fn allocate_while(&self, _offset: usize, _bytes: usize, _goes_on: impl Fn() -> Result<()>) -> Result<()> {
        Ok(())
    }

    /// The pages of a range read as zero afterwards.
    pub fn release(&self, offset: usize, bytes: usize) {
        if let Some(first) = self.at(offset, bytes) {
            // SAFETY: inside; nobody uses what its owner gives back.
            unsafe { first.write_bytes(0, bytes) };
        }
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
