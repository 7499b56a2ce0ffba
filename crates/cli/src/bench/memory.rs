//! What a node, a mail box and a ring occupy: pages that the kernel counts, before and after making many of them.
//!
//! Counted are the process's own pages (anonymous ones) and those of the node's own segments that it has touched
//! (`/proc/self/smaps`). A ring's memory lies with the mail box's owner; what the posting node keeps for it is told
//! apart. The poster also maps the owner's segment, whose pages count for the owner, and all nodes the table of the
//! job, which is nobody's.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use deck::{Error, Mailbox, MailboxClone, Node};

use super::nodes::{LOST, Part, Placement};
use super::{Benchmark, figure};

pub const BENCHMARK: Benchmark = Benchmark {
    name: "memory",
    about: "bytes per node, mail box and ring",
    axis: "boxes",
    points: &[1000],
    range: 1..=16_000,
    nodes: |_| 2,
    placement: Placement::Together,
    repetitions: |_| 3,
    time: Duration::from_secs(1),
    part,
    report: figure::report,
};

fn part(part: &Part) -> deck::Result<()> {
    let alone = occupied(&BTreeSet::new())?;
    let node = Node::join()?;
    // Before it meets another one, whose segments it maps then.
    let own = segments(&maps()?);
    let occupied = || occupied(&own);
    let joined = occupied()?;
    let each = |bytes: u64| bytes as f64 / part.at as f64;
    if part.role == 0 {
        part.tell("node", "bytes", joined.saturating_sub(alone) as f64)?;
        let inbox = node.mailbox("bench.done")?;
        let without = occupied()?;
        let boxes: Vec<Mailbox> =
            (0..part.at).map(|number| node.mailbox(&format!("bench.{number}"))).collect::<deck::Result<_>>()?;
        let with = occupied()?;
        part.tell("mail box", "bytes", each(with.saturating_sub(without)))?;
        // The other node posts here when it has cloned them all, and has posted to each.
        node.mailbox("bench.ready")?.retrieve(LOST * 6)?;
        part.tell("ring, at the owner", "bytes", each(occupied()?.saturating_sub(with)))?;
        node.clone_mailbox("bench.end", LOST)?.post_shared(&node.message(), LOST)?;
        drop((boxes, inbox));
    } else {
        let end = node.mailbox("bench.end")?;
        let ready = node.clone_mailbox("bench.ready", LOST)?;
        let mut clones: Vec<MailboxClone> = Vec::with_capacity(part.at);
        let without = occupied()?;
        for number in 0..part.at {
            let clone = node.clone_mailbox(&format!("bench.{number}"), LOST)?;
            clone.post_shared(&node.message(), LOST)?;
            clones.push(clone);
        }
        part.tell("ring, at the poster", "bytes", each(occupied()?.saturating_sub(without)))?;
        ready.post_shared(&node.message(), LOST)?;
        end.retrieve(LOST)?;
        drop((end, ready, clones));
    }
    node.leave()
}

fn maps() -> deck::Result<String> {
    fs::read_to_string("/proc/self/smaps").map_err(|error| Error::io("reading /proc/self/smaps", &error))
}

/// Bytes of memory that this process keeps occupied: its anonymous pages and those of its `own` segments that it has
/// touched.
fn occupied(own: &BTreeSet<u64>) -> deck::Result<u64> {
    Ok(counted(&maps()?, own))
}

/// The segments that are mapped, but for the table of the job.
fn segments(maps: &str) -> BTreeSet<u64> {
    maps.lines()
        .filter_map(segment)
        .filter(|(_, name)| !name.starts_with("/memfd:deck-job"))
        .map(|(inode, _)| inode)
        .collect()
}

/// Number and name of the segment whose mapping begins with this line.
fn segment(line: &str) -> Option<(u64, &str)> {
    let (rest, name) = line.split_at(line.find("/memfd:")?);
    Some((rest.split_whitespace().last()?.parse().ok()?, name))
}

fn counted(maps: &str, own: &BTreeSet<u64>) -> u64 {
    let mut mapped = None;
    let mut kib = 0;
    for line in maps.lines() {
        let value = |name: &str| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
        if let Some(rss) = value("Rss:") {
            kib += if mapped.is_some_and(|inode| own.contains(&inode)) { rss } else { 0 };
        } else if let Some(anonymous) = value("Anonymous:") {
            kib += if mapped.is_none() { anonymous } else { 0 };
        } else if line.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
            mapped = segment(line).map(|(inode, _)| inode);
        }
    }
    kib << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_segments_count_by_what_is_resident_others_not_and_all_else_by_anonymous_pages() {
        let own = "\
7f00-7f10 rw-s 00000000 00:01 7 /memfd:deck-node (deleted)\nSize: 64 kB\nRss:      12 kB\nAnonymous:   0 kB
7f20-7f30 r-xp 00000000 00:01 9 /usr/lib/libc.so.6\nRss:     900 kB\nAnonymous:   4 kB
7f30-7f40 rw-s 00000000 00:01 6 /memfd:deck-job (deleted)\nRss:     300 kB\nAnonymous:   0 kB\n";
        let met = "7f50-7f60 rw-s 00000000 00:01 8 /memfd:deck-node (deleted)\nRss:     500 kB\nAnonymous:   0 kB\n";
        assert_eq!(counted(&format!("{own}{met}"), &segments(own)), 16 << 10);
    }
}
