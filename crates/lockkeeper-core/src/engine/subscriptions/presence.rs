//! A client as others see it: its label on the server, and the channel on which it is told about its claims.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_lua::client;
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

/// How long a label stands. A crashed client's is of use for as long as its leases last; a free name must leave nothing
/// behind for more than ten minutes.
const LABEL_TTL: Duration = Duration::from_secs(600);

/// How often a client that holds introduces itself anew: two introductions may fail before its label is gone.
const INTERVAL: Duration = Duration::from_secs(200);

/// How many notes of a client are on their way at once.
pub(super) const NOTES: usize = 32;

/// How old a claim is when its note is written.
const SETTLED: Duration = Duration::from_millis(100);

/// How long an introduction is waited for; nobody depends on it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Who a client is.
#[derive(Debug, Clone)]
pub(crate) struct Presence {
    /// Its own id, which stands in the owners it makes.
    pub(crate) id: Uuid,
    pub(crate) namespace: String,
    /// The key of its label.
    pub(crate) key: String,
    /// As people read it; `None`: it does not introduce itself.
    pub(crate) label: Option<Arc<str>>,
}

/// Where a client is told about the claims of the owners it made.
pub(crate) fn client_channel(id: Uuid) -> String {
    format!("lockkeeper.client:{id}")
}

/// Where the label of a client stands, for those of its namespace.
pub(crate) fn client_key(namespace: &str, id: Uuid) -> String {
    match namespace {
        "" => format!("lockkeeper.client:{{{id}}}"),
        _ => format!("lockkeeper.client:{{{namespace}:{id}}}"),
    }
}

/// Where the note of a claim stands, for those who know the key of its client.
pub(crate) fn note_key(client_key: &str, claim: &str) -> String {
    format!("{client_key}:{claim}")
}

/// Writes the label down.
pub(super) async fn introduce(requester: Arc<Requester>, presence: Presence) {
    if let Some(label) = &presence.label {
        write(&requester, &presence.key, label).await;
    }
}

/// Writes a text for those who inspect, or deletes it if it is empty; whether the server has confirmed that.
async fn write(requester: &Requester, key: &str, text: &str) -> bool {
    let ttl = LABEL_TTL.as_millis().to_string();
    let item = || ScriptCall::new(&client::INTRODUCE, [key], [text, &ttl]);
    let done = requester.run(item, TIMEOUT).await;
    if let Err(error) = &done {
        tracing::debug!(key, %error, "could not introduce itself; inspection shows less meanwhile");
    }
    done.is_ok()
}

/// Keeps the note of a claim where inspection finds it, for as long as it waits or holds. One that is over at once costs nothing.
///
/// As many may begin to wait at once as there are waiters: `bound` says how many of them write at a time.
pub(super) async fn annotate(part: Arc<Part>, namespace: String, bound: Arc<Semaphore>) {
    let Some(note) = &part.note else { return };
    let client = client_key(&namespace, part.id.owner().client());
    let key = note_key(&client, part.id.as_str());
    let write = async |note: &str| {
        // An error means that the semaphore is closed, which nobody does.
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

/// Tells the server what the kind of a claim has to say of it, until that is answered or the claim holds no more.
pub(super) async fn proclaim(part: Arc<Part>) {
    let mut pauses = Pauses::new(part.number);
    while part.validity().0.holds() {
        match part.requester.proclaim(&part).await {
            Ok(()) => return,
            Err(error) if error.is_transient() && !mutant!(ProclaimedOnce) => {
                tracing::debug!(claim = %part.id, %error, "could not proclaim; trying again");
            }
            Err(error) => {
                tracing::warn!(claim = %part.id, %error, "could not proclaim; observers see no value");
                return;
            }
        }
        tokio::time::sleep(pauses.next()).await;
    }
}

/// When the label is written down again.
#[derive(Debug, Default)]
pub(super) struct Introduction {
    due: Option<Moment>,
}

impl Introduction {
    /// When this one is over; `None` if the client is not introduced.
    pub(super) const fn next(&self) -> Option<Moment> {
        self.due
    }

    /// One has been sent.
    pub(super) fn sent(&mut self, now: Moment) {
        self.due = Some(now.after(INTERVAL));
    }

    /// The server may have forgotten the label.
    pub(super) fn hurry(&mut self, now: Moment) {
        self.due = self.due.map(|_| now);
    }

    /// Whether the last one is over by now. That is told once.
    pub(super) fn is_over(&mut self, now: Moment) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }
}

/// Does what a message on a client's channel says: `revoked <claim>` or `gone <claim>`.
pub(super) fn told(claims: &Claims, payload: &[u8]) {
    let words = str::from_utf8(payload)
        .ok()
        .and_then(|text| text.split_once(' '));
    match words {
        Some(("revoked", claim)) => claims.notice(claim, Notice::Revoked),
        Some(("gone", claim)) => claims.notice(claim, Notice::Gone),
        _ => tracing::debug!("a message to the client without meaning"),
    }
}

/// Listens on a channel until dropped: to what another client is told, for a claim of an owner that was made there, or for
/// the grant of a claim that waits.
#[derive(Debug)]
pub(crate) struct Subscription {
    subscriptions: Arc<Subscriptions>,
    channel: String,
}

impl Subscription {
    /// One that ends what has begun: the channel is listened to already.
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
