//! The same operations for a lock of a known kind. The scripts are the same for all kinds, except for a kind whose
//! names another library can hold too: it has scripts of its own.

use crate::admin::inspection::{self, Inspection, Question};
use crate::engine::Engine;
use crate::seam::protocol::{Protocol, ScriptCall};
use crate::seam::store::Reply;
use crate::words::error::Result;

/// Inspects a lock, and asks for the labels and notes of its holders.
pub(crate) async fn inspect(engine: &Engine, protocol: &dyn Protocol) -> Result<Inspection> {
    let seen = look(engine, protocol).await?;
    inspection::described(engine, protocol.name(), seen).await
}

/// Inspects a lock without labels and notes.
pub(super) async fn look(engine: &Engine, protocol: &dyn Protocol) -> Result<Inspection> {
    let name = protocol.name();
    match protocol.foreign() {
        Some(foreign) => inspection::seen_by(engine, name, || foreign.inspect()).await,
        None => inspection::look(engine, name).await,
    }
}

/// Asks the holders of a lock to release it; returns how many claims were told.
pub(crate) async fn revoke(engine: &Engine, protocol: &dyn Protocol) -> Result<u64> {
    let name = protocol.name();
    match protocol.foreign() {
        Some(foreign) => inspection::revoke_by(engine, name, || foreign.revoke()).await,
        None => inspection::revoke(engine, name).await,
    }
}

/// Takes a lock from all claims that hold it together with `claim`; returns whether that claim was one of them.
pub(crate) async fn force_release(
    engine: &Engine,
    protocol: &dyn Protocol,
    claim: &str,
) -> Result<bool> {
    let name = protocol.name();
    match protocol.foreign() {
        Some(foreign) => {
            let channel = foreign.channel();
            let item = || foreign.free(claim);
            inspection::force_release_by(engine, name, claim, &channel, item).await
        }
        None => inspection::force_release(engine, name, claim).await,
    }
}

/// Sends a request that only this kind has and that belongs to no claim.
pub(crate) async fn of_kind(
    engine: &Engine,
    protocol: &dyn Protocol,
    doing: &'static str,
    item: impl Fn() -> ScriptCall,
) -> Result<Reply> {
    let question = Question::OfKind(protocol.kind(), doing);
    let (reply, _) = inspection::ask(engine, protocol.name(), question, item).await?;
    Ok(reply)
}

/// Like [`of_kind`], for a request that must not be executed twice: it is sent once.
pub(crate) async fn of_kind_once(
    engine: &Engine,
    protocol: &dyn Protocol,
    doing: &'static str,
    item: impl Fn() -> ScriptCall,
) -> Result<Reply> {
    let (question, name) = (Question::OfKind(protocol.kind(), doing), protocol.name());
    let (reply, _) = inspection::put_at_most(engine, 1, item)
        .await?
        .map_err(|error| inspection::backend(name, question, error))?;
    inspection::of_its_kind(name, question, reply)
}
