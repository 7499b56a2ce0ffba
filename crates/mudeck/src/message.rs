//! Messages: buffers that the library manages, filled and read as a sequence of typed elements or directly.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deck_peers::MailboxId;
use deck_sync::{Deadline, Error, ErrorKind, NodeId, Result};
use deck_transport::Parcel;

use crate::clone::{MailboxAddress, MailboxClone};
use crate::element::{Element, ElementType, MAILBOX};
use crate::node::NodeShared;

/// Bytes of a mail box's address in a message.
const ADDRESS_BYTES: usize = 16;

/// A message: content that is handed over rather than copied.
///
/// A message that was posted stays readable and can be posted again; changing it then works on a copy of one's own, so
/// what was posted never changes. Cloning shares the content in the same way.
///
/// It belongs to the node that made or retrieved it, and stays readable when that has left. Nodes of its job can post
/// it, also another one of the same process.
///
/// Threads: `Send + Sync`; `&mut` methods change this message only. Nothing here waits, except
/// [`Message::unpack_mailbox`].
///
/// ```
/// # fn main() -> deck_mudeck::Result<()> {
/// let node = deck_mudeck::Node::join()?;
/// let mut message = node.message();
/// message.pack(&[1i32, 2, 3])?;
/// message.pack(&[0.5f64])?;
/// let (mut integers, mut half) = ([0i32; 3], [0f64; 1]);
/// message.unpack(&mut integers)?;
/// message.unpack(&mut half)?;
/// assert_eq!((integers, half), ([1, 2, 3], [0.5]));
/// # node.leave() }
/// ```
#[doc(alias = "deck_msg_t")]
#[doc(alias = "deck_msg_destroy")]
pub struct Message {
    pub(crate) parcel: Parcel,
    pub(crate) sender: Option<NodeId>,
    node: Arc<NodeShared>,
    cursor: Cursor,
}

/// How far a message was unpacked: the run, bytes of it already taken, and bytes of content before all that.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    run: usize,
    in_run: usize,
    bytes: usize,
}

impl Message {
    pub(crate) fn empty(node: &Arc<NodeShared>) -> Message {
        Message { parcel: Parcel::default(), sender: None, node: node.clone(), cursor: Cursor::default() }
    }

    pub(crate) fn with_capacity(node: &Arc<NodeShared>, bytes: usize) -> Result<Message> {
        let mut message = Message::empty(node);
        message.parcel.set_capacity(bytes, node.heap())?;
        Ok(message)
    }

    /// Was it made or retrieved by `node`?
    #[inline]
    pub(crate) fn is_of(&self, node: &Arc<NodeShared>) -> bool {
        Arc::ptr_eq(&self.node, node)
    }

    /// # Errors
    /// [`ErrorKind::Invalid`] if it is a message of another job than that of `node`: others would look for its buffer
    /// in the heap of the node that has the same number there.
    #[inline]
    pub(crate) fn check_job(&self, node: &Arc<NodeShared>) -> Result<()> {
        if self.is_of(node) { Ok(()) } else { self.check_job_of_another(node) }
    }

    #[cold]
    fn check_job_of_another(&self, node: &NodeShared) -> Result<()> {
        if self.node.membership().table().segment().is_same(node.membership().table()) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, "posting a message of another job")
            .with_remedy("copy what it holds into a message of this node"))
    }

    /// The content was replaced by what `sender` posted.
    pub(crate) fn received(&mut self, sender: NodeId) {
        self.sender = Some(sender);
        self.cursor = Cursor::default();
    }

    /// Appends elements. Never waits.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; [`ErrorKind::TooLarge`] for 2^48 bytes, or if elements of another type than the last
    /// follow for the 2^28th time; [`ErrorKind::NotInitialized`] if that takes a new buffer and the node has left, and
    /// in a forked child. The message is as before then.
    #[doc(alias = "deck_msg_pack")]
    pub fn pack<T: Element>(&mut self, data: &[T]) -> Result<()> {
        let bytes = size_of_val(data);
        // SAFETY: a slice is readable for its size in bytes.
        unsafe { self.parcel.append(T::TYPE as u8, data.as_ptr().cast(), bytes, self.node.heap()) }
    }

    /// Appends elements of type `kind` given as bytes in native order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if `data` is not a whole number of elements; otherwise as [`Message::pack`].
    ///
    /// ```
    /// use deck_mudeck::ElementType;
    /// # fn main() -> deck_mudeck::Result<()> {
    /// # let node = deck_mudeck::Node::join()?;
    /// let mut message = node.message();
    /// message.pack_raw(ElementType::Char, b"text")?;
    /// assert!(message.pack_raw(ElementType::Double, &[0; 12]).is_err(), "one element and a half");
    /// let mut text = [0; 4];
    /// message.unpack_raw(ElementType::Char, &mut text)?;
    /// assert_eq!(&text, b"text");
    /// # node.leave() }
    /// ```
    pub fn pack_raw(&mut self, kind: ElementType, data: &[u8]) -> Result<()> {
        check_whole(kind, data.len())?;
        self.pack_whole(kind, data)
    }

    /// As [`Message::pack_raw`], of whole elements: whoever has counted them need not divide again.
    ///
    /// # Errors
    /// As [`Message::pack`].
    #[doc(hidden)]
    pub fn pack_whole(&mut self, kind: ElementType, data: &[u8]) -> Result<()> {
        debug_assert!(data.len().is_multiple_of(kind.size()));
        // SAFETY: a slice is readable for its length.
        unsafe { self.parcel.append(kind as u8, data.as_ptr(), data.len(), self.node.heap()) }
    }

    /// Takes the next elements out, in the order in which they were packed. Never waits.
    ///
    /// # Errors
    /// [`ErrorKind::Type`] if the next element has another type, [`ErrorKind::Truncated`] if fewer than `data.len()` of
    /// this type come before another type or the end; [`ErrorKind::Corrupt`] naming the sender if what it said of the
    /// types does not add up. Nothing is consumed then.
    #[doc(alias = "deck_msg_unpack")]
    pub fn unpack<T: Element>(&mut self, data: &mut [T]) -> Result<()> {
        let from = self.take(T::TYPE as u8, size_of_val(data))?;
        self.parcel.read(from, T::as_bytes_mut(data));
        Ok(())
    }

    /// Takes the next elements of type `kind` out as bytes in native order.
    ///
    /// # Errors
    /// As [`Message::unpack`], and [`ErrorKind::Invalid`] if `data` is not a whole number of elements.
    pub fn unpack_raw(&mut self, kind: ElementType, data: &mut [u8]) -> Result<()> {
        check_whole(kind, data.len())?;
        self.unpack_whole(kind, data)
    }

    /// As [`Message::unpack_raw`], of whole elements: whoever has counted them need not divide again.
    ///
    /// # Errors
    /// As [`Message::unpack`].
    #[doc(hidden)]
    pub fn unpack_whole(&mut self, kind: ElementType, data: &mut [u8]) -> Result<()> {
        debug_assert!(data.len().is_multiple_of(kind.size()));
        let from = self.take(kind as u8, data.len())?;
        self.parcel.read(from, data);
        Ok(())
    }

    /// Moves the cursor over `bytes` bytes of `element`; returns where they begin.
    #[inline]
    fn take(&mut self, element: u8, bytes: usize) -> Result<usize> {
        let from = self.cursor.bytes;
        // Most messages are of one type: there is one run, which is all.
        if self.parcel.runs() == 0 && self.parcel.element() == element && bytes <= self.parcel.size() - from {
            self.cursor = Cursor { run: 0, in_run: from + bytes, bytes: from + bytes };
            return Ok(from);
        }
        let (from, next) = self.find(element, bytes)?;
        self.cursor = next;
        Ok(from)
    }

    fn find(&self, element: u8, bytes: usize) -> Result<(usize, Cursor)> {
        let cursor = self.cursor;
        if bytes == 0 {
            return Ok((cursor.bytes, cursor));
        }
        let name = |code: u8| match ElementType::from_code(code) {
            Some(element) => format!("{element:?}"),
            None if code == MAILBOX => "the address of a mail box".into(),
            None => format!("code {code}"),
        };
        // A run may have grown since its last element was taken: the next one begins only where there is one.
        let is_at_end = self.parcel.run(cursor.run).is_some_and(|run| cursor.in_run >= run.bytes);
        let cursor = match self.parcel.run(cursor.run + 1) {
            Some(_) if is_at_end => Cursor { run: cursor.run + 1, in_run: 0, bytes: cursor.bytes },
            _ => cursor,
        };
        let Some(run) = self.parcel.run(cursor.run).filter(|run| run.bytes != cursor.in_run) else {
            return Err(Error::new(
                ErrorKind::Truncated,
                format!("unpacking {}: the message is at its end", name(element)),
            ));
        };
        if run.element != element {
            let what = format!("unpacking {}: the next element is {}", name(element), name(run.element));
            return Err(Error::new(ErrorKind::Type, what));
        }
        let left = run.bytes.saturating_sub(cursor.in_run);
        if cursor.bytes + left > self.parcel.size() {
            // Runs came with the content; what this node packs itself always adds up.
            let error = Error::new(ErrorKind::Corrupt, "the element types of a message do not add up to its size");
            return Err(self.sender.map_or(error.clone(), |sender| error.with_peer(sender)));
        }
        if left < bytes {
            let size = ElementType::from_code(element).map_or(bytes, ElementType::size);
            let (wanted, left) = (bytes / size, left / size);
            let what = format!("unpacking {wanted} elements of {}: it has {left} more", name(element));
            return Err(Error::new(ErrorKind::Truncated, what));
        }
        Ok((cursor.bytes, Cursor { in_run: cursor.in_run + bytes, bytes: cursor.bytes + bytes, ..cursor }))
    }

    /// Appends the address of a mail box, so that the receiver can post to it: a reply box.
    ///
    /// # Errors
    /// As [`Message::pack`], and [`ErrorKind::Invalid`] if it is a mail box of another job than the message, be it one
    /// of which this process was a node before.
    #[doc(alias = "deck_msg_pack_mbox")]
    pub fn pack_mailbox(&mut self, address: MailboxAddress) -> Result<()> {
        if !address.is_of_job_of(&self.node) {
            return Err(Error::new(ErrorKind::Invalid, "packing the address of a mail box of another job")
                .with_remedy("pack that of a mail box of this job"));
        }
        let MailboxId { owner, index, generation } = address.id;
        let mut bytes = [0u8; ADDRESS_BYTES];
        bytes[0..4].copy_from_slice(&owner.0.to_le_bytes());
        bytes[4..8].copy_from_slice(&index.to_le_bytes());
        bytes[8..12].copy_from_slice(&generation.to_le_bytes());
        // SAFETY: an array is readable for its length.
        unsafe { self.parcel.append(MAILBOX, bytes.as_ptr(), ADDRESS_BYTES, self.node.heap()) }
    }

    /// Takes the next element, the address of a mail box, and clones that mail box. Blocks until the deadline.
    ///
    /// # Errors
    /// [`ErrorKind::Type`] and [`ErrorKind::Truncated`] as for [`Message::unpack`]; [`ErrorKind::Closed`] if the mail
    /// box is closed; [`ErrorKind::Corrupt`] if there cannot be such a mail box; else as
    /// [`crate::Node::clone_mailbox`]. Nothing is consumed then.
    #[doc(alias = "deck_msg_unpack_mbox")]
    pub fn unpack_mailbox(&mut self, timeout: Duration) -> Result<MailboxClone> {
        let (from, next) = self.find(MAILBOX, ADDRESS_BYTES)?;
        let bytes = &self.parcel.bytes()[from..from + ADDRESS_BYTES];
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let id = MailboxId { owner: NodeId(word(0)), index: word(4), generation: word(8) };
        let is_known = self.node.membership().table().state(id.owner).is_some();
        if !is_known || id.index >= MailboxId::INDEX_MAX || id.generation >= MailboxId::GENERATIONS {
            return Err(Error::new(ErrorKind::Corrupt, "a message carries the address of an impossible mail box"));
        }
        let clone = self.node.clone_by_id(id, None, Deadline::after(timeout))?;
        self.cursor = next;
        Ok(clone)
    }

    /// The content.
    #[doc(alias = "deck_msg_data")]
    pub fn as_bytes(&self) -> &[u8] {
        self.parcel.bytes()
    }

    /// All of the content as elements, where it lies: unlike [`Message::unpack`] this copies nothing and takes nothing
    /// out. Raw bytes ([`Message::resize`]) are elements of any type. Never waits.
    ///
    /// ```
    /// # fn main() -> deck_mudeck::Result<()> {
    /// # let node = deck_mudeck::Node::join()?;
    /// let mut message = node.message();
    /// message.resize(3 * size_of::<f64>())?;
    /// message.edit_elements::<f64>()?.fill(0.5);
    /// assert_eq!(message.elements::<f64>()?, [0.5; 3]);
    /// # node.leave() }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Type`] if elements of another type are in it; [`ErrorKind::Invalid`] if its raw bytes are no whole
    /// number of such elements.
    pub fn elements<T: Element>(&self) -> Result<&[T]> {
        self.check_all(T::TYPE)?;
        Ok(T::of_bytes(self.as_bytes()))
    }

    /// The same, for writing, as with [`Message::edit`].
    ///
    /// # Errors
    /// As [`Message::elements`] and [`Message::edit`].
    pub fn edit_elements<T: Element>(&mut self) -> Result<&mut [T]> {
        self.check_all(T::TYPE)?;
        Ok(T::of_bytes_mut(self.edit()?))
    }

    /// All of the content can be taken for elements of type `kind`.
    fn check_all(&self, kind: ElementType) -> Result<()> {
        let there = self.parcel.element();
        let is_alike = self.parcel.runs() == 0 && (there == kind as u8 || there == ElementType::Byte as u8);
        if !is_alike && self.size() > 0 {
            let what = format!("not all elements of the message are {kind:?}");
            return Err(
                Error::new(ErrorKind::Type, what).with_remedy("unpack them in the order in which they were packed")
            );
        }
        check_whole(kind, self.size())
    }

    /// Brings `bytes` bytes of the content, from byte `from` on (or as many as there are), into the caches of the core
    /// that calls, and out of all others: for a thread that will read all of these. Never blocks; changes nothing.
    ///
    /// What another core has read is slow to write anew, as that core's copies have to be taken away one by one. Where
    /// the readers of messages fetch what they read, a message of 4 to 64 KiB that is written and read takes 0.6 to 0.9
    /// of the time between near cores, and up to 256 KiB 0.35 to 0.55 between far ones
    /// (`docs/design/070-buffers-rest.md`). It costs as much as reading: whoever looks at parts of a message had better
    /// leave it. Of long messages fetch pieces of some KiB, each before it is read, so that they stay in the caches
    /// till then. [`Message::unpack`] does all this by itself. Content that was posted more than once, or whose buffer
    /// is longer than a quarter of a second-level cache, is left where it is. Does nothing on processors where writers
    /// had better fetch, such as those of Intel (`DECK_FETCH`): a program that calls it is right on all of them.
    ///
    /// ```
    /// # fn main() -> deck_mudeck::Result<()> {
    /// # let node = deck_mudeck::Node::join()?;
    /// # let mailbox = node.anonymous_mailbox()?;
    /// # let mut message = node.message();
    /// # message.resize(20_000)?;
    /// # message.edit()?.fill(1);
    /// # mailbox.clone_here()?.post(message, std::time::Duration::ZERO)?;
    /// const PIECE: usize = 4096;
    /// let message = mailbox.retrieve(std::time::Duration::from_secs(1))?;
    /// let mut sum = 0;
    /// for (index, piece) in message.as_bytes().chunks(PIECE).enumerate() {
    ///     message.fetch(index * PIECE, PIECE);
    ///     sum += piece.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    /// }
    /// assert_eq!(sum, 20_000);
    /// # node.leave() }
    /// ```
    #[doc(alias = "deck_msg_fetch")]
    pub fn fetch(&self, from: usize, bytes: usize) {
        self.parcel.fetch(from, bytes);
    }

    /// The content for writing; copied first only if others (a receiver, a clone) hold it. Element types stay.
    ///
    /// # Errors
    /// [`ErrorKind::NoMemory`]; [`ErrorKind::NotInitialized`] if that takes a new buffer and the node has left, and in
    /// a forked child. The message is as before then.
    #[doc(alias = "deck_msg_edit")]
    #[inline]
    pub fn edit(&mut self) -> Result<&mut [u8]> {
        self.parcel.edit(self.node.heap())
    }

    /// Address of the content, aligned to 64 bytes; valid until the message is changed, retrieved into, or dropped. For
    /// content of up to 62 bytes it moves with the message.
    pub fn as_ptr(&self) -> *mut u8 {
        self.parcel.data().as_ptr()
    }

    /// Bytes of content.
    #[doc(alias = "deck_msg_size")]
    pub fn size(&self) -> usize {
        self.parcel.size()
    }

    /// Bytes that fit without another buffer.
    #[doc(alias = "deck_msg_capacity")]
    pub fn capacity(&self) -> usize {
        self.parcel.capacity()
    }

    /// Makes the content `bytes` raw bytes, undefined and writable through [`Message::edit`]: for direct use instead of
    /// packing. Takes a fresh buffer if others hold the present one.
    ///
    /// # Errors
    /// As [`Message::edit`].
    #[doc(alias = "deck_msg_resize")]
    #[inline]
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        self.parcel.resize(bytes, self.node.heap())?;
        self.cursor = Cursor::default();
        self.sender = None;
        Ok(())
    }

    /// Empties the message and gives a received buffer back.
    #[doc(alias = "deck_msg_clear")]
    pub fn clear(&mut self) {
        self.parcel.clear();
        self.cursor = Cursor::default();
        self.sender = None;
    }

    /// The node that posted it; `None` if it was not received.
    #[doc(alias = "deck_msg_sender")]
    pub fn sender(&self) -> Option<NodeId> {
        self.sender
    }
}

fn check_whole(kind: ElementType, bytes: usize) -> Result<()> {
    if bytes.is_multiple_of(kind.size()) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid, format!("{bytes} bytes are no whole number of {kind:?} elements")))
}

impl Clone for Message {
    /// Shares the content; a later change of either works on a copy.
    ///
    /// # Panics
    /// If this node has 2^29 handles of the content, of which those count that were forgotten ([`std::mem::forget`]).
    fn clone(&self) -> Message {
        Message { parcel: self.parcel.clone(), sender: self.sender, node: self.node.clone(), cursor: self.cursor }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("size", &self.size()).field("sender", &self.sender).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use deck_peers::Door;

    use super::*;
    use crate::testing::SOON;

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn an_address_of_a_mail_box_that_never_was_is_refused() {
        let node = NodeShared::join(Door::Alone).unwrap();
        let mut message = Message::empty(&node);
        let mut refused = |owner, index, generation| {
            message.clear();
            message.pack_mailbox(MailboxAddress::new(&node, MailboxId { owner, index, generation })).unwrap();
            message.unpack_mailbox(SOON).err().unwrap().kind()
        };
        for owner in [node.number().0 + 1, 1 << 16, u32::MAX] {
            assert_eq!(refused(NodeId(owner), 0, 1), ErrorKind::Corrupt, "{owner}");
        }
        for (index, generation) in
            [(MailboxId::INDEX_MAX, 1), (u32::MAX, 1), (0, MailboxId::GENERATIONS), (0, u32::MAX)]
        {
            assert_eq!(refused(node.number(), index, generation), ErrorKind::Corrupt, "{index}, {generation}");
        }
        let last = (MailboxId::INDEX_MAX - 1, MailboxId::GENERATIONS - 1);
        assert_eq!(refused(node.number(), last.0, last.1), ErrorKind::Closed, "it could be");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn what_gets_new_content_is_unpacked_from_its_begin() {
        let node = NodeShared::join(Door::Alone).unwrap();
        let mut message = Message::empty(&node);
        let mut first = [0u8; 1];
        for _ in 0..2 {
            message.pack(&[1u8, 2]).unwrap();
            message.unpack(&mut first).unwrap();
            assert_eq!(first, [1]);
            message.clear();
        }
        for size in [3, 2] {
            message.resize(size).unwrap();
            message.unpack_raw(ElementType::Byte, &mut first).unwrap();
            message.unpack_raw(ElementType::Byte, &mut first).unwrap();
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sockets")]
    fn runs_that_do_not_add_up_are_corrupt_and_their_sender_is_named() {
        let node = NodeShared::join(Door::Alone).unwrap();
        let (ints, floats) = ([7i32; 1000], [2.5f64; 1000]);
        let word = |element: ElementType, bytes: u64| (element as u64) << 56 | bytes;
        for (index, told) in [
            (0, word(ElementType::Int32, 12_004)),
            (0, word(ElementType::Int32, (1 << 56) - 1)),
            (1, word(ElementType::Double, 8008)),
        ] {
            let mut message = Message::empty(&node);
            message.pack(&ints).unwrap();
            message.pack(&floats).unwrap();
            message.received(NodeId(9));
            let buffer = message.parcel.buffer().expect("it is large");
            let end = buffer.capacity() - 8 * (index + 1);
            // SAFETY: a word of the buffer's end, where the runs lie; other nodes may write there at any time.
            unsafe { buffer.data().add(end).cast::<u64>().write(told) };
            let (mut ints, mut floats) = ([0i32; 1000], [0f64; 1000]);
            let unpacked = message.unpack(&mut ints).and_then(|()| message.unpack(&mut floats));
            let error = unpacked.unwrap_err();
            assert_eq!((error.kind(), error.peer()), (ErrorKind::Corrupt, Some(NodeId(9))), "run {index}: {told:#x}");
            assert_eq!(ints[0], 7 * index as i32, "the first run is whole");
        }
    }
}
