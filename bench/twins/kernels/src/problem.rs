//! What the Mandelbrot kernel wants to know, for the full set without early outs.

/// One picture.
pub struct Problem {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// Iterations after which a point counts as inside.
    pub max_iter: u32,
}

impl Problem {
    /// See the field.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// See the field.
    pub fn max_iter(&self) -> u32 {
        self.max_iter
    }

    /// Every point inside is iterated to the end, as in the papers.
    pub fn early_outs(&self) -> bool {
        false
    }

    /// Real part of the centre of a column.
    pub fn x(&self, column: u32) -> f64 {
        -2.25 + (f64::from(column) + 0.5) * (3.0 / f64::from(self.width))
    }

    /// Imaginary part of the centre of a row.
    pub fn y(&self, row: u32) -> f64 {
        1.5 - (f64::from(row) + 0.5) * (3.0 / f64::from(self.height))
    }
}
