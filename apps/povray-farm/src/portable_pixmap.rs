//! Reading the pictures that POV-Ray writes: binary portable pixmaps ("P6") of 8-bit colours.
//!
//! Words of the head are separated by blanks and by comments from `#` to the end of the line; exactly one blank stands
//! before the pixels. Source: the format's manual page, ppm(5) of Netpbm.

use std::ops::Range;

/// Width and height of a picture, and its pixels of three bytes. `None` if it is none.
pub fn read(bytes: &[u8]) -> Option<((u32, u32), &[u8])> {
    let mut rest = bytes.strip_prefix(b"P6")?;
    let mut number = || -> Option<u32> {
        loop {
            rest = rest.trim_ascii_start();
            match rest.strip_prefix(b"#") {
                Some(comment) => rest = &comment[comment.iter().position(|&byte| byte == b'\n')?..],
                None => break,
            }
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (word, after) = rest.split_at(digits);
        rest = after;
        std::str::from_utf8(word).ok()?.parse().ok()
    };
    let (width, height, largest) = (number()?, number()?, number()?);
    let pixels = rest.get(1..)?;
    let bytes = usize::try_from(u64::from(width) * u64::from(height) * 3).ok()?;
    (largest == 255 && pixels.len() == bytes).then_some(((width, height), pixels))
}

/// Rows of a picture that has the size that it should have.
pub fn rows(bytes: &[u8], size: (u32, u32), rows: Range<u32>) -> Option<&[u8]> {
    let (found, pixels) = read(bytes)?;
    let row = size.0 as usize * 3;
    (found == size).then(|| pixels.get(rows.start as usize * row..rows.end as usize * row))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: &[u8] = b"P6\n# Software: POV-Ray\n# 7 8 9\n2 3\n255\nabcdefghijklmnopqr";

    #[test]
    fn a_picture_with_comments_is_read() {
        assert_eq!(read(PICTURE), Some(((2, 3), &b"abcdefghijklmnopqr"[..])));
        assert_eq!(rows(PICTURE, (2, 3), 1..2), Some(&b"ghijkl"[..]));
    }

    #[test]
    fn other_sizes_depths_and_formats_are_none() {
        assert_eq!(rows(PICTURE, (3, 2), 0..1), None);
        assert_eq!(rows(PICTURE, (2, 3), 2..4), None);
        assert_eq!(read(b"P6 2 3 65535\nabcdefghijklmnopqr"), None);
        assert_eq!(read(b"P3 1 1 255\n1 2 3"), None);
        assert_eq!(read(&PICTURE[..PICTURE.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange_to_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[b"P6 ", &bytes[..]].concat());
        }
    }
}
