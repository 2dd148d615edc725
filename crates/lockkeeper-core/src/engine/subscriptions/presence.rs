//! What others see of a client: its label on the server. And the channel on which it receives messages about its
//! claims.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_lua::client;
use sha1_smol::Sha1;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use crate::claim::Validity;
use crate::engine::claims::Claims;
use crate::engine::part::Part;
use crate::engine::requester::Requester;
use crate::engine::subscriptions::Subscriptions;
use crate::schedule::pause::Pauses;
use crate::seam::protocol::ScriptCall;
use crate::words::agenda::Notice;
use crate::words::moment::Moment;

/// How long a label is stored. The label of a crashed client is useful while its leases last; a free name must leave
/// nothing behind for more than ten minutes.
const LABEL_TTL: Duration = Duration::from_secs(600);

/// How often a client that holds writes its label again: two writes may fail before the label expires.
const INTERVAL: Duration = Duration::from_secs(200);

/// How many notes of a client may be written at once.
pub(super) const NOTES: usize = 32;

/// How long a claim must wait or hold before its note is written.
const SETTLED: Duration = Duration::from_millis(100);

/// How long to wait for the answer when a label is written. Nothing depends on it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How a client presents itself to others.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    /// Its id, which is part of the owners that it makes.
    pub(crate) id: Uuid,
    pub(crate) namespace: String,
    /// The key of its label.
    pub(crate) key: String,
    /// The label for people; `None`: none is written.
    pub(crate) label: Option<Arc<str>>,
}

/// The channel of messages to a client about the claims of the owners that it made.
pub(crate) fn client_channel(id: Uuid) -> String {
    format!("lockkeeper.client:{id}")
}

/// The key of a client's label, for clients of its namespace.
pub(crate) fn client_key(namespace: &str, id: Uuid) -> String {
    match namespace {
        "" => format!("lockkeeper.client:{{{id}}}"),
        _ => format!("lockkeeper.client:{{{namespace}:{id}}}"),
    }
}

/// The key of a claim's note, given the key of its client. It has 64 bits of the claim's SHA-1 in place of the claim: every user
/// with the right to scan sees the names of all keys, and who knows a claim can tell its client that it is over.
pub(crate) fn note_key(client_key: &str, claim: &str) -> String {
    let digest = Sha1::from(claim).digest().to_string();
    format!("{client_key}:{}", &digest[..16])
}

/// Writes the label.
pub(super) async fn introduce(requester: Arc<Requester>, presence: Presence) {
    if let Some(label) = &presence.label {
        write(&requester, &presence.key, label).await;
    }
}

/// Writes a text for people who inspect, or deletes it if `text` is empty. Returns whether the server has confirmed
/// that.
async fn write(requester: &Requester, key: &str, text: &str) -> bool {
    let ttl = LABEL_TTL.as_millis().to_string();
    let item = || ScriptCall::new(&client::INTRODUCE, [key], [text, &ttl]);
    let done = requester.run(item, TIMEOUT).await;
    if let Err(error) = &done {
        tracing::debug!(key, %error, "could not write a label or note; inspection does not show it");
    }
    done.is_ok()
}

/// Writes the note of a claim where inspection finds it, and keeps it there while the claim waits or holds. A claim
/// that ends at once costs nothing.
///
/// Any number of claims may begin to wait at once, so `bound` limits how many notes are written at a time.
pub(super) async fn annotate(part: Arc<Part>, namespace: String, bound: Arc<Semaphore>) {
    let Some(note) = &part.note else { return };
    let client = client_key(&namespace, part.id.owner().client());
    let key = note_key(&client, part.id.as_str());
    let write = async |note: &str| {
        // An error means that the semaphore was closed, which never happens.
        let _permit = bound.acquire().await;
        write(&part.requester, &key, note).await
    };
    let (mut next, mut written) = (Instant::now() + SETTLED, false);
    loop {
        let mut changed = pin!(part.changed().notified());
        changed.as_mut().enable();
        if let Validity::Ended(_) = part.validity().0 {
            break;
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = sleep_until(next) => {
                written = true;
                let interval = if write(note).await { INTERVAL } else { TIMEOUT };
                next = Instant::now() + interval;
            }
        }
    }
    if written {
        write("").await;
    }
}

/// Sends what the kind of a claim proclaims, until the server has answered or the claim no longer holds.
pub(super) async fn proclaim(part: Arc<Part>) {
    let mut pauses = Pauses::new(part.number);
    while part.validity().0.holds() {
        match part.requester.proclaim(&part).await {
            Ok(()) => return,
            Err(error) if error.is_transient() && !mutant!(ProclaimedOnce) => {
                tracing::debug!(claim = %part.id, %error, "could not send the leader's value; trying again");
            }
            Err(error) => {
                tracing::warn!(claim = %part.id, %error, "could not send the leader's value; observers do not see it");
                return;
            }
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

/// When the label must be written again.
#[derive(Debug, Default)]
pub(super) struct Introduction {
    due: Option<Moment>,
}

impl Introduction {
    /// When the current label must be written again; `None` if no label was written.
    pub(super) const fn next(&self) -> Option<Moment> {
        self.due
    }

    /// Notes that the label has been sent.
    pub(super) fn sent(&mut self, now: Moment) {
        self.due = Some(now.after(INTERVAL));
    }

    /// Makes the label due now, because the server may have lost it.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.due = self.due.map(|_| now);
    }

    /// Whether the label is due by now. True only once.
    pub(super) fn is_over(&mut self, now: Moment) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

/// Applies a message on a client's channel: `revoked <claim>` or `gone <claim>`.
pub(super) fn told(claims: &Claims, payload: &[u8]) {
    let words = str::from_utf8(payload)
        .ok()
        .and_then(|text| text.split_once(' '));
    match words {
        Some(("revoked", claim)) => claims.notice(claim, Notice::Revoked),
        Some(("gone", claim)) => claims.notice(claim, Notice::Gone),
        _ => tracing::debug!("ignored an unknown message to this client"),
    }
}

/// Listens on a channel until dropped: for messages to another client about a claim of an owner that it made, or for
/// the grant of a claim that waits.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscriptions: Arc<Subscriptions>,
    channel: String,
}

impl Subscription {
    /// The registry already counts this listener; dropping this ends that.
    pub(super) fn new(subscriptions: &Arc<Subscriptions>, channel: String) -> Self {
        Self {
            subscriptions: Arc::clone(subscriptions),
            channel,
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.subscriptions.turn_away(&self.channel);
    }
}
