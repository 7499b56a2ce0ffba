//! Colours by iteration count: one gradient over the logarithm of the count, black inside.
//!
//! The logarithm gives the few counts far outside and the many near the boundary the same share of the gradient. The
//! colour of a count does not depend on the other counts, so slices can be coloured as they arrive, and not on
//! `max_iter` either, so a deeper calculation of the same region keeps its colours.

/// Colour of the points inside.
pub const INSIDE: [u8; 3] = [0, 0, 0];

/// Colours at counts 1, 2, 4, 8, ...: night blue far outside, a bright rim, embers close to the boundary. From
/// [`REPEAT_FROM`] on the stops repeat for ever, for deep zooms.
const STOPS: [[u8; 3]; 12] = [
    [5, 7, 24],
    [8, 14, 44],
    [12, 26, 76],
    [18, 56, 128],
    [44, 118, 190],
    [166, 216, 240],
    [255, 244, 214],
    [255, 186, 66],
    [214, 92, 24],
    [122, 26, 36],
    [48, 10, 62],
    [14, 20, 78],
];
const REPEAT_FROM: usize = 3;
/// Counts whose colours are kept in a table; nearly all pixels of most pictures.
const TABLE: u32 = 4096;

/// The colours of one picture.
pub struct Palette {
    max_iter: u32,
    table: Vec<[u8; 3]>,
}

impl Palette {
    /// Colours for counts up to `max_iter`, which is the count inside.
    pub fn new(max_iter: u32) -> Palette {
        Palette { max_iter, table: (0..TABLE).map(outside).collect() }
    }

    /// Colour of one count.
    pub fn colour(&self, count: u32) -> [u8; 3] {
        if count >= self.max_iter {
            return INSIDE;
        }
        self.table.get(count as usize).copied().unwrap_or_else(|| outside(count))
    }

    /// Pixels of three bytes (red, green, blue) for the counts.
    pub fn paint(&self, counts: &[u32]) -> Vec<u8> {
        counts.iter().flat_map(|&count| self.colour(count)).collect()
    }
}

fn stop(index: usize) -> [f64; 3] {
    let index = match index.checked_sub(STOPS.len()) {
        None => index,
        Some(beyond) => REPEAT_FROM + beyond % (STOPS.len() - REPEAT_FROM),
    };
    STOPS[index].map(f64::from)
}

/// Colour of a count outside: between its two stops along a curve through all of them (Catmull-Rom), which shows no
/// edges at the stops.
fn outside(count: u32) -> [u8; 3] {
    let place = f64::from(count.max(1)).log2();
    let (index, t) = (place as usize, place.fract());
    let (before, from, to, after) = (stop(index.saturating_sub(1)), stop(index), stop(index + 1), stop(index + 2));
    std::array::from_fn(|channel| {
        let (p0, p1, p2, p3) = (before[channel], from[channel], to[channel], after[channel]);
        let bend = t * t * (2.0 * p0 - 5.0 * p1 + 4.0 * p2 - p3) + t * t * t * (3.0 * p1 - p0 - 3.0 * p2 + p3);
        // The cast saturates: an overshoot beyond 0 or 255 is cut.
        (p1 + 0.5 * (t * (p2 - p0) + bend)).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_black_and_nothing_outside_is() {
        let palette = Palette::new(17_500);
        assert_eq!(palette.colour(17_500), INSIDE);
        assert!((1..17_500).all(|count| palette.colour(count) != INSIDE));
    }

    #[test]
    fn powers_of_two_have_the_colours_of_the_stops_and_these_repeat() {
        let palette = Palette::new(u32::MAX);
        assert_eq!(palette.colour(1), STOPS[0]);
        assert_eq!(palette.colour(1 << 11), STOPS[11]);
        assert_eq!(palette.colour(1 << 12), STOPS[REPEAT_FROM]);
        assert_eq!(palette.colour(1 << 13), STOPS[REPEAT_FROM + 1]);
    }

    #[test]
    fn the_colour_of_a_count_does_not_depend_on_the_limit() {
        let (few, many) = (Palette::new(100), Palette::new(1_000_000));
        assert!((1..100).all(|count| few.colour(count) == many.colour(count)));
    }

    #[test]
    fn beyond_the_table_the_gradient_goes_on_without_a_step() {
        let palette = Palette::new(u32::MAX);
        let (last, next) = (palette.colour(TABLE - 1), palette.colour(TABLE));
        assert!((0..3).all(|channel| last[channel].abs_diff(next[channel]) <= 1));
    }
}
