//! Where threads of a process lay out arrays for one another to read, with no copy.
//!
//! An array lies there while the thread that owns it is in a call. When the call ends before others are through with the array, a copy stays in
//! its place, so that the owner has its array back; and it is not given back while anybody reads. So whoever reads does so for a short time only,
//! and waits for nothing meanwhile.

use std::ptr::NonNull;
use std::sync::{RwLock, RwLockReadGuard};

use crate::locks::{read, write};
use crate::{Error, ErrorKind, Result, vectors};

/// Places for arrays, each of which one thread at a time uses.
///
/// ```
/// use deck_sync::Shelf;
///
/// let shelf = Shelf::new(1);
/// let array = vec![7; 100];
/// std::thread::scope(|scope| {
///     let reader = || shelf.look().at(0, 1).map(|bytes| bytes[99]);
///     let read = shelf.lend(0, 1, &array, || scope.spawn(reader).join(), |_| false);
///     assert_eq!(read.unwrap().unwrap(), 7);
/// });
/// assert!(shelf.look().at(0, 1).is_err());
/// ```
#[derive(Debug)]
pub struct Shelf {
    places: RwLock<Box<[Place]>>,
}

/// What lies at a place, and for which call.
#[derive(Debug)]
struct Place {
    call: u64,
    lies: Lies,
}

#[derive(Debug)]
enum Lies {
    Nothing,
    /// Somebody's array, who is in the call.
    Lent(Lent),
    Kept(Vec<u8>),
    /// There was no memory for a copy.
    NotKept,
}

#[derive(Debug)]
struct Lent {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it stands for a `&[u8]`, which any thread may read: `Shelf::lend` keeps the array borrowed until the place says something else.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Shelf {
    /// A shelf with so many places, at which nothing lies.
    pub fn new(places: usize) -> Shelf {
        let empty = || Place { call: 0, lies: Lies::Nothing };
        Shelf { places: RwLock::new((0..places).map(|_| empty()).collect()) }
    }

    /// Acts while `array` lies at `place` for `call`. If it is to be kept then, says `is_kept`, a copy stays there until the next time, and
    /// is what others read also while the same call is gone on with. Blocks while others read.
    ///
    /// # Panics
    /// If there is no such place, or `act` panics: then nothing stays.
    pub fn lend<R>(
        &self,
        place: usize,
        call: u64,
        array: &[u8],
        act: impl FnOnce() -> R,
        is_kept: impl FnOnce(&R) -> bool,
    ) -> R {
        {
            let mut places = write(&self.places);
            let place = &mut places[place];
            if place.call != call || matches!(place.lies, Lies::Nothing) {
                let lent = Lent { begin: NonNull::from(array).cast(), bytes: array.len() };
                *place = Place { call, lies: Lies::Lent(lent) };
            }
        }
        // From here on it is taken back whatever happens, and before `array` ends.
        let lending = Lending { shelf: self, place };
        let result = act();
        if is_kept(&result) {
            lending.keep();
        }
        result
    }

    /// What lies on the shelf, as long as it is looked at. Blocks while somebody lays out an array or takes one back; while it is looked at others
    /// are kept from that.
    pub fn look(&self) -> Look<'_> {
        Look(read(&self.places))
    }
}

/// An array that lies at a place, until dropped.
struct Lending<'a> {
    shelf: &'a Shelf,
    place: usize,
}

impl Lending<'_> {
    /// A copy stays in its place.
    fn keep(self) {
        {
            let mut places = write(&self.shelf.places);
            let place = &mut places[self.place];
            if let Lies::Lent(lent) = &place.lies {
                let copy = vectors::copied(lent.bytes(), "for what others are to read");
                place.lies = copy.map_or(Lies::NotKept, Lies::Kept);
            }
        }
        std::mem::forget(self);
    }
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        write(&self.shelf.places)[self.place].lies = Lies::Nothing;
    }
}

impl Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: initialised and borrowed until the place says something else, which needs the lock that whoever is here holds.
        unsafe { NonNull::slice_from_raw_parts(self.begin, self.bytes).as_ref() }
    }
}

/// A look at what lies on a [`Shelf`].
#[derive(Debug)]
pub struct Look<'a>(RwLockReadGuard<'a, Box<[Place]>>);

impl Look<'_> {
    /// What lies at `place` for `call`.
    ///
    /// # Errors
    /// `Closed` if nothing does; `System` if its owner had no memory to keep it.
    pub fn at(&self, place: usize, call: u64) -> Result<&[u8]> {
        match self.0.get(place).filter(|place| place.call == call).map(|place| &place.lies) {
            Some(Lies::Lent(lent)) => Ok(lent.bytes()),
            Some(Lies::Kept(copy)) => Ok(copy),
            Some(Lies::NotKept) => {
                Err(Error::new(ErrorKind::System, "its owner has left the call and had none to keep what it gives"))
            }
            Some(Lies::Nothing) | None => Err(Error::new(ErrorKind::Closed, "its owner has ended the call")),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_read_after_the_owner_has_its_array_back() {
        let shelf = Shelf::new(2);
        let mut array = vec![1, 2, 3];
        shelf.lend(1, 7, &array, || assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]), |()| true);
        array.fill(9);
        assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]);
        // It goes on with the call.
        shelf.lend(1, 7, &array, || assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]), |()| true);
        shelf.lend(1, 7, &array, || (), |()| false);
        assert_eq!(shelf.look().at(1, 7).unwrap_err().kind(), ErrorKind::Closed);
        // The next one.
        shelf.lend(1, 8, &array, || assert_eq!(shelf.look().at(1, 8).unwrap(), [9, 9, 9]), |()| true);
        for (place, call) in [(0, 8), (1, 7), (2, 8)] {
            assert_eq!(shelf.look().at(place, call).unwrap_err().kind(), ErrorKind::Closed);
        }
    }

    #[test]
    fn nothing_stays_after_a_panic() {
        let shelf = Shelf::new(1);
        let act = || shelf.lend(0, 1, &[1], || panic!("on purpose"), |()| true);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_err());
        assert_eq!(shelf.look().at(0, 1).unwrap_err().kind(), ErrorKind::Closed);
    }

    #[test]
    fn an_array_is_not_given_back_while_it_is_read() {
        let shelf = Shelf::new(1);
        let (looks, goes_on) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                looks.wait();
                let look = shelf.look();
                goes_on.wait();
                look.at(0, 1).unwrap().iter().map(|byte| u64::from(*byte)).sum::<u64>()
            });
            let mut array = vec![1; 1 << 16];
            shelf.lend(
                0,
                1,
                &array,
                || {
                    looks.wait();
                    goes_on.wait();
                },
                |()| false,
            );
            array.fill(2);
            assert_eq!(reader.join().unwrap(), 1 << 16);
        });
    }
}
