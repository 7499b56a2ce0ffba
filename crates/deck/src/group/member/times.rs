//! What members have found in trials of ways, told to one another.

use deck_sync::atomic::Ordering;

use super::super::ways::Told;
use super::Member;

impl Member {
    /// Tells the others with the next call. Before it has told two more all have come to the call after that.
    pub fn tell_times(&mut self, told: &Told) {
        self.trials += 1;
        let [a, b, c, d] = told.ns.map(u64::from);
        // Relaxed: published by coming to the next phase (meeting/flag, ahead/told).
        for (word, value) in
            self.board.times(self.index, self.trials).into_iter().zip([told.key, a << 32 | b, c << 32 | d])
        {
            word.store(value, Ordering::Relaxed);
        }
    }

    /// What members have told of the calls with this key, in the order of indexes. That call has just ended.
    pub fn times_told(&self, key: u64) -> Vec<Told> {
        let members = (0..self.size()).flat_map(|index| [0, 1].map(|trial| self.board.times(index, trial)));
        // Relaxed: as above.
        let told = members.map(|words| words.map(|word| word.load(Ordering::Relaxed)));
        let halves = |word: u64| [(word >> 32) as u32, word as u32];
        told.filter(|[of, ..]| *of == key)
            .map(|[key, first, second]| {
                let ([a, b], [c, d]) = (halves(first), halves(second));
                Told { key, ns: [a, b, c, d] }
            })
            .collect()
    }
}
