use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::words::token::FencingToken;

const TTL: Duration = Duration::from_millis(1000);
const DRIFT: Duration = Duration::from_millis(15);

fn at(millis: u64) -> Moment {
    Moment::from_elapsed(Duration::from_millis(millis))
}

fn token(number: u64) -> Reply {
    Reply::Granted(FencingToken::new(number))
}

fn round(servers: usize) -> Round {
    Round::new(Quorum::of(servers).unwrap(), TTL, DRIFT, at(0))
}

/// The round after these answers at these times.
fn after(servers: usize, replies: &[(usize, Reply)], now: u64) -> (Round, Step) {
    let mut round = round(servers);
    for (server, reply) in replies {
        round.answered(*server, *reply, at(now));
    }
    let step = round.step(at(now));
    (round, step)
}

#[test]
fn a_quorum_is_an_odd_number_of_three_or_more_and_is_counted_over_all_of_them() {
    for servers in [0, 1, 2, 4, 6] {
        assert_eq!(Quorum::of(servers), None, "{servers}");
    }
    for (servers, size) in [(3, 2), (5, 3), (7, 4)] {
        let quorum = Quorum::of(servers).unwrap();
        assert_eq!((quorum.servers(), quorum.size()), (servers, size));
        assert!(quorum.is_reached(size) && !quorum.is_reached(size - 1));
        assert!(quorum.is_prevented(size) && !quorum.is_prevented(servers - size));
    }
}

#[test]
fn the_largest_token_is_written_back_to_those_behind_and_then_the_claim_holds() {
    let all = [(0, token(7)), (1, token(9)), (2, token(8))];
    let (mut round, step) = after(3, &all, 5);
    let largest = FencingToken::new(9);
    assert_eq!(step, Step::WriteBack(largest, vec![0, 2]));
    assert_eq!(round.step(at(6)), Step::Wait(Some(at(985))));
    round.written_back(2, WrittenBack::Accepted);
    assert_eq!(round.step(at(7)), Step::Granted(largest));
}

#[test]
fn what_a_quorum_has_given_alike_is_the_token_and_nothing_is_written_back() {
    let agreed = Step::Granted(FencingToken::new(7));
    for other in [token(5), token(7), token(9), Reply::Failed] {
        let (round, step) = after(3, &[(0, token(7)), (1, other), (2, token(7))], 5);
        assert_eq!(step, agreed, "{other:?}");
        assert_eq!(round.holds_on(1), other != Reply::Failed, "{other:?}");
    }
    // Two of five are no quorum, however many such pairs there are.
    let pairs = [7, 7, 9, 9, 8].map(token);
    let (_, step) = after(5, &[0, 1, 2, 3, 4].map(|it| (it, pairs[it])), 5);
    let largest = FencingToken::new(9);
    assert_eq!(step, Step::WriteBack(largest, vec![0, 1, 4]));
}

#[test]
fn the_token_of_a_round_is_above_what_its_client_has_seen() {
    let above = |seen| {
        let mut round = round(3).above(seen);
        for server in 0..3 {
            round.answered(server, token(7), at(5));
        }
        let step = round.step(at(5));
        (round, step)
    };
    assert_eq!(above(6).1, Step::Granted(FencingToken::new(7)));
    let (mut round, step) = above(7);
    let larger = FencingToken::new(8);
    assert_eq!(step, Step::WriteBack(larger, vec![0, 1, 2]));
    round.written_back(0, WrittenBack::Accepted);
    assert_eq!(round.step(at(6)), Step::Wait(Some(at(985))));
    round.written_back(2, WrittenBack::Accepted);
    assert_eq!(round.step(at(7)), Step::Granted(larger));
}

#[test]
fn all_servers_are_asked_for_what_as_many_as_possible_can_give() {
    let quorum = Quorum::of(5).unwrap();
    let proposal = |seen, next: &[u64]| quorum.proposal(seen, next.iter().copied());
    // The largest that a quorum follows.
    assert_eq!(proposal(7, &[100, 400, 200, 500_200, 300]), 500_200);
    assert_eq!(proposal(7, &[100, 400, 200, 500_301, 300]), 400);
    assert_eq!(proposal(7, &[500_301, 500_400, 100, 200, 300]), 300);
    // One server whose clock is far behind does not affect the others.
    assert_eq!(
        proposal(7, &[1, 9_000_000, 9_000_001, 9_000_002]),
        9_000_002
    );
    assert_eq!(proposal(900, &[100, 400, 200, 500, 300]), 901);
    // Too little is known.
    assert_eq!(proposal(7, &[100, 200]), 8);
    assert_eq!(proposal(0, &[]), 1);
}

#[test]
fn a_write_back_where_the_claim_is_gone_does_not_count() {
    let (mut round, _) = after(3, &[(0, token(7)), (1, token(9)), (2, token(8))], 5);
    round.written_back(0, WrittenBack::Refused);
    assert_eq!(round.step(at(6)), Step::Wait(Some(at(985))));
    assert!(!round.holds_on(0));
    round.written_back(2, WrittenBack::Refused);
    assert_eq!(round.step(at(7)), Step::Failed(Failure::Vanished));
}

#[test]
fn a_quorum_of_those_that_answered_is_none() {
    let (_, step) = after(5, &[(0, token(1)), (1, token(1))], 5);
    assert_eq!(step, Step::Wait(None));
    let failed = [0, 1, 2].map(|server| (server, Reply::Failed));
    let (_, step) = after(
        5,
        &[&failed[..], &[(3, token(1)), (4, token(1))]].concat(),
        5,
    );
    assert_eq!(step, Step::Failed(Failure::Unreachable(None)));
}

#[test]
fn the_rest_is_waited_for_as_long_as_the_quorum_took_and_no_longer() {
    let (mut round, step) = after(3, &[(0, token(1)), (1, token(1))], 40);
    assert_eq!(step, Step::Wait(Some(at(80))));
    assert_eq!(round.step(at(79)), Step::Wait(Some(at(80))));
    assert_eq!(round.step(at(80)), Step::Granted(FencingToken::new(1)));
    // A server that answers later takes no part.
    round.answered(2, token(5), at(81));
    assert!(!round.holds_on(2));
}

#[test]
fn a_delay_that_eats_the_validity_is_a_failure() {
    let (_, step) = after(3, &[(0, token(1)), (1, token(2)), (2, token(3))], 985);
    assert_eq!(step, Step::Failed(Failure::Late));
    let (mut round, _) = after(3, &[(0, token(1)), (1, token(2)), (2, token(3))], 984);
    round.written_back(0, WrittenBack::Accepted);
    assert_eq!(round.step(at(985)), Step::Failed(Failure::Late));
}

#[test]
fn a_round_that_fails_says_when_a_quorum_may_be_free() {
    let busy = |left| Reply::Busy(Some(Duration::from_millis(left)));
    let (_, step) = after(3, &[(0, busy(300)), (1, busy(100)), (2, Reply::Failed)], 10);
    assert_eq!(step, Step::Failed(Failure::Contended(Some(at(310)))));
    let (_, step) = after(3, &[(0, Reply::Busy(None)), (1, busy(100))], 10);
    assert_eq!(step, Step::Failed(Failure::Contended(Some(at(110)))));
    let out = Reply::Out(Duration::from_millis(50));
    let (_, step) = after(3, &[(0, out), (1, out), (2, token(1))], 10);
    assert_eq!(step, Step::Failed(Failure::Unreachable(Some(at(60)))));
}

#[test]
fn a_round_decides_once() {
    let (mut round, step) = after(3, &[(0, Reply::Failed), (1, Reply::Failed)], 5);
    assert!(matches!(step, Step::Failed(_)));
    round.answered(2, token(1), at(6));
    assert_eq!(round.step(at(6)), Step::Wait(None));
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        3 => (1..20_u64).prop_map(token),
        1 => proptest::option::of(0..2000_u64)
            .prop_map(|left| Reply::Busy(left.map(Duration::from_millis))),
        1 => (0..2000_u64).prop_map(|left| Reply::Out(Duration::from_millis(left))),
        1 => Just(Reply::Failed),
    ]
}

fn write_back() -> impl Strategy<Value = WrittenBack> {
    prop_oneof![
        3 => Just(WrittenBack::Accepted),
        1 => Just(WrittenBack::Refused),
        1 => Just(WrittenBack::Failed),
    ]
}

/// Servers in any order, with the answer of each and how long it takes.
fn answers() -> impl Strategy<Value = Vec<(usize, Reply, WrittenBack, u64)>> {
    prop_oneof![Just(3_usize), Just(5), Just(7)].prop_flat_map(|servers| {
        let answer = (reply(), write_back(), 0..400_u64);
        let each = proptest::collection::vec(answer, servers);
        let order = Just((0..servers).collect::<Vec<_>>()).prop_shuffle();
        (each, order).prop_map(|(each, order)| {
            let zipped = order.into_iter().zip(each);
            let flat = zipped.map(|(place, (reply, back, pause))| (place, reply, back, pause));
            flat.collect()
        })
    })
}

proptest! {
    /// For any answers in any order: a grant has a quorum whose servers hold the claim, have its token as their last
    /// one, and are still valid; and every round ends once all servers have answered.
    #[test]
    fn a_grant_is_one_of_a_quorum_that_holds_and_has_its_token_for_the_last(answers in answers()) {
        let servers = answers.len();
        let quorum = Quorum::of(servers).unwrap();
        let mut round = round(servers);
        let mut now = 0;
        let mut granted: Vec<(usize, FencingToken)> = Vec::new();
        let mut step = round.step(at(0));
        let mut asked = None;
        for (server, reply, _, pause) in &answers {
            if !matches!(step, Step::Wait(_)) {
                break;
            }
            now += pause;
            if let Reply::Granted(token) = reply {
                granted.push((*server, *token));
            }
            round.answered(*server, *reply, at(now));
            step = round.step(at(now));
        }
        if let Step::WriteBack(token, behind) = &step {
            prop_assert!(quorum.is_reached(granted.len()));
            prop_assert_eq!(Some(*token), granted.iter().map(|(_, token)| *token).max());
            asked = Some((*token, behind.clone()));
        }
        let decided = match (&asked, &step) {
            (Some((token, _)), _) | (None, Step::Granted(token)) => Some(*token),
            _ => None,
        };
        let given = granted.iter().filter(|(_, token)| Some(*token) == decided);
        let mut accepted: Vec<usize> = given.map(|(server, _)| *server).collect();
        if let Some((_, behind)) = &asked {
            for (server, _, outcome, pause) in &answers {
                if !behind.contains(server) {
                    continue;
                }
                now += pause;
                if *outcome == WrittenBack::Accepted {
                    accepted.push(*server);
                }
                round.written_back(*server, *outcome);
                step = round.step(at(now));
                if !matches!(step, Step::Wait(_)) {
                    break;
                }
            }
        }
        match step {
            Step::Granted(token) => {
                prop_assert!(quorum.is_reached(accepted.len()));
                prop_assert_eq!(Some(token), decided);
                prop_assert!(at(now) < at(0).after(TTL - DRIFT));
            }
            Step::Failed(_) => {}
            other => prop_assert!(false, "everybody has answered, and it is {other:?}"),
        }
    }

    #[test]
    fn what_a_quorum_reaches_is_reached_by_so_many_and_by_no_more(
        values in proptest::collection::vec(0..10_u64, 0..=5)
    ) {
        let quorum = Quorum::of(5).unwrap();
        match quorum.reached_by(values.iter().copied()) {
            None => prop_assert!(values.len() < 3),
            Some(reached) => {
                prop_assert!(values.iter().filter(|value| **value >= reached).count() >= 3);
                prop_assert!(values.iter().filter(|value| **value > reached).count() < 3);
            }
        }
    }
}
