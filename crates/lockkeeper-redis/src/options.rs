//! Settings of the connections that a URL does not carry; every default is justified where it is defined.

use std::time::Duration;

use lockkeeper_core::{Error, Result};

use crate::credentials::{CredentialsProvider, Provider};

/// The longest time that can be set: anything longer is a mistake in units or in a calculation.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

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
/// A program that already has a client hands over the client's configuration, with [`connect_redis_rs`](Self::connect_redis_rs),
/// [`connect_redis_rs_cluster`](Self::connect_redis_rs_cluster) or [`connect_fred`](Self::connect_fred), and not the client itself.
/// Locks need guarantees from a connection that the rest of a program does not:
///
/// - **A time limit that holds.** A lease counts from before its request was sent. Behind a large reply, a slow script or a
///   blocking command of the program, a renewal would wait too long, and a lease would be lost although its server is healthy.
/// - **Nothing is sent twice.** A client that reconnects by itself, such as a `ConnectionManager`, hides that a request is in
///   doubt.
/// - **Order.** A release that does not wait for an unanswered request must arrive after it, so it must use the same socket.
/// - **Subscriptions that nothing else changes**, and messages that are read at once.
/// - **A fixed user, database and protocol.** `SELECT`, `AUTH`, `MULTI` or `HELLO` of the program would apply to the locks.
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

/// The client library that keeps the connections. The store behaves the same with each.
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
    // redis-rs costs less processor time for each request, and is actively maintained: see `docs/decisions/0034`.
    #[cfg(feature = "redis-rs")]
    const DEFAULT: Self = Self::RedisRs;
    #[cfg(not(feature = "redis-rs"))]
    const DEFAULT: Self = Self::Fred;
}

impl RedisOptions {
    /// The defaults: 5 s to connect, 5 s of silence, `TCP_NODELAY`, RESP2, redis-rs, credentials from the URL.
    pub const fn new() -> Self {
        Self {
            // Longer than a lost SYN, which TCP repeats after 1 s and again after 3 s; shorter than a person's patience.
            connect_timeout: Duration::from_secs(5),
            // A sixth of the usual ttl of 30 s, as for every request. With the heartbeat, a dead connection is noticed after at
            // most two of them, and a renewal due at a third of the ttl still finds a fresh connection.
            silence_timeout: Duration::from_secs(5),
            // On a network, Nagle's algorithm may hold a script back for a whole round trip. Over loopback and with
            // many tasks, turning this off measures faster.
            nodelay: true,
            // Nothing here needs more, and some proxies support RESP2 only.
            resp3: false,
            transport: Transport::DEFAULT,
            provider: None,
            client_name: None,
        }
    }

    /// Limits how long connecting may take, from looking up the name to the first answer. 5 s unless set.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how long a connection may be idle before it is asked for a sign of life, and how long that answer may then take before
    /// the connection is replaced. 5 s unless set. Set it longer than the server's longest pause.
    ///
    /// In a cluster from version 7 this is also how often each node is asked whether it still has this client's subscriptions, and
    /// so the longest time for which a waiter may miss messages after its slot has moved unnoticed.
    #[must_use]
    pub const fn silence_timeout(mut self, timeout: Duration) -> Self {
        self.silence_timeout = timeout;
        self
    }

    /// Sets whether each request is sent at once (`TCP_NODELAY`). True unless set; no effect on unix sockets.
    #[must_use]
    pub const fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// Sets whether to speak RESP3 instead of RESP2, for a server or a proxy that accepts nothing else. False unless set; the store
    /// behaves the same with both.
    #[must_use]
    pub const fn resp3(mut self, resp3: bool) -> Self {
        self.resp3 = resp3;
        self
    }

    /// Sets the client library that keeps the connections. redis-rs unless set, or fred if only that is built in.
    #[must_use]
    pub const fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the provider of the credentials for the servers that have keys, for credentials that change while the store lives. None
    /// unless set: then the URL says how to log in, with a fixed password or with its setting `password-file`.
    ///
    /// Sentinels have their own credentials, from the URL. An address with a password together with a provider is an
    /// [`Error::Config`] when connecting.
    #[must_use]
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.provider = Some(Provider::new(provider));
        self
    }

    /// Sets the name that `CLIENT LIST` and the slow log of the server show for the connections: `lockkeeper:<name>`. None unless
    /// set; `lockkeeper::connect` sets it to the [label](lockkeeper_core::ClientBuilder::label) of the client. Blanks and
    /// characters outside ASCII become `_`, because a server accepts nothing else. A server that refuses `CLIENT SETNAME` shows no
    /// name.
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
            if !(Duration::from_millis(1)..=LONGEST).contains(&value) {
                return Err(Error::config(format!(
                    "{name}({value:?}) is invalid: it must be between 1 ms and a year"
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

    #[tokio::test]
    async fn a_time_out_of_all_proportion_is_refused_before_connecting() {
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            let new = RedisOptions::new;
            for (setting, options) in [
                ("connect_timeout", new().connect_timeout(time)),
                ("silence_timeout", new().silence_timeout(time)),
            ] {
                // Nobody listens there.
                let refused = options.connect("redis://127.0.0.1:1").await.unwrap_err();
                assert!(matches!(refused, Error::Config { .. }), "{refused:?}");
                let text = refused.to_string();
                assert!(text.contains(&format!("{setting}({time:?})")), "{text}");
            }
        }
    }

    #[test]
    fn redis_rs_is_the_default_wherever_it_is_built_in() {
        assert_eq!(RedisOptions::new().transport, Transport::RedisRs);
    }
}
