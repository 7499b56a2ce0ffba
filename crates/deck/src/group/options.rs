//! What the members of a group agree on when they join.

use deck_mudeck::{Error, ErrorKind, Result};

use super::protocols::ahead::Ahead;

pub(super) const SAME_OPTIONS: &str = "give the same options in every member";

/// When a collective call of a member ends.
#[doc(alias = "deck_completion_t")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Completion {
    /// When all members have come to it: each is told in this very call who is absent.
    #[default]
    Everyone,
    /// When the member's own part is done, which is what MPI promises: the root of a broadcast does not wait for
    /// anybody. Broadcasts, reductions to a root, gathers, scatters and scans of at most 16 KiB a block (and 64 KiB at
    /// the root) end so; all other calls still wait for all.
    Own,
}

impl Completion {
    /// By how many phases a member may be ahead of others. With so many, each of up to 16 members can be the root in
    /// turn, and gets through all calls up to the next of its own in one turn of a core.
    const OWN: Ahead = Ahead::by(16).expect("a power of two");

    /// The completion with this code, as in the C API.
    pub fn from_code(code: u32) -> Option<Completion> {
        match code {
            0 => Some(Completion::Everyone),
            1 => Some(Completion::Own),
            _ => None,
        }
    }

    pub(super) fn ahead(self) -> Ahead {
        match self {
            Completion::Everyone => Ahead::NONE,
            Completion::Own => Completion::OWN,
        }
    }

    pub(super) fn name(ahead: Ahead) -> &'static str {
        if ahead.is_none() { "Everyone" } else { "Own" }
    }
}

/// How a group works: the same in every member. Start from the default ones.
///
/// ```
/// use deck::{Completion, GroupOptions};
/// let options = GroupOptions { completion: Completion::Own };
/// assert_eq!(GroupOptions::default().completion, Completion::Everyone);
/// # let _ = options;
/// ```
#[doc(alias = "deck_group_options_t")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOptions {
    /// When calls end.
    pub completion: Completion,
}

impl GroupOptions {
    /// # Errors
    /// `Invalid` unless a group with `ahead` is what is asked for.
    pub(super) fn check(&self, what: String, ahead: Option<Ahead>) -> Result<()> {
        let wanted = self.completion.ahead();
        if ahead == Some(wanted) {
            return Ok(());
        }
        let (has, wants) = (ahead.map_or("something else", Completion::name), Completion::name(wanted));
        Err(Error::new(ErrorKind::Invalid, format!("{what}: its completion is {has}, not {wants}"))
            .with_remedy(SAME_OPTIONS))
    }
}
