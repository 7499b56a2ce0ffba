//! Writing results. A file appears whole or stays as it was, and hands on its permissions; devices, pipes and descriptors
//! are written to as they are.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

/// Writes a result: the whole of it, or the file stays as it was.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let written = Place::of(path).and_then(|place| match place {
        Place::Stream(stream) => open_stream(&stream)?.write_all(text.as_bytes()),
        Place::File { path, before } => replace(&path, before.as_ref(), text),
    });
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Tells beforehand what [`write`] would fail with; leaves everything as it was.
pub fn try_to_write(path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err(format!("{} cannot be written: it is a folder", path.display()));
    }
    let tried = Place::of(path).and_then(|place| match place {
        Place::Stream(_) => Ok(()),
        Place::File { path, .. } => {
            let unfinished = unfinished(&path);
            fs::write(&unfinished, "").and_then(|()| fs::remove_file(&unfinished))
        }
    });
    tried.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Whether a result would take the place of what it is made of.
pub fn are_one(output: &Path, input: &Path) -> bool {
    let Ok(Place::File { before: Some(output), .. }) = Place::followed(output) else { return false };
    fs::metadata(input).is_ok_and(|input| (input.dev(), input.ino()) == (output.dev(), output.ino()))
}

/// Where a result goes.
enum Place {
    /// Into a file that appears whole; links to it stay. `before` is about the one that is there.
    File { path: PathBuf, before: Option<Metadata> },
    /// Into a device, a pipe or what a descriptor is open for, which take what is written to them.
    Stream(PathBuf),
}

impl Place {
    /// Fails if there is a file that this process may not write to.
    fn of(path: &Path) -> io::Result<Place> {
        let place = Place::followed(path)?;
        if let Place::File { path, before: Some(_) } = &place {
            File::options().write(true).open(path)?;
        }
        Ok(place)
    }

    /// Does not ask whether anybody may write there.
    fn followed(path: &Path) -> io::Result<Place> {
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

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Opens what takes everything that is written to it.
fn open_stream(path: &Path) -> io::Result<File> {
    let own = fs::canonicalize("/proc/self/fd").ok();
    let is_own = own.is_some_and(|own| fs::canonicalize(folder_of(path)).is_ok_and(|folder| folder == own));
    // Opened anew, a file is written from its beginning, and what others write to the descriptor goes over that.
    match path.file_name().and_then(|name| name.to_str()).filter(|_| is_own) {
        Some("1") => io::stdout().as_fd().try_clone_to_owned().map(File::from),
        Some("2") => io::stderr().as_fd().try_clone_to_owned().map(File::from),
        _ => File::options().append(fs::metadata(path)?.is_file()).write(true).open(path),
    }
}

fn replace(path: &Path, before: Option<&Metadata>, text: &str) -> io::Result<()> {
    let unfinished = unfinished(path);
    let result = match create_like(&unfinished, before) {
        Ok(Some(mut file)) => file.write_all(text.as_bytes()).and_then(|()| fs::rename(&unfinished, path)),
        Ok(None) => {
            fs::remove_file(&unfinished)?;
            return fs::write(path, text);
        }
        Err(error) => Err(error),
    };
    if result.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    result
}

/// The file that takes the place of the one `before`, for the same users; `None` if it cannot be given to them.
fn create_like(path: &Path, before: Option<&Metadata>) -> io::Result<Option<File>> {
    let Some(before) = before else { return File::create(path).map(Some) };
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let found = file.metadata()?;
    let is_other = (found.uid(), found.gid()) != (before.uid(), before.gid());
    if is_other && fchown(&file, Some(before.uid()), Some(before.gid())).is_err() {
        return Ok(None);
    }
    file.set_permissions(before.permissions())?;
    Ok(Some(file))
}

/// What a file is called while it is being written.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder of its own that goes with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("deck-place-writing-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "old").unwrap();
            path
        }

        fn files(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_link_stays_a_link_and_its_file_is_written() {
        let folder = Folder::new("links");
        let (file, link) = (folder.0.join("model.json"), folder.0.join("latest.json"));
        symlink("model.json", &link).unwrap();
        for text in ["made through a link to nothing", "replaced"] {
            assert_eq!(try_to_write(&link).and_then(|()| write(&link, text)), Ok(()));
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        assert_eq!(folder.files(), 2);
    }

    #[test]
    fn a_file_keeps_its_permissions_and_its_owner() {
        let folder = Folder::new("permissions");
        let file = folder.file("model.json");
        // Only root may give a file away.
        let _ = std::os::unix::fs::chown(&file, Some(4321), Some(4321));
        let owner = fs::metadata(&file).unwrap().uid();
        for mode in [0o600, 0o640, 0o755] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(try_to_write(&file).and_then(|()| write(&file, "new")), Ok(()));
            let found = fs::metadata(&file).unwrap();
            assert_eq!((found.permissions().mode() & 0o7777, found.uid()), (mode, owner));
        }
        assert_eq!(folder.files(), 1);
    }

    #[test]
    fn a_file_that_may_not_be_written_to_stays() {
        let folder = Folder::new("read-only");
        let file = folder.file("model.json");
        fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
        if File::options().write(true).open(&file).is_ok() {
            return; // Root may.
        }
        assert!(try_to_write(&file).unwrap_err().contains("denied"));
        assert!(write(&file, "new").unwrap_err().contains("denied"));
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
    }

    #[test]
    fn a_file_behind_a_descriptor_is_written_to_as_it_is() {
        let folder = Folder::new("descriptor");
        let file = folder.file("log");
        let log = File::options().append(true).open(&file).unwrap();
        let through = PathBuf::from(format!("/proc/self/fd/{}", log.as_raw_fd()));
        assert_eq!(try_to_write(&through).and_then(|()| write(&through, ", new")), Ok(()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "old, new");
        assert_eq!((fs::metadata(&file).unwrap().ino(), folder.files()), (log.metadata().unwrap().ino(), 1));
    }
}
