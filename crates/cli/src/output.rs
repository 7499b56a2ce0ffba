//! What the nodes print, passed through line by line.
//!
//! Two threads, one for standard output and one for standard error, each read the pipes of all nodes and write whole
//! lines. Whoever reads us slowly slows the nodes down, as a pipe would: at most
//! [`LINE_LIMIT`](crate::lines::LINE_LIMIT) bytes per pipe wait here. If our reader has gone, the pipes are closed, and
//! a node that goes on printing gets SIGPIPE, as in a pipeline. If output cannot be written for another reason, such as
//! a full disk, that is told, and the nodes go on.
//!
//! A line is never mixed with another node's. Two cases need care: parts of an over-long line are passed as they come,
//! and until it ends its node *has the floor*, for as long as it does not pause; and where a line lacks its end after
//! all (the last one of a node, or a node that lost the floor) the next node's begins on a line of its own.
//!
//! On a terminal the nodes may also draw progress bars; see [`crate::lines`]. Behind tags there are lines only.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::lines::{Cut, LineBuffer, OURSELVES, Origin, Sink, tagged};
use crate::poll::wait;

/// How long a node may pause in the middle of an over-long line before others may print again.
const FLOOR_PAUSE: Duration = Duration::from_millis(100);

/// What to put in front of each line of a process.
pub type Tag = Arc<dyn Fn(u32) -> String + Send + Sync>;

/// How lines are shown.
#[derive(Clone)]
pub enum Show {
    /// Bytes as they come, also parts of a line: for a single node, whose lines nobody can mix.
    Raw,
    /// Whole lines.
    Lines,
    /// Whole lines, each behind a tag; every part of an over-long line is made a line.
    Tagged(Tag),
}

/// A pipe to be read.
pub struct Source {
    /// Its reading end.
    pub pipe: OwnedFd,
    /// Who prints into it.
    pub origin: Origin,
}

/// The threads that pass output through.
pub struct Output {
    threads: Vec<JoinHandle<io::Result<()>>>,
    finish: Option<OwnedFd>,
    done: OwnedFd,
    closed: Closed,
}

/// Whether pipes of the nodes were closed because nobody takes what they print: it is set before they are.
#[derive(Clone, Default)]
pub struct Closed(Arc<OnceLock<()>>);

impl Closed {
    /// Whether a node may have got SIGPIPE because of that.
    pub fn is_so(&self) -> bool {
        self.0.get().is_some()
    }
}

impl Output {
    /// Starts passing `stdout` and `stderr` through to ours.
    pub fn start(stdout: Vec<Source>, stderr: Vec<Source>, show: Show) -> io::Result<Output> {
        let (finishing, finish) = pipe_with(PipeFlags::CLOEXEC)?;
        let (done, running) = pipe_with(PipeFlags::CLOEXEC)?;
        let one = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let two = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let is_same_file = {
            use std::os::unix::fs::MetadataExt;
            let (one, two) = (one.metadata()?, two.metadata()?);
            (one.dev(), one.ino()) == (two.dev(), two.ino())
        };
        let sink = |file: File| {
            let has_bars = file.is_terminal() && !matches!(show, Show::Tagged(_));
            Arc::new(Mutex::new(Sink::new(Outlet(file), has_bars)))
        };
        let one = sink(one);
        // Lines for one terminal or file must not mix either.
        let two = if is_same_file { one.clone() } else { sink(two) };
        let (errors, closed) = (two.clone(), Closed::default());

        let mut threads = Vec::new();
        for (name, sources, sink) in [("stdout", stdout, one), ("stderr", stderr, two)] {
            let (finishing, running, show) = (finishing.try_clone()?, running.try_clone()?, show.clone());
            let readers = sources.into_iter().map(Reader::new).collect();
            let has_bars = entered(&sink).has_bars();
            let errors = errors.clone();
            let mut passer = Passer { readers, sink, show, has_bars, floor: None, errors, lost: None };
            let closed = closed.clone();
            threads.push(std::thread::Builder::new().name(name.into()).spawn(move || {
                let _until_the_end = running;
                let passed = passer.run(&finishing).inspect_err(|_| _ = closed.0.set(()));
                passed.and(passer.lost.map_or(Ok(()), Err))
            })?);
        }
        Ok(Output { threads, finish: Some(finish), done, closed })
    }

    /// Tells from now on whether it takes what is printed.
    pub fn closed(&self) -> Closed {
        self.closed.clone()
    }

    /// No node is left: passes on what was printed, and waits for nobody who still holds a pipe open.
    pub fn finish(&mut self) {
        self.finish = None;
    }

    /// Waits until everything was passed on, and returns the first error of writing, which was told.
    ///
    /// To wait for other things too, poll this value: it hangs up when this call would no longer wait.
    pub fn join(self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            let failed = |_| Err(io::Error::other("the thread that passes output through failed"));
            result = result.and(thread.join().unwrap_or_else(failed));
        }
        result
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

/// Standard output or standard error, without another buffer. Whoever shares the file may have made it non-blocking.
struct Outlet(File);

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&mut [PollFd::new(&self.0, PollFlags::OUT)], None)?;
                }
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Reader {
    source: Source,
    buffer: LineBuffer,
}

impl Reader {
    fn new(source: Source) -> Reader {
        Reader { source, buffer: LineBuffer::new() }
    }
}

/// One of the two threads.
struct Passer<W> {
    readers: Vec<Reader>,
    sink: Arc<Mutex<Sink<W>>>,
    show: Show,
    has_bars: bool,
    /// Who is in the middle of an over-long line.
    floor: Option<Origin>,
    /// Where it is told that something was lost.
    errors: Arc<Mutex<Sink<W>>>,
    /// Why something was lost for the first time.
    lost: Option<io::Error>,
}

impl<W: Write> Passer<W> {
    fn run(&mut self, finishing: &OwnedFd) -> io::Result<()> {
        let mut is_finishing = false;
        while !self.readers.is_empty() {
            // A pipe that hung up would be reported whatever is asked of it, so the others' are left out altogether.
            let may_speak = |reader: &&Reader| self.floor.is_none_or(|holder| holder == reader.source.origin);
            let speakers: Vec<&Reader> = self.readers.iter().filter(may_speak).collect();
            let pipes = speakers.iter().map(|reader| PollFd::new(&reader.source.pipe, PollFlags::IN));
            let mut events: Vec<PollFd> = pipes.collect();
            let patience = match (is_finishing, self.floor) {
                (true, _) => Some(Duration::ZERO),
                (false, None) => None,
                (false, Some(_)) => Some(FLOOR_PAUSE),
            };
            if !is_finishing {
                events.push(PollFd::new(finishing, PollFlags::IN));
            }
            wait(&mut events, patience)?;
            let is_ready = |event: &PollFd| !event.revents().is_empty();
            let mut told = speakers.iter().zip(&events).filter(|(reader, _)| reader.source.origin == OURSELVES);
            if told.any(|(_, event)| is_ready(event)) {
                // What a process said before its end that is told here may have come since its pipe was looked at.
                wait(&mut events, Some(Duration::ZERO))?;
            }
            let ready = speakers.iter().zip(&events).filter(|(_, event)| is_ready(event));
            let ready: Vec<Origin> = ready.map(|(reader, _)| reader.source.origin).collect();
            is_finishing |= events.get(speakers.len()).is_some_and(is_ready);

            if ready.is_empty() && self.floor.take().is_none() && is_finishing {
                break;
            }
            for origin in ready {
                if self.floor.is_none_or(|holder| holder == origin) {
                    self.pass(origin)?;
                }
            }
        }
        std::mem::take(&mut self.readers).into_iter().try_for_each(|reader| self.end(&reader))
    }

    /// Reads once from a pipe that is ready, and writes what may be written.
    fn pass(&mut self, origin: Origin) -> io::Result<()> {
        let Some(index) = self.readers.iter().position(|reader| reader.source.origin == origin) else { return Ok(()) };
        let Reader { source, buffer } = &mut self.readers[index];
        // A pipe cannot fail otherwise, and one that did would have nothing more to give.
        let count = rustix::io::retry_on_intr(|| rustix::io::read(&source.pipe, &mut *buffer.room())).unwrap_or(0);
        buffer.read(count);
        if count == 0 {
            let reader = self.readers.remove(index);
            self.floor = None;
            return self.end(&reader);
        }
        let cut = match self.show {
            Show::Raw => Cut::Lines(buffer.content().len()),
            _ => buffer.cut(self.has_bars),
        };
        let (length, floor) = match cut {
            Cut::Nothing => return Ok(()),
            Cut::Lines(length) => (length, None),
            Cut::Part(length) => (length, Some(origin)),
        };
        let written = self.write(origin, &self.readers[index].buffer.content()[..length]);
        self.readers[index].buffer.passed(length);
        self.floor = floor;
        self.go_on(written)
    }

    fn write(&self, origin: Origin, piece: &[u8]) -> io::Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        match &self.show {
            Show::Tagged(tag) if origin != OURSELVES => {
                let lines = tagged(&tag(origin.process), piece);
                self.sink().write(origin, &lines)
            }
            _ => self.sink().write(origin, piece),
        }
    }

    fn end(&mut self, reader: &Reader) -> io::Result<()> {
        let origin = reader.source.origin;
        let written = self.write(origin, reader.buffer.content()).and_then(|()| self.sink().ended(origin));
        self.go_on(written)
    }

    /// What cannot be written is no reason to end the nodes, unless nobody wants to read it. It is told at once, since
    /// they may go on for hours.
    fn go_on(&mut self, written: io::Result<()>) -> io::Result<()> {
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                if self.lost.is_none() {
                    tell(&error, &self.errors);
                }
                self.lost.get_or_insert(error);
                Ok(())
            }
            written => written,
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink<W>> {
        entered(&self.sink)
    }
}

fn entered<W>(sink: &Mutex<Sink<W>>) -> MutexGuard<'_, Sink<W>> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// If this cannot be written either, the exit status still tells.
fn tell<W: Write>(error: &io::Error, errors: &Mutex<Sink<W>>) {
    let line = format!("deck run: cannot pass output through: {error}; free space, or print elsewhere\n");
    let _ = entered(errors).write(OURSELVES, line.as_bytes());
}
