//! Memory of other processes, read by the kernel (cross memory attach, `process_vm_readv(2)`).
//!
//! What a program has in its own memory reaches another one in one copy so, where memory that both map takes two. The
//! kernel looks at each address, so whatever another process tells of its memory leads to an error at worst. It asks
//! for the rights of a debugger, which containers often withhold: [`is_allowed`].

use std::io::ErrorKind;

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

/// May this process read memory of the process `pid`? Never blocks.
pub fn is_allowed(pid: u32) -> bool {
    // The kernel asks for rights first. Then nothing is found at this address.
    matches!(read(pid, 0, &mut [0]), Ok(()) | Err(Errno::FAULT))
}

/// Can the kernel read `bytes` of this process? What a driver has mapped it may not. Looks at both ends. Never blocks.
pub fn can_be_read(bytes: &[u8]) -> bool {
    // The first thread may have ended, this one has not.
    let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
    let mut ends = bytes.first().into_iter().chain(bytes.last());
    ends.all(|end| read_by(thread, std::ptr::from_ref(end).addr() as u64, &mut [0]).is_ok())
}

/// Reads from address `from` of the process `pid`, for as long as that takes.
///
/// # Errors
/// `FAULT` if nothing can be read there, `SRCH` if there is no such process any more or it is about to end, `PERM` if
/// this one may not; others if its threads cannot be looked up.
pub fn read(pid: u32, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    match read_by(pid, from, into) {
        Err(Errno::SRCH) => uncancelled(|| read_by_another(pid, from, into)),
        read => read,
    }
}

/// As [`read`], where the first thread has ended before the others: its number then stands for no memory any more.
#[cold]
fn read_by_another(pid: u32, from: u64, into: &mut [u8]) -> Result<(), Errno> {
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
        match number.map(|number| read_by(number, from, into)) {
            None | Some(Err(Errno::SRCH)) => {}
            Some(read) => return read,
        }
    }
    Err(Errno::SRCH)
}

/// Reads the memory that `thread` has.
fn read_by(thread: u32, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    let thread = i32::try_from(thread).map_err(|_| Errno::SRCH)?;
    let mut done = 0;
    while done < into.len() {
        let rest = &mut into[done..];
        let address = usize::try_from(from).ok().and_then(|from| from.checked_add(done)).ok_or(Errno::FAULT)?;
        let local = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: rest.len() };
        // SAFETY: the kernel writes to `rest` alone, no more than its length; it looks at the other address itself.
        let count = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
        match usize::try_from(count) {
            Ok(0) => return Err(Errno::FAULT),
            Ok(count) => done += count,
            Err(_) => return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_reads_its_own_memory_and_no_other_address() {
        let (pid, bytes) = (std::process::id(), vec![7; 100_000]);
        assert!(is_allowed(pid) && can_be_read(&bytes) && can_be_read(&[1]));
        let mut read_here = vec![0; 99_999];
        read(pid, bytes.as_ptr().addr() as u64 + 1, &mut read_here).unwrap();
        assert_eq!(read_here, bytes[1..]);
        for nowhere in [0, u64::MAX, u64::MAX - 50_000] {
            assert_eq!(read(pid, nowhere, &mut read_here), Err(Errno::FAULT));
        }
        read(pid, 0, &mut []).unwrap();
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
        assert_eq!(read(pid, 4096, &mut [0]), Err(Errno::SRCH));
    }
}
