//! The files that are made of the counts.

use std::path::Path;

use deck::Result;
use slices::{Outcome, Work};
use user_interface::files;

use crate::palette::Palette;
use crate::problem::Problem;

/// Writes the picture as a PNG file of 8-bit RGB.
///
/// # Errors
/// Those of [`files::save_png`].
pub fn save_png(path: &Path, Outcome { work, values, .. }: &Outcome<Problem>) -> Result<()> {
    let palette = Palette::new(work.max_iter());
    let rows = values.chunks_exact(work.width() as usize).map(|row| palette.paint(row));
    files::save_png(path, (work.cut().width(), work.cut().height()), rows)
}

/// Writes the counts, row by row, as 32-bit little-endian numbers.
///
/// # Errors
/// Those of [`files::save`].
pub fn save_counts(path: &Path, counts: &[u32]) -> Result<()> {
    files::save(path, |file| counts.iter().try_for_each(|count| file.write_all(&count.to_le_bytes())))
}
