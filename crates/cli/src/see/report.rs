//! `deck why`: who waits for what, in words and in JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use deck_peers::observe::{JobSight, NodeSight};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::{Value, json};

use super::cycles::Cycle;
use super::look::{self, Look};
use super::waits::{Absent, Wait, Whom, whereabouts};
use super::{ALL, OUT_OF_SIGHT, SHOWN, called, live, quoted, state_word};
use crate::result::counted;

/// What is told of a job.
pub struct Report {
    job: JobSight,
    waits: Vec<Wait>,
    cycles: Vec<Cycle>,
}

impl Report {
    /// Looks at the job for as long as it takes to be sure.
    ///
    /// # Errors
    /// If it cannot be looked at once more, as would be needed.
    pub fn of(job: JobSight) -> deck::Result<Report> {
        let (Look { job, waits, .. }, cycles) = look::until_sure(job)?;
        Ok(Report { job, waits, cycles })
    }

    /// In words: of `all`, or of a few of those that are alike.
    pub fn text(&self, all: bool) -> String {
        let shown = if all { usize::MAX } else { SHOWN };
        text(&self.job, &self.waits, &self.cycles, shown).unwrap_or_default()
    }
}

/// In JSON. There may be thousands of waits, each for thousands: one is put together at a time.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report { job, waits, cycles } = self;
        let node = |node: &NodeSight| {
            json!({
                "node": node.number.0,
                "state": state_word(node.state),
                "process": node.process,
                "untold": node.untold,
            })
        };
        let cycle = |cycle: &Cycle| {
            let unless = cycle.bystanders.iter().map(|(node, thread)| json!({ "node": node.0, "thread": thread }));
            json!({
                "waits": cycle.waits,
                "unless_guests": cycle.on_guests,
                "unless": unless.collect::<Vec<_>>(),
            })
        };
        // In the order of their names, as everywhere in JSON.
        let mut object = serializer.serialize_struct("Report", 5)?;
        object.serialize_field("cycles", &cycles.iter().map(cycle).collect::<Vec<_>>())?;
        object.serialize_field("job", &job.table.job())?;
        object.serialize_field("nodes", &job.nodes.iter().map(node).collect::<Vec<_>>())?;
        object.serialize_field("processes", &job.processes)?;
        object.serialize_field("waits", &Waits(job, waits))?;
        object.end()
    }
}

struct Waits<'a>(&'a JobSight, &'a [Wait]);

impl Serialize for Waits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Waits(job, waits) = *self;
        serializer.collect_seq(waits.iter().map(|wait| wait_value(job, waits, wait)))
    }
}

fn wait_value(job: &JobSight, waits: &[Wait], wait: &Wait) -> Value {
    let whom = |whom: &Whom| match whom {
        Whom::Thread(node, thread) => json!({ "node": node.0, "thread": thread }),
        other => json!({ "node": other.node().0, "thread": null }),
    };
    let absent = |absent: &Absent| {
        json!({
            "index": absent.index,
            "node": absent.node.map(|node| node.0),
            "thread": absent.thread,
            "where": place(job, waits, absent),
        })
    };
    json!({
        "node": wait.node.0,
        "thread": wait.thread,
        "thread_name": wait.thread_name,
        "for": wait.goal.word(),
        "name": wait.name,
        "text": wait.doing,
        "since_seconds": seconds(wait.waited_ns),
        "left_seconds": wait.left_ns.map(seconds),
        "on": wait.on.iter().map(whom).collect::<Vec<_>>(),
        "needs_all": wait.needs_all,
        "on_newcomers": wait.on_newcomers,
        "note": wait.note,
        "absent": wait.absent.iter().map(absent).collect::<Vec<_>>(),
    })
}

fn seconds(ns: u64) -> f64 {
    (ns / 1_000_000) as f64 / 1000.0
}

fn place(job: &JobSight, waits: &[Wait], absent: &Absent) -> String {
    match absent.node {
        None => "nobody has come as this member".to_owned(),
        Some(node) if absent.has_left => format!("it has left the group ({node})"),
        Some(node) => whereabouts(job, waits, node, absent.thread),
    }
}

/// `thread 12 "main"`.
fn thread(wait: &Wait) -> String {
    format!("thread {} {}", wait.thread, quoted(&wait.thread_name))
}

/// What is not told one by one.
fn more(count: usize, shown: usize, one: &str, many: &str) -> Option<String> {
    let more = count.checked_sub(shown).filter(|more| *more > 0)?;
    Some(format!("and {} more", counted(more, one, many)))
}

fn text(job: &JobSight, waits: &[Wait], cycles: &[Cycle], shown: usize) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let has_untold = job.nodes.iter().any(|node| node.untold > 0);
    let may_be_more = has_untold || job.nodes.iter().any(NodeSight::is_out_of_sight);
    writeln!(
        text,
        "{}: {}, {}",
        called(job),
        counted(live(job), "node", "nodes"),
        how_many_wait(waits.len(), may_be_more)
    )?;
    for node in job.nodes.iter().filter(|node| node.is_out_of_sight()) {
        writeln!(text, "  {}, {}: {OUT_OF_SIGHT}", node.number, state_word(node.state))?;
    }
    for node in job.nodes.iter().filter(|node| node.process.is_some()) {
        write_node(&mut text, job, waits, node, shown)?;
    }
    for cycle in cycles.iter().take(shown) {
        write_cycle(&mut text, waits, cycle)?;
        if has_untold {
            writeln!(text, "    as far as is known: what could not be noted may end it")?;
        }
    }
    if let Some(more) = more(cycles.len(), shown, "cycle", "cycles") {
        writeln!(text, "  {more} {ALL}")?;
    }
    Ok(text)
}

fn write_node(
    text: &mut String,
    job: &JobSight,
    waits: &[Wait],
    node: &NodeSight,
    shown: usize,
) -> Result<(), fmt::Error> {
    let process = node.process.unwrap_or_default();
    writeln!(text, "  {} (process {process}), {}", node.number, state_word(node.state))?;
    let mut alike: BTreeMap<_, usize> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.node == node.number) {
        let count = alike.entry((&wait.doing, &wait.on, &wait.note, &wait.absent)).or_default();
        *count += 1;
        if *count > shown {
            continue;
        }
        writeln!(text, "    {} waits {}", thread(wait), wait.doing)?;
        writeln!(text, "      for {:.1} s, {}", seconds(wait.waited_ns), end(wait))?;
        for absent in wait.absent.iter().take(shown) {
            let node = absent.node.map_or(String::new(), |node| format!(" ({node})"));
            writeln!(text, "      absent: index {}{node}: {}", absent.index, place(job, waits, absent))?;
        }
        if let Some(more) = more(wait.absent.len(), shown, "member", "members") {
            writeln!(text, "      absent: {more} {ALL}")?;
        }
        if wait.absent.is_empty() {
            writeln!(text, "      on {}", on(job, waits, wait))?;
        }
    }
    if alike.is_empty() {
        writeln!(text, "    {} in DECK", how_many_wait(0, node.untold > 0))?;
    }
    for ((doing, ..), count) in alike {
        if let Some(more) = more(count, shown, "thread", "threads") {
            writeln!(text, "    {more} wait{} {doing} {ALL}", if count == shown + 1 { "s" } else { "" })?;
        }
    }
    if node.untold > 0 {
        writeln!(
            text,
            "    and more: {} could not be noted, for want of room",
            counted(node.untold as usize, "thing", "things")
        )?;
    }
    Ok(())
}

fn write_cycle(text: &mut String, waits: &[Wait], cycle: &Cycle) -> Result<(), fmt::Error> {
    let guests = if cycle.on_guests { ", unless a node that joins the job ends one" } else { "" };
    writeln!(text, "  cycle: these wait for one another only{guests}")?;
    for (index, at) in cycle.waits.iter().enumerate() {
        let (wait, next) = (&waits[*at], &waits[cycle.waits[(index + 1) % cycle.waits.len()]]);
        writeln!(
            text,
            "    {}, {} waits {}: for {}, {}",
            wait.node,
            thread(wait),
            wait.doing,
            next.node,
            thread(next)
        )?;
    }
    if !cycle.bystanders.is_empty() {
        let named = |(node, thread): &(deck::NodeId, u32)| format!("{thread} of {node}");
        let named: Vec<_> = cycle.bystanders.iter().map(named).collect();
        writeln!(text, "    unless one that sleeps outside of DECK ends it: thread {}", named.join(", "))?;
    }
    Ok(())
}

/// How many threads wait, as far as that is known.
fn how_many_wait(count: usize, may_be_more: bool) -> String {
    match (count, may_be_more) {
        (0, false) => "no thread waits".to_owned(),
        (0, true) => "no thread is known to wait".to_owned(),
        _ => counted(count, "thread waits", "threads wait"),
    }
}

fn end(wait: &Wait) -> String {
    wait.left_ns.map_or("without end".to_owned(), |left| format!("{:.1} s more at most", seconds(left)))
}

/// Who could end a wait, in words.
fn on(job: &JobSight, waits: &[Wait], wait: &Wait) -> String {
    let note = wait.note.as_ref();
    if let Some(note) = note {
        return format!("{}: {note}", if wait.on.is_empty() { "nobody" } else { "anybody" });
    }
    let nodes: BTreeSet<_> = wait.on.iter().map(|whom| whom.node()).collect();
    let state = |node: &deck::NodeId| match job.node(*node)? {
        sight if sight.is_out_of_sight() => Some("out of sight"),
        sight => (sight.state != deck::NodeState::Live).then(|| state_word(sight.state)),
    };
    let which_is = |node: &deck::NodeId| state(node).map_or(String::new(), |state| format!(", which is {state}"));
    if let Some(Whom::Runner(node)) = wait.on.first() {
        return format!("{node}{}: one of its threads that waits for nothing in DECK", which_is(node));
    }
    if let [Whom::Thread(node, thread)] = wait.on.iter().copied().collect::<Vec<_>>()[..] {
        return format!("{node}: {}", whereabouts(job, waits, node, Some(thread)));
    }
    let has_others = |node: &deck::NodeId| {
        let threads = job.node(*node).map_or(&[][..], |node| &node.threads);
        threads.iter().any(|thread| !thread.is_service() && thread.number != wait.thread)
    };
    // Its own node is no help where it has no other thread, and is named only if there is no other.
    let is_own = |node: &deck::NodeId| *node == wait.node;
    let is_alone = nodes.len() == 1 && !wait.on_newcomers;
    let helpful = nodes.iter().filter(|node| is_alone || !is_own(node) || has_others(node));
    let named = helpful.map(|node| {
        let own = match is_own(node) {
            true if has_others(node) => Some("its other threads"),
            true => Some("only another thread of its own could do that, and none has called DECK yet"),
            false => None,
        };
        if is_alone {
            return format!("{node}{}{}", which_is(node), own.map_or(String::new(), |own| format!(": {own}")));
        }
        let remarks: Vec<&str> = state(node).into_iter().chain(own).collect();
        if remarks.is_empty() { node.to_string() } else { format!("{node} ({})", remarks.join("; ")) }
    });
    let newcomers = wait.on_newcomers.then(|| "a node that is still to come".to_owned());
    let named: Vec<_> = named.chain(newcomers).collect();
    let any = if named.len() > 1 && !wait.needs_all { "any of " } else { "" };
    if named.is_empty() { "nobody that is known".to_owned() } else { format!("{any}{}", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_nobody_waits_is_told_only_where_it_is_known() {
        assert_eq!(how_many_wait(0, false), "no thread waits");
        assert_eq!(how_many_wait(0, true), "no thread is known to wait");
        assert_eq!(how_many_wait(1, true), "1 thread waits");
    }
}
