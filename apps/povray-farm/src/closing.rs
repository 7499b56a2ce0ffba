//! Notices that a file was written and closed.
//!
//! POV-Ray closes its picture and then waits for its own threads, a third of a second altogether, before it ends:
//! nobody needs to wait for that. The kernel tells of it (inotify(7)); where it does not, since a user has so many
//! watches only, the end of POV-Ray tells the same later.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};

/// Bytes for some events at a time.
const EVENTS: usize = 1024;

/// Watches a folder for one file.
pub struct Closing {
    /// Readable when a file of the folder was closed; none if the kernel does not tell.
    events: Option<OwnedFd>,
    name: &'static CStr,
}

impl Closing {
    /// Of a file of `folder` that need not be there yet.
    pub fn of(folder: &Path, name: &'static CStr) -> Closing {
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        let events = events.filter(|events| add_watch(events, folder, WatchFlags::CLOSE_WRITE).is_ok());
        Closing { events, name }
    }

    /// Readable when [`Closing::was_told`] may have something new to say.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    /// Whether the file was closed since the last call, by somebody who could write to it. Never waits.
    pub fn was_told(&self) -> bool {
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let Some(events) = &self.events else { return false };
        let (mut reader, mut was_told) = (Reader::new(events, &mut buffer), false);
        while let Ok(event) = reader.next() {
            was_told |= event.file_name() == Some(self.name);
        }
        was_told
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;

    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_is_told_once_it_is_closed_and_no_other_one() {
        let scratch = Scratch::new().unwrap();
        let closing = Closing::of(scratch.path(), c"picture");
        assert!(closing.readable().is_some() && !closing.was_told());
        let mut picture = File::create(scratch.path().join("picture")).unwrap();
        picture.write_all(b"half").unwrap();
        fs::write(scratch.path().join("words"), "other").unwrap();
        assert!(!closing.was_told());
        drop(picture);
        assert!(closing.was_told() && !closing.was_told());
    }
}
