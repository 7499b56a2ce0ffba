//! What a person sees while a program works: a progress bar on the terminal and, if asked for, the page.

use std::fmt::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use deck::NodeId;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use crate::command_line::remark;
use crate::terminal;
use crate::watch::{Canvas, Watch};

/// Characters of the bar itself, at most, and at least if there is to be one.
const WIDTH: usize = 32;
const WIDTH_MIN: usize = 6;
/// How often the clock beside the bar goes on when nothing else happens.
const TICK: Duration = Duration::from_millis(100);

/// How far the work is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Parts of the work that are done.
    pub done: u64,
    /// All parts of the work.
    pub total: u64,
    /// The same in words: "12 of 64 slices".
    pub words: String,
    /// What each node has done, by its number; in the unit of the page's subject.
    pub shares: Vec<u64>,
    /// Numbers of nodes that were lost.
    pub lost: Vec<u32>,
}

/// The progress bar (silent where nobody sees it) and the page.
pub struct Display {
    program: &'static str,
    bar: ProgressBar,
    /// Done once there is something to show.
    ticks: Once,
    /// What the bar says.
    words: Arc<Mutex<String>>,
    canvas: Option<Canvas>,
}

impl Display {
    /// Starts with nothing to show.
    pub fn new(program: &'static str, watch: Option<&Watch>) -> Display {
        let (target, columns) = match terminal::of_stderr() {
            Some(terminal) => {
                let columns = terminal.width();
                (ProgressDrawTarget::term_like(Box::new(terminal)), columns)
            }
            None => (ProgressDrawTarget::stderr(), terminal::columns_of_stderr()),
        };
        Display::on(target, columns.into(), program, watch)
    }

    fn on(target: ProgressDrawTarget, columns: usize, program: &'static str, watch: Option<&Watch>) -> Display {
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let words = Arc::default();
        if !bar.is_hidden() {
            bar.set_style(style(program, columns, &words));
        }
        Display { program, bar, ticks: Once::new(), words, canvas: watch.map(Watch::canvas) }
    }

    /// Whether there is a page.
    pub fn is_watched(&self) -> bool {
        self.canvas.is_some()
    }

    /// Puts rows of the picture, made by `node`, on the page: three bytes for each pixel.
    pub fn show(&self, rows: Range<u32>, node: NodeId, pixels: impl FnOnce() -> Vec<u8>) {
        if let Some(canvas) = &self.canvas {
            canvas.show(rows, node, pixels());
        }
    }

    /// Tells how far the work is.
    pub fn advance(&self, progress: Progress) {
        // The bar is drawn once, with its words.
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&progress.words);
        self.bar.update(|state| {
            state.set_len(progress.total);
            state.set_pos(progress.done);
        });
        self.ticks.call_once(|| {
            if !self.bar.is_hidden() {
                self.bar.enable_steady_tick(TICK);
            }
        });
        if let Some(canvas) = &self.canvas {
            canvas.advance(progress);
        }
    }

    /// Says something that the user should know and that does not end the work.
    pub fn notice(&self, text: &str) {
        self.bar.suspend(|| remark(self.program, text));
        if let Some(canvas) = &self.canvas {
            canvas.notice(text);
        }
    }

    /// What the page was told last that the user should know is so no more, and said.
    pub fn withdraw_notice(&self) {
        if let Some(canvas) = &self.canvas {
            canvas.notice("");
        }
    }

    /// Takes the bar away; the clock of the page stands.
    pub fn end(self) {
        self.bar.finish_and_clear();
        if let Some(canvas) = &self.canvas {
            canvas.stop();
        }
    }
}

/// The bar, what [`Progress::words`] say, how long it took and, once there can be one, an estimate of how long it will:
/// all in one line of the terminal.
fn style(program: &'static str, columns: usize, words: &Arc<Mutex<String>>) -> ProgressStyle {
    // Whether there are colours is asked of standard error itself by `indicatif`, and that may be a pipe to a terminal.
    let in_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let words = words.clone();
    ProgressStyle::with_template("{line}").unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
        "line",
        move |state: &ProgressState, to: &mut dyn Write| {
            let words = words.lock().unwrap_or_else(PoisonError::into_inner);
            let elapsed = HumanDuration(state.elapsed());
            // Of work of which nothing is done nobody knows how long it takes.
            let to_go = match state.pos() {
                0 => String::new(),
                _ => format!(", {:#} to go", HumanDuration(state.eta())),
            };
            let text = format!("{words}, {elapsed:#}{to_go}");
            let width = columns.saturating_sub(program.len() + text.chars().count() + 2).min(WIDTH);
            let line = match width {
                ..WIDTH_MIN => format!("{program} {text}"),
                _ => format!("{program} {} {text}", drawn(state.fraction(), width, in_colour)),
            };
            // A line that cannot be drawn is no reason to stop.
            let _ = to.write_str(&terminal::cut(&line, columns));
        },
    )
}

fn drawn(fraction: f32, width: usize, in_colour: bool) -> String {
    let done = ((fraction * width as f32) as usize).min(width);
    let (done, rest) = ("━".repeat(done), "─".repeat(width - done));
    if in_colour { format!("\x1b[36m{done}\x1b[90m{rest}\x1b[0m") } else { done + &rest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::tests::shown;

    /// The bars that are drawn on a terminal of so many columns, without what erases and colours.
    fn bars(columns: usize, total: u64, words: fn(u64) -> String) -> Vec<String> {
        let bars = shown(|terminal, wait_for| {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal), 255);
            let display = Display::on(target, columns, "idle", None);
            for done in 0..2 {
                display.advance(Progress { done, total, words: words(done), ..Progress::default() });
                wait_for(&words(done)[..columns.min(12) - 5]);
            }
            display.end();
        });
        let plain = |bar: String| {
            let mut parts = bar.split('\x1b');
            let first = parts.next().unwrap_or_default().to_owned();
            parts.fold(first, |line, part| line + part.split_once(|end: char| end.is_ascii_alphabetic()).unwrap().1)
        };
        bars.into_iter().map(plain).filter(|bar| bar.contains("idle")).collect()
    }

    #[test]
    fn a_bar_has_its_words_from_the_first_and_an_estimate_once_something_is_done() {
        let bars = bars(80, 2, |done| format!("{done} of 2 slices"));
        let (none, one): (Vec<&String>, Vec<&String>) = bars.iter().partition(|bar| bar.contains(" 0 of 2 slices, "));
        assert!(!none.is_empty() && !one.is_empty(), "{bars:?}");
        assert!(none.iter().all(|bar| !bar.contains('━') && !bar.contains(" to go")), "{none:?}");
        let half = |bar: &&String| bar.contains(&format!("{0}{1} 1 of 2 slices, ", "━".repeat(16), "─".repeat(16)));
        assert!(one.iter().all(half) && one.iter().all(|bar| bar.contains(" to go")), "{one:?}");
    }

    #[test]
    fn a_bar_is_as_long_as_there_is_room_for_it() {
        for (columns, least, most) in [(200, 32, 32), (70, 19, 29), (50, 0, 9), (30, 0, 0)] {
            for bar in bars(columns, 4, |done| format!("sweep {done}, largest change 0.00163")) {
                let drawn = bar.chars().filter(|letter| "━─".contains(*letter)).count();
                assert!((least..=most).contains(&drawn), "{columns}: {bar:?}");
                assert!(bar.trim_end().chars().count() <= columns, "{columns}: {bar:?}");
            }
        }
    }
}
