//! Where threads of a process lay out arrays for one another to read, with no copy.
//!
//! An array lies there while the thread that owns it is in a call. When the thread leaves the call for a while, a copy
//! takes its place, so that the owner has its array back; and it is not given back while anybody reads. So whoever
//! reads does so for a short time only, and waits for nothing meanwhile. The array of a call that goes on without its
//! thread belongs to the shelf as well as to the call, and stays where it is.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use crate::locks::{read, write};
use crate::{Error, ErrorKind, Result, fork};

/// Places for arrays, each of which one thread at a time uses.
///
/// ```
/// use deck_sync::{Shelf, Stays};
///
/// let shelf = Shelf::new(1);
/// let array = vec![7; 100];
/// std::thread::scope(|scope| {
///     let reader = || shelf.look().at(0, 1).map(|bytes| bytes[99]);
///     let read = shelf.lend(0, 1, &array, || (scope.spawn(reader).join(), Stays::Nothing));
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

enum Lies {
    Nothing,
    /// Somebody's array, who is in the call.
    Lent(Lent),
    Owned(Shared),
    /// There was no memory for a copy.
    NotKept,
}

/// An array that belongs to all who have it.
pub type Shared = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What stays at a place when the owner of an array takes that back.
pub enum Stays {
    /// The call has ended: nobody is to read it any more.
    Nothing,
    /// A copy, until the next time.
    Copy(Shared),
    /// Others may want it until the owner is back in the call, and there was no memory for a copy.
    NotKept,
}

impl fmt::Debug for Lies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lies::Nothing => "Nothing",
            Lies::Lent(_) => "Lent",
            Lies::Owned(_) => "Owned",
            Lies::NotKept => "NotKept",
        })
    }
}

#[derive(Debug)]
struct Lent {
    begin: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it stands for a `&[u8]`, which any thread may read: `Shelf::lend` keeps the array borrowed until the place
// says something else.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Shelf {
    /// A shelf with so many places, at which nothing lies.
    pub fn new(places: usize) -> Shelf {
        let empty = || Place { call: 0, lies: Lies::Nothing };
        Shelf { places: RwLock::new((0..places).map(|_| empty()).collect()) }
    }

    /// Acts while `array` lies at `place` for `call`, and leaves there what is to stay then. A copy is what others read
    /// also while the same call is gone on with. Blocks while others read. An empty array is not laid out.
    ///
    /// # Panics
    /// If there is no such place, or `act` panics: then nothing stays.
    pub fn lend<R>(&self, place: usize, call: u64, array: &[u8], act: impl FnOnce() -> (R, Stays)) -> R {
        // Nobody reads it, and others may read for long.
        if array.is_empty() {
            return act().0;
        }
        {
            let mut places = write(&self.places);
            let place = &mut places[place];
            if place.call != call || !matches!(place.lies, Lies::Owned(_)) {
                let lent = Lent { begin: NonNull::from(array).cast(), bytes: array.len() };
                *place = Place { call, lies: Lies::Lent(lent) };
            }
        }
        // From here on it is taken back whatever happens, and before `array` ends.
        let mut lending = Lending { shelf: self, place, leaves: Lies::Nothing };
        let (result, stays) = act();
        lending.leaves = match stays {
            Stays::Nothing => Lies::Nothing,
            Stays::Copy(copy) => Lies::Owned(copy),
            Stays::NotKept => Lies::NotKept,
        };
        result
    }

    /// `array` lies at `place` for `call` until that has ended. Blocks while others read.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use deck_sync::Shelf;
    ///
    /// let shelf = Arc::new(Shelf::new(1));
    /// let given = shelf.give(0, 1, Arc::new(vec![7; 100]));
    /// assert_eq!(shelf.look().at(0, 1).unwrap()[99], 7);
    /// drop(given);
    /// assert!(shelf.look().at(0, 1).is_err());
    /// ```
    ///
    /// # Panics
    /// If there is no such place.
    pub fn give(self: &Arc<Self>, place: usize, call: u64, array: Shared) -> Given {
        write(&self.places)[place] = Place { call, lies: Lies::Owned(array) };
        Given { shelf: self.clone(), place, call }
    }

    /// What lies on the shelf, as long as it is looked at. Blocks while somebody lays out an array or takes one back;
    /// while it is looked at others are kept from that.
    pub fn look(&self) -> Look<'_> {
        Look(read(&self.places))
    }
}

/// An array that lies at a place, until dropped.
struct Lending<'a> {
    shelf: &'a Shelf,
    place: usize,
    /// What lies there from then on.
    leaves: Lies,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        let leaves = std::mem::replace(&mut self.leaves, Lies::Nothing);
        // What lay there ends when the shelf is free again.
        let _lay = std::mem::replace(&mut write(&self.shelf.places)[self.place].lies, leaves);
    }
}

/// An array that was given to a shelf, for a call that has not ended. It is taken back when this is dropped; that
/// blocks while others read.
#[derive(Debug)]
#[must_use = "nobody finds the array any more when this is dropped"]
pub struct Given {
    shelf: Arc<Shelf>,
    place: usize,
    call: u64,
}

impl Drop for Given {
    fn drop(&mut self) {
        // In a forked child, whoever has the lock may not be there.
        if fork::is_child() {
            return;
        }
        let place = &mut write(&self.shelf.places)[self.place];
        if place.call == self.call {
            place.lies = Lies::Nothing;
        }
    }
}

impl Lent {
    fn bytes(&self) -> &[u8] {
        // SAFETY: initialised and borrowed until the place says something else, which needs the lock that whoever is
        // here holds.
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
            Some(Lies::Owned(array)) => Ok((**array).as_ref()),
            Some(Lies::NotKept) => Err(Error::new(
                ErrorKind::System,
                "its owner has left the call and had no memory to keep what it gives",
            )),
            Some(Lies::Nothing) | None => Err(Error::new(ErrorKind::Closed, "its owner has ended the call")),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn copy(array: &[u8]) -> Stays {
        Stays::Copy(Arc::new(array.to_vec()))
    }

    #[test]
    fn a_copy_is_read_after_the_owner_has_its_array_back() {
        let shelf = Shelf::new(2);
        let mut array = vec![1, 2, 3];
        shelf.lend(1, 7, &array, || (assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]), copy(&array)));
        array.fill(9);
        assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]);
        // It goes on with the call.
        shelf.lend(1, 7, &array, || (assert_eq!(shelf.look().at(1, 7).unwrap(), [1, 2, 3]), copy(&[1, 2, 3])));
        shelf.lend(1, 7, &array, || ((), Stays::Nothing));
        assert_eq!(shelf.look().at(1, 7).unwrap_err().kind(), ErrorKind::Closed);
        // The next one.
        shelf.lend(1, 8, &array, || (assert_eq!(shelf.look().at(1, 8).unwrap(), [9, 9, 9]), copy(&array)));
        for (place, call) in [(0, 8), (1, 7), (2, 8)] {
            assert_eq!(shelf.look().at(place, call).unwrap_err().kind(), ErrorKind::Closed);
        }
    }

    #[test]
    fn what_could_not_be_kept_lies_there_again_when_its_owner_is_back() {
        let (shelf, array) = (Shelf::new(1), [1, 2, 3]);
        shelf.lend(0, 1, &array, || ((), Stays::NotKept));
        let error = shelf.look().at(0, 1).unwrap_err();
        assert!(error.kind() == ErrorKind::System && error.to_string().contains("no memory"), "{error}");
        shelf.lend(0, 1, &array, || (assert_eq!(shelf.look().at(0, 1).unwrap(), [1, 2, 3]), Stays::Nothing));
    }

    #[test]
    fn what_is_given_lies_there_itself_until_it_is_taken_back() {
        let shelf = Arc::new(Shelf::new(1));
        let array: Arc<Vec<u8>> = Arc::new(vec![1, 2, 3]);
        let lies_at = |call| shelf.look().at(0, call).map(<[u8]>::as_ptr).ok();
        let given = shelf.give(0, 1, array.clone());
        assert_eq!(lies_at(1), Some(array.as_ptr()));
        drop(given);
        assert_eq!((lies_at(1), Arc::strong_count(&array)), (None, 1));

        // One that is taken back late leaves the next one alone.
        let late = shelf.give(0, 3, array.clone());
        let next = shelf.give(0, 4, array.clone());
        drop(late);
        assert_eq!(lies_at(4), Some(array.as_ptr()));
        drop(next);
    }

    #[test]
    fn nothing_stays_after_a_panic() {
        let shelf = Shelf::new(1);
        let act = || shelf.lend(0, 1, &[1], || -> ((), Stays) { panic!("on purpose") });
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
            shelf.lend(0, 1, &array, || {
                looks.wait();
                goes_on.wait();
                ((), Stays::Nothing)
            });
            array.fill(2);
            assert_eq!(reader.join().unwrap(), 1 << 16);
        });
    }
}
