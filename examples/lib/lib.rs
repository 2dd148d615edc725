//! What the example programs share: the command line, a story on the terminal, and Redis for data that is no lock. The programs in
//! the project's texts are tested here too.

mod redis;
mod story;

use clap::Parser;
use lockkeeper::Client;

pub use redis::Redis;
pub use story::Story;

/// The command line of the examples.
#[derive(Debug, Clone, Parser)]
pub struct Arguments {
    /// Where the locks live: `memory://` inside this program, or `redis://HOST:PORT`.
    #[arg(long, default_value = "memory://")]
    pub url: String,
}

/// Where an example runs: a client, and the same server for data that is no lock.
#[derive(Debug)]
pub struct Place {
    /// For locks.
    pub client: Client,
    /// For everything else.
    pub redis: Redis,
    url: String,
    name: &'static str,
}

impl Place {
    /// Reads the command line and connects.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn open(name: &'static str) -> anyhow::Result<Self> {
        Self::open_at(&Arguments::parse().url, name).await
    }

    /// Connects. The name of the example is its namespace, which keeps it away from everything else on a shared server.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn open_at(url: &str, name: &'static str) -> anyhow::Result<Self> {
        // A bare memory:// is a separate server for each client that connects. These clients must meet.
        let url = if url == "memory://" {
            format!("memory://{name}")
        } else {
            url.to_owned()
        };
        Ok(Self {
            client: lockkeeper::connect_with(&url, Client::builder().namespace(name)).await?,
            redis: Redis::connect(&url).await?,
            url,
            name,
        })
    }

    /// Makes one more client, as another machine would have it.
    ///
    /// # Errors
    ///
    /// As for [`open`](Self::open).
    pub async fn another(&self) -> anyhow::Result<Client> {
        let settings = Client::builder().namespace(self.name);
        Ok(lockkeeper::connect_with(&self.url, settings).await?)
    }

    /// Closes the client, and fails if that leaves anything behind.
    ///
    /// # Errors
    ///
    /// If a guard was alive, or a release was not confirmed.
    pub async fn close(self) -> anyhow::Result<()> {
        let report = self.client.close().await;
        let clean = report.expiring == 0 && report.unconfirmed == 0;
        anyhow::ensure!(clean, "something was left behind: {report:?}");
        Ok(())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/cancellation.md")]
struct Cancellation;

#[cfg(doctest)]
#[doc = include_str!("../../docs/composing.md")]
struct Composing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/fair.md")]
struct Fair;

#[cfg(doctest)]
#[doc = include_str!("../../docs/election.md")]
struct Election;

#[cfg(doctest)]
#[doc = include_str!("../../docs/once.md")]
struct Once;

#[cfg(doctest)]
#[doc = include_str!("../../docs/latch.md")]
struct Latch;

#[cfg(doctest)]
#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-redis-py.md")]
struct FromRedisPy;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-redisson.md")]
struct FromRedisson;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-redsync.md")]
struct FromRedsync;

#[cfg(doctest)]
#[doc = include_str!("../../docs/from-shedlock.md")]
struct FromShedlock;

#[cfg(doctest)]
#[doc = include_str!("../../docs/moving.md")]
struct Moving;

#[cfg(doctest)]
#[doc = include_str!("../../docs/getting-started.md")]
struct GettingStarted;

#[cfg(doctest)]
#[doc = include_str!("../../docs/multi.md")]
struct Multi;

#[cfg(doctest)]
#[doc = include_str!("../../docs/mutex.md")]
struct Mutex;

#[cfg(doctest)]
#[doc = include_str!("../../docs/operations.md")]
struct Operations;

#[cfg(doctest)]
#[doc = include_str!("../../docs/redisson.md")]
struct Redisson;

#[cfg(doctest)]
#[doc = include_str!("../../docs/redlock.md")]
struct Redlock;

#[cfg(doctest)]
#[doc = include_str!("../../docs/reentrant.md")]
struct Reentrant;

#[cfg(doctest)]
#[doc = include_str!("../../docs/rwlock.md")]
struct Rwlock;

#[cfg(doctest)]
#[doc = include_str!("../../docs/semaphore.md")]
struct Semaphore;

#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;

#[cfg(doctest)]
#[doc = include_str!("../../docs/topologies.md")]
struct Topologies;

#[cfg(doctest)]
#[doc = include_str!("../../docs/waiting.md")]
struct Waiting;

#[cfg(doctest)]
#[doc = include_str!("../../docs/watchdog.md")]
struct Watchdog;

#[cfg(doctest)]
#[doc = include_str!("../../docs/wire-format.md")]
struct WireFormat;
