//! `deck ls`: the user's jobs, and what is in one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use deck::{NodeId, NodeState, observe};
use deck_peers::observe::{JobSight, MemoryFacts, NodeSight, Told};
use deck_peers::{MailboxId, Names, ObjectKind, Objects, Subject};
use serde_json::{Value, json};

use super::{ALL, OUT_OF_SIGHT, SHOWN, called, is_over, live, quoted, state_word};
use crate::result::counted;

/// Rates are counted over so long.
const INTERVAL: Duration = Duration::from_millis(200);

/// One line for a job.
pub fn line(job: &JobSight) -> String {
    match left_behind(job) {
        Some(why) => format!("{}: {why}\n", called(job)),
        None => format!("{}: {}, {}\n", called(job), counted(live(job), "node", "nodes"), processes(job)),
    }
}

/// The same in JSON.
pub fn line_value(job: &JobSight) -> Value {
    json!({ "job": job.table.job(), "processes": job.processes, "nodes": nodes(job) })
}

/// Why there is a job whose nodes are all gone.
fn left_behind(job: &JobSight) -> Option<String> {
    let why = || format!("no node is left; {} still hold its memory", processes(job));
    is_over(job).then(why)
}

fn processes(job: &JobSight) -> String {
    let numbers: Vec<String> = job.processes.iter().map(u32::to_string).collect();
    format!("processes {}", numbers.join(" "))
}

fn nodes(job: &JobSight) -> Vec<Value> {
    let memory = |node: &NodeSight| {
        let (facts, bytes) = node.memory()?;
        Some(json!({
            "bytes": bytes,
            "huge_pages": facts.huge_pages,
            "numa_nodes": facts.numa_nodes,
            "refused": facts.is_refused,
            "elsewhere": facts.is_elsewhere,
        }))
    };
    let node = |node: &NodeSight| {
        let state = state_word(node.state);
        json!({ "node": node.number.0, "state": state, "process": node.process, "memory": memory(node) })
    };
    job.nodes.iter().map(node).collect()
}

/// What the memory of a node is like, in words.
fn memory(facts: MemoryFacts, bytes: u64) -> String {
    let mut text = match bytes {
        0..0x10_0000 => format!("{} KiB of memory", bytes.div_ceil(1 << 10)),
        _ => format!("{:.1} MiB of memory", bytes as f64 / f64::from(1 << 20)),
    };
    if facts.huge_pages {
        text += ", in huge pages";
    }
    if facts.numa_nodes > 0 {
        text += &format!(", bound to {}", counted(facts.numa_nodes.into(), "NUMA node", "NUMA nodes"));
    }
    if facts.is_refused {
        text += " (the system refused to bind some)";
    }
    if facts.is_elsewhere {
        text += " (some lies on others)";
    }
    text
}

/// A mail box with what lies in its rings.
struct Mailbox<'a> {
    id: MailboxId,
    told: &'a Told,
    rings: Vec<Ring>,
}

impl Mailbox<'_> {
    /// Messages that lie in it.
    fn filled(&self) -> u64 {
        self.rings.iter().map(|ring| u64::from(ring.sight.filled())).sum()
    }

    /// Messages that are posted to it.
    fn per_second(&self) -> f64 {
        // The sum of nothing is -0.
        self.rings.iter().map(|ring| ring.per_second).sum::<f64>() + 0.0
    }
}

struct Ring {
    from: NodeId,
    sight: observe::RingSight,
    per_second: f64,
}

/// Everything that is in a job.
pub struct Content<'a> {
    job: &'a JobSight,
    mailboxes: Vec<Mailbox<'a>>,
    groups: Vec<(String, Vec<observe::MemberSight>)>,
    objects: Vec<Thing>,
}

impl Content<'_> {
    /// Looks; where there are mail boxes with rings, for [`INTERVAL`].
    pub fn of(job: &JobSight) -> Content<'_> {
        Content { job, mailboxes: mailboxes(job), groups: groups(job), objects: objects(job) }
    }

    /// In words. Nodes that are gone are summed up if there are many, unless `all` are wanted.
    pub fn text(&self, all: bool) -> String {
        let mut text = String::new();
        // A string takes everything.
        let _ = self.write(&mut text, all);
        text
    }

    /// In JSON.
    pub fn value(&self) -> Value {
        json!({
            "job": self.job.table.job(),
            "processes": self.job.processes,
            "nodes": nodes(self.job),
            "mailboxes": self.mailboxes.iter().map(|mailbox| json!({
                "name": (!mailbox.told.name.is_empty()).then_some(&mailbox.told.name),
                "node": mailbox.id.owner.0,
                "messages_per_node": mailbox.told.facts[1],
                "bytes_per_node": mailbox.told.facts[2],
                "filled": mailbox.filled(),
                "per_second": mailbox.per_second(),
                "from": mailbox.rings.iter().map(|ring| json!({
                    "node": ring.from.0,
                    "filled": ring.sight.filled(),
                    "on_baton": ring.sight.on_baton,
                    "messages": ring.sight.messages,
                    "slots_filled": ring.sight.slots_filled,
                    "slots": ring.sight.slots,
                    "per_second": ring.per_second,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(|(name, members)| json!({
                "name": name,
                "members": members.iter().map(|member| json!({
                    "index": member.index,
                    "node": member.node.map(|node| node.0),
                    "left": member.has_left,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "segments": self.objects.iter().filter_map(|thing| Some((thing, thing.segment?))).map(|(thing, (home, bytes))| json!({
                "name": thing.name, "home": home.0, "bytes": bytes, "nodes": numbers(&thing.nodes),
            })).collect::<Vec<_>>(),
            "things": self.objects.iter().map(|thing| json!({
                "kind": thing.kind.word(), "name": thing.name, "nodes": numbers(&thing.nodes), "state": thing.state,
            })).collect::<Vec<_>>(),
        })
    }

    fn write(&self, text: &mut String, all: bool) -> std::fmt::Result {
        let job = self.job;
        writeln!(text, "{}", called(job))?;
        if job.nodes.is_empty() {
            writeln!(text, "  no node has joined yet; {}", processes(job))?;
        }
        let gone = gone(job.nodes.iter().map(|node| node.state)).filter(|_| !all);
        for node in job.nodes.iter().filter(|node| gone.is_none() || node.is_in_the_job()) {
            let process = node.process.map_or(String::new(), |process| format!(" (process {process})"));
            let memory = node.memory().map_or(String::new(), |(facts, bytes)| format!(", {}", memory(facts, bytes)));
            let unseen = if node.is_out_of_sight() { format!(": {OUT_OF_SIGHT}") } else { String::new() };
            writeln!(text, "  {}{process}: {}{memory}{unseen}", node.number, state_word(node.state))?;
        }
        if let Some(gone) = gone {
            writeln!(text, "  {gone}")?;
        }
        if let Some(why) = left_behind(job) {
            writeln!(text, "  {why}")?;
        }
        for mailbox in &self.mailboxes {
            let name = if mailbox.told.name.is_empty() { "(anonymous)".to_owned() } else { quoted(&mailbox.told.name) };
            let holds = counted(mailbox.filled() as usize, "message", "messages");
            writeln!(text, "  mail box {name} of {}: {holds}, {:.0} a second", mailbox.id.owner, mailbox.per_second())?;
            for ring in &mailbox.rings {
                let Ring { from, sight, per_second } = ring;
                let observe::RingSight { slots_filled, slots, on_baton, .. } = *sight;
                let holds = counted(sight.filled() as usize, "message", "messages");
                let beside = if on_baton == 0 { "" } else { " and on a baton" };
                writeln!(
                    text,
                    "    from {from}: {holds} in {slots_filled} of {slots} slots{beside}, {per_second:.0} a second"
                )?;
            }
        }
        for (name, members) in &self.groups {
            let member = |member: &observe::MemberSight| match member.node {
                Some(node) if !member.has_left && job.has(node) => format!("{}: {node}", member.index),
                Some(node) if !member.has_left => format!("{}: {node} (gone)", member.index),
                Some(_) => format!("{}: left", member.index),
                None => format!("{}: not yet", member.index),
            };
            let members: Vec<_> = members.iter().map(member).collect();
            writeln!(text, "  group {}: {}", quoted(name), members.join(", "))?;
        }
        for Thing { kind, name, nodes, state, .. } in &self.objects {
            let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
            let state = if state.is_empty() { String::new() } else { format!(" {state},") };
            writeln!(text, "  {} {}:{state} open in {}", kind.word(), quoted(name), nodes.join(", "))?;
        }
        Ok(())
    }
}

fn mailboxes(job: &JobSight) -> Vec<Mailbox<'_>> {
    let rings = || {
        job.nodes.iter().flat_map(|node| {
            let rings = node.notices.iter().filter(|told| told.subject == Subject::Ring);
            rings.filter_map(move |told| Some((node, MailboxId::from_word(told.facts[0])?, told)))
        })
    };
    let look = |node: &NodeSight, id: MailboxId, told: &Told| observe::ring(node, job.node(id.owner)?, told);
    let began = Instant::now();
    let first: Vec<_> = rings().map(|(node, id, told)| look(node, id, told)).collect();
    if first.iter().any(Option::is_some) {
        #[expect(clippy::disallowed_methods, reason = "a rate takes time to be seen")]
        std::thread::sleep(INTERVAL);
    }
    let took = began.elapsed().as_secs_f64();
    let mut found: BTreeMap<u64, Vec<Ring>> = BTreeMap::new();
    for ((node, id, told), first) in rings().zip(first) {
        let (Some(before), Some(now)) = (first, look(node, id, told)) else { continue };
        let per_second = f64::from(now.posted.wrapping_sub(before.posted)) / took;
        let ring = Ring { from: node.number, sight: now, per_second };
        found.entry(id.to_word()).or_default().push(ring);
    }
    let mut mailboxes: Vec<Mailbox<'_>> = Vec::new();
    for node in &job.nodes {
        for told in node.notices.iter().filter(|told| told.subject == Subject::Mailbox) {
            let id = MailboxId::from_word(told.facts[0]).filter(|id| id.owner == node.number);
            if let Some(id) = id {
                mailboxes.push(Mailbox { id, told, rings: found.remove(&id.to_word()).unwrap_or_default() });
            }
        }
    }
    mailboxes
}

fn groups(job: &JobSight) -> Vec<(String, Vec<observe::MemberSight>)> {
    let entries = Names::new(&job.table).all();
    let group = |(name, entry): (String, MailboxId)| {
        let name = observe::group_name(&name)?.to_owned();
        let (owner, offset) = observe::board_of_entry(entry);
        let heap = job.node(owner)?.heap()?;
        Some((name, observe::GroupSight::of(heap, owner, offset, 0)?.members((0, 0), [0; 2])?))
    };
    let mut groups: Vec<_> = entries.into_iter().filter_map(group).collect();
    groups.sort_by(|one, other| one.0.cmp(&other.0));
    groups
}

fn numbers(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|node| node.0).collect()
}

/// A named thing that is open somewhere.
struct Thing {
    kind: ObjectKind,
    name: String,
    nodes: Vec<NodeId>,
    state: String,
    /// Home and bytes.
    segment: Option<(NodeId, u64)>,
}

fn objects(job: &JobSight) -> Vec<Thing> {
    let mut things: Vec<Thing> = Objects::new(&job.table)
        .all()
        .into_iter()
        .filter_map(|(kind, name, object)| {
            let nodes = object.holding();
            let mut segment = None;
            let state = match kind {
                ObjectKind::Segment => {
                    let (home, bytes) = *segment.insert(observe::segment(&object)?);
                    format!("{bytes} bytes at {home}")
                }
                ObjectKind::Mutex => match observe::holder(&object) {
                    Some((holder, Some(_))) if job.has(holder) => format!("held by {holder}"),
                    Some(_) => "free, its last holder is gone".to_owned(),
                    None => "free".to_owned(),
                },
                ObjectKind::Condition => String::new(),
                ObjectKind::Barrier => {
                    let (arrived, size) = observe::arrivals(&object);
                    format!("{arrived} of {size} threads have come")
                }
                ObjectKind::Counter => observe::value(&object).to_string(),
            };
            (!nodes.is_empty()).then_some(Thing { kind, name, nodes, state, segment })
        })
        .collect();
    things.sort_by(|one, other| (one.kind.word(), &one.name).cmp(&(other.kind.word(), &other.name)));
    things
}

/// How many nodes are gone, and how, if they are too many to be told one by one.
fn gone(nodes: impl Iterator<Item = NodeState>) -> Option<String> {
    let (mut left, mut lost) = (0, 0);
    for state in nodes {
        match state {
            NodeState::Left => left += 1,
            NodeState::Lost => lost += 1,
            NodeState::Live | NodeState::Frozen => {}
        }
    }
    let sum = match (left, lost) {
        _ if left + lost <= SHOWN => return None,
        (left, 0) => format!("{left} nodes left"),
        (0, lost) => format!("{lost} nodes were lost"),
        (left, lost) => {
            format!("{} left, {lost} {} lost", counted(left, "node", "nodes"), if lost == 1 { "was" } else { "were" })
        }
    };
    Some(format!("{sum} {ALL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_that_are_gone_are_summed_up_and_few_are_not() {
        let of = |left: usize, lost: usize| {
            let states =
                [(NodeState::Live, 100), (NodeState::Left, left), (NodeState::Lost, lost), (NodeState::Frozen, 9)];
            gone(states.into_iter().flat_map(|(state, count)| std::iter::repeat_n(state, count)))
        };
        assert_eq!((of(0, 0), of(8, 0), of(0, 8), of(4, 4)), (None, None, None, None));
        for (left, lost, expected) in [
            (305, 460, "305 nodes left, 460 were lost"),
            (1, 8, "1 node left, 8 were lost"),
            (8, 1, "8 nodes left, 1 was lost"),
            (9, 0, "9 nodes left"),
            (0, 9, "9 nodes were lost"),
        ] {
            assert_eq!(of(left, lost), Some(format!("{expected} (--all shows each)")));
        }
    }

    #[test]
    fn memory_is_told_with_what_is_special_about_it() {
        let plain = MemoryFacts::default();
        assert_eq!(memory(plain, 1_500_000), "1.4 MiB of memory");
        assert_eq!(memory(plain, 8192), "8 KiB of memory");
        let all = MemoryFacts { huge_pages: true, numa_nodes: 2, is_refused: true, is_elsewhere: true };
        assert_eq!(
            memory(all, 4 << 20),
            "4.0 MiB of memory, in huge pages, bound to 2 NUMA nodes (the system refused to bind some) (some lies on others)"
        );
    }
}
