//! Everybody posts to everybody: the load of the kill storm.
//!
//! Nodes sit at places 0, 1, 2, ...; when one is killed, another takes its place under the same names. The node at
//! place P owns the mail boxes `exchange-P` and `relay-P`. A thread for each other place posts numbered messages of
//! random sizes to whoever sits there; when it is gone, the thread clones the name again and begins with number 0.
//! Another thread retrieves and knows of every sender exactly what must come next. Now and then it has a third thread
//! post what it got on to the next place's relay, so that buffers have several holders.
//!
//! `exchange PLACE PLACES SEED` starts it. Then
//! * `met NODE TIME` waits until messages went both ways between this node and another,
//! * `told NODE TIME` waits until the loss of a node that was heard of was told,
//! * `stop TIME` ends the posting: words `NODE:COUNT` for each node posted to, then `NODE:COUNT` for relays, after a
//!   `/`,
//! * `drained NODE COUNT RELAYED TIME` waits until exactly so many have come from a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use deck_mudeck::{Error, ErrorKind, Mailbox, MailboxOptions, Message, Node, NodeId};
use deck_sync::locks::lock;

use crate::answer::Failure;
use crate::chance::{Chance, mix};
use crate::content::{self, Identity};
use crate::program::{Words, message};

/// A call that takes longer than this hangs.
const HANG: Duration = Duration::from_secs(20);
/// How often a waiting thread looks whether the exchange is over.
const LOOK: Duration = Duration::from_millis(100);
/// So few that posters are held back, and each message has a slot of its own.
const MESSAGES: u32 = 16;

/// What the threads have found out.
#[derive(Default)]
struct Progress {
    /// How many messages were posted to each node, and how many relayed.
    posted: BTreeMap<u32, u64>,
    relayed: BTreeMap<u32, u64>,
    /// How many came from each node.
    heard: BTreeMap<u32, u64>,
    relays_heard: BTreeMap<u32, u64>,
    /// Losses that were told by the two mail boxes.
    lost: BTreeSet<u32>,
    relays_lost: BTreeSet<u32>,
    /// Why mail boxes could not be cloned the last time.
    obstacles: BTreeMap<String, String>,
    /// What must not be.
    findings: Vec<String>,
    is_stopping: bool,
}

/// A node's part in an exchange.
pub struct Exchange {
    node: Node,
    seed: u64,
    progress: Mutex<Progress>,
    changed: Condvar,
    posters: Mutex<Vec<JoinHandle<()>>>,
}

/// How large message `number` of a stream is: mostly small, sometimes up to 200 KB.
fn size(seed: u64, identity: Identity) -> usize {
    let bits = mix(seed ^ identity.number ^ u64::from(identity.maker) << 40 ^ u64::from(identity.stream) << 16);
    let limit = [8, 8, 64, 1000, 3000, 3000, 20_000, 200_000][(bits & 7) as usize];
    Chance::new(bits).below(limit + 1)
}

impl Exchange {
    /// Creates the mail boxes and starts the threads.
    pub fn start(node: &Node, words: &mut Words<'_>) -> Result<Arc<Exchange>, Failure> {
        let (place, places, seed) = (words.number::<u32>()?, words.number::<u32>()?, words.number()?);
        let exchange = Arc::new(Exchange {
            node: node.clone(),
            seed,
            progress: Mutex::default(),
            changed: Condvar::new(),
            posters: Mutex::default(),
        });
        let options = MailboxOptions { messages: MESSAGES, bytes: 1 << 20 };
        let mailbox = node.mailbox_with(Some(&format!("exchange-{place}")), &options)?;
        let relay = node.mailbox_with(Some(&format!("relay-{place}")), &options)?;
        let (onward, relayed) = sync_channel::<Message>(4);
        let start = |work: Box<dyn FnOnce(&Exchange) + Send>| {
            let exchange = exchange.clone();
            std::thread::spawn(move || work(&exchange))
        };
        start(Box::new(move |exchange| exchange.retrieve(&mailbox, &onward)));
        start(Box::new(move |exchange| exchange.retrieve_relayed(&relay)));
        let mut posters = lock(&exchange.posters);
        let next = format!("relay-{}", (place + 1) % places);
        posters.push(start(Box::new(move |exchange| exchange.relay(&next, &relayed))));
        for other in (0..places).filter(|other| *other != place) {
            let name = format!("exchange-{other}");
            posters.push(start(Box::new(move |exchange| exchange.post(&name))));
        }
        drop(posters);
        Ok(exchange)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.changed.notify_all();
    }

    fn find(&self, finding: String) {
        self.change(|progress| progress.findings.push(finding));
    }

    fn is_stopping(&self) -> bool {
        lock(&self.progress).is_stopping
    }

    /// Clones `name` until the exchange stops; `None` then.
    fn clone_name(&self, name: &str) -> Option<deck_mudeck::MailboxClone> {
        let began = Instant::now();
        while !self.is_stopping() {
            match self.node.clone_mailbox(name, LOOK) {
                Ok(clone) => {
                    self.change(|progress| drop(progress.obstacles.remove(name)));
                    return Some(clone);
                }
                // Its owner is gone, and the next one not there yet.
                Err(error) if is_absence(&error) => {
                    self.change(|progress| drop(progress.obstacles.insert(name.to_string(), error.to_string())));
                }
                Err(error) => self.find(format!("cloning {name}: {error}")),
            }
            if began.elapsed() > HANG {
                self.find(format!("{name} cannot be cloned for {HANG:?}"));
                return None;
            }
        }
        None
    }

    fn post(&self, name: &str) {
        let stream = content::stream(name);
        while let Some(clone) = self.clone_name(name) {
            let owner = clone.owner().0;
            for number in 0.. {
                if self.is_stopping() {
                    return;
                }
                let identity = Identity { maker: self.node.number().0, stream, number };
                let posted = message(&self.node, identity, size(self.seed, identity))
                    .and_then(|message| clone.post(message, HANG).map_err(Error::from));
                match posted {
                    Ok(()) => self.change(|progress| *progress.posted.entry(owner).or_default() += 1),
                    Err(error) if is_end(&error) => {
                        if error.peer() != Some(NodeId(owner)) {
                            self.find(format!("the end of {name} does not name its owner, node {owner}: {error}"));
                        }
                        break;
                    }
                    Err(error) => {
                        self.find(format!("posting message {number} to {name} of node {owner}: {error}"));
                        return;
                    }
                }
            }
        }
    }

    fn retrieve(&self, mailbox: &Mailbox, onward: &SyncSender<Message>) {
        let stream = content::stream(mailbox.name().unwrap_or_default());
        let mut next = BTreeMap::<u32, u64>::new();
        let mut silent_since = Instant::now();
        loop {
            match mailbox.retrieve(LOOK) {
                Ok(message) => {
                    silent_since = Instant::now();
                    let sender = message.sender().map_or(u32::MAX, |sender| sender.0);
                    let number = next.entry(sender).or_default();
                    let identity = Identity { maker: sender, stream, number: *number };
                    *number += 1;
                    let expected = size(self.seed, identity);
                    if message.size() != expected || !content::is_whole(identity, message.as_bytes()) {
                        let is = content::identity(message.as_bytes());
                        self.find(format!(
                            "expected {identity:?} of {expected} bytes, got {is:?} of {} bytes",
                            message.size()
                        ));
                        return;
                    }
                    let was_lost = lock(&self.progress).lost.contains(&sender);
                    if was_lost {
                        self.find(format!("a message of node {sender} after its loss was told"));
                    }
                    self.change(|progress| *progress.heard.entry(sender).or_default() += 1);
                    if message.size() >= content::HEADER {
                        let _ = onward.try_send(message);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    let is_stopping = self.is_stopping();
                    if !is_stopping && silent_since.elapsed() > HANG {
                        self.find(format!("nothing has come for {HANG:?}"));
                        return;
                    }
                }
                Err(error) => {
                    if !self.told(&error, |progress| &mut progress.lost) {
                        return;
                    }
                }
            }
        }
    }

    fn retrieve_relayed(&self, mailbox: &Mailbox) {
        loop {
            match mailbox.retrieve(LOOK) {
                Ok(message) => {
                    let is = content::identity(message.as_bytes());
                    let is_whole = |it: Identity| {
                        message.size() == size(self.seed, it) && content::is_whole(it, message.as_bytes())
                    };
                    if !is.is_some_and(is_whole) {
                        self.find(format!("a relayed message of {} bytes is corrupted: {is:?}", message.size()));
                    }
                    let sender = message.sender().map_or(u32::MAX, |sender| sender.0);
                    self.change(|progress| *progress.relays_heard.entry(sender).or_default() += 1);
                }
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => {
                    if !self.told(&error, |progress| &mut progress.relays_lost) {
                        return;
                    }
                }
            }
        }
    }

    /// Takes note of a loss; false if the error is none.
    fn told(&self, error: &Error, lost: impl FnOnce(&mut Progress) -> &mut BTreeSet<u32>) -> bool {
        match (error.kind(), error.peer()) {
            (ErrorKind::PeerLost, Some(peer)) => {
                let mut is_first = true;
                self.change(|progress| is_first = lost(progress).insert(peer.0));
                if !is_first {
                    self.find(format!("the loss of {peer} was told twice"));
                }
                true
            }
            (ErrorKind::Closed | ErrorKind::NotInitialized, _) => false,
            _ => {
                self.find(format!("retrieving: {error}"));
                false
            }
        }
    }

    fn relay(&self, name: &str, messages: &Receiver<Message>) {
        while let Some(clone) = self.clone_name(name) {
            let owner = clone.owner().0;
            while !self.is_stopping() {
                let Ok(message) = messages.recv_timeout(LOOK) else { continue };
                match clone.post(message, HANG) {
                    Ok(()) => self.change(|progress| *progress.relayed.entry(owner).or_default() += 1),
                    Err(refused) if is_end(&refused.error) => break,
                    Err(refused) => {
                        self.find(format!("relaying to {name} of node {owner}: {}", refused.error));
                        return;
                    }
                }
            }
        }
    }

    /// Waits until `look` gives something, something must not be, or the time is over.
    fn wait<T>(&self, what: &str, time: Duration, look: impl Fn(&Progress) -> Option<T>) -> Result<T, Failure> {
        let until = Instant::now() + time;
        let mut progress = lock(&self.progress);
        loop {
            if !progress.findings.is_empty() {
                return Err(Failure::finding(progress.findings.join("; ")));
            }
            if let Some(found) = look(&progress) {
                return Ok(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let Progress { posted, relayed, heard, relays_heard, lost, relays_lost, obstacles, .. } = &*progress;
                return Err(Failure::finding(format!(
                    "{what} did not happen within {time:?}; posted {posted:?}, relayed {relayed:?}, heard {heard:?}, \
                     relays heard {relays_heard:?}, lost {lost:?}, relays lost {relays_lost:?}, last failures to clone \
                     {obstacles:?}"
                )));
            }
            progress = self.changed.wait_timeout(progress, left).map_or_else(|error| error.into_inner().0, |it| it.0);
        }
    }

    /// The commands of an exchange that runs.
    pub fn obey(&self, command: &str, words: &mut Words<'_>) -> Result<String, Failure> {
        match command {
            "met" => {
                let (node, time) = (words.number::<u32>()?, words.time()?);
                self.wait(&format!("meeting node {node}"), time, |progress| {
                    (progress.heard.contains_key(&node) && progress.posted.contains_key(&node)).then(String::new)
                })
            }
            "told" => {
                let (node, time) = (words.number::<u32>()?, words.time()?);
                self.wait(&format!("the loss of node {node}"), time, |progress| {
                    let is_due = progress.heard.contains_key(&node) && !progress.lost.contains(&node);
                    let relays_due = progress.relays_heard.contains_key(&node) && !progress.relays_lost.contains(&node);
                    (!is_due && !relays_due).then(String::new)
                })
            }
            "stop" => {
                self.change(|progress| progress.is_stopping = true);
                let posters = std::mem::take(&mut *lock(&self.posters));
                posters.into_iter().for_each(|poster| drop(poster.join()));
                let list = |counts: &BTreeMap<u32, u64>| {
                    counts.iter().map(|(node, count)| format!("{node}:{count}")).collect::<Vec<_>>().join(" ")
                };
                self.wait("stopping", Duration::ZERO, |progress| {
                    Some(format!("{} / {}", list(&progress.posted), list(&progress.relayed)))
                })
            }
            "drained" => {
                let (node, count, relays, time) =
                    (words.number::<u32>()?, words.number::<u64>()?, words.number::<u64>()?, words.time()?);
                self.wait(&format!("{count} messages and {relays} relays of node {node}"), time, |progress| {
                    let heard = |counts: &BTreeMap<u32, u64>| counts.get(&node).copied().unwrap_or(0);
                    (heard(&progress.heard) == count && heard(&progress.relays_heard) == relays).then(String::new)
                })
            }
            other => Err(Failure::finding(format!("no command {other}"))),
        }
    }
}

/// The mail box is gone with its owner.
fn is_end(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::PeerLost | ErrorKind::Closed)
}

/// Nobody owns the name just now, or its owner goes while it is being met.
fn is_absence(error: &Error) -> bool {
    is_end(error) || error.kind() == ErrorKind::Timeout
}
