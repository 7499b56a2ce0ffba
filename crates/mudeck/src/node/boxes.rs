//! The mail boxes of a node: where they are, opening and closing them.

use std::collections::VecDeque;
use std::sync::Arc;

use deck_peers::{MailboxId, check_mailbox_name};
use deck_sync::locks::lock;
use deck_sync::{Deadline, Error, ErrorKind, Result, fork};
use deck_transport::Bells;

use super::NodeShared;
use crate::cloning::mailbox_of_ring;
use crate::inbox::Inbox;
use crate::mailbox::{Core, MailboxOptions};
use crate::settings::default_timeout;

/// Lines of a ring's area for buffered messages: 2 KiB, so that a ring stays under 8 KiB.
pub const AREA_LINES: u32 = 32;

/// The mail boxes of this node, by index.
#[derive(Default)]
pub struct Boxes {
    places: Vec<(u32, Option<Arc<Core>>)>,
    /// Those that were freed first in front.
    free: VecDeque<u32>,
}

impl Boxes {
    /// The index of a free place; `None` if there are `most`, and none is free.
    fn take_place(&mut self, most: u32) -> Option<u32> {
        if self.free.len() > FREE_PLACES || self.places.len() >= most as usize {
            return self.free.pop_front();
        }
        self.places.push((0, None));
        Some(self.places.len() as u32 - 1)
    }
}

/// So many places stay free before one is used again, as long as there are more to be had: whoever has the address of a
/// mail box that was closed must not find another one there when generations wrap.
pub const FREE_PLACES: usize = 1024;

impl NodeShared {
    pub fn open(&self, name: Option<&str>, options: &MailboxOptions) -> Result<Arc<Core>> {
        name.map_or(Ok(()), check_mailbox_name)?;
        let shape = options.shape(AREA_LINES)?;
        let area = Arc::new(self.heap().region(Bells::BYTES)?);
        let mut boxes = lock(&self.boxes);
        let most = MailboxId::INDEX_MAX;
        let index = boxes
            .take_place(most)
            .ok_or_else(|| Error::new(ErrorKind::NoMemory, format!("a node has at most {most} mail boxes")))?;
        let place = &mut boxes.places[index as usize];
        place.0 = (place.0 + 1) % MailboxId::GENERATIONS;
        let id = MailboxId { owner: self.number(), index, generation: place.0 };
        let core = Core::new(id, name.map(str::to_string), shape, Inbox::new(area), self.membership.notices());
        let core = Arc::new(core);
        place.1 = Some(core.clone());
        drop(boxes);
        // Known here before it is known to others, who may ask for a ring at once.
        if let Some(name) = name
            && let Err(error) = self.membership.claim_name(name, id, Deadline::after(default_timeout()))
        {
            self.forget_box(id);
            return Err(error);
        }
        if let Err(error) = self.check() {
            // Left meanwhile: nobody would close it.
            self.close(&core);
            return Err(error);
        }
        Ok(core)
    }

    fn forget_box(&self, id: MailboxId) {
        let mut boxes = lock(&self.boxes);
        if let Some(place) = boxes.places.get_mut(id.index as usize)
            && place.0 == id.generation
            && place.1.take().is_some()
        {
            boxes.free.push_back(id.index);
        }
    }

    pub fn find_box(&self, index: u32, generation: u32) -> Option<Arc<Core>> {
        // In a forked child, whoever has the lock may not be there.
        if fork::is_child() {
            return None;
        }
        let boxes = lock(&self.boxes);
        let (now, core) = boxes.places.get(index as usize)?;
        core.clone().filter(|_| *now == generation)
    }

    /// The mail box that a ring is at, unless that was closed: to enter others would hold up those who retrieve there.
    pub fn box_of_ring(&self, ring: u64) -> Option<Arc<Core>> {
        lock(&self.boxes).places.get(mailbox_of_ring(ring) as usize)?.1.clone()
    }

    pub fn all_boxes(&self) -> Vec<Arc<Core>> {
        lock(&self.boxes).places.iter().filter_map(|(_, core)| core.clone()).collect()
    }

    /// Closes a mail box of this node: its name is free on return, its waiters and posters are told.
    pub fn close(&self, core: &Core) {
        if let Some(name) = &core.name {
            self.membership.release_name(name, core.id);
        }
        let Some((rings, area)) = core.close() else { return };
        for ring in rings {
            self.give_up(ring, area.clone());
        }
        self.forget_box(core.id);
        if self.free_closed_rings() {
            self.want_ticks();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_places_and_no_more() {
        let mut boxes = Boxes::default();
        assert_eq!([(); 4].map(|()| boxes.take_place(3)), [Some(0), Some(1), Some(2), None]);
        boxes.free.push_back(1);
        assert_eq!([(); 2].map(|()| boxes.take_place(3)), [Some(1), None]);
    }
}
