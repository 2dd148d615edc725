//! A round over real servers: what [`quorum`](crate::quorum) decides is carried out here.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::acquisition::Acquisition;
use super::hold::{Member, QuorumHold};
use crate::claim::Verdict;
use crate::clock::sleep_until_some;
use crate::error::Error;
use crate::exchange::Failed;
use crate::hold::Armed;
use crate::observer::LeaseEvent;
use crate::protocol::{Answer, FencingToken, Verb};
use crate::quorum::{Failure, Reply, Round, Step, WrittenBack};
use crate::store::StoreError;

/// A round that granted nothing.
pub(super) struct Missed {
    pub(super) failure: Failure,
    /// Which servers grant nothing for now.
    pub(super) shut: Vec<bool>,
    /// What each server failed with.
    pub(super) troubles: Vec<Option<StoreError>>,
    /// The servers on which the name holds something else.
    pub(super) foreign: Vec<usize>,
}

/// What a server's answer means to the round, and what to tell of it if it is a failure.
fn reading(outcome: Result<Verdict, Failed>) -> (Reply, Option<StoreError>) {
    let failed = |trouble: StoreError| (Reply::Failed, Some(trouble));
    match outcome {
        Ok(Verdict::Granted(token)) => (Reply::Granted(token), None),
        Ok(Verdict::Busy(left)) => (Reply::Busy(left), None),
        Ok(Verdict::Out(left)) => {
            let trouble = StoreError::not_sent(format!(
                "it has been up for too short a time to know who holds, and takes part again in {left:?}"
            ));
            (Reply::Out(left), Some(trouble))
        }
        Ok(Verdict::Spent) => failed(StoreError::unknown(
            "its grant came too late to be believed: the server is too slow for this ttl",
        )),
        Ok(Verdict::WrongKind) => failed(StoreError::refused(
            "WRONGTYPE the name holds another kind's data",
        )),
        Ok(verdict) => failed(StoreError::unknown(format!(
            "an acquire was answered by {verdict:?}"
        ))),
        Err(Failed::Forbidden(reason)) => failed(StoreError::not_sent(format!(
            "an acquire was not allowed: {reason:?}"
        ))),
        Err(Failed::Store(error)) => failed(error),
    }
}

fn reading_of_write_back(answer: Result<Answer, StoreError>) -> (WrittenBack, Option<StoreError>) {
    match answer {
        Ok(Answer::Raised) => (WrittenBack::Accepted, None),
        Ok(Answer::Gone | Answer::Revoked) => (WrittenBack::Refused, None),
        Ok(answer) => {
            let trouble = StoreError::unknown(format!("a token was answered by {answer:?}"));
            (WrittenBack::Failed, Some(trouble))
        }
        Err(error) => (WrittenBack::Failed, Some(error)),
    }
}

impl Acquisition {
    /// Asks every server at once, for a claim that has not been before. Whatever comes of it, the claim leaves every server
    /// that does not take part in a grant, also those that did not answer.
    pub(super) async fn round(&mut self) -> Result<QuorumHold, Missed> {
        let nodes = Arc::clone(&self.lock.nodes);
        let id = nodes[0].engine.claim(self.owner);
        let arm = |(node, terms): (&super::Node, &_)| {
            node.engine.arm_as(id.clone(), &node.protocol, *terms, None)
        };
        // Kept where they are dropped, and leave, if this future is.
        let armed: Vec<Armed> = nodes.iter().zip(&self.terms).map(arm).collect();
        let clock = Arc::clone(nodes[0].clock());
        let began = clock.now();
        let mut round = Round::new(self.lock.quorum, self.ttl, self.drift, began);
        let mut troubles: Vec<Option<StoreError>> = vec![None; nodes.len()];
        let mut foreign = Vec::new();
        let ask = async |place: usize| {
            let line = &nodes[place].engine.line;
            (
                place,
                line.exchange(&armed[place].tenure, Verb::Acquire).await,
            )
        };
        let raise = async |place: usize, token| {
            let line = &nodes[place].engine.line;
            (place, line.raise(&armed[place].tenure, token).await)
        };
        let mut asked: FuturesUnordered<_> = (0..nodes.len()).map(&ask).collect();
        let mut raised = FuturesUnordered::new();
        let decided = loop {
            let until = match round.step(clock.now()) {
                Step::Wait(until) => until,
                Step::WriteBack(token, behind) => {
                    // Who has not answered by now does not take part.
                    asked.clear();
                    raised.extend(behind.into_iter().map(|place| raise(place, token)));
                    continue;
                }
                Step::Granted(token) => break Ok(token),
                Step::Failed(failure) => break Err(failure),
            };
            tokio::select! {
                biased;
                Some((place, outcome)) = asked.next() => {
                    if let Ok(Verdict::WrongKind) = outcome {
                        foreign.push(place);
                    }
                    let (reply, trouble) = reading(outcome);
                    troubles[place] = trouble;
                    round.answered(place, reply, clock.now());
                }
                Some((place, answer)) = raised.next() => {
                    let (outcome, trouble) = reading_of_write_back(answer);
                    troubles[place] = trouble;
                    round.written_back(place, outcome);
                }
                () = sleep_until_some(&clock, until) => {}
            }
        };
        drop(asked);
        drop(raised);
        self.took = clock.now().since(began);
        match decided {
            Ok(token) => {
                let members = armed.into_iter().enumerate();
                let members = members.filter(|(place, _)| round.holds_on(*place));
                Ok(self.granted(members.collect(), token))
            }
            Err(failure) => {
                tracing::debug!(claim = %id, ?failure, ?troubles, "a round failed");
                Err(Missed {
                    failure,
                    shut: (0..nodes.len()).map(|place| round.is_shut(place)).collect(),
                    troubles,
                    foreign,
                })
            }
        }
    }

    /// Lets the parts of the grant be renewed, tells of it and hands the hold out.
    fn granted(&self, members: Vec<(usize, Armed)>, token: FencingToken) -> QuorumHold {
        let nodes = &self.lock.nodes;
        for node in nodes.iter() {
            node.engine.line.saw(token);
        }
        let waited = nodes[0].now().since(self.started);
        let members = members.into_iter().map(|(place, armed)| {
            let (engine, tenure) = (&nodes[place].engine, &armed.tenure);
            engine.renewals.add(tenure);
            let ear = engine.hub.granted(&*nodes[place].protocol, self.owner);
            let event = LeaseEvent::Granted { token, waited };
            engine.line.observed.tell(tenure, event);
            Member::new(place, armed, ear)
        });
        let hold = QuorumHold::new(self.lock.clone(), members.collect(), token);
        tracing::debug!(lease = ?&*hold, "granted");
        hold.heed();
        hold
    }

    /// What to tell whoever asked, if a round is not tried again.
    pub(super) fn error(&self, missed: &Missed) -> Error {
        let nodes = &self.lock.nodes;
        let foreign = self.lock.quorum.is_prevented(missed.foreign.len());
        let foreign = missed.foreign.first().filter(|_| foreign);
        match (missed.failure, foreign) {
            (Failure::Unreachable(_), Some(place)) => {
                let protocol = &nodes[*place].protocol;
                Error::WrongKind {
                    name: protocol.name().to_string(),
                    kind: protocol.kind().as_str(),
                    key: protocol.name().main().to_owned(),
                }
            }
            (Failure::Unreachable(_), None) => {
                super::node::failed_on(nodes, "acquire", &missed.troubles)
            }
            (failure, _) => {
                let why = match failure {
                    Failure::Late => {
                        "a majority granted too late to be believed: the servers are too slow for this ttl"
                    }
                    _ => {
                        "a majority granted, and was none any more when the grant was to be complete"
                    }
                };
                let context = format!("acquire lock {:?}", self.lock.name());
                Error::backend(context, StoreError::unknown(why))
            }
        }
    }
}
