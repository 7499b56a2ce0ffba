//! How large this machine's caches are.

use std::sync::OnceLock;

use deck_sync::told;

/// The second-level cache where the system does not tell, in bytes.
const SECOND_LEVEL: usize = 1 << 20;

/// Bytes of the second-level cache of a core. The system is asked once.
pub(crate) fn second_level() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| read_second_level().unwrap_or(SECOND_LEVEL))
}

/// As the system tells it, of the first processor.
fn read_second_level() -> Option<usize> {
    if cfg!(miri) {
        return None;
    }
    let read = |index: u32, what: &str| told(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"));
    let index = (0..8).find(|index| read(*index, "level").is_some_and(|level| level.trim() == "2"))?;
    parse_size(&read(index, "size")?)
}

/// `1024K`, as the kernel writes sizes of caches.
fn parse_size(text: &str) -> Option<usize> {
    let kib: usize = text.trim().strip_suffix('K')?.parse().ok()?;
    (kib > 0).then_some(kib << 10)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches_are_read_or_refused() {
        assert_eq!(parse_size("1024K\n"), Some(1 << 20));
        for nonsense in ["", "K", "0K", "1M", "-1K", "many K"] {
            assert_eq!(parse_size(nonsense), None, "{nonsense}");
        }
    }
}
