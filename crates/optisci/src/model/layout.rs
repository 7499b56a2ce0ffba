//! How a model file is laid out: one line per field, process, segment, access and message, so that people can read it,
//! tools can compare it by lines, and matrices stay together.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// The value as text, which ends in a line break.
pub(super) fn text<T: Serialize>(value: &T) -> String {
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Lines::default());
    value.serialize(&mut serializer).expect("a vector takes everything, and a model's numbers are finite");
    text.push(b'\n');
    String::from_utf8(text).expect("JSON is text")
}

#[derive(Default)]
struct Lines {
    depth: usize,
    /// The list at hand has entries on lines of their own.
    has_lines: bool,
}

impl Formatter for Lines {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.depth == 3 {
            self.has_lines = true;
            writer.write_all(b"\n    ")?;
        }
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        writer.write_all(if self.depth == 0 { b"\n}" } else { b"}" })
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (self.depth, first) {
            (1, true) => writer.write_all(b"\n  "),
            (1, false) => writer.write_all(b",\n  "),
            (_, true) => Ok(()),
            (_, false) => writer.write_all(b", "),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_lines = false;
        writer.write_all(b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        match (first, self.has_lines) {
            (true, _) => Ok(()),
            (false, true) => writer.write_all(b","),
            (false, false) => writer.write_all(b", "),
        }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        let is_list = std::mem::take(&mut self.has_lines);
        writer.write_all(if is_list { b"\n  ]" } else { b"]" })
    }
}
