//! The asymmetric fence: [`light`] on the side that runs millions of times, [`heavy`] on the side that is about to
//! sleep.
//!
//! Two sides that each write one word and then read the other's need a store-load fence between write and read, on both
//! sides. A `light` fence is only a compiler fence: the `heavy` side makes up for it by having the kernel run a full
//! fence on every core that runs a registered process (`membarrier`, global expedited). Where the kernel refuses
//! membarrier (some seccomp filters do), both sides fence.
//!
//! What needs the fence among threads of one process only takes [`light_within`] and [`heavy_within`], which the kernel
//! never leaves out, if there is one ([`is_asymmetric`]). Across processes it may: a core that was idle when a process
//! registered, and ran that process last, is passed over until it has run another one. So nothing may rest on [`heavy`]
//! but when a sleeper hears of something; [`crate::wait`](crate::wait()) looks again.
//!
//! *All* processes of a job must agree: one that cannot register makes every other use real fences
//! ([`use_real_fences`]).

use crate::atomic::{Ordering, fence};

#[cfg(not(loom))]
mod mode {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Mutex, OnceLock};

    use crate::locks::lock;

    /// True while a light fence has to be a real one.
    pub static REAL: AtomicBool = AtomicBool::new(true);
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    static FORCED: Mutex<bool> = Mutex::new(false);

    const GLOBAL_EXPEDITED: libc::c_int = 1 << 1;
    const REGISTER_GLOBAL_EXPEDITED: libc::c_int = 1 << 2;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const ALL: [libc::c_int; 4] =
        [REGISTER_GLOBAL_EXPEDITED, REGISTER_PRIVATE_EXPEDITED, GLOBAL_EXPEDITED, PRIVATE_EXPEDITED];

    fn membarrier(command: libc::c_int) -> bool {
        // Miri does not know the call: as where the kernel refuses it.
        if cfg!(miri) {
            return false;
        }
        // SAFETY: membarrier takes three integers, touches no memory of ours and can only fail with an error code.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub fn register() -> bool {
        let registered = *REGISTERED.get_or_init(|| ALL.into_iter().all(membarrier));
        if registered && REAL.load(Ordering::Relaxed) {
            // Held until it is stored: another thread may force real fences meanwhile.
            let forced = lock(&FORCED);
            if !*forced {
                // After it is known to have been registered: from now on light fences rely on heavy ones.
                // SeqCst: pairs with: barrier/real.
                REAL.store(false, Ordering::SeqCst);
            }
        }
        registered
    }

    #[inline]
    pub fn is_registered() -> bool {
        REGISTERED.get().is_some_and(|registered| *registered)
    }

    pub fn force() {
        let mut forced = lock(&FORCED);
        *forced = true;
        // SeqCst: pairs with: barrier/real. Our threads that read the old mode just before are past their light fence
        // once the kernel's fence is over.
        REAL.store(true, Ordering::SeqCst);
        let _ = membarrier(GLOBAL_EXPEDITED);
    }

    pub fn heavy() {
        fence_all(GLOBAL_EXPEDITED);
    }

    pub fn heavy_within() {
        fence_all(PRIVATE_EXPEDITED);
    }

    fn fence_all(command: libc::c_int) {
        // SeqCst: pairs with: barrier/light. Both fences: others may still have to learn that they are real by now.
        std::sync::atomic::fence(Ordering::SeqCst);
        if is_registered() {
            let _ = membarrier(command);
        }
    }
}

/// Registers this process for membarrier; true if the kernel agreed. Cheap after the first call. Never blocks.
pub fn register() -> bool {
    #[cfg(not(loom))]
    return mode::register();
    #[cfg(loom)]
    true
}

/// Whether [`light_within`] and [`heavy_within`] make up a fence: not before this process is registered. Stays so.
pub fn is_asymmetric() -> bool {
    #[cfg(not(loom))]
    return mode::is_registered();
    #[cfg(loom)]
    true
}

/// Makes [`light`] a real fence in this process from now on, because a node of the job cannot use membarrier.
pub fn use_real_fences() {
    #[cfg(not(loom))]
    mode::force();
}

/// The cheap side: orders this thread's earlier stores before its later loads as seen by a thread that calls [`heavy`]
/// between its own store and load. Costs nothing (or a fence where membarrier is refused).
#[inline]
pub fn light() {
    #[cfg(not(loom))]
    // Relaxed: pairs with: barrier/real, by the fence that the kernel runs here after the store.
    if !mode::REAL.load(Ordering::Relaxed) {
        // Pairs with: barrier/light, by the fence that the kernel runs here.
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        return;
    }
    #[cfg(loom)]
    if model::is_without_light() {
        return;
    }
    // SeqCst: pairs with: barrier/light.
    fence(Ordering::SeqCst);
}

#[cfg(loom)]
pub use model::without_light;

#[cfg(loom)]
mod model {
    use std::cell::Cell;

    // All threads of a model run on one of the system's.
    std::thread_local!(static IS_WITHOUT_LIGHT: Cell<bool> = const { Cell::new(false) });

    pub fn is_without_light() -> bool {
        IS_WITHOUT_LIGHT.get()
    }

    /// Runs a model in which nobody sleeps: its light fences do nothing. Elsewhere a model has real fences in place of
    /// light ones, and these order what the accesses beside them have to order on a processor.
    pub fn without_light<T>(run: impl FnOnce() -> T) -> T {
        struct Until;
        impl Drop for Until {
            fn drop(&mut self) {
                IS_WITHOUT_LIGHT.set(false);
            }
        }
        let _until = Until;
        IS_WITHOUT_LIGHT.set(true);
        run()
    }
}

/// As [`light`], for a thread of this process that calls [`heavy_within`], and only where that is a fence
/// ([`is_asymmetric`]). Costs nothing.
#[inline(always)]
pub fn light_within() {
    // Pairs with: barrier/within, by the fence that the kernel runs here.
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    // SeqCst: pairs with: barrier/within.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// The dear side, a system call of a few microseconds. Pairs with every [`light`] of every registered process, but for
/// the rare one that the kernel passes over: for sleepers, who look again.
pub fn heavy() {
    #[cfg(not(loom))]
    mode::heavy();
    // SeqCst: pairs with: barrier/light.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// As [`heavy`], and pairs with every [`light`] and [`light_within`] of this process, always.
pub fn heavy_within() {
    #[cfg(not(loom))]
    mode::heavy_within();
    // SeqCst: pairs with: barrier/within, barrier/light.
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn registering_twice_gives_the_same_answer() {
        assert_eq!(register(), register());
        heavy();
        heavy_within();
        light();
    }
}
