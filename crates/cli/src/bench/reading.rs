//! How a touched message is read: as it is if it was copied, otherwise a piece is fetched, then added up.

use std::hint::black_box;

use deck::Message;

use super::content;

/// Bytes that are fetched at a time: they stay in the first-level cache till they are read.
const PIECE: usize = 4 << 10;

/// No message of up to so many bytes is handed over: both sides keep their memory, and nothing is fetched.
pub const COPIED: usize = 1 << 10;

/// The [`content::sum`] of all of it.
#[inline(always)]
pub fn sum(message: &Message) -> u64 {
    let all = message.as_bytes();
    if all.len() <= COPIED { content::sum(black_box(all)) } else { sum_of_pieces(message) }
}

#[inline(never)]
fn sum_of_pieces(message: &Message) -> u64 {
    let pieces = message.as_bytes().chunks(PIECE).enumerate();
    pieces.fold(0, |sum, (index, piece)| {
        message.fetch(index * PIECE, piece.len());
        content::sum(black_box(piece)).wrapping_add(sum)
    })
}
