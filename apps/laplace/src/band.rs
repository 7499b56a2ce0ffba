//! Some neighbouring rows of the slab, and the two rows beside them.
//!
//! The points are coloured like a chess board. A point's neighbours all have the other colour, so all points of one
//! colour can be relaxed in any order with the same result, bit for bit: red-black Gauss-Seidel (W. H. Press et al.,
//! *Numerical Recipes in C*, second edition, 1992, 19.5).
//!
//! The colours are kept apart: row `r` of colour `k` holds the columns `2 j + (r + k) % 2`. So the inner loop runs over
//! neighbouring numbers, and what a neighbour needs, one colour of one row, is one piece of memory.
//! Standard library only: benchmarks compile this file for other programs.

use std::collections::TryReserveError;
use std::ops::Range;

use crate::kernel::relax;

/// The colours, in the order in which they are relaxed.
pub const COLOURS: [usize; 2] = [0, 1];

/// Rows of the slab, between two more that somebody else relaxes, or nobody if they are the slab's edge.
#[derive(Clone, Debug)]
pub struct Band {
    width: usize,
    /// The slab's row above the band: row 0 here.
    first: usize,
    rows: usize,
    colours: [Vec<f64>; 2],
}

/// One colour of the rows beside a band, as others have told them: read where they lie. Where there is none the band's
/// own row stands for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Halos<'a> {
    pub above: Option<&'a [f64]>,
    pub below: Option<&'a [f64]>,
}

impl Band {
    /// The rows after `above` of a slab that is `width` points across, with the temperatures that `start` gives to
    /// (column, row).
    ///
    /// # Panics
    /// If there is no memory for them.
    #[allow(dead_code, reason = "programs of benchmarks and tests, who have the memory")]
    pub fn new(width: usize, above: usize, rows: usize, start: impl Fn(usize, usize) -> f64) -> Band {
        Band::try_new(width, above, rows, start).expect("memory for a band")
    }

    /// The same.
    ///
    /// # Errors
    /// If there is no memory for as many numbers as [`Band::numbers`] says.
    pub fn try_new(
        width: usize,
        above: usize,
        rows: usize,
        start: impl Fn(usize, usize) -> f64,
    ) -> Result<Band, TryReserveError> {
        let mut band = Band { width, first: above, rows, colours: Default::default() };
        let of_a_colour = Band::numbers(width, rows) / 2;
        for colour in &mut band.colours {
            colour.try_reserve_exact(of_a_colour)?;
            colour.resize(of_a_colour, 0.0);
        }
        for row in 0..rows + 2 {
            for column in 0..width {
                let (colour, place) = band.place(row, column);
                band.colours[colour][place] = start(column, above + row);
            }
        }
        Ok(band)
    }

    /// How many numbers a band of so many rows has.
    pub fn numbers(width: usize, rows: usize) -> usize {
        2 * (rows + 2) * width.div_ceil(2)
    }

    /// Rows of the band itself.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn half(&self) -> usize {
        self.width.div_ceil(2)
    }

    fn place(&self, row: usize, column: usize) -> (usize, usize) {
        ((self.first + row + column) % 2, row * self.half() + column / 2)
    }

    /// Relaxes the points of one colour in some rows, 1 being the band's first. Returns the largest change. The
    /// leftmost and rightmost points are edges of the slab and stay.
    ///
    /// # Panics
    /// If the rows are not the band's own.
    pub fn relax(&mut self, colour: usize, rows: Range<usize>) -> f64 {
        self.relax_beside(colour, rows, Halos::default())
    }

    /// The same, with the rows above and below the band that were told.
    ///
    /// # Panics
    /// As [`Band::relax`], or if a halo is shorter than a row.
    pub fn relax_beside<'a>(&'a mut self, colour: usize, rows: Range<usize>, halos: Halos<'a>) -> f64 {
        assert!(rows.start >= 1 && rows.end <= self.rows + 1, "rows {rows:?} of {}", self.rows);
        let (half, width) = (self.half(), self.width);
        let [red, black] = &mut self.colours;
        let (own, other) = if colour == 0 { (red, &*black) } else { (black, &*red) };
        let mut largest = 0.0f64;
        for row in rows {
            // The first column of this colour in this row, and how many of its columns are no edges.
            let offset = (self.first + row + colour) % 2;
            let points = if offset == 0 { (width - 2) / 2 } else { (width - 1) / 2 };
            let from = row * half + 1 - offset;
            let beside = |at: usize| &other[at..at + points];
            let told = |halo: &'a [f64]| &halo[1 - offset..][..points];
            let above = halos.above.filter(|_| row == 1).map_or_else(|| beside(from - half), told);
            let below = halos.below.filter(|_| row == self.rows).map_or_else(|| beside(from + half), told);
            // Columns 2 j - 1 and 2 j + 1 stand at j - 1 and j if this colour has the even ones, else at j and j + 1.
            let (left, right) = (beside(from - (1 - offset)), beside(from + offset));
            largest = largest.max(relax(&mut own[from..from + points], above, below, left, right));
        }
        largest
    }

    /// One colour of one row, also of the two beside the band (0 and `rows() + 1`).
    pub fn row(&self, colour: usize, row: usize) -> &[f64] {
        &self.colours[colour][row * self.half()..][..self.half()]
    }

    /// The same, to be written.
    #[allow(dead_code, reason = "programs of benchmarks are told halos there")]
    pub fn row_mut(&mut self, colour: usize, row: usize) -> &mut [f64] {
        let half = self.half();
        &mut self.colours[colour][row * half..][..half]
    }

    /// Temperatures of one row from the left, also of the two beside the band.
    #[allow(dead_code, reason = "programs of benchmarks and tests, who have the memory")]
    pub fn temperatures(&self, row: usize) -> Vec<f64> {
        let mut temperatures = vec![0.0; self.width];
        self.read(row, &mut temperatures);
        temperatures
    }

    /// The same, into numbers that are there: as many as the slab is points across.
    pub fn read(&self, row: usize, temperatures: &mut [f64]) {
        for (column, temperature) in temperatures.iter_mut().enumerate() {
            let (colour, place) = self.place(row, column);
            *temperature = self.colours[colour][place];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn start(column: usize, row: usize) -> f64 {
        ((column * 7 + row * 13) % 11) as f64
    }

    /// Red-black Gauss-Seidel, written down as it is defined.
    fn plainly(width: usize, height: usize, sweeps: usize) -> (Vec<Vec<f64>>, f64) {
        let mut slab: Vec<Vec<f64>> =
            (0..height).map(|row| (0..width).map(|column| start(column, row)).collect()).collect();
        let mut change = 0.0f64;
        for _ in 0..sweeps {
            change = 0.0;
            for colour in COLOURS {
                for row in 1..height - 1 {
                    for column in (1..width - 1).filter(|column| (row + column) % 2 == colour) {
                        let vertical = slab[row - 1][column] + slab[row + 1][column];
                        let mean = (vertical + (slab[row][column - 1] + slab[row][column + 1])) * 0.25;
                        change = change.max((mean - slab[row][column]).abs());
                        slab[row][column] = mean;
                    }
                }
            }
        }
        (slab, change)
    }

    proptest! {
        /// Two bands that tell each other their edges after each colour make what the definition makes, wherever these
        /// lie.
        #[test]
        fn bands_have_the_bits_of_the_definition(
            width in 3usize..40, above in 1usize..9, below in 1usize..9, sweeps in 1usize..4, lie_elsewhere: bool,
        ) {
            let mut upper = Band::new(width, 0, above, start);
            let mut lower = Band::new(width, above, below, start);
            let mut change = 0.0f64;
            let mut told = [const { [const { None::<Vec<f64>> }; 2] }; 2];
            for _ in 0..sweeps {
                change = 0.0;
                for colour in COLOURS {
                    let [of_upper, of_lower] = &told[1 - colour];
                    let (below_upper, above_lower) =
                        (Halos { below: of_lower.as_deref(), above: None }, Halos { above: of_upper.as_deref(), below: None });
                    change = change
                        .max(upper.relax_beside(colour, 1..above + 1, below_upper))
                        .max(lower.relax_beside(colour, 1..below + 1, above_lower));
                    if lie_elsewhere {
                        told[colour] = [upper.row(colour, above), lower.row(colour, 1)].map(|row| Some(row.to_vec()));
                    } else {
                        upper.row_mut(colour, above + 1).copy_from_slice(lower.row(colour, 1));
                        lower.row_mut(colour, 0).copy_from_slice(upper.row(colour, above));
                    }
                }
            }
            let (slab, expected) = plainly(width, above + below + 2, sweeps);
            let rows = (0..=above).map(|row| upper.temperatures(row)).chain((1..=below + 1).map(|row| lower.temperatures(row)));
            prop_assert_eq!(rows.collect::<Vec<_>>(), slab);
            prop_assert_eq!(change, expected);
        }
    }
}
