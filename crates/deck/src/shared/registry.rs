//! Under which name which memory: the one word that decides who creates a segment, and when its name is free again.
//!
//! A name stands for a segment as long as some node has it open. There is no last step that frees the name: a word that
//! says "ready" counts only while a live node holds the segment, so neither a kill nor leaving needs cleaning up. Each
//! creation begins a new *generation*, so what was passed late is never taken for what came after it.
//!
//! One node at a time opens or creates anything ([`deck_peers::Opening`]). So whoever creates sees all who have the
//! name open, and whoever opens sees which life it has opened.

use deck_segment::Words;
use deck_sync::NodeId;
use deck_sync::atomic::{AtomicU64, Ordering};

/// Word that decides: phase in bits 0 and 1, node from bit 2, generation from bit 34.
const STATE: usize = 0;
/// Size in bytes as it was asked for.
const BYTES: usize = 1;
pub(super) const GENERATIONS: u64 = 1 << 30;
// As `docs/layout/job-table.md` says.
const _: () = assert!(STATE == 0 && BYTES == 1);

/// What a name stands for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing.
    Vacant,
    /// This node is making it.
    Making(NodeId),
    /// It is there, and this is its home; it counts while somebody holds it.
    Ready(NodeId),
}

/// The word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// What the name stands for.
    pub phase: Phase,
    /// Which life.
    pub generation: u32,
}

impl State {
    fn to_word(self) -> u64 {
        let (phase, node) = match self.phase {
            Phase::Vacant => (0, 0),
            Phase::Making(node) => (1, node.0),
            Phase::Ready(node) => (2, node.0),
        };
        u64::from(self.generation) << 34 | u64::from(node) << 2 | phase
    }

    fn from_word(word: u64) -> State {
        let node = NodeId((word >> 2) as u32);
        let phase = match word & 3 {
            1 => Phase::Making(node),
            2 => Phase::Ready(node),
            _ => Phase::Vacant,
        };
        State { phase, generation: (word >> 34) as u32 }
    }
}

/// A view of the words of a segment's name.
#[derive(Clone, Copy)]
pub struct Registry<'a>(&'a Words);

impl<'a> Registry<'a> {
    /// The registry in these words.
    pub fn new(words: &'a Words) -> Registry<'a> {
        Registry(words)
    }

    fn word(self) -> &'a AtomicU64 {
        self.0.get(STATE)
    }

    /// What the name stands for, whoever holds it.
    pub fn state(self) -> State {
        // Acquire: pairs with: registry/ready.
        State::from_word(self.word().load(Ordering::Acquire))
    }

    /// Size in bytes of what is ready.
    pub fn bytes(self) -> u64 {
        self.0.get(BYTES).load(Ordering::Relaxed)
    }

    /// `me` is to make the next segment of this name: its generation. `is_held` tells whether a live node holds the
    /// name. While nobody else opens anything.
    ///
    /// # Errors
    /// The node that is making one, or the home of the one there is.
    pub fn claim(
        self,
        me: NodeId,
        is_live: &dyn Fn(NodeId) -> bool,
        is_held: &dyn Fn() -> bool,
    ) -> Result<u32, NodeId> {
        loop {
            // Acquire: pairs with: registry/ready.
            let word = self.word().load(Ordering::Acquire);
            let state = State::from_word(word);
            match state.phase {
                Phase::Ready(home) if is_held() => return Err(home),
                // What is held under a dead maker's claim: somebody is looking what became of that.
                Phase::Making(maker) if is_live(maker) || is_held() => return Err(maker),
                _ => {}
            }
            let generation = ((u64::from(state.generation) + 1) % GENERATIONS) as u32;
            let mine = State { phase: Phase::Making(me), generation };
            // What stands there and not what it means: a word that somebody has scribbled over may mean nothing.
            // AcqRel: pairs with: registry/ready.
            let won = self.word().compare_exchange(word, mine.to_word(), Ordering::AcqRel, Ordering::Relaxed);
            if won.is_ok() {
                deck_sync::point("segment/claimed");
                return Ok(generation);
            }
        }
    }

    /// What `me` claimed is there, at `home`. `me` has not left since it claimed that. False if the word says something
    /// else meanwhile.
    pub fn publish(self, me: NodeId, generation: u32, home: NodeId, bytes: u64) -> bool {
        let [made, ready] = [Phase::Making(me), Phase::Ready(home)].map(|phase| State { phase, generation });
        if self.state() != made {
            return false;
        }
        self.0.get(BYTES).store(bytes, Ordering::Relaxed);
        self.change(made, ready)
    }

    /// Nothing came of what `me` claimed.
    pub fn withdraw(self, me: NodeId, generation: u32) {
        let now = State { phase: Phase::Making(me), generation };
        self.vacate(now);
    }

    /// The name stands for nothing any more, if it still stands for `state`.
    pub fn vacate(self, state: State) {
        self.change(state, State { phase: Phase::Vacant, generation: state.generation });
    }

    /// False, and nothing happens, if the word says something else.
    fn change(self, from: State, to: State) -> bool {
        // AcqRel: pairs with: registry/ready.
        self.word().compare_exchange(from.to_word(), to.to_word(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_means_nothing_is_no_reason_to_wait() {
        let nobody: &dyn Fn(NodeId) -> bool = &|_| false;
        for nonsense in [3, u64::MAX, 7 << 2, 5 << 34 | 1 << 2] {
            let memory = deck_segment::Segment::create("registry", 4096).unwrap();
            memory.allocate(0, 4096).unwrap();
            let words = Words::in_segment(&memory, 0, 2).unwrap();
            words.get(STATE).store(nonsense, Ordering::Relaxed);
            let generation = Registry::new(&words).claim(NodeId(1), nobody, &|| false).unwrap();
            assert_eq!(Registry::new(&words).state(), State { phase: Phase::Making(NodeId(1)), generation });
        }
    }

    #[test]
    fn a_name_that_is_held_is_not_taken_though_whoever_claimed_it_died_before_it_looked() {
        let memory = deck_segment::Segment::create("registry", 4096).unwrap();
        memory.allocate(0, 4096).unwrap();
        let words = Words::in_segment(&memory, 0, 2).unwrap();
        let registry = Registry::new(&words);
        let generation = registry.claim(NodeId(1), &|_| false, &|| false).unwrap();
        assert_eq!(registry.claim(NodeId(2), &|_| false, &|| true), Err(NodeId(1)));
        assert_eq!(registry.claim(NodeId(2), &|_| false, &|| false), Ok(generation + 1));
        // What comes late changes nothing.
        assert!(!registry.publish(NodeId(1), generation, NodeId(1), 8));
        assert_eq!(registry.state(), State { phase: Phase::Making(NodeId(2)), generation: generation + 1 });
    }

    #[test]
    fn a_word_keeps_what_it_is_made_of() {
        for phase in [Phase::Vacant, Phase::Making(NodeId(65_535)), Phase::Ready(NodeId(0))] {
            for generation in [0, 1, (GENERATIONS - 1) as u32] {
                let phase = if phase == Phase::Vacant { Phase::Vacant } else { phase };
                let state = State { phase, generation };
                assert_eq!(State::from_word(state.to_word()), state);
            }
        }
    }
}
