//! Makes connections: tries the first one once, and every later one until it succeeds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use lockkeeper_core::clock::{BootClock, Clock as _};
use lockkeeper_core::store::StoreError;
use lockkeeper_core::tally::Tally;
use tokio::sync::Notify;

use crate::connection::Connection;
use crate::credentials::Credentials;
use crate::events::Purpose;
use crate::failure;
use crate::locator::Locator;
use crate::options::RedisOptions;
use crate::wire::{Lifeline, Listener};

/// The pause before the first new attempt; jitter makes it up to twice as long. Short, because usually one connection to a healthy
/// server broke; not zero, because sometimes a thousand clients reconnect to a server that restarts.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause, before jitter makes it up to twice as long: leases should not expire because nobody tried to connect.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Knows how to open one of the two connections.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub(crate) locator: Locator,
    pub(crate) options: RedisOptions,
    pub(crate) purpose: Purpose,
    /// Receives what arrives besides answers, on the connection for messages.
    pub(crate) listener: Option<Listener>,
    /// Notified when a connection is lost.
    pub(crate) alarm: Arc<Notify>,
    /// Recent failures, for the log.
    pub(crate) troubles: Arc<Mutex<Tally>>,
}

impl Dialer {
    /// Connects, or says at once why it cannot.
    pub(crate) async fn dial(&self) -> Result<(Arc<Connection>, Lifeline), StoreError> {
        // In a box, like [`Connection::ask`].
        Box::pin(async {
            let target = self.locator.find().await?;
            let opened = Connection::open(&target, &self.options, self.listener.clone()).await?;
            self.locator.check(&opened.0).await?;
            tracing::info!(server = %target, connection = self.purpose.as_str(), "connected");
            Ok(opened)
        })
        .await
    }

    /// Retries until it is connected. `tell` gets the reason of each failed attempt.
    pub(crate) async fn redial(&self, tell: impl Fn(String)) -> (Arc<Connection>, Lifeline) {
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .without_max_times()
            .with_jitter()
            .build();
        loop {
            tokio::time::sleep(pauses.next().unwrap_or(LONGEST_PAUSE)).await;
            match self.dial().await {
                Ok(opened) => return opened,
                Err(error) => {
                    let reason = self.reason(&error);
                    self.warn("cannot connect, trying again", &reason);
                    tell(reason);
                }
            }
        }
    }

    /// Keeps a connection logged in while its credentials change. Never ends.
    pub(crate) async fn keep_authenticated(&self, connection: &Connection) -> String {
        loop {
            let credentials = self.renewed_credentials(connection).await;
            self.authenticate(connection, credentials).await;
        }
    }

    /// Waits for new credentials for an open connection.
    pub(crate) async fn renewed_credentials(&self, connection: &Connection) -> Credentials {
        loop {
            match connection.renewed_credentials().await {
                Ok(credentials) => return credentials,
                Err(error) => self.report_not_renewed(&error),
            }
        }
    }

    /// Logs an open connection in with new credentials.
    pub(crate) async fn authenticate(&self, connection: &Connection, credentials: Credentials) {
        match connection.authenticate(credentials).await {
            Ok(()) => {
                let server = connection.target();
                tracing::debug!(%server, connection = self.purpose.as_str(), "logged in with new credentials");
            }
            Err(error) => self.report_not_renewed(&error),
        }
    }

    /// Reports that a connection keeps its present login.
    pub(crate) fn report_not_renewed(&self, error: &StoreError) {
        let what = "cannot log in with new credentials, asking for them again";
        self.warn(what, &self.reason(error));
    }

    fn reason(&self, error: &StoreError) -> String {
        let advice = failure::advice(error, self.locator.login());
        format!("{error}{advice}")
    }

    /// Resolves once the server to use is no longer the one of the connection; returns the reason.
    pub(crate) async fn moved(&self, connection: &Connection) -> String {
        self.locator.moved(connection.target()).await
    }

    /// Reports the end of a connection.
    pub(crate) fn report_lost(&self, why: &str) {
        self.alarm.notify_one();
        self.warn("connection lost, it will be replaced", why);
    }

    /// Logs a failure: the first one at once, repetitions now and then with a count.
    pub(crate) fn warn(&self, what: &str, reason: &str) {
        let now = BootClock.now();
        let (news, due) = {
            let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
            let news = troubles.count(&format!("{what}: {reason}"), now);
            (news, troubles.take_due(now))
        };
        let (server, connection) = (&self.locator, self.purpose.as_str());
        if news {
            tracing::warn!(%server, connection, reason, "{what}");
        } else {
            tracing::debug!(%server, connection, reason, "{what}");
        }
        for (trouble, times) in due {
            tracing::warn!(%server, connection, times, "{trouble}");
        }
    }
}
