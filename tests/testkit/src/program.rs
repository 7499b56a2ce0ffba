//! The program that nodes under test run: joins its job, then does what its input says, and ends with its input.
//!
//! A line is `LANE COMMAND ARGUMENT...`; every lane is a thread. Times are in milliseconds.
//!
//! | command | what it does, and the words of its answer |
//! |---|---|
//! | `mailbox NAME [MESSAGES BYTES]` | creates a mail box |
//! | `mailboxes-without-names COUNT` | creates so many, and keeps them |
//! | `close NAME` | closes it |
//! | `clone NAME TIME` | clones a mail box; its owner's number |
//! | `post NAME FIRST COUNT SIZE TIME` | posts messages; a note with the number of each that was posted |
//! | `retrieve NAME TIME` | retrieves one and checks it; sender, maker, number, size |
//! | `select TIME NAME...` | waits until one of these mail boxes has something; its place among them |
//! | `hold NAME TIME` | as `retrieve`, and keeps the message |
//! | `check` | checks all kept messages again; how many |
//! | `release` | drops all kept messages |
//! | `forward FROM TO TIME` | retrieves one and posts it on; its number |
//! | `ask TO FROM FIRST COUNT SIZE TIME` | posts messages and waits for the answer to each before the next; how many |
//! | `answer FROM TO COUNT TIME` | retrieves messages and posts each back; how many |
//! | `state NODE` | what became of a node |
//! | `count` | highest number ever given, plus one |
//! | `leave` | leaves the job |
//! | `join-group`, `leave-group`, `collective` ... | see the `groups` module |
//! | `course ...` | see the `course` module |
//! | `join COMMAND ...` | does that in a thread of its own, and waits for its end |
//! | `reads PROCESS` | whether the system lets it read that process's memory |
//! | `become COMMAND` | begins that program in place of this one: the process stays |
//! | `sh COMMAND` | runs a shell command that inherits what programs inherit |
//! | `fork NAME` | forks a child that calls DECK, with that mail box and its clone; the child's process, and in the lane `child` how its calls failed |
//! | `exchange ...` | see the `exchange` module |
//! | `begin COMMAND ...` | a note, then the command |
//! | | shared segments and what keeps order in them: see the `named` module; queues that consist of them: see the `queue` module |

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use deck_mudeck::{Error, Mailbox, MailboxClone, MailboxOptions, Message, Node, NodeId, Thread};
use deck_segment::attach;
use deck_sync::locks::lock;

use crate::answer::{Answer, Failure};
use crate::content::{self, Identity};
use crate::exchange::Exchange;
use crate::groups::Groups;
use crate::named::Named;
use crate::queue::Queues;

/// Where the program lies: Cargo tells the tests of its package.
#[macro_export]
macro_rules! node_program {
    () => {
        env!("CARGO_BIN_EXE_deck-faults-node")
    };
}

/// A node under test.
struct Program {
    node: Node,
    boxes: Mutex<HashMap<String, Arc<Mailbox>>>,
    clones: Mutex<HashMap<String, MailboxClone>>,
    kept: Mutex<Vec<Message>>,
    exchange: Mutex<Option<Arc<Exchange>>>,
    groups: Groups,
    named: Named,
    queues: Queues,
}

pub(crate) type Outcome = Result<String, Failure>;

/// Runs until the input ends. Exit code 3 if the job could not be joined.
pub fn run() -> ExitCode {
    let began = Instant::now();
    let joined = Node::join();
    let result = joined.as_ref().map(|node| node.number().0.to_string()).map_err(|error| Failure::from(error.clone()));
    say("join", began, false, result);
    let Ok(node) = joined else { return ExitCode::from(3) };
    let program = Arc::new(Program {
        node,
        boxes: Mutex::default(),
        clones: Mutex::default(),
        kept: Mutex::default(),
        exchange: Mutex::default(),
        groups: Groups::default(),
        named: Named::default(),
        queues: Queues::default(),
    });
    let mut lanes: HashMap<String, Sender<String>> = HashMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some((lane, command)) = line.split_once(' ') else { continue };
        let sender = lanes.entry(lane.to_string()).or_insert_with(|| program.clone().serve(lane.to_string()));
        let _ = sender.send(command.to_string());
    }
    // Whoever started it is gone or wants its end: no leave, no waiting for threads that are in a call.
    std::process::exit(0)
}

fn say(lane: &str, began: Instant, is_note: bool, result: Outcome) {
    let answer = Answer { took: began.elapsed(), is_note, result };
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{lane} {}", answer.write());
    let _ = output.flush();
}

/// The words of a command.
pub(crate) struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    pub fn next(&mut self) -> Result<&'a str, Failure> {
        self.0.next().ok_or_else(|| Failure::finding("a word is missing"))
    }

    pub fn number<T: std::str::FromStr>(&mut self) -> Result<T, Failure> {
        let word = self.next()?;
        word.parse().map_err(|_| Failure::finding(format!("{word} is no such number")))
    }

    pub fn time(&mut self) -> Result<Duration, Failure> {
        self.number().map(Duration::from_millis)
    }
}

impl Program {
    fn serve(self: Arc<Program>, lane: String) -> Sender<String> {
        let (sender, commands) = channel::<String>();
        std::thread::spawn(move || {
            for command in commands {
                let began = Instant::now();
                let note = |words: String| say(&lane, began, true, Ok(words));
                let mut command = command.as_str();
                if let Some(waiting) = command.strip_prefix("begin ") {
                    note(String::new());
                    command = waiting;
                }
                let result = self.obey(command, &note);
                say(&lane, began, false, result);
            }
        });
        sender
    }

    fn obey(self: &Arc<Program>, command: &str, note: &dyn Fn(String)) -> Outcome {
        let mut words = Words(command.split_whitespace());
        match words.next()? {
            "mailbox" => self.mailbox(&mut words),
            "mailboxes-without-names" => self.mailboxes_without_names(words.number()?),
            "close" => {
                let name = words.next()?;
                self.mailbox_of(name)?.close();
                lock(&self.boxes).remove(name);
                Ok(String::new())
            }
            "clone" => {
                let (name, time) = (words.next()?, words.time()?);
                let clone = self.node.clone_mailbox(name, time)?;
                let owner = clone.owner().0.to_string();
                lock(&self.clones).insert(name.to_string(), clone);
                Ok(owner)
            }
            "post" => self.post(&mut words, note),
            "retrieve" => self.retrieve(words.next()?, words.time()?).map(|(_, words)| words),
            "select" => {
                let time = words.time()?;
                let boxes = words.0.map(|name| self.mailbox_of(name)).collect::<Result<Vec<_>, _>>()?;
                let boxes: Vec<&Mailbox> = boxes.iter().map(|mailbox| &**mailbox).collect();
                Ok(deck_mudeck::select(&boxes, time)?.to_string())
            }
            "hold" => {
                let (message, words) = self.retrieve(words.next()?, words.time()?)?;
                lock(&self.kept).push(message);
                Ok(words)
            }
            "check" => self.check(),
            "release" => {
                lock(&self.kept).clear();
                Ok(String::new())
            }
            "forward" => self.forward(words.next()?, words.next()?, words.time()?),
            "ask" => self.ask(&mut words),
            "answer" => self.answer(&mut words),
            "state" => Ok(format!("{:?}", self.node.state(NodeId(words.number()?))?)),
            "count" => Ok(self.node.count().to_string()),
            "leave" => {
                self.node.clone().leave()?;
                Ok(String::new())
            }
            "join" => {
                let command = words.0.collect::<Vec<_>>().join(" ");
                let program = self.clone();
                let thread = Thread::spawn(move || program.obey(&command, &|_| ()))?;
                thread.join().unwrap_or_else(|_| Err(Failure::finding("it panicked")))
            }
            "become" => {
                let failed =
                    std::process::Command::new("sh").args(["-c", &words.0.collect::<Vec<_>>().join(" ")]).exec();
                Err(Failure::finding(failed.to_string()))
            }
            "sh" => {
                let text = command.split_once(' ').map_or("", |(_, text)| text);
                let child = std::process::Command::new("sh").args(["-c", text]).spawn();
                let child = child.map_err(|error| Failure::finding(error.to_string()))?;
                Ok(child.id().to_string())
            }
            "reads" => Ok(attach::is_allowed(words.number()?).to_string()),
            "join-group" => self.groups.join(&self.node, &mut words),
            "leave-group" => self.groups.leave(&mut words),
            "collective" => self.groups.collective(&mut words),
            "course" => self.groups.course(&self.node, &mut words),
            "fork" => self.fork(words.next()?),
            "exchange" => {
                let exchange = Exchange::start(&self.node, &mut words)?;
                *lock(&self.exchange) = Some(exchange);
                Ok(String::new())
            }
            other => {
                if let Some(answer) = self.named.obey(&self.node, other, &mut words, note)? {
                    return Ok(answer);
                }
                if let Some(answer) = self.queues.obey(&self.node, other, &mut words)? {
                    return Ok(answer);
                }
                match lock(&self.exchange).clone() {
                    Some(exchange) => exchange.obey(other, &mut words),
                    None => Err(Failure::finding(format!("no command {other}"))),
                }
            }
        }
    }

    fn mailbox(&self, words: &mut Words<'_>) -> Outcome {
        let name = words.next()?;
        let mut options = MailboxOptions::default();
        if let Ok(messages) = words.number() {
            options.messages = messages;
            options.bytes = words.number()?;
        }
        let mailbox = self.node.mailbox_with(Some(name), &options)?;
        lock(&self.boxes).insert(name.to_string(), Arc::new(mailbox));
        Ok(String::new())
    }

    fn mailboxes_without_names(&self, count: usize) -> Outcome {
        for number in 0..count {
            let mailbox = self.node.anonymous_mailbox()?;
            lock(&self.boxes).insert(format!("without a name, {number}"), Arc::new(mailbox));
        }
        Ok(String::new())
    }

    fn mailbox_of(&self, name: &str) -> Result<Arc<Mailbox>, Failure> {
        let found = lock(&self.boxes).get(name).cloned();
        found.ok_or_else(|| Failure::finding(format!("no mail box {name}")))
    }

    fn clone_of(&self, name: &str) -> Result<MailboxClone, Failure> {
        let found = lock(&self.clones).get(name).cloned();
        found.ok_or_else(|| Failure::finding(format!("no clone of {name}")))
    }

    fn post(&self, words: &mut Words<'_>, note: &dyn Fn(String)) -> Outcome {
        let name = words.next()?;
        let (first, count, size, time) =
            (words.number::<u64>()?, words.number::<u64>()?, words.number()?, words.time()?);
        let clone = self.clone_of(name)?;
        for number in first..first + count {
            let identity = Identity { maker: self.node.number().0, stream: content::stream(name), number };
            clone.post(message(&self.node, identity, size)?, time).map_err(Error::from)?;
            note(number.to_string());
        }
        Ok(count.to_string())
    }

    fn retrieve(&self, name: &str, time: Duration) -> Result<(Message, String), Failure> {
        let mailbox = self.mailbox_of(name)?;
        let message = mailbox.retrieve(time)?;
        let sender = message.sender().map_or("-".to_string(), |sender| sender.0.to_string());
        let words = match content::identity(message.as_bytes()) {
            Some(identity) if content::is_whole(identity, message.as_bytes()) => {
                format!("{sender} {} {} {}", identity.maker, identity.number, message.size())
            }
            Some(identity) => {
                return Err(Failure::finding(format!("corrupted: {identity:?}, {} bytes", message.size())));
            }
            None => format!("{sender} - - {}", message.size()),
        };
        Ok((message, words))
    }

    fn fork(&self, name: &str) -> Outcome {
        let (mailbox, clone) = (self.mailbox_of(name)?, self.clone_of(name)?);
        let content = message(&self.node, Identity { maker: self.node.number().0, stream: 0, number: 0 }, 1000)?;
        let mut changed = content.clone();
        let mut alone = self.node.message_with_capacity(1000)?;
        let child = move || {
            let began = Instant::now();
            let kind = |result: Result<(), Error>| {
                result.map_or_else(|error| format!("{:?}", error.kind()), |()| "Done".into())
            };
            let kinds = [
                kind(mailbox.retrieve(Duration::ZERO).map(drop)),
                kind(clone.post_shared(&content, Duration::ZERO)),
                kind(self.node.clone_mailbox(name, Duration::ZERO).map(drop)),
                kind(self.node.anonymous_mailbox().map(drop)),
                kind(self.node.state(self.node.number()).map(drop)),
                kind(Node::join().map(drop)),
                // What lies in the parent's memory.
                kind(self.node.message_with_capacity(1000).map(drop)),
                kind(changed.edit().map(drop)),
                kind(alone.resize(1000)),
                kind(alone.pack(&[1u8; 500])),
            ];
            say("child", began, false, Ok(kinds.join(" ")));
        };
        let child = crate::fork::fork(child).ok_or_else(|| Failure::finding("no process is to be had"))?;
        Ok(child.to_string())
    }

    fn check(&self) -> Outcome {
        let kept = lock(&self.kept);
        for message in kept.iter() {
            if !content::identity(message.as_bytes()).is_some_and(|it| content::is_whole(it, message.as_bytes())) {
                return Err(Failure::finding(format!("a kept message of {} bytes has changed", message.size())));
            }
        }
        Ok(kept.len().to_string())
    }

    fn ask(&self, words: &mut Words<'_>) -> Outcome {
        let (to, from, first, count) = (words.next()?, words.next()?, words.number::<u64>()?, words.number::<u64>()?);
        let (size, time) = (words.number()?, words.time()?);
        let clone = self.clone_of(to)?;
        for number in first..first + count {
            let identity = Identity { maker: self.node.number().0, stream: content::stream(to), number };
            clone.post(message(&self.node, identity, size)?, time).map_err(Error::from)?;
            let (answer, words) = self.retrieve(from, time)?;
            if content::identity(answer.as_bytes()) != Some(identity) {
                return Err(Failure::finding(format!("the answer to {number} is {words}")));
            }
        }
        Ok(count.to_string())
    }

    fn answer(&self, words: &mut Words<'_>) -> Outcome {
        let (from, to, count, time) = (words.next()?, words.next()?, words.number::<u64>()?, words.time()?);
        (0..count).try_for_each(|_| self.forward(from, to, time).map(drop))?;
        Ok(count.to_string())
    }

    fn forward(&self, from: &str, to: &str, time: Duration) -> Outcome {
        let clone = self.clone_of(to)?;
        let (message, words) = self.retrieve(from, time)?;
        clone.post(message, time).map_err(Error::from)?;
        Ok(words)
    }
}

/// A message with its content.
pub(crate) fn message(node: &Node, identity: Identity, size: usize) -> Result<Message, Error> {
    let mut message = node.message();
    message.resize(size)?;
    content::fill(identity, message.edit()?);
    Ok(message)
}
