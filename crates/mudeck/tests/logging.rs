//! What the log tells of nodes that come and go.

mod job;

use std::sync::Mutex;
use std::sync::mpsc::channel;

use deck_mudeck::{LogLevel, set_log};
use job::{SOON, filled, invited, job_of};

/// One test at a time: the log is the process's.
static LOG: Mutex<()> = Mutex::new(());

#[test]
fn a_node_that_goes_is_told_once_whether_it_was_met_or_not() {
    let _alone = LOG.lock();
    let (broker, [here, stranger, met]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    met.clone_mailbox("box", SOON).unwrap().post(filled(&met, 10, 1), SOON).unwrap();
    mailbox.retrieve(SOON).unwrap();
    let (send, lines) = channel();
    set_log(Some(Box::new(move |level, line| drop(send.send((level, line.to_owned()))))));
    // Of each that goes those hear who are there: one after the other, so that nobody goes who has not heard.
    let next_gone = || loop {
        let (level, line) = lines.recv_timeout(SOON).expect("somebody is told");
        if line.ends_with(" left") || line.ends_with(" died") {
            return (level, line);
        }
    };
    stranger.leave().unwrap();
    for _ in [&here, &met] {
        assert_eq!(next_gone(), (LogLevel::Info, "node 1 left".to_owned()));
    }
    met.leave().unwrap();
    assert_eq!(next_gone(), (LogLevel::Info, "node 2 left".to_owned()));
    // What was told twice would come before this.
    invited(&broker).leave().unwrap();
    assert_eq!(next_gone(), (LogLevel::Info, "node 3 left".to_owned()));
    set_log(None);
}

#[test]
fn a_sink_that_panics_ends_no_node_and_one_that_takes_itself_away_waits_for_nobody() {
    let _alone = LOG.lock();
    let (broker, [here, going]) = job_of();
    let mailbox = here.mailbox("box").unwrap();
    let (send, calls) = channel();
    set_log(Some(Box::new(move |_, line| {
        send.send(line.to_owned()).expect("the test listens");
        panic!("on purpose, in a sink");
    })));
    going.leave().unwrap();
    while calls.recv_timeout(SOON).expect("somebody is told") != "node 1 left" {}
    // The thread that was in the sink has more to do.
    let late = invited(&broker);
    late.clone_mailbox("box", SOON).unwrap().post(filled(&late, 10, 1), SOON).unwrap();
    mailbox.retrieve(SOON).unwrap();

    let (send, calls) = channel();
    set_log(Some(Box::new(move |_, _| {
        set_log(None);
        send.send(()).expect("the test listens");
    })));
    late.leave().unwrap();
    calls.recv_timeout(SOON).expect("it has come back from taking itself away");
}
