//! The fence that the kernel may not run on every core is for sleepers, who look again: `deck_sync::barrier::heavy`.
//!
//! What rests on a fence for good is among threads of one process, and takes `heavy_within`.

use crate::Finding;
use crate::source::word_offsets;
use crate::tree::File;

/// Where it is made, and where those are that look again after a while: see `docs/design/004-hot-and-cold-rings.md`.
const LOOK_AGAIN: [&str; 3] = ["crates/sync/src/barrier.rs", "crates/sync/src/wait.rs", "crates/mudeck/src/inbox.rs"];

/// Uses of that fence by others. Models and tests may use it: theirs is always run.
pub fn that_may_miss_a_core(files: &[File]) -> Vec<Finding> {
    let others = files.iter().filter(|file| !file.path.contains("/tests/") && !LOOK_AGAIN.contains(&&*file.path));
    others
        .flat_map(|file| {
            let is_used = |code: &str| word_offsets(code, "heavy").any(|offset| code[..offset].ends_with("barrier::"));
            let lines = file.lines.iter().enumerate().filter(move |(_, line)| is_used(&line.code));
            lines.map(|(number, _)| {
                let advice = "this fence may miss a core: take barrier::heavy_within, or look again after a while";
                Finding::at_line(&file.path, number, advice)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(path: &str, text: &str) -> Vec<String> {
        that_may_miss_a_core(&[File::new(path, text)]).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn it_is_found_where_nobody_looks_again() {
        assert_eq!(places("crates/a/src/b.rs", "\ndeck_sync::barrier::heavy();"), ["crates/a/src/b.rs:2"]);
        assert_eq!(places("crates/sync/src/wait.rs", "barrier::heavy();"), [""; 0]);
        assert_eq!(places("crates/a/tests/loom_b.rs", "barrier::heavy();"), [""; 0]);
    }

    #[test]
    fn the_fence_of_one_process_and_other_words_are_no_findings() {
        assert_eq!(places("crates/a/src/b.rs", "barrier::heavy_within(); // barrier::heavy()\nheavy();"), [""; 0]);
    }
}
