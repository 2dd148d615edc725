//! Subscriptions: each channel is subscribed to on the node that has its slot, and follows the slot.
//!
//! In the right place it hears the very node that runs the scripts of its name, without a way between, and whoever counts there
//! who listens counts it. In a wrong place a classic subscription still hears, for a classic message reaches every node by the
//! bus between them; a sharded one is refused there, and is gone when its slot is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::{Outcome, StoreError, slot_of};
use tokio::time::sleep;

use super::Shared;
use super::answer::Answer;
use super::map::NodeId;
use crate::connection::Verb;

/// How often a subscription is begun anew that its slot has run away from.
const ATTEMPTS: u32 = 5;

/// The pause before the second new beginning, while nodes do not agree; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(10);

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
            match owner(slot_of(channel)) {
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
    for attempt in 0..ATTEMPTS {
        pause(attempt).await;
        let (id, node) = shared.owner(slot_of(channel))?;
        shared.channels.lock().insert(channel.to_owned(), id);
        match node.subscribe(Verb::Subscribe, channel, false).await {
            Ok(()) => return Ok(()),
            Err(error) => trouble = error,
        }
        let stayed = {
            let mut channels = shared.channels.lock();
            // Moved meanwhile: that did not fail, so where it is now it shall be.
            let stayed = channels.get(channel) == Some(&id);
            if stayed {
                channels.remove(channel);
            }
            stayed
        };
        if let Answer::Moved(endpoint) = Answer::read(trouble.message(), &node.endpoint) {
            shared.change(|map| map.hint(slot_of(channel), &endpoint));
            shared.alarm.notify_one();
            // No word of a server that it will not have it: that would end waiting on the channel for all.
            trouble =
                StoreError::not_sent(format!("nobody admits to have slot {}", slot_of(channel)));
            continue;
        }
        if stayed || trouble.outcome() == Outcome::Refused {
            break;
        }
    }
    forget(shared, channel);
    shared.alarm.notify_one();
    Err(trouble)
}

/// The caller is told that it has no subscription, so none is kept where the channel was sent meanwhile.
fn forget(shared: &Arc<Shared>, channel: &str) {
    let mut channels = shared.channels.lock();
    if let Some(node) = channels.remove(channel).and_then(|id| shared.node(id)) {
        node.post(Verb::Unsubscribe, channel, false);
    }
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
        let shared = Arc::clone(&shared);
        moves.spawn(async move {
            settle(&shared, &stray).await;
            leave(&shared, &stray.channel, stray.from);
        });
    }
    while moves.join_next().await.is_some() {}
    shared.events.missed();
}

/// Subscribes to a channel where it has to be, unless it has to be elsewhere meanwhile.
async fn settle(shared: &Arc<Shared>, stray: &Stray) {
    let channel = &stray.channel;
    let stays = || shared.channels.lock().get(channel) == Some(&stray.to);
    for attempt in 0..ATTEMPTS {
        pause(attempt).await;
        let Some(node) = shared.node(stray.to).filter(|_| stays()) else {
            return;
        };
        let subscribed = node.subscribe(Verb::Subscribe, channel, true).await;
        if !stays() {
            leave(shared, channel, stray.to);
            return;
        }
        let Err(error) = subscribed else {
            return;
        };
        tracing::debug!(channel, %error, "cannot subscribe on the slot's new node yet");
        // A node that does not know yet that the slot is its own. It looks after what is not there in time, too.
        if error.code() != Some("MOVED") {
            return;
        }
        shared.alarm.notify_one();
    }
}

/// Unsubscribes where a channel need not be any more. Nobody waits for it: the node may be gone.
fn leave(shared: &Arc<Shared>, channel: &str, id: NodeId) {
    let node = shared.node(id);
    // Posted while nobody can send the channel back there: who does so later comes later in that line.
    let channels = shared.channels.lock();
    let verb = match channels.get(channel) {
        Some(there) if *there == id => return,
        Some(_) => Verb::Abandon,
        None => Verb::Unsubscribe,
    };
    if let Some(node) = node {
        node.post(verb, channel, false);
    }
}

/// Waits a little the third time, a little longer each further one.
async fn pause(times: u32) {
    if times > 1 {
        sleep(PAUSE * 2_u32.pow(times - 2)).await;
    }
}
