//! What the test programs share: clients with the settings that tests need, processes that hold locks, servers of a majority.

pub mod holder;
pub mod majority;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_core::Name;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::{self, PATIENCE};

/// Settings with which no lease, no wait and no request ends within a test, however slow the machine is.
pub fn patient() -> ClientBuilder {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    Client::builder()
        .ttl(HOUR)
        .waiter_ttl(HOUR)
        .request_timeout(PATIENCE)
        .release_timeout(PATIENCE)
}

/// Connects a client with leases of `ttl`.
pub async fn client(site: &impl Site, ttl: Duration) -> Result<Client> {
    site.client(Client::builder().ttl(ttl)).await
}

/// A client with leases of `ttl`, and the store on which a test plans faults for its requests to `server`.
pub fn faulty(server: &MemoryStore, ttl: Duration) -> Result<(Client, Arc<FaultyStore>)> {
    Ok(FaultyStore::client(server, Client::builder().ttl(ttl))?)
}

/// Settings for a client that shares its names with other libraries, which have no queue: its mutexes are polled.
pub fn polling() -> ClientBuilder {
    Client::builder().namespace("")
}

/// As [`faulty`], for a client whose mutexes are polled.
pub fn faulty_polling(server: &MemoryStore, ttl: Duration) -> Result<(Client, Arc<FaultyStore>)> {
    Ok(FaultyStore::client(server, polling().ttl(ttl))?)
}

/// Waits until the condition holds.
pub async fn until(condition: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let look = async || Ok((condition().await?, "the condition does not hold"));
    until::until("what the test waits for", PATIENCE, look).await
}

/// The key of the counter from which a name in the default namespace draws its tokens.
pub fn counter(name: &str) -> Result<String> {
    Ok(Name::new("lockkeeper", name)?.counter())
}
