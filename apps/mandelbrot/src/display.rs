//! What a person sees while the picture grows: a progress bar on the terminal and, if asked for, the page.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::master::Audience;
use crate::picture::Picture;
use crate::problem::Problem;
use crate::watch::Watch;

/// The progress bar (silent where stderr is no terminal) and the page.
pub struct Display {
    problem: Problem,
    bar: ProgressBar,
    watch: Option<Watch>,
}

impl Display {
    /// Starts with nothing to show.
    pub fn new(problem: Problem, watch: Option<Watch>) -> Display {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new(problem.slices().into()),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{bar:40.cyan/blue} {pos} of {len} slices, {elapsed}, {eta} to go");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Display { problem, bar, watch }
    }

    /// Takes the bar away; the page, if there is one, stays with the caller.
    pub fn end(self) -> Option<Watch> {
        self.bar.finish_and_clear();
        self.watch
    }
}

impl Audience for Display {
    fn slice(&mut self, slice: u32, picture: &Picture, finished: u32) {
        self.bar.set_position(finished.into());
        if let Some(watch) = &self.watch {
            watch.show(self.problem.rows(slice), picture.slice(slice));
        }
    }

    fn notice(&mut self, text: &str) {
        self.bar.suspend(|| eprintln!("mandelbrot: {text}"));
    }
}
