//! A computing thread: relaxes its band, tells its neighbours, and stops when all are told to.
//!
//! In each half of a sweep the two outer rows go first and are posted to the neighbours; while these messages travel
//! the rows between are relaxed. A band knows the halo of one colour before it relaxes the other, so every point sees
//! the same neighbours for every number of bands. A halo is read where it lies, in the neighbour's message, and copied
//! by nobody.
//!
//! The thread of the first band collects the largest changes and tells the verdict. Nobody stands still for that: the
//! verdict on a sweep counts [`LAG`] sweeps later, for all alike, so that the number of sweeps does not depend on who
//! was how fast.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use deck::{Error, ErrorKind, Mailbox, MailboxClone, Message, Node, Result};
use user_interface::command_line::counted;
use user_interface::memory;

use crate::band::{Band, COLOURS, Halos};
use crate::manager::not_all_came;
use crate::patience;
use crate::protocol::{self, Plan, ToThread, Verdict};
use crate::slab::LAG;

/// How often the first band tells how far it is, and has rows shown if somebody looks on.
const NEWS: Duration = Duration::from_millis(100);

/// Works as thread number `thread` of this node's `threads` for the manager until that says that all is done. If
/// something fails the manager is told.
///
/// # Errors
/// [`ErrorKind::PeerLost`] with a node that is gone; those of DECK's calls.
pub fn work(node: &Node, manager: &MailboxClone, thread: u32, threads: u32) -> Result<()> {
    let end = run(node, manager, thread, threads);
    if let Err(error) = &end
        // A manager that cancels retrieves no more.
        && error.kind() != ErrorKind::Cancelled
        && let Ok(message) = protocol::failed(node, error)
    {
        // The manager may be what failed: then this ends, too.
        let _ = patience::post(node, 1, manager, message);
    }
    end
}

fn run(node: &Node, manager: &MailboxClone, thread: u32, threads: u32) -> Result<()> {
    let (orders, above, below) = (node.anonymous_mailbox()?, node.anonymous_mailbox()?, node.anonymous_mailbox()?);
    let boxes = [orders.address(), above.address(), below.address()];
    patience::post(node, 1, manager, protocol::hello(node, thread, threads, boxes)?)?;
    let order = next_order(node, &orders, || node.count());
    let mut order = order.map_err(|error| patience::before_there_were_parts(node, error))?;
    let plan = match protocol::open_to_thread(node, &mut order)? {
        ToThread::Welcome(plan) => *plan,
        ToThread::Done => return Ok(()),
        ToThread::GivenUp(came, of) => return Err(not_all_came(came, of)),
        _ => return Err(out_of_turn(&order)),
    };
    let (width, rows) = (plan.slab.width() as usize, plan.rows as usize);
    let band = Band::try_new(width, plan.above_row as usize, rows, |column, row| plan.slab.start(column, row));
    let band = band.map_err(|_| {
        let bytes = Band::numbers(width, rows) * size_of::<f64>();
        memory::lacking_for_size(bytes, &format!("{} of the slab", counted(rows as u64, "row")))
    })?;
    let judge = Judge { heard: BTreeMap::new(), last: f64::INFINITY, news: Instant::now() };
    let heard = Default::default();
    Region { node, manager, orders, above, below, plan, band, heard, judge }.relax_to_the_end()
}

/// What is said to a thread next, for as long as the manager's node is there. It goes without a word only for the sake
/// of a node that is lost: that one is named, if it is among the first so many. Before a thread is welcome others may
/// still come, so they are counted then.
fn next_order(node: &Node, orders: &Mailbox, nodes: impl Fn() -> u32) -> Result<Message> {
    patience::retrieve(node, 1, orders).or_else(|gone| patience::check(node, nodes()).and(Err(gone)))
}

fn out_of_turn(message: &Message) -> Error {
    let error = Error::new(ErrorKind::Corrupt, "an order out of turn");
    message.sender().map_or(error.clone(), |peer| error.with_peer(peer))
}

/// What a thread has.
struct Region<'a> {
    node: &'a Node,
    manager: &'a MailboxClone,
    orders: Mailbox,
    above: Mailbox,
    below: Mailbox,
    plan: Plan,
    band: Band,
    /// Of each colour.
    heard: [Heard; COLOURS.len()],
    judge: Judge,
}

/// What the bands beside this one have told last of one colour; nothing before its first sweep.
#[derive(Default)]
struct Heard {
    above: Option<Message>,
    below: Option<Message>,
}

impl Heard {
    fn halos(&self) -> Result<Halos<'_>> {
        let [above, below] = [&self.above, &self.below].map(|halo| halo.as_ref().map(Message::elements).transpose());
        Ok(Halos { above: above?, below: below? })
    }
}

/// The first band's thread's knowledge of the others.
struct Judge {
    /// Of each sweep, how many bands have told their change, and the largest.
    heard: BTreeMap<u64, (usize, f64)>,
    /// The change of the last sweep that was judged.
    last: f64,
    /// When news were told last.
    news: Instant,
}

impl Judge {
    fn hear(&mut self, sweep: u64, change: f64) {
        let (count, largest) = self.heard.entry(sweep).or_insert((0, 0.0));
        *count += 1;
        *largest = largest.max(change);
    }
}

impl Region<'_> {
    fn relax_to_the_end(mut self) -> Result<()> {
        for sweep in 1.. {
            let mut change = 0.0f64;
            for colour in COLOURS {
                change = change.max(self.relax(colour)?);
            }
            self.report(sweep, change)?;
            if sweep <= LAG {
                continue;
            }
            match self.verdict(sweep - LAG)? {
                Verdict::GoOn => {}
                Verdict::Show => self.post_rows(false)?,
                Verdict::Stop => {
                    self.judge_to_the_end(sweep)?;
                    break;
                }
            }
        }
        self.post_rows(true)?;
        self.wait_for_the_others()
    }

    /// Relaxes one colour and exchanges it with the neighbours.
    fn relax(&mut self, colour: usize) -> Result<f64> {
        let rows = self.band.rows();
        // Only the outer rows have these beside them: with them relaxed the neighbours may have their messages back.
        let heard = mem::take(&mut self.heard[1 - colour]);
        let halos = heard.halos()?;
        let mut change = self.band.relax_beside(colour, 1..2, halos);
        if rows > 1 {
            change = change.max(self.band.relax_beside(colour, rows..rows + 1, halos));
        }
        drop(heard);
        self.tell(self.plan.to_above.as_ref(), colour, 1)?;
        self.tell(self.plan.to_below.as_ref(), colour, rows)?;
        if rows > 2 {
            change = change.max(self.band.relax(colour, 2..rows));
        }
        if self.plan.to_above.is_some() {
            self.heard[colour].above = Some(self.hear_halo(&self.above)?);
        }
        if self.plan.to_below.is_some() {
            self.hear_until_a_halo_comes()?;
            self.heard[colour].below = Some(self.hear_halo(&self.below)?);
        }
        Ok(change)
    }

    fn hear_halo(&self, from: &Mailbox) -> Result<Message> {
        let halo = self.retrieve(from)?;
        let is_row = halo.elements::<f64>()?.len() == self.band.row(0, 0).len();
        if is_row { Ok(halo) } else { Err(out_of_turn(&halo)) }
    }

    fn tell(&self, neighbour: Option<&MailboxClone>, colour: usize, row: usize) -> Result<()> {
        let Some(neighbour) = neighbour else { return Ok(()) };
        let halo = self.band.row(colour, row);
        let mut message = self.node.message_with_capacity(size_of_val(halo))?;
        message.pack(halo)?;
        self.post(neighbour, message)
    }

    fn post(&self, to: &MailboxClone, message: Message) -> Result<()> {
        patience::post(self.node, self.plan.nodes, to, message)
    }

    fn retrieve(&self, mailbox: &Mailbox) -> Result<Message> {
        patience::retrieve(self.node, self.plan.nodes, mailbox)
    }

    fn report(&mut self, sweep: u64, change: f64) -> Result<()> {
        match &self.plan.judge {
            Some(judge) => self.post(judge, protocol::change(self.node, sweep, change)?),
            None => {
                self.judge.hear(sweep, change);
                Ok(())
            }
        }
    }

    /// The verdict on a sweep, which the first band's thread makes and all others are told.
    fn verdict(&mut self, sweep: u64) -> Result<Verdict> {
        if self.plan.judge.is_none() {
            return self.judge(sweep);
        }
        let mut order = self.retrieve(&self.orders)?;
        match protocol::open_to_thread(self.node, &mut order)? {
            ToThread::Verdict(about, verdict) if about == sweep => Ok(verdict),
            _ => Err(out_of_turn(&order)),
        }
    }

    /// Where the first band's thread ended the sweeps before the tolerance was met, it tells how far they came in the
    /// `last` one.
    fn judge_to_the_end(&mut self, last: u64) -> Result<()> {
        if self.plan.judge.is_some() || self.judge.last < self.plan.slab.tolerance() {
            return Ok(());
        }
        let change = self.change_of(last)?;
        self.post(self.manager, protocol::progress(self.node, last, change)?)
    }

    /// The largest change of a sweep in all bands, which the first band's thread waits for.
    fn change_of(&mut self, sweep: u64) -> Result<f64> {
        let bands = self.plan.judged.len() + 1;
        while self.judge.heard.get(&sweep).is_none_or(|(count, _)| *count < bands) {
            let change = self.retrieve(&self.orders)?;
            self.hear(change)?;
        }
        Ok(self.judge.heard.remove(&sweep).map_or(0.0, |(_, change)| change))
    }

    fn judge(&mut self, sweep: u64) -> Result<Verdict> {
        let change = self.change_of(sweep)?;
        self.judge.last = change;
        let is_end = change < self.plan.slab.tolerance() || sweep + LAG >= self.plan.slab.max_sweeps();
        let is_news = is_end || self.judge.news.elapsed() >= NEWS;
        let verdict = match (is_end, is_news && self.plan.is_watched) {
            (true, _) => Verdict::Stop,
            (false, true) => Verdict::Show,
            (false, false) => Verdict::GoOn,
        };
        let message = protocol::verdict(self.node, sweep, verdict)?;
        for other in &self.plan.judged {
            self.post(other, message.clone())?;
        }
        if is_news {
            self.judge.news = Instant::now();
            self.post(self.manager, protocol::progress(self.node, sweep + LAG, change)?)?;
        }
        Ok(verdict)
    }

    fn hear(&mut self, mut message: Message) -> Result<()> {
        match protocol::open_to_thread(self.node, &mut message)? {
            ToThread::Change(sweep, change) => {
                self.judge.hear(sweep, change);
                Ok(())
            }
            _ => Err(out_of_turn(&message)),
        }
    }

    /// The first band's thread, which has a neighbour below only, hears changes while it waits for that one's halo.
    /// Otherwise many bands fill its mail box, and the next one waits for room in there before it posts the halo that
    /// this one waits for.
    fn hear_until_a_halo_comes(&mut self) -> Result<()> {
        if self.plan.judge.is_some() {
            return Ok(());
        }
        while patience::select(self.node, self.plan.nodes, &[&self.below, &self.orders])? != 0 {
            match self.orders.retrieve(Duration::ZERO) {
                Ok(change) => self.hear(change)?,
                Err(error) if matches!(error.kind(), ErrorKind::Timeout | ErrorKind::PeerLost) => {
                    patience::check(self.node, self.plan.nodes)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the manager the band's rows, and the edge of the slab beside it.
    fn post_rows(&self, is_last: bool) -> Result<()> {
        let rows = self.band.rows();
        let first = usize::from(self.plan.to_above.is_some());
        let last = rows + usize::from(self.plan.to_below.is_none());
        let width = self.plan.slab.width() as usize;
        let mut temperatures = memory::defaults(width, "a row of the slab")?;
        let at_once = protocol::rows_at_once(width);
        for from in (first..=last).step_by(at_once) {
            let rows = from..(from + at_once).min(last + 1);
            let number = self.plan.above_row + from as u32;
            let message = protocol::rows(self.node, (number, rows.len(), width), is_last, |message| {
                rows.into_iter().try_for_each(|row| {
                    self.band.read(row, &mut temperatures);
                    message.pack(&temperatures)
                })
            })?;
            self.post(self.manager, message)?;
        }
        Ok(())
    }

    /// Until all bands are with the manager: a node that left before would be one that failed.
    fn wait_for_the_others(&self) -> Result<()> {
        loop {
            // The others may go as soon as the manager has said so.
            let mut order = next_order(self.node, &self.orders, || self.plan.nodes)?;
            match protocol::open_to_thread(self.node, &mut order)? {
                ToThread::Done => return Ok(()),
                // Changes of sweeps after the last one that counted.
                ToThread::Change(..) => {}
                _ => return Err(out_of_turn(&order)),
            }
        }
    }
}
