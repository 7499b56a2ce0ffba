//! `deck run` on a terminal: progress bars of the nodes. `script` makes the terminal; without it these tests are
//! skipped.

use std::process::Command;

use crate::job::{DECK, Job, folder, run};

/// A shell command on a terminal of its own that can show bars, whatever the tests themselves run on.
fn on_terminal(command: &str) -> Option<Job> {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: `script` (of util-linux), which makes a terminal, is not installed");
        return None;
    }
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &format!("export TERM=xterm; {command}"), "/dev/null"]);
    Some(Job::start(script))
}

#[test]
fn a_bar_is_shown_at_once_and_stays_below_the_lines_of_others() {
    let folder = folder("bar");
    let node = "
        if mkdir $0/bar 2>/dev/null; then
            printf '10%%\\r' >&2
            until test -e $0/end; do :; done
        else
            until test -e $0/line; do :; done
            echo line
        fi";
    let node_file = folder.join("node");
    std::fs::write(&node_file, node).unwrap();
    let (node_file, at) = (node_file.display(), folder.display());
    let command = format!("{DECK} run -n 2 sh -c \"$(cat {node_file})\" {at}");
    let Some(mut job) = on_terminal(&command) else { return };
    assert_eq!(job.up_to("10%\r"), "10%\r");
    std::fs::write(folder.join("line"), "").unwrap();
    assert_eq!(job.up_to("10%\r"), "\x1b[Kline\r\n10%\r");
    std::fs::write(folder.join("end"), "").unwrap();
    let ended = job.ended();
    assert_eq!((ended.code, ended.text().as_str()), (0, "\x1b[K"));
}

#[test]
fn nodes_are_told_how_wide_the_terminal_is() {
    let Some(mut job) =
        on_terminal(&format!("stty cols 123; {DECK} run -n 1 sh -c 'echo it has $DECK_TERMINAL columns'"))
    else {
        return;
    };
    assert_eq!(job.up_to("\n"), "it has 123 columns\r\n");
    assert_eq!(job.ended().code, 0);
}

#[test]
fn nodes_are_told_of_no_terminal_where_bars_would_spoil_something() {
    let tell = "sh -c 'echo ${DECK_TERMINAL-none}'";
    for command in [format!("{DECK} run -n 1 {tell} 2>/dev/null"), format!("TERM=dumb {DECK} run -n 1 {tell}")] {
        let Some(mut job) = on_terminal(&command) else { return };
        assert_eq!(job.up_to("\n"), "none\r\n");
    }
    if let Some(mut job) = on_terminal(&format!("{DECK} run -n 1 --tag {tell}")) {
        assert_eq!(job.up_to("\n"), "[p0] none\r\n");
    }
    assert_eq!(run(&["-n", "1", "sh", "-c", "echo ${DECK_TERMINAL-none}"]).text(), "none\n");
}
