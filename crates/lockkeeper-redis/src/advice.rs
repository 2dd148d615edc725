//! What a server says of itself, judged once for each connection that runs scripts: what may cost somebody a lock is logged.

use std::time::SystemTime;

use lockkeeper_core::ServerFacts;
use lockkeeper_core::store::StoreError;

use crate::connection::{Connection, command};
use crate::reply;

/// Asks the server what it is and warns of what should be known. One that does not tell this user is not judged.
pub(crate) async fn give(connection: &Connection) -> Result<(), StoreError> {
    let patience = connection.silence_timeout();
    let frame = connection.exchange(command("INFO", 0), Vec::new(), patience);
    let frame = frame.await?;
    let server = connection.target();
    let Some(info) = reply::text(&frame) else {
        let why = reply::error_text(&frame).unwrap_or_default();
        tracing::debug!(%server, why, "the server does not say what it is");
        return Ok(());
    };
    let facts = ServerFacts::read(&info, SystemTime::now());
    tracing::debug!(%server, version = facts.version, "looked at the server");
    for advice in facts.advice() {
        tracing::warn!(%server, about = advice.about, "{}", advice.text);
    }
    Ok(())
}
