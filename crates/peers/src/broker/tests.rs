//! The broker as its members see it, which are played by hand.

use std::os::fd::AsFd;

use super::*;
use crate::alone;
use crate::process;

/// Comes into the job as the process that stands so in its table.
fn join_as(process: u64, socket: &Socket) -> NodeId {
    let join = Frame::Join { process, network: namespace::network(), fences: 0, retries: 0 };
    socket.send(&join, None).unwrap();
    loop {
        assert!(poll::is_readable_within(socket, Some(Duration::from_secs(10))), "nobody answers");
        match socket.receive() {
            Received::Frame(Frame::Welcome { number, .. }, _) => return NodeId(number as u32),
            Received::Frame(Frame::Refuse { reason }, _) => panic!("refused: {:?}", Refusal::from_word(reason)),
            _ => {}
        }
    }
}

/// Nobody can come into the job, because of this node.
fn refused_because_of(broker: &Broker, node: NodeId) {
    let socket = Socket::new(broker.invite().unwrap());
    let join = Frame::Join { process: process::own_word(), network: namespace::network(), fences: 0, retries: 0 };
    socket.send(&join, None).unwrap();
    assert!(poll::is_readable_within(&socket, Some(Duration::from_secs(10))), "nobody answers");
    let Received::Frame(Frame::Refuse { reason }, _) = socket.receive() else { panic!("there is no seat") };
    assert_eq!((Refusal::from_word(reason), Refusal::because_of(reason)), (Refusal::Full, Some(node)));
    let error = Refusal::from_word(reason).of_a_join(Refusal::because_of(reason));
    assert_eq!((error.kind(), error.peer()), (ErrorKind::NoMemory, Some(node)), "{error}");
}

fn key_of(state: &State, node: NodeId) -> u64 {
    let mut members = state.members.iter();
    let is_its = |member: &Member| member.node.is_some_and(|(number, _)| number == node);
    *members.find(|(_, member)| is_its(member)).expect("it is in the job").0
}

/// A process that does nothing, and how it stands in the job's table.
fn bystander() -> (std::process::Child, u64) {
    let child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let word = process::own_word() >> 32 << 32 | u64::from(child.id());
    (child, word)
}

#[test]
fn an_invitation_is_good_for_a_second_program_though_nobody_told_the_end_of_the_first() {
    let broker = Broker::start("test", 1).unwrap();
    let invitation = Socket::new(broker.invite().unwrap());
    let (mut child, word) = bystander();
    let first = join_as(word, &invitation);
    {
        let mut state = broker.shared.lock();
        let key = key_of(&state, first);
        state.members.get_mut(&key).unwrap().process = None;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let second = join_as(process::own_word(), &invitation);
    let state = broker.shared.lock();
    assert!(!state.table.is_live(first) && state.table.is_live(second));
    drop(state);
    assert_eq!(broker.node_of_invitation(0), Some(second));
}

#[test]
fn an_end_that_is_told_late_is_not_that_of_the_second_program() {
    let broker = Broker::start("test", 1).unwrap();
    let invitation = Socket::new(broker.invite().unwrap());
    let (mut child, word) = bystander();
    let first = join_as(word, &invitation);
    let key = key_of(&broker.shared.lock(), first);
    child.kill().unwrap();
    child.wait().unwrap();
    let second = join_as(process::own_word(), &invitation);
    let mut state = broker.shared.lock();
    state.process_may_have_ended(key);
    assert!(state.table.is_live(second));
}

#[test]
fn who_finds_no_seat_is_told_which_node_keeps_those_of_others_that_are_gone() {
    let broker = Broker::start("test", 1).unwrap();
    // It answers to nothing.
    let silent = Socket::new(broker.invite().unwrap());
    let silent_node = join_as(process::own_word(), &silent);
    for _ in 1..Seat::COUNT {
        let passing = Socket::new(broker.invite().unwrap());
        let node = join_as(process::own_word(), &passing);
        let mut state = broker.shared.lock();
        let key = key_of(&state, node);
        state.leave(key, process::own_word());
    }
    refused_because_of(&broker, silent_node);
}

#[test]
fn who_finds_no_seat_is_told_which_node_left_with_messages_of_others() {
    let broker = Broker::start("test", 1).unwrap();
    let socket = Socket::new(broker.invite().unwrap());
    let (mut child, word) = bystander();
    let left = join_as(word, &socket);
    {
        let mut state = broker.shared.lock();
        let seat = state.table.seat_of(left).unwrap();
        state.table.set_keeps(seat);
        let key = key_of(&state, left);
        state.leave(key, word);
    }
    let others: Vec<_> = (1..Seat::COUNT).map(|_| Socket::new(broker.invite().unwrap())).collect();
    others.iter().for_each(|socket| _ = join_as(process::own_word(), socket));
    refused_because_of(&broker, left);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn who_asks_to_meet_somebody_is_told_if_there_is_no_descriptor_to_keep_its_end() {
    if !alone::is_alone("broker::tests::who_asks_to_meet_somebody_is_told_if_there_is_no_descriptor_to_keep_its_end") {
        return;
    }
    let broker = Broker::start("test", 2).unwrap();
    let sockets = [(); 2].map(|()| Socket::new(broker.invite().unwrap()));
    let [asking, other] = [0, 1].map(|node: usize| join_as(process::own_word(), &sockets[node]));
    let mut state = broker.shared.lock();
    let key = key_of(&state, asking);
    let socket = state.members[&key].socket.clone();
    while !socket.is_backed_up() {
        socket.send(&Frame::Rejoined { broker: 0 }, None).unwrap();
    }
    let files: Vec<_> = std::iter::from_fn(|| crate::wakeup::new().ok()).collect();
    state.introduce(key, u64::from(other.0));
    drop(files);
    let mut last = None;
    while let Received::Frame(frame, _) = sockets[0].receive() {
        last = Some(frame);
        socket.send_waiting();
    }
    assert_eq!(last, Some(Frame::NotIntroduced { peer: u64::from(other.0) }));
}

#[test]
fn one_that_does_not_read_holds_one_descriptor_for_each_that_wants_to_meet_it_however_often_that_one_asks() {
    let broker = Broker::start("test", 2).unwrap();
    let sockets = [(); 2].map(|()| Socket::new(broker.invite().unwrap()));
    let [asking, stopped] = [0, 1].map(|node: usize| join_as(process::own_word(), &sockets[node]));
    let mut state = broker.shared.lock();
    let [key, other] = [asking, stopped].map(|node| key_of(&state, node));
    let socket = state.members[&other].socket.clone();
    while !socket.is_backed_up() {
        socket.send(&Frame::Rejoined { broker: 0 }, None).unwrap();
    }
    for _ in 0..100 {
        state.introduce(key, u64::from(stopped.0));
        assert!(matches!(sockets[0].receive(), Received::Frame(Frame::Introduce { .. }, Some(_))));
    }
    let mut introduced = 0;
    while let Received::Frame(frame, _) = sockets[1].receive() {
        introduced += usize::from(matches!(frame, Frame::Introduce { .. }));
        socket.send_waiting();
    }
    assert_eq!(introduced, 1);
}

#[test]
fn bytes_that_are_no_frame_end_nobody_who_has_joined() {
    let broker = Broker::start("test", 1).unwrap();
    let socket = Socket::new(broker.invite().unwrap());
    let node = join_as(process::own_word(), &socket);
    for bytes in [&b""[..], b"hello"] {
        rustix::net::send(&socket, bytes, rustix::net::SendFlags::empty()).unwrap();
    }
    socket.send(&Frame::Connect { to: 77 }, None).unwrap();
    assert!(poll::is_readable_within(&socket, Some(Duration::from_secs(10))), "it is not heard any more");
    assert!(matches!(socket.receive(), Received::Frame(Frame::NotIntroduced { peer: 77 }, None)));
    assert!(broker.shared.lock().table.is_live(node));
}

#[test]
fn who_cannot_be_welcomed_for_want_of_descriptors_is_told_and_is_no_node() {
    if !alone::is_alone("broker::tests::who_cannot_be_welcomed_for_want_of_descriptors_is_told_and_is_no_node") {
        return;
    }
    let broker = Broker::start("test", 1).unwrap();
    let joining = Socket::new(broker.invite().unwrap());
    let mut state = broker.shared.lock();
    let (key, socket) = state.members.iter().map(|(key, member)| (*key, member.socket.clone())).next().unwrap();
    while !socket.is_backed_up() {
        socket.send(&Frame::Rejoined { broker: 0 }, None).unwrap();
    }
    let files: Vec<_> = std::iter::from_fn(|| crate::wakeup::new().ok()).collect();
    state.join(key, process::own_word(), namespace::network(), false);
    drop(files);
    assert_eq!(state.table.live(), []);
    let mut last = None;
    while let Received::Frame(frame, _) = joining.receive() {
        last = Some(frame);
        socket.send_waiting();
    }
    assert_eq!(last, Some(Frame::Refuse { reason: Refusal::Descriptors as u64 }));
    drop(state);
    join_as(process::own_word(), &joining);
}

/// Somebody's connection to the broker, by its name, and the broker's key for it; the last one keeps so many
/// descriptors on their way that this user may send no more.
fn come_while_no_descriptor_can_be_sent(state: &mut State) -> (Socket, u64, Socket) {
    let (crowding, unread) = pair().unwrap();
    let (crowding, passed) = (Socket::new(crowding), crate::wakeup::new().unwrap());
    // Far too many: some of other processes may be among those that are counted now.
    alone::limit_descriptors(4 * alone::DESCRIPTORS_MAX);
    (0..2 * alone::DESCRIPTORS_MAX)
        .for_each(|_| crowding.send(&Frame::Rejoined { broker: 0 }, Some(passed.as_fd())).unwrap());
    assert!(!crowding.is_backed_up());
    alone::limit_descriptors(alone::DESCRIPTORS_MAX);
    let (ours, theirs) = pair().unwrap();
    let key = state.next;
    state.add(ours, None).map_err(|(_, error)| error).unwrap();
    (Socket::new(theirs), key, Socket::new(unread))
}

#[test]
fn who_comes_by_name_and_cannot_be_welcomed_for_want_of_descriptors_is_told_before_the_connection_ends() {
    if !alone::is_alone(
        "broker::tests::who_comes_by_name_and_cannot_be_welcomed_for_want_of_descriptors_is_told_before_the_connection_ends",
    ) {
        return;
    }
    let broker = Broker::start_by_name(&format!("crowded-{}", std::process::id()), 1).unwrap();
    let mut state = broker.shared.lock();
    let (joining, key, _crowd) = come_while_no_descriptor_can_be_sent(&mut state);
    let mut files: Vec<_> = std::iter::from_fn(|| crate::wakeup::new().ok()).collect();
    // For the handle of the process, and for the listener to wait with.
    files.truncate(files.len() - 2);
    state.join(key, process::own_word(), namespace::network(), false);
    let received = joining.receive();
    let expected = Frame::Refuse { reason: Refusal::Descriptors as u64 };
    assert!(matches!(received, Received::Frame(frame, None) if frame == expected), "{received:?}");
    assert!(state.table.live().is_empty());
}

#[test]
fn who_comes_again_and_cannot_be_let_in_for_want_of_descriptors_is_not_given_up() {
    if !alone::is_alone("broker::tests::who_comes_again_and_cannot_be_let_in_for_want_of_descriptors_is_not_given_up") {
        return;
    }
    let broker = Broker::start_by_name(&format!("again-{}", std::process::id()), 1).unwrap();
    let mut state = broker.shared.lock();
    // In another namespace, so that nothing is known of it but that it comes.
    let process = process::own_word() ^ 1 << 32;
    let Ok((node, seat)) = state.table.seat_node(process, false) else { panic!("it is not seated") };
    let absent = state.absent(node, Deadline::NOW).unwrap();
    state.absent.insert(node, absent);
    let (_coming, key, _crowd) = come_while_no_descriptor_can_be_sent(&mut state);
    let _files: Vec<_> = std::iter::from_fn(|| crate::wakeup::new().ok()).collect();
    state.rejoin(key, [u64::from(node.0), u64::from(seat.0), process], 1);
    assert!(!state.members.contains_key(&key), "it is let in");
    state.look_after_the_absent();
    assert!(state.table.is_live(node));
}

#[test]
fn who_speaks_another_version_is_answered_before_the_connection_ends() {
    let broker = Broker::start("test", 1).unwrap();
    let socket = broker.invite().unwrap();
    rustix::net::send(&socket, b"a frame of another version", rustix::net::SendFlags::empty()).unwrap();
    assert!(poll::is_readable_within(&socket, None));
    let received = Socket::new(socket).receive();
    let expected = Frame::Refuse { reason: Refusal::Nonsense as u64 };
    assert!(matches!(received, Received::Frame(frame, None) if frame == expected), "{received:?}");
}

#[test]
fn a_departure_is_told_although_whoever_marked_it_was_stopped_before_it_could() {
    let broker = Broker::start("test", 1).unwrap();
    let socket = Socket::new(broker.invite().unwrap());
    let node = join_as(process::own_word(), &socket);
    let table = broker.shared.lock().table.clone();
    assert!(table.mark_gone(node, table.seat_of(node).unwrap(), true));
    let before = (table.departures(), table.changes());
    drop(socket);
    assert_eq!(broker.gone_of(&[node], Duration::from_secs(10)), [(node, true)]);
    assert!(table.departures() != before.0 && table.changes() != before.1);
}

#[test]
fn a_listener_that_nobody_can_be_accepted_from_is_left_alone_for_a_while() {
    let broker = Broker::start("test", 1).unwrap();
    // It cannot be accepted from before somebody listens, and tells of something all the time.
    let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
    let (family, kind) = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
    let listener = rustix::net::socket_with(family, kind, flags, None).unwrap();
    let name = format!("deck-deaf-{}", std::process::id());
    let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    let ours = listener.try_clone().unwrap();
    broker.found(0, listener).unwrap();
    let mut state = broker.shared.lock();
    state.accept();
    let mut keys = Vec::new();
    state.poll.wait(&mut keys, Some(Duration::ZERO)).unwrap();
    assert_eq!(keys, []);
    drop(state);
    // As this thread has done the broker's work, which may be asleep.
    crate::wakeup::ring(&broker.shared.wake);
    rustix::net::listen(&ours, 1).unwrap();
    let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    join_as(process::own_word(), &Socket::new(socket));
}

/// Both have ended before the broker looks, and it looks first at the one that knew of the other's death.
#[test]
fn who_went_because_of_another_is_gone_after_that_one_whatever_the_broker_hears_first() {
    for killed in [0, 1] {
        let broker = Broker::start("", 2).unwrap();
        let sockets = [(); 2].map(|()| Socket::new(broker.invite().unwrap()));
        for socket in &sockets {
            join_as(process::own_word(), socket);
        }
        {
            let mut state = broker.shared.lock();
            state.table.set_gone(NodeId(killed), true);
            drop(sockets);
            let keys = [1 - killed, killed].map(|number| key_of(&state, NodeId(number)));
            keys.into_iter().for_each(|key| state.serve_member(key));
        }
        let gone = broker.gone_of(&[NodeId(0), NodeId(1)], Duration::MAX);
        assert_eq!(gone, [(NodeId(killed), true), (NodeId(1 - killed), true)]);
    }
}
