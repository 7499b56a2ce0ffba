//! Result files. They appear whole or not at all: they are written beside their place under another name and then
//! renamed. Devices and pipes are written to as they are.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use deck::{Error, ErrorKind, Result};

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
    let whole = match place_of(path) {
        Place::File(whole) => whole,
        Place::Stream => {
            let written = File::options().write(true).open(path).and_then(fill);
            return written.map_err(|error| not_written(path, error));
        }
    };
    let part = part_of(&whole);
    File::create(&part).and_then(fill).and_then(|()| fs::rename(&part, &whole)).map_err(|error| {
        // Already failing: that the rest cannot be removed either adds nothing.
        let _ = fs::remove_file(&part);
        not_written(path, error)
    })
}

/// Where a result goes.
enum Place {
    /// Into a file that appears whole; links to it stay.
    File(PathBuf),
    /// Into a device or a pipe, which takes what is written to it.
    Stream,
}

fn place_of(path: &Path) -> Place {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Place::Stream;
    }
    // What is not there yet has no other name.
    Place::File(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
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
    let Place::File(whole) = place_of(path) else { return Ok(()) };
    let part = part_of(&whole);
    File::create(&part).and_then(|_| fs::remove_file(&part)).map_err(|error| not_written(path, error))
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
