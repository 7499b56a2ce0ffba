//! What a node says about a call: done, with some words; or failed, with the error taken apart.
//!
//! On the pipe an answer is one line: the lane that asked, how long the call took, and `done`, `failed` or `note`.

use std::fmt;
use std::time::Duration;

use deck_mudeck::{Error, NodeId};

/// An error of a node, as it was told over the pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the [`deck_mudeck::ErrorKind`], such as `PeerLost`.
    pub kind: String,
    /// The node that the error names.
    pub peer: Option<NodeId>,
    /// The whole text with its remedy.
    pub text: String,
}

/// An answer and how long the node took for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Time from the beginning of the call to its end, by the node's clock.
    pub took: Duration,
    /// True for what is told while the call goes on.
    pub is_note: bool,
    /// What the call brought.
    pub result: Result<String, Failure>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { kind: format!("{:?}", error.kind()), peer: error.peer(), text: error.to_string().replace('\n', " ") }
    }
}

impl Failure {
    /// A failure that is the test's own finding, not an error of DECK.
    pub fn finding(text: impl Into<String>) -> Failure {
        Failure { kind: "Finding".into(), peer: None, text: text.into().replace('\n', " ") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl Answer {
    /// The line for the pipe, without its lane.
    pub fn write(&self) -> String {
        let took = self.took.as_micros();
        match &self.result {
            Ok(words) if self.is_note => format!("{took} note {words}"),
            Ok(words) => format!("{took} done {words}"),
            Err(failure) => {
                let peer = failure.peer.map_or("-".to_string(), |peer| peer.0.to_string());
                format!("{took} failed {} {peer} {}", failure.kind, failure.text)
            }
        }
    }

    /// Reads such a line; `None` if it is none.
    pub fn read(line: &str) -> Option<Answer> {
        let mut parts = line.splitn(3, ' ');
        let took = Duration::from_micros(parts.next()?.parse().ok()?);
        let (word, rest) = (parts.next()?, parts.next().unwrap_or(""));
        let result = match word {
            "done" | "note" => Ok(rest.to_string()),
            "failed" => {
                let mut parts = rest.splitn(3, ' ');
                let kind = parts.next()?.to_string();
                let peer = parts.next()?.parse().ok().map(NodeId);
                Err(Failure { kind, peer, text: parts.next().unwrap_or("").to_string() })
            }
            _ => return None,
        };
        Some(Answer { took, is_note: word == "note", result })
    }

    /// The words of a call that had to succeed.
    ///
    /// # Panics
    /// If it failed.
    #[track_caller]
    pub fn words(self) -> String {
        self.result.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The failure of a call that had to fail.
    ///
    /// # Panics
    /// If it succeeded.
    #[track_caller]
    pub fn failure(self) -> Failure {
        match self.result {
            Ok(words) => panic!("it succeeded: {words}"),
            Err(failure) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deck_mudeck::ErrorKind;

    #[test]
    fn answers_come_through_the_pipe_as_they_were() {
        let error = Error::new(ErrorKind::PeerLost, "posting").with_peer(NodeId(3));
        for result in [Ok(String::new()), Ok("1 2 three".to_string()), Err(error.into())] {
            let answer = Answer { took: Duration::from_micros(12), is_note: false, result };
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
        assert_eq!(Answer::read("hello world"), None);
    }
}
