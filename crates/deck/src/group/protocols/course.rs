//! Who takes from whom in a call.

use std::ops::Range;

/// Who takes what from whom in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// All take what this member gives.
    From(u32),
    /// This member takes what all others give.
    To(u32),
    /// All take what all others give.
    Between,
    /// All take what those before them give.
    Upwards,
}

impl Course {
    /// Those from whom member `index` of `members` takes; itself may be among them.
    #[inline]
    pub fn sources(self, index: u32, members: u32) -> Range<u32> {
        match self {
            Course::From(root) => root..root + 1,
            Course::To(root) if index == root => 0..members,
            Course::To(_) => 0..0,
            Course::Between => 0..members,
            Course::Upwards => 0..index,
        }
    }

    /// Those who take from member `index`; itself may be among them.
    pub fn takers(self, index: u32, members: u32) -> Range<u32> {
        match self {
            Course::From(root) if index == root => 0..members,
            Course::From(_) => 0..0,
            Course::To(root) => root..root + 1,
            Course::Between => 0..members,
            Course::Upwards => index + 1..members,
        }
    }

    /// The same in 16 bits.
    pub fn code(self) -> u64 {
        match self {
            Course::From(root) => u64::from(root) << 2,
            Course::To(root) => u64::from(root) << 2 | 1,
            Course::Between => 2,
            Course::Upwards => 3,
        }
    }

    /// What a code in the lowest 16 bits stands for.
    pub fn of_code(code: u64) -> Course {
        let root = (code as u16 >> 2).into();
        match code & 3 {
            0 => Course::From(root),
            1 => Course::To(root),
            2 => Course::Between,
            _ => Course::Upwards,
        }
    }

    /// Does member `index` of `members` take anything, be it its own alone?
    pub fn is_taker(self, index: u32) -> bool {
        match self {
            Course::From(root) => index != root,
            Course::To(root) => index == root,
            Course::Between | Course::Upwards => true,
        }
    }

    /// Does member `index` of `members` give anything?
    pub fn is_giver(self, index: u32, members: u32) -> bool {
        match self {
            Course::From(root) => index == root,
            Course::To(root) => index != root,
            Course::Between => true,
            Course::Upwards => index + 1 != members,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_source_is_a_taker_of_that() {
        const MEMBERS: u32 = 5;
        for course in [Course::From(0), Course::From(3), Course::To(0), Course::To(4), Course::Between, Course::Upwards]
        {
            for (giver, taker) in (0..MEMBERS).flat_map(|giver| (0..MEMBERS).map(move |taker| (giver, taker))) {
                let is_source = course.sources(taker, MEMBERS).contains(&giver);
                assert_eq!(course.takers(giver, MEMBERS).contains(&taker), is_source, "{course:?}: {giver}, {taker}");
            }
        }
    }
}
