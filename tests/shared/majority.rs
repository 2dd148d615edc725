//! The servers of a Redlock, and processes whose requests to each of them can fail.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lockkeeper::{Client, Redlock, RedlockGuard};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;

use crate::{counter, faulty};

/// Of each lease.
pub const TTL: Duration = Duration::from_secs(10);
/// The main key of `name`.
pub const MAIN: &str = "lockkeeper:name";

/// Servers on the embedded engine.
pub struct Servers(pub Vec<MemoryStore>);

/// A process: a client per server, over a network that can fail on demand.
pub struct Process {
    /// Its way to each server.
    pub links: Vec<Arc<FaultyStore>>,
    /// Its client of each server.
    pub clients: Vec<Client>,
    /// What it locks.
    pub lock: Redlock,
}

impl Servers {
    /// Five that hold nothing.
    pub fn five() -> Self {
        Self((0..5).map(|_| MemoryStore::new()).collect())
    }

    /// Starts one more process.
    pub fn process(&self) -> Result<Process> {
        let both = self.0.iter().map(|server| faulty(server, TTL));
        let (clients, links): (Vec<_>, Vec<_>) =
            both.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let lock = Redlock::new(&clients, "name")?;
        Ok(Process {
            links,
            clients,
            lock,
        })
    }

    /// On how many servers the name is held.
    pub fn held(&self) -> usize {
        let held = |server: &&MemoryStore| server.keys().iter().any(|key| key == MAIN);
        self.0.iter().filter(held).count()
    }

    /// The counters of the servers that have one.
    pub fn fences(&self) -> Vec<u64> {
        let fence = |server: &MemoryStore| {
            let text = server.execute(&["GET", &counter("name").ok()?]).ok()?;
            text.as_str()?.parse().ok()
        };
        self.0.iter().filter_map(fence).collect()
    }
}

impl Process {
    /// From now on, the servers at these places do not answer this process.
    pub fn lose(&self, places: &[usize]) {
        for place in places {
            self.links[*place].silence("");
        }
    }

    /// Waits for the lock.
    pub async fn acquired(&self) -> Result<RedlockGuard> {
        Ok(self.lock.acquire().wait_for(TTL * 3).await?)
    }
}
