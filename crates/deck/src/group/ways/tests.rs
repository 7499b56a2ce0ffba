use super::*;

/// Ways that are tried one after the other.
const TRIED: u32 = Route::TRIED.len() as u32;

/// In the program's own memory, where nobody else may read.
fn copied() -> (bool, Attach) {
    (false, Attach::Never)
}

fn best(ways: &Ways, alike: Alike) -> Route {
    ways.records.iter().find(|record| record.alike == alike).unwrap().best()
}

/// Makes calls that take what `ns` says; how many went through the caches, and how many were timed.
fn make_as(alike: Alike, ways: &mut Ways, calls: u32, ns: impl Fn(Route) -> u64) -> (u32, u32) {
    let (mut through, mut timed) = (0, 0);
    for _ in 0..calls {
        let (way, then) = ways.choose(alike);
        let is_timed = then == Then::Time;
        if is_timed {
            ways.took(alike, ns(way));
        }
        through += u32::from(way == Route::Through);
        timed += u32::from(is_timed);
    }
    (through, timed)
}

/// Long calls, which may be attached.
fn long() -> Alike {
    Alike::new(Kind::Bcast, 1 << 20, || (false, Attach::Auto)).unwrap()
}

fn long_trials() -> Trials {
    Trials::long(Kind::Bcast, 1 << 20, 2)
}

fn make(ways: &mut Ways, calls: u32, ns: impl Fn(Route) -> u64) -> u32 {
    make_as(long(), ways, calls, ns).0
}

#[test]
fn the_faster_way_is_taken_and_the_other_one_tried_now_and_then() {
    let mut ways = Ways::new(2);
    let Trials { before, each, .. } = long_trials();
    assert_eq!(make(&mut ways, before + TRIED * each, |_| 150), before + each);
    for faster in Route::ALL.into_iter().chain([Route::Through]) {
        let ns = |way| if way == faster { 100 } else { 200 };
        make(&mut ways, 20 * long_trials().of, ns);
        assert_eq!(best(&ways, long()), faster);
        let through = make(&mut ways, 10 * long_trials().of, ns);
        let others = (TRIED - 1) * long_trials().each;
        assert_eq!(
            through,
            if faster == Route::Through { 10 * (long_trials().of - others) } else { 10 * long_trials().each }
        );
    }
}

#[test]
fn short_calls_come_to_the_faster_way_too_and_are_seldom_timed() {
    let (alike, mut ways) = (Alike::new(Kind::Bcast, 4096, copied).unwrap(), Ways::new(2));
    make_as(alike, &mut ways, 2 * SHORT.each, |_| 150);
    for faster in [Route::Past, Route::Through, Route::Past] {
        let ns = |way| if way == faster { 600 } else { 2400 };
        make_as(alike, &mut ways, 20 * SHORT.of, ns);
        let (through, timed) = make_as(alike, &mut ways, 10 * SHORT.of, ns);
        let other = 10 * SHORT.each;
        let expected = if faster == Route::Past { other } else { 10 * SHORT.of - other };
        assert_eq!((through, timed), (expected, 20 * SHORT.timed));
    }
}

/// What a call takes depends on the ways of both. They begin with different opinions.
#[test]
fn members_that_prefer_different_ways_come_to_agree() {
    let alike = Alike::new(Kind::Allgather, 4096, copied).unwrap();
    let mut ways = [Ways::new(2), Ways::new(2)];
    for (ways, faster) in ways.iter_mut().zip([Route::Through, Route::Past]) {
        make_as(alike, ways, 2 * SHORT.each + 1, |way| if way == faster { 90 } else { 100 });
    }
    assert_ne!(best(&ways[0], alike), best(&ways[1], alike));
    for _ in 0..20 * SHORT.of {
        let chosen = ways.each_mut().map(|ways| ways.choose(alike));
        let ns = chosen.iter().map(|(way, _)| if *way == Route::Past { 100 } else { 200 }).sum();
        for (ways, _) in ways.iter_mut().zip(chosen).filter(|(_, (_, then))| *then == Then::Time) {
            ways.took(alike, ns);
        }
    }
    assert_eq!(ways.each_ref().map(|ways| best(ways, alike)), [Route::Past; 2]);
}

/// Of a kind in which all give, and of one with a root that goes round.
#[test]
fn new_memory_makes_no_way_look_slow() {
    for (kind, turns) in [(Kind::Alltoallv, 1), (Kind::Reduce, 2)] {
        let (bytes, mut ways) = (room::LONG, Ways::new(2));
        let alike = Alike::new(kind, bytes, copied).unwrap();
        let is_new = turns * room::calls_to_touch_all(bytes, 2);
        for number in 0..Trials::long(kind, bytes, 2).of {
            let (way, then) = ways.choose(alike);
            // Less and less of it is new.
            let ns = if number < is_new { 2000 - 10 * u64::from(number) } else { 100 + 100 * way as u64 };
            if then == Then::Time {
                ways.took(alike, ns);
            }
        }
        assert_eq!(best(&ways, alike), Route::Through, "{kind:?}");
    }
}

#[test]
fn members_agree_on_what_is_fastest_for_all_together() {
    let mut ways = [(); 3].map(|()| Ways::new(3));
    let Trials { before, each, .. } = Trials::long(Kind::Bcast, 1 << 20, 3);
    let trial = before + TRIED * each;
    for (ways, slow) in ways.iter_mut().zip([Route::Through, Route::Attached, Route::Past]) {
        make(ways, trial, |way| if way == slow { 1000 } else { 100 + 20 * way as u64 });
    }
    assert_ne!(best(&ways[0], long()), best(&ways[1], long()));
    let all = ways.each_mut().map(|ways| {
        let (_, Then::Agree(told)) = ways.choose(long()) else { panic!("it has told nothing") };
        told
    });
    assert_eq!(all.map(|told| told.key), [all[0].key; 3]);
    for ways in &mut ways {
        ways.agree(long(), &all);
        assert_eq!(ways.choose(long()), (Route::ThroughAndPast, Then::Nothing));
    }
    // What one of them does not know tells nothing.
    let mut less = all;
    less[1].ns[Route::ThroughAndPast as usize] = u32::MAX;
    ways[0].agree(long(), &less);
    assert_ne!(best(&ways[0], long()), Route::ThroughAndPast);
}

#[test]
fn one_trial_that_was_held_up_changes_nothing() {
    let mut ways = Ways::new(2);
    let ns = |way| if way == Route::Past { 100 } else { 140 };
    make(&mut ways, long_trials().before + 3 * long_trials().of, ns);
    make(&mut ways, TRIED * long_trials().each, |way| if way == Route::Past { 1_000_000 } else { 140 });
    assert_eq!(make(&mut ways, long_trials().of, ns), long_trials().each);
    assert_eq!(best(&ways, long()), Route::Past);
}

#[test]
fn a_member_whose_part_is_small_in_some_calls_tells_the_ways_by_all() {
    let (alike, mut ways, mut number) = (Alike::new(Kind::Scatter, 4096, copied).unwrap(), Ways::new(2), 0);
    // The root in every second call: writing past the caches is quick, and reading what was written so takes long.
    for _ in 0..SHORT.of {
        let (way, then) = ways.choose(alike);
        number += 1;
        let ns = match (way, number % 2) {
            (Route::Past, 0) => 100,
            (Route::Past, _) => 1000,
            _ => 400,
        };
        if then == Then::Time {
            ways.took(alike, ns);
        }
    }
    assert_eq!(best(&ways, alike), Route::Through);
}

#[test]
fn what_is_told_of_a_trial_is_enough_and_an_unknown_way_is_not_slow() {
    let (alike, mut ways) = (long(), Ways::new(2));
    // All calls through the caches were held up at first; after that every second call is only started.
    let Trials { before, of, each, .. } = long_trials();
    for number in 0..before + 2 * of {
        let (way, then) = ways.choose(alike);
        assert!(way == Route::Through || !(before + TRIED * each..before + of).contains(&number));
        let is_told = if number < before + of { way == Route::Past } else { number % 2 == 0 };
        if then == Then::Time && is_told {
            ways.took(alike, if way == Route::Past { 100 } else { 200 });
        }
    }
    assert_eq!(best(&ways, alike), Route::Past);
}

#[test]
fn a_call_that_has_not_begun_does_not_count() {
    let (alike, mut ways) = (Alike::new(Kind::Bcast, 4096, copied).unwrap(), Ways::new(2));
    for _ in 0..2 * SHORT.each {
        ways.choose(alike);
        ways.take_back(alike);
    }
    assert_eq!(ways.choose(alike), (Route::Through, Then::Nothing));
    assert_eq!(make_as(alike, &mut ways, 2 * SHORT.each - 1, |_| 1).0, SHORT.each - 1);
}

#[test]
fn what_there_is_to_choose_from_depends_on_where_and_how_long_it_is() {
    let routes = |bytes, lies| Alike::new(Kind::Bcast, bytes, || lies).unwrap().routes();
    assert_eq!(routes(4096, (false, Attach::Auto)), [Route::Through, Route::Past]);
    assert_eq!(routes(1 << 20, (true, Attach::Never)), [Route::Through, Route::Past]);
    assert_eq!(routes(1 << 20, (false, Attach::Never)), [Route::Through, Route::ThroughAndPast, Route::Past]);
    assert_eq!(routes(1 << 20, (false, Attach::Auto)), Route::TRIED);
    let folded = Alike::new(Kind::Reduce, 1 << 20, copied).unwrap();
    assert_eq!(folded.routes(), [Route::Through, Route::Past]);
    assert_eq!(routes(1 << 20, (false, Attach::Always)), [Route::Attached]);
}

#[test]
fn each_member_of_a_small_group_is_root_before_the_first_trial_and_before_what_is_timed_of_each() {
    let trials = |kind| [1, 2, 8, 16, 1024].map(|members| Trials::long(kind, 8 << 20, members));
    assert_eq!(trials(Kind::Scatter).map(|trials| trials.before), [1, 2, 8, 16, 16]);
    assert_eq!(trials(Kind::Alltoall).map(|trials| trials.before), [1; 5]);
    assert_eq!(trials(Kind::Scatter).map(|trials| trials.each), [8, 8, 12, 20, 20]);
    assert!(trials(Kind::Scatter).iter().all(|trials| trials.timed == 4));
}

#[test]
fn short_calls_have_no_choice() {
    assert_eq!(Alike::new(Kind::Bcast, FROM - 1, copied), None);
}
