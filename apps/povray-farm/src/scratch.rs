//! The folder for what one POV-Ray process writes.
//!
//! POV-Ray wants names for its files. A folder goes with the rendering that it belongs to; what a killed node left behind
//! is found by the number of its process and swept away when a later job begins.

use std::fs;
use std::io::ErrorKind::AlreadyExists;
use std::path::{Path, PathBuf};
use std::process;

use deck::{Error, ErrorKind, Result};

const PREFIX: &str = "povray-farm-";

const REMEDY: &str = "set TMPDIR to a folder that you may write to and that has room";

/// Bytes: what does not fit is some lines of a picture.
const HARDLY_ANY: u64 = 1 << 20;

/// A folder of its own, removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub fn new() -> Result<Scratch> {
        let all = std::env::temp_dir();
        let made = (0u32..).map(|number| all.join(format!("{PREFIX}{}-{number}", process::id()))).find_map(|folder| {
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == AlreadyExists => None,
                made => Some(made.map(|()| Scratch(folder))),
            }
        });
        made.unwrap_or_else(|| Err(AlreadyExists.into())).map_err(|error| {
            Error::new(ErrorKind::System, format!("creating a folder in {}: {error}", all.display()))
                .with_remedy(REMEDY)
        })
    }

    /// What to tell of a file that could not be written, if there is hardly any room left.
    pub fn no_room(&self) -> Option<Error> {
        let found = rustix::fs::statvfs(&self.0).ok()?;
        let is_full = found.f_bavail.saturating_mul(found.f_frsize) < HARDLY_ANY;
        let what = || format!("povray writes to {}, which is full", std::env::temp_dir().display());
        is_full.then(|| Error::new(ErrorKind::NoMemory, what()).with_remedy(REMEDY))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nobody can do anything about it here; the next job tries again.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes folders whose process has ended without doing so.
pub fn sweep() {
    let Ok(folder) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in folder.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another user's stays: that user's next job removes it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_swept_away_and_those_of_living_ones_stay() {
        let living = Scratch::new().unwrap();
        // No process has a number above the kernel's limit of 2^22.
        let dead = std::env::temp_dir().join(format!("{PREFIX}{}-0", (1 << 22) + process::id()));
        fs::create_dir(&dead).unwrap();
        sweep();
        assert!(living.path().exists() && !dead.exists());
    }
}
