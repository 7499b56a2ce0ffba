//! What the processes of this user have open, and opening it anew.
//!
//! A process that is looked at may end at any moment, and what it had open is then no more to be had: nothing is told
//! of it. Where the process that looks has no descriptor left it would see nothing of what is there: that is an error.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use deck_segment::layout;
use deck_sync::{Error, Result};

use crate::{notices, table};

/// The shared memory of one process, by label and inode.
#[derive(Default)]
pub struct Open {
    pub tables: BTreeMap<u64, PathBuf>,
    pub notices: BTreeMap<u64, PathBuf>,
    pub heaps: BTreeMap<u64, PathBuf>,
}

/// The label of the memory to which a link of `/proc` leads, if it leads to memory (memfd_create(2)).
fn label_of(target: &Path) -> Option<&str> {
    target.to_str()?.strip_prefix("/memfd:")?.strip_suffix(" (deleted)")
}

/// What there is to be seen, if it is there still.
pub fn seen<T>(result: io::Result<T>) -> Result<Option<T>> {
    match result {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            Err(Error::io("looking at the processes of this user", &error))
        }
        result => Ok(result.ok()),
    }
}

/// Opens shared memory of another process for reading; `None` if it is not what it was any more: the process may have
/// closed it, and opened anything else under the same number. Opening that must neither block nor take a terminal.
pub fn open(path: &Path, label: &str, inode: u64) -> Result<Option<File>> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let is_same = |file: &File| {
        let target = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        target.is_ok_and(|target| label_of(&target) == Some(label))
            && file.metadata().is_ok_and(|known| known.ino() == inode)
    };
    Ok(seen(opened)?.filter(is_same))
}

pub fn open_of(process: u32) -> Result<Open> {
    let mut open = Open::default();
    for path in descriptors_of(process)? {
        let Ok(target) = fs::read_link(&path) else { continue };
        let map = match label_of(&target) {
            Some(table::LABEL) => &mut open.tables,
            Some(notices::LABEL) => &mut open.notices,
            Some(layout::LABEL) => &mut open.heaps,
            _ => continue,
        };
        if let Ok(known) = fs::metadata(&path)
            && !is_open_to_look(&path)
        {
            map.insert(known.ino(), path);
        }
    }
    Ok(open)
}

/// What a process has open. One whose first thread has ended shows it in another one.
fn descriptors_of(process: u32) -> Result<Vec<PathBuf>> {
    let paths = |of: &Path| -> Result<Vec<PathBuf>> {
        let entries = seen(fs::read_dir(of.join("fd")))?.into_iter().flatten();
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    };
    let process = PathBuf::from(format!("/proc/{process}"));
    let first = paths(&process)?;
    if !first.is_empty() {
        return Ok(first);
    }
    for thread in seen(fs::read_dir(process.join("task")))?.into_iter().flatten().flatten() {
        let other = paths(&thread.path())?;
        if !other.is_empty() {
            return Ok(other);
        }
    }
    Ok(Vec::new())
}

/// Whoever looks on at the same moment has it open for reading only, and is no process of the job. The permissions of
/// such a link are how it was opened (proc_pid_fd(5)).
fn is_open_to_look(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|link| link.mode() & 0o200 == 0)
}

/// The processes of this user, except this one.
pub fn processes() -> Result<Vec<u32>> {
    let user = rustix::process::geteuid().as_raw();
    let entries = seen(fs::read_dir("/proc"))?.into_iter().flatten().flatten();
    Ok(entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.metadata().ok()?.uid())))
        .filter(|(process, owner)| *owner == user && *process != std::process::id())
        .map(|(process, _)| process)
        .collect())
}
