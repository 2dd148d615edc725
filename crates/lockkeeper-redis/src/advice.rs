//! What a server says of itself, judged for each connection that runs scripts: what may cost somebody a lock is logged, and
//! not again when the connection is replaced.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lockkeeper_core::store::StoreError;
use lockkeeper_core::{Advice, ServerFacts};

use crate::connection::Connection;
use crate::reply;
use crate::request::Outgoing;
use crate::wire;

/// What was said last of each server, by its address.
pub(crate) type Said = BTreeMap<String, Vec<Advice>>;

/// Asks the server what it is and warns of what should be known. One that does not tell this user is not judged.
pub(crate) async fn give(connection: &Connection, said: &mut Said) -> Result<(), StoreError> {
    let patience = connection.silence_timeout();
    let server = connection.target();
    let info = match connection
        .send(&Outgoing::plain("INFO", []), patience)
        .await
    {
        Ok(info) => reply::text(&info).unwrap_or_default(),
        Err(why) if wire::is_refusal(&why) => {
            tracing::debug!(%server, %why, "the server does not say what it is");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let facts = ServerFacts::read(&info, SystemTime::now());
    tracing::debug!(%server, version = facts.version, "looked at the server");
    let advice = facts.advice();
    let before = said.insert(server.to_string(), advice.clone());
    let before = before.unwrap_or_default();
    for advice in advice.iter().filter(|advice| !before.contains(advice)) {
        tracing::warn!(%server, about = advice.about, "{}", advice.text);
    }
    Ok(())
}
