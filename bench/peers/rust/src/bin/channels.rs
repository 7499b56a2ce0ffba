//! Channels between two threads of one process: `channels MEASURE ...` with CHANNEL in the environment: std, crossbeam,
//! kanal, flume, or one of these with `-poll`: the receiver then polls instead of blocking.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::env;
use std::hint::spin_loop;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use bench_peers::clock::{self, mean_ns};
use bench_peers::{Options, stay, stream_time, tell, window};

/// Messages that a channel holds.
const BOUND: usize = 1024;
const GO_ON: u64 = 0;
const END: u64 = 1;

/// Both ends of a channel. Generic, so that no call through a pointer is measured.
fn run<S, R>(options: &Options, make: impl Fn() -> (S, R)) -> rustix::io::Result<()>
where
    S: Fn(u64) + std::marker::Send,
    R: Fn() -> u64 + std::marker::Send,
{
    let (ping, pinged) = make();
    let (pong, ponged) = make();
    let (stream, streamed) = make();
    let time = options.time / 2;
    let (one_way, rate) = thread::scope(|scope| {
        let other = scope.spawn(move || {
            stay(&[options.cpus[1]])?;
            while pinged() == GO_ON {
                pong(GO_ON);
            }
            let start = Instant::now();
            while start.elapsed() < stream_time(time) {
                (0..clock::MESSAGES).for_each(|_| stream(GO_ON));
            }
            stream(END);
            Ok(())
        });
        stay(&[options.cpus[0]])?;
        let Ok(round) = mean_ns(clock::warm_up(time), time, || {
            ping(GO_ON);
            ponged();
            Ok::<(), Infallible>(())
        });
        ping(END);
        let mut count = 0;
        let mut what = streamed();
        let mut window = window(Instant::now(), time);
        while what == GO_ON {
            count += 1;
            if count % clock::MESSAGES == 0 {
                window.look(count, Instant::now());
            }
            what = streamed();
        }
        window.close(count, Instant::now());
        other.join().expect("the other thread does not panic")?;
        Ok((round / 2.0, window.rate()))
    })?;
    tell(8, "ping-pong, one way", "ns", one_way);
    tell(8, "stream", "messages/s", rate);
    Ok(())
}

fn polled(mut look: impl FnMut() -> Option<u64>) -> u64 {
    loop {
        if let Some(value) = look() {
            return value;
        }
        spin_loop();
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let options = match Options::of(&words) {
        Ok(options) if options.measure == "channels" && options.points == [8] => options,
        Ok(_) => {
            eprintln!("channels does: channels, at 8");
            return ExitCode::from(2);
        }
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::from(2);
        }
    };
    const GONE: &str = "the other end lives as long";
    let channel = env::var("CHANNEL").unwrap_or_default();
    let done = match channel.as_str() {
        "std" => run(&options, || {
            let (to, from) = mpsc::sync_channel(BOUND);
            (move |value| to.send(value).expect(GONE), move || from.recv().expect(GONE))
        }),
        "std-poll" => run(&options, || {
            let (to, from) = mpsc::sync_channel(BOUND);
            (move |value| to.send(value).expect(GONE), move || polled(|| from.try_recv().ok()))
        }),
        "crossbeam" => run(&options, || {
            let (to, from) = crossbeam_channel::bounded(BOUND);
            (move |value| to.send(value).expect(GONE), move || from.recv().expect(GONE))
        }),
        "crossbeam-poll" => run(&options, || {
            let (to, from) = crossbeam_channel::bounded(BOUND);
            (move |value| to.send(value).expect(GONE), move || polled(|| from.try_recv().ok()))
        }),
        "kanal" => run(&options, || {
            let (to, from) = kanal::bounded(BOUND);
            (move |value| to.send(value).expect(GONE), move || from.recv().expect(GONE))
        }),
        "flume" => run(&options, || {
            let (to, from) = flume::bounded(BOUND);
            (move |value| to.send(value).expect(GONE), move || from.recv().expect(GONE))
        }),
        _ => {
            eprintln!("CHANNEL is none of std, std-poll, crossbeam, crossbeam-poll, kanal, flume");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pinning: {error}");
            ExitCode::FAILURE
        }
    }
}
