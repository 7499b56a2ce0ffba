//! Memory of other processes, read by the kernel (cross memory attach, `process_vm_readv(2)`).
//!
//! What a program has in its own memory reaches another one in one copy so, where memory that both map takes two. The
//! kernel looks at each address, so whatever another process tells of its memory leads to an error at worst. It asks
//! for the rights of a debugger, which containers often withhold: [`is_allowed`].
//!
//! The number of a process says too little. The process may have begun another program (`execve(2)`), or have died and
//! its number been given to another one: then something else may lie at an address. So a program tells a *proof*, a
//! word of its memory with a number that only it has there, and whoever reads its memory reads that too, in the same
//! call: both are of the same program.

use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::sync::OnceLock;

use deck_sync::uncancelled;
pub use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Are long arrays of programs read where they lie?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// Where it may be done, and is found to take less time.
    #[default]
    Auto,
    /// Wherever it may be done.
    Always,
    /// Nowhere.
    Never,
}

/// A word of a program's memory that no other program has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Its address.
    pub at: u64,
    /// What it says.
    pub says: u64,
}

/// What the proof of this program says, and where it lies.
static PROOF: OnceLock<u64> = OnceLock::new();

impl Proof {
    /// That of this program.
    pub fn own() -> Proof {
        // Never 0, which is what stands in memory that nobody has written.
        let says = PROOF.get_or_init(|| RandomState::new().hash_one(std::process::id()) | 1);
        Proof { at: std::ptr::from_ref(says).addr() as u64, says: *says }
    }
}

/// May this process read memory of the process `pid`? Never blocks.
pub fn is_allowed(pid: u32) -> bool {
    // The kernel asks for rights first. Then nothing is found at this address.
    let read = by_any_thread(pid, &mut |thread| copied(thread, [(0, &mut [0])]));
    matches!(read, Ok(_) | Err(Errno::FAULT))
}

/// Can the kernel read `bytes` of this process? What a driver has mapped it may not. Looks at both ends. Never blocks.
pub fn can_be_read(bytes: &[u8]) -> bool {
    // The first thread may have ended, this one has not.
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let mut ends = bytes.first().into_iter().chain(bytes.last());
    ends.all(|end| copied(thread, [(std::ptr::from_ref(end).addr() as u64, &mut [0])]) == Ok(1))
}

/// Reads from address `from` of the process `pid`, for as long as that takes, if it is the program with this proof.
///
/// # Errors
/// `FAULT` if nothing can be read there, `SRCH` if there is no such program any more or it is about to end, `PERM` if
/// this one may not; others if its threads cannot be looked up.
pub fn read(pid: u32, proof: Proof, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    by_any_thread(pid, &mut |thread| read_by(thread, proof, from, into))
}

/// Does it by the first thread of the process `pid`, or by another one where that has ended before the others: its
/// number then stands for no memory any more.
fn by_any_thread<T>(pid: u32, reads: &mut impl FnMut(u32) -> Result<T, Errno>) -> Result<T, Errno> {
    match reads(pid) {
        Err(Errno::SRCH) => uncancelled(|| by_another_thread(pid, reads)),
        read => read,
    }
}

#[cold]
fn by_another_thread<T>(pid: u32, reads: &mut impl FnMut(u32) -> Result<T, Errno>) -> Result<T, Errno> {
    let threads = match std::fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => threads,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let process = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
            // Without /proc one that has no memory any more looks like one whose first thread has ended.
            return Err(test_kill_process(process).err().unwrap_or(Errno::NOENT));
        }
        Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    };
    for thread in threads.map_while(Result::ok) {
        let number = thread.file_name().to_str().and_then(|name| name.parse().ok());
        match number.map(&mut *reads) {
            None | Some(Err(Errno::SRCH)) => {}
            Some(read) => return read,
        }
    }
    Err(Errno::SRCH)
}

/// Reads the memory that `thread` has.
fn read_by(thread: u32, proof: Proof, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        let address = from.checked_add(done as u64).ok_or(Errno::FAULT)?;
        let mut says = [0; size_of::<u64>()];
        let count = match copied(thread, [(proof.at, &mut says), (address, &mut into[done..])]) {
            // It could read nothing, not even the proof.
            Err(Errno::FAULT) => return Err(Errno::SRCH),
            count => count?,
        };
        if u64::from_ne_bytes(says) != proof.says {
            return Err(Errno::SRCH);
        }
        match count.saturating_sub(says.len()) {
            0 => return Err(Errno::FAULT),
            count => done += count,
        }
    }
    Ok(())
}

/// Copies what lies at these addresses of the memory that `thread` has, one after the other, as far as it can be read;
/// how much that was.
fn copied<const PARTS: usize>(thread: u32, parts: [(u64, &mut [u8]); PARTS]) -> Result<usize, Errno> {
    let thread = i32::try_from(thread).map_err(|_| Errno::SRCH)?;
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut local, mut remote) = ([nothing; PARTS], [nothing; PARTS]);
    for (at, (address, into)) in parts.into_iter().enumerate() {
        let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
        local[at] = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        remote[at] = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
    }
    let count = PARTS as libc::c_ulong;
    // SAFETY: the kernel writes to the slices of `parts` alone, which are borrowed for this call, and no more than
    // their lengths; it looks at the other addresses itself.
    let count = unsafe { libc::process_vm_readv(thread, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    usize::try_from(count).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_its_own_memory_and_no_other_address() {
        let (pid, proof, bytes) = (std::process::id(), Proof::own(), vec![7; 100_000]);
        assert!(is_allowed(pid) && can_be_read(&bytes) && can_be_read(&[1]));
        let mut read_here = vec![0; 99_999];
        read(pid, proof, bytes.as_ptr().addr() as u64 + 1, &mut read_here).unwrap();
        assert_eq!(read_here, bytes[1..]);
        for nowhere in [0, u64::MAX, u64::MAX - 50_000] {
            assert_eq!(read(pid, proof, nowhere, &mut read_here), Err(Errno::FAULT));
        }
        read(pid, proof, 0, &mut []).unwrap();
    }

    #[test]
    fn another_program_with_the_same_number_is_not_read() {
        let (pid, proof, bytes) = (std::process::id(), Proof::own(), [7; 100]);
        assert_eq!(Proof::own(), proof);
        let own = bytes.as_ptr().addr() as u64;
        for wrong in
            [Proof { says: proof.says ^ 1, ..proof }, Proof { at: proof.at - 8, ..proof }, Proof { at: 0, ..proof }]
        {
            assert_eq!(read(pid, wrong, own, &mut [0; 100]), Err(Errno::SRCH), "{wrong:?} for {proof:?}");
        }
    }

    #[test]
    fn both_ends_have_to_be_readable() {
        let (size, map) = (4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), 3 * size, libc::PROT_READ, map, -1, 0) };
        assert_ne!(begin, libc::MAP_FAILED);
        let page = |index| begin.cast::<u8>().wrapping_add(index * size);
        // SAFETY: the pages are this test's, and it reads none of them.
        assert!([0, 2].iter().all(|index| unsafe { libc::mprotect(page(*index).cast(), size, libc::PROT_NONE) } == 0));
        // SAFETY: mapped until the end; nothing but the kernel reads the bytes.
        let [before, inside, behind] = [0, 1, 2].map(|end| unsafe {
            std::slice::from_raw_parts(
                page(1).wrapping_sub(usize::from(end == 0)),
                if end == 2 { size + 1 } else { size },
            )
        });
        assert!(!can_be_read(before) && can_be_read(inside) && !can_be_read(behind));
        // SAFETY: whole, and nothing points there any more.
        unsafe { libc::munmap(begin, 3 * size) };
    }

    #[test]
    fn a_process_that_has_ended_is_not_read() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(!is_allowed(pid) && !is_allowed(u32::MAX));
        assert_eq!(read(pid, Proof::own(), 4096, &mut [0]), Err(Errno::SRCH));
    }
}
