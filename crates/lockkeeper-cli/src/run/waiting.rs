//! Reports which holders a run waits for.

use lockkeeper::{Client, Holder, HolderState, Owner};

use super::MOST_NAMED;
use super::journal::{Event, Journal, millis};
use crate::kind::Wanted;
use crate::{look, out};

/// How much of a queue is searched for this run's place.
const QUEUE: u32 = 1000;

/// Reports for each name the holders, since when and for how much longer they hold, and this run's place in the queue.
pub(crate) async fn tell(client: &Client, wanted: &Wanted, journal: &Journal) {
    for name in wanted.names() {
        // The user may lack the right to look. The wait is not affected.
        let Ok(seen) = client.inspect(name).await else {
            journal.remark(&format!("waiting for {name:?}"));
            continue;
        };
        let own = client.new_owner();
        let is_own = |it: &Holder| it.owner.is_some_and(|it| it.shares_client_with(own));
        // If there are several locks, this run may hold some already.
        if seen.holders.iter().any(is_own) {
            continue;
        }
        let Some(first) = seen.holders.first() else {
            journal.remark(&format!("waiting for {name:?}"));
            continue;
        };
        let since = first.since.and_then(look::time);
        let place = place(client, name, own).await;
        let holders: Vec<String> = seen.holders.iter().map(described).collect();
        let mut text = format!("waiting for {name:?}: held by {}", some_of(&holders));
        if let Some(since) = &since {
            text += &format!(" since {since}");
        }
        if let Some(left) = first.left {
            let renewed = first.state == HolderState::Held;
            let unless = if renewed { " unless renewed" } else { "" };
            text += &format!(", for {} more{unless}", out::duration(left));
        }
        if let Some(place) = place {
            text += &format!("; place {place} in the queue");
        }
        journal.remark(&text);
        journal.tell(&Event::Waiting {
            name,
            holders,
            since,
            left_ms: first.left.map(millis),
            place,
        });
    }
}

/// A holder as people know it.
pub(crate) fn described(holder: &Holder) -> String {
    let known_as = holder.label.as_deref().unwrap_or(&holder.claim);
    look::described(known_as, holder.note.as_deref())
}

/// The first few holders, and the number of the others.
pub(crate) fn some_of(holders: &[String]) -> String {
    match holders.len().saturating_sub(MOST_NAMED) {
        0 => holders.join(", "),
        more => format!("{} and {more} more", holders[..MOST_NAMED].join(", ")),
    }
}

/// This client's place in the queue of the name, counted from one.
async fn place(client: &Client, name: &str, own: Owner) -> Option<usize> {
    let waiters = client.waiting_owners(name, QUEUE).await.ok()?;
    let place = waiters.iter().position(|it| it.shares_client_with(own))?;
    Some(place + 1)
}
