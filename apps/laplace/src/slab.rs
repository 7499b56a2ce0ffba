//! What is to be calculated: a slab with one hot edge.
//!
//! The slab is insulated except for its edges, which keep their temperatures: the upper one is heated, the others are
//! cold, and so is everything inside at the start. The grid has the same distance between points in both directions.

use std::f64::consts::PI;
use std::fmt;

use clap::ValueEnum;
use deck::{Error, ErrorKind, Message, Result};

/// Temperature of the heat source, in degrees; everything else begins at 0.
pub const HOT: f64 = 100.0;
/// Most points: 2 GiB of temperatures.
const MAX_POINTS: u64 = 1 << 28;
/// Sweeps that are done before the verdict on one can end the calculation; see `computing`.
pub const LAG: u64 = 2;

/// How the upper edge is heated.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Source {
    /// As hot everywhere
    Uniform,
    /// Hot in the middle and cold at the corners, along half a sine wave: the solution is known
    Sine,
}

/// One slab to calculate. Valid by construction: only [`Slab::checked`] makes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slab {
    width: u32,
    height: u32,
    tolerance: f64,
    max_sweeps: u64,
    source: Source,
}

impl Slab {
    /// Checks the parameters, wherever they come from: a command line or another node's message.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the remedy in the words of the command line.
    pub fn checked((width, height): (u32, u32), tolerance: f64, max_sweeps: u64, source: Source) -> Result<Slab> {
        let invalid = |what: String, remedy: String| Err(Error::new(ErrorKind::Invalid, what).with_remedy(remedy));
        if width < 3 || height < 3 || u64::from(width) * u64::from(height) > MAX_POINTS {
            return invalid(
                format!("a slab of {width}x{height} points"),
                format!("use --size 600x600 or any other size from 3x3 to {MAX_POINTS} points"),
            );
        }
        if !(tolerance > 0.0 && tolerance.is_finite()) {
            return invalid(
                format!("a tolerance of {tolerance:?}"),
                "use --tolerance 1e-3 or another number above 0".into(),
            );
        }
        if max_sweeps <= LAG {
            return invalid(format!("at most {max_sweeps} sweeps"), format!("use --max-sweeps {} or more", LAG + 1));
        }
        Ok(Slab { width, height, tolerance, max_sweeps, source })
    }

    /// Points across, edges included.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Points down, edges included.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The largest change of a sweep that counts as none.
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// Sweeps after which the calculation ends in any case.
    pub fn max_sweeps(&self) -> u64 {
        self.max_sweeps
    }

    /// The temperature with which a point begins, and which it keeps on an edge.
    pub fn start(&self, column: usize, row: usize) -> f64 {
        match (row, self.source) {
            (0, Source::Uniform) => HOT,
            (0, Source::Sine) => HOT * (PI * column as f64 / f64::from(self.width - 1)).sin(),
            _ => 0.0,
        }
    }

    /// The exact temperature of a point in the end, if it is known: T sin(πx) sinh(π(h-y)) / sinh(πh) on a slab of
    /// width 1 and height h.
    pub fn solution(&self, column: usize, row: usize) -> Option<f64> {
        (self.source == Source::Sine).then(|| {
            let step = 1.0 / f64::from(self.width - 1);
            let (x, y, height) = (column as f64 * step, row as f64 * step, f64::from(self.height - 1) * step);
            // sinh(a) / sinh(b) for b of any size.
            let (a, b) = (PI * (height - y), PI * height);
            HOT * (PI * x).sin() * (a - b).exp() * (-2.0 * a).exp_m1() / (-2.0 * b).exp_m1()
        })
    }

    /// Writes what another node has to know.
    ///
    /// # Errors
    /// Those of [`Message::pack`].
    pub fn pack(&self, message: &mut Message) -> Result<()> {
        message.pack(&[self.width, self.height, self.source as u32])?;
        message.pack(&[self.max_sweeps])?;
        message.pack(&[self.tolerance])
    }

    /// Reads and checks what [`Slab::pack`] wrote.
    ///
    /// # Errors
    /// Those of [`Message::unpack`] and [`Slab::checked`].
    pub fn unpack(message: &mut Message) -> Result<Slab> {
        let (mut numbers, mut max_sweeps, mut tolerance) = ([0u32; 3], [0u64], [0.0]);
        message.unpack(&mut numbers)?;
        message.unpack(&mut max_sweeps)?;
        message.unpack(&mut tolerance)?;
        let source = if numbers[2] == Source::Sine as u32 { Source::Sine } else { Source::Uniform };
        Slab::checked((numbers[0], numbers[1]), tolerance[0], max_sweeps[0], source)
    }
}

impl fmt::Display for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}, tolerance {:?}", self.width, self.height, self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slab(size: (u32, u32), source: Source) -> Slab {
        Slab::checked(size, 1e-3, 1000, source).unwrap()
    }

    #[test]
    fn the_upper_edge_is_hot_and_the_rest_is_cold() {
        let uniform = slab((6, 4), Source::Uniform);
        assert_eq!(
            [uniform.start(0, 0), uniform.start(5, 0), uniform.start(0, 1), uniform.start(3, 3)],
            [HOT, HOT, 0.0, 0.0]
        );
        let sine = slab((5, 4), Source::Sine);
        assert!(sine.start(0, 0) == 0.0 && (sine.start(2, 0) - HOT).abs() < 1e-9 && sine.start(4, 0).abs() < 1e-9);
    }

    #[test]
    fn the_solution_has_the_temperatures_of_the_edges_and_its_points_are_the_mean_of_their_surroundings() {
        for size in [(101, 101), (101, 41), (101, 900)] {
            let slab = slab(size, Source::Sine);
            let at = |column, row| slab.solution(column, row).unwrap();
            for column in 0..101 {
                assert!((at(column, 0) - slab.start(column, 0)).abs() < 1e-9);
                assert!(at(column, size.1 as usize - 1).abs() < 1e-9);
            }
            let around = at(49, 20) + at(51, 20) + at(50, 19) + at(50, 21);
            assert!((around / 4.0 - at(50, 20)).abs() < 1e-4, "{around} {}", at(50, 20));
        }
        assert_eq!(slab((9, 9), Source::Uniform).solution(4, 4), None);
    }

    #[test]
    fn impossible_slabs_are_refused_with_what_to_type() {
        let refusal = |size, tolerance, sweeps| {
            Slab::checked(size, tolerance, sweeps, Source::Uniform).unwrap_err().remedy().to_owned()
        };
        assert!(refusal((2, 600), 1e-3, 100).contains("--size"));
        assert!(refusal((1 << 20, 1 << 20), 1e-3, 100).contains("--size"));
        assert!(refusal((600, 600), 0.0, 100).contains("--tolerance"));
        assert!(refusal((600, 600), f64::NAN, 100).contains("--tolerance"));
        assert!(refusal((600, 600), 1e-3, 2).contains("--max-sweeps 3"));
    }
}
