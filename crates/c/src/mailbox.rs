//! Mail boxes: the owner's handles, which retrieve and post, and clones, which post.
//!
//! A clone of a mail box of this very process is a second handle: it retrieves like the first. Only destroying the
//! first closes the mail box.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use deck_api::{
    Error, ErrorKind, Mailbox, MailboxAddress, MailboxClone, MailboxOptions, MailboxStats, Message, Result,
};

use crate::error::{DECK_OK, answer, answer_uncancelled, invalid};
use crate::handle::{Caller, Kind, Object, Pin, Reserved, Table};
use crate::message::{self, MessageHandle};
use crate::{arguments, node, options};

/// Opaque to C.
#[repr(C)]
pub struct MailboxHandle([u8; 0]);

static MAILBOXES: Table<End> = Table::new();

// SAFETY: this is the only table of mail boxes.
unsafe impl Object for End {
    const KIND: Kind = Kind::Mailbox;
}

/// What a mail box handle stands for.
pub enum End {
    /// Made by `deck_mbox_create`.
    Owner(Mailbox),
    /// Made by `deck_mbox_clone` or `deck_msg_unpack_mbox`; `own` is the second end that retrieves, if the mail box is
    /// in this process.
    Clone { clone: MailboxClone, own: Option<Mailbox> },
}

impl End {
    /// The end that retrieves.
    fn owner(&self) -> Result<&Mailbox> {
        match self {
            End::Owner(mailbox) | End::Clone { own: Some(mailbox), .. } => Ok(mailbox),
            End::Clone { clone, .. } if clone.is_here() => {
                Err(Error::new(ErrorKind::Closed, "the mail box was closed while it was cloned"))
            }
            End::Clone { clone, own: None } => {
                let what = "only threads of the mail box's owner retrieve from it, and this is a clone";
                Err(invalid(what).with_peer(clone.owner()).with_remedy("retrieve in the node that created it"))
            }
        }
    }

    fn post(&self, message: &Message, timeout: Duration) -> Result<()> {
        match self {
            End::Owner(mailbox) => mailbox.post_shared(message, timeout),
            End::Clone { clone, .. } => clone.post_shared(message, timeout),
        }
    }

    /// The address that leads other nodes here.
    pub fn address(&self) -> MailboxAddress {
        match self {
            End::Owner(mailbox) => mailbox.address(),
            End::Clone { clone, .. } => clone.address(),
        }
    }

    fn stats(&self) -> MailboxStats {
        match self {
            End::Owner(mailbox) | End::Clone { own: Some(mailbox), .. } => mailbox.stats(),
            End::Clone { clone, own: None } => clone.stats(),
        }
    }
}

/// The mail box behind `handle`.
#[inline(always)]
pub fn pin(handle: *const MailboxHandle, caller: Caller) -> Result<Pin<End>> {
    MAILBOXES.pin(handle, caller)
}

/// Makes room for a handle.
pub fn reserve() -> Result<Reserved<End>> {
    MAILBOXES.reserve()
}

/// Gives C a handle of `clone`.
pub fn hand_out_clone(room: Reserved<End>, session: u64, clone: MailboxClone) -> *mut MailboxHandle {
    let own = clone.retrieving();
    room.fill(session, End::Clone { clone, own })
}

/// Closes every mail box of this process, because the node leaves its job.
pub fn close_all() {
    MAILBOXES.find(|end| {
        if let End::Owner(mailbox) = end {
            mailbox.close();
        }
        None::<()>
    });
}

/// What `deck_mbox_create_with` takes: `deck_mbox_options_t` in deck.h. 0 stands for the default.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Options {
    size_of_struct: usize,
    messages_per_node: usize,
    bytes_per_node: usize,
}

impl Options {
    /// # Safety
    /// `options` is NULL or a struct whose first member is its size.
    unsafe fn read(options: *const Options) -> Result<MailboxOptions> {
        // SAFETY: as the caller promises; the struct begins with its size and any bytes are one.
        let known = unsafe { options::read(options, "mail box", "initialise them with DECK_MBOX_OPTIONS_DEFAULT") }?;
        let mut chosen = MailboxOptions::default();
        if known.messages_per_node != 0 {
            chosen.messages = u32::try_from(known.messages_per_node)
                .map_err(|_| invalid(format!("a mail box for {} messages per node", known.messages_per_node)))?;
        }
        if known.bytes_per_node != 0 {
            chosen.bytes = known.bytes_per_node as u64;
        }
        Ok(chosen)
    }
}

/// `deck_mbox_stats_t` in deck.h.
#[repr(C)]
pub struct Stats {
    posted: u64,
    retrieved: u64,
    bytes_posted: u64,
    bytes_retrieved: u64,
    waits: u64,
    held_back: u64,
    by_short: u64,
    by_buffered: u64,
    by_zero_copy: u64,
    lanes: u64,
    reserved: [u64; 6],
}

impl From<MailboxStats> for Stats {
    fn from(stats: MailboxStats) -> Stats {
        Stats {
            posted: stats.posted,
            retrieved: stats.retrieved,
            bytes_posted: stats.bytes_posted,
            bytes_retrieved: stats.bytes_retrieved,
            waits: stats.waits,
            held_back: stats.held_back,
            by_short: stats.short,
            by_buffered: stats.buffered,
            by_zero_copy: stats.zero_copy,
            lanes: stats.lanes,
            reserved: [0; 6],
        }
    }
}

/// # Safety
/// As [`deck_mbox_create_with`].
unsafe fn create(mailbox: *mut *mut MailboxHandle, name: *const c_char, options: *const Options) -> Result<c_int> {
    let (session, node) = node::node()?;
    arguments::place(mailbox, "new mail box", "the first argument")?;
    // SAFETY: the caller gives NULL or options that say their size.
    let options = unsafe { Options::read(options) }?;
    // SAFETY: the caller gives a string that ends and stays as it is during the call.
    let name = if name.is_null() { None } else { Some(unsafe { arguments::name(name, "mail box") }?) };
    let handle = MAILBOXES.insert(session, End::Owner(node.mailbox_with(name, &options)?))?;
    // SAFETY: not NULL, and the caller lets it be written.
    unsafe { mailbox.write(handle) };
    Ok(DECK_OK)
}

/// `deck_mbox_create` in deck.h.
///
/// # Safety
/// `mailbox` is NULL or may be written; `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mbox_create(mailbox: *mut *mut MailboxHandle, name: *const c_char) -> c_int {
    // SAFETY: as the caller promises; no options.
    answer_uncancelled("deck_mbox_create", || unsafe { create(mailbox, name, std::ptr::null()) })
}

/// `deck_mbox_create_with` in deck.h.
///
/// # Safety
/// `mailbox` is NULL or may be written; `name` is NULL or a string; `options` is NULL or says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mbox_create_with(
    mailbox: *mut *mut MailboxHandle,
    name: *const c_char,
    options: *const Options,
) -> c_int {
    // SAFETY: as the caller promises.
    answer_uncancelled("deck_mbox_create_with", || unsafe { create(mailbox, name, options) })
}

/// `deck_mbox_clone` in deck.h.
///
/// # Safety
/// `mailbox` is NULL or may be written; `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mbox_clone(
    mailbox: *mut *mut MailboxHandle,
    name: *const c_char,
    timeout_ms: c_int,
) -> c_int {
    answer_uncancelled("deck_mbox_clone", || {
        let (session, node) = node::node()?;
        let timeout = arguments::timeout(timeout_ms)?;
        arguments::place(mailbox, "clone", "the first argument")?;
        if name.is_null() {
            return Err(invalid("the name of the mail box is NULL")
                .with_remedy("send the address of a mail box without a name in a message (deck_msg_pack_mbox)"));
        }
        // SAFETY: the caller gives a string that ends and stays as it is during the call.
        let name = unsafe { arguments::name(name, "mail box") }?;
        let room = reserve()?;
        let handle = hand_out_clone(room, session, node.clone_mailbox(name, timeout)?);
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { mailbox.write(handle) };
        Ok(DECK_OK)
    })
}

/// `deck_mbox_post` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mbox_post(mailbox: *mut MailboxHandle, message: *mut MessageHandle, timeout_ms: c_int) -> c_int {
    answer("deck_mbox_post", || {
        let caller = node::caller()?;
        let timeout = arguments::timeout(timeout_ms)?;
        let mailbox = pin(mailbox, caller)?;
        mailbox.post(&*message::pin(message, caller)?, timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_mbox_retrv` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mbox_retrv(
    mailbox: *mut MailboxHandle,
    message: *mut MessageHandle,
    timeout_ms: c_int,
) -> c_int {
    answer("deck_mbox_retrv", || {
        let caller = node::caller()?;
        let timeout = arguments::timeout(timeout_ms)?;
        let mailbox = pin(mailbox, caller)?;
        let mailbox = mailbox.owner()?;
        mailbox.retrieve_into(&mut *message::pin(message, caller)?, timeout)?;
        Ok(DECK_OK)
    })
}

/// `deck_mbox_select` in deck.h.
///
/// # Safety
/// `boxes` is NULL or has `count` handles; `which` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mbox_select(
    boxes: *const *mut MailboxHandle,
    count: usize,
    which: *mut usize,
    timeout_ms: c_int,
) -> c_int {
    answer("deck_mbox_select", || {
        let caller = node::caller()?;
        let timeout = arguments::timeout(timeout_ms)?;
        if boxes.is_null() || count == 0 {
            return Err(invalid("no mail boxes to select from").with_remedy("give an array of at least one"));
        }
        if count > isize::MAX as usize / size_of::<*mut MailboxHandle>() {
            let what = format!("{count} mail boxes to select from: no array is as long");
            return Err(invalid(what).with_remedy("correct the count: it counts handles"));
        }
        arguments::place(which, "answer", "which")?;
        // SAFETY: not NULL, at most isize::MAX bytes, and the caller gives `count` handles.
        let handles = unsafe { std::slice::from_raw_parts(boxes, count) };
        let pins = handles.iter().map(|handle| pin(*handle, caller)).collect::<Result<Vec<_>>>()?;
        let owners = pins.iter().map(|pin| pin.owner()).collect::<Result<Vec<&Mailbox>>>()?;
        let ready = deck_api::select(&owners, timeout)?;
        node::session()?;
        if owners[ready].is_closed() {
            return Err(Error::new(ErrorKind::Closed, "a mail box was destroyed while it was selected from"));
        }
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { which.write(ready) };
        Ok(DECK_OK)
    })
}

/// `deck_mbox_fd` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mbox_fd(mailbox: *mut MailboxHandle) -> c_int {
    answer_uncancelled("deck_mbox_fd", || pin(mailbox, node::caller()?)?.owner()?.fd())
}

/// `deck_mbox_stats` in deck.h.
///
/// # Safety
/// `stats` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_mbox_stats(mailbox: *const MailboxHandle, stats: *mut Stats) -> c_int {
    answer("deck_mbox_stats", || {
        let caller = node::caller()?;
        arguments::place(stats, "counters", "the second argument")?;
        let mailbox = pin(mailbox, caller)?;
        // SAFETY: not NULL, and the caller lets it be written.
        unsafe { stats.write(mailbox.stats().into()) };
        Ok(DECK_OK)
    })
}

/// `deck_mbox_destroy` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_mbox_destroy(mailbox: *mut MailboxHandle) -> c_int {
    answer_uncancelled("deck_mbox_destroy", || {
        let pin = node::pin_to_destroy(&MAILBOXES, mailbox)?;
        pin.end()?;
        if let End::Owner(mailbox) = &*pin {
            mailbox.close();
        }
        Ok(DECK_OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_place_in_c() {
        let stats = Stats::from(MailboxStats {
            posted: 1,
            retrieved: 2,
            bytes_posted: 3,
            bytes_retrieved: 4,
            waits: 5,
            held_back: 6,
            short: 7,
            buffered: 8,
            zero_copy: 9,
            lanes: 10,
        });
        // SAFETY: sixteen words and nothing between them, which the compiler checks by their size.
        let words: [u64; 16] = unsafe { std::mem::transmute(stats) };
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0]);
    }
}
