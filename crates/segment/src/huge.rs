//! Huge pages: memory that the processor's page tables know 2 MiB at a time.
//!
//! Whoever reads or writes large buffers needs hundreds of entries of its page tables for each; with huge pages it
//! needs one for 2 MiB, and the kernel clears it in one go. Whether shared memory gets them by itself is the system's
//! decision (`shmem_enabled`, see the kernel's page on transparent huge pages), and most systems are delivered with
//! *never*. The kernel also lets a program ask for them piece by piece, whatever that file says. That is done unless
//! the system lets no memory at all have them (`enabled`), and even then if the user wants it ([`HugePages::Always`]).

use deck_sync::told;

/// Bytes of a huge page on x86-64, and on aarch64 with pages of 4 KiB.
pub const HUGE: usize = 2 << 20;

/// Whether huge pages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// No.
    Never,
    /// If the system lets any memory have them.
    #[default]
    Auto,
    /// Also if it does not.
    Always,
}

/// How a segment gets its huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It gets none.
    None,
    /// The mapping is advised, and pages are huge from the first touch on.
    Advice,
    /// The first small page of each piece is allocated, and a huge one put in its place.
    Collapse,
}

impl HugePages {
    pub(crate) fn way(self) -> Way {
        let read = |file: &str| told(format!("/sys/kernel/mm/transparent_hugepage/{file}")).unwrap_or_default();
        match self {
            HugePages::Never => Way::None,
            _ if cfg!(miri) => Way::None,
            _ if is_offered(&read("shmem_enabled"), &read("hugepages-2048kB/shmem_enabled")) => Way::Advice,
            HugePages::Auto if !is_allowed(&read("enabled"), &read("hugepages-2048kB/enabled")) => Way::None,
            HugePages::Auto | HugePages::Always => Way::Collapse,
        }
    }
}

/// What is chosen in a file of the kernel, or nothing.
fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(choice, _)| choice)
}

/// The choice for pages of 2 MiB, which Linux has since 6.8 and may leave to the one for all sizes.
fn chosen_of<'a>(for_all_sizes: &'a str, for_this_size: &'a str) -> &'a str {
    match chosen(for_this_size) {
        "" | "inherit" => chosen(for_all_sizes),
        own => own,
    }
}

/// Whether any memory may consist of huge pages.
fn is_allowed(for_all_sizes: &str, for_this_size: &str) -> bool {
    matches!(chosen_of(for_all_sizes, for_this_size), "always" | "madvise")
}

/// Whether a mapping of shared memory that asks for huge pages gets them.
fn is_offered(for_all_sizes: &str, for_this_size: &str) -> bool {
    matches!(chosen_of(for_all_sizes, for_this_size), "always" | "within_size" | "advise" | "force")
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

    #[test]
    fn memory_may_have_huge_pages_unless_the_system_says_never_or_nothing() {
        for (for_all, own, allowed) in [
            ("always [madvise] never\n", "always [inherit] madvise never\n", true),
            ("[always] madvise never\n", "", true),
            ("always madvise [never]\n", "always [inherit] madvise never\n", false),
            ("always [madvise] never\n", "always inherit madvise [never]\n", false),
            ("always madvise [never]\n", "[always] inherit madvise never\n", true),
            ("", "", false),
        ] {
            assert_eq!(is_allowed(for_all, own), allowed, "{for_all:?}, {own:?}");
        }
    }
}
