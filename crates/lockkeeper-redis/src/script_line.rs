//! Keeps the connection that runs scripts: watches it, replaces it, puts it where callers find it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::connection::{Connection, Lifeline};
use crate::dialer::Dialer;
use crate::events::{Events, Line};
use crate::slot::{CloseOnDrop, Slot, closed};

/// Runs until `closing` says so, or until the store is dropped.
pub(crate) async fn keep(
    dialer: Dialer,
    slot: Arc<Slot>,
    events: Arc<Events>,
    mut opened: (Arc<Connection>, Lifeline),
    mut closing: watch::Receiver<bool>,
) {
    let slot = CloseOnDrop(slot);
    loop {
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
        opened = tokio::select! {
            biased;
            () = closed(&mut closing) => return,
            opened = dialer.redial() => opened,
        };
        slot.0.raise(Arc::clone(&opened.0));
        events.restored(Line::Scripts);
    }
}
