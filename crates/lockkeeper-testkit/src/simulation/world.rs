//! What all parts of one history share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::clock::{Clock, TokioClock};
use lockkeeper_core::mutants;
use lockkeeper_core::store::{Call, Reply, Store as _, StoreError};
use lockkeeper_memory::MemoryStore;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::checks::{Checks, Violation};
use super::ledger::Ledger;
use super::network::Network;
use super::place::Place;
use super::plan::{Chances, Plan};
use super::trace::Trace;
use crate::mutants::Patch;

/// Where the servers' clocks begin, µs since the Unix epoch: any time, but always the same.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// See the module. One thread runs it all, so no lock here is ever waited for.
#[derive(Debug)]
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) servers: Vec<MemoryStore>,
    places: Vec<Place>,
    /// What the servers run in place of one script.
    patch: Option<Patch>,
    pub(super) clock: Arc<dyn Clock>,
    /// Notified when something is put on the agenda.
    pub(super) planned: Notify,
    /// Notified at the first violation.
    pub(super) alarm: Notify,
    beginning: Instant,
    trace: Mutex<Trace>,
    network: Mutex<Network>,
    checks: Mutex<Checks>,
    course: Mutex<Course>,
    /// What the observer of each client was told.
    ledgers: Mutex<Vec<Arc<Ledger>>>,
}

/// How far the history has come.
#[derive(Debug, Clone, Copy, Default)]
struct Course {
    /// Since when, or from when on, nothing goes wrong any more.
    calm: Option<Duration>,
    /// Whether clients begin nothing new.
    ending: bool,
    requests: u64,
    /// How many scripts have run of which the checkers have not heard yet: after a message the answer comes a few hops later.
    unheard: u32,
    /// How far the servers' clocks have run ahead, ms.
    ahead: i64,
}

impl World {
    pub(super) fn new(
        plan: Plan,
        places: Vec<Place>,
        keep_lines: bool,
        patch: Option<Patch>,
    ) -> Arc<Self> {
        let servers = plan.ahead.iter().map(|ahead| {
            let server = MemoryStore::new();
            server.set_clock(BEGINNING + 1_000 * ahead);
            server
        });
        Arc::new(Self {
            clock: Arc::new(TokioClock::new()),
            planned: Notify::new(),
            alarm: Notify::new(),
            beginning: Instant::now(),
            trace: Mutex::new(Trace::new(keep_lines)),
            network: Mutex::new(Network::new(&plan)),
            checks: Mutex::new(Checks::new(places.clone(), &plan)),
            servers: servers.collect(),
            places,
            course: Mutex::default(),
            ledgers: Mutex::default(),
            plan,
            patch,
        })
    }

    /// Lets a server run a script, in the words of the patch if there are some for it.
    pub(super) async fn serve(&self, place: usize, call: &Call) -> Result<Reply, StoreError> {
        self.course().unheard += 1;
        let reply = self.run(place, call).await;
        self.course().unheard -= 1;
        reply
    }

    async fn run(&self, place: usize, call: &Call) -> Result<Reply, StoreError> {
        let server = &self.servers[place];
        let patched = self
            .patch
            .as_ref()
            .and_then(|patch| patch.source(call.item.script));
        let Some(source) = patched else {
            return server.call(call.clone()).await;
        };
        let (keys, request) = (call.item.keys.len().to_string(), call.request.to_string());
        let mut command = vec!["EVAL", source, &keys];
        command.extend(call.item.keys.iter());
        command.push(&request);
        command.extend(call.item.args.iter());
        let value = server.execute(&command)?;
        Reply::read(call.request, value)
            .map_err(|bad| StoreError::unknown(bad.to_string()).with_source(bad))
    }

    pub(super) fn now(&self) -> Duration {
        self.beginning.elapsed()
    }

    pub(super) fn instant(&self, at: Duration) -> Instant {
        self.beginning + at
    }

    /// A ledger for a new client.
    pub(super) fn ledger(&self) -> Arc<Ledger> {
        let ledger = Arc::<Ledger>::default();
        self.ledgers.lock().push(Arc::clone(&ledger));
        ledger
    }

    /// What an observer was told wrongly, or not at all though everything is over. Not where there is a defect, which must show by
    /// the rule that it breaks.
    pub(super) fn mistold(&self) -> Option<String> {
        if self.patch.is_some() || mutants::is_any_active() {
            return None;
        }
        let ledgers = self.ledgers.lock();
        ledgers.iter().find_map(|ledger| ledger.mistake())
    }

    pub(super) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock()
    }

    pub(super) fn tell(&self, event: fmt::Arguments<'_>) {
        let now = self.now();
        self.trace().tell(now, event);
    }

    pub(super) fn network(&self) -> MutexGuard<'_, Network> {
        self.network.lock()
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock()
    }

    /// Tells the checkers something, and ends the history if that was a violation.
    pub(super) fn check<T>(&self, tell: impl FnOnce(&mut Checks) -> T) -> T {
        let mut checks = self.checks.lock();
        let before = checks.violation().is_some();
        let result = tell(&mut checks);
        if !before && let Some(violation) = checks.violation() {
            let Violation { rule, what } = violation;
            self.tell(format_args!("VIOLATION {rule}: {what}"));
            self.alarm.notify_one();
        }
        result
    }

    pub(super) fn violate(&self, rule: &'static str, what: String) {
        self.check(|checks| checks.violate(rule, what));
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        self.check(|checks| checks.violation().cloned())
    }

    /// The names that it is about.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Lets the checkers look at what is valid, and at the servers too where something `has_changed`, at all of them if nothing may
    /// go wrong.
    pub(super) fn look(&self, has_changed: impl Fn(usize) -> bool) {
        let (now, calm) = (self.now(), self.course().calm);
        let looks = |server| calm.is_some() || has_changed(server);
        let is_known = self.course().unheard == 0;
        self.check(|checks| {
            checks.look(now);
            if is_known {
                checks.look_at_servers(&self.servers, looks, now, calm);
            }
        });
    }

    /// The claims that hold a name on its server.
    pub(super) fn holders(&self, name: usize) -> Vec<String> {
        self.check(|checks| checks.holders(&self.servers, name))
    }

    /// Whether nothing goes wrong any more, and has not since `when`.
    pub(super) fn is_calm_since(&self, when: Duration) -> bool {
        self.course().calm.is_some_and(|calm| when >= calm)
    }

    /// Whether the storm is over.
    pub(super) fn is_healed(&self) -> bool {
        self.course().calm.is_some()
    }

    /// From `when` on nothing goes wrong any more, or from later on if that was said before.
    pub(super) fn calm_from(&self, when: Duration) {
        let mut course = self.course();
        course.calm = course.calm.max(Some(when));
    }

    /// Lets nothing go wrong with requests and messages from now on.
    pub(super) fn heal(&self) {
        self.network().chances = Chances::default();
    }

    pub(super) fn end(&self) {
        self.course().ending = true;
    }

    pub(super) fn is_ending(&self) -> bool {
        self.course().ending
    }

    /// Lets the servers' clocks run ahead as planned.
    pub(super) fn drift(&self) {
        let ahead = self.plan.drift(self.now());
        let ahead = i64::try_from(ahead.as_millis()).unwrap_or(0);
        let before = std::mem::replace(&mut self.course().ahead, ahead);
        if ahead > before {
            for server in &self.servers {
                server.step_clock(ahead - before);
            }
        }
    }

    pub(super) fn count_request(&self) {
        self.course().requests += 1;
    }

    pub(super) fn requests(&self) -> u64 {
        self.course().requests
    }
}
