//! Memory for what the user has asked for: where there is none, that is told, and the program does not abort.
//!
//! Whatever grows with an option is made here, or grows by [`grow`]. Only what the system promises and has not
//! (`vm.overcommit_memory`) nobody can tell before it is used.

use deck::{Error, ErrorKind, Result};

/// What to do where a picture or slab is too large.
const SMALLER: &str = "choose a smaller --size";

/// `count` default values for `what`, whose number goes by `--size`.
///
/// # Errors
/// [`ErrorKind::NoMemory`].
pub fn defaults<T: Clone + Default>(count: usize, what: &str) -> Result<Vec<T>> {
    let mut values = room(count, what, SMALLER)?;
    values.resize(count, T::default());
    Ok(values)
}

/// An empty list with room for `count` values for `what`. Where there is none the user may do what `remedy` says:
/// "use fewer --tasks".
///
/// # Errors
/// [`ErrorKind::NoMemory`].
pub fn room<T>(count: usize, what: &str, remedy: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| lacking::<T>(count, what, remedy))?;
    Ok(values)
}

/// Makes room for `more` values in a list for `what`, and often for more than these: for lists of which nobody knows
/// how long they become.
///
/// # Errors
/// As [`room`].
pub fn grow<T>(values: &mut Vec<T>, more: usize, what: &str, remedy: &str) -> Result<()> {
    values.try_reserve(more).map_err(|_| lacking::<T>(values.len().saturating_add(more), what, remedy))
}

/// That there is no memory for a number of bytes for `what`, whose number goes by `--size`.
pub fn lacking_for_size(bytes: usize, what: &str) -> Error {
    lacking::<u8>(bytes, what, SMALLER)
}

#[cold]
fn lacking<T>(count: usize, what: &str, remedy: &str) -> Error {
    let mebibytes = count.saturating_mul(size_of::<T>()).div_ceil(1 << 20);
    Error::new(ErrorKind::NoMemory, format!("{mebibytes} MiB for {what}"))
        .with_remedy(format!("{remedy}, or raise the limit of this process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_nowhere_is_told() {
        assert_eq!(defaults::<u32>(3, "the picture").unwrap(), [0, 0, 0]);
        let error = defaults::<u64>(usize::MAX / 8, "the picture").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoMemory);
        assert!(error.to_string().contains("MiB for the picture"), "{error}");
        assert!(error.remedy().contains("--size"), "{error}");
    }

    #[test]
    fn what_cannot_grow_is_told_and_stays() {
        let mut values: Vec<u64> = room(2, "tasks", "use fewer --tasks").unwrap();
        values.extend([7, 8]);
        grow(&mut values, 1, "tasks", "use fewer --tasks").unwrap();
        let error = grow(&mut values, usize::MAX / 8, "tasks", "use fewer --tasks").unwrap_err();
        assert_eq!((error.kind(), values.len()), (ErrorKind::NoMemory, 2));
        assert!(error.remedy().starts_with("use fewer --tasks, or "), "{error}");
        assert!(room::<u64>(usize::MAX / 8, "tasks", "use fewer --tasks").is_err());
    }
}
