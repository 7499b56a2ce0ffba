use deck_mudeck::{Door, ElementType, NodeState};
use deck_peers::Broker;

use super::*;

/// Two members on nodes of their own.
fn pair() -> (Broker, Vec<Node>, Vec<Group>) {
    const SOON: Duration = Duration::from_secs(20);
    let broker = Broker::start("test", 2).unwrap();
    let nodes: Vec<Node> = (0..2).map(|_| Node::join_by(Door::Invited(broker.invite().unwrap())).unwrap()).collect();
    let groups = std::thread::scope(|scope| {
        let join = |index: usize| Group::join(&nodes[index], "pair", 2, Some(index as u32), SOON).unwrap();
        let other = scope.spawn(move || join(1));
        vec![join(0), other.join().unwrap()]
    });
    (broker, nodes, groups)
}

#[test]
fn a_node_leaves_when_its_threads_have_come_out_of_their_calls() {
    const A_MOMENT: Duration = Duration::from_millis(50);
    let (_broker, nodes, mut groups) = pair();
    groups[0].member.enter().unwrap();
    let leaving = nodes[0].clone();
    let leaving = std::thread::spawn(move || leaving.leave());
    while !nodes[0].is_left() {
        std::thread::yield_now();
    }
    let until = Deadline::after(A_MOMENT);
    while !until.has_passed() && !leaving.is_finished() {
        std::thread::yield_now();
    }
    assert!(!leaving.is_finished());
    assert_eq!(nodes[1].state(nodes[0].number()).unwrap(), NodeState::Live);
    groups[0].member.step_out();
    leaving.join().unwrap().unwrap();
    // Lost, if this thread had no core for more than a second.
    assert_ne!(nodes[1].state(nodes[0].number()).unwrap(), NodeState::Live);
    assert_eq!(groups[0].barrier(Duration::ZERO).unwrap_err().kind(), ErrorKind::NotInitialized);
}

/// A byte of a program that goes wrong when it is asked for it the second time, inside a call.
struct Wrong {
    byte: [u8; 1],
    asked: u32,
}

impl Array for Wrong {
    fn bytes(&self) -> &[u8] {
        &self.byte
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.asked += 1;
        assert_ne!(self.asked, 2, "on purpose");
        &mut self.byte
    }
}

#[test]
fn a_thread_that_has_panicked_in_a_call_has_come_out_of_it() {
    let (_broker, nodes, mut groups) = pair();
    let call = Call::allreduce(ElementType::Byte, 1, Operation::Sum);
    let output = Wrong { byte: [0], asked: 0 };
    let start = || groups[0].start_in(&call, Box::new(vec![1u8]), Box::new(output));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)).is_err());
    nodes[0].clone().leave().unwrap();
    assert_eq!(nodes[1].state(nodes[0].number()).unwrap(), NodeState::Left);
}

#[test]
fn what_a_member_could_not_give_is_not_read_as_data() {
    const SOON: Duration = Duration::from_secs(20);
    let node = Node::join().unwrap();
    // What lies in a line, and what lies beside it.
    for bytes in [8, 20_000] {
        let call = Call::bcast(0, ElementType::Byte, bytes);
        let join = |index| Group::join(&node, "without", 2, Some(index), SOON).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| join(0).member.arrive_without(call.word(), bytes as u64));
            let error = join(1).call(&call, &[], &mut vec![0; bytes], SOON).unwrap_err();
            assert_eq!((error.kind(), error.peer()), (ErrorKind::Corrupt, Some(node.number())), "{error}");
            assert!(error.to_string().contains("index 0 could not give"), "{error}");
        });
    }
}

#[test]
fn a_barrier_is_one_meeting_whatever_its_count_says() {
    const SOON: Duration = Duration::from_secs(20);
    let node = Node::join().unwrap();
    let call = Call::new(Kind::Barrier, ElementType::Double, 1 << 54);
    let member = |index| {
        let mut group = Group::join(&node, "barriers", 2, Some(index), SOON).unwrap();
        let before = group.member.phase();
        group.call(&call, &[], &mut [], SOON).unwrap();
        group.member.phase() - before
    };
    let phases = std::thread::scope(|scope| {
        let other = scope.spawn(|| member(1));
        [member(0), other.join().unwrap()]
    });
    assert_eq!(phases, [1, 1]);
}

#[test]
fn members_that_were_in_different_calls_try_ways_in_step_afterwards() {
    const SOON: Duration = Duration::from_secs(20);
    let node = Node::join().unwrap();
    let (element, count) = (ElementType::Double, 1000);
    let member = |index: u32| {
        let mut group = Group::join(&node, "in step", 2, Some(index), SOON).unwrap();
        let (input, mut output) = (vec![0; 8 * count], vec![0; 8 * count]);
        let own = [Kind::Bcast, Kind::Allreduce][index as usize];
        let mut call = |kind| group.call(&Call::new(kind, element, count), &input, &mut output, SOON);
        assert_eq!(call(own).unwrap_err().kind(), ErrorKind::Invalid);
        call(Kind::Bcast).unwrap();
        group.ways.calls_like(Alike::new(Kind::Bcast, 8 * count, || (false, Attach::Never)).unwrap())
    };
    let calls = std::thread::scope(|scope| {
        [0, 1]
            .map(|index| {
                scope.spawn({
                    let member = &member;
                    move || member(index)
                })
            })
            .map(|member| member.join().unwrap())
    });
    assert_eq!(calls, [1, 1]);
}
