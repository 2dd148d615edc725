//! What kinds on one server and the Redlock have in common for tests: so much of the contract suite is for both.

use std::sync::Arc;

use anyhow::Context as _;
use lockkeeper::{Client, ClientBuilder, Lock, Redlock, Result};
use lockkeeper_core::store::Store;

use crate::site::Site;
use crate::subject::Subject;

/// A [`Subject`], or a Redlock on all servers of a site.
///
/// What does not fit the Redlock: `min_hold`, which it does not have; inspecting, revoking and forcing, which are about one
/// server; the report of closing, which each client makes of its own part; and bad names, which it refuses before there is
/// anything to acquire. Nor does a real server that has just been started, which stays out for one longest ttl, longer than the
/// suite waits.
pub trait Common: Lock {
    /// What one process has of clients.
    type Party: Party;

    /// As [`Subject::Rival`].
    type Rival: Common<Party = Self::Party>;

    /// As [`Subject::SHARED`].
    const SHARED: bool;

    /// As [`Subject::HELD`].
    const HELD: &'static str;

    /// The lock called `name`, which must be a good one.
    fn new(party: &Self::Party, name: &str) -> Self;
}

impl<S: Subject> Common for S {
    type Party = Client;
    type Rival = S::Rival;

    const SHARED: bool = S::SHARED;
    const HELD: &'static str = S::HELD;

    fn new(client: &Client, name: &str) -> Self {
        <S as Subject>::new(client, name)
    }
}

impl Common for Redlock {
    type Party = Vec<Client>;
    type Rival = Self;

    const SHARED: bool = false;
    const HELD: &'static str = "lockkeeper:name";

    #[expect(clippy::expect_used, reason = "a test names its locks well")]
    fn new(clients: &Vec<Client>, name: &str) -> Self {
        Self::new(clients, name).expect("a good name and enough clients")
    }
}

/// The clients of one process.
pub trait Party: Sized + Clone + Send + Sync + 'static {
    /// Those that a kind needs on this site, each by a connection of its own that goes `through` this.
    fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> impl Future<Output = anyhow::Result<Self>> + Send;
}

impl Party for Client {
    async fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        Ok(settings.build(through(site.store().await?))?)
    }
}

impl Party for Vec<Client> {
    async fn connect(
        site: &dyn Site,
        settings: ClientBuilder,
        through: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> anyhow::Result<Self> {
        let stores = site.stores().await?.into_iter();
        let clients = stores.map(|store| settings.clone().build(through(store)));
        let clients: Result<Self> = clients.collect();
        clients.context("no client")
    }
}
