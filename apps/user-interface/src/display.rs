//! What a person sees while a program works: a progress bar on the terminal and, if asked for, the page.

use std::ops::Range;
use std::sync::Once;
use std::time::Duration;

use deck::NodeId;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};

use crate::command_line::remark;
use crate::terminal;
use crate::watch::Watch;

/// Characters of the bar itself, at most and at least, and what stands beside it.
const WIDTH: usize = 32;
const WIDTH_MIN: usize = 8;
const BESIDE: usize = 52;
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
    /// What each node has done, by its number; any unit.
    pub shares: Vec<u64>,
}

/// The progress bar (silent where nobody sees it) and the page.
pub struct Display {
    program: &'static str,
    bar: ProgressBar,
    /// Done once there is something to show.
    ticks: Once,
    watch: Option<Watch>,
}

impl Display {
    /// Starts with nothing to show. `beside` is what stands beside the bar, a template of `indicatif`:
    /// "{msg}, {elapsed}{to_go}", where `{msg}` is [`Progress::words`] and `{to_go}` an estimate, once there can be one.
    pub fn new(program: &'static str, beside: &str, watch: Option<Watch>) -> Display {
        let (target, columns) = match terminal::of_stderr() {
            Some(terminal) => {
                let columns = usize::from(terminal.width());
                (ProgressDrawTarget::term_like(Box::new(terminal)), columns)
            }
            None => (ProgressDrawTarget::stderr(), WIDTH + BESIDE),
        };
        Display::on(target, columns, program, beside, watch)
    }

    fn on(
        target: ProgressDrawTarget,
        columns: usize,
        program: &'static str,
        beside: &str,
        watch: Option<Watch>,
    ) -> Display {
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if !bar.is_hidden() {
            bar.set_style(style(program, beside, columns.saturating_sub(BESIDE).clamp(WIDTH_MIN, WIDTH)));
        }
        Display { program, bar, ticks: Once::new(), watch }
    }

    /// Whether there is a page.
    pub fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Puts rows of the picture, made by `node`, on the page: three bytes for each pixel.
    pub fn show(&self, rows: Range<u32>, node: NodeId, pixels: impl FnOnce() -> Vec<u8>) {
        if let Some(watch) = &self.watch {
            watch.show(rows, node, pixels());
        }
    }

    /// Tells how far the work is.
    pub fn advance(&self, progress: Progress) {
        // Each of these may draw the bar: without words it says nothing.
        self.bar.set_message(progress.words.clone());
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        self.ticks.call_once(|| {
            if !self.bar.is_hidden() {
                self.bar.enable_steady_tick(TICK);
            }
        });
        if let Some(watch) = &self.watch {
            watch.advance(progress);
        }
    }

    /// Says something that the user should know and that does not end the work.
    pub fn notice(&self, text: &str) {
        self.bar.suspend(|| remark(self.program, text));
    }

    /// Takes the bar away; the page, if there is one, is told that nothing more will come and stays with the caller.
    pub fn end(self) -> Option<Watch> {
        self.bar.finish_and_clear();
        self.watch.inspect(Watch::finish)
    }
}

fn style(program: &str, beside: &str, width: usize) -> ProgressStyle {
    let template = format!("{program} {{drawn}} {beside}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Whether there are colours is asked of standard error itself by `indicatif`, and that may be a pipe to a terminal.
    let in_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // Of work of which nothing is done nobody knows how long it takes.
    let to_go = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
        let _ = match state.pos() {
            0 => Ok(()),
            _ => write!(to, ", {:#} to go", HumanDuration(state.eta())),
        };
    };
    style.with_key("to_go", to_go).with_key("drawn", move |state: &ProgressState, to: &mut dyn std::fmt::Write| {
        let done = ((state.fraction() * width as f32) as usize).min(width);
        let (done, rest) = ("━".repeat(done), "─".repeat(width - done));
        // A bar that cannot be drawn is no reason to stop.
        let _ = match in_colour {
            true => write!(to, "\x1b[36m{done}\x1b[90m{rest}\x1b[0m"),
            false => write!(to, "{done}{rest}"),
        };
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::tests::shown;

    #[test]
    fn a_bar_has_words_from_the_first_and_an_estimate_once_something_is_done() {
        let bars = shown(|terminal, wait_for| {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal), 255);
            let display = Display::on(target, 80, "idle", "{msg}, {elapsed}{to_go}", None);
            for done in 0..2 {
                let words = format!("{done} of 4 slices");
                display.advance(Progress { done, total: 4, words, ..Progress::default() });
                wait_for(if done == 0 { "0 of 4 slices, " } else { " to go" });
            }
            display.end();
        });
        let bars: Vec<&String> = bars.iter().filter(|bar| bar.contains("idle")).collect();
        assert!(bars.iter().all(|bar| bar.contains(" of 4 slices, ")), "{bars:?}");
        assert!(
            bars.iter().any(|bar| bar.contains("0 of 4")) && bars.iter().any(|bar| bar.contains("1 of 4")),
            "{bars:?}"
        );
        // The words come first, and with the position the estimate.
        assert!(bars.iter().all(|bar| !bar.contains("0 of 4") || !bar.contains(" to go")), "{bars:?}");
        assert!(bars.last().unwrap().contains(" to go"), "{bars:?}");
    }
}
