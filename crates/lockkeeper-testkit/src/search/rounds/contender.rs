//! One contender: its claims, its requests to each server, and its reactions to answers.

use std::array;

use lockkeeper_core::FencingToken;
use lockkeeper_core::claim::{Claim, Verdict};
use lockkeeper_core::clock::Moment;
use lockkeeper_core::protocol::Answer;
use lockkeeper_core::quorum::{Quorum, Reply, Round, WrittenBack};
use lockkeeper_core::store::Outcome;

use super::{SERVERS, TICKS};
use crate::search::state::{Requests, release_needed};

/// A claim has only one request at a time here, so all have this number.
pub(super) const NUMBER: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    /// How many rounds it has begun; each has its own claims.
    pub(super) begun: u8,
    pub(super) stage: Stage,
    /// The claims of the present round, by server.
    pub(super) claims: Vec<Claim>,
    /// The largest token that each server has confirmed as the claim's in the present round.
    pub(super) tokens: [Option<FencingToken>; SERVERS],
    /// The round and the request, by server. Requests in doubt may be executed once.
    pub(super) requests: [Requests<(u8, Asked), Answer>; SERVERS],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Idle,
    Asking(Round),
    Held,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Asked {
    Acquire,
    WriteBack(FencingToken),
    Renew,
    Release { overtakes: bool },
}

impl Contender {
    pub(super) fn new() -> Self {
        Self {
            begun: 0,
            stage: Stage::Idle,
            claims: Vec::new(),
            tokens: [None; SERVERS],
            requests: array::from_fn(|_| Requests::new()),
        }
    }

    /// The number of the present round.
    pub(super) const fn round(&self) -> u8 {
        self.begun.saturating_sub(1)
    }

    pub(super) fn is_valid(&self, quorum: Quorum, now: Moment) -> bool {
        let valid = self
            .claims
            .iter()
            .filter(|claim| claim.validity(now).holds());
        self.stage == Stage::Held && quorum.is_reached(valid.count())
    }

    /// Sends a request to a server; the claim knows of it already.
    pub(super) fn send(&mut self, server: usize, asked: Asked) {
        self.requests[server].send((self.round(), asked));
    }

    /// Passes an answer to the claim and its round.
    pub(super) fn hear(&mut self, server: usize, asked: Asked, answer: Answer, now: Moment) {
        self.requests[server].under_way = None;
        let round = match &mut self.stage {
            Stage::Asking(round) => Some(round),
            _ => None,
        };
        match asked {
            Asked::Acquire => {
                let reply = match self.claims[server].answered(NUMBER, answer, now) {
                    Verdict::Granted(token) => Reply::Granted(token),
                    Verdict::Busy(left) => Reply::Busy(left),
                    Verdict::Quarantined(left) => Reply::Out(left),
                    _ => Reply::Failed,
                };
                if let Some(round) = round {
                    round.answered(server, reply, now);
                    if let Answer::Granted(token) = answer {
                        self.tokens[server] = Some(token);
                    }
                }
            }
            Asked::WriteBack(token) => {
                if let Some(round) = round {
                    let raised = answer == Answer::Raised;
                    let refused = WrittenBack::Refused;
                    let outcome = if raised {
                        WrittenBack::Accepted
                    } else {
                        refused
                    };
                    round.written_back(server, outcome);
                    if raised {
                        self.tokens[server] = Some(token);
                    }
                }
            }
            Asked::Renew => {
                self.claims[server].answered(NUMBER, answer, now);
            }
            Asked::Release { .. } => {}
        }
    }

    /// Gives a request up without an answer and tells the round.
    pub(super) fn lose(&mut self, server: usize) {
        let asked = self.give_up(server);
        if let Stage::Asking(round) = &mut self.stage {
            match asked {
                // The time of a failure does not matter.
                Some(Asked::Acquire) => round.answered(server, Reply::Failed, TICKS.moment(0)),
                Some(Asked::WriteBack(_)) => round.written_back(server, WrittenBack::Failed),
                _ => {}
            }
        }
    }

    /// Stops waiting for the answer.
    fn give_up(&mut self, server: usize) -> Option<Asked> {
        let (_, asked) = self.requests[server].give_up()?;
        if let Asked::Acquire | Asked::Renew = asked {
            self.claims[server].failed(NUMBER, Outcome::Unknown);
        }
        Some(asked)
    }

    pub(super) fn give_all_up(&mut self) {
        for server in 0..SERVERS {
            self.give_up(server);
        }
    }

    /// Ends the claims on these servers. Their releases may be executed at any time, or never.
    pub(super) fn release(&mut self, now: Moment, whose: impl Fn(usize) -> bool) {
        let round = self.round();
        let servers = self.requests.iter_mut().zip(&mut self.claims).enumerate();
        for (_, (requests, claim)) in servers.filter(|(server, _)| whose(*server)) {
            requests.give_up();
            claim.end(now);
            if let Some(overtakes) = release_needed(claim) {
                requests
                    .in_doubt
                    .insert((round, Asked::Release { overtakes }));
            }
        }
    }

    /// Drops all claims and tokens of the round.
    pub(super) fn forget_round(&mut self, stage: Stage) {
        self.stage = stage;
        self.claims.clear();
        self.tokens = [None; SERVERS];
    }
}
