//! What must be done for a claim, and when. Its [`Agenda`] is derived from its state and changes in the same
//! transitions. So the [`schedule`](crate::schedule) decides nothing: it only keeps the claims in order.
//!
//! A grant may come by message, with the answer to a heartbeat, or from the previous claim of the cohort. Such a grant
//! belongs to nobody until the acquisition has [taken](Claim::take) it. Until then it is not renewed, because the
//! acquisition may never be polled again; after a time limit it is given up.
//!
//! Messages and answers come over different connections. So a notice about a claim may arrive before its holder has
//! been told of the grant, and is then applied after that.

use std::time::Duration;

use super::{Claim, Phase};
use crate::claim::{ReleaseNeeded, Verdict};
use crate::words::agenda::{Agenda, Notice, Pace};
use crate::words::answer::Verb;
use crate::words::moment::Moment;
use crate::words::token::FencingToken;

/// How long after the end of a holder's lease the first waiter in the queue asks. The server counts whole milliseconds.
const AT_THE_END: Duration = Duration::from_millis(1);

/// The result of a check of a claim's time limits, or of closing its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Nothing has changed, or the claim's acquisition will release it.
    Nothing,
    /// A holder's lease is lost.
    Lost,
    /// No acquisition had taken it, and it has ended. Nothing else will release it.
    Abandoned,
}

/// Who has the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Grantee {
    /// Nobody yet. It is given up at `until`; `None` if it came with the answer to its acquire.
    Nobody { until: Option<Moment> },
    /// The acquisition.
    Acquisition,
    /// The holder, which has been told but may not begin before replicas have the grant.
    Unconfirmed,
    /// The holder.
    Holder,
}

/// What the agenda is derived from, besides the phase.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Upkeep {
    /// `None` for a fixed lease, which only expires.
    pace: Option<Pace>,
    heartbeats: Pace,
    /// How long a grant may remain untaken.
    untaken: Duration,
    /// When the acquisition stops waiting.
    wait_until: Option<Moment>,
    /// No renewal is due from then on: the claim is held for an acquisition that is not complete, and may not be polled
    /// again.
    renewed_until: Option<Moment>,
    /// It stands in the local queue of its cohort, so the previous claim may bring it a grant.
    waits_locally: bool,
    grantee: Grantee,
    /// When the next request that keeps it alive is due.
    next: Option<Moment>,
    /// That request has been taken for a batch and is about to be sent.
    picked: bool,
    /// It was granted by message, and so for less than a whole lease. It has not been renewed yet.
    short: bool,
    /// A notice that arrived before the holder was told of the grant.
    notice: Option<Notice>,
    /// This client may have missed a notice about the claim.
    unheard: bool,
    /// Its release has been posted.
    posted: bool,
}

impl Claim {
    /// Keeps the claim alive: by renewals at this pace while it is used, and by heartbeats while it waits, until
    /// `wait_until`. A grant that no acquisition takes within `untaken` is given up.
    #[must_use]
    pub(crate) fn with_upkeep(
        mut self,
        pace: Option<Pace>,
        heartbeats: Pace,
        untaken: Duration,
        wait_until: Option<Moment>,
    ) -> Self {
        self.upkeep = Some(Box::new(Upkeep {
            pace,
            heartbeats,
            untaken,
            wait_until,
            renewed_until: None,
            waits_locally: false,
            grantee: Grantee::Nobody { until: None },
            next: None,
            picked: false,
            short: false,
            notice: None,
            unheard: false,
            posted: false,
        }));
        self
    }

    /// What must be done for the claim, and when.
    pub(crate) fn agenda(&self) -> Agenda {
        let Some(upkeep) = &self.upkeep else {
            return Agenda::default();
        };
        let mut interval = Duration::ZERO;
        let (next, deadline) = match self.phase {
            Phase::Ended(_) => return Agenda::default(),
            Phase::Asking => (None, None),
            Phase::Waiting if mutant!(WaiterNeverHeartbeats) => (None, upkeep.wait_until),
            Phase::Waiting => {
                interval = upkeep.heartbeats.steady;
                (upkeep.next, upkeep.wait_until)
            }
            Phase::Held { deadline, .. } => match (upkeep.grantee, upkeep.pace) {
                (Grantee::Nobody { until }, _) => (None, until),
                (Grantee::Holder, Some(pace)) => {
                    interval = pace.steady;
                    let is_due = |next: &Moment| upkeep.renewed_until.is_none_or(|end| *next < end);
                    (upkeep.next.filter(is_due), Some(deadline))
                }
                _ => (None, Some(deadline)),
            },
        };
        let rests = self.pending.is_some() || upkeep.picked || self.converting;
        Agenda {
            known: self.present || self.phase != Phase::Asking,
            due: next.filter(|_| !rests),
            interval,
            deadline,
            verify: upkeep.unheard && upkeep.grantee == Grantee::Holder && self.is_held_alone(),
        }
    }

    /// Whether the holder has been told of the grant.
    pub(crate) fn is_told(&self) -> bool {
        let grantee = self.upkeep.as_ref().map(|upkeep| upkeep.grantee);
        matches!(grantee, Some(Grantee::Unconfirmed | Grantee::Holder))
    }

    /// Notes whether it stands in the local queue of its cohort.
    pub(crate) fn wait_locally(&mut self, waits: bool) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.waits_locally = waits;
        }
    }

    /// Whether it waits, or has asked and may still come to wait.
    pub(crate) const fn may_wait(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting)
    }

    /// Takes the grant for the acquisition, if it is valid at `now`; returns its token.
    pub(crate) fn take(&mut self, now: Moment) -> Option<FencingToken> {
        let token = self.token().filter(|_| self.validity(now).holds())?;
        if let Some(upkeep) = &mut self.upkeep
            && let Grantee::Nobody { .. } = upkeep.grantee
        {
            upkeep.grantee = Grantee::Acquisition;
        }
        Some(token)
    }

    /// Notes that the holder has been told of the grant. From now on the claim is renewed, and notices apply.
    ///
    /// The time to the first renewal counts from the send of the answered request. For a claim that has waited, it
    /// counts from now, because that request was sent long ago.
    pub(crate) fn begin_use(&mut self, now: Moment) {
        let Some(upkeep) = &mut self.upkeep else {
            return;
        };
        let waited = upkeep.grantee != Grantee::Nobody { until: None };
        upkeep.grantee = Grantee::Holder;
        let (notice, pace) = (upkeep.notice.take(), upkeep.pace);
        if let (Phase::Held { deadline, .. }, Some(pace), Some(granted)) =
            (self.phase, pace, self.granted)
        {
            let from = if waited { now } else { granted };
            let left = deadline.since(from);
            upkeep.short = pace.steady > left - left / 3;
            let steady = if upkeep.short { left / 3 } else { pace.steady };
            upkeep.next = Some(from.after(steady));
        }
        if let Some(notice) = notice {
            self.notice(notice);
        }
    }

    /// Sets whether the holder may begin. While it may not, the claim is not renewed, and when the client closes it is
    /// released instead of expiring.
    pub(crate) fn set_confirmed(&mut self, confirmed: bool) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.grantee = match confirmed {
                true => Grantee::Holder,
                false => Grantee::Unconfirmed,
            };
        }
    }

    /// Applies a notice from a message. If the holder has not been told of the grant yet, the notice is kept until
    /// then.
    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.is_told() {
            match notice {
                Notice::Revoked => self.revoke(),
                Notice::Gone => self.seen_gone(),
            }
        } else if let Some(upkeep) = self.upkeep.as_mut().filter(|_| !mutant!(EarlyNoticeLost)) {
            upkeep.notice = Some(notice);
        }
    }

    /// Notes that the server must be asked about the claim: the client starts only now to receive notices about it, or
    /// may have missed one.
    pub(crate) fn may_have_missed_notices(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.unheard = true;
        }
    }

    /// Whether the server must be asked now whether the claim holds. True only once.
    pub(crate) fn take_question(&mut self) -> bool {
        let verify = self.agenda().verify;
        if let Some(upkeep) = self.upkeep.as_mut().filter(|_| verify) {
            upkeep.unheard = false;
        }
        verify
    }

    /// Makes the request that keeps the claim alive due now. If one is outstanding, a heartbeat follows as soon as it
    /// is answered.
    pub(crate) fn hurry(&mut self, now: Moment) {
        self.doubt_place();
        self.keep_now(now);
    }

    /// Notes that messages for the claim arrive from now on. One between the answer to wait and the subscription has
    /// been missed, so a heartbeat follows.
    pub(crate) fn subscribed(&mut self, now: Moment) {
        if !mutant!(NoHeartbeatAfterSubscribing) {
            self.hurry(now);
        }
    }

    /// Makes the request that keeps the claim alive due now, unless one is unanswered.
    pub(crate) fn keep_now(&mut self, now: Moment) {
        if self.agenda().due.is_some()
            && let Some(upkeep) = &mut self.upkeep
        {
            upkeep.next = Some(now);
        }
    }

    /// Takes the request that is due out of the agenda, because the caller is about to send it. Returns it together
    /// with when it was due.
    pub(crate) fn pick(&mut self) -> Option<(Verb, Moment)> {
        let due = self.agenda().due?;
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.picked = true;
        }
        Some((self.renewal(), due))
    }

    /// Notes at `now` that a picked request could not be sent.
    pub(crate) fn unsent(&mut self, now: Moment) {
        if self.upkeep.as_ref().is_some_and(|upkeep| upkeep.picked) {
            self.keep_later(now);
        }
    }

    /// Renews the claim only until `end`, or again for as long as it is held.
    pub(crate) fn renew_until(&mut self, end: Option<Moment>) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.renewed_until = end;
        }
    }

    /// Stops renewing the claim.
    pub(crate) fn let_run_out(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.pace = None;
        }
    }

    /// Ends the claim if one of its time limits has passed: that of its lease, of its wait, or for taking the grant.
    pub(crate) fn run_out(&mut self, now: Moment) -> Passed {
        if self.agenda().deadline.is_none_or(|it| it > now) {
            return Passed::Nothing;
        }
        if self.abandon(now) {
            return Passed::Abandoned;
        }
        match self.expire(now) {
            true => Passed::Lost,
            false => Passed::Nothing,
        }
    }

    /// Ends or gives up the claim, because the client closes. A grant with which the holder may not begin yet does not
    /// expire: no work runs under it, and its acquisition releases it.
    pub(crate) fn close(&mut self, now: Moment) -> Passed {
        let grantee = self.upkeep.as_ref().map(|upkeep| upkeep.grantee);
        if self.abandon(now) {
            Passed::Abandoned
        } else if grantee == Some(Grantee::Holder) && self.give_up(now) {
            Passed::Lost
        } else {
            Passed::Nothing
        }
    }

    /// Ends a claim that waits, or whose grant no acquisition has taken, unless its acquisition will do that. No work
    /// has run under it, so there is no cooldown.
    fn abandon(&mut self, now: Moment) -> bool {
        let grantee = self.upkeep.as_ref().map(|upkeep| upkeep.grantee);
        let abandoned = match (self.phase, grantee) {
            (Phase::Waiting, _) => true,
            (Phase::Held { .. }, Some(Grantee::Nobody { until })) => until.is_some(),
            (Phase::Held { .. }, _) => mutant!(TakenIsAbandoned),
            _ => false,
        };
        if abandoned {
            self.end(now);
            self.no_cooldown();
        }
        abandoned
    }

    /// Whether a release of the claim must be posted. True only once: then it counts as posted.
    pub(crate) fn take_release(&mut self) -> bool {
        let needed = self.release_needed() != ReleaseNeeded::None;
        let posted = self.upkeep.as_mut().map(|upkeep| &mut upkeep.posted);
        needed && posted.is_none_or(|posted| !std::mem::replace(posted, true))
    }

    /// Notes that a request is sent.
    pub(super) fn upkeep_sent(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.picked = false;
        }
    }

    /// Notes that the claim is granted at `now`; `waited` says that it has waited for that.
    pub(super) fn upkeep_granted(&mut self, deadline: Moment, waited: bool, now: Moment) {
        if let Some(upkeep) = &mut self.upkeep {
            let brought = waited || upkeep.waits_locally;
            let until = brought.then(|| deadline.min(now.after(upkeep.untaken)));
            upkeep.grantee = Grantee::Nobody { until };
            upkeep.picked = false;
        }
    }

    /// Notes that the grant came with the answer to the acquire, so the acquisition is there to take it.
    pub(super) fn upkeep_granted_in_time(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.grantee = Grantee::Nobody { until: None };
        }
    }

    /// Notes that a request sent at `sent` got this answer; `end` is the end of the lease that the first waiter in the
    /// queue waits for.
    pub(super) fn upkeep_answered(
        &mut self,
        sent: Moment,
        verdict: Verdict,
        end: Option<Moment>,
        now: Moment,
    ) {
        let doubtful = self.queue.as_ref().is_some_and(|queue| queue.doubtful);
        let Some(upkeep) = &mut self.upkeep else {
            return;
        };
        match (verdict, self.phase) {
            (Verdict::Renewed, _) => {
                upkeep.short = false;
                upkeep.next = upkeep.pace.map(|pace| sent.after(pace.steady));
            }
            (Verdict::Waiting(_), Phase::Waiting) => {
                // A lease that expires sends no message. So the first waiter in the queue asks then.
                let end = end.map(|end| end.after(AT_THE_END));
                let steady = sent.after(upkeep.heartbeats.steady);
                let next = end.map_or(steady, |end| end.min(steady));
                upkeep.next = Some(if doubtful { now } else { next });
            }
            (Verdict::More, Phase::Waiting) => upkeep.next = Some(now),
            // A message has reported the grant in the meantime.
            (Verdict::Waiting(_) | Verdict::More | Verdict::Granted(_), _) => {}
            _ => self.keep_later(sent),
        }
    }

    /// Notes that a request that was sent at `sent` has brought nothing: the next one follows soon.
    pub(super) fn keep_later(&mut self, sent: Moment) {
        let Some(upkeep) = &mut self.upkeep else {
            return;
        };
        upkeep.picked = false;
        upkeep.next = match (self.phase, upkeep.pace) {
            (Phase::Waiting, _) => Some(sent.after(upkeep.heartbeats.hurried)),
            (Phase::Held { deadline, .. }, Some(pace)) => {
                let soon = deadline.since(sent) / 3;
                let soon = if upkeep.short { soon } else { pace.hurried };
                Some(sent.after(soon.min(pace.hurried)))
            }
            _ => upkeep.next,
        };
    }
}

#[cfg(test)]
mod tests;
