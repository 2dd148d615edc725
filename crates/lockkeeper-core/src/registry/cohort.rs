//! The cohorts of a client. When a claim for a name arrives while another claim of the client asks, waits or holds, it
//! joins a local queue here. A claim that is released hands the name over to the first in this queue. Pure, like the
//! registry.
//!
//! The local queue only saves requests. A claim that has nobody in front of it leaves it and asks the server; so does one
//! that has stood in it for too long, but only one of each queue at a time: where many wait for many names, all of them would
//! ask at once. So if one claim in the queue is never polled, that delays those behind it but does not stop them.
//!
//! After D. Dice, V. Marathe and N. Shavit, *Lock Cohorting*, PPoPP 2012: a lock stays with the waiters of one node a
//! limited number of times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::words::agenda::Number;
use crate::words::moment::Moment;

/// How many times in a row a name is handed over within its cohort at most. After that it goes to claims of other
/// clients, if any of them wait.
const HANDOVERS: u32 = 32;

/// For how long a name is handed over at most, counted from the first time.
const LONGEST: Duration = Duration::from_millis(50);

/// The cohorts of a client, by the main keys of their names, with a `T` for each claim in a local queue.
#[derive(Debug)]
pub(crate) struct Cohorts<T> {
    names: BTreeMap<Arc<str>, Cohort<T>>,
}

/// Most names have one claim, so the rest is in a box.
#[derive(Debug)]
struct Cohort<T> {
    /// How many of its claims the server may know of.
    active: usize,
    /// Made when the first claim has to wait, and kept until the cohort ends.
    crowd: Option<Box<Crowd<T>>>,
}

#[derive(Debug)]
struct Crowd<T> {
    /// The claims in the local queue, in order of arrival.
    line: BTreeMap<Number, T>,
    /// A claim that has ended hands over to another.
    handover: Option<Handover<T>>,
    /// How many times in a row the name has been handed over, and since when.
    handovers: u32,
    since: Option<Moment>,
    /// A claim that has waited for too long has left the queue: until then, no other one does.
    patient_until: Option<Moment>,
}

/// For how long a claim stands in a local queue at most, and until when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) lasts: Duration,
    pub(crate) until: Moment,
}

#[derive(Debug)]
struct Handover<T> {
    from: Number,
    to: Number,
    claim: T,
    /// It is in progress, and the next claim waits for its outcome.
    begun: bool,
    /// The next claim has given up in the meantime.
    deserted: bool,
}

impl<T> Default for Cohorts<T> {
    fn default() -> Self {
        let names = BTreeMap::new();
        Self { names }
    }
}

impl<T> Default for Crowd<T> {
    fn default() -> Self {
        Self {
            line: BTreeMap::new(),
            handover: None,
            handovers: 0,
            since: None,
            patient_until: None,
        }
    }
}

impl<T: Clone> Cohort<T> {
    /// Whether any claim asks, waits or holds, or is about to.
    fn is_led(&self) -> bool {
        let crowd = self.crowd.as_ref();
        self.active > 0 || crowd.is_some_and(|crowd| crowd.handover.is_some())
    }

    fn is_over(&self) -> bool {
        let crowd = self.crowd.as_ref();
        !self.is_led() && crowd.is_none_or(|crowd| crowd.line.is_empty())
    }

    /// The claim to notify that it is its turn to ask.
    fn called(&mut self) -> Option<T> {
        if self.is_led() {
            return None;
        }
        let crowd = self.crowd.as_mut()?;
        (crowd.handovers, crowd.since) = (0, None);
        crowd.line.first_key_value().map(|(_, claim)| claim.clone())
    }
}

impl<T: Clone> Crowd<T> {
    fn may_hand_over(&self, now: Moment) -> bool {
        let recent = self.since.is_none_or(|since| now.since(since) < LONGEST);
        recent && self.handovers < HANDOVERS || mutant!(EndlessCohort)
    }

    /// Begins to hand over from this claim to the first one in the queue that still waits.
    fn hand_over(&mut self, from: Number, now: Moment, waits: impl Fn(&T) -> bool) {
        let next = self.line.iter().find(|(_, claim)| waits(claim));
        if let Some((&to, _)) = next
            && let Some(claim) = self.line.remove(&to)
        {
            self.handovers += 1;
            self.since.get_or_insert(now);
            self.handover = Some(Handover {
                from,
                to,
                claim,
                begun: false,
                deserted: false,
            });
        }
    }
}

impl<T: Clone> Cohorts<T> {
    /// Notes that from now on the server may know of a claim.
    pub(crate) fn enter(&mut self, name: &Arc<str>) {
        match self.names.get_mut(name) {
            Some(cohort) => cohort.active += 1,
            None => {
                let (active, crowd) = (1, None);
                self.names
                    .insert(Arc::clone(name), Cohort { active, crowd });
            }
        }
    }

    /// Notes that the claim `from` has ended. If it can hand over, it does so to the first claim in the queue that
    /// still waits. Otherwise the first one's turn to ask has come. Returns the claim to notify.
    pub(crate) fn leave(
        &mut self,
        name: &str,
        from: Number,
        can_hand_over: bool,
        now: Moment,
        waits: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let cohort = self.names.get_mut(name)?;
        cohort.active = cohort.active.saturating_sub(1);
        let is_led = cohort.is_led();
        if let Some(crowd) = cohort.crowd.as_mut()
            && can_hand_over
            && !is_led
            && crowd.may_hand_over(now)
        {
            crowd.hand_over(from, now, waits);
        }
        self.called(name)
    }

    /// Adds a claim that is ready to ask to the queue, if it must join it; returns whether it must.
    pub(crate) fn arrive(&mut self, name: &str, number: Number, claim: T) -> bool {
        let Some(cohort) = self.names.get_mut(name) else {
            return false;
        };
        let crowd = cohort.crowd.get_or_insert_default();
        crowd.line.insert(number, claim);
        true
    }

    /// Begins the handover of this claim. Returns the claim that it hands over to.
    pub(crate) fn begin(&mut self, name: &str, from: Number) -> Option<T> {
        let handover = self.crowd(name)?.handover.as_mut();
        let handover = handover.filter(|it| it.from == from && !it.begun)?;
        handover.begun = true;
        Some(handover.claim.clone())
    }

    /// Ends the handover of this claim, whatever its outcome. Returns the claim that must check: the next one, which
    /// asks if it was granted nothing, or the one behind it if the next one has given up.
    pub(crate) fn end(&mut self, name: &str, from: Number) -> Option<T> {
        let handover = self.crowd(name)?.handover.take_if(|it| it.from == from)?;
        match handover.deserted {
            true => self.called(name),
            false => {
                self.forget(name);
                Some(handover.claim)
            }
        }
    }

    /// Takes the claim out of the queue if a handover to it is over, if no claim is in front of it, or if its patience and
    /// that of the queue are over; but never while a handover to it is in progress. Returns `None` if it is out of the
    /// queue, otherwise when it must look again.
    pub(crate) fn may_ask(
        &mut self,
        name: &str,
        number: Number,
        patience: Patience,
        now: Moment,
    ) -> Option<Moment> {
        let cohort = self.names.get_mut(name)?;
        let is_active = cohort.active > 0;
        let crowd = cohort.crowd.as_mut()?;
        let until = patience.until.max(crowd.patient_until.unwrap_or(now));
        let impatient = now >= until;
        if let Some(handover) = crowd.handover.as_ref().filter(|it| it.to == number) {
            if handover.begun || !impatient {
                return Some(if impatient {
                    now.after(patience.lasts)
                } else {
                    until
                });
            }
            crowd.handover = None;
        }
        let is_first = crowd.line.keys().next() == Some(&number);
        let others_first = !is_first || is_active || crowd.handover.is_some();
        if crowd.line.contains_key(&number) && others_first {
            if !impatient {
                return Some(until);
            }
            crowd.patient_until = Some(now.after(patience.lasts));
        }
        crowd.line.remove(&number);
        self.forget(name);
        None
    }

    /// Removes a claim that gives up. Returns the claim to notify that it is its turn.
    pub(crate) fn give_up(&mut self, name: &str, number: Number) -> Option<T> {
        let crowd = self.crowd(name)?;
        crowd.line.remove(&number);
        if let Some(handover) = crowd.handover.as_mut().filter(|it| it.to == number) {
            handover.deserted = true;
        }
        crowd.handover.take_if(|it| it.deserted && !it.begun);
        self.called(name)
    }

    fn crowd(&mut self, name: &str) -> Option<&mut Crowd<T>> {
        self.names.get_mut(name)?.crowd.as_deref_mut()
    }

    fn called(&mut self, name: &str) -> Option<T> {
        let called = self.names.get_mut(name)?.called();
        self.forget(name);
        called
    }

    fn forget(&mut self, name: &str) {
        if self.names.get(name).is_some_and(Cohort::is_over) {
            self.names.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "name";

    fn at(ms: u64) -> Moment {
        Moment::from_elapsed(Duration::from_millis(ms))
    }

    /// Claim 1 holds, and these claims stand in the queue.
    fn held(line: &[Number]) -> Cohorts<Number> {
        let mut cohorts = Cohorts::default();
        cohorts.enter(&NAME.into());
        for &number in line {
            assert!(cohorts.arrive(NAME, number, number));
        }
        cohorts
    }

    /// Whether the claim is out of the queue, at one second; impatient: it has waited for long enough.
    fn may_ask(cohorts: &mut Cohorts<Number>, number: Number, impatient: bool) -> bool {
        let until = at(if impatient { 1_000 } else { 1_001 });
        let lasts = Duration::from_millis(100);
        let patience = Patience { lasts, until };
        cohorts.may_ask(NAME, number, patience, at(1_000)).is_none()
    }

    fn leaves(cohorts: &mut Cohorts<Number>, from: Number, now: u64) -> Option<Number> {
        cohorts.leave(NAME, from, true, at(now), |_| true)
    }

    #[test]
    fn nobody_waits_locally_where_nobody_is() {
        let mut cohorts = Cohorts::<Number>::default();
        assert!(!cohorts.arrive(NAME, 1, 1));
        cohorts.enter(&NAME.into());
        assert_eq!(leaves(&mut cohorts, 1, 1), None);
        assert!(cohorts.names.is_empty());
    }

    #[test]
    fn whoever_lets_go_hands_over_to_the_first_who_is_told_by_nobody_else() {
        let mut cohorts = held(&[2, 3]);
        assert!(!may_ask(&mut cohorts, 2, false), "another one holds");
        assert_eq!(leaves(&mut cohorts, 1, 1), None);
        assert_eq!(cohorts.begin(NAME, 3), None, "not of this claim");
        assert_eq!(cohorts.begin(NAME, 1), Some(2));
        assert_eq!(cohorts.begin(NAME, 1), None, "once");
        assert!(!may_ask(&mut cohorts, 2, true), "it is under way");
        assert!(!may_ask(&mut cohorts, 3, false), "another one comes first");
        cohorts.enter(&NAME.into());
        assert_eq!(cohorts.end(NAME, 1), Some(2));
        assert_eq!(leaves(&mut cohorts, 2, 2), None);
        assert_eq!(cohorts.begin(NAME, 2), Some(3));
    }

    #[test]
    fn after_a_handover_in_vain_the_next_one_asks_or_else_the_one_behind() {
        for gives_up in [false, true] {
            let mut cohorts = held(&[2, 3]);
            leaves(&mut cohorts, 1, 1);
            assert_eq!(cohorts.begin(NAME, 1), Some(2));
            if gives_up {
                assert_eq!(cohorts.give_up(NAME, 2), None, "it is under way");
            }
            let called = if gives_up { 3 } else { 2 };
            assert_eq!(cohorts.end(NAME, 1), Some(called));
            assert!(may_ask(&mut cohorts, called, false));
        }
    }

    #[test]
    fn whoever_cannot_hand_over_calls_the_first() {
        let mut cohorts = held(&[2, 3]);
        assert_eq!(cohorts.leave(NAME, 1, false, at(1), |_| true), Some(2));
        assert!(!may_ask(&mut cohorts, 3, false));
        assert_eq!(cohorts.give_up(NAME, 2), Some(3));
        assert!(may_ask(&mut cohorts, 3, false));
    }

    #[test]
    fn whose_wait_is_over_is_passed() {
        let mut cohorts = held(&[2, 3]);
        let waits = |number: &Number| *number != 2;
        assert_eq!(cohorts.leave(NAME, 1, true, at(1), waits), None);
        assert_eq!(cohorts.begin(NAME, 1), Some(3));
    }

    #[test]
    fn whoever_is_impatient_asks_also_before_a_handover_begins() {
        let mut cohorts = held(&[2, 3]);
        assert!(may_ask(&mut cohorts, 3, true));
        let mut cohorts = held(&[2]);
        leaves(&mut cohorts, 1, 1);
        assert!(may_ask(&mut cohorts, 2, true));
        assert_eq!(cohorts.begin(NAME, 1), None);
        assert!(cohorts.names.is_empty());
    }

    #[test]
    fn one_after_the_other_loses_its_patience() {
        let mut cohorts = held(&[2, 3, 4]);
        let lasts = Duration::from_millis(100);
        let mut asks = |number, until, now| {
            let until = at(until);
            cohorts.may_ask(NAME, number, Patience { lasts, until }, at(now))
        };
        assert_eq!(asks(3, 100, 99), Some(at(100)));
        assert_eq!(asks(3, 100, 100), None);
        assert_eq!(asks(2, 100, 100), Some(at(200)), "another has just gone");
        assert_eq!(asks(4, 250, 150), Some(at(250)), "its own patience");
        assert_eq!(asks(2, 100, 200), None);
        assert_eq!(asks(4, 250, 250), Some(at(300)));
    }

    #[test]
    fn who_gives_up_in_a_handover_that_has_not_begun_is_given_nothing() {
        let mut cohorts = held(&[2, 3]);
        leaves(&mut cohorts, 1, 1);
        assert_eq!(cohorts.give_up(NAME, 2), Some(3));
        assert_eq!(cohorts.begin(NAME, 1), None);
    }

    #[test]
    fn handovers_in_a_row_are_bounded_by_number_and_by_time() {
        let mut cohorts = held(&[]);
        for number in 1..=u64::from(HANDOVERS) {
            assert!(cohorts.arrive(NAME, number + 1, number + 1));
            assert_eq!(leaves(&mut cohorts, number, 1), None);
            assert_eq!(cohorts.begin(NAME, number), Some(number + 1));
            cohorts.enter(&NAME.into());
            cohorts.end(NAME, number);
        }
        assert!(cohorts.arrive(NAME, 1000, 1000));
        assert_eq!(
            leaves(&mut cohorts, 999, 1),
            Some(1000),
            "others have a turn"
        );

        let mut cohorts = held(&[2, 3]);
        assert_eq!(leaves(&mut cohorts, 1, 1_000), None);
        assert_eq!(cohorts.begin(NAME, 1), Some(2));
        cohorts.enter(&NAME.into());
        cohorts.end(NAME, 1);
        assert_eq!(leaves(&mut cohorts, 2, 1_050), Some(3), "for so long");
    }

    #[test]
    fn nobody_hands_over_past_one_of_its_own_client_that_has_asked() {
        let mut cohorts = held(&[2]);
        cohorts.enter(&NAME.into());
        assert_eq!(leaves(&mut cohorts, 1, 2), None);
        assert_eq!(cohorts.begin(NAME, 1), None);
        assert!(!may_ask(&mut cohorts, 2, false));
    }
}
