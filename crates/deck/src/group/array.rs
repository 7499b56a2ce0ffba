//! The arrays of collectives that are started: whoever starts one goes on, so the call has them for itself.

use std::any::Any;

use deck_mudeck::{Element, Message};
use deck_segment::Buffer;

use super::Group;

/// Bytes that a started call reads or writes, and keeps until it has ended: copies, what the caller has given away, or
/// a message.
pub trait Array: Any + Send + Sync {
    /// For reading.
    fn bytes(&self) -> &[u8];

    /// For writing.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl<T: Element> Array for Vec<T> {
    fn bytes(&self) -> &[u8] {
        T::as_bytes(self)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        T::as_bytes_mut(self)
    }
}

/// The content, as it lies in the message: where others can read it.
impl Array for Message {
    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // Nobody else shares what is written here (`Group::start_bcast_message`): it is not copied, which could fail.
        self.edit().unwrap_or_default()
    }
}

/// No bytes.
impl Default for Box<dyn Array> {
    fn default() -> Box<dyn Array> {
        Box::new(Vec::<u8>::new())
    }
}

/// Keeps the content of a message as it is, whatever becomes of the message: to change that copies it first.
#[derive(Debug)]
pub struct Share {
    _buffer: Buffer,
}

impl Group {
    /// A share of the message of this node in whose content `bytes` lie, if they lie in one and that is soon found out.
    #[doc(hidden)]
    pub fn share_of(&self, bytes: &[u8]) -> Option<Share> {
        self.member.share_of(bytes).map(|buffer| Share { _buffer: buffer })
    }
}
