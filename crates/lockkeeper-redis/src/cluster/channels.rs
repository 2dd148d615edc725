//! Subscriptions: each channel is subscribed to on the node that has its slot, and follows the slot.
//!
//! A message that is published anywhere reaches every node by the bus between them, so a subscription in the wrong place
//! still hears. In the right place it hears the very node that runs the scripts of its name, without a way between, and
//! whoever counts there who listens counts it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fred::util::redis_keyslot;
use lockkeeper_core::store::{Outcome, StoreError};

use super::Shared;
use super::map::NodeId;
use crate::connection::Verb;

/// How often a subscription is begun anew that its slot has run away from.
const ATTEMPTS: usize = 3;

/// Where each channel is subscribed to.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<BTreeMap<String, NodeId>>);

/// A channel whose slot has another owner.
#[derive(Debug)]
pub(crate) struct Stray {
    channel: String,
    from: NodeId,
    to: NodeId,
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends every channel where `owner` says its slot is; those that have to move.
    pub(crate) fn stray(&self, owner: impl Fn(u16) -> Option<NodeId>) -> Vec<Stray> {
        let mut strays = Vec::new();
        for (channel, node) in self.lock().iter_mut() {
            match owner(slot(channel)) {
                Some(to) if to != *node => strays.push(Stray {
                    channel: channel.clone(),
                    from: std::mem::replace(node, to),
                    to,
                }),
                _ => {}
            }
        }
        strays
    }
}

/// As [`Store::subscribe`](lockkeeper_core::store::Store::subscribe).
pub(crate) async fn subscribe(shared: &Arc<Shared>, channel: &str) -> Result<(), StoreError> {
    let mut trouble = StoreError::not_sent("the slot of the channel wanders");
    for _ in 0..ATTEMPTS {
        let (id, node) = shared.owner(slot(channel))?;
        shared.channels.lock().insert(channel.to_owned(), id);
        match node.subscribe(Verb::Subscribe, channel, false).await {
            Ok(()) => return Ok(()),
            Err(error) => trouble = error,
        }
        {
            let mut channels = shared.channels.lock();
            // Moved meanwhile: that did not fail, so where it is now it shall be.
            if channels.get(channel) == Some(&id) {
                channels.remove(channel);
                break;
            }
        }
        if trouble.outcome() == Outcome::Refused {
            break;
        }
    }
    shared.alarm.notify_one();
    Err(trouble)
}

/// As [`Store::unsubscribe`](lockkeeper_core::store::Store::unsubscribe).
pub(crate) async fn unsubscribe(shared: &Arc<Shared>, channel: &str) -> Result<(), StoreError> {
    let id = shared.channels.lock().remove(channel);
    match id.and_then(|id| shared.node(id)) {
        Some(node) => node.subscribe(Verb::Unsubscribe, channel, false).await,
        None => Ok(()),
    }
}

/// Subscribes to channels where they are now, tells when that is done, and only then leaves the places where they were.
pub(crate) async fn follow(shared: Arc<Shared>, strays: Vec<Stray>) {
    let mut moves = tokio::task::JoinSet::new();
    for stray in strays {
        let (from, to) = (shared.node(stray.from), shared.node(stray.to));
        moves.spawn(async move {
            let subscribed = match to {
                Some(node) => node.subscribe(Verb::Subscribe, &stray.channel, true).await,
                None => Ok(()),
            };
            if let Err(error) = subscribed {
                tracing::warn!(channel = stray.channel, %error, "cannot subscribe on the slot's new node yet");
            }
            if let Some(node) = from {
                // Nobody waits for it: its node may be gone.
                tokio::spawn(async move {
                    let _ = node.subscribe(Verb::Unsubscribe, &stray.channel, false).await;
                });
            }
        });
    }
    while moves.join_next().await.is_some() {}
    shared.events.missed();
}

fn slot(channel: &str) -> u16 {
    redis_keyslot(channel.as_bytes())
}
