//! Result files. They appear whole or not at all: they are written without a name in the folder of their place, and get
//! it when they are whole. A file that was there before hands on its permissions. If it has to stay, because it is
//! another user's or is mounted there, the result is copied over it when it is whole. Only in a folder that takes no
//! new file it is written over from the first. Devices, pipes and descriptors are written to as they are. A run that is
//! killed leaves nothing, but where the file system has no files without names (NFS, FAT), or in the moment in which a
//! new file takes the place of an old one: then it leaves what it had beside that, as `.deck-*.part`. Nobody else can
//! tell it from a result that is still written, or is to be kept.
//!
//! | file | idea |
//! |---|---|
//! | `lib` | writing a result, and finding out beforehand whether that will do |
//! | `place` | where it goes: into a file, or straight into what takes whatever is written to it |
//! | `part` | a file until it is whole |
#![forbid(unsafe_code)]

mod part;
mod place;

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use part::{Part, write_over};
use place::{Place, folder_of, open_stream};

/// Writes a file with whatever `write` gives to it.
///
/// # Errors
/// With the operating system's reason. A file that was there before is as it was, but for two cases: in a folder that
/// takes no new file it has what came until then; and if copying over a file that has to stay has failed, the error
/// names the file that has the whole result.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let fill = |file: &File| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file)?;
        file.flush()
    };
    match Place::of(path)? {
        Place::Stream(stream) => fill(&open_stream(&stream)?),
        Place::File { path, before } => match Part::create(&path, before)? {
            Some(part) => fill(&part.file).and_then(|()| part.take_place()),
            None => fill(&write_over(&path)?),
        },
    }
}

/// Finds out before a long calculation whether its result can be written to `path` afterwards. Leaves everything as it
/// was.
///
/// # Errors
/// As [`save`], and [`ErrorKind::IsADirectory`] for a folder, also one that is not there.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(ErrorKind::IsADirectory.into());
    }
    match Place::of(path)? {
        Place::Stream(_) => Ok(()),
        Place::File { path, before } => Part::create(&path, before).map(drop),
    }
}

/// Whether two paths are the same file, which may not be there yet. Devices, pipes and descriptors never are: two
/// results may well go to one.
pub fn are_one(first: &Path, second: &Path) -> bool {
    match (Place::followed(first), Place::followed(second)) {
        (Ok(Place::File { path: first, before: Some(one) }), Ok(Place::File { path: second, before: Some(other) })) => {
            first == second || (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Ok(Place::File { path: first, before: None }), Ok(Place::File { path: second, before: None })) => {
            let folders = [&first, &second].map(|path| fs::canonicalize(folder_of(path)));
            first.file_name() == second.file_name() && matches!(folders, [Ok(one), Ok(other)] if one == other)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_nothing_else() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        fs::write(&path, "old").unwrap();
        let half = |file: &mut dyn Write| file.write_all(b"ne").and_then(|()| Err(ErrorKind::Other.into()));
        assert!(save(&path, half).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_pipes_stay_what_they_are() {
        let folder = tempdir().unwrap();
        let (file, link) = (folder.path().join("picture.png"), folder.path().join("latest.png"));
        fs::write(&file, "old").unwrap();
        symlink("picture.png", &link).unwrap();
        check_writable(&link).unwrap();
        save(&link, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);

        let (mut reader, writer) = io::pipe().unwrap();
        let pipe = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer)));
        check_writable(&pipe).unwrap();
        save(&pipe, |file| file.write_all(b"through")).unwrap();
        drop(writer);
        let mut read = String::new();
        io::Read::read_to_string(&mut reader, &mut read).unwrap();
        assert_eq!(read, "through");
    }

    #[test]
    fn a_link_to_nothing_is_written_through() {
        let folder = tempdir().unwrap();
        let (file, link) = (folder.path().join("picture.png"), folder.path().join("latest.png"));
        symlink("picture.png", &link).unwrap();
        check_writable(&link).unwrap();
        save(&link, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn two_runs_of_one_process_number_write_whole_files_each() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let first = |file: &mut dyn Write| {
            file.write_all(b"fir")?;
            check_writable(&path)?;
            save(&path, |file| file.write_all(b"second"))?;
            assert_eq!(fs::read(&path)?, b"second");
            file.write_all(b"st")
        };
        save(&path, first).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_keeps_its_permissions_and_its_owner() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        fs::write(&path, "old").unwrap();
        // Only root may give a file away.
        let _ = std::os::unix::fs::chown(&path, Some(4321), Some(4321));
        let owner = fs::metadata(&path).unwrap().uid();
        for mode in [0o600, 0o640, 0o755] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            check_writable(&path).unwrap();
            save(&path, |file| file.write_all(b"new")).unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.permissions().mode() & 0o7777, found.uid()), (mode, owner));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_may_not_be_written_to_stays() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        if File::options().write(true).open(&path).is_ok() {
            return; // Root may.
        }
        assert_eq!(check_writable(&path).unwrap_err().raw_os_error(), Some(13));
        assert_eq!(save(&path, |file| file.write_all(b"new")).unwrap_err().raw_os_error(), Some(13));
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_file_behind_a_descriptor_is_written_to_as_it_is() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "before, ").unwrap();
        let log = File::options().append(true).open(&path).unwrap();
        let inode = log.metadata().unwrap().ino();
        let through = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log)));
        check_writable(&through).unwrap();
        save(&through, |file| file.write_all(b"after")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino()), (b"before, after".to_vec(), inode));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_name_may_be_as_long_as_the_file_system_has_it() {
        let folder = tempdir().unwrap();
        let [longest, too_long] = [255, 256].map(|bytes| folder.path().join("z".repeat(bytes)));
        check_writable(&longest).unwrap();
        save(&longest, |file| file.write_all(b"new")).unwrap();
        save(&longest, |file| file.write_all(b"newer")).unwrap();
        assert_eq!(fs::read(&longest).unwrap(), b"newer");
        assert_eq!(check_writable(&too_long).unwrap_err().raw_os_error(), Some(36));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_has_no_name_before_it_is_whole() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let half = |file: &mut dyn Write| {
            file.write_all(b"half")?;
            file.flush()?;
            // What a run that is killed here leaves behind.
            assert_eq!(fs::read_dir(folder.path())?.count(), 0);
            Ok(())
        };
        save(&path, half).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"half");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7600, 0o600);
    }

    #[test]
    fn names_of_one_file_are_told_from_names_of_two() {
        let folder = tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        fs::hard_link(at("file"), at("twin")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("new", at("dangling")).unwrap();
        for (first, second) in
            [("file", "file"), ("file", "twin"), ("link", "file"), ("new", "./new"), ("new", "dangling")]
        {
            assert!(are_one(&at(first), &at(second)), "{first} {second}");
        }
        for (first, second) in
            [("file", "other"), ("file", "new"), ("new", "newer"), ("no/new", "new"), ("no1/new", "no2/new")]
        {
            assert!(!are_one(&at(first), &at(second)), "{first} {second}");
        }
        assert!(!are_one(Path::new("/dev/null"), Path::new("/dev/null")));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_the_calculation() {
        let folder = tempdir().unwrap();
        assert!(check_writable(&folder.path().join("picture.png")).is_ok());
        assert_eq!(check_writable(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(check_writable(&folder.path().join("missing/")).unwrap_err().kind(), ErrorKind::IsADirectory);
        let error = check_writable(&folder.path().join("missing/picture.png")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(2));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "looking leaves nothing behind");
    }
}
