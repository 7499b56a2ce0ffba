//! Memory for what the user has asked for: where there is none, that is told, and the program does not abort.

use deck::{Error, ErrorKind, Result};

/// `count` default values for `what`, whose number goes by `--size`.
///
/// # Errors
/// [`ErrorKind::NoMemory`].
pub fn defaults<T: Clone + Default>(count: usize, what: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).map_err(|_| {
        let mebibytes = count.saturating_mul(size_of::<T>()).div_ceil(1 << 20);
        Error::new(ErrorKind::NoMemory, format!("{mebibytes} MiB for {what}"))
            .with_remedy("choose a smaller --size, or raise the limit of this process")
    })?;
    values.resize(count, T::default());
    Ok(values)
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
    }
}
