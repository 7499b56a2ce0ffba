//! The manager, node 0's main thread: divides the slab, shows how far it is, and puts the result together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, NodeId, NodeState, Result, default_timeout};
use user_interface::command_line::counted;
use user_interface::patience::{Arrivals, stopped};
use user_interface::{Display, Progress, memory};

use crate::pace::Pace;
use crate::palette;
use crate::patience;
use crate::protocol::{self, Hello, Order, ToManager};
use crate::slab::Slab;

/// The node that the manager runs in.
pub const MANAGER_NODE: NodeId = NodeId(0);
/// How long the manager waits without looking at the other nodes.
const LOOK: Duration = Duration::from_millis(250);
/// Parts of the progress bar.
const PARTS: u64 = 1000;

/// What came out.
pub struct Outcome {
    /// What was calculated.
    pub slab: Slab,
    /// Temperatures, row by row from the upper left.
    pub temperatures: Vec<f64>,
    /// Sweeps that were done.
    pub sweeps: u64,
    /// The largest change of the last sweep that was judged.
    pub change: f64,
    /// From the division of the slab to the last row.
    pub elapsed: Duration,
    /// Computing threads that took part, by node.
    pub threads: BTreeMap<NodeId, u32>,
}

/// The manager of one slab.
pub struct Manager<'a> {
    node: &'a Node,
    mailbox: Mailbox,
    slab: Slab,
    nodes: u32,
    temperatures: Vec<f64>,
    /// The computing threads, from the first band's on once they have bands.
    hellos: Vec<Hello>,
    /// Those for whom there is no band.
    spare: Vec<Hello>,
    /// What threads said for which there is nothing to do, and whose mail boxes could not be reached.
    unreached: Vec<Message>,
    pace: Pace,
    /// Nodes that are stopped, of which the user has been told.
    stopped: Vec<NodeId>,
    /// Sweep and change that were told last.
    last: (u64, f64),
    /// How far the user was told that it is.
    told: Progress,
}

impl<'a> Manager<'a> {
    /// Creates the mail box that computing threads look for; `nodes` nodes take part.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if this job has a manager already; [`ErrorKind::NoMemory`].
    pub fn new(node: &'a Node, slab: Slab, nodes: u32) -> Result<Manager<'a>> {
        // Before the memory, whose pages may take longer to make than the others wait for a name.
        let mailbox = node.mailbox(protocol::MANAGER)?;
        let points = slab.width() as usize * slab.height() as usize;
        let temperatures = memory::defaults(points, &format!("the temperatures of {slab}"))?;
        let last = (0, f64::INFINITY);
        Ok(Manager {
            node,
            mailbox,
            slab,
            nodes,
            temperatures,
            hellos: Vec::new(),
            spare: Vec::new(),
            unreached: Vec::new(),
            pace: Pace::default(),
            stopped: Vec::new(),
            last,
            told: Progress::default(),
        })
    }

    /// A clone of the mail box for computing threads of this node.
    pub fn mailbox(&self) -> Result<MailboxClone> {
        self.mailbox.clone_here()
    }

    /// Calculates the slab with the computing threads of all nodes. Blocks until it is done.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if nodes do not come, [`ErrorKind::PeerLost`] if one is gone, and what a thread says that
    /// fails.
    pub fn run(mut self, display: &Display) -> Result<Outcome> {
        let elapsed = self.calculate(display);
        if elapsed.is_err() {
            self.tell_lost(display);
        }
        let elapsed = elapsed?;
        let mut threads = BTreeMap::new();
        for hello in &self.hellos {
            *threads.entry(hello.orders.owner()).or_default() += 1;
        }
        self.hellos.iter().chain(&self.spare).try_for_each(|hello| self.dismiss(hello))?;
        while let Ok(message) = self.mailbox.retrieve(Duration::ZERO) {
            self.send_away(message)?;
        }
        for message in std::mem::take(&mut self.unreached) {
            self.send_away(message)?;
        }
        let Manager { slab, temperatures, last: (sweeps, change), .. } = self;
        Ok(Outcome { slab, temperatures, sweeps, change, elapsed, threads })
    }

    /// From the threads' hellos to their last rows; how long that took, from the division of the slab on.
    fn calculate(&mut self, display: &Display) -> Result<Duration> {
        self.wait_for_threads(display)?;
        let start = Instant::now();
        let shares = self.divide(display)?;
        self.collect(display, &shares)?;
        Ok(start.elapsed())
    }

    /// There is nothing to do for this thread, or nothing more.
    fn dismiss(&self, hello: &Hello) -> Result<()> {
        // Who cannot be told sees that this node leaves.
        let _ = hello.orders.post(protocol::done(self.node)?, LOOK);
        Ok(())
    }

    fn open(&self, message: &mut Message, connect: impl Fn(&mut Message) -> Result<MailboxClone>) -> Result<ToManager> {
        protocol::open_to_manager(message, (self.slab.width(), self.slab.height()), connect)
    }

    /// Answers a thread for which there is nothing to do. Whoever does not answer back is answered at the end; who has
    /// failed is no loss.
    fn send_away(&mut self, message: Message) -> Result<()> {
        // What was read of it is read again then.
        match self.open(&mut message.clone(), |message| message.unpack_mailbox(LOOK)) {
            Ok(ToManager::Hello(hello)) => self.dismiss(&hello)?,
            Err(error) if error.kind() == ErrorKind::Timeout => self.unreached.push(message),
            _ => {}
        }
        Ok(())
    }

    /// The next thing that somebody who is needed says, if anybody does soon.
    fn next(&mut self, display: &Display) -> Result<Option<ToManager>> {
        match self.mailbox.retrieve(LOOK) {
            Ok(message) if message.sender().is_some_and(|sender| sender.0 >= self.nodes) => {
                self.send_away(message).map(|()| None)
            }
            Ok(mut message) => {
                let connect = |message: &mut Message| patience::connect(self.node, self.nodes, message);
                let said = self.open(&mut message, connect)?;
                if let ToManager::Failed(why) = said {
                    patience::check(self.node, self.nodes.min(self.node.count()))?;
                    let who = message.sender().map_or_else(|| "a node".to_owned(), |node| node.to_string());
                    let error = Error::new(ErrorKind::PeerLost, format!("a computing thread of {who} failed: {why}"));
                    return Err(error.with_remedy("look what that node said"));
                }
                Ok(Some(said))
            }
            Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::PeerLost) => {
                patience::check(self.node, self.nodes.min(self.node.count()))?;
                self.tell_stopped(display);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Tells the user what keeps all waiting.
    fn tell_stopped(&mut self, display: &Display) {
        let stopped = stopped(self.node, self.nodes);
        if stopped != self.stopped {
            match stopped.first() {
                Some(first) => display.notice(&format!("{first} is stopped, and all wait for it")),
                None => display.notice("all nodes go on"),
            }
            self.stopped = stopped;
        }
    }

    /// Tells who was lost, for whom nobody waits any more.
    fn tell_lost(&self, display: &Display) {
        let is_lost = |number: &u32| matches!(self.node.state(NodeId(*number)), Ok(NodeState::Lost));
        display.advance(Progress { lost: (0..self.nodes).filter(is_lost).collect(), ..self.told.clone() });
        display.withdraw_notice();
    }

    fn tell(&mut self, display: &Display, progress: Progress) {
        display.advance(progress.clone());
        self.told = progress;
    }

    /// Until every thread of every node has said hello.
    fn wait_for_threads(&mut self, display: &Display) -> Result<()> {
        let mut arrivals = Arrivals::within(default_timeout());
        loop {
            let mut threads = BTreeMap::new();
            for Hello { threads: of_node, orders, .. } in &self.hellos {
                threads.entry(orders.owner()).or_insert(*of_node);
            }
            let expected: u64 = threads.values().copied().map(u64::from).sum();
            if threads.len() == self.nodes as usize && self.hellos.len() as u64 == expected {
                return Ok(());
            }
            let words = format!("{} of {}", threads.len(), counted(self.nodes.into(), "node"));
            self.tell(display, Progress { total: PARTS, words, ..Progress::default() });
            if arrivals.are_overdue(self.node, self.nodes) {
                let (came, of) = (threads.len() as u64, self.nodes.into());
                for hello in &self.hellos {
                    // Who cannot be told sees that this node leaves.
                    let _ = hello.orders.post(protocol::given_up(self.node, came, of)?, LOOK);
                }
                return Err(not_all_came(came, of));
            }
            let said = self.next(display).map_err(|error| patience::before_there_were_parts(self.node, error));
            match said? {
                Some(ToManager::Hello(hello)) if hello.orders.owner().0 < self.nodes => {
                    self.hellos.push(hello);
                    arrivals.go_on();
                }
                _ => {}
            }
        }
    }

    /// Gives every thread its band: so many rows after the given one. Returns the rows of each node.
    fn divide(&mut self, display: &Display) -> Result<Vec<u64>> {
        self.hellos.sort_by_key(|hello| (hello.orders.owner(), hello.thread));
        let inner = u64::from(self.slab.height() - 2);
        let bands = (self.hellos.len() as u64).min(inner);
        // They stay until the end: a node that leaves is taken for one that is lost.
        self.spare = self.hellos.split_off(bands as usize);
        let first = |band: usize| (band as u64 * inner / bands) as u32;
        let mut shares = vec![0; self.nodes as usize];
        for (band, hello) in self.hellos.iter().enumerate() {
            let (above_row, rows) = (first(band), first(band + 1) - first(band));
            shares[hello.orders.owner().0 as usize] += u64::from(rows);
            let order = Order {
                slab: &self.slab,
                above_row,
                rows,
                nodes: self.nodes,
                is_watched: display.is_watched(),
                to_above: band.checked_sub(1).map(|above| self.hellos[above].below.address()),
                to_below: self.hellos.get(band + 1).map(|below| below.above.address()),
                judge: (band > 0).then(|| self.hellos[0].orders.address()),
                judged: if band > 0 {
                    Vec::new()
                } else {
                    self.hellos[1..].iter().map(|hello| hello.orders.address()).collect()
                },
            };
            patience::post(self.node, self.nodes, &hello.orders, protocol::welcome(self.node, &order)?)?;
        }
        Ok(shares)
    }

    /// Until the last rows of all bands have come.
    fn collect(&mut self, display: &Display, shares: &[u64]) -> Result<()> {
        let width = self.slab.width() as usize;
        let mut missing = self.slab.height() as usize;
        while missing > 0 {
            match self.next(display)? {
                Some(ToManager::Progress(sweep, change)) => {
                    self.last = (sweep, change);
                    let progress = self.progress(shares);
                    self.tell(display, progress);
                }
                Some(ToManager::Rows { from, first, temperatures, is_last }) => {
                    let rows = temperatures.len() / width;
                    display.show(first..first + rows as u32, from, || palette::paint(&temperatures));
                    if is_last {
                        self.temperatures[first as usize * width..][..temperatures.len()]
                            .copy_from_slice(&temperatures);
                        missing = missing.saturating_sub(rows);
                    }
                }
                Some(ToManager::Hello(_) | ToManager::Failed(_)) | None => {}
            }
        }
        let progress = self.progress(shares);
        self.tell(display, progress);
        Ok(())
    }

    /// All parts are done only where the change is under the tolerance.
    fn progress(&mut self, shares: &[u64]) -> Progress {
        let (sweep, change) = self.last;
        let done = match change < self.slab.tolerance() {
            true => PARTS,
            false => ((self.pace.fraction(sweep, change, &self.slab) * PARTS as f64) as u64).min(PARTS - 1),
        };
        let words = format!("sweep {sweep}, largest change {}", short(change));
        Progress { done, total: PARTS, words, shares: shares.to_vec(), ..Progress::default() }
    }
}

/// So many nodes came of so many, in time.
pub fn not_all_came(came: u64, of: u64) -> Error {
    let error = Error::new(ErrorKind::Timeout, format!("{came} of {} came", counted(of, "node")));
    error.with_remedy(format!("start the others, or use --nodes {came}"))
}

/// A number with three digits that count: 0.0123, 1.23e-7.
pub fn short(number: f64) -> String {
    if number == 0.0 || (1e-4..1e4).contains(&number) {
        let digits = (2 - number.max(1e-4).log10().floor() as i32).max(0) as usize;
        return format!("{number:.digits$}");
    }
    format!("{number:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_count() {
        assert_eq!(
            [short(0.012_345), short(1.0), short(12.34), short(1.234e-7)],
            ["0.0123", "1.00", "12.3", "1.23e-7"]
        );
    }
}
