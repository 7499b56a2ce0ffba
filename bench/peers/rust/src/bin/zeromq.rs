//! ZeroMQ over its own local transport, with a socket for each thread: streams, fan-in, threads. IO_THREADS says how
//! many threads of its own each process has.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bench_peers::processes::{self, Failure};
use bench_peers::{Options, clock, each, stream_time, tell, tell_threads, window};
use zmq::{Context, PAIR, PULL, PUSH, Socket, SocketType};

const GO_ON: [u8; 8] = [0; 8];
const END: [u8; 8] = [1; 8];
/// Messages between two processes that nobody has taken.
const DEPTH: i32 = 10_000;

struct Side<'a> {
    role: usize,
    job: &'a str,
    options: &'a Options,
    context: Context,
}

impl Side<'_> {
    /// The end of a way that has a name. Role 0 binds it, others connect, whoever is first.
    fn socket(&self, kind: SocketType, name: &str) -> zmq::Result<Socket> {
        let socket = self.context.socket(kind)?;
        socket.set_sndhwm(DEPTH)?;
        socket.set_rcvhwm(DEPTH)?;
        // An abstract address: no file is left.
        let address = format!("ipc://@{}-{name}", self.job);
        if self.role == 0 {
            socket.bind(&address)?
        } else {
            socket.connect(&address)?
        }
        Ok(socket)
    }

    fn send_stream(&self, to: &Socket) -> zmq::Result<()> {
        let start = Instant::now();
        while start.elapsed() < stream_time(self.time()) {
            (0..clock::MESSAGES).try_for_each(|_| to.send(&GO_ON[..], 0))?;
        }
        to.send(&END[..], 0)
    }

    fn receive_stream(&self, from: &Socket, senders: usize, begin: Option<Instant>) -> zmq::Result<f64> {
        let (mut count, mut ended, mut content) = (1, 0, [0; 8]);
        from.recv_into(&mut content, 0)?;
        let mut window = window(begin.unwrap_or_else(Instant::now), self.time());
        while ended < senders {
            from.recv_into(&mut content, 0)?;
            if content == END {
                ended += 1;
                window.close(count, Instant::now());
                continue;
            }
            if count % clock::MESSAGES == 0 {
                window.look(count, Instant::now());
            }
            count += 1;
        }
        Ok(window.rate())
    }

    /// Streams and ping-pongs share the time of `threads`.
    fn time(&self) -> Duration {
        if self.options.measure == "threads" { self.options.time / 2 } else { self.options.time }
    }

    fn stream(&self, at: usize, senders: usize, what: &str) -> Result<(), Failure> {
        if self.role == 0 {
            tell(at, what, "messages/s", self.receive_stream(&self.socket(PULL, "stream")?, senders, None)?);
            Ok(())
        } else {
            let to = self.socket(PUSH, "stream")?;
            self.send_stream(&to)?;
            // A receiver that was busy when its sender went away may lose the last messages.
            processes::stay_until_the_end()
        }
    }

    fn threads(&self, count: usize) -> Result<(), Failure> {
        // Both ends stay open for both: a receiver that was busy when its sender went away may lose the last messages.
        let sockets: Vec<Mutex<Socket>> = (0..count)
            .map(|thread| self.socket(PAIR, &format!("thread-{thread}")).map(Mutex::new))
            .collect::<zmq::Result<_>>()?;
        let socket = |thread: usize| sockets[thread].lock().expect("nobody panics with it");
        let begin = Instant::now();
        let streams = each(count, |thread| {
            if self.role == 0 {
                self.receive_stream(&socket(thread), 1, Some(begin))
            } else {
                self.send_stream(&socket(thread)).map(|()| 0.0)
            }
        })?;
        let begin = Instant::now();
        let played = each(count, |thread| self.play(&socket(thread), begin))?;
        if self.role == 0 {
            tell_threads("streams", &streams);
            tell_threads("ping-pong", &played);
        }
        Ok(())
    }

    fn play(&self, other: &Socket, begin: Instant) -> zmq::Result<f64> {
        let mut content = GO_ON;
        if self.role != 0 {
            while content == GO_ON {
                other.recv_into(&mut content, 0)?;
                other.send(&content[..], 0)?;
            }
            return Ok(0.0);
        }
        let mut window = window(begin, self.time());
        let mut rounds = 0;
        while !window.look(rounds, Instant::now()) {
            other.send(&GO_ON[..], 0)?;
            other.recv_into(&mut content, 0)?;
            rounds += 1;
        }
        other.send(&END[..], 0)?;
        other.recv_into(&mut content, 0)?;
        Ok(2.0 * window.rate())
    }
}

fn main() -> ExitCode {
    processes::run(|role, job, options| {
        let context = Context::new();
        if let Some(threads) = env::var("IO_THREADS").ok().and_then(|word| word.parse().ok()) {
            context.set_io_threads(threads)?;
        }
        let side = Side { role, job, options, context };
        options.points.iter().try_for_each(|&at| match options.measure.as_str() {
            "rate" if at == 8 => side.stream(at, 1, "stream"),
            "fan-in" => side.stream(at, at, "all senders together"),
            "threads" => side.threads(at),
            other => Err(format!("ZeroMQ does not do {other} at {at}").into()),
        })
    })
}
