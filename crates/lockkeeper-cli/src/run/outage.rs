//! Waits through an outage of the server. The wait continues until its time limit, and one line reports the outage.

use std::cell::Cell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

use lockkeeper::{Client, ClientBuilder, Error};

use super::journal::{Event, Journal, millis};
use crate::exit::Failure;
use crate::out;
use crate::server::Server;

/// The pause between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(500);

/// How often a waiting run asks whether the server is there, if the lease is long. If it is short, the run asks as often as it
/// would renew.
const LOOK: Duration = Duration::from_secs(5);

/// One wait, from the start of the command.
pub(crate) struct Outage<'a> {
    begun: Instant,
    /// `None`: without limit. Such a run does not wait through an outage, because that could take for ever.
    wait: Option<Duration>,
    told: Cell<bool>,
    journal: &'a Journal,
}

impl<'a> Outage<'a> {
    pub(crate) fn new(wait: Option<Duration>, journal: &'a Journal) -> Self {
        Self {
            begun: Instant::now(),
            wait,
            told: Cell::new(false),
            journal,
        }
    }

    /// The rest of the wait; `None`: without limit.
    pub(crate) fn left(&self) -> Option<Duration> {
        Some(self.wait?.saturating_sub(self.begun.elapsed()))
    }

    /// Connects, and retries while the wait lasts.
    pub(crate) async fn connect(
        &self,
        server: &Server,
        settings: &ClientBuilder,
    ) -> Result<Client, Failure> {
        self.ride_out(async || server.connect(settings.clone()).await)
            .await
    }

    /// Sends a request, and retries while the wait lasts if the server cannot be reached.
    pub(crate) async fn ride_out<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut answer = ask().await;
        loop {
            let left = self.left().unwrap_or_default();
            match answer {
                Err(failure) if failure.transient && !left.is_zero() => {
                    self.tell(failure.message());
                    tokio::time::sleep(AGAIN.min(left)).await;
                    let left = self.left().unwrap_or_default();
                    let again = tokio::time::timeout(left, ask());
                    answer = again.await.unwrap_or(Err(failure));
                }
                answer => return answer,
            }
        }
    }

    /// Asks from time to time whether the server is there, and reports if it is not. The waiter itself does not report outages: it
    /// asks until its time is over.
    pub(crate) async fn watch(&self, client: &Client, name: &str, ttl: Duration) -> Infallible {
        while self.left().is_some_and(|left| !left.is_zero()) && !self.told.get() {
            tokio::time::sleep(LOOK.min(ttl / 3)).await;
            if let Err(Error::Backend { cause, .. }) = client.inspect(name).await
                && cause.is_transient()
            {
                self.tell(&cause.to_string());
            }
        }
        std::future::pending().await
    }

    fn tell(&self, reason: &str) {
        if self.told.replace(true) {
            return;
        }
        let left = self.left().unwrap_or_default();
        let shown = out::duration(left);
        self.journal.say(&format!(
            "the server cannot be reached; waiting for it for up to {shown}: {reason}"
        ));
        let left_ms = millis(left);
        self.journal.tell(&Event::Unreachable { reason, left_ms });
    }
}
