//! One claim on a name, and the threads that act on it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use shuttle::thread;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::claim::{Ending, Validity};
use crate::engine::part::Part;
use crate::engine::posts::{Posts, Releaser};
use crate::engine::renewal::Renewer;
use crate::engine::requester::Requester;
use crate::engine::settings::Settings;
use crate::engine::terms::Terms;
use crate::seam::clock::Clock;
use crate::seam::observer::{Audience, LeaseEvent, Observed, Observer};
use crate::seam::protocol::{Grant, LockProtocol};
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

#[derive(Debug, Default)]
pub(super) struct Told(pub(super) Mutex<Vec<LeaseEvent>>);

impl Observer for Told {
    fn on_lease(&self, _: &Observed<'_>, _: &str, event: LeaseEvent) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(event);
    }
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
        let waited = ms(0);
        self.part.tell(LeaseEvent::Granted {
            token: TOKEN,
            waited,
        });
        let now = self.part.now();
        self.part.change(|claim| claim.begin_use(now));
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
        self.requester().claims.granted(Grant {
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
        let told = self.told();
        let count = |what: fn(&LeaseEvent) -> bool| told.iter().filter(|event| what(event)).count();
        let is_end = |event: &LeaseEvent| {
            matches!(event, LeaseEvent::Lost { .. } | LeaseEvent::Released { .. })
        };
        assert!(count(is_end) <= 1, "an end is told once: {told:?}");
        let granted = count(|event| matches!(event, LeaseEvent::Granted { .. }));
        let lost = matches!(self.ending(), Some(Ending::Lost(_)));
        assert!(
            !lost || count(is_end) == granted,
            "a loss is told: {told:?}"
        );
        if let Some(end) = told.iter().position(is_end) {
            let granted = told
                .iter()
                .position(|it| matches!(it, LeaseEvent::Granted { .. }));
            assert!(granted.is_some_and(|granted| granted < end), "{told:?}");
        }
    }

    pub(super) fn told(&self) -> Vec<LeaseEvent> {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }

    pub(super) fn posted(&self) -> usize {
        let mut posts = self.posts.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| posts.inbox.try_recv().ok()).count()
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        match self.part.validity().0 {
            Validity::Ended(ending) => Some(ending),
            _ => None,
        }
    }
}
