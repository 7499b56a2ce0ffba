//! Messages: one thread at a time, checked, so that two threads in one message get an error instead of a race.

use std::ffi::{c_int, c_uint, c_void};
use std::{ptr, slice};

use deck_api::{ElementType, Error, ErrorKind, Message, Result};

use crate::error::{DECK_OK, answer, answer_or, answer_uncancelled, invalid};
use crate::handle::{Alone, Caller, Kind, Object, Table};
use crate::mailbox::{self, MailboxHandle};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct MessageHandle([u8; 0]);

static MESSAGES: Table<Message, true> = Table::new();

// SAFETY: this is the only table of messages.
unsafe impl Object for Message {
    const KIND: Kind = Kind::Message;
}

/// The message behind `handle`, for this call alone.
#[inline(always)]
pub fn pin(handle: *const MessageHandle, caller: Caller) -> Result<Alone<Message>> {
    MESSAGES.pin(handle, caller)
}

/// Bytes of `count` elements at `data`, if that can be an array at all.
#[inline]
fn array_bytes(element: ElementType, data: *const c_void, count: usize) -> Result<usize> {
    let bytes = count.checked_mul(element.size()).filter(|bytes| isize::try_from(*bytes).is_ok());
    match bytes {
        Some(bytes) if bytes == 0 || !data.is_null() => Ok(bytes),
        _ => Err(no_array(element, data, count)),
    }
}

#[cold]
fn no_array(element: ElementType, data: *const c_void, count: usize) -> Error {
    if data.is_null() {
        return invalid(format!("an array of {count} at NULL"));
    }
    let what = format!("{count} elements of {} bytes are more than memory can hold", element.size());
    Error::new(ErrorKind::TooLarge, what).with_remedy("correct the count: it counts elements")
}

/// Refuses an array inside the message's own buffer, which packing may move and unpacking must not overwrite.
fn outside(message: &Message, data: *const c_void, bytes: usize) -> Result<()> {
    let (buffer, start) = (message.as_ptr().addr(), data.addr());
    // One of the two begins in the other.
    if bytes > 0 && (start.wrapping_sub(buffer) < message.capacity() || buffer.wrapping_sub(start) < bytes) {
        return Err(invalid("the array lies in the message's own content").with_remedy("copy it elsewhere first"));
    }
    Ok(())
}

/// `deck_msg_create` in deck.h.
///
/// # Safety
/// `message` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_msg_create(message: *mut *mut MessageHandle, capacity_bytes: usize) -> c_int {
    answer("deck_msg_create", || {
        let handle = node::with_node(|session, node| {
            arguments::place(message, "new message", "the first argument")?;
            let room = MESSAGES.reserve()?;
            Ok(room.fill(session, node.message_with_capacity(capacity_bytes)?))
        })?;
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { message.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_msg_pack` in deck.h.
///
/// # Safety
/// `data` is NULL or has `count` elements of `element` that nobody changes during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_msg_pack(
    message: *mut MessageHandle,
    element: c_uint,
    data: *const c_void,
    count: usize,
) -> c_int {
    answer("deck_msg_pack", || {
        let caller = node::caller()?;
        let element = arguments::element_type(element)?;
        let mut message = pin(message, caller)?;
        let bytes = array_bytes(element, data, count)?;
        outside(&message, data, bytes)?;
        let content = if bytes == 0 {
            &[]
        } else {
            // SAFETY:
            // - not NULL, `bytes` is at most isize::MAX, and the caller gives that many readable bytes;
            // - nobody changes them meanwhile: the caller promises it, and they are not in the message's own buffer.
            unsafe { slice::from_raw_parts(data.cast::<u8>(), bytes) }
        };
        message.pack_whole(element, content)?;
        Ok(DECK_OK)
    })
}

/// `deck_msg_unpack` in deck.h.
///
/// # Safety
/// `data` is NULL or has room for `count` elements of `element` that nobody else uses during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_msg_unpack(
    message: *mut MessageHandle,
    element: c_uint,
    data: *mut c_void,
    count: usize,
) -> c_int {
    answer("deck_msg_unpack", || {
        let caller = node::caller()?;
        let element = arguments::element_type(element)?;
        let mut message = pin(message, caller)?;
        let bytes = array_bytes(element, data, count)?;
        // One element more than the whole content could hold fails for the same reason as any larger number, and an
        // absurd count then never becomes an absurd array.
        let bytes =
            if bytes <= message.size() { bytes } else { (message.size() / element.size() + 1) * element.size() };
        outside(&message, data, bytes)?;
        let room = if bytes == 0 {
            &mut []
        } else {
            // SAFETY:
            // - not NULL, `bytes` is at most what the caller gives for writing, and at most isize::MAX;
            // - nobody else uses them meanwhile: the caller promises it, and they are not in the message's own buffer;
            // - they may be uninitialised: the core only writes to them.
            unsafe { slice::from_raw_parts_mut(data.cast::<u8>(), bytes) }
        };
        message.unpack_whole(element, room)?;
        Ok(DECK_OK)
    })
}

/// `deck_msg_pack_mbox` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_pack_mbox(message: *mut MessageHandle, mailbox: *mut MailboxHandle) -> c_int {
    answer("deck_msg_pack_mbox", || {
        let caller = node::caller()?;
        let mut message = pin(message, caller)?;
        let mailbox = mailbox::pin(mailbox, caller)?;
        message.pack_mailbox(mailbox.address())?;
        Ok(DECK_OK)
    })
}

/// `deck_msg_unpack_mbox` in deck.h.
///
/// # Safety
/// `mailbox` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_msg_unpack_mbox(
    message: *mut MessageHandle,
    mailbox: *mut *mut MailboxHandle,
    timeout_ms: c_int,
) -> c_int {
    answer_uncancelled("deck_msg_unpack_mbox", || {
        let caller = node::caller()?;
        let timeout = arguments::timeout(timeout_ms)?;
        arguments::place(mailbox, "mail box", "the second argument")?;
        let mut message = pin(message, caller)?;
        // Before anything is consumed.
        let room = mailbox::reserve()?;
        let handle = mailbox::hand_out_clone(room, caller.session(), message.unpack_mailbox(timeout)?);
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { mailbox.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_msg_data` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_data(message: *mut MessageHandle) -> *mut c_void {
    answer_or("deck_msg_data", ptr::null_mut(), || Ok(pin(message, node::caller()?)?.as_ptr().cast()))
}

/// `deck_msg_fetch` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_fetch(message: *const MessageHandle, from: usize, bytes: usize) -> c_int {
    answer("deck_msg_fetch", || {
        pin(message, node::caller()?)?.fetch(from, bytes);
        Ok(DECK_OK)
    })
}

/// `deck_msg_edit` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_edit(message: *mut MessageHandle) -> *mut c_void {
    answer_or("deck_msg_edit", ptr::null_mut(), || {
        let mut message = pin(message, node::caller()?)?;
        Ok(message.edit()?.as_mut_ptr().cast())
    })
}

/// `deck_msg_size` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_size(message: *const MessageHandle) -> usize {
    answer_or("deck_msg_size", 0, || Ok(pin(message, node::caller()?)?.size()))
}

/// `deck_msg_capacity` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_capacity(message: *const MessageHandle) -> usize {
    answer_or("deck_msg_capacity", 0, || Ok(pin(message, node::caller()?)?.capacity()))
}

/// `deck_msg_resize` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_resize(message: *mut MessageHandle, bytes: usize) -> c_int {
    answer("deck_msg_resize", || {
        pin(message, node::caller()?)?.resize(bytes)?;
        Ok(DECK_OK)
    })
}

/// `deck_msg_clear` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_clear(message: *mut MessageHandle) -> c_int {
    answer("deck_msg_clear", || {
        pin(message, node::caller()?)?.clear();
        Ok(DECK_OK)
    })
}

/// `deck_msg_sender` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_sender(message: *const MessageHandle) -> c_int {
    answer("deck_msg_sender", || {
        let sender = pin(message, node::caller()?)?.sender();
        let sender = sender.ok_or_else(|| {
            invalid("the message was not received").with_remedy("ask for the sender right after deck_mbox_retrv")
        })?;
        Ok(node::number(sender))
    })
}

/// `deck_msg_destroy` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_msg_destroy(message: *mut MessageHandle) -> c_int {
    answer("deck_msg_destroy", || {
        node::pin_to_destroy(&MESSAGES, message)?.end()?;
        Ok(DECK_OK)
    })
}
