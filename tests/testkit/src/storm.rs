//! How long tests go on that kill one node after the other.

const VARIABLE: &str = "DECK_STORM";

/// How many nodes are killed: so many as `DECK_STORM` says, or else `ordinarily`.
///
/// # Panics
/// If the variable is no number.
pub fn rounds(ordinarily: usize) -> usize {
    let Ok(text) = std::env::var(VARIABLE) else { return ordinarily };
    text.parse().unwrap_or_else(|_| panic!("{VARIABLE}={text} is no number of kills"))
}
