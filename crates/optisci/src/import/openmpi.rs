//! Open MPI's monitoring component: one `.prof` file per rank, with what the rank sent to each other.
//!
//! A line is a tag, two ranks, `N bytes`, `N msgs sent`, and maybe a histogram: `E 0 1 108 bytes 27 msgs sent`. Tags:
//! `E` messages of the program, `I` messages of the library itself (what collectives are made of), `S` one-sided data
//! that the first rank put, `R` one-sided data that it got, `C` what collectives asked for. `C` lines tell again what
//! `I` lines carried, so they are left out. Other lines describe communicators and sums over them.
//!
//! Files keep directions apart, which Open MPI's own `profile2mat.pl` averages away.

use super::lines::{number, short};
use super::{Found, Input};
use crate::Error;
use crate::counted::counted;
use crate::model::file::LARGEST_WHOLE;
use crate::program::Program;
use crate::topology::MOST_NODES;

/// More ranks than any machine of Open MPI had.
const MOST_RANKS: u64 = 1 << 24;

struct Line {
    from: u32,
    to: u32,
    count: u64,
    bytes: u64,
}

pub(super) fn program(inputs: &[Input<'_>]) -> Result<Found, Error> {
    let (mut lines, mut collective) = (Vec::new(), 0u64);
    for input in inputs {
        for (index, text) in input.text.lines().enumerate() {
            let line = data(text, index + 1).map_err(|error| error.in_file(input.name))?;
            match line {
                Some(('C', _)) => collective += 1,
                Some((_, line)) => lines.push(line),
                None => {}
            }
        }
    }
    if lines.is_empty() {
        return Err(Error::whole("no data: expected lines such as \"E 0 1 108 bytes 27 msgs sent\""));
    }
    let ranks = lines.iter().map(|line| line.from.max(line.to) + 1).max().unwrap_or(0) as usize;
    // A line tells of two ranks, and no line of as many as there may be nodes for them.
    if ranks > 2 * lines.len() + MOST_NODES {
        let data = counted(lines.len(), "line", "lines");
        let message = format!("rank {} is named, but the data has {data}", ranks - 1);
        return Err(Error::whole(message));
    }
    let mut program = Program::of_ranks(ranks);
    lines.sort_by_key(|line| (line.from, line.to));
    for line in &lines {
        program.add_messages(line.from, line.to, line.count, line.bytes);
    }
    let left_out = format!(
        "{} of collectives (C) left out: the library's messages (I) carried them",
        counted(collective, "line", "lines")
    );
    let notes = if collective > 0 { vec![left_out] } else { Vec::new() };
    Ok(Found { program: Some(program), notes, ..Found::default() })
}

fn data(text: &str, line: usize) -> Result<Option<(char, Line)>, Error> {
    let mut words = text.split_whitespace();
    let tag = match words.next() {
        Some("E") => 'E',
        Some("I") => 'I',
        Some("S") => 'S',
        Some("R") => 'R',
        Some("C") => 'C',
        // Communicators (D), their collectives (O2A, A2O, A2A) and headings.
        Some("D" | "O2A" | "A2O" | "A2A") | None => return Ok(None),
        Some(word) if word.starts_with('#') => return Ok(None),
        Some(word) => {
            return Err(Error::at_line(line, format!("\"{}\": expected a tag, one of E I S R C D", short(word))));
        }
    };
    let mut next = |expected: &str, most: u64| {
        let word = words.next().ok_or_else(|| Error::at_line(line, format!("ends too early: expected {expected}")))?;
        number(word, line, expected, most)
    };
    let (first, second) = (next("a rank", MOST_RANKS)?, next("a rank", MOST_RANKS)?);
    let bytes = next("a number of bytes", LARGEST_WHOLE)?;
    let mut word = |expected: &str| match words.next() {
        Some(word) if word == expected => Ok(()),
        _ => Err(Error::at_line(line, format!("expected \"N bytes N msgs sent\", and \"{expected}\" is not there"))),
    };
    word("bytes")?;
    let count = words.next().unwrap_or_default();
    let count = number(count, line, "a number of messages", LARGEST_WHOLE)?;
    let mut word = |expected: &str| match words.next() {
        Some(word) if word == expected => Ok(()),
        _ => Err(Error::at_line(line, format!("expected \"N bytes N msgs sent\", and \"{expected}\" is not there"))),
    };
    word("msgs")?;
    word("sent")?;
    // Data that was got flows the other way.
    let (from, to) = if tag == 'R' { (second, first) } else { (first, second) };
    Ok(Some((tag, Line { from: from as u32, to: to as u32, count, bytes })))
}
