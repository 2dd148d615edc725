//! What is done to a lock of a kind that is known: by the scripts of all kinds, or by its own if another library holds such names too.

use crate::admin::inspection::{self, Inspection};
use crate::engine::Engine;
use crate::seam::protocol::Protocol;
use crate::words::error::Result;

/// Looks at a lock, and asks who its holders are.
pub(crate) async fn inspect(engine: &Engine, protocol: &dyn Protocol) -> Result<Inspection> {
    let seen = look(engine, protocol).await?;
    inspection::described(engine, protocol.name(), seen).await
}

/// Looks at a lock alone.
pub(super) async fn look(engine: &Engine, protocol: &dyn Protocol) -> Result<Inspection> {
    let name = protocol.name();
    match protocol.foreign() {
        Some(foreign) => inspection::seen_by(engine, name, || foreign.inspect()).await,
        None => inspection::look(engine, name).await,
    }
}

/// Tells who holds a lock to let it go; how many claims were told.
pub(crate) async fn revoke(engine: &Engine, protocol: &dyn Protocol) -> Result<u64> {
    let name = protocol.name();
    match protocol.foreign() {
        Some(foreign) => inspection::revoke_by(engine, name, || foreign.revoke()).await,
        None => inspection::revoke(engine, name).await,
    }
}

/// Takes a lock from whoever holds it beside `claim`; whether that claim had a part in it.
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
