//! The login of a connection: its user, and when to ask for credentials again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{Credentials, Login};

/// The shortest time between two requests for credentials, whatever the provider and the server say.
const SHORTEST: Duration = Duration::from_millis(500);

/// The pause after a first failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How often the pause is doubled: up to 16 s, which is short beside tokens that live for minutes.
const DOUBLINGS: u32 = 4;

/// See the module. Exists only for logins that change.
#[derive(Debug)]
pub(crate) struct Session {
    login: Login,
    state: Mutex<State>,
    /// Notified when the server no longer knows the login of the connection.
    forgotten: Notify,
}

#[derive(Debug)]
struct State {
    credentials: Credentials,
    /// The server has said that it does not know the login of the connection.
    forgotten: bool,
    schedule: Schedule,
}

/// When to ask. Pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Schedule {
    /// `None`: only when there is a reason.
    next: Option<Instant>,
    earliest: Instant,
    failures: u32,
}

impl Schedule {
    /// The schedule after credentials were given at `now`. `chance`, from 0 to 1, chooses the time of the next request between two
    /// thirds and four fifths of their lifetime: late enough to use up tokens that live for minutes, early enough for some
    /// failures, and spread so that connections do not all ask at once.
    fn after(now: Instant, expires_in: Option<Duration>, chance: f64) -> Self {
        let part = 2.0 / 3.0 + chance.clamp(0.0, 1.0) * (4.0 / 5.0 - 2.0 / 3.0);
        let pause = expires_in.map(|time| time.mul_f64(part).max(SHORTEST));
        Self {
            // A time that is too far away never comes.
            next: pause.and_then(|pause| now.checked_add(pause)),
            earliest: now + SHORTEST,
            failures: 0,
        }
    }

    /// At `now` there were no credentials, or the server refused them.
    fn failed(&mut self, now: Instant, chance: f64) {
        let pause = FIRST_PAUSE * 2_u32.pow(self.failures.min(DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        // Up to a quarter less, because many connections fail together.
        self.next = Some(now + pause.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 4.0));
    }

    /// There is a reason to ask soon.
    fn hurry(&mut self) {
        if self.failures == 0 {
            self.next = Some(
                self.next
                    .map_or(self.earliest, |next| next.min(self.earliest)),
            );
        }
    }
}

impl Session {
    /// The session of a connection that has just logged in with `credentials`.
    pub(crate) fn new(login: Login, credentials: Credentials) -> Self {
        let schedule = Schedule::after(Instant::now(), credentials.expires_in, fastrand::f64());
        Self {
            login,
            state: Mutex::new(State {
                credentials,
                forgotten: false,
                schedule,
            }),
            forgotten: Notify::new(),
        }
    }

    /// Whether it is time to ask again. A connection without a task that logs it in anew must not be reused then.
    pub(crate) fn is_due(&self) -> bool {
        let next = self.lock().schedule.next;
        next.is_some_and(|next| next <= Instant::now())
    }

    /// The server no longer knows the login of the connection.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.forgotten = true;
        state.schedule.hurry();
        drop(state);
        self.forgotten.notify_one();
    }

    /// Waits until it is time and asks. Returns the credentials to log in with, if they are new.
    pub(crate) async fn renewed(
        &self,
        patience: Duration,
    ) -> Result<Option<Credentials>, StoreError> {
        self.due().await;
        let given = self.login.credentials(patience).await;
        let Some(credentials) = given.inspect_err(|_| self.failed())? else {
            return Ok(None);
        };
        let same = {
            let state = self.lock();
            state.credentials.are(&credentials) && !state.forgotten
        };
        match same {
            true => {
                self.accepted(credentials);
                Ok(None)
            }
            false => Ok(Some(credentials)),
        }
    }

    /// The connection is now logged in with these credentials.
    pub(crate) fn accepted(&self, credentials: Credentials) {
        let now = Instant::now();
        let schedule = Schedule::after(now, credentials.expires_in, fastrand::f64());
        *self.lock() = State {
            credentials,
            forgotten: false,
            schedule,
        };
    }

    /// The connection is still logged in as before, if at all.
    pub(crate) fn failed(&self) {
        self.lock().schedule.failed(Instant::now(), fastrand::f64());
    }

    async fn due(&self) {
        loop {
            let next = self.lock().schedule.next;
            let rung = self.forgotten.notified();
            match next {
                Some(next) if next <= Instant::now() => return,
                Some(next) => drop(timeout_at(next, rung).await),
                None => rung.await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Provider;
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn credentials_are_asked_for_when_most_of_their_time_is_over() {
        let now = Instant::now();
        let next = |time, chance| {
            Schedule::after(now, time, chance)
                .next
                .map(|next| next - now)
        };
        assert_eq!(next(None, 0.5), None);
        assert_eq!(next(Some(15 * MINUTE), 0.0), Some(10 * MINUTE));
        assert_eq!(next(Some(15 * MINUTE), 1.0), Some(12 * MINUTE));
        assert_eq!(next(Some(Duration::ZERO), 0.5), Some(SHORTEST));
        assert_eq!(next(Some(Duration::MAX), 1.0), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_followed_by_ever_longer_pauses() {
        let now = Instant::now();
        let mut schedule = Schedule::after(now, None, 0.0);
        for seconds in [1, 2, 4, 8, 16, 16] {
            schedule.failed(now, 0.0);
            assert_eq!(schedule.next, Some(now + Duration::from_secs(seconds)));
        }
        schedule.failed(now, 1.0);
        assert_eq!(schedule.next, Some(now + Duration::from_secs(12)));
        // Whatever servers say.
        let before = schedule;
        schedule.hurry();
        assert_eq!(schedule, before);
    }

    /// A session whose provider always gives `pw`, and how often the provider was asked.
    fn session(expires_in: Option<Duration>) -> (Session, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let credentials = match expires_in {
            Some(time) => Credentials::new("pw").expires_in(time),
            None => Credentials::new("pw"),
        };
        let (count, given) = (Arc::clone(&asked), credentials.clone());
        let provider = Provider::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let given = given.clone();
            async { Ok(given) }
        });
        (Session::new(Login::Asked(provider), credentials), asked)
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_new_is_nothing_to_log_in_with() {
        let (session, asked) = session(Some(MINUTE));
        let begun = Instant::now();
        for round in 1..4 {
            assert_eq!(session.renewed(MINUTE).await.unwrap(), None);
            assert_eq!(asked.load(Ordering::Relaxed), round);
            assert!(!session.is_due());
        }
        let passed = begun.elapsed();
        assert!(passed >= 2 * MINUTE && passed < 3 * MINUTE, "{passed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_forgets_is_told_the_same_again_but_not_all_the_time() {
        let (session, _) = session(None);
        for _ in 0..3 {
            let begun = Instant::now();
            session.forget();
            let renewed = session.renewed(MINUTE).await.unwrap();
            assert_eq!(renewed, Some(Credentials::new("pw")));
            session.accepted(Credentials::new("pw"));
            let passed = begun.elapsed();
            assert!(passed >= SHORTEST && passed < 2 * SHORTEST, "{passed:?}");
        }
        let waits = tokio::time::timeout(10 * MINUTE, session.renewed(MINUTE));
        assert!(waits.await.is_err(), "asked without a reason");
    }
}
