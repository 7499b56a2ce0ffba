//! Result files of the applications, with errors that say what to do.

use std::io::{self, Write};
use std::path::Path;

use deck::{Error, ErrorKind, Result};

pub use deck_files::are_one;

/// Writes rows of pixels (red, green, blue, a byte each) as a PNG file, the upper row first.
///
/// # Errors
/// [`ErrorKind::System`] with the operating system's reason; a file that was there before is as it was, as far as its
/// folder allows ([`deck_files::save`]).
pub fn save_png(path: &Path, (width, height): (u32, u32), rows: impl Iterator<Item = Vec<u8>>) -> Result<()> {
    save(path, |file| {
        let mut file = Remembering { file, errno: None };
        let written = encode(&mut file, (width, height), rows);
        written.map_err(|error| file.errno.map_or(error, io::Error::from_raw_os_error))
    })
}

fn encode(file: impl Write, (width, height): (u32, u32), rows: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
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
}

/// A file that knows why it could not be written: of the system's reason `png` keeps the words only.
struct Remembering<'a> {
    file: &'a mut dyn Write,
    errno: Option<i32>,
}

impl Remembering<'_> {
    fn remember<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| self.errno = error.raw_os_error())
    }
}

impl Write for Remembering<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.file.write(bytes);
        self.remember(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.file.flush();
        self.remember(done)
    }
}

/// Writes a file with whatever `write` gives to it.
///
/// # Errors
/// As [`save_png`].
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    deck_files::save(path, write).map_err(|error| not_written(path, error))
}

/// Finds out before a long calculation whether its result can be written to `path` afterwards.
///
/// # Errors
/// As [`save_png`], and [`ErrorKind::Invalid`] for a folder.
pub fn check_writable(path: &Path) -> Result<()> {
    deck_files::check_writable(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => {
            let what = format!("writing {}, which is a folder", path.display());
            Error::new(ErrorKind::Invalid, what).with_remedy("name a file")
        }
        _ => not_written(path, error),
    })
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
    use std::fs::{self, File};

    use tempfile::tempdir;

    use super::*;

    #[test]
    fn a_png_file_reads_back_as_its_rows() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        let rows: Vec<Vec<u8>> = (0..40u8).map(|row| (0..180).map(|byte| byte ^ row).collect()).collect();
        save_png(&path, (60, 40), rows.clone().into_iter()).unwrap();
        let mut reader = png::Decoder::new(io::BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (60, 40));
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, rows.concat());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the picture is left");
    }

    #[test]
    fn a_picture_that_cannot_be_finished_leaves_the_old_one() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("picture.png");
        fs::write(&path, "old").unwrap();
        assert!(save_png(&path, (60, 40), std::iter::once(vec![0; 180])).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_picture_for_which_there_is_no_room_is_told_as_any_other_file() {
        let full = Path::new("/dev/full");
        let rows = || std::iter::repeat_with(|| (0..=255).cycle().take(3 * 600).collect::<Vec<u8>>()).take(400);
        let picture = save_png(full, (600, 400), rows()).unwrap_err();
        let bytes = save(full, |file| rows().try_for_each(|row| file.write_all(&row))).unwrap_err();
        assert_eq!(picture.os_error(), Some(28), "{picture}");
        assert_eq!(picture.to_string(), bytes.to_string());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_the_calculation() {
        let folder = tempdir().unwrap();
        assert!(check_writable(&folder.path().join("picture.png")).is_ok());
        assert!(check_writable(folder.path()).unwrap_err().to_string().contains("folder"));
        let error = check_writable(&folder.path().join("missing/picture.png")).unwrap_err();
        assert_eq!((error.kind(), error.os_error()), (ErrorKind::System, Some(2)));
    }
}
