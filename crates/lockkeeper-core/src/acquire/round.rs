//! A round on real servers: carries out what [`quorum`](crate::quorum) decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::acquire::acquisition::Acquisition;
use crate::acquire::stage::{Asked, Busy, PartSpec, Stage};
use crate::claim::Verdict;
use crate::engine::floors::Floors;
use crate::engine::requester::Failed;
use crate::engine::terms::Terms;
use crate::engine::unreleased::Unreleased;
use crate::grant::hold::Hold;
use crate::grant::release::failed_on;
use crate::quorum::{Failure, Quorum, Reply, Round, Step, WrittenBack};
use crate::seam::clock::sleep_until_some;
use crate::words::answer::{Answer, Verb};
use crate::words::chance::Purpose;
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;
use crate::words::store_error::StoreError;

/// The longest extra wait after a name was reported free, so that competing callers do not all ask at once. A round
/// usually takes less than this. If the servers are far away, the wait is up to two rounds long.
const JITTER: Duration = Duration::from_millis(20);

/// A round that granted nothing.
struct Missed {
    failure: Failure,
    /// The servers that granted nothing, because others held or they were quarantined.
    shut: Vec<usize>,
    /// The failure of each server.
    troubles: Vec<Option<StoreError>>,
    /// The servers on which the name holds something else.
    foreign: Vec<usize>,
}

/// What a server's answer means for the round, and the error to report if it is a failure.
fn reading(outcome: std::result::Result<Verdict, Failed>) -> (Reply, Option<StoreError>) {
    let failed = |trouble: StoreError| (Reply::Failed, Some(trouble));
    match outcome {
        Ok(Verdict::Granted(token)) => (Reply::Granted(token), None),
        Ok(Verdict::Busy(left)) => (Reply::Busy(left), None),
        Ok(Verdict::Quarantined(left)) => {
            let trouble = StoreError::not_sent(format!(
                "it was started too recently to know who holds, and takes part again in {left:?}"
            ));
            (Reply::Out(left), Some(trouble))
        }
        Ok(Verdict::Stale) => failed(StoreError::unknown(
            "its grant came too late to be valid: the server is too slow for this ttl; choose a longer ttl",
        )),
        Ok(Verdict::WrongKind) => failed(StoreError::refused(
            "WRONGTYPE the name holds another kind's data",
        )),
        Ok(verdict) => failed(StoreError::unknown(format!(
            "unexpected answer to an acquire: {verdict:?}"
        ))),
        Err(Failed::Forbidden(reason)) => failed(StoreError::not_sent(format!(
            "the claim may not acquire now: {reason:?}"
        ))),
        Err(Failed::Store(error)) => failed(error),
    }
}

fn reading_of_write_back(
    answer: std::result::Result<Answer, StoreError>,
) -> (WrittenBack, Option<StoreError>) {
    match answer {
        Ok(Answer::Raised) => (WrittenBack::Accepted, None),
        Ok(Answer::Gone | Answer::Revoked) => (WrittenBack::Refused, None),
        Ok(answer) => {
            let trouble = StoreError::unknown(format!(
                "unexpected answer to the write-back of a token: {answer:?}"
            ));
            (WrittenBack::Failed, Some(trouble))
        }
        Err(error) => (WrittenBack::Failed, Some(error)),
    }
}

impl PartSpec {
    fn floors(&self) -> &Floors {
        &self.engine.requester.floors
    }
}

impl Acquisition {
    /// Asks every server once, with a new claim.
    pub(super) async fn ask_servers(
        &mut self,
        stage: &Stage,
        quorum: Quorum,
        once: bool,
    ) -> Result<Asked> {
        let asked = self.round(stage, quorum).await;
        // The error of the previous round is out of date.
        self.trouble = None;
        let missed = match asked {
            Ok(hold) => return Ok(Asked::Granted(hold)),
            Err(missed) => missed,
        };
        stage.contended.store(true, Ordering::Relaxed);
        let now = stage.clock().now();
        let busy = |until: Option<Moment>| Busy {
            specs: missed.shut.iter().map(|&spec| (spec, None)).collect(),
            until: until.map(|until| until.after(self.jitter(stage))),
            contended: false,
        };
        match missed.failure {
            // Either competing callers blocked each other, or somebody holds the lock and the servers know until
            // when.
            Failure::Contended(Some(until)) if until <= now => {
                let contended = true;
                Ok(Asked::Busy(Busy {
                    contended,
                    ..busy(None)
                }))
            }
            Failure::Contended(until) => Ok(Asked::Busy(busy(until))),
            failure => {
                let error = missed.error(stage, quorum);
                match failure {
                    _ if !error.is_transient() => Err(error),
                    // Servers that have just started are still quarantined a moment later.
                    Failure::Unreachable(Some(_)) if once => Err(error),
                    Failure::Unreachable(Some(until)) => {
                        let busy = busy(Some(until));
                        self.trouble = Some(error);
                        Ok(Asked::Busy(busy))
                    }
                    _ => {
                        let silent = matches!(failure, Failure::Unreachable(None));
                        Ok(Asked::Again { error, silent })
                    }
                }
            }
        }
    }

    /// An extra wait for a caller that asks several servers.
    pub(super) fn jitter(&self, stage: &Stage) -> Duration {
        if stage.quorum.is_none() {
            return Duration::ZERO;
        }
        let longest = JITTER.max(self.took * 2);
        self.chance.within(longest, Purpose::Jitter, self.asked)
    }

    /// Runs one round. Whatever its outcome, the claim is released on every server that takes no part in a grant,
    /// including servers that did not answer.
    async fn round(&mut self, stage: &Stage, quorum: Quorum) -> std::result::Result<Hold, Missed> {
        let (specs, first) = (&stage.specs, stage.first());
        let id = first.engine.claim(first.owner);
        let asked_at = specs.iter().map(|spec| spec.engine.requester.clock.now());
        let asked_at: Vec<Moment> = asked_at.collect();
        // All of these servers have been told the tokens of the grants that this client has seen.
        let seen = specs
            .iter()
            .map(|spec| spec.floors().of(spec.protocol.name()));
        let seen = seen.min().unwrap_or(0);
        let next = specs.iter().zip(&asked_at);
        let next = next.filter_map(|(spec, now)| spec.floors().next(*now));
        let proposal = quorum.proposal(seen, next);
        let arm = |spec: &PartSpec| {
            let terms = Terms {
                proposal,
                ..stage.terms(spec)
            };
            let part = spec
                .engine
                .arm(id.clone(), &spec.protocol, terms, stage.note.clone(), None);
            Unreleased {
                engine: Arc::clone(&spec.engine),
                parts: vec![part],
                server: spec.server.clone(),
            }
        };
        // If this future is dropped, these are dropped too, and so released.
        let armed: Vec<Unreleased> = specs.iter().map(arm).collect();
        let part = |place: usize| &armed[place].parts[0];
        let clock = Arc::clone(stage.clock());
        let began = clock.now();
        let drifts = specs.iter().map(|spec| spec.terms.margin);
        let drift = drifts.max().unwrap_or_default();
        let mut round = Round::new(quorum, first.terms.ttl, drift, began).above(seen);
        let mut troubles: Vec<Option<StoreError>> = vec![None; specs.len()];
        let mut foreign = Vec::new();
        let ask = async |place: usize| {
            let part = part(place);
            (place, part.requester.exchange(part, Verb::Acquire).await)
        };
        let raise = async |place: usize, token| {
            let part = part(place);
            (place, part.requester.raise(part, token).await)
        };
        let mut asked: FuturesUnordered<_> = (0..specs.len()).map(&ask).collect();
        let mut raised = FuturesUnordered::new();
        let decided = loop {
            let until = match round.step(clock.now()) {
                Step::Wait(until) => until,
                Step::WriteBack(token, behind) => {
                    // A server that has not answered by now takes no part.
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
                    if let Ok(Verdict::Granted(token)) = outcome {
                        specs[place].floors().gave(token, proposal, asked_at[place]);
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
        let token = match decided {
            Ok(token) => token,
            Err(failure) => {
                tracing::debug!(claim = %id, ?failure, ?troubles, "a round failed");
                let some = (0..specs.len()).any(|place| round.holds_on(place));
                if some && matches!(failure, Failure::Contended(_)) {
                    first.engine.requester.was_split();
                }
                let shut = (0..specs.len()).filter(|&place| round.is_shut(place));
                return Err(Missed {
                    failure,
                    shut: shut.collect(),
                    troubles,
                    foreign,
                });
            }
        };
        for spec in specs {
            spec.floors().saw(spec.protocol.name(), token);
        }
        let claims = armed.into_iter().enumerate();
        let claims = claims.filter(|(place, _)| round.holds_on(*place));
        let claims: Vec<Unreleased> = claims.map(|(_, it)| it).collect();
        let tokens = vec![token; claims.len()];
        let hold = Hold::begin(claims, tokens, quorum.size(), self.waited());
        tracing::debug!(lease = ?&*hold, "granted");
        Ok(hold)
    }
}

impl Missed {
    /// The error for the caller, if the round is not tried again.
    fn error(&self, stage: &Stage, quorum: Quorum) -> Error {
        let foreign = quorum.is_prevented(self.foreign.len());
        let foreign = self.foreign.first().filter(|_| foreign);
        let why = match (self.failure, foreign) {
            (Failure::Unreachable(_), Some(place)) => return stage.wrong_kind(*place),
            (Failure::Unreachable(_), None) => {
                let failed = stage.specs.iter().zip(&self.troubles);
                let failed = failed.filter_map(|(spec, trouble)| {
                    let server = spec.server.as_deref().unwrap_or_default();
                    Some((server, trouble.as_ref()?))
                });
                let (name, servers) = (stage.name(0), quorum.servers());
                return failed_on(&name, servers, "acquire", failed.collect());
            }
            (Failure::Late, _) => {
                "the grant of a majority came too late to be valid: the servers are too slow for this ttl; choose a longer ttl"
            }
            _ => "a majority granted, but no longer held when the grant was completed",
        };
        stage.backend(0, "acquire", StoreError::unknown(why))
    }
}
