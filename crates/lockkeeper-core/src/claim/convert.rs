//! A claim that takes the place of another one, as when a writer becomes a reader, or when a claim of a cohort hands over to the next: one
//! request that is of both.
//!
//! Of the old claim it is a [`Verb::Convert`], of the new one an acquire. Where the new claim may do less than the old one, the
//! old one is [ended](Claim::end) before the first byte, for others come in with the conversion. Where it may do more, nobody comes
//! in as long as either is on the server, so the old one is believed in until an answer or its deadline; it is renewed no
//! more, for the conversion may have replaced it. Nor is it believed in any longer after a refusal if another request for the
//! conversion may still be executed.

use crate::claim::{Claim, Ending, NotNow, Pending, Phase};
use crate::words::answer::Verb;
use crate::words::moment::Moment;
use crate::words::store_error::Request;

impl Claim {
    /// Registers a conversion that is sent next. Validity ends unless it is kept. `now` must lie before its first byte.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn begin_conversion(
        &mut self,
        request: Request,
        keeps_belief: bool,
        now: Moment,
    ) -> Result<(), NotNow> {
        self.send(Verb::Convert, request, now)?;
        if !keeps_belief && !mutant!(BelieveWhileConverting) {
            self.end(now);
        }
        Ok(())
    }

    /// Whether a conversion may be sent: while the claim holds, and again as long as no answer has come to it.
    pub(super) fn may_convert(&self, phase: Phase, now: Moment) -> bool {
        match phase {
            Phase::Held { deadline, .. } => now < deadline,
            Phase::Ended(Ending::Released) => self.converting || self.may_hand_over(),
            _ => false,
        }
    }

    /// Whether it has just been let go and another claim may take its place: no request that could end it has been sent, none is on its
    /// way, and it need not keep the name from others.
    pub(crate) fn may_hand_over(&self) -> bool {
        let untouched =
            self.pending.is_none() && !self.release_in_doubt && !self.conversion_in_doubt;
        self.phase == Phase::Ended(Ending::Released)
            && self.present
            && untouched
            && self.cooldown_until().is_none()
    }

    /// Another claim has taken this one's place.
    pub fn converted(&mut self, request: Request, now: Moment) {
        if self.take_conversion(request) {
            self.present = false;
            // The script has left a mark against it.
            self.acquire_in_doubt = false;
            self.end(now);
        }
    }

    /// This claim keeps its place, and may be believed in as before: unless an earlier request was given up. Executed late, when
    /// whoever stood in its way has left, that one would yet give the place to the new claim, which leaves.
    pub fn conversion_refused(&mut self, request: Request, now: Moment) {
        if self.take_conversion(request) {
            self.converting = false;
            self.expire(now);
            if self.conversion_in_doubt && !mutant!(BelieveBesideStrayConversion) {
                self.end(now);
            }
        }
    }

    fn take_conversion(&mut self, request: Request) -> bool {
        let of_conversion = |it: &mut Pending| it.request == request && it.verb == Verb::Convert;
        self.pending.take_if(of_conversion).is_some()
    }
}
