//! The times, clients and checks that all promises of the suite share, with what they import.

pub(super) use std::slice::from_ref;
pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use anyhow::{Result, bail, ensure};
pub(super) use lockkeeper::{
    Client, ClientBuilder, Error, Guard, LeaseState, Lock as _, LossReason,
};
pub(super) use tokio::task::JoinSet;

pub(super) use crate::gated::{GatedStore, drop_after};
pub(super) use crate::history::{History, ValidSpan, now};
pub(super) use crate::site::Site;
pub(super) use crate::subject::{Common, Subject, connect};

/// Long enough that nothing in a test ends by it, unless the test says so.
pub(super) const LONG: Duration = Duration::from_secs(30);

/// Far below [`LONG`]: what comes within this time came by a message, not at the end of a lease.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// A lease that a test waits out.
pub(super) const SHORT: Duration = Duration::from_millis(300);

/// A lease that is renewed, even if a slow machine stands still for a second.
pub(super) const RENEWED: Duration = Duration::from_millis(1_500);

pub(super) fn settings() -> ClientBuilder {
    Client::builder().ttl(LONG)
}

/// The clients of one process.
pub(super) async fn clients(site: &dyn Site) -> Result<Vec<Client>> {
    connect(site, settings(), |store| store).await
}

/// The client of one process, for a kind on one server.
pub(super) async fn client(site: &dyn Site) -> Result<Client> {
    site.client(settings()).await
}

/// The reason of an error, if that is the loss of a lease.
pub(super) fn lost(error: &Option<Error>) -> Option<LossReason> {
    match error {
        Some(Error::Lost { reason, .. }) => Some(*reason),
        _ => None,
    }
}

/// Checks that the lock becomes free soon, without waiting for a lease to end.
pub(super) async fn expect_free<S: Common>(clients: &[Client], name: &str) -> Result<()> {
    let contender = S::Contender::over(clients, name);
    let guard = contender.acquire().wait_for(SOON).await?;
    Guard::release(guard).await?;
    Ok(())
}
