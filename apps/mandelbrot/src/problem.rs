//! What is to be calculated: size, slices, iterations and region, and how they map to pixels and points.
//!
//! Everything here is a pure function of the problem: node, thread and slice never enter a coordinate, which is one
//! half of the promise that the counts are the same for every number of nodes, threads and slices (the other half is
//! in [`crate::kernel`]).

use std::fmt;
use std::ops::Range;

use deck::{Error, ErrorKind, Result};

/// A rectangle of the complex plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Region {
    /// Left edge, real part.
    pub x0: f64,
    /// Right edge, real part.
    pub x1: f64,
    /// Lower edge, imaginary part.
    pub y0: f64,
    /// Upper edge, imaginary part: the first row of the picture.
    pub y1: f64,
}

impl Region {
    /// The full Mandelbrot set, undistorted in a square picture.
    pub const FULL_SET: Region = Region { x0: -2.25, x1: 0.75, y0: -1.5, y1: 1.5 };
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{},{}", self.x0, self.x1, self.y0, self.y1)
    }
}

/// One picture to calculate. Valid by construction: only [`Problem::checked`] makes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    width: u32,
    height: u32,
    slices: u32,
    max_iter: u32,
    region: Region,
    early_outs: bool,
}

/// Most pixels of a picture: 1 GiB of counts.
pub const MAX_PIXELS: u64 = 1 << 28;
/// Most bytes of one slice's counts: half of what a mail box takes from one node by default, so that a second result
/// fits while the first waits.
pub const MAX_SLICE_BYTES: u64 = 32 << 20;

impl Problem {
    /// Checks the parameters, wherever they come from: a command line or another node's message. More slices than rows
    /// become one slice for each row.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the remedy in the words of the command line.
    pub fn checked(
        (width, height): (u32, u32),
        slices: u32,
        max_iter: u32,
        region: Region,
        early_outs: bool,
    ) -> Result<Problem> {
        let invalid = |what: String, remedy: String| Err(Error::new(ErrorKind::Invalid, what).with_remedy(remedy));
        if width == 0 || height == 0 || u64::from(width) * u64::from(height) > MAX_PIXELS {
            return invalid(
                format!("a picture of {width}x{height} pixels"),
                format!("use --size 600x600 or any other size from 1x1 to {MAX_PIXELS} pixels"),
            );
        }
        if slices == 0 {
            return invalid("no slices".into(), "use --slices 64 or any other number from 1 up".into());
        }
        if max_iter == 0 {
            return invalid("no iterations".into(), "use --max-iter 17500 or any other number from 1 up".into());
        }
        let Region { x0, x1, y0, y1 } = region;
        if ![x0, x1, y0, y1].iter().all(|edge| edge.is_finite() && edge.abs() <= 1e6) || x0 >= x1 || y0 >= y1 {
            return invalid(
                format!("region {region}"),
                format!("use --region {} (left,right,lower,upper: left < right, lower < upper)", Region::FULL_SET),
            );
        }
        let problem = Problem { width, height, slices: slices.min(height), max_iter, region, early_outs };
        let largest = u64::from(height.div_ceil(problem.slices)) * u64::from(width) * 4;
        if largest > MAX_SLICE_BYTES {
            let rows = (MAX_SLICE_BYTES / 4 / u64::from(width)) as u32;
            return match height.checked_div(rows) {
                Some(_) => invalid(
                    format!("slices of {largest} bytes are too large for one message"),
                    format!("use --slices {}", height.div_ceil(rows)),
                ),
                None => invalid(
                    format!("rows of {width} pixels are too large for one message"),
                    format!("use a --size of at most {} pixels across", MAX_SLICE_BYTES / 4),
                ),
            };
        }
        Ok(problem)
    }

    /// Pixels across.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Pixels down.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Slices, at most one for each row.
    pub fn slices(&self) -> u32 {
        self.slices
    }

    /// Iterations after which a point counts as inside.
    pub fn max_iter(&self) -> u32 {
        self.max_iter
    }

    /// Part of the plane.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Whether points inside may be recognised early instead of being iterated to the end. The counts are the same.
    pub fn early_outs(&self) -> bool {
        self.early_outs
    }

    /// Pixels of the whole picture.
    pub fn pixels(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Rows of one slice, from the top. Slices differ by one row at most and cover every row once.
    pub fn rows(&self, slice: u32) -> Range<u32> {
        assert!(slice < self.slices, "slice {slice} of {}", self.slices);
        let first = |slice: u32| (u64::from(slice) * u64::from(self.height) / u64::from(self.slices)) as u32;
        first(slice)..first(slice + 1)
    }

    /// Pixels of one slice within the picture, row by row.
    pub fn pixels_of(&self, slice: u32) -> Range<usize> {
        let rows = self.rows(slice);
        rows.start as usize * self.width as usize..rows.end as usize * self.width as usize
    }

    /// Real part of the centre of a column.
    pub fn x(&self, column: u32) -> f64 {
        let Region { x0, x1, .. } = self.region;
        x0 + (f64::from(column) + 0.5) * ((x1 - x0) / f64::from(self.width))
    }

    /// Imaginary part of the centre of a row.
    pub fn y(&self, row: u32) -> f64 {
        let Region { y0, y1, .. } = self.region;
        y1 - (f64::from(row) + 0.5) * ((y1 - y0) / f64::from(self.height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn problem(size: (u32, u32), slices: u32) -> Problem {
        Problem::checked(size, slices, 100, Region::FULL_SET, false).unwrap()
    }

    proptest! {
        #[test]
        fn slices_cover_every_row_once_and_differ_by_one_row_at_most(
            width in 1u32..3000, height in 1u32..3000, slices in 1u32..4000,
        ) {
            let problem = problem((width, height), slices);
            let rows: Vec<_> = (0..problem.slices()).map(|slice| problem.rows(slice)).collect();
            prop_assert_eq!(rows[0].start, 0);
            prop_assert_eq!(rows.last().unwrap().end, height);
            prop_assert!(rows.windows(2).all(|pair| pair[0].end == pair[1].start));
            let (least, most) = (rows.iter().map(|rows| rows.len()).min(), rows.iter().map(|rows| rows.len()).max());
            let (least, most) = (least.unwrap(), most.unwrap());
            prop_assert!(least >= 1 && most - least <= 1);
        }
    }

    #[test]
    fn more_slices_than_rows_become_one_for_each_row() {
        assert_eq!(problem((600, 10), 64).slices(), 10);
    }

    #[test]
    fn pixel_centres_lie_inside_the_region_with_the_upper_edge_first() {
        let problem = problem((600, 600), 64);
        assert_eq!(problem.x(0), -2.25 + 0.0025);
        assert!(problem.x(599) < 0.75 && problem.x(599) > 0.745);
        assert!(problem.y(0) < 1.5 && problem.y(0) > 1.495);
        assert!(problem.y(599) > -1.5 && problem.y(599) < -1.495);
    }

    #[test]
    fn impossible_problems_are_refused_with_what_to_type() {
        let full = Region::FULL_SET;
        let refusal = |size, slices, iterations, region| {
            Problem::checked(size, slices, iterations, region, false).unwrap_err().remedy().to_owned()
        };
        assert!(refusal((0, 600), 64, 1, full).contains("--size"));
        assert!(refusal((1 << 20, 1 << 20), 64, 1, full).contains("--size"));
        assert!(refusal((600, 600), 0, 1, full).contains("--slices"));
        assert!(refusal((600, 600), 64, 0, full).contains("--max-iter"));
        assert!(refusal((600, 600), 64, 1, Region { x1: -3.0, ..full }).contains("--region"));
        assert!(refusal((600, 600), 64, 1, Region { y0: f64::NAN, ..full }).contains("--region"));
        assert!(refusal((1 << 24, 1), 1, 1, full).contains("across"));
    }

    #[test]
    fn the_number_of_slices_that_the_remedy_names_is_enough() {
        let size = (16384, 16384);
        let error = Problem::checked(size, 1, 100, Region::FULL_SET, false).unwrap_err();
        let slices = error.remedy().strip_prefix("use --slices ").unwrap().parse().unwrap();
        assert!(Problem::checked(size, slices, 100, Region::FULL_SET, false).is_ok());
    }
}
