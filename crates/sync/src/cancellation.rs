//! A cancellation ends a wait. One that comes when the thread has what it waited for, or does what has to be done in
//! any case, is for its next wait.

use crate::{Canceller, ErrorKind, thread};

/// The wait that was cancelled has turned out to be over: the next one ends with that.
#[cold]
pub fn postpone() {
    Canceller::of_this_thread().cancel();
}

/// True, once, if this thread was cancelled: for long work that a call does in place of a wait. Never blocks.
pub fn has_come() -> bool {
    thread::take_cancellation()
}

/// Tries until it is not a cancellation that ends the attempt; `kind` is that of an error.
pub fn postponed_while<T, E>(attempt: impl Fn() -> Result<T, E>, kind: impl Fn(&E) -> ErrorKind) -> Result<T, E> {
    let mut was_cancelled = false;
    let done = loop {
        match attempt() {
            Err(refused) if kind(&refused) == ErrorKind::Cancelled => was_cancelled = true,
            done => break done,
        }
    };
    if was_cancelled {
        postpone();
    }
    done
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::{Alone, Deadline, Error, Event, Interrupted, Waiting};

    struct Never;

    impl Waiting for Never {
        type Output = ();
        fn look(&mut self) -> Option<()> {
            None
        }
    }

    #[test]
    fn a_cancellation_of_what_is_done_in_any_case_is_for_the_next_wait() {
        let tries = Cell::new(0);
        let lock = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(Error::new(ErrorKind::Cancelled, "locking")) } else { Ok(tries.get()) }
        };
        assert_eq!(postponed_while(lock, Error::kind).unwrap(), 3);
        let wait = |within| crate::wait(&mut Never, &[&Event::new()], &Alone::shared(), Deadline::after(within));
        assert_eq!(wait(Duration::from_secs(20)), Err(Interrupted::Cancelled));
        assert_eq!(wait(Duration::from_millis(1)), Err(Interrupted::Deadline), "once");
        postpone();
        assert_eq!([has_come(), has_come()], [true, false]);
    }
}
