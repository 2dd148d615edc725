//! What is to be done for a claim, and when: its [`Agenda`] is derived from its state and changes by the same transitions, so the
//! [`schedule`](crate::schedule) has nothing to decide: it only keeps the claims in order of that.
//!
//! A grant that a message brings, the answer to a heartbeat, or the claim before it in its cohort, is nobody's until its acquisition has [taken](Claim::take) it.
//! Until then it is not renewed, for the acquisition may never be polled again, and when the time for that is over it is given
//! up. What is said of a claim before its holder has been told of the grant counts from then on: messages and answers come by
//! different connections.

use std::time::Duration;

use super::{Claim, Phase};
use crate::claim::{ReleaseNeeded, Verdict};
use crate::words::agenda::{Agenda, Notice, Pace};
use crate::words::answer::Verb;
use crate::words::moment::Moment;
use crate::words::token::FencingToken;

/// How long after the end of a holder's lease the first in the queue asks: the server counts whole milliseconds.
const AT_THE_END: Duration = Duration::from_millis(1);

/// What came of a moment at which a claim's time may have been over, or at which its client closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Nothing has changed, or whoever asked for the claim will release it.
    Nothing,
    /// The lease of a holder is lost.
    Lost,
    /// It was nobody's and has ended; nobody else may ever release it.
    Abandoned,
}

/// Who has the grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Grantee {
    /// Nobody yet. `until` is when it is given up, of one that was not granted by an answer to its acquisition itself.
    Nobody { until: Option<Moment> },
    /// The acquisition.
    Acquisition,
    /// The holder has been told, and may not begin before replicas have it.
    Unconfirmed,
    /// The holder.
    Holder,
}

/// What the agenda is derived from, beside the phase.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Upkeep {
    /// `None` for a fixed lease, which only runs out.
    pace: Option<Pace>,
    heartbeats: Pace,
    /// How long a grant may be nobody's.
    untaken: Duration,
    /// When the acquisition stops waiting.
    wait_until: Option<Moment>,
    /// It stands in line in its cohort: the claim before it may bring it a grant.
    in_line: bool,
    grantee: Grantee,
    /// When the next request is due that keeps it.
    next: Option<Moment>,
    /// That one has been put into a batch and is about to be sent.
    picked: bool,
    /// Granted by a message, and so for less than a whole lease, and not renewed yet.
    short: bool,
    /// What was said of it before the holder was told.
    notice: Option<Notice>,
    /// Something may have been said of it that this client did not hear.
    unheard: bool,
    /// A release of it has been posted.
    posted: bool,
}

impl Claim {
    /// Lets the claim be kept: renewed at this pace while it is used, by heartbeats while it waits, until `wait_until`; a grant that
    /// nobody takes for so long is given up.
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
            in_line: false,
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

    /// What is to be done for it, and when.
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
                    (upkeep.next, Some(deadline))
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

    /// It stands in line in its cohort, or does so no longer.
    pub(crate) fn stand_in_line(&mut self, stands: bool) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.in_line = stands;
        }
    }

    /// Whether it waits, or has asked and may come to wait.
    pub(crate) const fn may_wait(&self) -> bool {
        matches!(self.phase, Phase::Asking | Phase::Waiting)
    }

    /// The acquisition takes the grant, if it may be believed in at `now`; its token.
    pub(crate) fn take(&mut self, now: Moment) -> Option<FencingToken> {
        let token = self.token().filter(|_| self.validity(now).holds())?;
        if let Some(upkeep) = &mut self.upkeep
            && let Grantee::Nobody { .. } = upkeep.grantee
        {
            upkeep.grantee = Grantee::Acquisition;
        }
        Some(token)
    }

    /// The holder has been told of the grant: from now on it is renewed, and what was said of it counts.
    ///
    /// The time to the first renewal counts from the send of the request that was answered; for a claim that has waited, from
    /// now on, for that was long ago.
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

    /// Whether the holder may begin: one that may not yet is not renewed, and not left to expire when the client closes.
    pub(crate) fn set_confirmed(&mut self, confirmed: bool) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.grantee = match confirmed {
                true => Grantee::Holder,
                false => Grantee::Unconfirmed,
            };
        }
    }

    /// A message says this of the claim. It may have overtaken the answer of the grant.
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

    /// The client begins only now to hear what is said of the claim, or has not heard all: the server is to be asked.
    pub(crate) fn may_have_missed_notices(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.unheard = true;
        }
    }

    /// Whether the server is to be asked now if the claim holds. True once.
    pub(crate) fn take_question(&mut self) -> bool {
        let verify = self.agenda().verify;
        if let Some(upkeep) = self.upkeep.as_mut().filter(|_| verify) {
            upkeep.unheard = false;
        }
        verify
    }

    /// Lets the request that keeps the claim go out now, or a heartbeat as soon as that one is answered which is on its way.
    pub(crate) fn hurry(&mut self, now: Moment) {
        self.doubt_place();
        self.keep_now(now);
    }

    /// Lets the request that keeps the claim go out now, unless one is on its way.
    pub(crate) fn keep_now(&mut self, now: Moment) {
        if self.agenda().due.is_some()
            && let Some(upkeep) = &mut self.upkeep
        {
            upkeep.next = Some(now);
        }
    }

    /// Takes the request that is due at `now`, or soon after, out of the agenda: whoever asks is about to send it.
    /// With when it was due.
    pub(crate) fn pick(&mut self) -> Option<(Verb, Moment)> {
        let due = self.agenda().due?;
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.picked = true;
        }
        Some((self.renewal(), due))
    }

    /// What was picked could not be sent, as is seen at `now`.
    pub(crate) fn unsent(&mut self, now: Moment) {
        if self.upkeep.as_ref().is_some_and(|upkeep| upkeep.picked) {
            self.keep_later(now);
        }
    }

    /// The claim is not renewed any more.
    pub(crate) fn let_run_out(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.pace = None;
        }
    }

    /// The time of the claim may be over: that of its lease, of its wait, or that for taking it.
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

    /// The client closes. A grant that the holder may not begin with yet is not left to expire: no work is done under it, and
    /// whoever asked for it releases it.
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

    /// Ends a claim that waits or whose grant nobody has taken, if it is not its acquisition itself that will. Nobody has worked
    /// under it, so there is no cooldown.
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

    /// Whether a release of the claim is to be posted. True once: then it is posted.
    pub(crate) fn take_release(&mut self) -> bool {
        let needed = self.release_needed() != ReleaseNeeded::None;
        let posted = self.upkeep.as_mut().map(|upkeep| &mut upkeep.posted);
        needed && posted.is_none_or(|posted| !std::mem::replace(posted, true))
    }

    /// A request goes out.
    pub(super) fn upkeep_sent(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.picked = false;
        }
    }

    /// The claim is granted at `now`; whether it has waited for that.
    pub(super) fn upkeep_granted(&mut self, deadline: Moment, waited: bool, now: Moment) {
        if let Some(upkeep) = &mut self.upkeep {
            let brought = waited || upkeep.in_line;
            let until = brought.then(|| deadline.min(now.after(upkeep.untaken)));
            upkeep.grantee = Grantee::Nobody { until };
            upkeep.picked = false;
        }
    }

    /// The grant was told with the answer to the acquire: whoever asked for it is here.
    pub(super) fn upkeep_granted_in_time(&mut self) {
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.grantee = Grantee::Nobody { until: None };
        }
    }

    /// A request sent at `sent` has been answered so; `end` is when the lease ends that the first in the queue waits for.
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
                // A lease that ends tells nobody: the first in the queue asks then.
                let end = end.map(|end| end.after(AT_THE_END));
                let steady = sent.after(upkeep.heartbeats.steady);
                let next = end.map_or(steady, |end| end.min(steady));
                upkeep.next = Some(if doubtful { now } else { next });
            }
            (Verdict::More, Phase::Waiting) => upkeep.next = Some(now),
            // A message has told of the grant meanwhile.
            (Verdict::Waiting(_) | Verdict::More | Verdict::Granted(_), _) => {}
            _ => self.keep_later(sent),
        }
    }

    /// A request that was sent at `sent` has brought nothing: the next one follows soon.
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
