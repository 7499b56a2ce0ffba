use super::*;

#[test]
fn numbers_are_given_in_order_and_seats_are_used_again() {
    let table = Table::create("test", 2).unwrap();
    assert_eq!(table.count(), 2);
    let (zero, seat) = table.seat_node(11, false).unwrap();
    assert_eq!((zero, seat), (NodeId(0), Seat(0)));
    assert_eq!(table.seat_node(12, false).unwrap(), (NodeId(1), Seat(1)));
    assert_eq!(table.pid_of(NodeId(1)), Some(12));
    assert!(table.set_gone(zero, true) && !table.set_gone(zero, false));
    assert_eq!(table.state(zero), Some(NodeState::Lost));
    table.free_seat(seat);
    assert_eq!(table.seat_node(13, false).unwrap(), (NodeId(2), Seat(0)));
    assert_eq!(table.pid_of(zero), None);
    assert_eq!(table.live(), [NodeId(1), NodeId(2)]);
    assert_eq!((table.count(), table.state(NodeId(3))), (3, None));
}

/// What a broker leaves that dies while it seats a node.
pub(crate) fn leave_half_seated(table: &Table, place: Seat) {
    let number = table.words.get(header::COUNT).load(Ordering::Relaxed);
    table.seat_word(place, seat::NODE).store(number + 1, Ordering::Relaxed);
}

#[test]
fn more_nodes_are_to_come_until_all_have_that_are_expected_or_for_ever_if_nobody_told_how_many() {
    let awaits_nodes = |job, expected: u32, joined: u64| {
        let table = Table::create(job, expected).unwrap();
        for pid in 0..joined {
            table.seat_node(pid, false).unwrap();
        }
        table.awaits_nodes()
    };
    assert_eq!([2, 3].map(|joined| awaits_nodes("", 3, joined)), [true, false]);
    assert_eq!([2, 3].map(|joined| awaits_nodes("test", 3, joined)), [true, false]);
    assert_eq!([1, 2].map(|joined| awaits_nodes("test", 1, joined)), [true, true]);
    assert!(!awaits_nodes("", 1, 1));
}

#[test]
fn a_node_arrives_or_is_given_up_and_nobody_speaks_for_the_next_one_on_its_seat() {
    let table = Table::create("test", 1).unwrap();
    let [(zero, seat), (one, _)] = [1, 2].map(|pid| table.seat_node(pid, false).unwrap());
    assert!(table.arrive(zero) && !table.give_up(zero));
    assert!(table.give_up(one) && !table.arrive(one));
    table.set_gone(zero, true);
    table.free_seat(seat);
    let (two, _) = table.seat_node(3, false).unwrap();
    assert!(!table.arrive(zero) && table.arrive(two));
}

#[test]
fn the_number_of_a_process_counts_in_its_own_namespace_only() {
    let table = Table::create("test", 2).unwrap();
    let own = crate::process::own_word();
    let (here, _) = table.seat_node(own, false).unwrap();
    let (elsewhere, _) = table.seat_node(own ^ 1 << 32, false).unwrap();
    let pid = Some(std::process::id());
    assert_eq!((table.pid_of(here), table.pid_here(here)), (pid, pid));
    assert_eq!((table.pid_of(elsewhere), table.pid_here(elsewhere)), (pid, None));
}

#[test]
fn a_table_of_another_version_is_refused() {
    let table = Table::create("test", 1).unwrap();
    table.words.get(header::VERSION).store(99, Ordering::Relaxed);
    let error = Table::adopt(table.as_fd().try_clone_to_owned().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("99"), "{error}");
}

#[test]
fn what_is_no_table_is_refused() {
    let adopt = |segment: &Segment| Table::adopt(segment.as_fd().try_clone_to_owned().unwrap());
    let corrupt = |segment: &Segment| adopt(segment).unwrap_err().kind() == ErrorKind::Corrupt;
    let table = Table::create("test", 1).unwrap();
    adopt(table.segment()).unwrap();
    table.words.get(header::MAGIC).store(MAGIC ^ 1, Ordering::Relaxed);
    assert!(corrupt(table.segment()));
    // All that is read of it says that it is one.
    let whole = BYTES.next_multiple_of(PAGE);
    for bytes in [PAGE, whole - PAGE, whole + PAGE] {
        let other = Segment::create("test", bytes).unwrap();
        other.allocate(0, PAGE).unwrap();
        let words = Words::in_segment(&other, 0, PAGE / 8).unwrap();
        words.get(header::VERSION).store(VERSION, Ordering::Relaxed);
        words.get(header::MAGIC).store(MAGIC, Ordering::Relaxed);
        assert!(corrupt(&other), "{bytes} bytes");
    }
}

#[test]
fn a_jobs_name_ends_where_its_room_does() {
    let name = "n".repeat(JOB_BYTES_MAX);
    assert_eq!(Table::create(&name, 1).unwrap().job(), name);
    assert_eq!(Table::create(&(name + "n"), 1).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn what_any_process_writes_into_a_table_leads_to_nothing_outside() {
    let table = Table::create("test", 1).unwrap();
    let (zero, seat) = table.seat_node(1, false).unwrap();
    for count in [u64::from(NODES_MAX) + 1, 1 << 32, u64::MAX] {
        table.words.get(header::COUNT).store(count, Ordering::Relaxed);
        assert_eq!(
            (table.count(), table.state(NodeId(NODES_MAX)), table.seat_of(NodeId(u32::MAX))),
            (NODES_MAX, None, None)
        );
        assert_eq!(table.seat_node(2, false).unwrap_err(), Refusal::Numbers);
    }
    table.words.get(header::COUNT).store(1, Ordering::Relaxed);
    table.words.get(header::EXPECTED).store(u64::MAX, Ordering::Relaxed);
    assert_eq!(table.count(), NODES_MAX);
    let state = table.nodes.get(0).swap((Seat::COUNT as u64) << SEAT_SHIFT | 1, Ordering::Relaxed);
    assert_eq!((table.seat_of(zero), table.process_of(zero), table.set_gone(zero, true)), (None, None, false));
    table.nodes.get(0).store(state, Ordering::Relaxed);
    table.seat_word(seat, seat::NODE).store(1 << 32 | 1, Ordering::Relaxed);
    assert_eq!((table.node_on(seat), table.live()), (None, vec![]));
}

#[test]
fn the_last_number_is_given_and_none_after_it() {
    let table = Table::create("test", 1).unwrap();
    table.words.get(header::COUNT).store(u64::from(NODES_MAX) - 1, Ordering::Relaxed);
    assert_eq!(table.seat_node(1, false).unwrap().0, NodeId(NODES_MAX - 1));
    assert_eq!(table.seat_node(2, false).unwrap_err(), Refusal::Numbers);
}

#[test]
fn a_seat_that_is_given_again_tells_nothing_of_the_node_before() {
    let table = Table::create("test", 1).unwrap();
    let (zero, seat) = table.seat_node(1, false).unwrap();
    table.set_keeps(seat);
    table.set_core_mask(seat, &[7; 16]);
    let words = [table.runnable(seat), table.core(seat), table.called(seat)];
    assert!(table.set_gone(zero, false));
    words.iter().for_each(|word| word.store(3, Ordering::Relaxed));
    table.free_seat(seat);
    assert_eq!(table.seat_node(2, false).unwrap(), (NodeId(1), seat));
    assert_eq!((table.keeps(seat), table.core_mask(seat)), (false, [0; 16]));
    assert!(words.iter().all(|word| word.load(Ordering::Relaxed) == 0), "{words:?}");
}

#[test]
fn whoever_tells_late_that_a_node_is_gone_changes_nothing_of_the_next_one_on_its_seat() {
    let table = Table::create("test", 1).unwrap();
    let (zero, seat) = table.seat_node(1, false).unwrap();
    // Whoever marks it is stopped; another one tells it, and the seat is given again.
    assert!(table.mark_gone(zero, seat, true));
    table.note_departure(zero, seat);
    table.free_seat(seat);
    assert_eq!(table.seat_node(2, false).unwrap(), (NodeId(1), seat));
    table.runnable(seat).store(3, Ordering::Relaxed);
    table.called(seat).store(4, Ordering::Relaxed);
    let deaths = table.deaths();
    table.note_departure(zero, seat);
    let words = [table.runnable(seat), table.called(seat)].map(|word| word.load(Ordering::Relaxed));
    assert_eq!((words, table.deaths()), ([3, 4], deaths));
}
