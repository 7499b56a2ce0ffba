//! From whom a member has taken all that they give, in whatever order they have come.

/// The most members for any of which one waits at the same time before all have come: each look is at all of them.
const WAITS_FOR: usize = 16;

/// What a member has of one of those from whom it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    Open,
    /// All that it gives.
    Taken,
    /// It could not be taken before all have come.
    HeldUp,
}

/// All of them, by the turn in which they would be taken.
#[derive(Debug, Default)]
pub struct Sources {
    /// Those that are not here are open.
    by_turn: Vec<Source>,
}

impl Sources {
    pub fn of(&self, turn: u32) -> Source {
        self.by_turn.get(turn as usize).copied().unwrap_or_default()
    }

    pub fn set(&mut self, turn: u32, source: Source) {
        if self.by_turn.len() <= turn as usize {
            self.by_turn.resize(turn as usize + 1, Source::Open);
        }
        self.by_turn[turn as usize] = source;
    }

    /// So many of the first ones are taken.
    pub fn in_order(&self) -> u32 {
        self.by_turn.iter().take_while(|source| **source == Source::Taken).count() as u32
    }

    /// The first of `turns` that may be taken as soon as they have come.
    pub fn open(&self, turns: u32) -> impl Iterator<Item = u32> {
        (0..turns).filter(|turn| self.of(*turn) == Source::Open).take(WAITS_FOR)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_told_in_order_whatever_order_it_was_taken_in() {
        let mut sources = Sources::default();
        assert_eq!(sources.open(3).collect::<Vec<_>>(), [0, 1, 2]);
        sources.set(2, Source::Taken);
        sources.set(0, Source::HeldUp);
        assert_eq!((sources.in_order(), sources.open(4).collect::<Vec<_>>()), (0, vec![1, 3]));
        sources.set(0, Source::Taken);
        assert_eq!(sources.in_order(), 1);
        sources.set(1, Source::Taken);
        assert_eq!(sources.in_order(), 3);
        assert_eq!(sources.open(1000).count(), WAITS_FOR);
    }
}
