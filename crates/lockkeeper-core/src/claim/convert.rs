//! Conversion: one claim replaces another, for example when a writer becomes a reader, or when a claim of a cohort
//! hands over to the next. One request belongs to both claims: for the old claim it is a [`Verb::Convert`], for the new
//! one an acquire.
//!
//! - If the new mode permits less than the old one, the old claim is [ended](Claim::end) before the first byte, because
//!   the conversion also grants the lock to others.
//! - If it permits more, no other claim is granted the lock while either claim is on the server. So the old claim stays
//!   valid until an answer or its deadline. It is no longer renewed, because the conversion may have replaced it. After
//!   a refusal it also ends if another request for the conversion may still be executed.

use crate::claim::{Claim, Ending, NotNow, Pending, Phase};
use crate::words::answer::Verb;
use crate::words::moment::Moment;
use crate::words::store_error::Request;

impl Claim {
    /// Records a conversion that is sent next. `now` must be before its first byte. The claim's validity ends, unless
    /// `keeps_validity`.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send).
    pub fn begin_conversion(
        &mut self,
        request: Request,
        keeps_validity: bool,
        now: Moment,
    ) -> Result<(), NotNow> {
        self.send(Verb::Convert, request, now)?;
        if !keeps_validity && !mutant!(ValidWhileConverting) {
            self.end(now);
        }
        Ok(())
    }

    /// Whether a conversion may be sent: while the claim holds, again while an earlier one has no answer, or when the
    /// claim has ended and may hand over.
    pub(super) fn may_convert(&self, phase: Phase, now: Moment) -> bool {
        match phase {
            Phase::Held { deadline, .. } => now < deadline,
            Phase::Ended(Ending::Released) => self.converting || self.may_hand_over(),
            _ => false,
        }
    }

    /// Whether the claim has just ended and another may take its place: no request that could have removed it has been
    /// sent, none is unanswered, and there is no cooldown.
    pub(crate) fn may_hand_over(&self) -> bool {
        let untouched =
            self.pending.is_none() && !self.release_in_doubt && !self.conversion_in_doubt;
        self.phase == Phase::Ended(Ending::Released)
            && self.present
            && untouched
            && (self.cooldown_until().is_none() || mutant!(HandOverInCooldown))
    }

    /// Records that another claim has taken this one's place.
    pub fn converted(&mut self, request: Request, now: Moment) {
        if self.take_conversion(request) {
            self.present = false;
            // The script has left a tombstone for the old claim.
            self.acquire_in_doubt = false;
            self.end(now);
        }
    }

    /// Records a refusal: this claim keeps its place and stays valid, unless an earlier request for the conversion was
    /// abandoned. The server may execute that request late, when no other holder prevents it any more. It would then
    /// replace this claim by the new one, which is released.
    pub fn conversion_refused(&mut self, request: Request, now: Moment) {
        if self.take_conversion(request) {
            self.converting = false;
            self.expire(now);
            if self.conversion_in_doubt && !mutant!(ValidBesideConversionInDoubt) {
                self.end(now);
            }
        }
    }

    fn take_conversion(&mut self, request: Request) -> bool {
        let of_conversion = |it: &mut Pending| it.request == request && it.verb == Verb::Convert;
        self.pending.take_if(of_conversion).is_some()
    }
}
