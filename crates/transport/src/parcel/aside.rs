//! The other one of two buffers that a parcel uses in turn.
//!
//! While a message is on its way, and until it is answered, the buffer of the message before can be fetched back
//! (`docs/design/070-buffers-rest.md`). So the next content is written there. To get it from the heap each time, and to give it back, takes longer than fetching saves.

use std::mem;

use deck_segment::Buffer;

/// The buffer of the content before, which others may still read.
#[derive(Debug, Default)]
pub(super) struct Aside(Option<Box<Buffer>>);

/// A copy of a parcel has no second buffer until it needs one.
impl Clone for Aside {
    fn clone(&self) -> Aside {
        Aside::default()
    }
}

impl Aside {
    /// Puts the buffer that is aside in place of `buffer`, for as much content, if it came back. True if so.
    pub fn change(&mut self, buffer: &mut Buffer) -> bool {
        let Some(aside) = &mut self.0 else { return false };
        let is_as_good = aside.capacity() == buffer.capacity() && aside.came_back();
        if is_as_good {
            mem::swap(&mut **aside, buffer);
            aside.put_aside();
        }
        is_as_good
    }

    /// Puts `buffer` aside if such buffers are used in turn.
    pub fn put(&mut self, buffer: Buffer) {
        if !buffer.takes_turns() {
            self.0 = None;
            return;
        }
        match &mut self.0 {
            Some(aside) => **aside = buffer,
            None => self.0 = Some(Box::new(buffer)),
        }
        // Only now: what was aside before and is let go of would be noted in its place.
        if let Some(aside) = &self.0 {
            aside.put_aside();
        }
    }

    pub fn drop(&mut self) {
        self.0 = None;
    }
}
