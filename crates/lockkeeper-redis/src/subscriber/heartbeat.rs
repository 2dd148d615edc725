//! What the connection for messages does while nobody asks for anything: it shows that it lives, and that every subscription
//! is in place. What the server has refused or taken away is asked for again.

use lockkeeper_core::store::StoreError;

use super::{BATCH, Broken, Subscriber, settle};
use crate::connection::{Connection, Pong, Verb, out_of_step};

/// How many channels are asked for one by one at a time, when one of many was refused: each takes a round trip or more, and
/// callers wait meanwhile. The others have their turn at a later heartbeat.
const ALONE: usize = 32;

impl Subscriber {
    /// The heartbeat. Something is asked of the server in any case. Waiters look again if a subscription was missing.
    pub(super) async fn beat(&mut self, connection: &Connection) -> Result<(), Broken> {
        self.beats = self.beats.wrapping_add(1);
        let (there, _) = self.split(connection, true);
        let (sharded, mut classic) = self.split(connection, false);
        if there.is_empty() && sharded.is_empty() && classic.is_empty() {
            return match connection.ping().await.map_err(Broken)? {
                Pong::OutOfStep => Err(Broken(out_of_step())),
                // An error is a sign of life: the server is loading, or busy with a script.
                Pong::InStep | Pong::Refused(_) => Ok(()),
            };
        }
        let turn = self.beats.wrapping_mul(ALONE);
        let first = turn % classic.len().max(1);
        classic.rotate_left(first);
        let found = self.subscribe_classic_again(connection, &classic).await?;
        let made = self.subscribe_sharded_again(connection, &sharded).await?;
        let recovered = self.audit(connection, &there, made).await?;
        if found + made + recovered > 0 {
            self.events.missed();
        }
        Ok(())
    }

    /// The channels to which this connection is subscribed, or those to which it is not: sharded ones and classic ones.
    pub(super) fn split(
        &self,
        connection: &Connection,
        subscribed: bool,
    ) -> (Vec<String>, Vec<String>) {
        let channels = self.channels.iter();
        let channels = channels.filter(|(_, there)| **there == subscribed);
        let channels = channels.map(|(channel, _)| channel.clone());
        channels.partition(|channel| connection.shards(channel))
    }

    /// Subscribes to classic channels that callers believe in; how many are known to be there now. One that is refused is
    /// kept, for what is refused now may not be refused later.
    pub(super) async fn subscribe_classic_again(
        &mut self,
        connection: &Connection,
        channels: &[String],
    ) -> Result<usize, Broken> {
        let (mut found, mut alone) = (0, 0);
        for chunk in channels.chunks(BATCH) {
            let commands = chunk.iter().map(|channel| (Verb::Subscribe, &**channel));
            if settle(connection, commands.clone()).await?.is_ok() {
                found += chunk.len();
                for channel in chunk {
                    self.mark(channel, true);
                }
                continue;
            }
            // Those that are allowed are in place. Which are they?
            for (verb, channel) in commands {
                if alone == ALONE {
                    break;
                }
                alone += 1;
                match settle(connection, [(verb, channel)].into_iter()).await? {
                    Ok(()) => {
                        found += 1;
                        self.mark(channel, true);
                    }
                    Err(error) => self.report_refused(channel, &error),
                }
            }
        }
        Ok(found)
    }

    /// Writes down whether this connection is subscribed to a channel that callers believe in.
    pub(super) fn mark(&mut self, channel: &str, subscribed: bool) {
        if let Some(there) = self.channels.get_mut(channel) {
            *there = subscribed;
        }
    }

    pub(super) fn report_refused(&self, channel: &str, error: &StoreError) {
        let server = &self.dialer.whereabouts;
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
