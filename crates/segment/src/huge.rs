//! Huge pages: memory that the processor's page tables know 2 MiB at a time.
//!
//! Whoever reads or writes large buffers needs hundreds of entries of its page tables for each; with huge pages it needs one
//! for 2 MiB. Whether shared memory may have them is the system's decision (`shmem_enabled`, see the kernel's page on
//! transparent huge pages), and most systems are delivered with *never*. The kernel also lets a program ask for them
//! piece by piece, whatever that file says; this happens only if the user wants it ([`HugePages::Always`]).

use std::fs;

/// Bytes of a huge page on x86-64, and on aarch64 with pages of 4 KiB.
pub const HUGE: usize = 2 << 20;

/// Whether huge pages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// No.
    Never,
    /// If the system offers them for shared memory.
    #[default]
    Auto,
    /// Also if it does not offer them by itself.
    Always,
}

/// How a segment gets its huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It gets none.
    None,
    /// The mapping is advised, and pages are huge from the first touch on.
    Advice,
    /// Pages are put together to huge ones after they were allocated.
    Collapse,
}

impl HugePages {
    pub(crate) fn way(self) -> Way {
        let offered = || {
            let folder = "/sys/kernel/mm/transparent_hugepage";
            let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
            is_offered(&read("shmem_enabled"), &read("hugepages-2048kB/shmem_enabled"))
        };
        match self {
            HugePages::Never => Way::None,
            _ if cfg!(miri) => Way::None,
            HugePages::Auto if !offered() => Way::None,
            HugePages::Always if !offered() => Way::Collapse,
            HugePages::Auto | HugePages::Always => Way::Advice,
        }
    }
}

/// Whether a mapping that asks for huge pages gets them: by the choice for all sizes, and since Linux 6.11 by that for 2 MiB,
/// which may leave it to the former.
fn is_offered(for_all_sizes: &str, for_this_size: &str) -> bool {
    let chosen = |text: &str| {
        let begin = text.find('[').map_or(0, |at| at + 1);
        let end = text.find(']').unwrap_or(begin);
        text.get(begin..end).unwrap_or("").to_owned()
    };
    let offers = |choice: String| matches!(choice.as_str(), "always" | "within_size" | "advise" | "force");
    match chosen(for_this_size).as_str() {
        "" | "inherit" => offers(chosen(for_all_sizes)),
        own => offers(own.to_owned()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_choice_for_the_size_goes_before_the_choice_for_all() {
        let all = |choice: &str| {
            let words = ["always", "within_size", "advise", "never", "deny", "force"];
            words.map(|word| if word == choice { format!("[{word}]") } else { word.to_owned() }).join(" ")
        };
        let inherit = "always [inherit] within_size advise never\n";
        for (for_all, own, offered) in [
            ("never", inherit, false),
            ("deny", inherit, false),
            ("advise", inherit, true),
            ("within_size", "", true),
            ("always", "always inherit within_size advise [never]", false),
            ("never", "always inherit within_size [advise] never", true),
            ("", "", false),
        ] {
            assert_eq!(is_offered(&all(for_all), own), offered, "{for_all:?}, {own:?}");
        }
    }
}
