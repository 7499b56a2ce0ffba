//! Shared segments.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use deck_api::shared::Segment;
use deck_api::{Node, NodeId};

use crate::error::{answer_or, invalid};
use crate::handle::{Kind, Object, Table};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct SegmentHandle([u8; 0]);

static SEGMENTS: Table<Segment> = Table::new();

// SAFETY: this is the only table of segments.
unsafe impl Object for Segment {
    const KIND: Kind = Kind::Segment;
}

/// `deck_segment_create` in deck.h.
///
/// # Safety
/// `segment` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_segment_create(
    segment: *mut *mut SegmentHandle,
    name: *const c_char,
    bytes: usize,
    home_node: c_int,
) -> c_int {
    let home = || match home_node {
        -1 => Ok(None),
        number => u32::try_from(number).map(|number| Some(NodeId(number))).map_err(|_| {
            invalid(format!("there is no node {number}")).with_remedy("give a node's number, or -1 for this one")
        }),
    };
    let create = |node: &Node, name: &str, home| Segment::create(node, name, bytes, home);
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open_with("deck_segment_create", &SEGMENTS, segment, name, home, create) }
}

/// `deck_segment_open` in deck.h.
///
/// # Safety
/// `segment` is NULL or may be written; `name` is NULL or a string that ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_segment_open(
    segment: *mut *mut SegmentHandle,
    name: *const c_char,
    timeout_ms: c_int,
) -> c_int {
    let timeout = || arguments::timeout(timeout_ms);
    // SAFETY: the caller keeps what this function asks for.
    unsafe { super::open_with("deck_segment_open", &SEGMENTS, segment, name, timeout, Segment::open) }
}

/// `deck_segment_data` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_segment_data(segment: *mut SegmentHandle) -> *mut c_void {
    answer_or("deck_segment_data", ptr::null_mut(), || Ok(super::pin(&SEGMENTS, segment)?.address().cast()))
}

/// `deck_segment_size` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_segment_size(segment: *const SegmentHandle) -> usize {
    answer_or("deck_segment_size", 0, || Ok(super::pin(&SEGMENTS, segment)?.len()))
}

/// `deck_segment_home` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_segment_home(segment: *const SegmentHandle) -> c_int {
    crate::error::answer("deck_segment_home", || Ok(node::number(super::pin(&SEGMENTS, segment)?.home())))
}

/// `deck_segment_close` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_segment_close(segment: *mut SegmentHandle) -> c_int {
    super::close("deck_segment_close", &SEGMENTS, segment, |_| Ok(()), |_| {})
}
