//! Huge pages: memory that the processor's page tables know 2 MiB at a time.
//!
//! Whoever reads or writes large buffers needs hundreds of entries of its page tables for each; with huge pages it
//! needs one for 2 MiB, and the kernel clears it in one go. Whether shared memory gets them by itself is the system's
//! decision (`shmem_enabled`, see the kernel's page on transparent huge pages), and most systems are delivered with
//! *never*. The kernel also lets a program ask for them piece by piece, whatever that file says. That is done unless
//! the system lets no memory at all have them (`enabled`), and even then if the user wants it ([`HugePages::Always`]).

use std::sync::LazyLock;

use deck_sync::atomic::{AtomicU64, Ordering};
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

/// Whether making huge pages is worth its time at present. Where memory is in small pieces the kernel takes
/// milliseconds for each, and where the machine has more to do than it has processors up to a second.
#[derive(Default)]
pub(crate) struct Pace {
    /// Nanoseconds that huge pages of late have taken more than they are worth.
    lost_ns: AtomicU64,
    /// When, by the monotonic clock, they are tried again.
    again_ns: AtomicU64,
}

/// That of this machine, as far as this process has seen.
pub(crate) static PACE: LazyLock<Pace> = LazyLock::new(Pace::default);

impl Pace {
    /// What one may take: it is quicker to use than its small pages for as long as it is there.
    const WORTH_NS: u64 = 10_000_000;
    /// More than a thread is kept from running for, now and then.
    const MAY_BE_LOST_NS: u64 = 20_000_000;
    /// Memory is put together in the background, and work comes and goes.
    const REST_NS: u64 = 10_000_000_000;

    pub(crate) fn is_worth_it(&self, now_ns: u64) -> bool {
        now_ns >= self.again_ns.load(Ordering::Relaxed)
    }

    /// So many huge pages were made between these times. Of several threads' notes at the same moment one may be
    /// missing.
    pub(crate) fn note(&self, pages: usize, begun_ns: u64, done_ns: u64) {
        let lost_ns = self.lost_ns.load(Ordering::Relaxed);
        let lost_ns = (lost_ns + done_ns.saturating_sub(begun_ns)).saturating_sub(Pace::WORTH_NS * pages as u64);
        let rests = lost_ns > Pace::MAY_BE_LOST_NS;
        if rests {
            self.again_ns.store(done_ns + Pace::REST_NS, Ordering::Relaxed);
        }
        self.lost_ns.store(if rests { 0 } else { lost_ns }, Ordering::Relaxed);
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

    /// How many huge pages are made until they are given up, if each takes so long; of a thousand.
    fn made_until_rest(took_ns: u64) -> usize {
        let pace = Pace::default();
        let mut now_ns = 1;
        let made = (0..1000).take_while(|_| {
            let is_worth_it = pace.is_worth_it(now_ns);
            pace.note(1, now_ns, now_ns + took_ns);
            now_ns += took_ns;
            is_worth_it
        });
        made.count()
    }

    #[test]
    fn huge_pages_that_take_too_long_are_given_up_for_a_while() {
        let made = [100_000, Pace::WORTH_NS, 15_000_000, 50_000_000, 7_000_000_000].map(made_until_rest);
        assert_eq!(made, [1000, 1000, 5, 1, 1]);
    }

    #[test]
    fn a_page_that_took_long_once_is_no_reason_and_after_a_rest_all_is_as_before() {
        let pace = Pace::default();
        let mut now_ns = 1;
        let mut make = |took_ns: u64| {
            pace.note(2, now_ns, now_ns + took_ns);
            now_ns += took_ns;
            (now_ns, pace.is_worth_it(now_ns))
        };
        let long_ns = 2 * Pace::WORTH_NS + Pace::MAY_BE_LOST_NS;
        assert!(make(long_ns).1);
        assert!((0..2).all(|_| make(100_000).1));
        assert!(make(long_ns).1, "what was lost is made up for");
        let (done_ns, is_worth_it) = make(long_ns);
        assert!(!is_worth_it);
        assert!(!pace.is_worth_it(done_ns + Pace::REST_NS - 1) && pace.is_worth_it(done_ns + Pace::REST_NS));
    }

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
