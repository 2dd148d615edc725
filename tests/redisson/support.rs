//! Clients for tests of what lies on the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use lockkeeper_testkit::site::Site as _;

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// Without a label, so that the client leaves no key of its own on the server.
pub(crate) fn settings() -> ClientBuilder {
    Client::builder().ttl(TTL).label("")
}

pub(crate) async fn client(site: &MemoryStore) -> Result<Client> {
    site.client(settings()).await
}

/// A client, and the store on which a test plans faults for its requests.
pub(crate) fn faulty(site: &MemoryStore) -> Result<(Client, Arc<FaultyStore>)> {
    Ok(FaultyStore::client(site, settings())?)
}
