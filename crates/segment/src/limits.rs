//! How much memory there really is: the machine's, the control group's, the process's.
//!
//! Asked before every growth of a segment, so that too little memory is an error that names what was wanted and what to
//! do, never SIGBUS at the first touch or the out-of-memory killer an hour later.

use std::path::Path;

use deck_sync::{Error, ErrorKind, Limit, Result, control_groups, told};

/// Memory that is left alone: the last few megabytes belong to everybody else.
const RESERVE: u64 = 16 << 20;

/// One limit and what is left under it.
struct Room {
    available: u64,
    whose: String,
    remedy: &'static str,
}

/// A number of bytes in words, in the largest unit of which it has at least one. A fraction is given as far as it can
/// decide whether something fits: one digit, rounded down.
pub fn size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let (whole, tenth) = (bytes >> shift, (((bytes >> (shift - 10)) & 1023) * 10) >> 10);
        match (whole, tenth) {
            (0, _) => {}
            (1..100, 1..) => return format!("{whole}.{tenth} {unit}"),
            _ => return format!("{whole} {unit}"),
        }
    }
    format!("{bytes} bytes")
}

/// Fails if `bytes` more are not to be had.
pub fn check_memory(bytes: usize) -> Result<()> {
    match tightest() {
        Some(room) if (bytes as u64).saturating_add(RESERVE) > room.available => Err(refused(bytes, None)),
        _ => Ok(()),
    }
}

/// The error for `bytes` that were refused, by us or by the kernel with `errno`.
pub fn refused(bytes: usize, errno: Option<i32>) -> Error {
    let (text, remedy) = match tightest() {
        Some(room) => (format!("{} are left of {}", size(room.available), room.whose), room.remedy),
        None => ("how much is left is unknown".to_string(), "free memory on this machine"),
    };
    let text = format!("wanted {} of shared memory, {text}", size(bytes as u64));
    match errno {
        Some(errno) => Error::new(ErrorKind::NoMemory, text).with_os(errno),
        None => Error::new(ErrorKind::NoMemory, format!("{text}, and the last {} are not touched", size(RESERVE))),
    }
    .with_remedy(remedy)
}

/// Fails where a file size limit would turn the sizing of a segment into a signal.
pub fn check_file_size(bytes: usize) -> Result<()> {
    match Limit::FileSize.now() {
        Some(limit) if (bytes as u64) > limit => Err(Error::new(
            ErrorKind::NoMemory,
            format!("wanted a segment of {}, but files are limited to {}", size(bytes as u64), size(limit)),
        )
        .with_remedy("raise the limit of file size (ulimit -f unlimited)")),
        _ => Ok(()),
    }
}

fn tightest() -> Option<Room> {
    let machine = Room {
        available: of_machine("MemAvailable")?,
        whose: "this machine's memory".into(),
        remedy: "free memory on this machine, or use fewer or smaller messages at a time",
    };
    std::iter::once(machine).chain(groups()).min_by_key(|room| room.available)
}

/// What the machine says of its memory under `name`, in bytes.
fn of_machine(name: &str) -> Option<u64> {
    let text = told("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The control groups that this process is in, each with what is left under its limit.
fn groups() -> impl Iterator<Item = Room> {
    control_groups::folders("memory").filter_map(|folder| {
        Some(Room {
            available: left_in_group(&folder)?,
            whose: format!("the memory limit of control group {}", folder.display()),
            remedy: "raise the memory limit of the container or job (docker run --memory, Slurm --mem), or use fewer or smaller \
                     messages at a time",
        })
    })
}

fn left_in_group(folder: &Path) -> Option<u64> {
    let number = |file: &str| told(folder.join(file))?.trim().parse::<u64>().ok();
    // In version 2, then in version 1.
    let limit = number("memory.max").or_else(|| number("memory.limit_in_bytes"))?;
    let usage = number("memory.current").or_else(|| number("memory.usage_in_bytes"))?;
    // Clean page cache counts as usage but is given up on demand.
    let cache = told(folder.join("memory.stat")).and_then(|stat| cache_of(&stat));
    Some(limit.saturating_sub(usage.saturating_sub(cache.unwrap_or(0))))
}

/// Bytes of page cache that have not been used lately, of a group and of those inside of it, as usage counts.
fn cache_of(stat: &str) -> Option<u64> {
    let number = |name| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    // Version 1 tells of the group alone under the name under which version 2 tells of all.
    number("total_inactive_file").or_else(|| number("inactive_file"))
}

/// Physical memory of the machine in bytes, for default sizes.
pub fn machine_total() -> u64 {
    of_machine("MemTotal").unwrap_or(1 << 30)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn page_cache_of_groups_inside_counts_as_their_usage_does() {
        let version_1 = "inactive_file 4096\nactive_file 7\ntotal_cache 9\ntotal_inactive_file 399687680\n";
        assert_eq!(cache_of(version_1), Some(399_687_680));
        assert_eq!(cache_of("anon 1\nfile 3\ninactive_file 8192\nactive_file 2\n"), Some(8192));
        assert_eq!(cache_of("anon 1\nworkingset_inactive_file_x 3\ninactive_file many\n"), None);
    }

    #[test]
    fn what_is_left_in_a_group_is_its_limit_less_what_is_no_page_cache() {
        let folder = std::env::temp_dir().join(format!("deck-limits-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let left = |files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
            let left = left_in_group(&folder);
            files.iter().for_each(|(name, _)| std::fs::remove_file(folder.join(name)).unwrap());
            left
        };
        let (most, used) = (("memory.max", "1000\n"), ("memory.current", "700\n"));
        assert_eq!(left(&[most, used]), Some(300));
        assert_eq!(left(&[most, used, ("memory.stat", "anon 1\ninactive_file 200\n")]), Some(500));
        assert_eq!(left(&[("memory.max", "max\n"), used]), None);
        assert_eq!(left(&[("memory.limit_in_bytes", "1000\n"), ("memory.usage_in_bytes", "1200\n")]), Some(0));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn sizes_are_told_in_a_unit_that_shows_them() {
        let told = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (8192, "8 KiB"),
            (1536, "1.5 KiB"),
            (262_144, "256 KiB"),
            (1_000_000, "976 KiB"),
            ((3 << 20) + (1 << 19), "3.5 MiB"),
            ((1 << 30) - 1, "1023 MiB"),
            (24 << 30, "24 GiB"),
        ];
        for (bytes, words) in told {
            assert_eq!(size(bytes), words);
        }
    }
}
