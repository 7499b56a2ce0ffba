//! The barrier of a job: nobody goes on before all have come.

use std::fmt;
use std::time::Duration;

use deck_mudeck::{Error, ErrorKind, Node, NodeId, Result};
use deck_peers::{ObjectKind, OpenObject};
use deck_sync::{Deadline, Waiting, cancellation};

use super::arrivals::{Arrivals, Round};
use super::named::Named;

/// A barrier for a fixed number of threads of any nodes, who share it by its name. It can be passed again and again.
///
/// For threads that also exchange data, a group has the faster barrier and the collectives; this one needs
/// no membership: whoever comes, counts.
#[doc(alias = "deck_barrier_t")]
pub struct Barrier {
    named: Named,
    size: u32,
}

enum End {
    Over,
    Broken(NodeId),
}

struct InRound<'a> {
    arrivals: Arrivals<'a>,
    round: Round,
    opened: &'a OpenObject,
    departures: &'a dyn Fn() -> u64,
    seen: u64,
}

impl Waiting for InRound<'_> {
    type Output = End;

    fn look(&mut self) -> Option<End> {
        if self.arrivals.is_over(self.round) {
            return Some(End::Over);
        }
        let departures = (self.departures)();
        if departures == self.seen {
            return None;
        }
        self.seen = departures;
        self.opened.lost().map(End::Broken)
    }
}

impl Barrier {
    /// The most threads of a barrier.
    pub const SIZE_MAX: u32 = 1 << 20;

    /// Opens the barrier `name` for `size` threads, which exists from its first opening on. Blocks for a second at
    /// most, and only if another node stopped while it opened something.
    ///
    /// # Errors
    /// As [`crate::shared::Mutex::open`]; [`ErrorKind::Invalid`] also for a size of 0 or over [`Barrier::SIZE_MAX`],
    /// and if the barrier was opened with another size before.
    #[doc(alias = "deck_barrier_open")]
    pub fn open(node: &Node, name: &str, size: u32) -> Result<Barrier> {
        if !(1..=Barrier::SIZE_MAX).contains(&size) {
            let what = format!("a barrier for {size} threads: it has 1 to {}", Barrier::SIZE_MAX);
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        let named = Named::open(node, ObjectKind::Barrier, name)?;
        Arrivals::new(named.words()).set_size(size).map_err(|said| {
            let what = format!("opening {} for {size} threads: it was opened for {said}", named.described());
            Error::new(ErrorKind::Invalid, what).with_remedy("use the same number everywhere, or another name")
        })?;
        Ok(Barrier { named, size })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.named.name()
    }

    /// How many threads it waits for.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Comes to the barrier and waits, at most `timeout`, until all have come; true for the one that came last. What
    /// each did before it came is visible to all afterwards. After a failure the caller does not count as having come.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] saying how many had come and, after 300 ms or more, who has it open and is frozen;
    /// [`ErrorKind::Cancelled`]; [`ErrorKind::PeerLost`], naming the node, if one died that had the barrier open: now
    /// and in every later call, as nobody knows for whom it would have come; [`ErrorKind::Closed`] once
    /// [`Barrier::close`] was called; [`ErrorKind::NotInitialized`] after leaving and in a forked child.
    ///
    /// ```
    /// use std::time::Duration;
    /// use deck::shared::Barrier;
    /// use deck::{Node, Thread};
    /// const PATIENCE: Duration = Duration::from_secs(10);
    ///
    /// # fn main() -> deck::Result<()> {
    /// let node = Node::join()?;
    /// let threads: Vec<_> = (0..3)
    ///     .map(|_| {
    ///         let node = node.clone();
    ///         Thread::spawn(move || -> deck::Result<bool> {
    ///             let all_ready = Barrier::open(&node, "all ready", 3)?;
    ///             // What has to be ready is made ready here.
    ///             all_ready.wait(PATIENCE)
    ///         })
    ///     })
    ///     .collect::<deck::Result<_>>()?;
    /// let mut came_last = 0;
    /// for thread in threads {
    ///     came_last += u32::from(thread.join().expect("nobody panics")?);
    /// }
    /// assert_eq!(came_last, 1);
    /// # Ok(()) }
    /// ```
    #[doc(alias = "deck_barrier_wait")]
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        // An arrival that stays behind would count as that of somebody else.
        let _pledge = self.named.pledge()?;
        self.named.check_open(|| format!("waiting at {}", self.named.described()))?;
        let departures = || self.named.departures();
        let seen = departures();
        if let Some(dead) = self.named.opened().lost() {
            return Err(self.broken(dead));
        }
        let arrivals = Arrivals::new(self.named.words());
        let Some(round) = arrivals.arrive() else { return Ok(true) };
        let mut waiting = InRound { arrivals, round, opened: self.named.opened(), departures: &departures, seen };
        let error = match self.named.wait(&mut waiting, arrivals.opened(), Deadline::after(timeout)) {
            Ok(End::Over) => return Ok(false),
            Ok(End::Broken(dead)) => self.broken(dead),
            Err(stopped) => {
                let what =
                    format!("waiting at {}: {} of {} have come", self.named.described(), arrivals.arrived(), self.size);
                self.named.error(stopped, timeout, &what, "wait longer, or check that the others still run")
            }
        };
        deck_sync::point("barrier/withdrawing");
        // The last one may have come at this moment.
        if arrivals.withdraw(round) {
            return Err(error);
        }
        if error.kind() == ErrorKind::Cancelled {
            cancellation::postpone();
        }
        Ok(false)
    }

    /// Ends every wait through this handle, now and later, with [`ErrorKind::Closed`]. Never blocks.
    #[doc(alias = "deck_barrier_close")]
    pub fn close(&self) {
        self.named.close();
    }

    #[cold]
    fn broken(&self, dead: NodeId) -> Error {
        Error::new(ErrorKind::PeerLost, format!("waiting at {}: a node died that had it open", self.named.described()))
            .with_peer(dead)
            .with_remedy("agree on another barrier, under another name, for those who are left")
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Barrier({}, {} threads)", self.name(), self.size)
    }
}
