//! As much of hwloc as it takes to find NUMA nodes and to bind memory to them.
//!
//! hwloc (Broquedis et al., "hwloc: a Generic Framework for Managing Hardware Affinities in HPC Applications",
//! PDP 2010) is loaded when it is needed, by the name that its version 2 has: programs that are linked with DECK need
//! not be linked with it, and nothing is missing where it is not installed, but this. Declarations are those of
//! `hwloc.h` and `hwloc/memattrs.h` of version 2.3, which the library keeps for all of version 2.

#[cfg(test)]
use std::ffi::CStr;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::ptr::{NonNull, null_mut};

use libloading::{Library, Symbol};

const NAME: &str = "libhwloc.so.15";
/// Version 2.3: the first with `hwloc_get_local_numanode_objs`.
const API_VERSION: c_uint = 0x0002_0400;
const BIND: c_int = 2;
const BY_NODE_SET: c_int = 1 << 5;
const LOCATION_IS_CPU_SET: c_int = 1;
const LARGER_LOCALITY: c_ulong = 1;
#[cfg(test)]
const IS_THIS_SYSTEM: c_ulong = 1 << 1;

#[repr(C)]
struct Object {
    kind: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    // More, which is not looked at: objects are hwloc's and never made here.
}

#[repr(C)]
struct Location {
    kind: c_int,
    cpu_set: *mut c_void,
}

/// The functions, each of this process's copy of the library. They are called through pointers that outlive it never:
/// the library is kept beside them and unloaded last.
struct Functions {
    bitmap_alloc: unsafe extern "C" fn() -> *mut c_void,
    bitmap_free: unsafe extern "C" fn(*mut c_void),
    bitmap_only: unsafe extern "C" fn(*mut c_void, c_uint) -> c_int,
    bitmap_next: unsafe extern "C" fn(*const c_void, c_int) -> c_int,
    topology_init: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    #[cfg(test)]
    topology_set_synthetic: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    #[cfg(test)]
    topology_set_flags: unsafe extern "C" fn(*mut c_void, c_ulong) -> c_int,
    topology_load: unsafe extern "C" fn(*mut c_void) -> c_int,
    topology_destroy: unsafe extern "C" fn(*mut c_void),
    topology_get_cpuset: unsafe extern "C" fn(*mut c_void) -> *const c_void,
    local_numa_nodes:
        unsafe extern "C" fn(*mut c_void, *mut Location, *mut c_uint, *mut *const Object, c_ulong) -> c_int,
    set_area_membind: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, c_int, c_int) -> c_int,
    get_area_memlocation: unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, c_int) -> c_int,
    _library: Library,
}

impl Functions {
    fn load() -> Option<Functions> {
        // SAFETY: loading a library runs its initialisers; hwloc has none of its own.
        let library = unsafe { Library::new(NAME) }.ok()?;
        // SAFETY: every type below is that of the function in hwloc's headers, checked by version right away; pointers
        // that are copied out of the symbols are used only while `_library` is kept.
        unsafe {
            let version: Symbol<'_, unsafe extern "C" fn() -> c_uint> = library.get(b"hwloc_get_api_version\0").ok()?;
            let version = version();
            if version < API_VERSION || version >> 16 != API_VERSION >> 16 {
                return None;
            }
            Some(Functions {
                bitmap_alloc: *library.get(b"hwloc_bitmap_alloc\0").ok()?,
                bitmap_free: *library.get(b"hwloc_bitmap_free\0").ok()?,
                bitmap_only: *library.get(b"hwloc_bitmap_only\0").ok()?,
                bitmap_next: *library.get(b"hwloc_bitmap_next\0").ok()?,
                topology_init: *library.get(b"hwloc_topology_init\0").ok()?,
                #[cfg(test)]
                topology_set_synthetic: *library.get(b"hwloc_topology_set_synthetic\0").ok()?,
                #[cfg(test)]
                topology_set_flags: *library.get(b"hwloc_topology_set_flags\0").ok()?,
                topology_load: *library.get(b"hwloc_topology_load\0").ok()?,
                topology_destroy: *library.get(b"hwloc_topology_destroy\0").ok()?,
                topology_get_cpuset: *library.get(b"hwloc_topology_get_topology_cpuset\0").ok()?,
                local_numa_nodes: *library.get(b"hwloc_get_local_numanode_objs\0").ok()?,
                set_area_membind: *library.get(b"hwloc_set_area_membind\0").ok()?,
                get_area_memlocation: *library.get(b"hwloc_get_area_memlocation\0").ok()?,
                _library: library,
            })
        }
    }
}

/// A set of numbers, of processors or NUMA nodes.
struct Bitmap<'a>(&'a Functions, NonNull<c_void>);

impl<'a> Bitmap<'a> {
    fn new(functions: &'a Functions) -> Option<Bitmap<'a>> {
        // SAFETY: no preconditions.
        Some(Bitmap(functions, NonNull::new(unsafe { (functions.bitmap_alloc)() })?))
    }

    /// The set of this number alone.
    fn of(functions: &'a Functions, number: u32) -> Option<Bitmap<'a>> {
        let set = Bitmap::new(functions)?;
        // SAFETY: a live bitmap.
        (unsafe { (functions.bitmap_only)(set.1.as_ptr(), number) } == 0).then_some(set)
    }
}

impl Drop for Bitmap<'_> {
    fn drop(&mut self) {
        // SAFETY: allocated by `bitmap_alloc`, freed once.
        unsafe { (self.0.bitmap_free)(self.1.as_ptr()) };
    }
}

/// The numbers in a set that `set` points to, smallest first.
///
/// # Safety
/// A live bitmap, not one without end.
unsafe fn numbers(functions: &Functions, set: *const c_void) -> Vec<u32> {
    // SAFETY: as promised by the caller.
    let next = |before: c_int| unsafe { (functions.bitmap_next)(set, before) };
    std::iter::successors(Some(next(-1)), |before| Some(next(*before))).map_while(|at| u32::try_from(at).ok()).collect()
}

/// A machine, or the description of one.
pub struct Topology {
    functions: Functions,
    handle: NonNull<c_void>,
}

// SAFETY: a loaded topology that nobody changes may be used by several threads at once (hwloc's manual, "Thread
// Safety").
unsafe impl Send for Topology {}
// SAFETY: as above.
unsafe impl Sync for Topology {}

impl Topology {
    /// This machine, as far as the process may use it. `None` without hwloc, or if it cannot tell.
    pub fn of_this_machine() -> Option<Topology> {
        Topology::load(|_, _| true)
    }

    /// The machine that hwloc's synthetic description tells of; taken for this one if `is_this_system`.
    #[cfg(test)]
    pub fn synthetic(description: &CStr, is_this_system: bool) -> Option<Topology> {
        let flags = if is_this_system { IS_THIS_SYSTEM } else { 0 };
        // SAFETY: a topology that was initialised and not loaded; the description ends with a zero.
        Topology::load(|functions, handle| unsafe {
            (functions.topology_set_flags)(handle, flags) == 0
                && (functions.topology_set_synthetic)(handle, description.as_ptr()) == 0
        })
    }

    fn load(configure: impl FnOnce(&Functions, *mut c_void) -> bool) -> Option<Topology> {
        let functions = Functions::load()?;
        let mut handle = null_mut();
        // SAFETY: a place for one pointer.
        if unsafe { (functions.topology_init)(&raw mut handle) } != 0 {
            return None;
        }
        let topology = Topology { functions, handle: NonNull::new(handle)? };
        let is_configured = configure(&topology.functions, handle);
        // SAFETY: initialised above, not loaded yet.
        (is_configured && unsafe { (topology.functions.topology_load)(handle) } == 0).then_some(topology)
    }

    /// The numbers of the processors.
    pub fn processors(&self) -> Vec<u32> {
        // SAFETY: a loaded topology; its set of processors is its own, ends, and lives as long.
        unsafe {
            let set = (self.functions.topology_get_cpuset)(self.handle.as_ptr());
            if set.is_null() { Vec::new() } else { numbers(&self.functions, set) }
        }
    }

    /// The number of the NUMA node that is nearest to a processor.
    pub fn nearest(&self, processor: u32) -> Option<u32> {
        let set = Bitmap::of(&self.functions, processor)?;
        let mut location = Location { kind: LOCATION_IS_CPU_SET, cpu_set: set.1.as_ptr() };
        let (mut count, mut object) = (1, std::ptr::null());
        // SAFETY: a loaded topology, a location of the kind that it says, and room for `count` objects.
        let found = unsafe {
            (self.functions.local_numa_nodes)(
                self.handle.as_ptr(),
                &raw mut location,
                &raw mut count,
                &raw mut object,
                LARGER_LOCALITY,
            )
        };
        // SAFETY: an object that hwloc returned lives as long as its topology, and begins as declared.
        (found == 0 && count > 0 && !object.is_null()).then(|| unsafe { (*object).os_index })
    }

    /// Has pages of a range that are not allocated yet come from this NUMA node, or from another one if that has none
    /// left.
    ///
    /// # Errors
    /// The system's, where it refuses.
    pub fn bind(&self, address: NonNull<u8>, bytes: usize, numa_node: u32) -> std::io::Result<()> {
        let Some(set) = Bitmap::of(&self.functions, numa_node) else {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        };
        // SAFETY: a policy for addresses reads and writes no memory; a loaded topology and a live set.
        let result = unsafe {
            (self.functions.set_area_membind)(
                self.handle.as_ptr(),
                address.as_ptr().cast(),
                bytes,
                set.1.as_ptr(),
                BIND,
                BY_NODE_SET,
            )
        };
        if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// The numbers of the NUMA nodes that a range really lies on, as far as its pages were touched by this process.
    pub fn locate(&self, address: NonNull<u8>, bytes: usize) -> Option<Vec<u32>> {
        let set = Bitmap::new(&self.functions)?;
        // SAFETY: as in `bind`; the set is ours to be written.
        let result = unsafe {
            (self.functions.get_area_memlocation)(
                self.handle.as_ptr(),
                address.as_ptr().cast(),
                bytes,
                set.1.as_ptr(),
                BY_NODE_SET,
            )
        };
        // SAFETY: a set of locations ends.
        (result == 0).then(|| unsafe { numbers(&self.functions, set.1.as_ptr()) })
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        // SAFETY: initialised, destroyed once.
        unsafe { (self.functions.topology_destroy)(self.handle.as_ptr()) };
    }
}
