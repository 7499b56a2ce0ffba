//! Long arrays that others read in their programs' memory, wherever that may be done (`DECK_ATTACH=always`).

mod group;

use std::time::Duration;

use deck::{Completion, ErrorKind, Group, Node};
use deck_peers::Broker;
use deck_segment::attach;
use group::{SOON, apart, attaches, held, kind, together_with};

const TRY: Duration = Duration::from_millis(1);
/// Longer than what is copied in one go.
const LONG: usize = 300_000;

/// Is the `test` to go on here? Where the system lets nobody read another process's memory there is nothing to test.
#[track_caller]
fn is_here(test: &str) -> bool {
    attaches(&[test]) && attach::is_allowed(std::process::id())
}

/// Members past their first call, before which they do not know what others can read.
fn apart_and_knowing<const SIZE: usize>() -> (Broker, Vec<Node>, [Group; SIZE]) {
    let (broker, nodes, mut groups) = apart::<SIZE>(Completion::Everyone);
    std::thread::scope(|scope| groups.iter_mut().for_each(|group| drop(scope.spawn(|| group.barrier(SOON).unwrap()))));
    (broker, nodes, groups)
}

#[test]
fn what_is_attached_is_right_and_takes_no_library_memory() {
    if !is_here("what_is_attached_is_right_and_takes_no_library_memory") {
        return;
    }
    for completion in [Completion::Everyone, Completion::Own] {
        for on in [&[0, 1][..], &[0, 0], &[0, 1, 0, 1, 1]] {
            let (_broker, nodes) = group::job(2);
            let size = on.len();
            together_with(completion, "attached", &nodes, on, move |group, node| {
                group.barrier(SOON).unwrap();
                let before = held(node);
                for count in [17 << 10, LONG] {
                    for root in 0..size as u32 {
                        let (me, is_root) = (group.index(), group.index() == root);
                        let value = |of: u32, to: u32| (3 + of * 16 + to) as u8;
                        let mut data = vec![value(me, 0); count];
                        group.bcast(root, &mut data, SOON).unwrap();
                        assert!(data.iter().all(|byte| *byte == value(root, 0)));
                        let own = vec![value(me, 1); count];
                        let mut all = vec![0; count * size];
                        group.gather(root, &own, &mut all, SOON).unwrap();
                        let is_whole = |all: &[u8], value: &dyn Fn(u32) -> u8| {
                            all.chunks(count).zip(0..).all(|(block, of)| block.iter().all(|byte| *byte == value(of)))
                        };
                        assert!(!is_root || is_whole(&all, &|of| value(of, 1)));
                        group.allgather(&own, &mut all, SOON).unwrap();
                        assert!(is_whole(&all, &|of| value(of, 1)));
                        let parts: Vec<u8> = (0..size as u32).flat_map(|to| vec![value(me, to); count]).collect();
                        let mut part = vec![0; count];
                        group.scatter(root, &parts, &mut part, SOON).unwrap();
                        assert!(part.iter().all(|byte| *byte == value(root, me)));
                        group.alltoall(&parts, &mut all, SOON).unwrap();
                        assert!(is_whole(&all, &|of| value(of, me)));
                        // What is started lies in arrays of the call.
                        let mut started = group.start_allgather(&own).unwrap();
                        assert!(is_whole(&started.wait(group, SOON).unwrap(), &|of| value(of, 1)));
                    }
                }
                assert_eq!(held(node), before);
                // Nobody leaves while another one looks at what a node of both holds.
                group.barrier(SOON).unwrap();
            });
        }
    }
}

#[test]
fn a_program_has_its_array_back_at_the_deadline_and_others_get_what_was_in_it() {
    if !is_here("a_program_has_its_array_back_at_the_deadline_and_others_get_what_was_in_it") {
        return;
    }
    let (_broker, nodes, [mut giver, mut taker]) = apart_and_knowing();
    let before = held(&nodes[0]);
    let mut data = vec![7u8; LONG];
    assert_eq!(kind(giver.bcast(0, &mut data, TRY)), ErrorKind::Timeout);
    data.fill(9);
    // Once more: it keeps what it has kept.
    assert_eq!(kind(giver.bcast(0, &mut data, TRY)), ErrorKind::Timeout);
    let mut taken = vec![0u8; LONG];
    // It has taken all, and need not wait until the giver is back.
    taker.bcast(0, &mut taken, SOON).unwrap();
    assert!(taken.iter().all(|byte| *byte == 7));
    giver.bcast(0, &mut data, SOON).unwrap();
    assert_eq!(held(&nodes[0]), before);
}

#[test]
fn what_a_member_that_has_left_gave_is_read_no_more() {
    if !is_here("what_a_member_that_has_left_gave_is_read_no_more") {
        return;
    }
    let (_broker, _nodes, [mut giver, mut early, mut late]) = apart_and_knowing();
    let mut data = vec![7u8; LONG];
    let mut taken = [vec![0u8; LONG], vec![0; LONG]];
    assert_eq!(kind(giver.bcast(0, &mut data, TRY)), ErrorKind::Timeout);
    assert_eq!(kind(early.bcast(0, &mut taken[0], TRY)), ErrorKind::Timeout);
    drop(giver);
    // It comes, finds nothing, and is told who has left. What the other one needs it has read while it waited.
    assert_eq!(kind(late.bcast(0, &mut taken[1], SOON)), ErrorKind::Closed);
    early.bcast(0, &mut taken[0], SOON).unwrap();
    let is_all = |taken: &[u8], value| taken.iter().all(|byte| *byte == value);
    assert!(is_all(&taken[0], 7) && is_all(&taken[1], 0));
}

#[test]
fn who_has_come_is_read_while_others_have_not() {
    if !is_here("who_has_come_is_read_while_others_have_not") {
        return;
    }
    let (_broker, _nodes, [mut root, mut early, mut late]) = apart_and_knowing();
    let given = [1, 2, 3].map(|value| vec![value; LONG]);
    let mut gathered = root.start_gather(0, &given[0]).unwrap();
    assert_eq!(kind(early.gather(0, &given[1], &mut [], TRY)), ErrorKind::Timeout);
    assert!(gathered.test(&mut root).unwrap().is_none());
    // It has been read, so nobody needs it any more: not the root, and not whoever comes later.
    drop(early);
    assert_eq!(kind(late.gather(0, &given[2], &mut [], TRY)), ErrorKind::Timeout);
    let all = gathered.wait(&mut root, SOON).unwrap();
    assert!(all.chunks(LONG).zip(&given).all(|(block, given)| block == given));
    late.gather(0, &given[2], &mut [], SOON).unwrap();
}
