//! The latch that Java services have as `RCountDownLatch`.

use std::fmt;
use std::time::Duration;

use lockkeeper_core::protocol::{
    FencingToken, Foreign, IsWake, Kind, LockProtocol, Protocol, Recorded, RequestContext,
    ScriptCall,
};
use lockkeeper_core::store::{Reply, Value};
use lockkeeper_core::{Acquire, Client, Error, Hold, Name, Result, Target};
use lockkeeper_lua::{Status, name, redisson};

/// Redisson's `RCountDownLatch`: it opens when it has been counted down often enough, by Rust and Java services.
///
/// # Which lock should I use?
///
/// Use this one only for a name that Java services use through Redisson. Among Rust services a `Latch` promises more:
/// its counts have ids, so they can safely be repeated, and an open latch differs from one that was never armed.
///
/// # How it works
///
/// The key of the name stores only how many counts are missing, as Redisson 4.7 writes it. The last count deletes it and
/// wakes all waiters of both sides with one message. The name is the key, as in Java, whatever the
/// client's namespace; see [`key_prefix`](Self::key_prefix).
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use lockkeeper_core::Client;
/// # use lockkeeper_redisson::RedissonCountDownLatch;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper_core::Result<()> {
/// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
/// // In Java: redisson.getCountDownLatch("import:42").trySetCount(2);
/// let imported = RedissonCountDownLatch::new(&client, "import:42");
/// assert!(imported.try_set_count(2).await?);
/// assert_eq!(imported.count_down().await?, 1);
/// assert_eq!(imported.count_down().await?, 0);
/// imported.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// # What this lock does not promise
///
/// - **That a count counts once.** Counts have no ids. One whose answer was lost is not sent again, but reported as
///   [`Backend`](Error::Backend): it may have been counted. A Java service sends it again, and may count twice.
/// - **That an open latch was ever set.** A latch that is open, one that nobody has set yet, and one that the server has
///   lost are the same: nothing under the name. All who wait pass. So set it before anybody may wait.
/// - **An end.** A latch that nobody counts down stays on the server for ever.
/// - **A message in a cluster, if the name has a hash tag.** Redisson's channel for `{eu}:import` belongs to another slot
///   than the name, and a cluster may refuse it. Waiters here look every 5 s; those in Java may wait for ever.
/// - **Order.** All waiters pass at the same time.
#[derive(Clone)]
pub struct RedissonCountDownLatch {
    target: Target,
    wait_for: Option<Duration>,
}

impl RedissonCountDownLatch {
    /// The latch that Java services call `name`. Nothing is sent; a bad name is reported by the first call.
    pub fn new(client: &Client, name: &str) -> Self {
        let protocol = |name: Name| LatchProtocol::of_key(name.as_str());
        Self {
            target: Target::checked(client, name, protocol),
            wait_for: None,
        }
    }

    /// The same behind a prefix, as a `NameMapper` in Java puts one in front of each name.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonCountDownLatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let imported = RedissonCountDownLatch::new(&client, "import:42").key_prefix("shop:");
    /// imported.try_set_count(1).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key_prefix(&self, prefix: &str) -> Self {
        let prefixed = |name: Name| LatchProtocol::of_key(&format!("{prefix}{}", name.main()));
        Self {
            target: self.target.by_checked(prefixed),
            wait_for: self.wait_for,
        }
    }

    /// Limits the time to wait (default: until the latch is open). After that the error is [`Error::Timeout`], or
    /// [`Error::Backend`] if the server had stopped answering. Zero asks the server once.
    #[must_use]
    pub const fn wait_for(mut self, longest: Duration) -> Self {
        self.wait_for = Some(longest);
        self
    }

    /// Sets how many counts open the latch, as `trySetCount` does in Java, unless it has been set and is not open yet.
    /// Whether this call did.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`]; [`Error::WrongKind`] if the name holds something else; [`Error::Config`] for no counts
    /// or more than 2,147,483,647.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the latch may or may not have been set. So it may be when the server did not answer, and a
    /// request that had to be sent again says `false` if the first one was executed.
    ///
    /// # Examples
    ///
    /// See [`RedissonCountDownLatch`].
    pub async fn try_set_count(&self, n: u32) -> Result<bool> {
        if n == 0 || n > i32::MAX.unsigned_abs() {
            return Err(Error::config(format!(
                "a latch of Redisson's cannot have {n} counts: it takes 1 to {}",
                i32::MAX
            )));
        }
        let item = |name: &Name| {
            let args = [n.to_string(), channel_of(name)];
            ScriptCall::new(&redisson::LATCH_SET, [name.main()], args)
        };
        let reply = self.target.ask("set the count of", item).await?;
        match (reply.status(), number(&reply, 2)) {
            (Status::Counts, Some(own)) => Ok(own == 1),
            _ => Err(self.unexpected(&reply)),
        }
    }

    /// Counts once, and returns how many counts are missing; 0 if the latch is open, or was never set.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the server refuses or does not answer. **Without an answer it may have counted**, and counts
    /// again if you repeat it; this library does not. [`Error::WrongKind`] if the name holds something else;
    /// [`Error::Config`] for a bad name, before anything is sent; [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: if you drop the future, it may or may not have counted.
    ///
    /// # Examples
    ///
    /// See [`RedissonCountDownLatch`].
    pub async fn count_down(&self) -> Result<u32> {
        let item = |name: &Name| {
            let keys = [name.main()];
            ScriptCall::new(&redisson::LATCH_COUNT_DOWN, keys, [channel_of(name)])
        };
        let reply = self.target.ask_once("count down", item).await?;
        self.counts(&reply)
    }

    /// Returns how many counts are missing; 0 if the latch is open, or was never set.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`], and [`Error::WrongKind`] if the name holds something else.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`RedissonCountDownLatch::wait`].
    pub async fn count(&self) -> Result<u32> {
        let reply = self.target.ask("look at", look).await?;
        match (reply.status(), number(&reply, 2)) {
            (Status::Busy, Some(missing)) => self.small(&reply, missing),
            (Status::Stored, _) => Ok(0),
            _ => Err(self.unexpected(&reply)),
        }
    }

    /// Waits until the latch is open; at once if it was never set. All waiters of one client share their requests to
    /// the server.
    ///
    /// # Errors
    ///
    /// - [`Error::Timeout`] if a [time limit](Self::wait_for) was set and has passed;
    /// - [`Error::Backend`] if the server refuses, or does not answer for one ttl of the client's leases;
    /// - [`Error::WrongKind`] if the name holds something else;
    /// - [`Error::Config`] for a bad name, before anything is sent;
    /// - [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_redisson::RedissonCountDownLatch;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let ready = RedissonCountDownLatch::new(&client, "ready").wait_for(Duration::from_millis(10));
    /// ready.try_set_count(1).await?;
    /// assert!(matches!(ready.wait().await, Err(Error::Timeout { .. })));
    /// assert_eq!(ready.count().await?, 1);
    /// ready.count_down().await?;
    /// ready.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn wait(&self) -> Result<()> {
        let mut acquire = Acquire::<Hold>::new(self.target.clone());
        if let Some(longest) = self.wait_for {
            acquire = acquire.wait_for(longest);
        }
        match acquire.await {
            Err(Error::Done { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::unexpected(self.target.name(), "GRANTED")),
        }
    }

    fn counts(&self, reply: &Reply) -> Result<u32> {
        match (reply.status(), number(reply, 0)) {
            (Status::Counts, Some(left)) => self.small(reply, left),
            _ => Err(self.unexpected(reply)),
        }
    }

    fn small(&self, reply: &Reply, count: i64) -> Result<u32> {
        u32::try_from(count).map_err(|_| self.unexpected(reply))
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        Error::unexpected(self.target.name(), reply.status().as_str())
    }
}

fn number(reply: &Reply, at: usize) -> Option<i64> {
    reply.field(at).and_then(Value::as_i64)
}

impl fmt::Debug for RedissonCountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

/// Redisson puts the name in braces here even if it has some.
fn channel_of(name: &Name) -> String {
    format!("redisson_countdownlatch__channel__{{{}}}", name.main())
}

fn look(name: &Name) -> ScriptCall {
    ScriptCall::new(&redisson::LATCH_LOOK, [name.main()], ScriptCall::NONE)
}

/// One name. Its claims never hold: what is asked beside the look is what any lock is asked, and finds nothing.
#[derive(Debug)]
struct LatchProtocol {
    lock: LockProtocol,
}

impl LatchProtocol {
    fn of_key(key: &str) -> Result<Self> {
        let lock = LockProtocol::new(Name::new("", key)?, Kind::new("redisson-latch"));
        Ok(Self { lock })
    }

    fn keys(&self) -> [String; 4] {
        let name = self.name();
        let [holders, queue, state] = ["holders", "queue", "state"].map(|part| name.part(part));
        [name.main().to_owned(), holders, queue, state]
    }
}

impl Protocol for LatchProtocol {
    fn kind(&self) -> Kind {
        self.lock.kind()
    }

    fn name(&self) -> &Name {
        self.lock.name()
    }

    fn acquire(&self, _: RequestContext<'_>) -> ScriptCall {
        look(self.name())
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.renew(ask.on_inflated(false))
    }

    /// A late read creates nothing, so nothing has to stop it.
    fn release(&self, ask: RequestContext<'_>, _overtakes: bool) -> ScriptCall {
        self.lock.release(ask.on_inflated(false), false)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.lock.verify(ask.on_inflated(false))
    }

    fn recorded(&self) -> Option<&dyn Recorded> {
        Some(self)
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Recorded for LatchProtocol {
    fn record(&self, _forget: Option<FencingToken>) -> ScriptCall {
        look(self.name())
    }
}

/// Nobody holds a latch: what is done to holders is what is done to those of any name.
impl Foreign for LatchProtocol {
    fn channel(&self) -> String {
        channel_of(self.name())
    }

    /// Redisson says `0` when it opens, and `1` when it was set or deleted, and so is open too.
    fn is_wake(&self) -> IsWake {
        |message| matches!(message, b"0" | b"1")
    }

    fn inspect(&self) -> ScriptCall {
        ScriptCall::new(&name::INSPECT, self.keys(), [channel_of(self.name())])
    }

    fn revoke(&self) -> ScriptCall {
        ScriptCall::new(&name::REVOKE, self.keys(), ScriptCall::NONE)
    }

    fn free(&self, claim: &str) -> ScriptCall {
        let args = [claim.to_owned(), channel_of(self.name())];
        ScriptCall::new(&name::FREE, self.keys(), args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_put_in_braces_even_if_it_has_some() {
        let channel = |key| Foreign::channel(&LatchProtocol::of_key(key).unwrap());
        assert_eq!(channel("gate"), "redisson_countdownlatch__channel__{gate}");
        let tagged = "redisson_countdownlatch__channel__{{eu}:gate}";
        assert_eq!(channel("{eu}:gate"), tagged);
    }
}
