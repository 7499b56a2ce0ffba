//! A heap that grows, and gives back: what the kernel does for that, it does while nobody has the heap's lock.
//!
//! It may take a second, if large pages have to be made first. Other threads of the node go on with what is ready: a
//! retrieve without a timeout, a collective, a message that takes a kilobyte.

use std::sync::{MutexGuard, PoisonError};

use deck_sync::locks::lock;
use deck_sync::{Error, Result};

use super::{HeapMemory, Own};
use crate::blocks::{Blocks, Growth, Lack, Supply};

/// So many times an allocation waits for what is on its way to other threads or back to the system, before it believes
/// that there is no memory: whoever never gives up might wait for ever where the others have all of it again each time.
const WAITS_MAX: u32 = 64;

/// Why a heap did not grow.
enum Refused {
    /// There is no such range now.
    NoRange,
    /// By the system.
    BySystem(Error),
}

impl HeapMemory {
    /// What `take` takes, at the second try if the heap has to grow for it. Only in the owner.
    ///
    /// # Errors
    /// Those of `take`; [`NoMemory`](deck_sync::ErrorKind::NoMemory) if the heap cannot grow so much.
    pub(super) fn take_growing<T>(&self, take: impl Fn(&Own, &mut Blocks, Supply<'_>) -> Result<T, Lack>) -> Result<T> {
        let (own, mut blocks) = self.blocks()?;
        let (mut refused, mut waits) = (None, 0);
        let result = loop {
            let supply = Supply { may_grow: refused.is_none(), claim: &|index| self.claim_free(own, index) };
            let (bytes, part) = match take(own, &mut blocks, supply) {
                Ok(taken) => break Ok(taken),
                Err(Lack::Error(error)) => break Err(error),
                Err(Lack::Memory(bytes, part)) => (bytes, part),
            };
            // Looking for idle buffers may have given some back.
            if refused.is_some() {
                blocks = self.release_leaving(own, blocks);
            }
            let grown;
            (blocks, grown) = self.grow(own, blocks, bytes, part);
            match (grown, refused.take()) {
                (Ok(()), _) => {}
                (Err(Refused::NoRange), None) => refused = Some(blocks.exhausted(bytes)),
                (Err(Refused::BySystem(error)), None) => refused = Some(error),
                // What others are about to get, or to give back, is neither a hole nor ready: it may be what lacks.
                (Err(Refused::NoRange), Some(_)) if blocks.is_on_its_way() && waits < WAITS_MAX => {
                    waits += 1;
                    blocks = own.has_come.wait(blocks).unwrap_or_else(PoisonError::into_inner);
                }
                (Err(_), Some(error)) => break Err(error),
            }
        };
        drop(self.release_leaving(own, blocks));
        result
    }

    /// Has the kernel make a range of at least `bytes` in `part`. Nobody else has taken any of it when this returns.
    fn grow<'a>(
        &'a self,
        own: &'a Own,
        mut blocks: MutexGuard<'a, Blocks>,
        bytes: usize,
        part: usize,
    ) -> (MutexGuard<'a, Blocks>, Result<(), Refused>) {
        let mut failed = Refused::NoRange;
        for (wanted, align) in blocks.growths(bytes) {
            let Some(growth) = blocks.begin_growth(wanted, align, part) else { continue };
            drop(blocks);
            let result = self.fill(own, &growth);
            blocks = lock(&own.blocks);
            blocks.end_growth(growth, result.is_ok());
            own.has_come.notify_all();
            match result {
                Ok(()) => return (blocks, Ok(())),
                Err(error) => failed = Refused::BySystem(error),
            }
        }
        (blocks, Err(failed))
    }

    /// Has the kernel make this range, where its part is.
    ///
    /// # Errors
    /// [`NoMemory`](deck_sync::ErrorKind::NoMemory); the range is as before then.
    fn fill(&self, own: &Own, Growth { offset, bytes, part }: &Growth) -> Result<()> {
        let near = self.segment.at(*offset, *bytes).filter(|_| own.numa.binds());
        if let Some(address) = near {
            own.numa.bind(address, *bytes, *part);
        }
        let result = self.segment.allocate(*offset, *bytes);
        match (&result, near) {
            (Ok(()), Some(address)) => {
                self.segment.touch(*offset, *bytes);
                own.numa.verify(address, *bytes, *part);
            }
            (Ok(()), None) => {}
            // Some of it may have been there.
            (Err(_), _) => self.segment.release(*offset, *bytes),
        }
        result
    }

    /// Gives back to the system what has become too much.
    pub(super) fn release_leaving<'a>(
        &'a self,
        own: &'a Own,
        mut blocks: MutexGuard<'a, Blocks>,
    ) -> MutexGuard<'a, Blocks> {
        let leaving = blocks.leave();
        if leaving.is_empty() {
            return blocks;
        }
        drop(blocks);
        leaving.iter().for_each(|(offset, bytes)| self.segment.release(*offset, *bytes));
        let mut blocks = lock(&own.blocks);
        blocks.have_left(&leaving);
        own.has_come.notify_all();
        blocks
    }
}
