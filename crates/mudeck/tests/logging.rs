//! What the log tells of nodes that come and go.

mod job;

use std::sync::mpsc::channel;

use deck_mudeck::{LogLevel, set_log};
use job::{SOON, filled, invited, job_of};

/// One test: the log is the process's.
#[test]
fn a_node_that_goes_is_told_once_whether_it_was_met_or_not() {
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
