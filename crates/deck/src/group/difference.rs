//! Are members in the same call? What they said in a phase, compared.

use std::ops::Range;

use deck_mudeck::{Error, ErrorKind};

use super::call::{Call, Kind};
use super::member::Member;

/// What members say beside a length: what is given in this round lies whole in the giver's own memory, where it is
/// read.
pub const IN_PLACE: u64 = 1 << 63;
/// ... and: results of this call will be read in this member's output.
pub const SHOWS_OUTPUT: u64 = 1 << 62;

/// ... and: what is given in place lies in the program's own memory, at the address that is told.
pub const ATTACHED: u64 = 1 << 61;

/// The length without what is said beside it.
#[inline]
pub fn length_of(said: u64) -> u64 {
    said & (ATTACHED - 1)
}

/// The first of `indexes` that said another call in `phase` than member `against`: as an error, if there is one.
#[inline]
pub fn difference(member: &Member, phase: u64, against: u32, indexes: Range<u32>) -> Option<Error> {
    let expected = member.heard(against, phase);
    let has_counts = Kind::from_word(expected.call & 0xff).is_some_and(Kind::has_counts);
    let differs = |index: &u32| {
        let said = member.heard(*index, phase);
        said.call != expected.call || (!has_counts && length_of(said.length) != length_of(expected.length))
    };
    indexes.into_iter().find(differs).map(|index| describe(member, phase, index, against))
}

#[cold]
fn describe(member: &Member, phase: u64, index: u32, against: u32) -> Error {
    let call = |index| {
        let said = member.heard(index, phase);
        Call::describe(said.call, length_of(said.length))
    };
    let (said, expected) = (call(index), call(against));
    let kind = Kind::from_word(member.heard(member.index, phase).call & 0xff).unwrap_or(Kind::Barrier);
    let what = format!("{}: index {index} called {said}, index {against} {expected}", member.doing(kind));
    Error::new(ErrorKind::Invalid, what)
        .with_peer(member.nodes[index as usize])
        .with_remedy("call the same in every member, with the same root, type, operation and count")
}
