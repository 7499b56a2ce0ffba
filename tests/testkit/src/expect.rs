//! What a test expects of a call that fails, and how long anything may take.

use std::time::Duration;

use crate::answer::Failure;
use crate::process::Process;

/// Every wait that needs a dead node ends within this.
pub const LIVENESS: Duration = Duration::from_secs(1);

/// Long enough to see that nothing more comes.
pub const A_MOMENT: Duration = Duration::from_millis(50);

impl Failure {
    /// It is of this kind, and names that node.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn expect(&self, kind: &str, of: &Process) {
        assert_eq!((self.kind.as_str(), self.peer), (kind, Some(of.number())), "{self}");
    }

    /// That node died.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn expect_death(&self, of: &Process) {
        self.expect("PeerLost", of);
        assert!(self.text.contains("died"), "{self}");
    }

    /// The time was over because that node stands still.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn expect_frozen(&self, of: &Process) {
        self.expect("Timeout", of);
        assert!(self.text.contains("frozen"), "{self}");
    }

    /// The time was over, whoever is to blame.
    ///
    /// # Panics
    /// If it is another one.
    #[track_caller]
    pub fn expect_timeout(&self) {
        assert_eq!(self.kind, "Timeout", "{self}");
    }
}
