//! Subscriptions: each channel is subscribed to on the node that has its slot, and follows the slot.
//!
//! In the right place, a subscription gets its messages directly from the node that runs the scripts of its name, and that node
//! counts it among its subscribers. In a wrong place a classic subscription still gets them, because a classic message reaches
//! every node over the cluster bus. A sharded one is refused there, and ends when its slot moves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::{Outcome, StoreError, slot_of};
use tokio::time::sleep;

use super::Shared;
use super::answer::Answer;
use super::map::NodeId;
use crate::connection::Verb;

/// How often a subscription is retried because its slot has moved.
const ATTEMPTS: u32 = 5;

/// The pause before the second retry, while nodes disagree; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(10);

/// The node on which each channel is subscribed.
#[derive(Debug, Default)]
pub(crate) struct Channels(Mutex<BTreeMap<String, NodeId>>);

/// A channel whose slot has a new owner.
#[derive(Debug)]
pub(crate) struct Misplaced {
    channel: String,
    from: NodeId,
    to: NodeId,
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns every channel to the node where `owner` says its slot is; returns those that have to move.
    pub(crate) fn misplaced(&self, owner: impl Fn(u16) -> Option<NodeId>) -> Vec<Misplaced> {
        let mut misplaced = Vec::new();
        for (channel, node) in self.lock().iter_mut() {
            match owner(slot_of(channel)) {
                Some(to) if to != *node => misplaced.push(Misplaced {
                    channel: channel.clone(),
                    from: std::mem::replace(node, to),
                    to,
                }),
                _ => {}
            }
        }
        misplaced
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
            // If it was moved meanwhile, the move has not failed: the channel stays on its new node.
            let stayed = channels.get(channel) == Some(&id);
            if stayed {
                channels.remove(channel);
            }
            stayed
        };
        if let Answer::Moved(endpoint) = Answer::read(trouble.message(), &node.endpoint) {
            shared.change(|map| map.hint(slot_of(channel), &endpoint));
            shared.alarm.notify_one();
            // Not reported as a server's refusal: that would end the waiting of everybody on the channel.
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

/// The caller gets an error, so no subscription may remain where the channel was moved meanwhile.
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

/// Subscribes to channels on their new nodes, unsubscribes on the old ones only after that, and reports when all is done.
pub(crate) async fn follow(shared: Arc<Shared>, misplaced: Vec<Misplaced>) {
    let mut moves = tokio::task::JoinSet::new();
    for misplaced in misplaced {
        let shared = Arc::clone(&shared);
        moves.spawn(async move {
            settle(&shared, &misplaced).await;
            leave(&shared, &misplaced.channel, misplaced.from);
        });
    }
    while moves.join_next().await.is_some() {}
    shared.events.missed();
}

/// Subscribes to a channel on its new node, unless it has moved again meanwhile.
async fn settle(shared: &Arc<Shared>, misplaced: &Misplaced) {
    let channel = &misplaced.channel;
    let stays = || shared.channels.lock().get(channel) == Some(&misplaced.to);
    for attempt in 0..ATTEMPTS {
        pause(attempt).await;
        let Some(node) = shared.node(misplaced.to).filter(|_| stays()) else {
            return;
        };
        let subscribed = node.subscribe(Verb::Subscribe, channel, true).await;
        if !stays() {
            leave(shared, channel, misplaced.to);
            return;
        }
        let Err(error) = subscribed else {
            return;
        };
        tracing::debug!(channel, %error, "cannot subscribe on the slot's new node yet");
        // MOVED: a node that does not know yet that it owns the slot. A later heartbeat of the node would retry a missing channel
        // too.
        if error.code() != Some("MOVED") {
            return;
        }
        shared.alarm.notify_one();
    }
}

/// Unsubscribes on a node where a channel is no longer needed. Does not wait for the result: the node may be gone.
fn leave(shared: &Arc<Shared>, channel: &str, id: NodeId) {
    let node = shared.node(id);
    // Posted under the lock, so that the channel cannot be moved back there before: a later move is later in the queue too.
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

/// Waits a little the third time, longer each further time.
async fn pause(times: u32) {
    if times > 1 {
        sleep(PAUSE * 2_u32.pow(times - 2)).await;
    }
}
