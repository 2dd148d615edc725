//! Keeps the command connection, which runs scripts: watches it, replaces it, and puts it where callers find it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::advice::{self, Said};
use crate::connection::Connection;
use crate::connection_slot::{CloseOnDrop, ConnectionSlot, closed};
use crate::dialer::Dialer;
use crate::events::{Events, Purpose};
use crate::wire::Lifeline;

/// A node that cannot serve may end every connection with its answers (fred ends it at `CLUSTERDOWN`). A connection that lived for
/// less than this is not replaced at once.
const SHORT_LIFE: Duration = Duration::from_secs(1);

/// The pause in that case. Meanwhile the other nodes say which one to ask.
const REST: Duration = Duration::from_millis(250);

/// Runs until `closing` says so, or until the store is dropped. If there is no connection yet, makes one first.
pub(crate) async fn keep(
    dialer: Dialer,
    current: Arc<ConnectionSlot>,
    events: Arc<Events>,
    opened: Option<(Arc<Connection>, Lifeline)>,
    mut closing: watch::Receiver<bool>,
) {
    let current = CloseOnDrop(current);
    let redial = async |closing: &mut watch::Receiver<bool>| {
        let opened = tokio::select! {
            biased;
            () = closed(closing) => return None,
            opened = dialer.redial(|why| current.0.explain(why)) => opened,
        };
        current.0.raise(Arc::clone(&opened.0));
        events.restored(dialer.purpose);
        Some(opened)
    };
    let mut kept = match opened {
        Some(opened) => Some(opened),
        None => redial(&mut closing).await,
    };
    let mut said = Said::new();
    while let Some(mut opened) = kept {
        let since = Instant::now();
        let (connection, lifeline) = &mut opened;
        let why = tokio::select! {
            biased;
            () = closed(&mut closing) => {
                current.0.close();
                connection.quit().await;
                return;
            }
            why = lifeline.end() => why,
            why = dialer.moved(connection) => why,
            () = connection.condemned() => "a reply belonged to another request".to_owned(),
            why = attend(connection, &mut said) => why,
            why = dialer.keep_authenticated(connection) => why,
        };
        current.0.lower(connection, &why);
        events.lost(dialer.purpose);
        dialer.report_lost(&why);
        drop(opened);
        tokio::select! {
            biased;
            () = closed(&mut closing) => return,
            () = rest_after_short_life(dialer.purpose, since) => {}
        }
        kept = redial(&mut closing).await;
    }
}

/// Called when a connection that was made at `since` has ended. Waits a little if a cluster node may have ended it with an answer.
pub(crate) async fn rest_after_short_life(purpose: Purpose, since: Instant) {
    let of_node = matches!(purpose, Purpose::NodeScripts | Purpose::NodeMessages);
    if of_node && since.elapsed() < SHORT_LIFE {
        tokio::time::sleep(REST).await;
    }
}

/// Asks the server once what it is, then watches the connection. Returns the reason when it is no longer usable.
async fn attend(connection: &Connection, said: &mut Said) -> String {
    match advice::give(connection, said).await {
        Ok(()) => connection.pulse().await,
        Err(error) => error.to_string(),
    }
}
