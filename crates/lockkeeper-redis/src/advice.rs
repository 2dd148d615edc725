//! Checks what a server says about itself, on each connection that runs scripts. It logs a warning for each fact that may cost
//! somebody a lock, and does not repeat it when the connection is replaced.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lockkeeper_core::store::StoreError;
use lockkeeper_core::{Advice, ServerFacts};

use crate::connection::Connection;
use crate::reply;
use crate::request::Outgoing;
use crate::wire;

/// The last advice about each server, by its address.
pub(crate) type Said = BTreeMap<String, Vec<Advice>>;

/// Asks the server what it is and warns of known risks. A server that does not tell this user is not checked.
pub(crate) async fn give(connection: &Connection, said: &mut Said) -> Result<(), StoreError> {
    let server = connection.target();
    let info = match connection.ask(&Outgoing::plain("INFO", [])).await {
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
