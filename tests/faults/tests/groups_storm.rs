//! The storm of groups: threads of several nodes call one collective after the other, each in ways of its own, while
//! nodes are stopped for a moment, and one is killed in the end.
//!
//! `DECK_STORM=1000 cargo test -p deck-faults --release --test groups_storm -- --nocapture` has a thousand groups and
//! tells how it goes.

use deck_testkit::{Chance, Failure, Job, Process, storm};

const PROGRAM: &str = deck_testkit::node_program!();
/// Groups in an ordinary run of each test.
const GROUPS: usize = 8;
/// Calls of a group that comes to its end: of most, and of others.
const CALLS: [u32; 4] = [40, 40, 40, 400];
/// How long anything may take.
const TIME_MS: u64 = 60_000;

/// A member of a group: a lane of a node.
struct Member {
    place: usize,
    lane: String,
}

struct Storm {
    job: Job,
    environment: &'static [(&'static str, &'static str)],
    nodes: Vec<Process>,
    chance: Chance,
}

impl Storm {
    fn start(groups: usize, environment: &'static [(&'static str, &'static str)]) -> Storm {
        let job = Job::launched(PROGRAM).with_limit(storm::limit(groups));
        let chance = Chance::new(job.seed());
        let nodes = (0..4).map(|_| job.node_with(environment)).collect();
        Storm { job, environment, nodes, chance }
    }

    /// The members of the next group, in the order of indexes.
    fn members(&mut self) -> Vec<Member> {
        let places = 1 + self.chance.below(self.nodes.len());
        let mut members: Vec<Member> = (0..places).map(|place| Member { place, lane: "0".to_string() }).collect();
        for lane in 1..1 + self.chance.below(4) {
            let place = self.chance.below(places);
            members.push(Member { place, lane: lane.to_string() });
        }
        for at in (1..members.len()).rev() {
            members.swap(at, self.chance.below(at + 1));
        }
        members
    }

    fn tell(&self, members: &[Member], what: impl Fn(usize) -> String) {
        for (index, member) in members.iter().enumerate() {
            self.nodes[member.place].tell(&member.lane, &what(index));
        }
    }

    /// What member `index` was answered.
    fn answer(&self, index: usize, member: &Member) -> Result<String, Failure> {
        let answer = self.nodes[member.place].answer(&member.lane);
        answer.unwrap_or_else(|| panic!("the node of member {index} is gone")).result
    }

    /// All of `members` do this, and succeed.
    fn all(&self, members: &[Member], what: impl Fn(usize) -> String) {
        self.tell(members, what);
        for (index, member) in members.iter().enumerate() {
            self.answer(index, member).unwrap_or_else(|failure| panic!("member {index}: {failure}"));
        }
    }

    /// Stops one node after the other for a moment.
    fn stop_some(&mut self, members: &[Member]) {
        for _ in 0..self.chance.below(4) {
            storm::pause(&mut self.chance);
            let place = members[self.chance.below(members.len())].place;
            storm::stop_for_a_moment(&self.nodes[place], &mut self.chance);
        }
    }

    /// One group, from joining to leaving.
    fn group(&mut self, number: usize) {
        let members = self.members();
        let name = format!("g{number}");
        let own = ["", "own"][self.chance.below(2)];
        self.all(&members, |index| format!("join-group {name} {} {index} {TIME_MS} {own}", members.len()));
        let seed = self.chance.bits();
        let kills = self.chance.below(2) == 0;
        let calls = if kills { u32::MAX } else { CALLS[self.chance.below(CALLS.len())] };
        let course = |index: usize| format!("course {name}@{index} {seed} {calls} {TIME_MS}");
        if kills {
            self.tell(&members, course);
            self.stop_some(&members);
            storm::pause(&mut self.chance);
            let victim = &members[self.chance.below(members.len())];
            self.kill(victim.place, &members);
        } else {
            self.all(&members, course);
        }
        for (index, member) in members.iter().enumerate() {
            // A node that took the place of another was never in it.
            let left = self.nodes[member.place].ask_in(&member.lane, &format!("leave-group {name}@{index}"));
            left.result.unwrap_or_else(|failure| panic!("member {index} cannot leave: {failure}"));
        }
    }

    /// Kills a node, of which all others are told by their calls, and has another take its place.
    fn kill(&mut self, place: usize, members: &[Member]) {
        self.nodes[place].kill();
        for (index, member) in members.iter().enumerate().filter(|(_, member)| member.place != place) {
            let failure = self.answer(index, member).expect_err("the course never ends");
            assert_eq!(
                (failure.kind.as_str(), failure.peer),
                ("PeerLost", Some(self.nodes[place].number())),
                "member {index}: {failure}"
            );
        }
        self.nodes[place] = self.job.node_with(self.environment);
    }
}

fn storm(environment: &'static [(&'static str, &'static str)]) {
    let groups = storm::rounds(GROUPS);
    let mut storm = Storm::start(groups, environment);
    storm::each(groups, "groups", |number| storm.group(number));
    let Storm { job, nodes, .. } = storm;
    drop(nodes);
    job.end();
}

#[test]
fn every_result_is_right_and_every_death_is_told_where_calls_come_in_any_way() {
    storm(&[]);
}

#[test]
fn the_same_where_long_arrays_are_read_in_their_programs_memory() {
    storm(&[("DECK_ATTACH", "always")]);
}

#[test]
fn the_same_where_they_are_not() {
    storm(&[("DECK_ATTACH", "never")]);
}
