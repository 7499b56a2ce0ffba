//! Who holds which buffer.
//!
//! A buffer lives in the heap of the node that made it, and any node may hold it. Each node counts its own handles in
//! private memory; in the line of the buffer (shared, in the owner's segment) it keeps one bit: set while that count is
//! not zero. **Every bit has one writer**, so a release can only take away what that node itself put there, and after a
//! death the owner clears exactly the dead node's bits: there is no count that a kill could leave between two values.
//!
//! A posted message that was not retrieved yet has no bit of its own. It is held by the sender, as part of the sender's
//! count, until the receiver gives the credit back, and the receiver sets its own bit *before* it does: at every moment
//! at least one of the two bits is set. When a sender dies, its bits stay until every live node has taken over what the
//! dead node had posted to it (see the peers crate).
//!
//! The owner may free when its own count and all bits are zero. As bits of different seats are in different words, it
//! reads them between two equal reads of a counter that grows with every bit set: otherwise a bit could move past the
//! reader, from a word not yet read to one already read.

use deck_sync::atomic::{AtomicU32, Ordering, pause};

use crate::Seat;
use crate::Words;
use crate::layout::holder;

/// Set in a node's private count while one thread moves the bit; everybody else waits a few instructions.
const MOVING: u32 = 1 << 31;
/// Set in a node's private count for ever once a handle was abandoned: the bit stays, whatever handles come and go.
const STAYS: u32 = 1 << 30;
/// The handles in a node's private count.
const HANDLES: u32 = STAYS - 1;
/// More than a program can have and not have lost: far enough below what would change the flags that all threads
/// together cannot get there.
pub(crate) const HANDLES_MAX: u32 = STAYS / 2;
/// More than a process can have threads.
const THREADS_MAX: u32 = 1 << 22;
/// The owner's private count of a buffer that it has claimed, until it hands the buffer out again.
const FREE: u32 = u32::MAX;

/// One buffer as one node sees it.
pub struct Holder<'a> {
    /// The node's private count of handles. While no thread moves the bit, it is set if and only if there is a handle,
    /// or one was abandoned.
    pub count: &'a AtomicU32,
    /// The line of the buffer; word 0 of `line` is at `first`.
    pub line: &'a Words,
    /// Index of the line's first word in `line`.
    pub first: usize,
    /// The seat whose bit moves; `None` in the owner, whose own count needs no bit.
    pub seat: Option<Seat>,
}

impl Holder<'_> {
    /// One handle more; `note` is called if it is the node's first one, before anybody can have a second. The caller
    /// holds the buffer in another way: a handle of this node, or a credit not yet given back. False, and no handle, if
    /// the owner finds its buffer free: whoever named it does not hold it.
    pub fn hold(&self, note: impl FnOnce()) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            if count & MOVING != 0 {
                if count == FREE {
                    return false;
                }
                pause();
                count = self.count.load(Ordering::Relaxed);
                continue;
            }
            if is_too_many(count) {
                too_many();
            }
            let is_first = count & HANDLES == 0;
            let next = if is_first { count | MOVING } else { count + 1 };
            // Acquire: pairs with: holders/settle.
            match self.count.compare_exchange_weak(count, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) if is_first => break,
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        if count & STAYS == 0 {
            self.set_bit();
        }
        note();
        // Release: pairs with: holders/settle.
        self.count.store(count + 1, Ordering::Release);
        true
    }

    /// One handle more, of which the caller has one: nobody moves the bit.
    pub fn hold_again(&self) {
        // Relaxed: the caller's handle keeps the buffer.
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if is_too_many(before) {
            self.count.fetch_sub(1, Ordering::Relaxed);
            too_many();
        }
    }

    /// One handle less; true if it was the node's last one: then `note` is called before anybody can have one again.
    /// The content must not be looked at afterwards.
    pub fn let_go(&self, note: impl FnOnce()) -> bool {
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            if count & MOVING != 0 {
                pause();
                count = self.count.load(Ordering::Relaxed);
                continue;
            }
            debug_assert!(count & HANDLES > 0, "let go of a buffer that is not held");
            let is_last = count & HANDLES == 1;
            let next = if is_last { (count - 1) | MOVING } else { count - 1 };
            // AcqRel: pairs with: holders/settle. What the other threads of this node did with the content is before
            // the bit is cleared.
            match self.count.compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if is_last => break,
                Ok(_) => return false,
                Err(now) => count = now,
            }
        }
        if count & STAYS == 0 {
            self.clear_bit();
        }
        note();
        // Release: pairs with: holders/settle.
        self.count.store(count - 1, Ordering::Release);
        true
    }

    /// As [`Holder::let_go`], but a message in flight still relies on the bit: it stays from now on, whatever other
    /// handles come and go, until the node is gone and the owner takes it away.
    pub fn abandon(&self, note: impl FnOnce()) -> bool {
        // Relaxed: the exchange tells if it is still so.
        let mut count = self.count.load(Ordering::Relaxed);
        loop {
            // The caller has a handle, so nobody moves the bit.
            debug_assert!(count & MOVING == 0 && count & HANDLES > 0, "abandoned a buffer that is not held");
            let is_last = count & HANDLES == 1;
            let left = (count - 1) | STAYS;
            let next = if is_last { left | MOVING } else { left };
            // AcqRel: pairs with: holders/settle. Both at once: whoever lets go of the last handle sees the flag.
            match self.count.compare_exchange_weak(count, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if is_last => {
                    note();
                    // Release: pairs with: holders/settle.
                    self.count.store(left, Ordering::Release);
                    return true;
                }
                Ok(_) => return false,
                Err(now) => count = now,
            }
        }
    }

    fn set_bit(&self) {
        let Some(Seat(seat)) = self.seat else { return };
        let word = self.line.get(self.first + holder::BITS + usize::from(seat) / 64);
        // SeqCst: pairs with: holders/snapshot. The bit is set before the counter tells.
        word.fetch_or(1 << (seat % 64), Ordering::SeqCst);
        // SeqCst: pairs with: holders/snapshot.
        self.line.get(self.first + holder::ADDED).fetch_add(1, Ordering::SeqCst);
    }

    fn clear_bit(&self) {
        let Some(Seat(seat)) = self.seat else { return };
        clear_bit(self.line, self.first, Seat(seat));
    }
}

/// Handles that are forgotten stay in the count, as those of an `Arc` do, and too many would make a buffer free that
/// others look at.
fn is_too_many(count: u32) -> bool {
    count & HANDLES >= HANDLES_MAX
}

/// So many that messages with the buffer are neither posted nor retrieved any more: there, one handle too many would be
/// noticed inside a lock, and whatever the program does about a panic may come there again. What is left takes one more
/// of each thread that has looked and goes on.
pub(crate) fn are_nearly_too_many(count: u32) -> bool {
    // One that is free has none, whatever its count looks like.
    count & MOVING == 0 && count & HANDLES >= HANDLES_MAX - THREADS_MAX
}

#[cold]
fn too_many() -> ! {
    panic!("a node has more than {HANDLES_MAX} handles of a message's buffer: they leak");
}

/// Takes a seat's bit away: by the node itself, or by the owner after that node's death.
pub fn clear_bit(line: &Words, first: usize, seat: Seat) {
    let word = line.get(first + holder::BITS + usize::from(seat.0) / 64);
    // SeqCst: pairs with: holders/snapshot. Release towards the owner, who writes the content after it saw no bit.
    word.fetch_and(!(1 << (seat.0 % 64)), Ordering::SeqCst);
}

/// Reads of the counter before a buffer that changes all the time is taken for held: honest nodes change it once a
/// hold.
const READS_MAX: u32 = 16;

/// True if no other node holds the buffer. Called by the owner while its own count is zero: then nobody can come to
/// hold it who does not hold it already.
pub fn nobody_else(line: &Words, first: usize) -> bool {
    for _ in 0..READS_MAX {
        // Pairs with: holders/snapshot. A bit set after this read and before the last one changes the counter.
        let before = line.get(first + holder::ADDED).load(Ordering::SeqCst);
        for word in 0..Seat::COUNT / 64 {
            // Pairs with: holders/snapshot.
            if line.get(first + holder::BITS + word).load(Ordering::SeqCst) != 0 {
                return false;
            }
        }
        // Pairs with: holders/snapshot.
        if line.get(first + holder::ADDED).load(Ordering::SeqCst) == before {
            return true;
        }
        pause();
    }
    false
}

/// Claims a buffer that its owner does not hold, if `nobody_else` does: then nobody can begin to hold it until the
/// owner stores a count, as it does when it hands the buffer out again. Otherwise nothing changes.
pub fn claim(count: &AtomicU32, nobody_else: impl FnOnce() -> bool) -> bool {
    // Acquire: pairs with: holders/settle.
    if count.compare_exchange(0, MOVING, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return false;
    }
    let free = nobody_else();
    // Release: pairs with: holders/settle.
    count.store(if free { FREE } else { 0 }, Ordering::Release);
    free
}
