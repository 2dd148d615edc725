//! Keeps the connection that runs scripts: watches it, replaces it, puts it where callers find it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::{Connection, Lifeline};
use crate::dialer::Dialer;
use crate::events::{Events, Line};
use crate::slot::{CloseOnDrop, Slot, closed};

/// Runs until `closing` says so, or until the store is dropped. Without a connection yet it makes one first.
pub(crate) async fn keep(
    dialer: Dialer,
    slot: Arc<Slot>,
    events: Arc<Events>,
    opened: Option<(Arc<Connection>, Lifeline)>,
    mut closing: watch::Receiver<bool>,
) {
    let slot = CloseOnDrop(slot);
    let redial = async |closing: &mut watch::Receiver<bool>| {
        let opened = tokio::select! {
            biased;
            () = closed(closing) => return None,
            opened = dialer.redial() => opened,
        };
        slot.0.raise(Arc::clone(&opened.0));
        events.restored(Line::Scripts);
        Some(opened)
    };
    let mut current = match opened {
        Some(opened) => Some(opened),
        None => redial(&mut closing).await,
    };
    while let Some(mut opened) = current {
        let (connection, lifeline) = &mut opened;
        let why = tokio::select! {
            biased;
            () = closed(&mut closing) => {
                slot.0.close();
                connection.quit().await;
                return;
            }
            why = lifeline.end() => why,
            () = connection.condemned() => "a reply belonged to another request".to_owned(),
            why = connection.pulse() => why,
        };
        slot.0.lower(connection, &why);
        events.lost(Line::Scripts);
        dialer.log_lost(&why);
        drop(opened);
        current = redial(&mut closing).await;
    }
}
