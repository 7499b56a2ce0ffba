//! A file until it is whole: it stands beside its place, under another name.

use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// A file that takes its place when it is whole. Dropped before that, it is removed.
pub struct Part {
    /// What the result is written to.
    pub file: File,
    name: PathBuf,
    place: PathBuf,
    before: Option<Metadata>,
    stays: bool,
}

impl Part {
    /// For the place of the file `before`, if there is one; `None` if its folder takes no new file, so that it can only be
    /// written over.
    pub fn create(place: &Path, before: Option<Metadata>) -> io::Result<Option<Part>> {
        let name = name_beside(place);
        // Nobody else may read it before it has the permissions of the one before.
        let mode = if before.is_some() { 0o600 } else { 0o666 };
        match File::options().read(true).write(true).create_new(true).mode(mode).open(&name) {
            Ok(file) => Ok(Some(Part { file, name, place: place.to_owned(), before, stays: false })),
            Err(error) if before.is_some() && takes_no_file(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts the file, which is whole now, in its place. If the one before has to stay, it is copied over that.
    ///
    /// # Errors
    /// If copying fails, this file stays, and the error names it.
    pub fn take_place(self) -> io::Result<()> {
        if self.before.as_ref().is_none_or(|before| hand_over(&self.file, before).is_ok()) {
            match fs::rename(&self.name, &self.place) {
                // Something is mounted there.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {}
                renamed => return renamed,
            }
        }
        self.copy_over()
    }

    fn copy_over(mut self) -> io::Result<()> {
        let copied = self.file.rewind().and_then(|()| io::copy(&mut self.file, &mut write_over(&self.place)?));
        copied.map(drop).map_err(|error| {
            self.stays = true;
            io::Error::new(error.kind(), format!("{error}; all of it is in {}", self.name.display()))
        })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.stays {
            // It has its place by now, or something has failed: that the rest cannot be removed either adds nothing.
            let _ = fs::remove_file(&self.name);
        }
    }
}

/// Opens the file of that place for a result that begins anew.
pub fn write_over(place: &Path) -> io::Result<File> {
    File::options().write(true).truncate(true).open(place)
}

/// A name that no other run has: two processes of one number, in two containers, may share the folder.
fn name_beside(place: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(format!(".{:x}.part", RandomState::new().build_hasher().finish()));
    place.with_file_name(name)
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
