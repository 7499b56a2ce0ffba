//! Times the search, and writes the models that it is timed on. `bench/placement/run` compares the figures with goals
//! and with Scotch.

mod models;

use std::time::{Duration, Instant};

use models::MODELS;
use optisci::search::{Control, Options, Progress, solve};
use optisci::{Costs, Model, Placement};

const USAGE: &str = "\
placement_bench NAME [SEEDS [TIME_LIMIT]]   search models of seeds 1, 2, ...; one JSON object for each
placement_bench --write NAME SEED           print the model
NAME is one of";

/// A clock, and when the best was found.
struct Timed {
    start: Instant,
    best: f64,
    found: Duration,
}

impl Control for Timed {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn progress(&mut self, incumbent: Option<&Progress<'_>>) -> bool {
        if let Some(progress) = incumbent
            && progress.cost < self.best
        {
            (self.best, self.found) = (progress.cost, self.start.elapsed());
        }
        true
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let make = |name: &str| MODELS.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
    let number = |word: Option<&&str>| word.map(|word| word.parse::<f64>().expect("a number"));
    match words[..] {
        ["--write", name, seed] if make(name).is_some() => {
            let seed = seed.parse().expect("a seed is a whole number");
            println!("{}", make(name).expect("a name of the list")(seed).0.to_json());
        }
        [name, ..] if make(name).is_some() => {
            let make = make(name).expect("a name of the list");
            let limit = number(words.get(2)).map(Duration::from_secs_f64);
            for seed in 1..=number(words.get(1)).unwrap_or(1.0) as u64 {
                println!("{}", time(name, &make(seed), seed, limit));
            }
        }
        _ => {
            println!("{USAGE}");
            MODELS.iter().for_each(|(name, _)| println!("  {name}"));
            std::process::exit(2);
        }
    }
}

/// One search. Seconds of all processors tell what it took where others compute too.
fn time(
    name: &str,
    (model, intended): &(Model, Option<Placement>),
    seed: u64,
    time_limit: Option<Duration>,
) -> serde_json::Value {
    let before = processor_seconds();
    let mut control = Timed { start: Instant::now(), best: f64::INFINITY, found: Duration::ZERO };
    let outcome = solve(model, &Options { objective: None, time_limit, seed }, &mut control);
    serde_json::json!({
        "model": name,
        "seed": seed,
        "intended": intended.as_ref().map(|placement| Costs::new(model).objective(model.objective, placement)),
        "status": outcome.status,
        "cost": outcome.cost,
        "bound": outcome.bound,
        "gap": outcome.gap,
        "method": outcome.method,
        "found_seconds": control.found.as_secs_f64(),
        "seconds": control.start.elapsed().as_secs_f64(),
        "processor_seconds": processor_seconds().zip(before).map(|(after, before)| after - before),
    })
}

/// What this process has computed so far, in ticks of a hundredth of a second (Linux).
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}
