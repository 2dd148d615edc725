//! One claim on a name, and the threads that act on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use shuttle::thread;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::claim::{Ending, Validity};
use crate::engine::grant::Grant;
use crate::engine::part::Part;
use crate::engine::posts::{Posts, Releaser};
use crate::engine::renewal::Renewer;
use crate::engine::requester::Requester;
use crate::engine::settings::Settings;
use crate::engine::sync::Mutex;
use crate::engine::terms::Terms;
use crate::seam::clock::Clock;
use crate::seam::observer::{Audience, LeaseEvent, Observed, Observer};
use crate::seam::protocol::{self, LockProtocol};
use crate::seam::store::{Call, Event, Reply, Store};
use crate::words::agenda::Notice;
use crate::words::answer::{Answer, Verb};
use crate::words::kind::Kind;
use crate::words::moment::Moment;
use crate::words::name::Name;
use crate::words::owner::{ClaimId, Owner};
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

pub(super) const TOKEN: FencingToken = FencingToken::new(7);

/// A store without a server, with a clock that the test sets.
#[derive(Debug, Clone, Default)]
pub(super) struct Nowhere(pub(super) Arc<AtomicU64>);

impl Clock for Nowhere {
    fn now(&self) -> Moment {
        at(self.0.load(Ordering::Relaxed))
    }
}

#[async_trait]
impl Store for Nowhere {
    async fn call(&self, _call: Call) -> Result<Reply, StoreError> {
        Err(StoreError::not_sent("there is no server"))
    }

    async fn subscribe(&self, _channel: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn unsubscribe(&self, _channel: &str) -> Result<(), StoreError> {
        Ok(())
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        None
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }

    async fn close(&self) {}
}

/// What an observer was told. Its mutex is scheduled too: between a transition and the event that reports it, other threads
/// may run.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Vec<LeaseEvent>>);

impl Observer for Told {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        self.0.lock().push(event);
    }
}

const fn is_grant(event: &LeaseEvent) -> bool {
    matches!(event, LeaseEvent::Granted { .. })
}

pub(super) const fn is_end(event: &LeaseEvent) -> bool {
    use LeaseEvent::{Lost, Released, Unconfirmed};
    matches!(event, Lost { .. } | Released { .. } | Unconfirmed { .. })
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn at(moment: u64) -> Moment {
    Moment::from_elapsed(ms(moment))
}

/// The claim with this number, on the one name of all scenes.
pub(super) fn part(number: u64, terms: Terms, requester: &Arc<Requester>) -> Arc<Part> {
    let name = Name::new("scene", "name").unwrap_or_else(|error| panic!("{error}"));
    let id = ClaimId::new(Owner::new(Uuid::from_u128(1), number), number);
    let protocol = LockProtocol::new(name, Kind::new("scene")).queueing();
    let requester = Arc::clone(requester);
    Arc::new(Part::new(number, id, Arc::new(protocol), terms, requester))
}

/// One claim and everything that may act on it. Its lease is valid for 990 ms, is renewed every 333 ms, and the
/// acquisition waits until 5,000 ms.
#[derive(Clone)]
pub(super) struct Stage {
    pub(super) clock: Nowhere,
    pub(super) part: Arc<Part>,
    pub(super) renewer: Arc<Renewer>,
    pub(super) told: Arc<Told>,
    pub(super) posts: Arc<Mutex<Posts>>,
}

impl Stage {
    /// With an unanswered acquire, sent at 0.
    pub(super) fn set() -> Self {
        let clock = Nowhere::default();
        let told = Arc::<Told>::default();
        let audience = Audience(Some(Arc::clone(&told) as Arc<dyn Observer>));
        let store = Arc::new(clock.clone());
        let requester = Arc::new(Requester::new(store, audience, "scene", None));
        let (releaser, posts) = Releaser::new();
        let renewer = Arc::new(Renewer::new(Arc::clone(&requester), releaser));
        let settings = Settings {
            waiter_ttl: ms(900),
            margin: Some(ms(10)),
            ..Settings::default()
        };
        let terms = settings.terms(Some(ms(1000)), true);
        let mut terms = terms.unwrap_or_else(|error| panic!("{error}"));
        terms.wait_until = Some(at(5000));
        terms.in_cohort = true;
        let stage = Self {
            clock,
            part: part(1, terms, &requester),
            renewer,
            told,
            posts: Arc::new(Mutex::new(posts)),
        };
        stage.sends(Verb::Acquire, 1);
        stage
    }

    pub(super) fn requester(&self) -> &Requester {
        &self.part.requester
    }

    pub(super) fn sends(&self, verb: Verb, request: u64) -> bool {
        let now = self.part.now();
        self.part
            .change(|claim| claim.send(verb, request, now))
            .is_ok()
    }

    pub(super) fn is_answered(&self, request: u64, answer: Answer) {
        // The claim records the outcome.
        let _ = self.requester().told(&self.part, request, Ok(answer));
    }

    pub(super) fn waits(self) -> Self {
        self.is_answered(
            1,
            Answer::Waiting {
                place: 1,
                left: None,
            },
        );
        self
    }

    pub(super) fn holds(self) -> Self {
        self.is_answered(1, Answer::Granted(TOKEN));
        self.begins();
        self
    }

    /// What an acquisition does when it has its grant.
    pub(super) fn begins(&self) {
        Grant::new(1, vec![(Arc::clone(&self.part), TOKEN)]).begin(ms(0));
    }

    /// What a waiting acquisition does whenever it wakes.
    pub(super) fn takes(&self) -> bool {
        let now = self.part.now();
        let taken = self.part.change(|claim| claim.take(now)).is_some();
        if taken {
            self.begins();
        }
        taken
    }

    /// What a guard or an acquisition does when it is dropped.
    pub(super) fn ends(&self) {
        let now = self.part.now();
        self.part.change(|claim| claim.end(now));
        self.renewer.release(&self.part);
    }

    pub(super) fn hears_of_the_grant(&self) {
        self.requester().claims.granted(protocol::Grant {
            claim: self.part.id.as_str(),
            token: TOKEN,
            request: 1,
        });
    }

    pub(super) fn hears(&self, notice: Notice) {
        self.requester()
            .claims
            .notice(self.part.id.as_str(), notice);
    }

    pub(super) fn spawn(
        &self,
        does: impl FnOnce(&Self) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let stage = self.clone();
        thread::spawn(move || does(&stage))
    }

    /// Waits for all threads to finish; then everything known about the claim must agree.
    pub(super) fn finish(&self, threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
        for thread in threads {
            assert!(thread.join().is_ok(), "a thread has panicked");
        }
        let claims = &self.requester().claims;
        assert!(claims.is_in_step(&self.part), "the index is out of step");
        self.ensure_told_in_order();
    }

    /// Checks the events of the one lease. Whichever threads report them, an observer is told of the grant first, and of one
    /// end at most; of a loss always.
    ///
    /// The other events are reported by the thread that got an answer, after it has unlocked the claim. So behind the end there
    /// may still be a renewal or an uncertainty, whose answer came before it, and two of these need not be in the order of
    /// their requests.
    fn ensure_told_in_order(&self) {
        let told = self.told();
        let mut rest = told.iter();
        assert!(
            rest.next().is_none_or(is_grant),
            "not the grant first: {told:?}"
        );
        assert!(!rest.any(is_grant), "granted twice: {told:?}");
        let ends = told.iter().filter(|event| is_end(event)).count();
        assert!(ends <= 1, "several ends: {told:?}");
        let lost = matches!(self.ending(), Some(Ending::Lost(_)));
        assert!(
            !lost || told.is_empty() || ends == 1,
            "a loss that nobody is told of: {told:?}"
        );
    }

    pub(super) fn told(&self) -> Vec<LeaseEvent> {
        self.told.0.lock().clone()
    }

    pub(super) fn posted(&self) -> usize {
        let mut posts = self.posts.lock();
        std::iter::from_fn(|| posts.inbox.try_recv().ok()).count()
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        match self.part.validity().0 {
            Validity::Ended(ending) => Some(ending),
            _ => None,
        }
    }
}
