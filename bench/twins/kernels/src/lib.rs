//! The inner loops of DECK's applications, as C functions for their MPI twins.
//!
//! The files are the applications' own. So both sides of a comparison compute with the same code from the same
//! compiler, and what differs is how they hand out work and exchange results.

#![allow(dead_code, reason = "the applications' files have more than the twins need")]

#[path = "../../../../apps/laplace/src/band.rs"]
mod band;
#[path = "../../../../apps/laplace/src/kernel.rs"]
mod kernel;
#[path = "../../../../apps/mandelbrot/src/kernel.rs"]
mod mandelbrot;
#[path = "../../../../apps/povray-farm/src/portable_pixmap.rs"]
mod portable_pixmap;
mod problem;
#[path = "../../../../apps/povray-farm/src/state_file.rs"]
mod state_file;
#[path = "../../../../apps/scheduler/src/task.rs"]
mod task;

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

use band::Band;
use problem::Problem;
use state_file::StateFile;
use task::{TASK_BYTES, Task};

/// Iteration counts of the rows from `first` up to `last` of the full set.
///
/// # Safety
/// `counts` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mandelbrot_counts(
    width: u32,
    height: u32,
    max_iter: u32,
    first: u32,
    last: u32,
    counts: *mut u32,
) {
    let made = mandelbrot::counts(&Problem { width, height, max_iter }, first..last);
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(counts, made.len()) }.copy_from_slice(&made);
}

/// A band of a slab with a uniformly heated upper edge.
#[unsafe(no_mangle)]
pub extern "C" fn laplace_band(width: usize, above: usize, rows: usize) -> Box<Band> {
    Box::new(Band::new(width, above, rows, |_, row| if row == 0 { 100.0 } else { 0.0 }))
}

/// Relaxes one colour of the rows from `first` up to `last`; the largest change.
#[unsafe(no_mangle)]
pub extern "C" fn laplace_relax(band: &mut Band, colour: usize, first: usize, last: usize) -> f64 {
    band.relax(colour, first..last)
}

/// One colour of one row: half the width, rounded up.
#[unsafe(no_mangle)]
pub extern "C" fn laplace_row(band: &mut Band, colour: usize, row: usize) -> *mut f64 {
    band.row_mut(colour, row).as_mut_ptr()
}

/// Temperatures of one row.
///
/// # Safety
/// `temperatures` has room for the width.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn laplace_temperatures(band: &Band, row: usize, temperatures: *mut f64) {
    let made = band.temperatures(row);
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(temperatures, made.len()) }.copy_from_slice(&made);
}

/// # Safety
/// `path` is a C string.
unsafe fn path(path: *const c_char) -> PathBuf {
    // SAFETY: the caller's promise.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))
}

/// The lines that POV-Ray finishes in `rows`.
///
/// # Safety
/// `state` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn povray_state(state: *const c_char, width: u32, first: u32, last: u32) -> Box<StateFile> {
    // SAFETY: the caller's promise.
    Box::new(StateFile::new(unsafe { path(state) }, first..last, width, 1.0))
}

/// Calls `tell` for each run of lines that was finished since the last call.
#[unsafe(no_mangle)]
pub extern "C" fn povray_news(state: &mut StateFile, tell: extern "C" fn(first: u32, last: u32, pixels: *const u8)) {
    state.news().into_iter().for_each(|(rows, pixels)| tell(rows.start, rows.end, pixels.as_ptr()));
}

/// No more lines are wanted.
#[unsafe(no_mangle)]
pub extern "C" fn povray_forget(_: Box<StateFile>) {}

/// Reads rows of POV-Ray's picture; whether they were there.
///
/// # Safety
/// `picture` is a C string, `pixels` has room for the rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn povray_rows(
    picture: *const c_char,
    width: u32,
    height: u32,
    first: u32,
    last: u32,
    pixels: *mut u8,
) -> bool {
    // SAFETY: the caller's promise.
    let bytes = std::fs::read(unsafe { path(picture) }).unwrap_or_default();
    let Some(rows) = portable_pixmap::rows(&bytes, (width, height), first..last) else { return false };
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(pixels, rows.len()) }.copy_from_slice(&rows);
    true
}

/// The queue of a task.
#[unsafe(no_mangle)]
pub extern "C" fn scheduler_priority(producer: u32, number: u32) -> u32 {
    Task { producer, number }.priority() as u32
}

/// The bytes of a task.
///
/// # Safety
/// `bytes` has room for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scheduler_task(producer: u32, number: u32, bytes: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(bytes, TASK_BYTES) }.copy_from_slice(&Task { producer, number }.bytes());
}

/// Runs a task and tells which it was; whether it was whole.
///
/// # Safety
/// `bytes` are those of a task, `producer` and `number` valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn scheduler_run(bytes: *const [u8; TASK_BYTES], producer: *mut u32, number: *mut u32) -> bool {
    // SAFETY: the caller's promise.
    let Some(task) = Task::run(unsafe { &*bytes }) else { return false };
    // SAFETY: the caller's promise.
    unsafe { producer.write(task.producer) };
    // SAFETY: the caller's promise.
    unsafe { number.write(task.number) };
    true
}
