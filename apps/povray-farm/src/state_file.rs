//! The lines that POV-Ray has finished, while it is still rendering.
//!
//! POV-Ray writes its picture when all of it is ready, but keeps a *render state file* from which a stopped render can
//! be continued, and every finished block of pixels goes there at once. The form of the file was read off POV-Ray 3.7's
//! source (`ImageMessageHandler::DrawPixelBlockSet`, `POVMS`):
//!
//! ```text
//! head of 512 bytes: "POV-Ray Render State File", ...
//! then messages:     "POVRAYMS" version length "RAWS" "OBJE" count, and so many attributes
//! an attribute:      key type count, then count bytes, or count 4-byte floats if the type is "VFL4"
//! ```
//!
//! Keys and types are four letters, numbers 32 bits with the highest byte first. A block has the attributes `Left`,
//! `Top `, `Righ`, `Bott` (inclusive) and `PBlo`, five floats for each pixel: red, green, blue, nothing, transparency.
//! Whatever does not look like that ends the reading: the lines are for people who look on, and the picture comes from
//! POV-Ray itself.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;

const HEAD: usize = 512;
const MESSAGE_HEAD: usize = 28;
/// More than POV-Ray ever writes for a block.
const LARGEST_MESSAGE: usize = 64 << 20;
/// Floats of one pixel.
const FLOATS: usize = 5;

/// Reads a state file as it grows.
pub struct StateFile {
    path: PathBuf,
    /// The file, once it is there.
    file: Option<File>,
    /// What was read and is not understood yet.
    pending: Vec<u8>,
    is_past_head: bool,
    is_strange: bool,
    lines: Lines,
}

/// Lines of a slice, as far as they are known.
struct Lines {
    rows: Range<u32>,
    width: u32,
    gamma: f64,
    pixels: Vec<u8>,
    /// Pixels of each row that are there.
    filled: Vec<u32>,
    /// Rows that became complete since the last look.
    complete: Vec<u32>,
}

struct Block<'a> {
    left: u32,
    top: u32,
    right: u32,
    bottom: u32,
    /// Bytes of the floats.
    floats: &'a [u8],
}

impl StateFile {
    /// Will read the file at `path`, which need not be there yet, about `rows` of a picture.
    pub fn new(path: PathBuf, rows: Range<u32>, width: u32, gamma: f64) -> StateFile {
        let (mut pixels, bytes) = (Vec::new(), rows.len() * width as usize * 3);
        // Without room for them nobody looks on, and the picture comes all the same.
        let is_strange = pixels.try_reserve_exact(bytes).is_err();
        if !is_strange {
            pixels.resize(bytes, 0);
        }
        let lines = Lines { filled: vec![0; rows.len()], complete: Vec::new(), rows, width, gamma, pixels };
        StateFile { path, file: None, pending: Vec::new(), is_past_head: false, is_strange, lines }
    }

    /// Lines that were finished since the last call: runs of rows with their pixels of three bytes.
    pub fn news(&mut self) -> Vec<(Range<u32>, Vec<u8>)> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        // A file that cannot be read is one more of those that do not look like a state file.
        if let Some(file) = self.file.as_mut().filter(|_| !self.is_strange) {
            self.is_strange |= file.read_to_end(&mut self.pending).is_err();
        }
        self.understand();
        self.lines.news()
    }

    fn understand(&mut self) {
        if !self.is_past_head && self.pending.len() >= HEAD {
            self.is_strange |= !self.pending.starts_with(b"POV-Ray Render State File");
            self.pending.drain(..HEAD);
            self.is_past_head = true;
        }
        let mut at = 0;
        while self.is_past_head && !self.is_strange {
            let rest = &self.pending[at..];
            let Some(length) = message_length(rest) else { break };
            let Some(length) = length.filter(|&length| length <= LARGEST_MESSAGE) else {
                self.is_strange = true;
                break;
            };
            let Some(message) = rest.get(..length) else { break };
            self.is_strange = block(message).is_some_and(|block| self.lines.fill(&block).is_none());
            at += length;
        }
        self.pending.drain(..at);
        if self.is_strange {
            self.pending.clear();
        }
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Bytes of the message that begins here. `None`: not known yet. `Some(None)`: no message.
fn message_length(bytes: &[u8]) -> Option<Option<usize>> {
    let object = number(bytes, 12)? as usize;
    let is_message = bytes.starts_with(b"POVRAYMS") && object + 20 >= MESSAGE_HEAD;
    Some(is_message.then_some(object + 20))
}

/// The block of pixels in a message, if it has one.
fn block(message: &[u8]) -> Option<Block<'_>> {
    let count = number(message, MESSAGE_HEAD - 4)?;
    let mut at = MESSAGE_HEAD;
    let (mut corners, mut floats) = ([None; 4], None);
    for _ in 0..count {
        let (key, kind) = (message.get(at..at + 4)?, message.get(at + 4..at + 8)?);
        let bytes = number(message, at + 8)? as usize * if kind == b"VFL4" { 4 } else { 1 };
        let value = message.get(at + 12..(at + 12).checked_add(bytes)?)?;
        match key {
            b"Left" => corners[0] = number(value, 0),
            b"Top " => corners[1] = number(value, 0),
            b"Righ" => corners[2] = number(value, 0),
            b"Bott" => corners[3] = number(value, 0),
            b"PBlo" => floats = Some(value),
            _ => {}
        }
        at += 12 + bytes;
    }
    let [left, top, right, bottom] = corners;
    Some(Block { left: left?, top: top?, right: right?, bottom: bottom?, floats: floats? })
}

impl Lines {
    /// Takes in a block, or as much of it as is wanted; `None` if it cannot be one of this picture.
    fn fill(&mut self, block: &Block<'_>) -> Option<()> {
        let &Block { left, top, right, bottom, floats } = block;
        if left > right || right >= self.width || top > bottom || bottom >= self.rows.end {
            return None;
        }
        let across = (right - left + 1) as usize;
        let mut pixels = floats.chunks_exact(4 * FLOATS);
        if pixels.len() != across * (bottom - top + 1) as usize {
            return None;
        }
        for row in top..=bottom {
            let Some(row) = row.checked_sub(self.rows.start) else {
                // Not one of ours.
                pixels.nth(across - 1);
                continue;
            };
            let start = (row as usize * self.width as usize + left as usize) * 3;
            for (pixel, floats) in self.pixels[start..start + across * 3].chunks_exact_mut(3).zip(&mut pixels) {
                for (byte, float) in pixel.iter_mut().zip(floats.chunks_exact(4)) {
                    let light = f32::from_be_bytes(float.try_into().ok()?);
                    *byte = encoded(f64::from(light), self.gamma);
                }
            }
            self.filled[row as usize] += across as u32;
            if self.filled[row as usize] == self.width {
                self.complete.push(self.rows.start + row);
            }
        }
        Some(())
    }

    fn news(&mut self) -> Vec<(Range<u32>, Vec<u8>)> {
        let mut complete = std::mem::take(&mut self.complete);
        complete.sort_unstable();
        complete
            .chunk_by(|&row, &next| row + 1 == next)
            .map(|run| {
                let (first, last) = (run[0], run[run.len() - 1]);
                let place = |row: u32| (row - self.rows.start) as usize * self.width as usize * 3;
                (first..last + 1, self.pixels[place(first)..place(last + 1)].to_vec())
            })
            .collect()
    }
}

/// Light as a byte of a picture (IEC 61966-2-1, sRGB), as POV-Ray encodes it.
fn encoded(light: f64, gamma: f64) -> u8 {
    let light = light.clamp(0.0, 1.0).powf(gamma);
    let value = if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
    (value * 255.0 + 0.5) as u8
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use proptest::prelude::*;
    use tempfile::{TempDir, tempdir};

    use super::*;

    fn attribute(key: &[u8], kind: &[u8], count: u32, value: &[u8]) -> Vec<u8> {
        [key, kind, &count.to_be_bytes(), value].concat()
    }

    /// A message as POV-Ray writes it about a block of one shade.
    fn message([left, top, right, bottom]: [u32; 4], light: f32) -> Vec<u8> {
        let floats = (right - left + 1) * (bottom - top + 1) * FLOATS as u32;
        let corner = |key: &[u8], value: u32| attribute(key, b"INT4", 4, &value.to_be_bytes());
        let object = [
            b"OBJE".to_vec(),
            6u32.to_be_bytes().to_vec(),
            attribute(b"OCLA", b"TYPE", 4, b"PixD"),
            attribute(b"PBlo", b"VFL4", floats, &light.to_be_bytes().repeat(floats as usize)),
            corner(b"Left", left),
            corner(b"Top ", top),
            corner(b"Righ", right),
            corner(b"Bott", bottom),
        ]
        .concat();
        let length = (object.len() as u32).to_be_bytes();
        [&b"POVRAYMS"[..], &0x370u32.to_be_bytes(), &length, b"RAWS", &object].concat()
    }

    fn head() -> Vec<u8> {
        let mut head = b"POV-Ray Render State File\0\0\0".to_vec();
        head.resize(HEAD, 7);
        head
    }

    /// The folder goes with the test.
    fn file() -> (TempDir, PathBuf, StateFile) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("scene.pov-state");
        (folder, path.clone(), StateFile::new(path, 4..8, 6, 1.0))
    }

    fn write(path: &PathBuf, bytes: &[u8]) {
        OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(bytes).unwrap();
    }

    #[test]
    fn a_line_is_told_once_when_all_its_blocks_are_there_and_in_pieces_too() {
        let (_folder, path, mut state) = file();
        assert!(state.news().is_empty(), "before POV-Ray has begun");
        let (left, right) = (message([0, 4, 3, 5], 1.0), message([4, 4, 5, 5], 0.0));
        write(&path, &[head(), left].concat());
        assert!(state.news().is_empty());
        write(&path, &right[..40]);
        assert!(state.news().is_empty());
        write(&path, &right[40..]);
        let row = [[255; 12].to_vec(), [0; 6].to_vec()].concat();
        assert_eq!(state.news(), [(4..6, row.repeat(2))]);
        assert!(state.news().is_empty());
    }

    #[test]
    fn what_is_no_state_file_tells_nothing() {
        for (name, bytes) in [
            ("other", vec![b'x'; 2000]),
            ("above", [head(), message([0, 2, 5, 3], 1.0)].concat()),
            ("below", [head(), message([0, 7, 5, 8], 1.0)].concat()),
            ("wide", [head(), message([0, 4, 6, 4], 1.0)].concat()),
            ("after", [head(), b"POVRAYMS".to_vec(), vec![255; 600]].concat()),
        ] {
            let (_folder, path, mut state) = file();
            write(&path, &bytes);
            assert!(state.news().is_empty(), "{name}");
        }
    }

    #[test]
    fn rows_above_the_slice_are_skipped() {
        let (_folder, path, mut state) = file();
        write(&path, &[head(), message([0, 2, 5, 4], 1.0)].concat());
        assert_eq!(state.news(), [(4..5, vec![255; 18])]);
    }

    #[test]
    fn light_is_encoded_as_srgb() {
        assert_eq!([encoded(-1.0, 1.0), encoded(0.0, 1.0), encoded(1.0, 1.0), encoded(9.0, 1.3)], [0, 0, 255, 255]);
        assert_eq!(encoded(0.215_86, 1.0), 128);
    }

    proptest! {
        #[test]
        fn no_message_is_too_strange_to_be_skipped(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = block(&[message([0, 4, 1, 4], 0.5)[..28].to_vec(), bytes].concat());
        }
    }
}
