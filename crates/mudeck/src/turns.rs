//! Which rings of a mail box are polled, and whose turn it is.

/// Indexes of the rings that are polled, in turn.
pub(crate) struct Turns {
    pub rings: Vec<usize>,
    /// Whose turn it is, as a place among them.
    place: usize,
    /// Its index, at hand; `NOBODY` if none is polled.
    pub now: usize,
    /// A bit for each index, set if it is among them: a thousand may be added in a row.
    polled: Vec<u64>,
}

pub(crate) const NOBODY: usize = usize::MAX;

impl Turns {
    pub const NONE: Turns = Turns { rings: Vec::new(), place: 0, now: NOBODY, polled: Vec::new() };

    pub fn add(&mut self, index: usize) {
        let (word, bit) = (index / 64, 1 << (index % 64));
        if self.polled.len() <= word {
            self.polled.resize(word + 1, 0);
        }
        if self.polled[word] & bit == 0 {
            self.polled[word] |= bit;
            self.rings.push(index);
            self.now = self.rings[self.place];
        }
    }

    pub fn remove(&mut self, index: usize) {
        if self.polled.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0) {
            self.retain(|other| other != index);
        }
    }

    /// Removes all that do not stay, in one go.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        let place = self.rings.iter().take(self.place).filter(|index| stays(**index)).count();
        let polled = &mut self.polled;
        self.rings.retain(|index| {
            let stays = stays(*index);
            polled[index / 64] &= !(u64::from(!stays) << (index % 64));
            stays
        });
        self.go_to(place);
    }

    #[inline]
    pub fn next(&mut self) {
        self.go_to(self.place + 1);
    }

    #[inline]
    fn go_to(&mut self, place: usize) {
        self.place = if place < self.rings.len() { place } else { 0 };
        self.now = self.rings.get(self.place).copied().unwrap_or(NOBODY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whose turn it is, and then the others'.
    fn round(turns: &mut Turns) -> Vec<usize> {
        let count = turns.rings.len();
        let next = |_| {
            let now = turns.now;
            turns.next();
            now
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn each_is_there_once_and_whose_turn_it_is_stays_so_while_others_go() {
        let mut turns = Turns::NONE;
        assert_eq!(turns.now, NOBODY);
        [5, 1000, 5, 64, 0, 1000].into_iter().for_each(|index| turns.add(index));
        assert_eq!(round(&mut turns), [5, 1000, 64, 0]);
        turns.next();
        turns.next();
        turns.remove(7);
        assert_eq!(turns.now, 64);
        turns.retain(|index| index != 5 && index != 1000);
        assert_eq!(round(&mut turns), [64, 0]);
        turns.remove(64);
        assert_eq!(turns.now, 0);
        turns.add(64);
        assert_eq!(round(&mut turns), [0, 64]);
        turns.next();
        turns.remove(64);
        assert_eq!(turns.now, 0, "behind the last one comes the first");
        turns.remove(0);
        assert_eq!(turns.now, NOBODY);
    }
}
