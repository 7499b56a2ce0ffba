//! Lines: cutting what was read into whole ones, and writing pieces of several nodes without mixing their lines.
//!
//! On a terminal there is one thing beside lines: what ends with a carriage return is a *bar*, to be overwritten by
//! what its stream prints next. It is passed on at once, stays below the lines of everybody else, and goes when its
//! stream ends.

use std::io::{self, Write};

/// The longest line that is passed in one piece, in bytes.
pub const LINE_LIMIT: usize = 64 * 1024;

/// Erases from the cursor to the end of the line: written where a bar was, with the cursor at its beginning.
const ERASE: &[u8] = b"\x1b[K";

/// Who printed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The process, by its number; 0, which no process has that anybody starts, is `deck run` itself.
    pub process: u32,
    /// Which of its two streams.
    pub stream: Stream,
}

/// One of the two streams of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// `deck run` itself.
pub const OURSELVES: Origin = Origin { process: 0, stream: Stream::Error };

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
    /// This many bytes: they end with the end of a line, or of a bar.
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

    /// How much of the content may be passed on; with `bars` also what ends with a carriage return.
    pub fn cut(&self, bars: bool) -> Cut {
        match self.content().iter().rposition(|&byte| byte == b'\n' || (bars && byte == b'\r')) {
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
    /// Whether a bar is one: on a terminal, where it can be overwritten.
    has_bars: bool,
    /// The bar that is shown, with the cursor at its beginning.
    bar: Option<(Origin, Vec<u8>)>,
    /// The process that wrote last, if that line still lacks its end.
    unfinished: Option<u32>,
}

impl<W: Write> Sink<W> {
    /// Writes to `to`, which may be a terminal that shows bars.
    pub fn new(to: W, has_bars: bool) -> Sink<W> {
        Sink { to, has_bars, bar: None, unfinished: None }
    }

    /// Whether what ends with a carriage return is a bar here.
    pub fn has_bars(&self) -> bool {
        self.has_bars
    }

    /// Writes a piece: if somebody else's line lacks its end, on a line of its own, and if somebody else's bar is
    /// shown, above it. Over its own bar a stream may write what it likes.
    pub fn write(&mut self, origin: Origin, piece: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(piece.len());
        if self.unfinished.is_some_and(|process| process != origin.process) {
            bytes.push(b'\n');
        }
        let others_bar = self.bar.take().filter(|(owner, _)| *owner != origin);
        if others_bar.is_some() {
            bytes.extend_from_slice(ERASE);
        }
        bytes.extend_from_slice(piece);
        let ends_line = piece.ends_with(b"\n");
        self.bar = match others_bar {
            _ if self.has_bars && piece.ends_with(b"\r") => Some((origin, last_line(piece).to_vec())),
            // Behind half a line there is no place for it: its stream will draw it again.
            others_bar => others_bar.filter(|_| ends_line).inspect(|(_, bar)| bytes.extend_from_slice(bar)),
        };
        self.unfinished = (!ends_line && self.bar.is_none()).then_some(origin.process);
        self.to.write_all(&bytes)
    }

    /// Nothing more comes from `origin`: its bar goes.
    pub fn ended(&mut self, origin: Origin) -> io::Result<()> {
        match self.bar.take_if(|(owner, _)| *owner == origin) {
            Some(_) => self.to.write_all(ERASE),
            None => Ok(()),
        }
    }
}

fn last_line(piece: &[u8]) -> &[u8] {
    piece.rsplit(|&byte| byte == b'\n').next().unwrap_or_default()
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
        assert_eq!(buffer.cut(false), Cut::Nothing);
        read(&mut buffer, b"one\ntwo\nthr");
        assert_eq!(buffer.cut(false), Cut::Lines(8));
        buffer.passed(8);
        assert_eq!((buffer.content(), buffer.cut(false)), (&b"thr"[..], Cut::Nothing));
        read(&mut buffer, b"ee\n");
        assert_eq!((buffer.content(), buffer.cut(false)), (&b"three\n"[..], Cut::Lines(6)));
    }

    #[test]
    fn a_line_of_the_limit_is_one_piece_and_a_longer_one_is_cut() {
        let mut buffer = LineBuffer::new();
        read(&mut buffer, &vec![b'x'; LINE_LIMIT - 1]);
        assert_eq!(buffer.cut(false), Cut::Nothing);
        read(&mut buffer, b"\n");
        assert_eq!(buffer.cut(false), Cut::Lines(LINE_LIMIT));
        buffer.passed(LINE_LIMIT);
        read(&mut buffer, &vec![b'x'; LINE_LIMIT]);
        assert_eq!(buffer.cut(false), Cut::Part(LINE_LIMIT));
        buffer.passed(LINE_LIMIT);
        assert_eq!(buffer.room().len(), LINE_LIMIT);
    }

    #[test]
    fn every_line_gets_its_tag_and_its_end() {
        assert_eq!(tagged("[1]", b"a\n\nb"), b"[1] a\n[1] \n[1] b\n");
        assert_eq!(tagged("[1]", b"\xff\0\n"), b"[1] \xff\0\n");
    }

    const fn printed_by(process: u32) -> Origin {
        Origin { process, stream: Stream::Output }
    }

    const ONE: Origin = printed_by(1);
    const TWO: Origin = printed_by(2);
    const BAR: Origin = Origin { process: 1, stream: Stream::Error };

    fn shown(has_bars: bool, pieces: &[(Origin, &str)]) -> String {
        let mut sink = Sink::new(Vec::new(), has_bars);
        pieces.iter().for_each(|(origin, piece)| sink.write(*origin, piece.as_bytes()).unwrap());
        String::from_utf8(sink.to).unwrap()
    }

    #[test]
    fn a_line_without_end_is_left_alone_by_its_owner_and_ended_by_others() {
        let pieces = [(ONE, "half"), (BAR, " and half"), (TWO, "whole\n"), (ONE, "tail")];
        assert_eq!(shown(true, &pieces), "half and half\nwhole\ntail");
    }

    #[test]
    fn a_bar_is_cut_at_once_where_bars_are_shown() {
        let mut buffer = LineBuffer::new();
        read(&mut buffer, b"line\n10%\r20");
        assert_eq!((buffer.cut(false), buffer.cut(true)), (Cut::Lines(5), Cut::Lines(9)));
    }

    #[test]
    fn a_bar_stays_below_the_lines_of_others() {
        let pieces = [(BAR, "10%\r"), (ONE, "line\n"), (TWO, "more\n"), (OURSELVES, "said\n"), (BAR, "20%\r")];
        assert_eq!(
            shown(true, &pieces),
            "10%\r\x1b[Kline\n10%\r\x1b[Kmore\n10%\r\x1b[Ksaid\n10%\r20%\r",
            "the stream of the bar itself writes over it without being helped"
        );
    }

    #[test]
    fn a_bar_gives_way_to_another_bar_and_to_half_a_line() {
        assert_eq!(
            shown(true, &[(BAR, "10%\r"), (TWO, "a\n50%\r"), (ONE, "b\n")]),
            "10%\r\x1b[Ka\n50%\r\x1b[Kb\n50%\r"
        );
        let pieces = [(BAR, "10%\r"), (TWO, "half"), (TWO, " and half\n"), (BAR, "20%\r")];
        assert_eq!(shown(true, &pieces), "10%\r\x1b[Khalf and half\n20%\r");
        assert_eq!(shown(true, &[(TWO, "half"), (BAR, "10%\r")]), "half\n10%\r");
    }

    #[test]
    fn a_line_end_of_two_bytes_that_come_apart_loses_nothing() {
        assert_eq!(shown(true, &[(ONE, "a\r"), (TWO, "b\n"), (ONE, "\n")]), "a\r\x1b[Kb\na\r\n");
    }

    #[test]
    fn where_nothing_can_be_overwritten_a_carriage_return_is_a_byte() {
        let pieces = [(BAR, "10%\r"), (TWO, "line\n"), (BAR, "20%\r")];
        assert_eq!(shown(false, &pieces), "10%\r\nline\n20%\r");
    }

    #[test]
    fn a_bar_goes_with_its_stream() {
        let mut sink = Sink::new(Vec::new(), true);
        sink.write(BAR, b"10%\r").unwrap();
        sink.ended(ONE).unwrap();
        sink.ended(BAR).unwrap();
        sink.ended(BAR).unwrap();
        sink.write(TWO, b"line\n").unwrap();
        assert_eq!(sink.to, b"10%\r\x1b[Kline\n");
    }
}
