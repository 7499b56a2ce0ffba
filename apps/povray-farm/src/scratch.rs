//! The folder for what one POV-Ray process writes.
//!
//! POV-Ray wants names for its files. A folder goes with the rendering that it belongs to. A file in it is locked as
//! long as that goes on: what a killed node left behind is found by that, whatever namespace the node ran in, and swept
//! away when a later job begins.

use std::fs::{self, File};
use std::io::{self, ErrorKind::AlreadyExists, ErrorKind::NotFound};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use deck::{Error, ErrorKind, Result};
use rustix::fs::OFlags;

const PREFIX: &str = "povray-farm-";
/// What is locked, and what tells that the folder is one of ours.
const MARK: &str = ".rendering";
/// Whatever another user has put in its place.
const NEVER_WAITS: i32 = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).bits().cast_signed();

const REMEDY: &str = "set TMPDIR to a folder that you may write to and that has room";

/// Bytes: what does not fit is some lines of a picture.
const HARDLY_ANY: u64 = 1 << 20;

/// A folder of its own, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    folder: PathBuf,
    _locked: File,
}

impl Scratch {
    /// An empty folder, but for its mark.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub fn new() -> Result<Scratch> {
        Scratch::new_in(&temporary(std::env::temp_dir()))
    }

    fn new_in(all: &Path) -> Result<Scratch> {
        let mut made = (0u32..).map(|number| Scratch::make(all.join(format!("{PREFIX}{}-{number}", process::id()))));
        let made = made.find_map(io::Result::transpose).unwrap_or_else(|| Err(AlreadyExists.into()));
        made.map_err(|error| Error::io(format!("creating a folder in {}", all.display()), &error).with_remedy(REMEDY))
    }

    /// `None` if the folder is somebody else's, or somebody sweeps it away just now.
    fn make(folder: PathBuf) -> io::Result<Option<Scratch>> {
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == AlreadyExists => return Ok(None),
            made => made?,
        }
        let mark = folder.join(MARK);
        let locked = match File::create_new(&mark) {
            Err(error) if error.kind() == NotFound => return Ok(None),
            made => made?,
        };
        // Where nothing can be locked nothing is swept away.
        let is_locked = !matches!(locked.try_lock(), Err(fs::TryLockError::WouldBlock));
        Ok((is_locked && stands_at(&locked, &mark)).then_some(Scratch { folder, _locked: locked }))
    }

    /// What to tell of a file that could not be written, if there is hardly any room left.
    pub fn no_room(&self) -> Option<Error> {
        let found = rustix::fs::statvfs(&self.folder).ok()?;
        let is_full = found.f_bavail.saturating_mul(found.f_frsize) < HARDLY_ANY;
        let all = self.folder.parent().unwrap_or(&self.folder);
        let what = || format!("povray writes to {}, which is full", all.display());
        is_full.then(|| Error::new(ErrorKind::NoMemory, what()).with_remedy(REMEDY))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody can do anything about it here; the next job tries again.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The folder for temporary files: that of the system where TMPDIR is there and empty, as other programs take it.
/// Otherwise what a killed node leaves would lie in the current folder, where nobody sweeps.
fn temporary(said: PathBuf) -> PathBuf {
    if said.as_os_str().is_empty() { "/tmp".into() } else { said }
}

/// Removes folders that nobody uses any more. Another user's stay: that user's next job removes them.
pub fn sweep() {
    sweep_in(&temporary(std::env::temp_dir()));
}

fn sweep_in(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else { return };
    entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_of_ours)).for_each(|entry| {
        let folder = entry.path();
        let mark = folder.join(MARK);
        match File::options().write(true).custom_flags(NEVER_WAITS).open(&mark) {
            Ok(file) if file.try_lock().is_ok() && stands_at(&file, &mark) => drop(fs::remove_dir_all(folder)),
            // Whoever made it did not come as far as the mark. Whoever is making it makes another one.
            Err(error) if error.kind() == NotFound => drop(fs::remove_dir(folder)),
            _ => {}
        }
    });
}

/// Whether the file is the one of that name: another one may have been made there since.
fn stands_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| file.metadata().is_ok_and(|own| own.ino() == found.ino()))
}

/// Whether it is a name as [`Scratch::new`] makes them.
fn is_of_ours(name: &str) -> bool {
    let numbers = name.strip_prefix(PREFIX).and_then(|numbers| numbers.split_once('-'));
    numbers.is_some_and(|(process, number)| {
        [process, number].iter().all(|number| number.parse::<u32>().is_ok_and(|parsed| parsed.to_string() == *number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tmpdir_is_none() {
        assert_eq!(temporary(PathBuf::new()), Path::new("/tmp"));
        assert_eq!(temporary("/var/tmp".into()), Path::new("/var/tmp"));
    }

    #[test]
    fn folders_that_nobody_uses_are_swept_away_and_all_others_stay() {
        let all = Scratch::new().unwrap();
        let all = all.path();
        let living = Scratch::new_in(all).unwrap();
        let named = |name: &str| {
            let folder = all.join(format!("{PREFIX}{}{name}", (1 << 22) + process::id()));
            fs::create_dir(&folder).unwrap();
            folder
        };
        let (dead, half_made) = (named("-0"), named("-1"));
        let others = [named("-2-pictures"), named(""), named("-02"), named("-3")];
        [&dead, &others[0], &others[1], &others[2]]
            .into_iter()
            .for_each(|folder| fs::write(folder.join(MARK), []).unwrap());
        fs::write(others[3].join("holiday.png"), []).unwrap();
        sweep_in(all);
        assert!(living.path().join(MARK).exists() && !dead.exists() && !half_made.exists());
        assert!(others.iter().all(|folder| folder.exists()));
        let path = living.path().to_owned();
        drop(living);
        assert!(!path.exists());
    }
}
