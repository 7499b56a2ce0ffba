//! The terminal of `deck run`, as its nodes see it: through a pipe.
//!
//! What a node prints passes through `deck run`, line by line. If that ends at a terminal, `deck run` says how wide it
//! is in `DECK_TERMINAL`, and takes what ends with a carriage return for a bar: it is shown at once, below everybody's
//! lines, and overwritten by the next one. A [`Terminal`] speaks that way for `indicatif`, with one line and nothing
//! above it.

use std::fs::File;
use std::io::{self, Write};
use std::mem;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Mutex, PoisonError};

use indicatif::TermLike;

/// Where `deck run` tells the width.
const WIDTH: &str = "DECK_TERMINAL";
/// Of a terminal that does not tell.
const COLUMNS: u16 = 80;
/// Begins a bar: whatever was there goes.
const ERASE: &str = "\x1b[2K";

/// The terminal behind the pipe.
#[derive(Debug)]
pub struct Terminal<W> {
    columns: u16,
    to: Mutex<W>,
    /// The bar that is being drawn.
    bar: Mutex<String>,
}

/// The terminal that shows what this node writes to standard error, if `deck run` says so.
pub fn of_stderr() -> Option<Terminal<io::Stderr>> {
    let columns = std::env::var(WIDTH).ok()?.parse().ok()?;
    // A script between `deck run` and this program may have led the output elsewhere.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let is_pipe = stderr.metadata().ok()?.file_type().is_fifo();
    is_pipe.then(|| Terminal::new(columns, io::stderr()))
}

/// Columns of the terminal that standard error is itself; about what most have, if that cannot be told.
pub fn columns_of_stderr() -> u16 {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
    // A line that reaches the last column would make some terminals begin another one.
    if columns == 0 { COLUMNS } else { columns }.saturating_sub(1).max(1)
}

impl<W: Write> Terminal<W> {
    fn new(columns: u16, to: W) -> Terminal<W> {
        Terminal { columns, to: Mutex::new(to), bar: Mutex::default() }
    }
}

impl<W: Write + Send + std::fmt::Debug> TermLike for Terminal<W> {
    fn width(&self) -> u16 {
        // A bar that reaches the last column would make some terminals begin another line.
        self.columns.saturating_sub(1).max(1)
    }

    // One line, and the cursor at its beginning whenever it is drawn: there is nowhere to go.

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str(ERASE)
    }

    /// Hands the bar over in one piece, so that nobody's line gets between its parts.
    fn flush(&self) -> io::Result<()> {
        let bar = mem::take(&mut *self.bar.lock().unwrap_or_else(PoisonError::into_inner));
        if bar.is_empty() {
            return Ok(());
        }
        let bar = format!("{}\r", cut(bar.trim_end_matches(' '), self.width().into()));
        self.to.lock().unwrap_or_else(PoisonError::into_inner).write_all(bar.as_bytes())
    }
}

/// As much of a line as a terminal of so many columns shows in one: the next bar overwrites one line only. Whatever
/// sets colours stays.
pub fn cut(line: &str, columns: usize) -> String {
    let (mut shown, mut is_command) = (0, false);
    let fits = |letter: &char| match (*letter, is_command) {
        ('\x1b', _) => {
            is_command = true;
            true
        }
        (letter, true) => {
            is_command = !letter.is_ascii_alphabetic();
            true
        }
        _ => {
            shown += 1;
            shown <= columns
        }
    };
    line.chars().filter(fits).collect()
}

#[cfg(test)]
pub mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

    use super::*;

    #[derive(Clone, Debug, Default)]
    pub struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What bars are drawn on a terminal of 120 columns.
    pub fn shown(draw: impl FnOnce(Terminal<Written>, &dyn Fn(&str))) -> Vec<String> {
        let written = Written::default();
        let text = || String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        draw(Terminal::new(120, written.clone()), &|wanted| {
            let start = Instant::now();
            while !text().contains(wanted) {
                assert!(start.elapsed() < Duration::from_secs(10), "{wanted:?} is not in {:?}", text());
                std::thread::yield_now();
            }
        });
        text().split_inclusive('\r').map(str::to_owned).collect()
    }

    #[test]
    fn a_bar_is_one_line_that_ends_with_a_carriage_return_and_leaves_nothing_behind() {
        let written = Written::default();
        let target = ProgressDrawTarget::term_like(Box::new(Terminal::new(40, written.clone())));
        let bar = ProgressBar::with_draw_target(Some(4), target);
        bar.set_style(ProgressStyle::with_template("{pos} of {len}").unwrap());
        bar.tick();
        bar.finish_and_clear();
        let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(written, "0 of 4\r\x1b[2K\r");
    }

    #[test]
    fn a_bar_that_is_too_long_is_cut_and_not_its_colours() {
        assert_eq!(cut("\x1b[2K\x1b[36m━━━\x1b[90m──\x1b[0m half", 7), "\x1b[2K\x1b[36m━━━\x1b[90m──\x1b[0m h");
        let written = Written::default();
        let target = ProgressDrawTarget::term_like(Box::new(Terminal::new(11, written.clone())));
        let bar = ProgressBar::with_draw_target(Some(4), target);
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap());
        bar.set_message("sweep 22063, largest change 0.001");
        bar.tick();
        bar.tick();
        bar.finish_and_clear();
        let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = written.split_inclusive('\r').map(|line| line.trim_start_matches(ERASE)).collect();
        assert!(lines.iter().all(|line| ["sweep 2206\r", "\r"].contains(line)), "{written:?}");
    }
}
