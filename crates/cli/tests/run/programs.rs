//! `deck run` with plain programs, which never become nodes: how it ends, and what it passes through.

use std::collections::HashMap;
use std::io::Write;

use crate::job::{DECK, Job, Process, folder, run, script};
use rustix::process::Signal;
use tempfile::NamedTempFile;

#[test]
fn all_nodes_succeed() {
    assert_eq!(run(&["-n", "3", "true"]).code, 0);
}

#[test]
fn the_exit_status_is_that_of_a_failing_node() {
    assert_eq!(run(&["-n", "3", "false"]).code, 1);
    assert_eq!(run(&["-n", "1", "sh", "-c", "exit 42"]).code, 42);
}

#[test]
fn the_exit_status_is_that_of_the_node_that_failed_first() {
    // The second fails only after the first has been waited for: until then its number is taken.
    let folder = folder("first-failure");
    let text = "
        if mkdir $0/first 2>/dev/null; then echo $$ > $0/number; mv $0/number $0/known; exit 3; fi
        until test -e $0/known; do :; done
        read first < $0/known
        while kill -0 $first 2>/dev/null; do :; done
        exit 4";
    assert_eq!(run(&["-n", "2", "sh", "-c", text, folder.to_str().unwrap()]).code, 3);
}

#[test]
fn a_killed_node_is_128_plus_the_signal_and_ends_no_other() {
    let folder = folder("killed");
    let text = "
        if mkdir $0/first 2>/dev/null; then echo $$ > $0/number; mv $0/number $0/known; kill -9 $$; fi
        until test -e $0/known; do :; done
        read first < $0/known
        while kill -0 $first 2>/dev/null; do :; done
        echo alive";
    let ended = run(&["-n", "3", "sh", "-c", text, folder.to_str().unwrap()]);
    assert_eq!((ended.code, ended.stdout.as_slice()), (137, &b"alive\nalive\n"[..]));
    assert!(ended.errors().contains("was killed by SIGKILL"), "{}", ended.errors());
}

#[test]
fn what_a_process_said_is_told_before_its_end() {
    for _ in 0..20 {
        let errors = run(&["-n", "2", "sh", "-c", "echo because >&2; exit 3"]).errors();
        let lines: Vec<&str> = errors.lines().collect();
        let reasons = |until: usize| lines[..until].iter().filter(|line| **line == "because").count();
        assert_eq!((lines.len(), reasons(4)), (4, 2), "{errors}");
        assert!((0..4).all(|line| reasons(line + 1) * 2 > line), "{errors}");
    }
}

#[test]
fn many_that_fail_alike_at_once_are_told_in_one_line_and_few_one_by_one() {
    for count in [8, 20] {
        let folder = folder("alike");
        let text = "echo $$; until test -e $0/end; do sleep 0.01; done; exit 3";
        let mut job = Job::run(&["-n", &count.to_string(), "sh", "-c", text, folder.to_str().unwrap()]);
        let processes = job.processes(count);
        // They are found together, as they end while nobody looks.
        job.stop_worker();
        std::fs::write(folder.join("end"), "").unwrap();
        processes.into_iter().for_each(Process::ends);
        job.signal_worker(Signal::CONT);
        let ended = job.ended();
        let told = ended.errors();
        let lines = told.matches(" ended with exit status 3\n").count();
        assert_eq!((ended.code, lines), (3, if count == 8 { 8 } else { 1 }), "{told}");
        assert_eq!(told.contains("deck run: processes 0 to 19 ended"), count == 20, "{told}");
    }
}

#[test]
fn with_kill_on_failure_one_ends_all() {
    let folder = folder("kill-on-failure");
    let text = "if mkdir $0/first 2>/dev/null; then exit 5; else exec sleep 1000; fi";
    let ended = run(&["-n", "4", "--kill-on-failure", "sh", "-c", text, folder.to_str().unwrap()]);
    assert_eq!(ended.code, 5);
}

#[test]
fn a_missing_program_is_told_with_a_remedy() {
    let ended = run(&["-n", "2", "no-such-program-anywhere"]);
    assert_eq!(ended.code, 1);
    assert!(ended.errors().contains("no-such-program-anywhere") && ended.errors().contains("check the spelling"));
    assert_eq!(ended.errors().lines().count(), 1, "{}", ended.errors());
}

/// As a user who has no processes but these, which only root can become.
#[test]
fn wherever_processes_or_threads_run_out_their_limits_are_told() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start processes of another user");
    }
    // Where every user may execute it: the folder that it was built in need not be open to others.
    let open = NamedTempFile::new().unwrap().into_temp_path();
    std::fs::copy(DECK, &open).unwrap();
    // Seven are wanted: itself, its worker, a thread for those who join, two nodes, two threads for their output.
    for limit in 1..7 {
        let text =
            format!("exec setpriv --reuid=4003 --regid=4003 --clear-groups prlimit --nproc={limit} \"$0\" \"$@\"");
        let ended = Job::start(script(&text, &[open.to_str().unwrap(), "run", "-n", "2", "sleep", "1000"])).ended();
        assert_eq!(ended.code, 1, "{limit}: {}", ended.errors());
        assert!(ended.errors().contains("(ulimit -u, or the container's)"), "{limit}: {}", ended.errors());
    }
}

#[test]
fn a_program_that_may_not_be_started_is_told_where_it_was_found() {
    let folder = folder("not-executable");
    std::fs::write(folder.join("no-such-command-but-this"), "echo\n").unwrap();
    let text = "PATH=$0:$PATH; exec \"$1\" run -n 1 no-such-command-but-this";
    let ended = Job::start(script(text, &[folder.to_str().unwrap(), DECK])).ended();
    let remedy = format!("chmod +x {}/no-such-command-but-this", folder.display());
    assert!(ended.code == 1 && ended.errors().contains(&remedy), "{}", ended.errors());
}

#[test]
fn a_limit_that_is_in_the_way_is_named() {
    let ended = Job::start(script("ulimit -n 5; exec \"$0\" run -n 1 true", &[DECK])).ended();
    assert!(ended.code == 1 && ended.errors().contains("ulimit -n"), "{}", ended.errors());
}

#[test]
fn a_usage_error_is_one_line_that_says_what_to_type() {
    let lines: &[&[&str]] = &[
        &[],
        &["frobnicate"],
        &["--frobnicate"],
        &["run"],
        &["run", "-n"],
        &["run", "-n", "0", "true"],
        &["run", "-n", "257", "true"],
        &["run", "-n", "many", "true"],
        &["run", "-n", "-1", "true"],
        &["run", "-n", "2"],
        &["run", "true"],
        &["run", "-n", "2", "--frobnicate", "true"],
        &["run", "-n", "2", "--job", "two\nlines", "true"],
        &["run", "-n", "2", "--job", "", "true"],
        &["bench"],
        &["bench", "no-such-benchmark"],
        &["bench", "pingpong", "--frobnicate"],
        &["bench", "rate", "--at", "8,many"],
        &["bench", "rate", "--time", "0"],
        &["help", "frobnicate"],
        &["help", "run", "extra"],
        &["help", "place", "nosuch"],
    ];
    for line in lines {
        let ended = Job::command(line).ended();
        assert_eq!((ended.code, ended.stdout.len()), (2, 0), "{line:?}");
        assert_eq!(ended.errors().lines().count(), 1, "{line:?}: {}", ended.errors());
        assert!(ended.errors().contains("type: deck "), "{line:?}: {}", ended.errors());
    }
    for (line, wanted) in [
        (&["rum"][..], &["there is no command 'rum'", "did you mean 'run'?", "run|ls|why|bench|place"][..]),
        (&["help", "place", "nosuch"], &["'nosuch'", "deck place cost|solve"]),
        (&["help", "place", "slove"], &["did you mean", "'solve'"]),
        (&["help", "run", "extra"], &["unexpected argument 'extra'", "deck run -n N"]),
        (&["ls", "a", "b"], &["unexpected argument 'b'", "deck ls"]),
        (&["ls", "-1"], &["unexpected argument '-1'"]),
        (&["ls", "--jsno"], &["there is no option '--jsno' here", "did you mean '--json'?"]),
    ] {
        let said = Job::command(line).ended().errors();
        wanted.iter().for_each(|wanted| assert!(said.contains(wanted), "{line:?}: {said}"));
    }
    assert!(Job::command(&["bench", "no-such-benchmark"]).ended().errors().contains("pingpong"));
}

#[test]
fn a_result_that_cannot_be_written_is_a_failure() {
    for line in [
        &["ls", "--json"][..],
        &["why", "--json"],
        &["bench", "channels", "--time", "0.01"],
        &["--version"],
        &["--help"],
        &["run", "--help"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_deck")).args(line).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains("cannot be printed") && said.contains("print elsewhere"), "{line:?}: {said}");
    }
}

#[test]
fn version_and_help_are_no_errors() {
    let version = Job::command(&["--version"]).ended();
    assert_eq!((version.code, version.text()), (0, format!("deck {}\n", env!("CARGO_PKG_VERSION"))));
    for line in [
        &["--help"][..],
        &["run", "--help"],
        &["bench", "--help"],
        &["help"],
        &["help", "help"],
        &["help", "place", "solve"],
    ] {
        let help = Job::command(line).ended();
        assert!(help.code == 0 && help.text().contains("Usage: deck"), "{line:?}");
    }
}

#[test]
fn help_is_a_command_too() {
    for (line, same) in [(&["help"][..], &["--help"][..]), (&["help", "place", "solve"], &["place", "solve", "--help"])]
    {
        let [help, same] = [line, same].map(|line| Job::command(line).ended());
        assert!(help.code == 0 && help.text() == same.text(), "{line:?}: {}", help.text());
    }
}

#[test]
fn lists_and_examples_of_help_fit_a_terminal_of_80_columns() {
    let commands =
        [&["run"][..], &["bench"], &["place"], &["place", "solve"], &["place", "import"], &["place", "export"]];
    for command in commands {
        let help = Job::command(&[command, &["--help"]].concat()).ended().text();
        let (_, lists) = help.split_once("  -h, --help").unwrap();
        // Prose may be wrapped anywhere; a line that is set in must not be.
        for line in lists.lines().filter(|line| line.starts_with("  ")) {
            assert!(line.len() <= 80, "{command:?}: {line}");
        }
    }
}

#[test]
fn a_point_that_no_benchmark_can_be_measured_at_is_a_usage_error_before_anything_starts() {
    for (name, point, wanted) in [
        ("threads", "0", "1 to 64 threads"),
        ("threads", "4,1000", "1 to 64 threads"),
        ("silent", "0", "1 to 1008 rings"),
        ("silent", "1009", "1 to 1008 rings"),
        ("oversubscribed", "0", "2 to 64 nodes"),
        ("collectives", "1", "2 to 32 members"),
        ("start", "0", "2 to 256 nodes"),
        ("start", "1000", "2 to 256 nodes"),
        ("memory", "0", "1 to 16000 boxes"),
        ("fan-in", "0", "1 to 64 senders"),
        ("fan-in", "300", "1 to 64 senders"),
        ("shared", "0", "1 to 64 threads"),
        ("wake", "0", "1 to 1000 ms apart"),
        ("idle", "0", "1 to 3600 seconds"),
        ("bandwidth", "0", "1 to 64M bytes"),
        ("pingpong", "1024M", "0 to 256M bytes"),
    ] {
        let ended = Job::command(&["bench", name, "--at", point]).ended();
        assert_eq!((ended.code, ended.stdout.len()), (2, 0), "{name} {point}");
        let said = ended.errors();
        assert!(said.lines().count() == 1 && said.contains(wanted) && said.contains("type: deck bench"), "{said}");
        assert!(Job::command(&["bench", "--help"]).ended().text().contains(wanted), "{wanted}");
    }
}

#[test]
fn options_behind_the_program_are_the_programs() {
    assert_eq!(run(&["-n", "1", "echo", "--tag", "-n", "7", "--", "--help"]).text(), "--tag -n 7 -- --help\n");
    assert_eq!(run(&["-n", "1", "--", "echo", "--tag"]).text(), "--tag\n");
}

#[test]
fn lines_of_several_nodes_are_never_mixed_and_keep_their_order() {
    const LINES: usize = 4000;
    let text = "
        i=0
        while [ $i -lt 4000 ]; do
            echo $$ line $i of standard output
            echo $$ line $i of standard error >&2
            i=$((i+1))
        done";
    let ended = run(&["-n", "4", "sh", "-c", text]);
    assert_eq!(ended.code, 0);
    for (stream, name) in [(ended.text(), "output"), (ended.errors(), "error")] {
        let mut next: HashMap<&str, usize> = HashMap::new();
        for line in stream.lines() {
            let (process, rest) = line.split_once(' ').unwrap();
            let count = next.entry(process).or_default();
            assert_eq!(rest, format!("line {count} of standard {name}"));
            *count += 1;
        }
        assert_eq!(next.into_values().collect::<Vec<_>>(), [LINES; 4]);
    }
}

#[test]
fn both_streams_into_one_pipe_stay_lines_too() {
    let text = "for i in 1 2 3 4 5 6 7 8 9; do head -c 9000 /dev/zero | tr '\\0' $0; echo; done";
    let both = format!("({text}) & ({}) >&2; wait", text.replace("$0", "b"));
    let ended = Job::start(script(&format!("exec 2>&1; exec {DECK} run -n 3 sh -c \"$0\" a"), &[&both])).ended();
    assert_eq!(ended.code, 0);
    for line in ended.text().lines() {
        assert!(line.len() == 9000 && line.bytes().all(|byte| byte == line.as_bytes()[0]), "{} bytes", line.len());
    }
    assert_eq!(ended.text().lines().count(), 2 * 3 * 9);
}

#[test]
fn bytes_pass_through_unchanged() {
    let folder = folder("bytes");
    let file = folder.join("bytes");
    // No end of line at the end, and a stretch that is longer than any line.
    let mut bytes: Vec<u8> = (0..200_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    bytes.extend(vec![0; 200_000]);
    std::fs::write(&file, &bytes).unwrap();
    let ended = run(&["-n", "1", "cat", file.to_str().unwrap()]);
    assert_eq!((ended.code, ended.stdout == bytes), (0, true));

    std::fs::write(&file, b"\xff\0\x80\r\n\n\x1b[1m\n").unwrap();
    let ended = run(&["-n", "2", "cat", file.to_str().unwrap()]);
    assert_eq!(ended.stdout, b"\xff\0\x80\r\n\n\x1b[1m\n".repeat(2));
}

#[test]
fn lines_beyond_the_limit_are_passed_and_still_not_mixed() {
    const LENGTH: usize = 300_000;
    let folder = folder("long-lines");
    let text = "
        for letter in a b c; do if mkdir $0/$letter 2>/dev/null; then break; fi; done
        head -c 300000 /dev/zero | tr '\\0' $letter; echo";
    let ended = run(&["-n", "3", "sh", "-c", text, folder.to_str().unwrap()]);
    let mut lengths: HashMap<u8, usize> = HashMap::new();
    // A node that pauses long enough in the middle of such a line loses the floor, so there may be more lines than
    // nodes.
    for line in ended.text().lines().filter(|line| !line.is_empty()) {
        let letter = line.as_bytes()[0];
        assert!(line.bytes().all(|byte| byte == letter), "a line of {letter} is mixed");
        *lengths.entry(letter).or_default() += line.len();
    }
    assert_eq!(lengths, HashMap::from([(b'a', LENGTH), (b'b', LENGTH), (b'c', LENGTH)]));
}

#[test]
fn a_last_line_without_its_end_is_passed() {
    assert_eq!(run(&["-n", "1", "printf", "a\\nb"]).text(), "a\nb");
    assert_eq!(run(&["-n", "2", "printf", "b"]).text(), "b\nb");
}

#[test]
fn tags_name_the_process_before_it_is_a_node() {
    let ended = run(&["-n", "3", "--tag", "sh", "-c", "echo one; echo two >&2; printf three"]);
    let mut lines: Vec<String> = ended.text().lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["[p0] one", "[p0] three", "[p1] one", "[p1] three", "[p2] one", "[p2] three"]);
    let mut errors: Vec<String> = ended.errors().lines().map(str::to_owned).collect();
    errors.sort();
    assert_eq!(errors, ["[p0] two", "[p1] two", "[p2] two"]);
}

#[test]
fn the_first_node_reads_standard_input_and_the_others_read_nothing() {
    let mut job = Job::start(script(&format!("exec {DECK} run -n 3 --tag cat"), &[]));
    let mut input = job.stdin();
    input.write_all(b"hello\n").unwrap();
    drop(input);
    assert_eq!(job.ended().text(), "[p0] hello\n");
}

#[test]
fn a_reader_that_leaves_ends_the_nodes_as_in_a_pipeline() {
    let mut job = Job::run(&["-n", "2", "yes"]);
    assert_eq!(job.line(), "y");
    job.stop_reading();
    let ended = job.ended();
    assert_eq!((ended.code, ended.errors().as_str()), (141, ""));
    let ended = run(&["-n", "1", "sh", "-c", "kill -PIPE $$"]);
    assert!(ended.code == 141 && ended.errors().contains("was killed by SIGPIPE"), "{}", ended.errors());
}

#[test]
fn output_that_cannot_be_passed_on_is_told_while_the_nodes_run_to_their_end() {
    let folder = folder("no-output");
    let last = folder.join("last");
    let text = "exec \"$0\" run -n 2 sh -c 'echo lost; read wait; echo lost; echo too; echo end >> \"$0\"' \"$1\" \
                2>&1 >/dev/full";
    let mut job = Job::start(script(text, &[DECK, last.to_str().unwrap()]));
    let input = job.stdin();
    assert!(job.line().starts_with("deck run: cannot pass output through: No space left on device"));
    drop(input);
    let ended = job.ended();
    assert_eq!((ended.code, ended.text().as_str()), (1, ""), "once");
    assert_eq!(std::fs::read_to_string(&last).unwrap(), "end\nend\n");
}

#[test]
fn where_nothing_can_be_printed_the_exit_status_tells() {
    let ended = Job::start(script("exec \"$0\" run -n 2 sh -c 'echo lost >&2' 2>/dev/full", &[DECK])).ended();
    assert_eq!((ended.code, ended.errors().as_str()), (1, ""));
    for command in ["ls", "ls --json", "why --json", "--version", "place --help"] {
        let ended = Job::start(script(&format!("exec \"$0\" {command} >/dev/full"), &[DECK])).ended();
        let told = ended.errors();
        let is_told = told.contains("the result cannot be printed") && told.lines().count() == 1;
        assert!(ended.code == 1 && is_told, "{command}: {} {told}", ended.code);
    }
}

#[test]
fn a_benchmark_ends_soon_when_a_node_of_it_has_died_for_which_others_would_wait_for_minutes() {
    let job = Job::command(&["bench", "silent", "--at", "130"]);
    job.kill_child(&["bench-node", "silent", "3"]);
    let ended = job.ended();
    assert_eq!(ended.code, 1, "{}", ended.errors());
    assert!(ended.errors().contains("a node of the benchmark did not reach its end"), "{}", ended.errors());
}

#[test]
fn signals_end_all_nodes() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let mut job = Job::run(&["-n", "3", "sh", "-c", "echo $$; exec sleep 1000"]);
        let nodes = job.processes(3);
        job.signal(signal);
        assert_eq!(job.ended().code, code);
        nodes.into_iter().for_each(Process::ends);
    }
}

#[test]
fn a_node_that_ends_in_order_when_asked_may_do_so() {
    let text = "trap 'echo bye; exit 0' TERM; echo $$; while :; do sleep 1000 & wait; done";
    let mut job = Job::run(&["-n", "2", "sh", "-c", text]);
    let nodes = job.processes(2);
    job.signal(Signal::TERM);
    let ended = job.ended();
    assert_eq!((ended.code, ended.text().as_str()), (143, "bye\nbye\n"));
    nodes.into_iter().for_each(Process::ends);
}

#[test]
fn what_a_node_starts_while_it_ends_may_end_in_order_too() {
    let folder = folder("started-late");
    let late = "trap 'echo bye; exit' TERM; touch $0/ready; while :; do sleep 0.01; done";
    let text = "
        trap 'sh -c \"$1\" $0 & until test -e $0/ready; do :; done; exit 0' TERM
        echo $$
        while :; do sleep 1000 & wait; done";
    let mut job = Job::run(&["-n", "1", "sh", "-c", text, folder.to_str().unwrap(), late]);
    let nodes = job.processes(1);
    job.signal(Signal::TERM);
    let ended = job.ended();
    assert_eq!((ended.code, ended.text().as_str()), (143, "bye\n"));
    nodes.into_iter().for_each(Process::ends);
}

#[test]
fn a_signal_that_comes_twice_at_once_lets_nodes_end_in_order_too() {
    // As `timeout` does it: the second one comes while the nodes are about to end.
    let text = "trap 'sleep 0.5; echo bye; exit 0' TERM; echo $$; while :; do sleep 1000 & wait; done";
    let mut job = Job::run(&["-n", "2", "sh", "-c", text]);
    let nodes = job.processes(2);
    job.signal(Signal::TERM);
    job.signal(Signal::TERM);
    let ended = job.ended();
    assert_eq!((ended.code, ended.text().as_str()), (143, "bye\nbye\n"));
    nodes.into_iter().for_each(Process::ends);
}

#[test]
fn a_node_that_ignores_the_signal_is_killed() {
    let text = "trap '' TERM INT HUP; echo $$; while :; do sleep 1000; done";
    for signals in [&[Signal::TERM][..], &[Signal::INT, Signal::INT]] {
        let mut job = Job::run(&["-n", "2", "sh", "-c", text]);
        let nodes = job.processes(2);
        signals.iter().for_each(|signal| job.signal(*signal));
        // The second signal comes with the first: it is one, and the grace period ends it.
        assert_eq!(job.ended().code, if signals.len() == 1 { 143 } else { 130 });
        nodes.into_iter().for_each(Process::ends);
    }
}

#[test]
fn under_nohup_a_hangup_changes_nothing() {
    let mut job =
        Job::start(script(&format!("trap '' HUP; exec {DECK} run -n 1 sh -c 'echo $$; exec sleep 1000'"), &[]));
    let nodes = job.processes(1);
    job.signal(Signal::HUP);
    job.signal(Signal::TERM);
    assert_eq!(job.ended().code, 143);
    nodes.into_iter().for_each(Process::ends);
}

#[test]
fn a_reader_that_stopped_does_not_keep_a_signal_from_ending_all() {
    let mut job = Job::run(&["-n", "2", "sh", "-c", "echo $$; exec yes"]);
    let nodes = job.processes(1);
    job.signal(Signal::TERM);
    assert_eq!(job.code_without_reading(), 143);
    nodes.into_iter().for_each(Process::ends);
}

/// Prints its own number and that of a process that it started.
const WRAPPER: &str = "sleep 1000 & echo $$; echo $!; wait";

#[test]
fn when_deck_run_is_killed_so_are_its_nodes_and_what_they_started() {
    let mut job = Job::run(&["-n", "2", "sh", "-c", WRAPPER]);
    let processes = job.processes(4);
    job.signal(Signal::KILL);
    processes.into_iter().for_each(Process::ends);
    assert_eq!(job.ended().code, 137);
}

#[test]
fn what_closed_its_files_and_left_the_session_dies_with_deck_run_too() {
    let text = "exec env -i setsid setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' & wait; exec sleep 1000";
    let mut job = Job::run(&["-n", "2", "sh", "-c", text]);
    let processes = job.processes(2);
    job.signal(Signal::KILL);
    processes.into_iter().for_each(Process::ends);
    job.ended();
}

#[test]
fn when_the_process_behind_deck_run_is_killed_nothing_is_left_either() {
    let mut job = Job::run(&["-n", "2", "sh", "-c", WRAPPER]);
    let processes = job.processes(4);
    job.signal_worker(Signal::KILL);
    processes.into_iter().for_each(Process::ends);
    let ended = job.ended();
    assert_eq!(ended.code, 137);
    assert!(ended.errors().contains("SIGKILL"), "{}", ended.errors());
}

#[test]
fn what_a_node_leaves_running_ends_with_the_job() {
    let mut job = Job::run(&["-n", "2", "sh", "-c", "sleep 1000 & echo $!"]);
    let left = job.processes(2);
    assert_eq!(job.ended().code, 0);
    left.into_iter().for_each(Process::ends);
}

/// As bash does with `exec deck run ... > >(tee log)`: what reads the output is a child of the process that becomes
/// `deck run`.
#[test]
fn what_was_there_before_deck_run_is_left_alone() {
    let there = "(while kill -0 $$ 2> /dev/null; do sleep 0.01; done; echo left alone >&2)";
    let ended = Job::start(script(&format!("{there} & exec \"$0\" run -n 1 true"), &[DECK])).ended();
    assert_eq!((ended.code, ended.errors().as_str()), (0, "left alone\n"));
}

#[test]
fn nothing_is_left_behind_however_many_files_deck_run_may_open() {
    let folder = folder("few-files");
    for limit in 8..40 {
        let started = folder.join(limit.to_string());
        let text = format!("ulimit -n {limit}; exec \"$0\" run -n 2 sh -c 'sleep 1000 & echo $! >> \"$0\"' \"$1\"");
        let ended = Job::start(script(&text, &[DECK, started.to_str().unwrap()])).ended();
        let started = std::fs::read_to_string(&started).unwrap_or_default();
        for process in started.lines() {
            let is_left = std::fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "sleep\n");
            assert!(!is_left, "with {limit} files {process} is left: {} {}", ended.code, ended.errors());
        }
    }
}
