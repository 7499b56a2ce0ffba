//! Which rings of a mail box are polled, and whose turn it is.

/// Indexes of the rings that are polled, in turn.
pub(crate) struct Turns {
    pub rings: Vec<usize>,
    /// Whose turn it is, as a place among them.
    place: usize,
    /// Its index, at hand; `NOBODY` if none is polled.
    pub now: usize,
}

pub(crate) const NOBODY: usize = usize::MAX;

impl Turns {
    pub const NONE: Turns = Turns { rings: Vec::new(), place: 0, now: NOBODY };

    pub fn add(&mut self, index: usize) {
        if !self.rings.contains(&index) {
            self.rings.push(index);
            self.now = self.rings[self.place];
        }
    }

    pub fn remove(&mut self, index: usize) {
        if let Some(place) = self.rings.iter().position(|other| *other == index) {
            self.rings.remove(place);
            self.place -= usize::from(place < self.place);
            self.go_to(self.place);
        }
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
