//! The times, clients and checks that all promises of the suite share, with what they import.

pub(super) use std::slice::from_ref;
pub(super) use std::sync::Arc;
pub(super) use std::time::Duration;

pub(super) use anyhow::{Result, bail, ensure};
pub(super) use lockkeeper::{Client, ClientBuilder, Error, Guard, LeaseState, Lock, LossReason};
pub(super) use tokio::task::JoinSet;

pub(super) use crate::gated::{GatedStore, drop_after};
pub(super) use crate::history::{History, ValidSpan, now};
pub(super) use crate::site::Site;
pub(super) use crate::subject::{Common, Subject, connect};
pub(super) use crate::time::{PATIENCE, beyond_stalls};

/// Far above [`PATIENCE`]: nothing that a test waits for comes at the end of such a lease.
pub(super) const LONG: Duration = Duration::from_secs(3_600);

/// A lease that a test waits out.
pub(super) const SHORT: Duration = Duration::from_millis(300);

/// The shortest lease that is renewed, on a machine without [stalls](beyond_stalls).
pub(super) const RENEWED: Duration = Duration::from_millis(1_500);

/// On a slow machine too, no request fails by its timeout.
pub(super) fn settings() -> ClientBuilder {
    Client::builder()
        .ttl(LONG)
        .request_timeout(PATIENCE)
        .release_timeout(PATIENCE)
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
    let guard = contender.acquire().wait_for(PATIENCE).await?;
    Guard::release(guard).await?;
    Ok(())
}

/// Acquires a lease of [`SHORT`] that is not renewed. On a slow machine a grant may come after such a lease has ended, and
/// is asked for again.
pub(super) async fn short_lease<L: Lock>(lock: &L) -> Result<L::Guard> {
    let short = lock.acquire().ttl(SHORT).no_renewal();
    Ok(short.wait_for(PATIENCE).await?)
}
