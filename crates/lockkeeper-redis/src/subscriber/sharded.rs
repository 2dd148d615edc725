//! Sharded subscriptions: each is confirmed, or refused, by a reply of its own, and the server takes it away when the slot goes.
//!
//! The server says that it does, by a `sunsubscribe` that nobody has asked for, and fred drops that word. But whoever subscribes
//! again to what it has is told how many subscriptions the connection has: if that is fewer than it should be, some are gone. So
//! one command now and then looks after all of them.

use super::{BATCH, Broken, Request, Subscriber};
use crate::connection::{Connection, Verb};

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

    /// Sees to it that the connection still has the subscriptions `there`, beside `made` new ones; how many it had to make
    /// again.
    pub(super) async fn audit(
        &mut self,
        connection: &Connection,
        there: &[String],
        made: usize,
    ) -> Result<usize, Broken> {
        let Some(first) = there.first() else {
            return Ok(0);
        };
        let expected = there.len() + made;
        let counted = connection.subscribe_sharded(&[first]).await;
        let counted = counted.map_err(Broken)?.pop().and_then(Result::ok);
        if counted.is_some_and(|counted| counted >= expected) {
            return Ok(0);
        }
        tracing::debug!(
            server = %self.dialer.whereabouts, expected, ?counted, "the server has taken subscriptions away"
        );
        let again = self.subscribe_sharded_again(connection, there).await?;
        self.dialer.alarm.notify_one();
        Ok(again)
    }

    /// Subscribes to sharded channels that callers believe in; how many are there now. One that is refused is kept, for what is
    /// refused now may not be refused later; if its slot is another node's, others are asked where.
    pub(super) async fn subscribe_sharded_again(
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
                self.mark(channel, result.is_ok());
            }
        }
        Ok(there)
    }
}
