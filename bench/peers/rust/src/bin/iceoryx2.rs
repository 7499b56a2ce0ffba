//! iceoryx2, publish and subscribe between two processes (a second one of this program): ping-pong, streams, fan-in,
//! threads.
//!
//! Untouched, a message is loaned and sent without a byte being written. With YIELD in the environment, whoever finds
//! nothing gives the processor away; otherwise it polls.

#![forbid(unsafe_code)]

use std::env;
use std::mem::MaybeUninit;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use bench_peers::processes::{self, Failure};
use bench_peers::{Options, check_sum, clock, each, stream_time, tell, tell_threads, window};
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

/// What nobody touches may be anything.
type Anything = MaybeUninit<u8>;

const GO_ON: u8 = 0;
const END: u8 = 1;

/// One end of a way: what is sent through it, or received.
struct Way<'a> {
    node: &'a Node<ipc::Service>,
    name: String,
    bytes: usize,
    /// Messages that wait at most.
    depth: usize,
}

fn failed(error: impl std::fmt::Debug) -> Failure {
    format!("iceoryx2: {error:?}").into()
}

impl Way<'_> {
    fn publisher<T: std::fmt::Debug + ZeroCopySend>(&self) -> Result<Publisher<ipc::Service, [T], ()>, Failure> {
        let service = self.service::<T>()?;
        let publisher = service
            .publisher_builder()
            .initial_max_slice_len(self.bytes.max(1))
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(failed)?;
        while service.dynamic_config().number_of_subscribers() == 0 {
            thread::yield_now();
        }
        Ok(publisher)
    }

    fn subscriber<T: std::fmt::Debug + ZeroCopySend>(&self) -> Result<Subscriber<ipc::Service, [T], ()>, Failure> {
        self.service::<T>()?.subscriber_builder().create().map_err(failed)
    }

    fn service<T: std::fmt::Debug + ZeroCopySend>(
        &self,
    ) -> Result<iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [T], ()>, Failure> {
        let name: ServiceName = self.name.as_str().try_into().map_err(failed)?;
        self.node
            .service_builder(&name)
            .publish_subscribe::<[T]>()
            .enable_safe_overflow(false)
            .subscriber_max_buffer_size(self.depth)
            .max_publishers(16)
            .open_or_create()
            .map_err(failed)
    }
}

/// Polls until a message is there, and lets `use_it` have it.
fn receive<T: std::fmt::Debug + ZeroCopySend, R>(
    from: &Subscriber<ipc::Service, [T], ()>,
    is_yielding: bool,
    use_it: impl FnOnce(&[T]) -> R,
) -> Result<R, Failure> {
    loop {
        match from.receive().map_err(failed)? {
            Some(sample) => return Ok(use_it(sample.payload())),
            None if is_yielding => thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }
}

fn send(to: &Publisher<ipc::Service, [u8], ()>, bytes: usize, value: u8) -> Result<(), Failure> {
    to.loan_slice_uninit(bytes).map_err(failed)?.write_from_fn(|_| value).send().map_err(failed)?;
    Ok(())
}

fn send_anything(to: &Publisher<ipc::Service, [Anything], ()>, bytes: usize) -> Result<(), Failure> {
    to.loan_slice_uninit(bytes).map_err(failed)?.write_from_fn(|_| MaybeUninit::uninit()).send().map_err(failed)?;
    Ok(())
}

/// Median time of one way; `round` is told the number of the round. As `deck bench pingpong` times them.
fn median_ns(time: Duration, mut round: impl FnMut(u64) -> Result<(), Failure>) -> Result<f64, Failure> {
    let mut number = 0;
    let begin = Instant::now();
    while number == 0 || begin.elapsed() < clock::warm_up(time) {
        number += 1;
        round(number)?;
    }
    let group = clock::group(begin.elapsed() / number as u32);
    let mut times: Vec<Duration> = Vec::with_capacity(clock::SAMPLES);
    let start = Instant::now();
    let mut before = start;
    while before - start < time && times.len() < clock::SAMPLES {
        for _ in 0..group {
            number += 1;
            round(number)?;
        }
        let now = Instant::now();
        times.push(now - before);
        before = now;
    }
    Ok(clock::one_way_ns(&mut times, group, 0.5))
}

struct Side {
    options: Options,
    job: String,
    role: usize,
    node: Node<ipc::Service>,
    is_yielding: bool,
}

impl Side {
    fn way(&self, name: &str, bytes: usize, depth: usize) -> Way<'_> {
        Way { node: &self.node, name: format!("{}/{name}", self.job), bytes, depth }
    }

    fn pingpong(&self, bytes: usize) -> Result<(), Failure> {
        let time = self.options.time / 2;
        let names = if self.role == 0 { ["ping", "pong"] } else { ["pong", "ping"] };
        let name = |kind: &str, way: usize| format!("{bytes}/{kind}/{}", names[way]);
        let from = self.way(&name("any", 1), bytes + 1, 2).subscriber::<Anything>()?;
        let to = self.way(&name("any", 0), bytes + 1, 2).publisher::<Anything>()?;
        if self.role == 0 {
            let one_way = median_ns(time, |_| {
                send_anything(&to, bytes)?;
                receive(&from, self.is_yielding, |_| ())
            })?;
            tell(bytes, "untouched", "ns", one_way);
            send_anything(&to, bytes + 1)?;
        } else {
            while receive(&from, self.is_yielding, |content| content.len())? == bytes {
                send_anything(&to, bytes)?;
            }
        }
        let from = self.way(&name("all", 1), bytes + 1, 2).subscriber::<u8>()?;
        let to = self.way(&name("all", 0), bytes + 1, 2).publisher::<u8>()?;
        if self.role == 0 {
            let one_way = median_ns(time, |round| {
                send(&to, bytes, round as u8)?;
                receive(&from, self.is_yielding, |content| check_sum(content, round as u8))
            })?;
            tell(bytes, "touched", "ns", one_way);
            send(&to, bytes + 1, 0)?;
        } else {
            let mut round = 0u8;
            let mut take = |content: &[u8]| {
                round = round.wrapping_add(1);
                (content.len() == bytes).then(|| check_sum(content, round)).map(|()| round)
            };
            while let Some(round) = receive(&from, self.is_yielding, &mut take)? {
                send(&to, bytes, round)?;
            }
        }
        Ok(())
    }

    fn stream_send(&self, to: &Publisher<ipc::Service, [u8], ()>, time: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        while start.elapsed() < stream_time(time) {
            (0..clock::MESSAGES).try_for_each(|_| send(to, 8, GO_ON))?;
        }
        send(to, 8, END)
    }

    fn stream_receive(
        &self,
        from: &Subscriber<ipc::Service, [u8], ()>,
        senders: usize,
        begin: Option<Instant>,
        time: Duration,
    ) -> Result<f64, Failure> {
        let (mut count, mut ended) = (1, 0);
        receive(from, self.is_yielding, |_| ())?;
        let mut window = window(begin.unwrap_or_else(Instant::now), time);
        while ended < senders {
            if receive(from, self.is_yielding, |content| content[0])? == END {
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

    fn stream(&self, senders: usize, what: &str) -> Result<(), Failure> {
        let way = self.way("stream", 8, 64);
        if self.role == 0 {
            let rate = self.stream_receive(&way.subscriber()?, senders, None, self.options.time)?;
            tell(if senders == 1 && what == "stream" { 8 } else { senders }, what, "messages/s", rate);
            Ok(())
        } else {
            self.stream_send(&way.publisher()?, self.options.time)
        }
    }

    fn threads(&self, count: usize) -> Result<(), Failure> {
        let time = self.options.time / 2;
        let begin = Instant::now();
        let streams = each::<Failure>(count, |thread| {
            let way = self.way(&format!("{count}/stream/{thread}"), 8, 64);
            if self.role == 0 {
                self.stream_receive(&way.subscriber()?, 1, Some(begin), time)
            } else {
                self.stream_send(&way.publisher()?, time).map(|()| 0.0)
            }
        })?;
        let names = if self.role == 0 { ["ping", "pong"] } else { ["pong", "ping"] };
        let begin = Instant::now();
        let played = each::<Failure>(count, |thread| {
            let from = self.way(&format!("{count}/{}/{thread}", names[1]), 8, 2).subscriber::<u8>()?;
            let to = self.way(&format!("{count}/{}/{thread}", names[0]), 8, 2).publisher::<u8>()?;
            if self.role == 0 {
                let mut window = window(begin, time);
                let mut rounds = 0;
                while !window.look(rounds, Instant::now()) {
                    for _ in 0..clock::ROUNDS {
                        send(&to, 8, GO_ON)?;
                        receive(&from, self.is_yielding, |_| ())?;
                    }
                    rounds += clock::ROUNDS;
                }
                send(&to, 8, END)?;
                Ok(2.0 * window.rate())
            } else {
                while receive(&from, self.is_yielding, |content| content[0])? == GO_ON {
                    send(&to, 8, GO_ON)?;
                }
                Ok(0.0)
            }
        })?;
        if self.role == 0 {
            tell_threads("streams", &streams);
            tell_threads("ping-pong", &played);
        }
        Ok(())
    }

    fn run(&self) -> Result<(), Failure> {
        for &at in &self.options.points {
            match self.options.measure.as_str() {
                "pingpong" => self.pingpong(at)?,
                "rate" => self.stream(1, "stream")?,
                "fan-in" => self.stream(at, "all senders together")?,
                "threads" => self.threads(at)?,
                other => return Err(format!("iceoryx2 does not do {other}").into()),
            }
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    processes::run(|role, job, options| {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<ipc::Service>().map_err(failed)?;
        let is_yielding = env::var_os("YIELD").is_some();
        Side { options: options.clone(), job: job.to_owned(), role, node, is_yielding }.run()
    })
}
