//! What a person sees while the picture grows: a progress bar on the terminal and, if asked for, the page.

use std::fmt::Write;
use std::time::Duration;

use deck::NodeId;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::master::Audience;
use crate::picture::Picture;
use crate::problem::Problem;
use crate::terminal;
use crate::watch::Watch;

/// Characters of the bar itself.
const WIDTH: usize = 32;
/// How often the clock beside the bar goes on when nothing else happens.
const TICK: Duration = Duration::from_millis(100);

/// The progress bar (silent where nobody sees it) and the page.
pub struct Display {
    problem: Problem,
    bar: ProgressBar,
    watch: Option<Watch>,
}

impl Display {
    /// Starts with nothing to show.
    pub fn new(problem: Problem, watch: Option<Watch>) -> Display {
        let target = match terminal::of_stderr() {
            Some(terminal) => ProgressDrawTarget::term_like(Box::new(terminal)),
            None => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(problem.slices().into()), target);
        if !bar.is_hidden() {
            bar.set_style(style());
            bar.enable_steady_tick(TICK);
        }
        Display { problem, bar, watch }
    }

    /// Takes the bar away; the page, if there is one, stays with the caller.
    pub fn end(self) -> Option<Watch> {
        self.bar.finish_and_clear();
        self.watch
    }
}

impl Audience for Display {
    fn slice(&mut self, slice: u32, node: NodeId, picture: &Picture, finished: u32) {
        self.bar.set_position(finished.into());
        if let Some(watch) = &self.watch {
            watch.show(self.problem.rows(slice), node, picture.slice(slice));
        }
    }

    fn notice(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("mandelbrot: {text}"));
    }
}

fn style() -> ProgressStyle {
    let template = "mandelbrot {drawn} {pos} of {len} slices, {elapsed}, {eta} to go";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Whether there are colours is asked of standard error itself by `indicatif`, and that may be a pipe to a terminal.
    let in_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    style.with_key("drawn", move |state: &ProgressState, to: &mut dyn Write| {
        let done = (state.fraction() * WIDTH as f32) as usize;
        let (done, rest) = ("━".repeat(done), "─".repeat(WIDTH.saturating_sub(done)));
        // A bar that cannot be drawn is no reason to stop.
        let _ = match in_colour {
            true => write!(to, "\x1b[36m{done}\x1b[90m{rest}\x1b[0m"),
            false => write!(to, "{done}{rest}"),
        };
    })
}
