//! Leaving: a leave is repeated until the server has answered, or until it is no use any more.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::claim::{Belief, Claim, Ending, Verdict};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::exchange::{Failed, Line};
use crate::hold::Released;
use crate::lease::LossReason;
use crate::notify::Hub;
use crate::observer::LeaseEvent;
use crate::pause::Pauses;
use crate::protocol::Verb;
use crate::store::StoreError;
use crate::tenure::Tenure;

/// What came of one leave.
pub(crate) enum Attempt {
    /// The server has answered, or repeating is no use.
    Final(Result<Released>),
    /// It may succeed when it is sent again.
    Again(Error),
}

/// Leaves for claims of one client until all are answered, for no longer than a release may take; what became of each. Claims
/// that were acquired together leave together.
pub(crate) async fn leave(engine: &Engine, tenures: &[Arc<Tenure>]) -> Vec<Result<Released>> {
    let timeout = engine.settings.release_timeout;
    let silence = |tenure: &Arc<Tenure>| {
        let silence = StoreError::unknown(format!("no answer within {timeout:?}"));
        let name = tenure.protocol.name().as_str();
        Err(Error::backend(format!("release lock {name:?}"), silence))
    };
    let mut results: Vec<Result<Released>> = tenures.iter().map(silence).collect();
    let mut open: Vec<usize> = (0..tenures.len()).collect();
    let attempts = async {
        let mut pauses = Pauses::new(tenures.first().map_or(0, |tenure| tenure.number));
        loop {
            let asking: Vec<Arc<Tenure>> =
                open.iter().map(|&at| Arc::clone(&tenures[at])).collect();
            let attempts = attempt_all(&engine.line, &engine.hub, &asking).await;
            let mut again = Vec::new();
            for (&at, attempt) in open.iter().zip(attempts) {
                results[at] = match attempt {
                    Attempt::Final(result) => result,
                    Attempt::Again(error) => {
                        again.push(at);
                        Err(error)
                    }
                };
            }
            open = again;
            if open.is_empty() {
                return;
            }
            tokio::time::sleep(pauses.next()).await;
        }
    };
    // Those that are open then have their last error.
    let _ = tokio::time::timeout(timeout, attempts).await;
    results
}

/// Sends one leave for each of several claims whose belief has ended, all by one script if they were acquired so. If the server
/// refuses that as a whole, each leaves by itself.
pub(crate) async fn attempt_all(line: &Line, hub: &Hub, tenures: &[Arc<Tenure>]) -> Vec<Attempt> {
    if let [alone] = tenures {
        return vec![attempt(line, hub, alone).await];
    }
    let outcomes = line.exchange_together(tenures, Verb::Leave).await;
    let refused = |outcome: &std::result::Result<Verdict, Failed>| matches!(outcome, Err(Failed::Store(error)) if error.blames_request());
    if outcomes.iter().all(refused) {
        // By a script that failed half way some have left.
        for tenure in tenures {
            tenure.change(Claim::may_have_left);
        }
        return join_all(tenures.iter().map(|tenure| attempt(line, hub, tenure))).await;
    }
    let each = tenures.iter().zip(outcomes);
    each.map(|(tenure, outcome)| conclude(line, hub, tenure, outcome))
        .collect()
}

/// Sends one leave for a claim whose belief has ended.
pub(crate) async fn attempt(line: &Line, hub: &Hub, tenure: &Tenure) -> Attempt {
    // It has left with the first answer; more is said as long as those behind it are not served.
    let outcome = loop {
        match line.exchange(tenure, Verb::Leave).await {
            Ok(Verdict::More) => {}
            outcome => break outcome,
        }
    };
    conclude(line, hub, tenure, outcome)
}

/// What came of a leave, told to whom it concerns.
fn conclude(
    line: &Line,
    hub: &Hub,
    tenure: &Tenure,
    outcome: std::result::Result<Verdict, Failed>,
) -> Attempt {
    let name = tenure.protocol.name();
    let unexpected = |message| {
        let name = name.to_string();
        Attempt::Final(Err(Error::Protocol { name, message }))
    };
    match outcome {
        Ok(Verdict::Left { told, holds }) => {
            tracing::debug!(name = name.as_str(), claim = %tenure.id, told, holds, "released");
            observe_released(line, tenure);
            if holds > 0 {
                return Attempt::Final(Ok(Released::StillHeld(holds)));
            }
            hub.left(&tenure.protocol.channel(), told);
            Attempt::Final(Ok(Released::Free))
        }
        Ok(Verdict::Kept { told, left }) => {
            tracing::debug!(name = name.as_str(), claim = %tenure.id, told, ?left, "released, and kept");
            observe_released(line, tenure);
            hub.left(&tenure.protocol.channel(), told);
            Attempt::Final(Ok(Released::Kept(left)))
        }
        Ok(Verdict::WasGone) => Attempt::Final(Err(Error::lost(name, LossReason::Gone))),
        Ok(verdict) => unexpected(format!("a leave was answered by {verdict:?}")),
        Err(Failed::Forbidden(reason)) => {
            unexpected(format!("a leave was not allowed: {reason:?}"))
        }
        Err(Failed::Store(error)) => {
            let transient = error.is_transient();
            let error = Error::backend(format!("release lock {:?}", name.as_str()), error);
            if transient {
                Attempt::Again(error)
            } else {
                Attempt::Final(Err(error))
            }
        }
    }
}

/// Tells of the end of a hold, unless it was told as a loss, even if the server still had it.
pub(crate) fn observe_released(line: &Line, tenure: &Tenure) {
    let now = line.clock.now();
    let (belief, _) = tenure.belief(now);
    let granted = tenure.claim().granted();
    // Of a grant that nobody has taken nobody was told.
    if let (Belief::Ended(Ending::Released), Some(granted), true) =
        (belief, granted, tenure.is_taken())
    {
        let held = now.since(granted);
        line.observed.tell(tenure, LeaseEvent::Released { held });
    }
}

/// Until when a leave that is posted now is of use: then the claim has ended by itself.
pub(crate) fn of_use_until(line: &Line, tenure: &Tenure) -> Moment {
    line.clock.now().after(tenure.terms.ttl)
}
