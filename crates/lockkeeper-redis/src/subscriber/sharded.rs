//! Sharded subscriptions: each is confirmed, or refused, by a reply of its own, and the server takes it away when the slot goes.
//!
//! The server says that it does, by a `sunsubscribe` that nobody has asked for, and fred drops that word. But whoever subscribes
//! again to what it has is told how many subscriptions the connection has: if that is fewer than it should be, some are gone. So
//! one command now and then looks after all of them.

use lockkeeper_core::store::StoreError;

use super::{BATCH, Broken, Request, Subscriber};
use crate::connection::{Connection, Pong, Verb, out_of_step};

impl Subscriber {
    /// Whether a request is answered by a reply of its own.
    pub(super) fn is_for_shard(connection: &Connection, request: &Request) -> bool {
        request.verb == Verb::Subscribe && connection.shards(&request.channel)
    }

    /// Subscribes for callers.
    pub(super) async fn settle_sharded(
        &mut self,
        connection: &Connection,
        batch: Vec<Request>,
    ) -> Result<(), Broken> {
        let channels: Vec<&str> = batch.iter().map(|it| it.channel.as_str()).collect();
        match connection.subscribe_sharded(&channels).await {
            Ok(results) => {
                for (request, result) in batch.into_iter().zip(results) {
                    self.finish(request, result.map(drop));
                }
                Ok(())
            }
            Err(error) => Err(self.give_up(batch, Broken(error))),
        }
    }

    /// Sees to it that the connection still has every subscription that it had, and makes those that are missing, if the slot is
    /// here. Waiters look again if one was missing. Something is asked of the server in any case: this is the heartbeat too.
    pub(super) async fn audit(&mut self, connection: &Connection) -> Result<(), Broken> {
        let (there, missing): (Vec<String>, Vec<String>) = {
            let names = self.channels.iter();
            let names = names.filter(|(channel, _)| connection.shards(channel));
            let (there, missing): (Vec<_>, Vec<_>) = names.partition(|(_, there)| **there);
            let texts = |them: Vec<(&String, &bool)>| {
                let texts = them.into_iter().map(|(channel, _)| channel.clone());
                texts.collect()
            };
            (texts(there), texts(missing))
        };
        if there.is_empty() && missing.is_empty() {
            return match connection.ping().await.map_err(Broken)? {
                Pong::OutOfStep => Err(Broken(out_of_step())),
                Pong::InStep | Pong::Refused(_) => Ok(()),
            };
        }
        let mut found = self.subscribe_again(connection, &missing).await?;
        if let Some(first) = there.first() {
            let expected = there.len() + found;
            let counted = connection.subscribe_sharded(&[first]).await;
            let counted = counted.map_err(Broken)?.pop().and_then(Result::ok);
            if counted.is_none_or(|counted| counted < expected) {
                tracing::debug!(
                    server = %self.dialer.whereabouts, expected, ?counted, "the server has taken subscriptions away"
                );
                found += self.subscribe_again(connection, &there).await?;
                self.dialer.alarm.notify_one();
            }
        }
        if found > 0 {
            self.events.missed();
        }
        Ok(())
    }

    /// Subscribes to sharded channels that callers believe in; how many are there now. One that is refused is kept, for what is
    /// refused now may not be refused later; if its slot is another node's, others are asked where.
    pub(super) async fn subscribe_again(
        &mut self,
        connection: &Connection,
        channels: &[String],
    ) -> Result<usize, Broken> {
        let mut there = 0;
        for chunk in channels.chunks(BATCH) {
            let names: Vec<&str> = chunk.iter().map(String::as_str).collect();
            let results = connection.subscribe_sharded(&names).await;
            for (channel, result) in chunk.iter().zip(results.map_err(Broken)?) {
                there += usize::from(result.is_ok());
                if let Err(error) = &result {
                    self.report_refused(channel, error);
                }
                if let Some(is_there) = self.channels.get_mut(channel) {
                    *is_there = result.is_ok();
                }
            }
        }
        Ok(there)
    }

    pub(super) fn report_refused(&self, channel: &str, error: &StoreError) {
        if error.code() == Some("MOVED") {
            self.dialer.alarm.notify_one();
            tracing::debug!(server = %self.dialer.whereabouts, channel, "its slot has gone");
        } else {
            tracing::warn!(
                server = %self.dialer.whereabouts, channel, %error, "cannot subscribe again"
            );
        }
    }
}
