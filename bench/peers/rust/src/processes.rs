//! A peer that consists of several processes: this program again, each told its role and the job that it belongs to.

use std::env;
use std::error::Error;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::{Options, stay};

/// Whatever went wrong.
pub type Failure = Box<dyn Error + Send + Sync>;

/// `PEER MEASURE CPU,CPU SECONDS AT...` starts, for each point, the others as
/// `PEER ROLE JOB MEASURE CPU,CPU SECONDS AT`; every process, pinned, does its part, which is told its role, the job's
/// name and the options.
pub fn run(part: impl Fn(usize, &str, &Options) -> Result<(), Failure>) -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let result = match words.first().and_then(|word| word.parse().ok()) {
        Some(role) if words.len() > 2 => take_part(&part, role, &words[1], &words[2..]),
        _ => start(&part, &words),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start(part: &impl Fn(usize, &str, &Options) -> Result<(), Failure>, words: &[String]) -> Result<(), Failure> {
    let options = Options::of(words)?;
    for &at in &options.points {
        let job = format!("bench-{}-{at}", std::process::id());
        let others = if options.measure == "fan-in" { at } else { 1 };
        let mut words = words[..3].to_vec();
        words.push(at.to_string());
        let mut started = Vec::new();
        for role in 1..=others {
            let mut command = Command::new(env::current_exe()?);
            command.arg(role.to_string()).arg(&job).args(&words).stdin(Stdio::piped());
            started.push(command.spawn()?);
        }
        let own = take_part(part, 0, &job, &words);
        for mut process in started {
            if own.is_err() {
                process.kill()?;
            }
            if !process.wait()?.success() && own.is_ok() {
                return Err("the other process failed".into());
            }
        }
        own?;
    }
    Ok(())
}

/// Returns when the first process has done its part, which its `wait` tells the others by closing their standard input.
pub fn stay_until_the_end() -> Result<(), Failure> {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn take_part(
    part: &impl Fn(usize, &str, &Options) -> Result<(), Failure>,
    role: usize,
    job: &str,
    words: &[String],
) -> Result<(), Failure> {
    if role != 0 {
        // Whoever polls for a partner that is gone polls for ever.
        set_parent_process_death_signal(Some(Signal::KILL))?;
    }
    let options = Options::of(words)?;
    if options.measure == "fan-in" {
        stay(&options.cpus)?;
    } else {
        stay(&[options.cpus[usize::from(role != 0)]])?;
    }
    part(role, job, &options)
}
