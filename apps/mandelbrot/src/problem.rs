//! What is to be calculated: size, slices, iterations and region, and how they map to pixels and points.
//!
//! Everything here is a pure function of the problem: node, thread and slice never enter a coordinate, which is one
//! half of the promise that the counts are the same for every number of nodes, threads and slices (the other half is
//! in [`crate::kernel`]).

use std::fmt;
use std::ops::{ControlFlow, Range};

use deck::{Error, ErrorKind, Message, Result};
use slices::{Cut, Failure, Lines, Work};
use user_interface::command_line::counted;
use user_interface::memory;

use crate::kernel;
use crate::palette::Palette;

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
        // 1e308 has 309 digits otherwise.
        write!(f, "{:?},{:?},{:?},{:?}", self.x0, self.x1, self.y0, self.y1)
    }
}

/// How far from 0 an edge of a region may be.
const FARTHEST_EDGE: f64 = 1e6;

/// One picture to calculate. Valid by construction: only [`Problem::checked`] makes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem {
    cut: Cut,
    max_iter: u32,
    region: Region,
    early_outs: bool,
}

impl Problem {
    /// Checks the parameters, wherever they come from: a command line or another node's message. More slices than rows
    /// become one slice for each row.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the remedy in the words of the command line.
    pub fn checked(size: (u32, u32), slices: u32, max_iter: u32, region: Region, early_outs: bool) -> Result<Problem> {
        let invalid = |what: String, remedy: String| Err(Error::new(ErrorKind::Invalid, what).with_remedy(remedy));
        if max_iter == 0 {
            return invalid("no iterations".into(), "use --max-iter 17500 or any other number from 1 up".into());
        }
        let Region { x0, x1, y0, y1 } = region;
        if let Some(edge) = [x0, x1, y0, y1].into_iter().find(|edge| edge.abs() > FARTHEST_EDGE) {
            return invalid(
                format!("region {region}: {edge:e} is too far out"),
                format!("use --region {} or other edges from -1e6 to 1e6", Region::FULL_SET),
            );
        }
        // Nor is what is no number smaller than anything.
        if !(x0 < x1 && y0 < y1) {
            return invalid(
                format!("region {region}"),
                format!("use --region {} (left,right,lower,upper: left < right, lower < upper)", Region::FULL_SET),
            );
        }
        let cut = Cut::checked(size, slices, size_of::<u32>() as u64)?;
        Ok(Problem { cut, max_iter, region, early_outs })
    }

    /// Pixels across.
    pub fn width(&self) -> u32 {
        self.cut.width()
    }

    /// Pixels down.
    pub fn height(&self) -> u32 {
        self.cut.height()
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

    /// Real part of the centre of a column.
    pub fn x(&self, column: u32) -> f64 {
        let Region { x0, x1, .. } = self.region;
        x0 + (f64::from(column) + 0.5) * ((x1 - x0) / f64::from(self.width()))
    }

    /// Imaginary part of the centre of a row.
    pub fn y(&self, row: u32) -> f64 {
        let Region { y0, y1, .. } = self.region;
        y1 - (f64::from(row) + 0.5) * ((y1 - y0) / f64::from(self.height()))
    }
}

impl Work for Problem {
    type Value = u32;
    const VALUES: usize = 1;
    const PROGRAM: &'static str = "mandelbrot";

    fn cut(&self) -> &Cut {
        &self.cut
    }

    fn describe(&self) -> String {
        format!("{}x{}, {}", self.width(), self.height(), counted(self.max_iter.into(), "iteration"))
    }

    fn pack(&self, message: &mut Message) -> Result<()> {
        let Region { x0, x1, y0, y1 } = self.region();
        let early_outs = u32::from(self.early_outs);
        message.pack(&[self.width(), self.height(), self.cut.slices(), self.max_iter, early_outs])?;
        message.pack(&[x0, x1, y0, y1])
    }

    fn unpack(message: &mut Message) -> Result<Problem> {
        let mut numbers = [0; 5];
        let mut edges = [0.0; 4];
        message.unpack(&mut numbers)?;
        message.unpack(&mut edges)?;
        let ([width, height, slices, max_iter, early_outs], [x0, x1, y0, y1]) = (numbers, edges);
        Problem::checked((width, height), slices, max_iter, Region { x0, x1, y0, y1 }, early_outs != 0)
    }

    fn compute(&self, rows: Range<u32>, lines: &mut Lines<'_, Self>) -> std::result::Result<ControlFlow<()>, Failure> {
        let mut counts = memory::defaults(rows.len() * self.width() as usize, "the counts of a slice")?;
        kernel::count(self, rows.clone(), &mut counts);
        Ok(lines.finish(rows, &counts)?)
    }

    fn paint(&self, counts: &[u32]) -> Vec<u8> {
        Palette::new(self.max_iter).paint(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(size: (u32, u32), slices: u32) -> Problem {
        Problem::checked(size, slices, 100, Region::FULL_SET, false).unwrap()
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
        assert!(refusal((600, 600), 0, 1, full).contains("--slices"));
        assert!(refusal((600, 600), 64, 0, full).contains("--max-iter"));
        assert!(refusal((600, 600), 64, 1, Region { x1: -3.0, ..full }).contains("--region"));
        assert!(refusal((600, 600), 64, 1, Region { y0: f64::NAN, ..full }).contains("--region"));
    }
}
