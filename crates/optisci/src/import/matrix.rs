//! A square matrix of bytes that processes send to each other: the row's to the column's. Numbers only, separated by
//! spaces, commas or semicolons, as `profile2mat.pl` of Open MPI, NumPy or a spreadsheet write it.

use super::lines::short;
use crate::Error;
use crate::model::file::LARGEST_WHOLE;
use crate::program::Program;

pub(super) fn program(text: &str) -> Result<Program, Error> {
    let mut rows: Vec<(usize, Vec<u64>)> = Vec::new();
    // A byte order mark is what some spreadsheets begin with.
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let words = line.split([' ', '\t', ',', ';', '\r']).filter(|word| !word.is_empty());
        let row = words.map(|word| bytes(word, index + 1)).collect::<Result<Vec<u64>, Error>>()?;
        if !row.is_empty() {
            rows.push((index + 1, row));
        }
    }
    let size = rows.len();
    if size == 0 {
        return Err(Error::at_line(1, "the text is empty: expected a square matrix of numbers"));
    }
    if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != size) {
        let message = format!("has {} numbers: expected {size}, as many as there are rows", row.len());
        return Err(Error::at_line(*line, message));
    }
    let mut program = Program::of_ranks(size);
    for (from, (_, row)) in rows.iter().enumerate() {
        for (to, &bytes) in row.iter().enumerate().filter(|&(to, &bytes)| to != from && bytes > 0) {
            program.add_messages(from as u32, to as u32, 1, bytes);
        }
    }
    Ok(program)
}

/// Averages have fractions; bytes are rounded.
fn bytes(word: &str, line: usize) -> Result<u64, Error> {
    let number: Option<f64> = word.parse().ok();
    let number = number.filter(|number| (0.0..=LARGEST_WHOLE as f64).contains(number));
    number
        .map(|number| number.round() as u64)
        .ok_or_else(|| Error::at_line(line, format!("\"{}\": expected a number of bytes from 0 to 2^53", short(word))))
}
