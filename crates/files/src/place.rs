//! Where a result goes: into a file, or straight into what takes whatever is written to it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Where a result goes.
pub enum Place {
    /// Into a file that appears whole; links to it stay. `before` is about the one that is there.
    File { path: PathBuf, before: Option<Metadata> },
    /// Into a device, a pipe or what a descriptor is open for, which take what is written to them.
    Stream(PathBuf),
}

impl Place {
    /// Fails if there is a file that this process may not write to.
    pub fn of(path: &Path) -> io::Result<Place> {
        let place = Place::followed(path)?;
        if let Place::File { path, before: Some(_) } = &place {
            File::options().write(true).open(path)?;
        }
        Ok(place)
    }

    /// Does not ask whether anybody may write there.
    pub fn followed(path: &Path) -> io::Result<Place> {
        let path = behind_links(path);
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() || is_told_by_the_system(&path) => Ok(Place::Stream(path)),
            Ok(found) => Ok(Place::File { path, before: Some(found) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Place::File { path, before: None }),
            Err(error) => Err(error),
        }
    }
}

/// What the path is a link to, if it is one; also where nothing is yet.
fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many as the system itself follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(target) if !is_told_by_the_system(&path) => path = folder_of(&path).join(target),
            _ => break,
        }
    }
    path
}

/// Descriptors are links there to what they are open for, but behind them may be a name that is another file's by now.
fn is_told_by_the_system(path: &Path) -> bool {
    fs::canonicalize(folder_of(path)).is_ok_and(|folder| folder.starts_with("/proc"))
}

/// The folder in which a path's last part is looked for.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what takes everything that is written to it.
pub fn open_stream(path: &Path) -> io::Result<File> {
    let own = fs::canonicalize("/proc/self/fd").ok();
    let is_own = own.is_some_and(|own| fs::canonicalize(folder_of(path)).is_ok_and(|folder| folder == own));
    // Opened anew, a file is written from its beginning, and what others write to the descriptor goes over that.
    match path.file_name().and_then(|name| name.to_str()).filter(|_| is_own) {
        Some("1") => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        Some("2") => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => File::options().append(fs::metadata(path)?.is_file()).write(true).open(path),
    }
}
