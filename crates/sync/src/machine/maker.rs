//! Whose processor this is: how its cores take lines from one another differs more by maker than by age, and nothing
//! else tells.

use std::sync::OnceLock;

/// Who made the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// AMD, or Hygon, whose cores are of the same kind.
    Amd,
    /// Intel, whoever makes other kinds of processors, and whoever is not told.
    Other,
}

impl Maker {
    /// Of this machine's processors. They are asked once.
    pub fn here() -> Maker {
        static HERE: OnceLock<Maker> = OnceLock::new();
        *HERE.get_or_init(|| name().map_or(Maker::Other, |name| Maker::named(&name)))
    }

    fn named(name: &[u8; 12]) -> Maker {
        if matches!(name, b"AuthenticAMD" | b"HygonGenuine") { Maker::Amd } else { Maker::Other }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unused_unsafe, reason = "it is a safe function since later than this workspace's oldest compiler")]
fn name() -> Option<[u8; 12]> {
    // SAFETY: every processor of this kind has the instruction, and leaf 0.
    let leaf = unsafe { std::arch::x86_64::__cpuid(0) };
    let mut name = [0; 12];
    let words = [leaf.ebx, leaf.edx, leaf.ecx];
    name.as_chunks_mut().0.iter_mut().zip(words).for_each(|(letters, word)| *letters = word.to_le_bytes());
    Some(name)
}

#[cfg(any(miri, not(target_arch = "x86_64")))]
fn name() -> Option<[u8; 12]> {
    None
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn makers_are_known_by_their_names() {
        let makers = [b"AuthenticAMD", b"HygonGenuine", b"GenuineIntel"].map(Maker::named);
        assert_eq!(makers, [Maker::Amd, Maker::Amd, Maker::Other]);
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_system_tells_the_same() {
        let told = std::fs::read_to_string("/proc/cpuinfo").expect("the system tells of its processors");
        let name = name().expect("every processor of this kind tells");
        assert!(told.contains(std::str::from_utf8(&name).expect("twelve letters")), "{name:?}");
    }
}
