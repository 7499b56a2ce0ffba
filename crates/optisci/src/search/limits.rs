//! Whether the limits leave any placement at all, and if not, which limit stands in the way and how much is missing.

use super::choice::{Choice, Chooser, Prices};
use super::instance::Instance;
use super::packing::{self, Outcome, Room};
use crate::counted::counted;
use crate::model::UNLIMITED;
use crate::placement::Home;

/// Visits of an exhaustive search for a packing, and steps of the one after it, where no time is given: some seconds.
const MOST_VISITS: u64 = 300_000;
const MOST_LATER_STEPS: u64 = 1_000_000_000;

/// A segment without limits to room.
pub enum Packing {
    /// Each segment has this node; all limits are obeyed.
    Fits(Vec<Home>),
    /// Nothing obeys all limits, for this reason.
    Cannot(String),
    /// Neither was found out.
    Unknown,
}

/// Why no placement can obey the limits, if that can be counted.
pub fn obstacle(instance: &Instance<'_>) -> Option<String> {
    processes(instance).or_else(|| slots(instance)).or_else(|| memory(instance))
}

/// What all nodes together can take. A node that takes anything is more than a number that stands for it.
pub fn room(limits: &[u64]) -> u128 {
    let of = |&limit: &u64| if limit == UNLIMITED { None } else { Some(u128::from(limit)) };
    limits.iter().map(of).sum::<Option<u128>>().unwrap_or(u128::MAX)
}

/// What is left of a limit.
pub fn less(limit: u64, taken: u64) -> u64 {
    if limit == UNLIMITED { limit } else { limit.saturating_sub(taken) }
}

fn bytes(instance: &Instance<'_>) -> u128 {
    instance.model.segments.iter().map(|entry| u128::from(entry.bytes)).sum()
}

fn processes(instance: &Instance<'_>) -> Option<String> {
    let slots = &instance.process_slots;
    let mut pinned = vec![0u64; instance.nodes];
    (0..instance.processes()).filter_map(|process| instance.process_pin(process)).for_each(|pin| pinned[pin] += 1);
    for (node, (&pinned, &slots)) in pinned.iter().zip(slots).enumerate() {
        if pinned > slots {
            let missing = pinned - slots;
            return Some(format!(
                "process_slots: {} pinned to node {node}, which has {}: {missing} too few",
                counted(pinned, "process is", "processes are"),
                counted(slots, "process slot", "process slots")
            ));
        }
    }
    let (wanted, there) = (instance.processes() as u128, room(slots));
    (wanted > there).then(|| {
        format!(
            "process_slots: {}, and {} on all nodes: {} too few",
            counted(wanted, "process", "processes"),
            counted(there, "process slot", "process slots"),
            wanted - there
        )
    })
}

fn slots(instance: &Instance<'_>) -> Option<String> {
    let slots = &instance.segment_slots;
    let mut pinned = vec![0u64; instance.nodes];
    (0..instance.segments()).filter_map(|segment| instance.segment_pin(segment)).for_each(|pin| pinned[pin] += 1);
    for (node, (&pinned, &slots)) in pinned.iter().zip(slots).enumerate() {
        if pinned > slots {
            let missing = pinned - slots;
            return Some(format!(
                "segment_slots: {} pinned to node {node}, which has {}: {missing} too few",
                counted(pinned, "segment is", "segments are"),
                counted(slots, "segment slot", "segment slots")
            ));
        }
    }
    let (wanted, there) = (instance.segments() as u128, room(slots));
    (wanted > there).then(|| {
        format!(
            "segment_slots: {}, and {} on all nodes: {} too few",
            counted(wanted, "segment", "segments"),
            counted(there, "segment slot", "segment slots"),
            wanted - there
        )
    })
}

fn memory(instance: &Instance<'_>) -> Option<String> {
    let (memory, segments) = (&instance.memory, &instance.model.segments);
    let mut pinned = vec![0u128; instance.nodes];
    for (segment, entry) in segments.iter().enumerate() {
        if let Some(pin) = instance.segment_pin(segment) {
            pinned[pin] += u128::from(entry.bytes);
        }
    }
    for (node, (&pinned, &memory)) in pinned.iter().zip(memory).enumerate() {
        if memory != UNLIMITED && pinned > u128::from(memory) {
            let missing = pinned - u128::from(memory);
            return Some(format!(
                "memory_bytes: segments of {pinned} bytes are pinned to node {node}, which has {}: {missing} missing",
                counted(memory, "byte", "bytes")
            ));
        }
    }
    let (wanted, there) = (bytes(instance), room(memory));
    if wanted > there {
        return Some(format!(
            "memory_bytes: the segments have {}, all nodes together {there}: {} missing",
            counted(wanted, "byte", "bytes"),
            wanted - there
        ));
    }
    // Only so many segments of a size or more fit anywhere.
    let left = |(&memory, &pinned): (&u64, &u128)| if memory == UNLIMITED { memory } else { memory - pinned as u64 };
    let free: Vec<u64> = memory.iter().zip(&pinned).map(left).collect();
    let mut loose: Vec<(u64, usize)> =
        (0..segments.len()).filter(|&s| segments[s].pin.is_none()).map(|s| (segments[s].bytes, s)).collect();
    loose.sort_unstable_by_key(|&(bytes, segment)| (std::cmp::Reverse(bytes), segment));
    let mut last = None;
    for (count, &(bytes, segment)) in loose.iter().enumerate() {
        if bytes == 0 || count > 10_000 {
            break;
        }
        if last == Some(bytes) && loose.get(count + 1).is_some_and(|next| next.0 == bytes) {
            continue;
        }
        last = Some(bytes);
        let wanted = loose.iter().take_while(|&&(other, _)| other >= bytes).count() as u64;
        let fit = |node: usize| {
            let by_memory = if free[node] == UNLIMITED { UNLIMITED } else { free[node] / bytes };
            u128::from(by_memory.min(instance.segment_slots[node]))
        };
        let there: u128 = (0..instance.nodes).map(fit).sum();
        if u128::from(wanted) > there {
            let id = &segments[segment].id;
            return Some(match wanted {
                1 => {
                    let largest = free.iter().copied().max().unwrap_or(0);
                    format!(
                        "memory_bytes: segment {id} has {}, and no node has more than {largest} free: {} missing",
                        counted(bytes, "byte", "bytes"),
                        bytes.saturating_sub(largest)
                    )
                }
                _ => format!(
                    "memory_bytes: {wanted} segments have {bytes} or more bytes, and the nodes have room for {there} of them: {} too many",
                    u128::from(wanted) - there
                ),
            });
        }
    }
    None
}

/// Nodes for processes that obey slots and pins, wherever that is.
pub fn some_nodes(instance: &Instance<'_>) -> Vec<u32> {
    let mut room = instance.process_slots.clone();
    let pins: Vec<Option<usize>> = (0..instance.processes()).map(|process| instance.process_pin(process)).collect();
    pins.iter().flatten().for_each(|&pin| room[pin] = room[pin].saturating_sub(1));
    let mut next = 0;
    let mut node_of = |pin: &Option<usize>| {
        if let Some(pin) = pin {
            return *pin as u32;
        }
        for _ in 0..instance.nodes {
            let at = next % instance.nodes;
            next += 1;
            if room[at] > 0 {
                room[at] -= 1;
                return at as u32;
            }
        }
        0
    };
    pins.iter().map(&mut node_of).collect()
}

/// Nodes for segments, one each: the largest first, each where `cost` is least of the nodes that still have room, and
/// if that leaves one over, each where it fits most tightly, and if that does too, an exhaustive search. That takes all
/// the time there is, if there `is_limited` time.
pub fn pack(
    instance: &Instance<'_>,
    cost: &mut dyn FnMut(usize, &mut [f64]),
    is_limited: bool,
    go_on: &mut dyn FnMut() -> bool,
) -> Packing {
    let segments = &instance.model.segments;
    let mut order: Vec<usize> = (0..segments.len()).collect();
    order
        .sort_by_key(|&segment| (segments[segment].pin.is_none(), std::cmp::Reverse(segments[segment].bytes), segment));
    let mut costs = vec![0.0; instance.nodes];
    for tight in [false, true] {
        let (mut slots, mut memory) = (instance.segment_slots.clone(), instance.memory.clone());
        let mut home = vec![Home::One(0); segments.len()];
        let complete = order.iter().all(|&segment| {
            let bytes = segments[segment].bytes;
            let fits = |at: &usize| slots[*at] > 0 && memory[*at] >= bytes;
            let at = match (instance.segment_pin(segment), tight) {
                (Some(pin), _) => Some(pin).filter(fits),
                (None, true) => (0..instance.nodes).filter(fits).min_by_key(|&at| (memory[at], at)),
                (None, false) => {
                    costs.fill(0.0);
                    // When time is over, wherever there is room.
                    if go_on() {
                        cost(segment, &mut costs);
                    }
                    (0..instance.nodes).filter(fits).min_by(|&x, &y| costs[x].total_cmp(&costs[y]).then(x.cmp(&y)))
                }
            };
            let Some(at) = at else { return false };
            (slots[at], memory[at]) = (less(slots[at], 1), less(memory[at], bytes));
            home[segment] = Home::One(at as u32);
            true
        });
        if complete {
            return Packing::Fits(home);
        }
    }
    match exhaustively(instance, go_on) {
        Packing::Unknown => tightly(instance, (!is_limited).then_some(MOST_LATER_STEPS), go_on),
        known => known,
    }
}

/// Fills node after node.
fn tightly(instance: &Instance<'_>, most: Option<u64>, go_on: &mut dyn FnMut() -> bool) -> Packing {
    let segments = &instance.model.segments;
    let limits = instance.memory.iter().zip(&instance.segment_slots);
    let mut rooms: Vec<Room> = (0..).zip(limits).map(|(node, (&bytes, &slots))| Room { node, bytes, slots }).collect();
    let mut home: Vec<Option<u32>> = vec![None; segments.len()];
    for (segment, entry) in segments.iter().enumerate() {
        let Some(pin) = instance.segment_pin(segment) else { continue };
        let room = &mut rooms[pin];
        (room.bytes, room.slots) = (less(room.bytes, entry.bytes), less(room.slots, 1));
        home[segment] = Some(room.node);
    }
    let loose: Vec<usize> = (0..segments.len()).filter(|&segment| home[segment].is_none()).collect();
    let bytes: Vec<u64> = loose.iter().map(|&segment| segments[segment].bytes).collect();
    match packing::fill(&bytes, &rooms, most, go_on) {
        Outcome::Fits(at) => {
            loose.iter().zip(at).for_each(|(&segment, at)| home[segment] = Some(at));
            Packing::Fits(home.into_iter().flatten().map(Home::One).collect())
        }
        Outcome::Cannot => one_is_left_over(instance),
        Outcome::Unknown => Packing::Unknown,
    }
}

fn one_is_left_over(instance: &Instance<'_>) -> Packing {
    Packing::Cannot(format!(
        "memory_bytes: the segments have {} bytes and all nodes together {}, but however they are divided one is left over",
        bytes(instance),
        room(&instance.memory)
    ))
}

fn exhaustively(instance: &Instance<'_>, go_on: &mut dyn FnMut() -> bool) -> Packing {
    if instance.segments() * instance.nodes > 200_000 {
        return Packing::Unknown;
    }
    let mut choice = Choice::new(vec![0.0], instance.segment_slots.clone(), instance.memory.clone());
    for segment in 0..instance.segments() {
        let bytes = instance.model.segments[segment].bytes;
        for at in 0..instance.nodes {
            let closed = instance.segment_pin(segment).is_some_and(|pin| pin != at);
            if !closed && instance.memory[at] >= bytes && instance.segment_slots[at] > 0 {
                choice.option(&[at as u32], []);
            }
        }
        choice.item(bytes);
    }
    let nodes = instance.nodes;
    let prices = Prices { row: vec![1.0], slot: vec![0.0; nodes], byte: vec![0.0; nodes] };
    match Chooser::solve(&choice, &prices, 1.0, MOST_VISITS, go_on) {
        (Some((_, chosen)), _) => {
            Packing::Fits(chosen.iter().map(|&option| Home::of(choice.nodes_of(option as usize).to_vec())).collect())
        }
        (None, f64::INFINITY) => one_is_left_over(instance),
        _ => Packing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Packing, exhaustively, obstacle};
    use crate::Model;
    use crate::model::Objective;
    use crate::search::instance::Instance;

    /// 2049 times 2^53 bytes are more than the number that stands for no limit.
    #[test]
    fn a_node_without_a_limit_takes_whatever_there_is() {
        for (memory, pin) in [(json!([null, 1]), json!(null)), (json!([1, null]), json!(1)), (json!(null), json!(0))] {
            let segment = |number| json!({"id": format!("s{number}"), "bytes": 1u64 << 53, "pin": pin});
            let model = json!({
                "topology": {"kind": "torus", "dims": [2]},
                "cost_model": {"kind": "hop_bytes", "ns_per_byte_hop": 1},
                "processes": [{"id": "p0"}],
                "segments": (0..2049).map(segment).collect::<Vec<_>>(),
                "accesses": [],
                "memory_bytes": memory,
            });
            let model = Model::from_json(&model.to_string()).unwrap();
            let instance = Instance::new(&model, Objective::Sum);
            assert_eq!(obstacle(&instance), None);
            assert!(matches!(exhaustively(&instance, &mut || true), Packing::Fits(_)));
        }
    }
}
