//! `deck bench` as a program sees it. What it measures is the machine's affair; that it measures everything is ours.

use std::process::Command;

use serde_json::Value;

#[track_caller]
fn bench(arguments: &[&str]) -> Value {
    let ended = Command::new(env!("CARGO_BIN_EXE_deck")).arg("bench").args(arguments).arg("--json").output().unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && errors.is_empty(), "deck bench {arguments:?}: {}: {errors}", ended.status);

    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!((&report["benchmark"], &report["version"]), (&arguments[0].into(), &env!("CARGO_PKG_VERSION").into()));
    assert!(report["cpus"].is_array() && report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(report["machine"]["cpu"].is_string() && report["machine"]["kernel"].is_string());
    report
}

#[test]
fn pingpong_prints_one_json_object_with_every_size_and_nothing_else() {
    let report = bench(&["pingpong", "--time", "0.1"]);
    assert!(report["pinned"].is_boolean());
    let sizes = report["sizes"].as_array().unwrap();
    let bytes: Vec<u64> = sizes.iter().map(|row| row["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [0, 8, 62, 64, 1024, 4096, 65_536, 1 << 20, 16 << 20]);
    let mut rounds = 0;
    for times in sizes.iter().flat_map(|row| [&row["untouched"], &row["touched"]]) {
        let [min, median, p99] = ["min_ns", "median_ns", "p99_ns"].map(|name| times[name].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= p99, "{times}");
        rounds += times["rounds"].as_u64().unwrap();
    }
    assert_eq!(report["rounds"], rounds);
}

/// As whoever ignores SIGCHLD starts it, which is inherited.
#[test]
fn its_nodes_come_to_their_end_though_the_end_of_children_is_ignored() {
    let mut ignoring = Command::new("env");
    ignoring.args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_deck"), "bench", "start", "--at", "2", "--json"]);
    let ended = ignoring.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Stacks that fit nowhere stand for a limit of processes, which root does not have.
#[test]
fn where_the_system_has_no_threads_that_is_told_with_the_limits() {
    let mut limited = Command::new(env!("CARGO_BIN_EXE_deck"));
    limited.args(["bench", "channels", "--at", "8"]).env("RUST_MIN_STACK", (1u64 << 60).to_string());
    let ended = limited.output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("starting the thread") && told.contains("ulimit -u"), "{told}");
}

/// Runs a benchmark at one point; each of `expected` has to be measured there, at least once with a positive value.
#[track_caller]
fn measures(name: &str, at: &str, time: &str, axis: &str, expected: &[(&str, &str)]) {
    let report = bench(&[name, "--at", at, "--time", time]);
    assert!(report["axis"] == axis && report["places"].is_string(), "{report}");
    let figures = report["figures"].as_array().unwrap();
    let found: Vec<(&str, &str)> =
        figures.iter().map(|figure| (figure["what"].as_str().unwrap(), figure["unit"].as_str().unwrap())).collect();
    assert_eq!(found, expected);
    for figure in figures {
        let [min, median, max] = ["min", "median", "max"].map(|name| figure[name].as_f64().unwrap());
        assert!(0.0 <= min && min <= median && median <= max, "{figure}");
        // On a busy machine most of such short streams may find that nobody runs who would post.
        assert!(max > 0.0 || figure["unit"] == "of mean", "{figure}");
        assert!(figure["at"].as_u64() == at.parse().ok() && figure["repetitions"].as_u64().unwrap() > 0, "{figure}");
    }
}

#[test]
fn rate_counts_a_stream() {
    measures("rate", "8", "0.2", "bytes", &[("stream", "messages/s")]);
}

#[test]
fn bandwidth_counts_bytes_and_hand_overs() {
    // Longer than one stream has: there are two in each repetition.
    measures("bandwidth", "4096", "0.4", "bytes", &[("written and read", "GB/s"), ("handed over", "messages/s")]);
}

#[test]
fn threads_tells_streams_ping_pong_and_how_fair_they_are() {
    let expected = [
        ("streams", "messages/s"),
        ("streams, slowest", "of mean"),
        ("ping-pong", "messages/s"),
        ("ping-pong, slowest", "of mean"),
    ];
    // Longer than the others: each thread has to have its turn in each repetition, however many others run beside it.
    measures("threads", "2", "2", "threads", &expected);
}

#[test]
fn fan_in_counts_all_senders() {
    measures("fan-in", "3", "0.2", "senders", &[("all senders together", "messages/s")]);
}

#[test]
fn oversubscribed_times_a_token_and_a_barrier() {
    measures("oversubscribed", "4", "0.4", "nodes", &[("token, one hop", "ns"), ("barrier", "ns")]);
}

#[test]
fn collectives_times_every_kind_among_processes_and_threads_of_any_number() {
    let report = bench(&["collectives", "--at", "5", "--time", "0.1"]);
    let figures = report["figures"].as_array().unwrap();
    let among =
        |prefix: &str| figures.iter().filter(|figure| figure["what"].as_str().unwrap().starts_with(prefix)).count();
    let [all, threads] = ["", "threads: "].map(among);
    assert!(threads > 0 && all == 2 * threads, "{report}");
    assert!(figures.iter().all(|figure| figure["at"] == 5 && figure["median"].as_f64().unwrap() > 0.0), "{report}");
}

#[test]
fn channels_times_two_threads_of_one_node() {
    measures("channels", "8", "1", "bytes", &[("ping-pong, one way", "ns"), ("stream", "messages/s")]);
}

#[test]
fn shared_counts_all_threads() {
    measures("shared", "2", "0.2", "threads", &[("all threads together", "messages/s")]);
}

#[test]
fn silent_talks_beside_rings_of_several_processes() {
    measures("silent", "130", "0.1", "rings", &[("ping-pong, one way", "ns")]);
}

#[test]
fn silent_talks_beside_more_rings_than_there_are_nodes() {
    measures("silent", "300", "0.1", "rings", &[("ping-pong, one way", "ns")]);
}

#[test]
fn idle_tells_processor_time() {
    measures("idle", "1", "1", "seconds", &[("processor time", "ms")]);
}

#[test]
fn wake_times_a_sleeper() {
    measures("wake", "5", "0.2", "ms apart", &[("median", "ns"), ("p90", "ns")]);
}

#[test]
fn memory_counts_node_mail_box_and_both_ends_of_a_ring() {
    let report = bench(&["memory", "--at", "500"]);
    let figures = report["figures"].as_array().unwrap();
    let mut found: Vec<&str> = figures.iter().map(|figure| figure["what"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, ["mail box", "node", "ring, at the owner", "ring, at the poster"]);
    assert!(figures.iter().all(|figure| figure["median"].as_f64().unwrap() > 0.0), "{report}");
}

#[test]
fn start_times_the_meeting_of_all() {
    measures("start", "8", "1", "nodes", &[("all have met", "ms")]);
}
