//! Groups: joined, asked and left through a handle, and used by one thread at a time.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, TryLockError};

use deck_api::{Completion, Group, GroupOptions, Result};

use crate::error::{DECK_OK, answer, answer_uncancelled, invalid};
use crate::handle::{Caller, Kind, Object, Pin, Table, Unusable};
use crate::{arguments, node, options};

/// Opaque to C.
#[repr(C)]
pub struct GroupHandle([u8; 0]);

static GROUPS: Table<Member> = Table::new();

// SAFETY: this is the only table of groups.
unsafe impl Object for Member {
    const KIND: Kind = Kind::Group;
}

/// A member of a group, and what can be asked while a thread is in a collective of it.
pub struct Member {
    group: Mutex<Group>,
    index: u32,
    /// How many members there are.
    pub size: u32,
}

impl Member {
    /// The member, for this thread alone.
    ///
    /// # Errors
    /// `Invalid` if another thread is using it.
    pub fn alone(&self) -> Result<MutexGuard<'_, Group>> {
        match self.group.try_lock() {
            Ok(group) => Ok(group),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Unusable::Busy.error::<Member>()),
        }
    }
}

/// The member behind `handle`.
pub fn pin(handle: *const GroupHandle, caller: Caller) -> Result<Pin<Member>> {
    GROUPS.pin(handle, caller)
}

fn number(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}

/// What `deck_group_join_with` takes: `deck_group_options_t` in deck.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Options {
    size_of_struct: usize,
    completion: usize,
}

impl Options {
    /// # Safety
    /// `options` is NULL or a struct whose first member is its size.
    unsafe fn read(options: *const Options) -> Result<GroupOptions> {
        // SAFETY: as the caller promises; the struct begins with its size and any bytes are one.
        let known = unsafe { options::read(options, "group", "initialise them with DECK_GROUP_OPTIONS_DEFAULT") }?;
        let completion = u32::try_from(known.completion).ok().and_then(Completion::from_code).ok_or_else(|| {
            invalid(format!("completion {} of a group", known.completion))
                .with_remedy("give DECK_COMPLETION_EVERYONE or DECK_COMPLETION_OWN")
        })?;
        Ok(GroupOptions { completion })
    }
}

/// # Safety
/// As `deck_group_join_with`.
unsafe fn join(
    group: *mut *mut GroupHandle,
    name: *const c_char,
    size: c_int,
    index: c_int,
    options: *const Options,
    timeout_ms: c_int,
) -> Result<c_int> {
    let (session, node) = node::node()?;
    let timeout = arguments::timeout(timeout_ms)?;
    arguments::place(group, "group", "the first argument")?;
    // SAFETY: the caller gives NULL or a string that ends and stays as it is during the call.
    let name = unsafe { arguments::name(name, "group") }?;
    let size = u32::try_from(size)
        .map_err(|_| invalid(format!("a group of {size}")).with_remedy("give the number of members, 1 or more"))?;
    let index = match index {
        -1 => None,
        _ => Some(u32::try_from(index).map_err(|_| {
            invalid(format!("index {index}")).with_remedy("give 0 to size - 1, or -1 for the order of arrival")
        })?),
    };
    // SAFETY: the caller gives NULL or options that say their size.
    let options = unsafe { Options::read(options) }?;
    // Before the others see a member that could not stay.
    let room = GROUPS.reserve()?;
    let joined = Group::join_with(&node, name, size, index, &options, timeout)?;
    let (index, size) = (joined.index(), joined.size());
    let handle = room.fill(session, Member { group: Mutex::new(joined), index, size });
    // SAFETY: not NULL, and the caller lets it be written.
    unsafe { group.write(handle) };
    Ok(DECK_OK)
}

/// `deck_group_join` in deck.h.
///
/// # Safety
/// `group` is NULL or may be written; `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_group_join(
    group: *mut *mut GroupHandle,
    name: *const c_char,
    size: c_int,
    index: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises; no options.
    answer_uncancelled("deck_group_join", || unsafe { join(group, name, size, index, std::ptr::null(), timeout_ms) })
}

/// `deck_group_join_with` in deck.h.
///
/// # Safety
/// `group` is NULL or may be written; `name` is NULL or a string; `options` is NULL or says its size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_group_join_with(
    group: *mut *mut GroupHandle,
    name: *const c_char,
    size: c_int,
    index: c_int,
    options: *const Options,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    answer_uncancelled("deck_group_join_with", || unsafe { join(group, name, size, index, options, timeout_ms) })
}

/// `deck_group_index` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_group_index(group: *const GroupHandle) -> c_int {
    answer("deck_group_index", || Ok(number(pin(group, node::caller()?)?.index)))
}

/// `deck_group_size` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_group_size(group: *const GroupHandle) -> c_int {
    answer("deck_group_size", || Ok(number(pin(group, node::caller()?)?.size)))
}

/// `deck_group_leave` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_group_leave(group: *mut GroupHandle) -> c_int {
    answer_uncancelled("deck_group_leave", || {
        let pin = node::pin_to_destroy(&GROUPS, group)?;
        if pin.group.try_lock().is_err_and(|error| matches!(error, TryLockError::WouldBlock)) {
            return Err(Unusable::Busy.error::<Member>());
        }
        pin.end()?;
        Ok(DECK_OK)
    })
}
