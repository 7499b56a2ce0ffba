//! What a command was asked for, on standard output.

use std::io::{ErrorKind, Write};

/// Prints a result, all of it. A reader that has seen enough and closed the pipe is no failure.
pub fn print(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("the result cannot be printed: {error}; print elsewhere"))
        }
        _ => Ok(()),
    }
}
