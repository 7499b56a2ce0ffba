//! Lines: cutting what was read into whole ones, and writing pieces of several nodes without mixing their lines.

use std::io::{self, Write};

/// The longest line that is passed in one piece, in bytes.
pub const LINE_LIMIT: usize = 64 * 1024;

/// Who printed something: a process number, or [`OURSELVES`].
pub type Origin = u32;

/// `deck run` itself. No process that anybody starts has this number.
pub const OURSELVES: Origin = 0;

/// Bytes that were read and not yet passed on, at most [`LINE_LIMIT`].
pub struct LineBuffer {
    bytes: Box<[u8]>,
    filled: usize,
}

/// How much may be passed on now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing: the line has not ended yet.
    Nothing,
    /// This many bytes: they end with the end of a line.
    Lines(usize),
    /// All bytes: part of a line that is too long to wait for its end.
    Part(usize),
}

impl LineBuffer {
    /// An empty one.
    pub fn new() -> LineBuffer {
        LineBuffer { bytes: vec![0; LINE_LIMIT].into_boxed_slice(), filled: 0 }
    }

    /// Room to read into; never empty after [`LineBuffer::cut`] and [`LineBuffer::passed`].
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// `count` bytes were read into the room.
    pub fn read(&mut self, count: usize) {
        self.filled += count;
    }

    /// What is there.
    pub fn content(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// How much of the content may be passed on.
    pub fn cut(&self) -> Cut {
        match self.content().iter().rposition(|&byte| byte == b'\n') {
            Some(last) => Cut::Lines(last + 1),
            None if self.filled == self.bytes.len() => Cut::Part(self.filled),
            None => Cut::Nothing,
        }
    }

    /// The first `count` bytes were passed on.
    pub fn passed(&mut self, count: usize) {
        self.bytes.copy_within(count..self.filled, 0);
        self.filled -= count;
    }
}

/// Puts `tag` and a blank in front of each line of `content` and an end to the last one.
pub fn tagged(tag: &str, content: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(content.len() + tag.len() + 2);
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        lines.extend_from_slice(tag.as_bytes());
        lines.push(b' ');
        lines.extend_from_slice(line);
    }
    if !content.ends_with(b"\n") {
        lines.push(b'\n');
    }
    lines
}

/// Where pieces of several origins are written one after the other.
pub struct Sink<W> {
    to: W,
    /// Who wrote last, if that line still lacks its end.
    unfinished: Option<Origin>,
}

impl<W: Write> Sink<W> {
    /// Writes to `to`.
    pub fn new(to: W) -> Sink<W> {
        Sink { to, unfinished: None }
    }

    /// Writes a piece; if somebody else's line lacks its end, on a line of its own.
    pub fn write(&mut self, origin: Origin, piece: &[u8]) -> io::Result<()> {
        if self.unfinished.is_some_and(|other| other != origin) {
            self.to.write_all(b"\n")?;
        }
        self.unfinished = (!piece.ends_with(b"\n")).then_some(origin);
        self.to.write_all(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffer: &mut LineBuffer, bytes: &[u8]) {
        buffer.room()[..bytes.len()].copy_from_slice(bytes);
        buffer.read(bytes.len());
    }

    #[test]
    fn only_whole_lines_are_cut() {
        let mut buffer = LineBuffer::new();
        assert_eq!(buffer.cut(), Cut::Nothing);
        read(&mut buffer, b"one\ntwo\nthr");
        assert_eq!(buffer.cut(), Cut::Lines(8));
        buffer.passed(8);
        assert_eq!((buffer.content(), buffer.cut()), (&b"thr"[..], Cut::Nothing));
        read(&mut buffer, b"ee\n");
        assert_eq!((buffer.content(), buffer.cut()), (&b"three\n"[..], Cut::Lines(6)));
    }

    #[test]
    fn a_line_of_the_limit_is_one_piece_and_a_longer_one_is_cut() {
        let mut buffer = LineBuffer::new();
        read(&mut buffer, &vec![b'x'; LINE_LIMIT - 1]);
        assert_eq!(buffer.cut(), Cut::Nothing);
        read(&mut buffer, b"\n");
        assert_eq!(buffer.cut(), Cut::Lines(LINE_LIMIT));
        buffer.passed(LINE_LIMIT);
        read(&mut buffer, &vec![b'x'; LINE_LIMIT]);
        assert_eq!(buffer.cut(), Cut::Part(LINE_LIMIT));
        buffer.passed(LINE_LIMIT);
        assert_eq!(buffer.room().len(), LINE_LIMIT);
    }

    #[test]
    fn every_line_gets_its_tag_and_its_end() {
        assert_eq!(tagged("[1]", b"a\n\nb"), b"[1] a\n[1] \n[1] b\n");
        assert_eq!(tagged("[1]", b"\xff\0\n"), b"[1] \xff\0\n");
    }

    #[test]
    fn a_line_without_end_is_left_alone_by_its_owner_and_ended_by_others() {
        let mut sink = Sink::new(Vec::new());
        sink.write(1, b"half").unwrap();
        sink.write(1, b" and half").unwrap();
        sink.write(2, b"whole\n").unwrap();
        sink.write(1, b"tail").unwrap();
        assert_eq!(sink.to, b"half and half\nwhole\ntail");
    }
}
