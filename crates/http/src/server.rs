//! Connections: a thread for each, not too many, none for ever.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Answer;
use crate::head::{self, BODY_BYTES_MAX, HEAD_BYTES_MAX, Head};

/// Connections at once, at most. A browser keeps six to a host; more wait until one of these has ended.
const CONNECTIONS_MAX: usize = 64;
/// How long a visitor may take to say what he wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one may take to read his answer.
const READING: Duration = Duration::from_secs(60);
/// How long one that has its answer is listened to.
const FAREWELL: Duration = Duration::from_secs(1);
/// When accepting fails, usually for want of descriptors: how long until it is tried again, if no connection ends
/// before.
const RETRY: Duration = Duration::from_millis(100);

/// A server that listens at 127.0.0.1.
pub struct Server {
    listener: TcpListener,
    port: u16,
    open: Mutex<usize>,
    closed: Condvar,
}

/// A request that waits for its answer.
pub struct Request {
    head: Head,
    stream: TcpStream,
}

/// One of the connections that there may be at once.
struct Place<'a>(&'a Server);

impl Server {
    /// Listens at a port of 127.0.0.1; port 0 takes a free one.
    ///
    /// # Errors
    /// When the port is taken or may not be used.
    pub fn bind(port: u16) -> io::Result<Server> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let port = listener.local_addr()?.port();
        Ok(Server { listener, port, open: Mutex::new(0), closed: Condvar::new() })
    }

    /// The port that it listens at.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Gives every request that was understood to `answer`, in a thread of its own, until the process ends. Blocks.
    pub fn run(&self, answer: impl Fn(Request) + Sync) -> ! {
        let answer = &answer;
        thread::scope(|scope| {
            loop {
                let place = self.place();
                let Ok((stream, _)) = self.listener.accept() else {
                    drop(place);
                    let open = self.open();
                    drop(self.closed.wait_timeout(open, RETRY));
                    continue;
                };
                let serve = move || {
                    let _place = place;
                    if let Some(request) = Request::read(stream) {
                        answer(request);
                    }
                };
                // Without a thread the connection is closed; the visitor may try again.
                let _ = thread::Builder::new().name("deck-http".into()).spawn_scoped(scope, serve);
            }
        })
    }

    fn open(&self) -> MutexGuard<'_, usize> {
        // A number is whole after any panic.
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn place(&self) -> Place<'_> {
        let mut open = self.open();
        while *open >= CONNECTIONS_MAX {
            open = self.closed.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *open += 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.open() -= 1;
        self.0.closed.notify_one();
    }
}

impl Request {
    /// The word in front: `GET`.
    pub fn method(&self) -> &str {
        &self.head.method
    }

    /// What is asked for: `/strips?from=3`.
    pub fn target(&self) -> &str {
        &self.head.target
    }

    /// Answers, and closes the connection.
    ///
    /// # Errors
    /// When the visitor has gone away or takes nothing.
    pub fn respond(self, answer: &Answer) -> io::Result<()> {
        send(self.stream, answer, self.head.method == "HEAD")
    }

    /// Reads a request; one that is not understood has its answer then.
    fn read(stream: TcpStream) -> Option<Request> {
        let refusal = match read_head(&stream).ok()? {
            Ok(bytes) => match head::understand(&bytes) {
                Ok(head) => return Some(Request { head, stream }),
                Err(refusal) => refusal,
            },
            Err(refusal) => refusal,
        };
        // A visitor who went away is his own affair.
        let _ = send(stream, &refusal, false);
        None
    }
}

/// The bytes of a head, or how it is refused. An error where nobody waits for an answer.
fn read_head(stream: &TcpStream) -> io::Result<Result<Vec<u8>, Answer<'static>>> {
    let (mut bytes, mut piece, end) = (Vec::new(), [0; 1024], Instant::now() + PATIENCE);
    loop {
        match read_before(stream, &mut piece, end) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            // Browsers connect in advance, and say nothing until they have something to ask for.
            Err(error) if bytes.is_empty() => return Err(error),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                return Ok(Err(Answer::text(408, "The request did not come in time.\n")));
            }
            Err(error) => return Err(error),
        }
        if let Some(end) = head::end(&bytes) {
            bytes.truncate(end);
            return Ok(Ok(bytes));
        }
        if bytes.len() > HEAD_BYTES_MAX {
            return Ok(Err(Answer::text(431, "The head of the request is too long.\n")));
        }
    }
}

fn read_before(mut stream: &TcpStream, piece: &mut [u8], end: Instant) -> io::Result<usize> {
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(piece) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            read => return read,
        }
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A connection that is written to until some time: who reads a byte now and then does not keep his place for ever.
struct Until<'a>(&'a TcpStream, Instant);

impl Write for Until<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(left(self.1)?))?;
        self.0.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Sends an answer. What the visitor still sends is taken for a moment and thrown away: closing a connection with
/// unread bytes in it makes the system throw away the answer at the other end instead.
fn send(stream: TcpStream, answer: &Answer, head_only: bool) -> io::Result<()> {
    answer.write(head_only, &mut Until(&stream, Instant::now() + READING))?;
    stream.shutdown(Shutdown::Write)?;
    let (mut piece, mut taken, end) = ([0; 1024], 0, Instant::now() + FAREWELL);
    while taken <= BODY_BYTES_MAX {
        match read_before(&stream, &mut piece, end) {
            Ok(read @ 1..) => taken += read as u64,
            // He has closed his end, or has had his time.
            _ => break,
        }
    }
    Ok(())
}
