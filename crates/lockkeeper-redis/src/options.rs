//! How the connections behave; every default is justified where it stands.

use std::time::Duration;

use lockkeeper_core::{Error, Result};

use crate::credentials::{CredentialsProvider, Provider};

/// Settings of a [`RedisStore`](crate::RedisStore) that a URL does not carry.
///
/// ```no_run
/// use std::time::Duration;
/// use lockkeeper_redis::RedisOptions;
///
/// # async fn example() -> lockkeeper_core::Result<()> {
/// let store = RedisOptions::new()
///     .connect_timeout(Duration::from_secs(2))
///     .connect("redis://127.0.0.1:6379")
///     .await?;
/// # Ok(())
/// # }
/// ```
///
/// # Why connections are not shared
///
/// A program that has a client already hands over its configuration, by [`connect_redis_rs`](Self::connect_redis_rs),
/// [`connect_redis_rs_cluster`](Self::connect_redis_rs_cluster) or [`connect_fred`](Self::connect_fred), and not the client. Locks need of
/// a connection what the rest of a program can do without:
///
/// - **A time limit that holds.** A lease counts from before its request was sent. Behind a large reply, a slow script or a blocking
///   command of the program a renewal would wait too long, and a lease would be lost on a server that is well.
/// - **Nothing that is sent twice.** A client that reconnects by itself, as a `ConnectionManager` does, hides that a request is in
///   doubt.
/// - **Order.** A release that does not wait for an unanswered request must arrive behind it, and so by the same socket.
/// - **Subscriptions that nobody changes**, and messages that are taken in at once.
/// - **A user, a database and a protocol that stay.** `SELECT`, `AUTH`, `MULTI` or `HELLO` of the program would apply to the locks.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    pub(crate) connect_timeout: Duration,
    pub(crate) silence_timeout: Duration,
    pub(crate) nodelay: bool,
    pub(crate) resp3: bool,
    pub(crate) transport: Transport,
    pub(crate) provider: Option<Provider>,
    pub(crate) client_name: Option<String>,
}

/// The client library that keeps the connections. What a store does is the same by each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// [redis-rs](https://docs.rs/redis), the default if it is built in. With the feature `redis-rs`.
    #[cfg(feature = "redis-rs")]
    RedisRs,
    /// [fred](https://docs.rs/fred). With the feature `fred`.
    #[cfg(feature = "fred")]
    Fred,
}

impl Transport {
    // redis-rs costs less processor time for each request, and is kept up: see `docs/decisions/0034`.
    #[cfg(feature = "redis-rs")]
    const DEFAULT: Self = Self::RedisRs;
    #[cfg(not(feature = "redis-rs"))]
    const DEFAULT: Self = Self::Fred;
}

impl RedisOptions {
    /// The defaults: 5 s to connect, 5 s of silence, no delay, RESP2, redis-rs, credentials by the URL.
    pub const fn new() -> Self {
        Self {
            // Longer than a lost SYN, which TCP repeats after 1 s and again after 3 s; shorter than a person's patience.
            connect_timeout: Duration::from_secs(5),
            // A sixth of the usual ttl of 30 s, as for every request: with the heartbeat it takes at most two of them,
            // and a renewal due at a third of the ttl still finds a fresh connection.
            silence_timeout: Duration::from_secs(5),
            // On a network, Nagle's algorithm may hold a script back for a whole round trip. Over loopback and with
            // many tasks, turning this off measures faster.
            nodelay: true,
            // Nothing here needs more, and proxies that know RESP2 alone are about.
            resp3: false,
            transport: Transport::DEFAULT,
            provider: None,
            client_name: None,
        }
    }

    /// How long a connection may take, from looking up the name to the first answer. 5 s unless set.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a connection may be idle before it is asked for a sign of life, and how long it may then owe an answer
    /// before it is replaced. 5 s unless set. Should be longer than the server's longest pause.
    ///
    /// In a cluster from version 7 it is also how often each node is asked whether it still has this client's subscriptions,
    /// and so for how long a waiter may be deaf after its slot has moved unseen.
    #[must_use]
    pub const fn silence_timeout(mut self, timeout: Duration) -> Self {
        self.silence_timeout = timeout;
        self
    }

    /// Whether each request leaves at once (`TCP_NODELAY`). True unless set; no effect on unix sockets.
    #[must_use]
    pub const fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// Whether to speak RESP3 instead of RESP2, for a server or a proxy that takes nothing else. False unless set; both do the
    /// same here.
    #[must_use]
    pub const fn resp3(mut self, resp3: bool) -> Self {
        self.resp3 = resp3;
        self
    }

    /// The client library that keeps the connections. redis-rs unless set, or fred if only that is built in.
    #[must_use]
    pub const fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Who gives out the credentials for the servers that have keys, when they change while the store lives. Nobody unless set:
    /// then the URL says how to log in, once and for all or by its setting `password-file`.
    ///
    /// Sentinels have credentials of their own, those of the URL. An address with a password and a provider are an
    /// [`Error::Config`] when connecting.
    #[must_use]
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.provider = Some(Provider::new(provider));
        self
    }

    /// What the server shows of the connections for people, in `CLIENT LIST` and in its slow log: `lockkeeper:<name>`. None unless
    /// set; `lockkeeper::connect` sets the [label](lockkeeper_core::ClientBuilder::label) of the client. Blanks and whatever is not
    /// ASCII become `_`, for a server takes nothing else. One that refuses `CLIENT SETNAME` shows no name.
    #[must_use]
    pub fn client_name(mut self, name: &str) -> Self {
        let name = name.replace(|c: char| !c.is_ascii_graphic(), "_");
        self.client_name = Some(format!("lockkeeper:{name}"));
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        for (name, value) in [
            ("connect_timeout", self.connect_timeout),
            ("silence_timeout", self.silence_timeout),
        ] {
            if value < Duration::from_millis(1) {
                return Err(Error::config(format!(
                    "{name} must be at least one millisecond"
                )));
            }
        }
        Ok(())
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, feature = "redis-rs"))]
mod tests {
    use super::*;

    #[test]
    fn redis_rs_is_the_default_wherever_it_is_built_in() {
        assert_eq!(RedisOptions::new().transport, Transport::RedisRs);
    }
}
