//! What the environment sets. `docs/environment.md` is the table of all variables.

use std::time::Duration;

use deck_segment::attach::Attach;
use deck_segment::{Fetching, HeapOptions, HugePages, Numa, NumaChoice, Rest};
use deck_sync::{Error, ErrorKind, Result};
use deck_transport::Thresholds;

/// How long a call without a timeout of its own may take by default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Sizes of a node, from the environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes this node may have posted and not yet retrieved. `DECK_BUDGET`.
    pub budget_bytes: u64,
    /// The node's segment. `DECK_HEAP`, `DECK_FETCH`, `DECK_HEAP_REST`, `DECK_HUGE_PAGES`, `DECK_NUMA`.
    pub heap: HeapOptions,
    /// Where protocols change. `DECK_BUFFERED_MAX`.
    pub thresholds: Thresholds,
    /// Are long arrays in programs' own memory read where they lie? `DECK_ATTACH`.
    pub attach: Attach,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] naming the variable and what it may be.
    pub fn from_environment() -> Result<Settings> {
        Settings::read(&variable)
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Settings> {
        let bytes = match variable("DECK_HEAP") {
            Some(text) => deck_segment::layout::DATA as u64 + parse_bytes("DECK_HEAP", &text)?,
            None => deck_segment::default_bytes() as u64,
        };
        let mut heap = HeapOptions::of(usize::try_from(bytes).unwrap_or(usize::MAX / 2));
        let fetching = [("auto", heap.fetching), ("readers", Fetching::ByReaders), ("writers", Fetching::ByWriters)];
        heap.fetching = choose(variable, "DECK_FETCH", &fetching)?;
        heap.rest = match variable("DECK_HEAP_REST") {
            Some(text) if text.trim() == "0" => Rest::new(0),
            Some(text) => Rest::new(usize::try_from(parse_bytes("DECK_HEAP_REST", &text)?).unwrap_or(usize::MAX)),
            None => Rest::with(heap.fetching),
        };
        let huge_pages = [("auto", HugePages::Auto), ("always", HugePages::Always), ("never", HugePages::Never)];
        heap.huge_pages = choose(variable, "DECK_HUGE_PAGES", &huge_pages)?;
        let numa = [("auto", NumaChoice::Auto), ("always", NumaChoice::Always), ("never", NumaChoice::Never)];
        heap.numa = Numa::of_this_machine(choose(variable, "DECK_NUMA", &numa)?);
        let budget_bytes = match variable("DECK_BUDGET") {
            Some(text) => parse_bytes("DECK_BUDGET", &text)?,
            None => (bytes - deck_segment::layout::DATA as u64) / 2,
        };
        let mut thresholds = Thresholds::default();
        if let Some(text) = variable("DECK_BUFFERED_MAX") {
            thresholds.buffered_max = usize::try_from(parse_bytes("DECK_BUFFERED_MAX", &text)?).unwrap_or(usize::MAX);
        }
        timeout_from(variable("DECK_TIMEOUT"))?;
        let attach = [("auto", Attach::Auto), ("always", Attach::Always), ("never", Attach::Never)];
        let attach = choose(variable, "DECK_ATTACH", &attach)?;
        Ok(Settings { budget_bytes, heap, thresholds, attach })
    }
}

/// A variable of the environment. What is no text is no sensible value of any of them, and is refused as what it looks
/// like.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// What the variable `name` names, the first one by default.
fn choose<T: Copy>(variable: &dyn Fn(&str) -> Option<String>, name: &str, choices: &[(&str, T)]) -> Result<T> {
    let Some(text) = variable(name) else { return Ok(choices[0].1) };
    let chosen = choices.iter().find(|(word, _)| *word == text.trim());
    chosen.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        Error::new(ErrorKind::Invalid, format!("{name}={} is no choice", text.trim()))
            .with_remedy(format!("set {name} to one of {}", words.join(", ")))
    })
}

/// A number of bytes, with K, M, G or T for powers of 1,024.
fn parse_bytes(name: &str, text: &str) -> Result<u64> {
    let text = text.trim();
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0 && *number <= 1 << (56 - shift));
    number.map(|number| number << shift).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("{name}={text} is no number of bytes"))
            .with_remedy(format!("set {name} to bytes, or to a number with K, M, G or T, such as {name}=256M"))
    })
}

fn timeout_from(text: Option<String>) -> Result<Duration> {
    let Some(text) = text else { return Ok(TIMEOUT) };
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        Error::new(ErrorKind::Invalid, format!("DECK_TIMEOUT={text} is no number of seconds above 0 and below 10^9"))
            .with_remedy("set DECK_TIMEOUT to seconds, such as DECK_TIMEOUT=30")
    })
}

/// How long calls without a timeout of their own may take: `DECK_TIMEOUT` in seconds, 10 by default.
pub fn default_timeout() -> Duration {
    timeout_from(variable("DECK_TIMEOUT")).unwrap_or(TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &'static str) -> Result<Settings> {
        Settings::read(&|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(read("DECK_BUDGET", "256M").unwrap().budget_bytes, 256 << 20);
        assert_eq!(read("DECK_HEAP_REST", "0").unwrap().heap.rest, Rest::new(0));
        assert_eq!(read("DECK_HEAP_REST", "6M").unwrap().heap.rest, Rest::new(6 << 20));
        assert_eq!(read("DECK_BUDGET", "12345").unwrap().budget_bytes, 12345);
        assert_eq!(read("DECK_BUFFERED_MAX", "2k").unwrap().thresholds.buffered_max, 2048);
    }

    #[test]
    fn choices_have_names() {
        let fetching = |value| read("DECK_FETCH", value).unwrap().heap.fetching;
        assert_eq!(["readers", " writers "].map(fetching), [Fetching::ByReaders, Fetching::ByWriters]);
        assert_eq!(fetching("auto"), Fetching::of_this_machine());
        assert_eq!(read("DECK_ATTACH", "never").unwrap().attach, Attach::Never);
        assert!(matches!(read("DECK_HUGE_PAGES", "always").unwrap().heap.huge_pages, HugePages::Always));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let nonsense = [
            ("DECK_BUDGET", ""),
            ("DECK_BUDGET", "many"),
            ("DECK_BUDGET", "18446744073709551615"),
            ("DECK_BUDGET", "65537T"),
            ("DECK_HEAP", "0"),
            ("DECK_HEAP", "-1M"),
            ("DECK_HEAP_REST", "a while"),
            ("DECK_ATTACH", "yes"),
            ("DECK_FETCH", "both"),
            ("DECK_HUGE_PAGES", "2M"),
            ("DECK_NUMA", "0-1"),
            ("DECK_TIMEOUT", "soon"),
            ("DECK_TIMEOUT", "0"),
            ("DECK_TIMEOUT", "1e9"),
            ("DECK_TIMEOUT", "1e300"),
            ("DECK_TIMEOUT", "NaN"),
        ];
        for (name, value) in nonsense {
            let error = read(name, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
