//! What a command was asked for, on standard output, and what is said beside it, on standard error.

use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, Write};

use deck::Error;
use serde::Serialize;

/// Prints a result, all of it. A reader that has seen enough and closed the pipe is no failure.
pub fn print(text: &str) -> deck::Result<()> {
    let mut stdout = std::io::stdout().lock();
    printed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

/// Prints a result as one line of JSON, without having all of it in memory; fails as [`print`].
pub fn print_json(result: &impl Serialize) -> deck::Result<()> {
    let mut stdout = BufWriter::new(std::io::stdout().lock());
    let written = serde_json::to_writer(&mut stdout, result).map_err(std::io::Error::from);
    printed(written.and_then(|()| stdout.write_all(b"\n")).and_then(|()| stdout.flush()))
}

/// Prints help or the version, in colours on a terminal; fails as [`print`].
pub fn answer(answer: &clap::Error) -> deck::Result<()> {
    printed(answer.print().and_then(|()| std::io::stdout().flush()))
}

/// Says something beside the result, and who says it, in one line whatever it names; as [`say`].
pub fn remark(who: &str, what: impl Display) {
    say(&format!("{}\n", within_a_line(&format!("{who}: {what}"))));
}

/// Says something beside the result, in one piece, as others may say something at the same time. Whoever read standard
/// error may be gone: that keeps nobody from what is to be done.
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// What is called so by others, within a line: what would end the line or command the terminal is a blank.
pub fn within_a_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// `1 thing`, `2 things`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn printed(ended: std::io::Result<()>) -> deck::Result<()> {
    match ended {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("the result cannot be printed", &error).with_remedy("print elsewhere"))
        }
        _ => Ok(()),
    }
}
