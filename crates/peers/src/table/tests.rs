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
