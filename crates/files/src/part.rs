//! A file until it is whole: it has no name in the folder of its place, or else stands there under another one.

use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};

use crate::place::folder_of;

/// A file that takes its place when it is whole. Dropped before that, it is removed.
pub struct Part {
    /// What the result is written to.
    pub file: File,
    /// Under which it stands beside its place; `None` as long as it has no name.
    name: Option<PathBuf>,
    place: PathBuf,
    before: Option<Metadata>,
}

impl Part {
    /// For the place of the file `before`, if there is one; `None` if its folder takes no new file, so that it can only
    /// be written over.
    pub fn create(place: &Path, before: Option<Metadata>) -> io::Result<Option<Part>> {
        let mode = mode_of(before.as_ref());
        let made = match nameless(place, mode) {
            Some(file) => Ok((file, None)),
            None => named(place, mode).map(|(file, name)| (file, Some(name))),
        };
        match made {
            Ok((file, name)) => Ok(Some(Part { file, name, place: place.to_owned(), before })),
            Err(error) if before.is_some() && takes_no_file(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts the file, which is whole now, in its place. If the one before has to stay, it is copied over that.
    ///
    /// # Errors
    /// If copying fails, this file stays, and the error names it.
    pub fn take_place(mut self) -> io::Result<()> {
        if self.before.is_none() && self.name.is_none() && self.link(&self.place).is_ok() {
            return Ok(());
        }
        let name = self.give_name()?;
        if self.before.as_ref().is_none_or(|before| hand_over(&self.file, before).is_ok()) {
            match fs::rename(&name, &self.place) {
                // Something is mounted there.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                renamed => return renamed,
            }
        }
        self.copy_over(&name)
    }

    /// The name beside its place, which it has from now on.
    fn give_name(&mut self) -> io::Result<PathBuf> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let name = name_beside(&self.place);
        if self.link(&name).is_ok() {
            self.name = Some(name.clone());
            return Ok(name);
        }
        // Not every file system that has files without names gives them one later.
        let (mut file, name) = named(&self.place, mode_of(self.before.as_ref()))?;
        self.name = Some(name.clone());
        self.file.rewind()?;
        io::copy(&mut self.file, &mut file)?;
        self.file = file;
        Ok(name)
    }

    fn link(&self, name: &Path) -> io::Result<()> {
        Ok(linkat(CWD, path_of(&self.file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    fn copy_over(mut self, name: &Path) -> io::Result<()> {
        let copied = self.file.rewind().and_then(|()| io::copy(&mut self.file, &mut write_over(&self.place)?));
        copied.map(drop).map_err(|error| {
            self.name = None;
            io::Error::new(error.kind(), format!("{error}; all of it is in {}", name.display()))
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // It has its place by now, or something has failed: that the rest cannot be removed either adds nothing.
            let _ = fs::remove_file(name);
        }
    }
}

/// Nobody else may read it before it has the permissions of the one before.
fn mode_of(before: Option<&Metadata>) -> u32 {
    if before.is_some() { 0o600 } else { 0o666 }
}

/// A file beside its place, and its name.
fn named(place: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let name = name_beside(place);
    let file = File::options().read(true).write(true).create_new(true).mode(mode).open(&name)?;
    Ok((file, name))
}

/// A file without a name; `None` where there can be none, or none that can be given a name later.
fn nameless(place: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let file = File::options().read(true).write(true).custom_flags(flags).mode(mode).open(folder_of(place)).ok()?;
    fs::symlink_metadata(path_of(&file)).is_ok().then_some(file)
}

fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Opens the file of that place for a result that begins anew.
pub fn write_over(place: &Path) -> io::Result<File> {
    File::options().write(true).truncate(true).open(place)
}

/// A name that no other run has: two processes of one number, in two containers, may share the folder.
fn name_beside(place: &Path) -> PathBuf {
    place.with_file_name(format!(".deck-{:016x}.part", RandomState::new().build_hasher().finish()))
}

fn takes_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

/// Gives the file to the users of the one `before`.
fn hand_over(file: &File, before: &Metadata) -> io::Result<()> {
    let found = file.metadata()?;
    if (found.uid(), found.gid()) != (before.uid(), before.gid()) {
        fchown(file, Some(before.uid()), Some(before.gid()))?;
    }
    file.set_permissions(before.permissions())
}
