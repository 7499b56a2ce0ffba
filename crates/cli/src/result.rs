//! What a command was asked for, on standard output.

use std::io::{ErrorKind, Write};

use deck::Error;

/// Prints a result, all of it. A reader that has seen enough and closed the pipe is no failure.
pub fn print(text: &str) -> deck::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::io("the result cannot be printed", &error).with_remedy("print elsewhere"))
        }
        _ => Ok(()),
    }
}
