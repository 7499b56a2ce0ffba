//! Result files. They appear whole or not at all: they are written beside their place under another name and then
//! renamed. A file that was there before hands on its permissions. Devices, pipes and descriptors are written to as they
//! are.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use deck::{Error, ErrorKind, Result};

use crate::place::{Place, create_part, folder_of, open_stream};

/// Writes rows of pixels (red, green, blue, a byte each) as a PNG file, the upper row first.
///
/// # Errors
/// [`ErrorKind::System`] with the operating system's reason; a file that was there before is as it was.
pub fn save_png(path: &Path, (width, height): (u32, u32), rows: impl Iterator<Item = Vec<u8>>) -> Result<()> {
    save(path, |file| {
        let mut encoder = png::Encoder::new(file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        let mut pixels = writer.stream_writer()?;
        for row in rows {
            pixels.write_all(&row)?;
        }
        pixels.finish()?;
        writer.finish()?;
        Ok(())
    })
}

/// Writes a file with whatever `write` gives to it.
///
/// # Errors
/// As [`save_png`].
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let fill = |file: File| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file)?;
        file.flush()
    };
    let saved = Place::of(path).and_then(|place| match place {
        Place::Stream(stream) => fill(open_stream(&stream)?),
        Place::File { path, before } => {
            let part = part_of(&path);
            let written = match create_part(&part, before.as_ref()) {
                Ok(Some(file)) => fill(file).and_then(|()| fs::rename(&part, &path)),
                Ok(None) => {
                    fs::remove_file(&part)?;
                    return fill(File::options().write(true).truncate(true).open(&path)?);
                }
                Err(error) => Err(error),
            };
            // Already failing: that the rest cannot be removed either adds nothing.
            written.inspect_err(|_| drop(fs::remove_file(&part)))
        }
    });
    saved.map_err(|error| not_written(path, error))
}

/// Finds out before a long calculation whether its result can be written to `path` afterwards.
///
/// # Errors
/// As [`save_png`], and [`ErrorKind::Invalid`] for a folder.
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        let error = Error::new(ErrorKind::Invalid, format!("writing {}, which is a folder", path.display()));
        return Err(error.with_remedy("name a file"));
    }
    let checked = Place::of(path).and_then(|place| match place {
        Place::Stream(_) => Ok(()),
        Place::File { path, .. } => {
            let part = part_of(&path);
            File::create(&part).and_then(|_| fs::remove_file(&part))
        }
    });
    checked.map_err(|error| not_written(path, error))
}

/// Whether two paths are the same file, which may not be there yet. Devices, pipes and descriptors never are: two results
/// may well go to one.
pub fn are_one(first: &Path, second: &Path) -> bool {
    match (Place::followed(first), Place::followed(second)) {
        (Ok(Place::File { path: first, before: Some(one) }), Ok(Place::File { path: second, before: Some(other) })) => {
            first == second || (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Ok(Place::File { path: first, before: None }), Ok(Place::File { path: second, before: None })) => {
            first.file_name() == second.file_name()
                && fs::canonicalize(folder_of(&first)).ok() == fs::canonicalize(folder_of(&second)).ok()
        }
        _ => false,
    }
}

/// The name that a file has until it is whole; of this process, so that two runs do not write into one another's.
fn part_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

fn not_written(path: &Path, error: io::Error) -> Error {
    let what = format!("writing {}", path.display());
    let failure = match error.raw_os_error() {
        Some(errno) => Error::new(ErrorKind::System, what).with_os(errno),
        None => Error::new(ErrorKind::System, format!("{what}: {error}")),
    };
    failure.with_remedy("name a file in a folder that exists, that you may write to and that has room")
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("user-interface-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_png_file_reads_back_as_its_rows() {
        let folder = Folder::new("png");
        let path = folder.0.join("picture.png");
        let rows: Vec<Vec<u8>> = (0..40u8).map(|row| (0..180).map(|byte| byte ^ row).collect()).collect();
        save_png(&path, (60, 40), rows.clone().into_iter()).unwrap();
        let mut reader = png::Decoder::new(io::BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (60, 40));
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, rows.concat());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing but the picture is left");
    }

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_nothing_else() {
        let folder = Folder::new("unfinished");
        let path = folder.0.join("picture.png");
        fs::write(&path, "old").unwrap();
        assert!(save_png(&path, (60, 40), std::iter::once(vec![0; 180])).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn links_and_pipes_stay_what_they_are() {
        let folder = Folder::new("links");
        let (file, link) = (folder.0.join("picture.png"), folder.0.join("latest.png"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("picture.png", &link).unwrap();
        check_writable(&link).unwrap();
        save(&link, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);

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
        let folder = Folder::new("dangling");
        let (file, link) = (folder.0.join("picture.png"), folder.0.join("latest.png"));
        std::os::unix::fs::symlink("picture.png", &link).unwrap();
        check_writable(&link).unwrap();
        save(&link, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    }

    #[test]
    fn a_file_keeps_its_permissions_and_its_owner() {
        let folder = Folder::new("permissions");
        let path = folder.0.join("picture.png");
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
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_may_not_be_written_to_stays() {
        let folder = Folder::new("read-only");
        let path = folder.0.join("picture.png");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        if File::options().write(true).open(&path).is_ok() {
            return; // Root may.
        }
        assert_eq!(check_writable(&path).unwrap_err().os_error(), Some(13));
        assert_eq!(save(&path, |file| file.write_all(b"new")).unwrap_err().os_error(), Some(13));
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_file_behind_a_descriptor_is_written_to_as_it_is() {
        let folder = Folder::new("descriptor");
        let path = folder.0.join("log");
        fs::write(&path, "before, ").unwrap();
        let log = File::options().append(true).open(&path).unwrap();
        let inode = log.metadata().unwrap().ino();
        let through = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log)));
        check_writable(&through).unwrap();
        save(&through, |file| file.write_all(b"after")).unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino()), (b"before, after".to_vec(), inode));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn names_of_one_file_are_told_from_names_of_two() {
        let folder = Folder::new("one");
        let at = |name: &str| folder.0.join(name);
        fs::write(at("file"), "").unwrap();
        fs::write(at("other"), "").unwrap();
        fs::hard_link(at("file"), at("twin")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        std::os::unix::fs::symlink("new", at("dangling")).unwrap();
        for (first, second) in
            [("file", "file"), ("file", "twin"), ("link", "file"), ("new", "./new"), ("new", "dangling")]
        {
            assert!(are_one(&at(first), &at(second)), "{first} {second}");
        }
        for (first, second) in [("file", "other"), ("file", "new"), ("new", "newer"), ("no/new", "new")] {
            assert!(!are_one(&at(first), &at(second)), "{first} {second}");
        }
        assert!(!are_one(Path::new("/dev/null"), Path::new("/dev/null")));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_the_calculation() {
        let folder = Folder::new("refused");
        assert!(check_writable(&folder.0.join("picture.png")).is_ok());
        assert!(check_writable(&folder.0).unwrap_err().to_string().contains("folder"));
        assert!(check_writable(&folder.0.join("missing/")).unwrap_err().to_string().contains("folder"));
        let error = check_writable(&folder.0.join("missing/picture.png")).unwrap_err();
        assert_eq!(error.os_error(), Some(2));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "looking leaves nothing behind");
    }
}
