//! Collectives: all calls are one, which is asked for different things, and waits or starts.
//!
//! C gives `in` and `out` as addresses. How many bytes of them this member may read and write is what the Rust core
//! says the call takes and gives; nothing beyond is touched, and what a member does not need may be NULL.

mod arrays;

use std::ffi::{c_int, c_uint, c_void};
use std::slice;
use std::sync::Mutex;
use std::time::Duration;

use deck_api::group::{Call, Kind as Asked, Pending};
use deck_api::{ElementType, Group, Operation, Result};
use deck_sync::vectors;

use arrays::MEMORY;

use crate::error::{DECK_OK, answer, invalid};
use crate::group::{self, GroupHandle};
use crate::handle::{Kind, Object, Table, Unusable};
use crate::{arguments, node};

/// Opaque to C.
#[repr(C)]
pub struct RequestHandle([u8; 0]);

static REQUESTS: Table<Request> = Table::new();

// SAFETY: this is the only table of requests.
unsafe impl Object for Request {
    const KIND: Kind = Kind::Request;
}

/// A collective that was started.
struct Request {
    group: *const GroupHandle,
    pending: Mutex<Pending<u8>>,
    /// Where C wants the result.
    output: *mut u8,
}

// SAFETY: `group` is a handle and never an address; `output` is written only in a call of `deck_test` or `deck_wait`,
// for whose time the C program leaves it to the library.
unsafe impl Send for Request {}
// SAFETY: as above; two threads in one request exclude one another by its lock.
unsafe impl Sync for Request {}

/// What C asks for.
#[derive(Clone, Copy)]
struct Arguments {
    kind: Asked,
    root: c_int,
    element: c_uint,
    operation: c_uint,
    count: usize,
    send_counts: *const usize,
    recv_counts: *const usize,
}

impl Arguments {
    fn of(kind: Asked, element: c_uint, count: usize) -> Arguments {
        let none = std::ptr::null();
        Arguments {
            kind,
            root: 0,
            element,
            operation: Operation::Sum as c_uint,
            count,
            send_counts: none,
            recv_counts: none,
        }
    }

    /// # Safety
    /// Counts that this member needs are NULL or have `size` elements.
    unsafe fn call(&self, index: u32, size: u32) -> Result<Call> {
        let root = u32::try_from(self.root)
            .map_err(|_| invalid(format!("root {}", self.root)).with_remedy("give the index of a member, from 0"))?;
        let element = arguments::element_type(self.element)?;
        let operation = u8::try_from(self.operation).ok().and_then(Operation::from_code).ok_or_else(|| {
            invalid(format!("{} is no operation", self.operation)).with_remedy("use a deck_op_t, DECK_SUM to DECK_XOR")
        })?;
        let (sends, receives) = self.kind.needs_counts(index == root);
        // SAFETY: as the caller promises.
        let counts = |is_needed: bool, counts: *const usize| unsafe { counts_from_c(is_needed, counts, size) };
        let (send_counts, recv_counts) = (counts(sends, self.send_counts)?, counts(receives, self.recv_counts)?);
        let call = Call::new(self.kind, element, self.count).rooted(root).reducing(operation);
        Ok(Call { send_counts, recv_counts, ..call })
    }
}

/// # Safety
/// `counts` is NULL or, if it is needed, has `size` elements.
unsafe fn counts_from_c(is_needed: bool, counts: *const usize, size: u32) -> Result<Vec<usize>> {
    if !is_needed {
        return Ok(Vec::new());
    }
    if counts.is_null() {
        return Err(invalid("the counts are NULL").with_remedy("give a count for each member"));
    }
    // SAFETY: not NULL, and the caller gives `size` of them.
    Ok(unsafe { slice::from_raw_parts(counts, size as usize) }.to_vec())
}

/// What C wants to happen.
#[derive(Clone, Copy)]
enum How {
    /// Wait for the end, for so many milliseconds.
    Wait(c_int),
    /// Start, and give a request.
    Start(*mut *mut RequestHandle),
}

/// # Safety
/// `input` and `output` are NULL or have as many bytes as the call takes and gives in this member, which nobody else
/// uses during the call; counts as for [`Arguments::call`]; the place of a request is NULL or may be written.
unsafe fn collective(
    name: &'static str,
    group: *mut GroupHandle,
    arguments: Arguments,
    input: *const c_void,
    output: *mut c_void,
    how: How,
) -> c_int {
    answer(name, || {
        let caller = node::caller()?;
        let timeout = match how {
            How::Wait(timeout_ms) => Some(arguments::timeout(timeout_ms)?),
            How::Start(place) => {
                arguments::place(place, "request", "the last argument")?;
                None
            }
        };
        let member = group::pin(group, caller)?;
        let mut alone = member.alone()?;
        // SAFETY: as the caller promises.
        let call = unsafe { arguments.call(alone.index(), member.size) }?;
        let (takes, gives) = call.bytes(alone.index(), member.size)?;
        let result = if call.kind == Asked::Bcast { "data" } else { "out" };
        for (bytes, address, what) in [(takes, input, "in"), (gives, output.cast_const(), result)] {
            if bytes > 0 && address.is_null() {
                return Err(invalid(format!("{what} is NULL, and {bytes} bytes are needed there")));
            }
        }
        let (from, to) = (input.addr(), output.addr());
        let overlaps = takes > 0 && gives > 0 && from < to.saturating_add(gives) && to < from.saturating_add(takes);
        if overlaps && !(call.kind.is_reduction() && from == to) {
            return Err(invalid("in and out overlap")
                .with_remedy("give two arrays; reductions also take one array, the same, for both"));
        }
        let arrays = Arrays { input: input.cast(), takes, output: output.cast(), gives, overlaps };
        // SAFETY: as the caller promises; what is needed is not NULL, and of no more than isize::MAX bytes
        // (`Call::bytes`).
        unsafe {
            match how {
                How::Wait(_) => arrays.wait(&mut alone, &call, timeout.unwrap_or_default())?,
                How::Start(place) => place.write(arrays.start(&mut alone, &call, group, caller.session())?),
            }
        }
        Ok(DECK_OK)
    })
}

/// What a call reads and writes: bytes that C has.
struct Arrays {
    input: *const u8,
    takes: usize,
    output: *mut u8,
    gives: usize,
    /// They are one array.
    overlaps: bool,
}

impl Arrays {
    /// # Safety
    /// `takes` bytes can be read and `gives` bytes written, by nobody else meanwhile.
    unsafe fn wait(&self, group: &mut Group, call: &Call, timeout: Duration) -> Result<()> {
        let input: &[u8] = match self.takes {
            0 => &[],
            // SAFETY: as the caller promises.
            takes => unsafe { slice::from_raw_parts(self.input, takes) },
        };
        // One array for both: the input is kept, since two borrows of it cannot be.
        let kept = if self.overlaps { Some(vectors::copied(input, MEMORY)?) } else { None };
        let output: &mut [u8] = match self.gives {
            0 => &mut [],
            // SAFETY: as the caller promises, and the input is not there.
            gives => unsafe { slice::from_raw_parts_mut(self.output, gives) },
        };
        group.call(call, kept.as_deref().unwrap_or(input), output, timeout)
    }

    /// # Safety
    /// As for [`Arrays::wait`] and until the call has ended.
    unsafe fn start(
        &self,
        group: &mut Group,
        call: &Call,
        handle: *const GroupHandle,
        session: u64,
    ) -> Result<*mut RequestHandle> {
        let is_bcast_root = call.kind == Asked::Bcast && group.index() == call.root;
        // SAFETY: as the caller promises.
        let (input, output) = unsafe {
            match is_bcast_root {
                true => (arrays::to_read(group, self.output, self.gives, false)?, Box::default()),
                false => (
                    arrays::to_read(group, self.input, self.takes, self.overlaps)?,
                    arrays::to_write(group, self.output, self.gives)?,
                ),
            }
        };
        // Before the call is started: others may see it at once.
        vectors::headroom(MEMORY)?;
        let room = REQUESTS.reserve()?;
        let pending = Mutex::new(group.start_in(call, input, output)?);
        Ok(room.fill(session, Request { group: handle, pending, output: self.output }))
    }
}

/// Looks whether a request has come to its end, or waits; then its result is put where C wants it, and it is freed.
fn finish(name: &'static str, request: *mut RequestHandle, how: Option<c_int>, is_done: *mut c_int) -> c_int {
    answer(name, || {
        let caller = node::caller()?;
        let timeout = how.map(arguments::timeout).transpose()?;
        if how.is_none() {
            arguments::place(is_done, "answer", "the second argument")?;
        }
        let pin = REQUESTS.pin(request, caller)?;
        let mut pending = pin.pending.try_lock().map_err(|_| Unusable::Busy.error::<Request>())?;
        let member = group::pin(pin.group, caller)?;
        let mut alone = member.alone()?;
        let result = match timeout {
            Some(timeout) => Some(pending.wait(&mut alone, timeout)?),
            None => pending.test(&mut alone)?,
        };
        drop((alone, pending));
        if let Some(result) = &result {
            // SAFETY: it is the output that was given to the starting call, with as many bytes as the result has, and
            // that the caller leaves to the library until now.
            unsafe { arrays::put(result, pin.output) };
            pin.remove();
        }
        if !is_done.is_null() {
            // SAFETY: not NULL, and the caller lets it be written.
            unsafe { is_done.write(result.is_some().into()) };
        }
        Ok(DECK_OK)
    })
}

/// `deck_test` in deck.h.
///
/// # Safety
/// `is_done` is NULL or may be written; the request's `out` is as it was when it was started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_test(request: *mut RequestHandle, is_done: *mut c_int) -> c_int {
    finish("deck_test", request, None, is_done)
}

/// `deck_wait` in deck.h.
///
/// # Safety
/// The request's `out` is as it was when it was started.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deck_wait(request: *mut RequestHandle, timeout_ms: c_int) -> c_int {
    finish("deck_wait", request, Some(timeout_ms), std::ptr::null_mut())
}

/// `deck_request_destroy` in deck.h.
#[unsafe(no_mangle)]
pub extern "C" fn deck_request_destroy(request: *mut RequestHandle) -> c_int {
    answer("deck_request_destroy", || {
        node::pin_to_destroy(&REQUESTS, request)?.end()?;
        Ok(DECK_OK)
    })
}

/// The two C functions of a collective: one that waits and one that starts.
macro_rules! calls {
    ($($waits:ident $starts:ident ($($name:ident: $type:ty),*) $input:expr, $output:expr, $arguments:expr;)*) => {$(
        #[doc = concat!("`", stringify!($waits), "` in deck.h.")]
        ///
        /// # Safety
        /// Arrays are NULL or as long as deck.h says, and nobody else uses them during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $waits(group: *mut GroupHandle, $($name: $type,)* timeout_ms: c_int) -> c_int {
            // SAFETY: as the caller promises.
            unsafe {
                collective(stringify!($waits), group, $arguments, $input, $output, How::Wait(timeout_ms))
            }
        }

        #[doc = concat!("`", stringify!($starts), "` in deck.h.")]
        ///
        /// # Safety
        /// Arrays are NULL or as long as deck.h says; those that are written are left to the library until the request
        /// has come to its end.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $starts(
            group: *mut GroupHandle,
            $($name: $type,)*
            request: *mut *mut RequestHandle,
        ) -> c_int {
            // SAFETY: as the caller promises.
            unsafe {
                collective(stringify!($starts), group, $arguments, $input, $output, How::Start(request))
            }
        }
    )*};
}

const NOTHING: *const c_void = std::ptr::null();
const NOWHERE: *mut c_void = std::ptr::null_mut();
const BYTE: c_uint = ElementType::Byte as c_uint;

calls! {
    deck_barrier deck_start_barrier () NOTHING, NOWHERE, Arguments::of(Asked::Barrier, BYTE, 0);
    deck_bcast deck_start_bcast (root: c_int, data: *mut c_void, count: usize, element: c_uint)
        NOTHING, data, Arguments { root, ..Arguments::of(Asked::Bcast, element, count) };
    deck_reduce deck_start_reduce
        (root: c_int, input: *const c_void, output: *mut c_void, count: usize, element: c_uint, operation: c_uint)
        input, output, Arguments { root, operation, ..Arguments::of(Asked::Reduce, element, count) };
    deck_allreduce deck_start_allreduce
        (input: *const c_void, output: *mut c_void, count: usize, element: c_uint, operation: c_uint)
        input, output, Arguments { operation, ..Arguments::of(Asked::Allreduce, element, count) };
    deck_scan deck_start_scan
        (input: *const c_void, output: *mut c_void, count: usize, element: c_uint, operation: c_uint)
        input, output, Arguments { operation, ..Arguments::of(Asked::Scan, element, count) };
    deck_gather deck_start_gather
        (root: c_int, input: *const c_void, count: usize, output: *mut c_void, element: c_uint)
        input, output, Arguments { root, ..Arguments::of(Asked::Gather, element, count) };
    deck_scatter deck_start_scatter
        (root: c_int, input: *const c_void, output: *mut c_void, count: usize, element: c_uint)
        input, output, Arguments { root, ..Arguments::of(Asked::Scatter, element, count) };
    deck_allgather deck_start_allgather (input: *const c_void, count: usize, output: *mut c_void, element: c_uint)
        input, output, Arguments::of(Asked::Allgather, element, count);
    deck_alltoall deck_start_alltoall (input: *const c_void, count: usize, output: *mut c_void, element: c_uint)
        input, output, Arguments::of(Asked::Alltoall, element, count);
    deck_gatherv deck_start_gatherv
        (root: c_int, input: *const c_void, count: usize, output: *mut c_void, counts: *const usize, element: c_uint)
        input, output,
        Arguments { root, recv_counts: counts, ..Arguments::of(Asked::Gatherv, element, count) };
    deck_scatterv deck_start_scatterv
        (root: c_int, input: *const c_void, counts: *const usize, output: *mut c_void, count: usize, element: c_uint)
        input, output,
        Arguments { root, send_counts: counts, ..Arguments::of(Asked::Scatterv, element, count) };
    deck_allgatherv deck_start_allgatherv
        (input: *const c_void, count: usize, output: *mut c_void, counts: *const usize, element: c_uint)
        input, output, Arguments { recv_counts: counts, ..Arguments::of(Asked::Allgatherv, element, count) };
    deck_alltoallv deck_start_alltoallv
        (input: *const c_void, send_counts: *const usize, output: *mut c_void, recv_counts: *const usize, element: c_uint)
        input, output, Arguments { send_counts, recv_counts, ..Arguments::of(Asked::Alltoallv, element, 0) };
}
