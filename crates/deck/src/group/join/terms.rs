//! What all members of a group must give alike: its size and its options.
//!
//! Whoever comes with others is refused. Those who wait for members are told as well, as one that they wait for will
//! not come.

use deck_mudeck::{Error, ErrorKind, NodeId, Result};

use super::Joining;
use crate::group::board::{Board, State};
use crate::group::options::SAME_OPTIONS;

const SAME_SIZE: &str = "give the same size in every member";

impl Joining<'_> {
    /// # Errors
    /// `Invalid` if the board is one for another size or with other options. Under the lock.
    pub(super) fn compare(&self, board: &Board) -> Result<()> {
        let compared = if board.members() == self.size {
            self.options.check(self.what(), board.ahead())
        } else {
            let what = format!("{}: it is a group of {}, not {}", self.what(), board.members(), self.size);
            Err(Error::new(ErrorKind::Invalid, what).with_remedy(SAME_SIZE))
        };
        compared.map_err(|error| {
            if board.state() == State::Open {
                board.disagree(self.node.number(), self.size);
            }
            error.with_peer(board.owner)
        })
    }

    /// What one who waits is told when a thread of `node` came that wanted a group of `size`.
    pub(super) fn disagreement(&self, (node, size): (NodeId, u32)) -> Error {
        let (wanted, remedy) = if size == self.size {
            ("with another completion".to_owned(), SAME_OPTIONS)
        } else {
            (format!("as a group of {size}, not {}", self.size), SAME_SIZE)
        };
        let what = format!("{}: a thread of {node} wants to join it {wanted}", self.what());
        Error::new(ErrorKind::Invalid, what).with_peer(node).with_remedy(remedy)
    }
}
