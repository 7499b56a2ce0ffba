//! Memory for what a member contributes.
//!
//! Nobody reads a contribution any more when the phase after it is complete, so two places would do, and do for short
//! ones: the fewer lines, the nearer they are. For long ones they do not. Lines that others have just read are in their
//! caches, and to write such a line again takes as long as to fetch it from there: 1 MiB in pieces of 64 KiB, written
//! by one core and read by another, takes 170 us through two places and 40 us through memory twice as large as the
//! caches of a core. What was read has gone to a cache that all share by the time it is written again.

use std::sync::Arc;

use deck_mudeck::Result;
use deck_segment::{HeapMemory, Region};

/// What is shorter goes to one of two places, and its readers fetch it where they can.
pub const LONG: usize = 64 << 10;
/// The most memory of a member for long ones: twice what the caches of a core hold.
const MOST: usize = 2 << 20;
/// What all members of a group have together, as far as their contributions leave it at that.
const TOGETHER: usize = 4 << 20;
/// Memory is taken in steps of this; contributions begin at cache lines.
const STEP: usize = 4096;
const LINE: usize = 64;
/// So many of the longest contribution fit: then one that begins again does not meet the one before it.
const PLACES: usize = 3;
/// Places of a member that may be ahead of others: as many of its contributions may be unread.
const PLACES_AHEAD: usize = 8;

/// In about so many calls a member of so many that gives `bytes` in each has touched all of its memory for them, which
/// grows to that by doubling. A page that is new takes as long as copying several.
pub fn calls_to_touch_all(bytes: usize, members: u32) -> u32 {
    const AS_IT_GROWS: usize = 3;
    let calls = if bytes < LONG { 2 } else { (AS_IT_GROWS * most(members as usize) / bytes).max(1) };
    u32::try_from(calls).unwrap_or(u32::MAX)
}

/// The most memory for long ones of one of so many members.
fn most(members: usize) -> usize {
    (TOGETHER / members).min(MOST)
}

/// Memory of a room. Its size is not what the program gave, so an error says whose it is and how much it can become.
fn region(heap: &Arc<HeapMemory>, bytes: usize) -> Result<Region> {
    heap.region(bytes).map_err(|error| error.context("room for what a member of a group gives, up to 8 MiB"))
}

/// Where a member's contributions lie.
#[derive(Default)]
pub struct Room {
    short: Option<Region>,
    long: Option<Region>,
    /// For pieces that flow.
    window: Option<Region>,
    /// For what this member has made for all.
    made: Option<Region>,
    /// For contributions of a member that may be ahead: places, what each holds, the chosen one, the phases in which
    /// they were taken.
    ahead: Option<Region>,
    place: usize,
    next: usize,
    since: [u64; PLACES_AHEAD],
    /// Bytes that long ones have taken since they began again.
    taken: usize,
    /// Memory that was too small, and the phase at which it became so: others may still read it.
    outgrown: Vec<(u64, Region)>,
}

impl Room {
    /// A place for `bytes` to be given by one of `members` in `phase`; the one before is complete. Its offset in this
    /// node's segment.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn take(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize, members: usize) -> Result<usize> {
        // What was given two phases ago has been read.
        self.outgrown.retain(|(since, _)| *since >= phase);
        match bytes < LONG {
            true => self.take_short(heap, phase, bytes),
            false => self.take_long(heap, phase, bytes.next_multiple_of(LINE), members),
        }
    }

    /// A place for a window of `bytes`, which is told in `phase`; the phase before is complete. Its offset in this
    /// node's segment.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn window(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize) -> Result<usize> {
        // Whoever came to a phase has taken all pieces of the calls before.
        self.outgrown.retain(|(since, _)| *since >= phase);
        if self.window.as_ref().is_none_or(|region| region.bytes() < bytes) {
            let region = region(heap, bytes.next_multiple_of(STEP))?;
            self.outgrown.extend(self.window.replace(region).map(|old| (phase, old)));
        }
        Ok(self.window.as_ref().map_or(0, Region::offset))
    }

    /// The place for `bytes` that this member makes for all in `phase`, to which all have come. Its offset in this
    /// node's segment.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn made_once(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize) -> Result<usize> {
        if self.made.as_ref().is_none_or(|region| region.bytes() < bytes) {
            let region = region(heap, bytes.next_power_of_two().max(STEP))?;
            self.outgrown.extend(self.made.replace(region).map(|old| (phase, old)));
        }
        Ok(self.made.as_ref().map_or(0, Region::offset))
    }

    /// Chooses a place for `bytes` of a member that may be ahead of others: to the phase that it returns all must have
    /// come before it is free. `have_come` tells whether they have come to a phase.
    pub fn choose_ahead(&mut self, bytes: usize, have_come: impl Fn(u64) -> bool) -> u64 {
        let free_from = |since: u64| if since == 0 { 0 } else { since + 1 };
        if bytes > self.place {
            return 0;
        }
        // The first that is free, as the fewer places are used the nearer they are; or else the one that will be.
        let is_free = |place: &usize| self.since[*place] == 0 || have_come(free_from(self.since[*place]));
        let oldest = || (0..PLACES_AHEAD).min_by_key(|place| self.since[*place]).unwrap_or(0);
        self.next = (0..PLACES_AHEAD).find(is_free).unwrap_or_else(oldest);
        free_from(self.since[self.next])
    }

    /// The place that was chosen for `bytes`, to be given in `phase`. Its offset in this node's segment.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn take_ahead(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize) -> Result<usize> {
        if bytes > self.place {
            let place = bytes.next_power_of_two().max(LINE);
            let region = region(heap, (PLACES_AHEAD * place).max(STEP))?;
            self.outgrown.extend(self.ahead.replace(region).map(|old| (phase, old)));
            (self.place, self.next, self.since) = (place, 0, [0; PLACES_AHEAD]);
        }
        self.since[self.next] = phase;
        Ok(self.ahead.as_ref().map_or(0, Region::offset) + self.next * self.place)
    }

    fn take_short(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize) -> Result<usize> {
        if self.short.as_ref().is_none_or(|region| region.bytes() < 2 * bytes) {
            let region = region(heap, 2 * bytes.next_power_of_two().max(STEP))?;
            self.outgrown.extend(self.short.replace(region).map(|old| (phase, old)));
        }
        Ok(self.short.as_ref().map_or(0, |region| region.offset() + (phase % 2) as usize * region.bytes() / 2))
    }

    /// Whether `bytes` bytes from `offset` on are for contributions that the other one of two borrows.
    pub fn is_lent(&self, offset: usize, bytes: usize) -> bool {
        let lies_in = |region: &Region| {
            let end = region.offset() + region.bytes();
            offset >= region.offset() && offset.checked_add(bytes).is_some_and(|last| last <= end)
        };
        self.short.as_ref().is_some_and(lies_in) || self.ahead.as_ref().is_some_and(lies_in)
    }

    /// A contribution to `phase` lies at `offset`, where the other one of two had given before.
    pub fn note_returned(&mut self, phase: u64, offset: usize) {
        if let Some(region) = &self.ahead
            && let Some(since) = offset.checked_sub(region.offset()).and_then(|at| self.since.get_mut(at / self.place))
        {
            *since = phase;
        }
    }

    fn take_long(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize, members: usize) -> Result<usize> {
        let has = self.long.as_ref().map_or(0, Region::bytes);
        let (least, most) = (PLACES * bytes, most(members));
        if has < least {
            self.grow(heap, phase, least)?;
        } else if self.taken + bytes > has {
            self.taken = 0;
            if has < most {
                // Without it, it only takes longer.
                let _ = self.grow(heap, phase, (2 * has).min(most));
            }
        }
        let place = self.long.as_ref().map_or(0, Region::offset) + self.taken;
        self.taken += bytes;
        Ok(place)
    }

    fn grow(&mut self, heap: &Arc<HeapMemory>, phase: u64, bytes: usize) -> Result<()> {
        let region = region(heap, bytes.next_multiple_of(STEP))?;
        self.outgrown.extend(self.long.replace(region).map(|old| (phase, old)));
        self.taken = 0;
        Ok(())
    }

    /// All of its memory.
    pub fn leave(&mut self) -> Vec<Region> {
        let outgrown = self.outgrown.drain(..).map(|(_, region)| region);
        self.short
            .take()
            .into_iter()
            .chain(self.long.take())
            .chain(self.window.take())
            .chain(self.made.take())
            .chain(self.ahead.take())
            .chain(outgrown)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use deck_mudeck::{ErrorKind, NodeId};
    use deck_segment::{HeapOptions, Seat, layout};

    use super::*;

    /// Takes places in consecutive phases: none may meet the one before, and all lie in memory that is still there.
    #[test]
    fn a_contribution_never_meets_the_one_before_it() {
        let heap = HeapMemory::create(NodeId(0), Seat(0), &HeapOptions::of(layout::DATA + (64 << 20))).unwrap();
        let sizes =
            [100, 8 << 10, 60 << 10, 64 << 10, 300 << 10, 64 << 10, 100 << 10, 1 << 20, 700 << 10, 33, 512 << 10];
        for members in [1, 2, 8, 1024] {
            let mut room = Room::default();
            let (mut phase, mut last) = (0, 0..0);
            for round in 0..40 {
                for bytes in sizes.into_iter().skip(round % 3) {
                    phase += 1;
                    let from = room.take(&heap, phase, bytes, members).unwrap();
                    let next = from..from + bytes;
                    let what = format!("phase {phase} of {members}: {bytes} bytes at {next:?}, the last at {last:?}");
                    assert!(next.end <= last.start || last.end <= next.start, "{what}");
                    let has = |region: &Region| region.offset()..region.offset() + region.bytes();
                    let regions: Vec<_> = room.short.iter().chain(&room.long).map(has).collect();
                    assert!(
                        regions.iter().any(|region| region.start <= next.start && next.end <= region.end),
                        "{what}"
                    );
                    last = next;
                }
            }
            let longest = PLACES * (1 << 20);
            let has: usize = room.leave().iter().map(Region::bytes).sum();
            assert!(has <= longest.max(MOST) + 2 * LONG, "{has} bytes for {members} members");
        }
    }

    #[test]
    fn after_so_many_calls_all_memory_has_been_given_once() {
        let heap = HeapMemory::create(NodeId(0), Seat(0), &HeapOptions::of(layout::DATA + (64 << 20))).unwrap();
        for (bytes, members) in [(LONG, 2), (100 << 10, 2), (256 << 10, 3), (MOST, 2), (1 << 20, 8), (LONG, 64)] {
            let mut room = Room::default();
            let mut phase = 0;
            let mut take = |calls| {
                let mut places = Vec::new();
                for _ in 0..calls {
                    phase += 1;
                    places.push(room.take(&heap, phase, bytes, members).unwrap());
                }
                places
            };
            let before = take(calls_to_touch_all(bytes, members as u32).max(PLACES as u32));
            let what = format!("{bytes} bytes of {members}");
            assert!(take(40).iter().all(|place| before.contains(place)), "{what}");
        }
    }

    /// The program has asked for another number of bytes, and may have no messages that it could send in parts.
    #[test]
    fn where_a_heap_is_too_small_the_error_says_for_what_and_how_much_is_enough() {
        let heap = HeapMemory::create(NodeId(0), Seat(0), &HeapOptions::of(layout::DATA + (1 << 20))).unwrap();
        let mut room = Room::default();
        let refused = [
            room.take(&heap, 1, LONG - 1, 3).and_then(|_| room.take(&heap, 2, 300 << 10, 3)),
            room.take(&heap, 3, 2 << 20, 3),
            room.window(&heap, 4, 2 << 20),
            room.made_once(&heap, 5, 2 << 20),
            room.take_ahead(&heap, 6, 1 << 20),
        ];
        for error in refused.map(Result::unwrap_err) {
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::NoMemory, "{text}");
            assert!(text.contains("a member of a group") && text.contains("8 MiB"), "{text}");
            assert!(error.remedy().contains("DECK_HEAP") && !text.contains("in parts"), "{text}");
        }
    }
}
