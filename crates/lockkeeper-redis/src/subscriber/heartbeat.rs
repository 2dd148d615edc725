//! The heartbeat of the connection for messages: it shows that the connection lives and that every subscription is in place, even
//! without requests. It retries subscriptions that the server has refused or ended.

use lockkeeper_core::store::StoreError;

use super::{BATCH, Broken, Subscriber};
use crate::connection::{Connection, Verb};

impl Subscriber {
    /// The heartbeat. It always sends a request to the server. If a subscription was missing, the waiters poll.
    pub(super) async fn beat(&mut self, connection: &Connection) -> Result<(), Broken> {
        let there = self.split(connection, true);
        let there: Vec<String> = there
            .into_iter()
            .filter(|it| connection.shards(it))
            .collect();
        let missing = self.split(connection, false);
        if there.is_empty() && missing.is_empty() {
            connection.change(&[]).await.map_err(Broken)?;
            return Ok(());
        }
        let made = self.subscribe_again(connection, &missing).await?;
        let sharded = made.iter().filter(|channel| connection.shards(channel));
        let recovered = self.audit(connection, &there, sharded.count()).await?;
        if made.len() + recovered > 0 {
            self.events.missed();
        }
        Ok(())
    }

    /// The channels that this connection is subscribed to, or those that it is not. Sharded ones come last, because a node without
    /// their slot may end the connection with its answer.
    pub(super) fn split(&self, connection: &Connection, subscribed: bool) -> Vec<String> {
        let channels = self.channels.iter();
        let channels = channels.filter(|(_, there)| **there == subscribed);
        let mut channels: Vec<String> = channels.map(|(channel, _)| channel.clone()).collect();
        channels.sort_by_key(|channel| connection.shards(channel));
        channels
    }

    /// Subscribes to channels that callers want; returns those that are in place now. A refused channel is kept, because a later
    /// attempt may succeed. If its slot belongs to another node, the other nodes are asked where it is.
    pub(super) async fn subscribe_again<'a>(
        &mut self,
        connection: &Connection,
        channels: &'a [String],
    ) -> Result<Vec<&'a str>, Broken> {
        let mut made = Vec::new();
        for chunk in channels.chunks(BATCH) {
            let changes = chunk
                .iter()
                .map(|channel| (Verb::Subscribe, channel.as_str()));
            let changes: Vec<(Verb, &str)> = changes.collect();
            let changed = connection.change(&changes).await.map_err(Broken)?;
            for (channel, result) in chunk.iter().zip(changed) {
                if let Some(there) = self.channels.get_mut(channel) {
                    *there = result.is_ok();
                }
                match result {
                    Ok(_) => made.push(channel.as_str()),
                    Err(error) => self.report_refused(channel, &error),
                }
            }
        }
        Ok(made)
    }

    /// Checks that the connection still has the sharded subscriptions `there`, beside `made` new ones. Returns how many it had to
    /// restore.
    ///
    /// A repeated subscription is answered with the number of subscriptions of the connection. If that is smaller than expected,
    /// some are gone. So one command now and then checks all of them.
    async fn audit(
        &mut self,
        connection: &Connection,
        there: &[String],
        made: usize,
    ) -> Result<usize, Broken> {
        let Some(first) = there.first() else {
            return Ok(0);
        };
        let expected = there.len() + made;
        let counted = connection.change(&[(Verb::Subscribe, first)]).await;
        let counted = counted.map_err(Broken)?.pop();
        let counted = counted.and_then(Result::ok).flatten();
        if counted.is_some_and(|counted| counted >= expected) {
            return Ok(0);
        }
        tracing::debug!(
            server = %self.dialer.locator, expected, ?counted, "the server has taken subscriptions away"
        );
        let again = self.subscribe_again(connection, there).await?.len();
        self.dialer.alarm.notify_one();
        Ok(again)
    }

    fn report_refused(&self, channel: &str, error: &StoreError) {
        let server = &self.dialer.locator;
        if error.code() == Some("MOVED") {
            self.dialer.alarm.notify_one();
            tracing::debug!(%server, channel, "its slot has gone");
        } else {
            tracing::debug!(%server, channel, %error, "cannot subscribe again");
            let what = "cannot subscribe again, which is tried at each heartbeat";
            self.dialer.warn(what, &error.to_string());
        }
    }
}
