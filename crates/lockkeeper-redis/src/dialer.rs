//! Makes connections: the first one once, every later one until it succeeds.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use lockkeeper_core::store::StoreError;
use tokio::sync::Notify;

use crate::connection::{Connection, Lifeline};
use crate::events::Line;
use crate::options::RedisOptions;
use crate::whereabouts::Whereabouts;

/// The pause before the first new attempt; jitter makes it up to twice as long. Short, for the usual case is one broken
/// connection to a server that is well; not zero, for the other case is a thousand clients of one that restarts.
const FIRST_PAUSE: Duration = Duration::from_millis(25);

/// The longest pause, before jitter makes it up to twice as long: leases should not run out because nobody looked.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Knows how to connect one of the two lines.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    pub(crate) whereabouts: Whereabouts,
    pub(crate) options: RedisOptions,
    pub(crate) line: Line,
    /// Rung when a connection is lost.
    pub(crate) alarm: Arc<Notify>,
}

impl Dialer {
    /// Connects, or says at once why not.
    pub(crate) async fn dial(&self) -> Result<(Arc<Connection>, Lifeline), StoreError> {
        let target = self.whereabouts.find().await?;
        let opened = Connection::open(&target, &self.options, self.line).await?;
        self.whereabouts.check(&opened.0).await?;
        tracing::info!(server = %target, line = self.line.as_str(), "connected");
        Ok(opened)
    }

    /// Connects in the end.
    pub(crate) async fn redial(&self) -> (Arc<Connection>, Lifeline) {
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
                Err(error) => tracing::debug!(
                    server = %self.whereabouts, line = self.line.as_str(), %error, "still not connected"
                ),
            }
        }
    }

    /// Resolves once the server to use is another than that of the connection, and says so.
    pub(crate) async fn moved(&self, connection: &Connection) -> String {
        self.whereabouts.moved(connection.target()).await
    }

    /// Tells of the end of a connection.
    pub(crate) fn report_lost(&self, why: &str) {
        self.alarm.notify_one();
        tracing::warn!(
            server = %self.whereabouts, line = self.line.as_str(), reason = why,
            "connection lost, it will be replaced"
        );
    }
}
