//! Memory that one thread at a time may touch: `std`'s, or loom's, which notices when two do.

/// A cell whose users see to it that nobody else is inside.
pub(crate) struct Cell<T: ?Sized>(inner::UnsafeCell<T>);

/// The right to touch a cell's content while this lives.
pub(crate) struct Touch<T: ?Sized>(inner::MutPtr<T>);

#[cfg(loom)]
mod inner {
    pub use loom::cell::{MutPtr, UnsafeCell};
}

#[cfg(not(loom))]
mod inner {
    pub use std::cell::UnsafeCell;
    pub type MutPtr<T> = *mut T;
}

impl<T> Cell<T> {
    pub fn new(value: T) -> Cell<T> {
        Cell(inner::UnsafeCell::new(value))
    }
}

impl<T: ?Sized> Cell<T> {
    #[inline]
    pub fn touch(&self) -> Touch<T> {
        #[cfg(loom)]
        return Touch(self.0.get_mut());
        #[cfg(not(loom))]
        Touch(self.0.get())
    }
}

impl<T: ?Sized> Touch<T> {
    /// # Safety
    /// The cell lives, and nobody else touches it while this does.
    #[inline]
    pub unsafe fn get(&self) -> &T {
        #[cfg(loom)]
        // SAFETY: the caller's.
        return unsafe { self.0.deref() };
        #[cfg(not(loom))]
        // SAFETY: the caller's.
        unsafe {
            &*self.0
        }
    }

    /// # Safety
    /// As [`Touch::get`].
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "the exclusive borrow is that of the guard which calls this")]
    pub unsafe fn get_mut(&self) -> &mut T {
        #[cfg(loom)]
        // SAFETY: the caller's.
        return unsafe { self.0.deref() };
        #[cfg(not(loom))]
        // SAFETY: the caller's.
        unsafe {
            &mut *self.0
        }
    }
}
