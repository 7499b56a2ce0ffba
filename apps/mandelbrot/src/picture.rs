//! The counts of all pixels, and the files made of them.
//!
//! Files appear whole or not at all: they are written beside their place under another name and then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use deck::{Error, ErrorKind, Result};

use crate::palette::Palette;
use crate::problem::Problem;

/// The picture while it grows: a count for every pixel, 0 where no slice has arrived.
pub struct Picture {
    problem: Problem,
    counts: Vec<u32>,
}

impl Picture {
    /// A picture in which nothing has arrived.
    pub fn new(problem: Problem) -> Picture {
        Picture { problem, counts: vec![0; problem.pixels()] }
    }

    /// Counts of one slice, row by row.
    pub fn slice(&self, slice: u32) -> &[u32] {
        &self.counts[self.problem.pixels_of(slice)]
    }

    /// Place for the counts of one slice.
    pub fn slice_mut(&mut self, slice: u32) -> &mut [u32] {
        &mut self.counts[self.problem.pixels_of(slice)]
    }

    /// Writes the picture as a PNG file of 8-bit RGB.
    ///
    /// # Errors
    /// [`ErrorKind::System`] with the operating system's reason; a file that was there before is as it was.
    pub fn save_png(&self, path: &Path) -> Result<()> {
        write_whole(path, |file| self.write_png(file))
    }

    /// Writes the counts, row by row, as 32-bit little-endian numbers.
    ///
    /// # Errors
    /// As [`Picture::save_png`].
    pub fn save_counts(&self, path: &Path) -> Result<()> {
        write_whole(path, |file| self.counts.iter().try_for_each(|count| file.write_all(&count.to_le_bytes())))
    }

    fn write_png(&self, file: &mut dyn Write) -> io::Result<()> {
        let (width, height) = (self.problem.width(), self.problem.height());
        let mut encoder = png::Encoder::new(file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        let mut pixels = writer.stream_writer()?;
        let palette = Palette::new(self.problem.max_iter());
        for row in self.counts.chunks_exact(width as usize) {
            pixels.write_all(&palette.paint(row))?;
        }
        pixels.finish()?;
        writer.finish()?;
        Ok(())
    }
}

/// Finds out before a long calculation whether its result can be written to `path` afterwards.
///
/// # Errors
/// As [`Picture::save_png`].
pub fn check_writable(path: &Path) -> Result<()> {
    if path.is_dir() {
        let error = Error::new(ErrorKind::Invalid, format!("writing {}, which is a folder", path.display()));
        return Err(error.with_remedy("name a file"));
    }
    let part = part_of(path);
    File::create(&part).and_then(|_| fs::remove_file(&part)).map_err(|error| not_written(path, error))
}

fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let part = part_of(path);
    let written = File::create(&part).and_then(|file| {
        let mut file = BufWriter::with_capacity(1 << 20, file);
        write(&mut file)?;
        file.flush()?;
        fs::rename(&part, path)
    });
    written.map_err(|error| {
        // Already failing: that the rest cannot be removed either adds nothing.
        let _ = fs::remove_file(&part);
        not_written(path, error)
    })
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
    use crate::kernel;
    use crate::problem::Region;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("mandelbrot-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn finished() -> Picture {
        let problem = Problem::checked((60, 40), 7, 300, Region::FULL_SET, true).unwrap();
        let mut picture = Picture::new(problem);
        for slice in 0..problem.slices() {
            picture.slice_mut(slice).copy_from_slice(&kernel::counts(&problem, problem.rows(slice)));
        }
        picture
    }

    #[test]
    fn a_png_file_reads_back_as_the_painted_counts() {
        let (folder, picture) = (Folder::new("png"), finished());
        let path = folder.0.join("picture.png");
        picture.save_png(&path).unwrap();
        let mut reader = png::Decoder::new(io::BufReader::new(File::open(&path).unwrap())).read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (60, 40));
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, Palette::new(300).paint(&picture.counts));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing but the picture is left");
    }

    #[test]
    fn a_counts_file_holds_little_endian_numbers_row_by_row() {
        let (folder, picture) = (Folder::new("counts"), finished());
        let path = folder.0.join("counts.bin");
        picture.save_counts(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let counts: Vec<u32> = bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap())).collect();
        assert_eq!(counts, picture.counts);
        assert!(counts.contains(&300) && counts.contains(&1));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_the_calculation() {
        let folder = Folder::new("refused");
        assert!(check_writable(&folder.0.join("picture.png")).is_ok());
        assert!(check_writable(&folder.0).unwrap_err().to_string().contains("folder"));
        let error = check_writable(&folder.0.join("missing/picture.png")).unwrap_err();
        assert_eq!(error.os_error(), Some(2));
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "looking leaves nothing behind");
    }
}
