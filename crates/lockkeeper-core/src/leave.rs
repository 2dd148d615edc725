//! Leaving: a leave is repeated until the server has answered, or until it is no use any more.

use crate::claim::{Belief, Ending, Verdict};
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::exchange::{Failed, Line};
use crate::hold::Released;
use crate::lease::LossReason;
use crate::notify::Hub;
use crate::observer::LeaseEvent;
use crate::protocol::Verb;
use crate::tenure::Tenure;

/// What came of one leave.
pub(crate) enum Attempt {
    /// The server has answered, or repeating is no use.
    Final(Result<Released>),
    /// It may succeed when it is sent again.
    Again(Error),
}

/// Sends one leave for a claim whose belief has ended.
pub(crate) async fn attempt(line: &Line, hub: &Hub, tenure: &Tenure) -> Attempt {
    let name = tenure.protocol.name();
    let unexpected = |message| {
        let name = name.to_string();
        Attempt::Final(Err(Error::Protocol { name, message }))
    };
    // It has left with the first answer; more is said as long as those behind it are not served.
    let outcome = loop {
        match line.exchange(tenure, Verb::Leave).await {
            Ok(Verdict::More) => {}
            outcome => break outcome,
        }
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
    if let (Belief::Ended(Ending::Released), Some(granted)) = (belief, granted) {
        let held = now.since(granted);
        line.observed.tell(tenure, LeaseEvent::Released { held });
    }
}

/// Until when a leave that is posted now is of use: then the claim has ended by itself.
pub(crate) fn of_use_until(line: &Line, tenure: &Tenure) -> Moment {
    line.clock.now().after(tenure.terms.ttl)
}
