//! How a picture is cut into horizontal slices.

use std::ops::Range;

use deck::{Error, ErrorKind, Result};

/// A picture's size and slices. Valid by construction: only [`Cut::checked`] makes one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    width: u32,
    height: u32,
    slices: u32,
    block: u32,
}

/// Most pixels of a picture: 1 GiB of 32-bit values.
pub const MAX_PIXELS: u64 = 1 << 28;
/// Most bytes of one slice: half of what a mail box takes from one node by default, so that a second one fits while
/// the first waits.
const MAX_SLICE_BYTES: u64 = 32 << 20;

impl Cut {
    /// Checks the parameters, wherever they come from: a command line or another node's message. More slices than rows
    /// become one slice for each row. `pixel_bytes` is what a pixel takes in a message.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] with the remedy in the words of the command line.
    pub fn checked(size: (u32, u32), slices: u32, pixel_bytes: u64) -> Result<Cut> {
        Cut::in_blocks(size, slices, pixel_bytes, 1)
    }

    /// As [`Cut::checked`], but slices begin at multiples of `block` rows only, and more slices than blocks become one
    /// for each block.
    ///
    /// # Errors
    /// As [`Cut::checked`].
    ///
    /// # Panics
    /// If `block` is 0.
    pub fn in_blocks((width, height): (u32, u32), slices: u32, pixel_bytes: u64, block: u32) -> Result<Cut> {
        let invalid = |what: String, remedy: String| Err(Error::new(ErrorKind::Invalid, what).with_remedy(remedy));
        if width == 0 || height == 0 || u64::from(width) * u64::from(height) > MAX_PIXELS {
            return invalid(
                format!("a picture of {width}x{height} pixels"),
                format!("use a --size from 1x1 to {MAX_PIXELS} pixels"),
            );
        }
        if slices == 0 {
            return invalid("no slices".into(), "use --slices with a number from 1 up".into());
        }
        let blocks = height.div_ceil(block);
        let cut = Cut { width, height, slices: slices.min(blocks), block };
        let block_bytes = u64::from(width) * pixel_bytes * u64::from(block);
        let largest = u64::from(blocks.div_ceil(cut.slices)) * block_bytes;
        if largest <= MAX_SLICE_BYTES {
            return Ok(cut);
        }
        match MAX_SLICE_BYTES / block_bytes {
            0 => invalid(
                format!("rows of {width} pixels are too large for one message"),
                format!("use a --size of at most {} pixels across", MAX_SLICE_BYTES / pixel_bytes / u64::from(block)),
            ),
            at_once => invalid(
                format!("slices of {largest} bytes are too large for one message"),
                format!("use --slices {}", u64::from(blocks).div_ceil(at_once)),
            ),
        }
    }

    /// Pixels across.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Pixels down.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Slices, at most one for each row or block.
    pub fn slices(&self) -> u32 {
        self.slices
    }

    /// Pixels of the whole picture.
    pub fn pixels(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Rows of one slice, from the top. Slices differ by one row or block at most (the last block may have fewer rows
    /// than the others) and cover every row once.
    ///
    /// # Panics
    /// If there is no such slice.
    pub fn rows(&self, slice: u32) -> Range<u32> {
        assert!(slice < self.slices, "slice {slice} of {}", self.slices);
        let blocks = u64::from(self.height.div_ceil(self.block));
        let first = |slice: u32| (u64::from(slice) * blocks / u64::from(self.slices)) as u32 * self.block;
        first(slice)..first(slice + 1).min(self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_cover_every_row_once_and_differ_by_one_row_at_most(
            width in 1u32..3000, height in 1u32..3000, slices in 1u32..4000,
        ) {
            let cut = Cut::checked((width, height), slices, 4).unwrap();
            let rows: Vec<_> = (0..cut.slices()).map(|slice| cut.rows(slice)).collect();
            prop_assert_eq!(rows[0].start, 0);
            prop_assert_eq!(rows.last().unwrap().end, height);
            prop_assert!(rows.windows(2).all(|pair| pair[0].end == pair[1].start));
            let (least, most) = (rows.iter().map(|rows| rows.len()).min(), rows.iter().map(|rows| rows.len()).max());
            let (least, most) = (least.unwrap(), most.unwrap());
            prop_assert!(least >= 1 && most - least <= 1);
        }

        #[test]
        fn slices_in_blocks_begin_at_blocks_and_cover_every_row_once(
            height in 1u32..3000, slices in 1u32..100, block in 1u32..65,
        ) {
            let cut = Cut::in_blocks((5, height), slices, 3, block).unwrap();
            let rows: Vec<_> = (0..cut.slices()).map(|slice| cut.rows(slice)).collect();
            prop_assert!(rows.iter().all(|rows| rows.start % block == 0 && !rows.is_empty()));
            prop_assert_eq!((rows[0].start, rows.last().unwrap().end), (0, height));
            prop_assert!(rows.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn more_slices_than_rows_become_one_for_each_row() {
        assert_eq!(Cut::checked((600, 10), 64, 4).unwrap().slices(), 10);
    }

    #[test]
    fn impossible_cuts_are_refused_with_what_to_type() {
        let refusal = |size, slices| Cut::checked(size, slices, 4).unwrap_err().remedy().to_owned();
        assert!(refusal((0, 600), 64).contains("--size"));
        assert!(refusal((1 << 20, 1 << 20), 64).contains("--size"));
        assert!(refusal((600, 600), 0).contains("--slices"));
        assert!(refusal((1 << 24, 1), 1).contains("across"));
    }

    #[test]
    fn the_number_of_slices_that_the_remedy_names_is_enough() {
        let size = (16384, 16384);
        let error = Cut::checked(size, 1, 4).unwrap_err();
        let slices = error.remedy().strip_prefix("use --slices ").unwrap().parse().unwrap();
        assert!(Cut::checked(size, slices, 4).is_ok());
    }
}
