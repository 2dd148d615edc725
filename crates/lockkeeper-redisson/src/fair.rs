//! The lock that Java services know as `RFairLock`.

use std::fmt::{self, Display};
use std::time::Duration;

use lockkeeper_core::protocol::{Foreign, Kind, Protocol, Queue, RequestContext, ScriptCall};
use lockkeeper_core::{
    Acquire, Client, Error, Lock, Name, Owner, Plan, Queued, Result, Target, TryAcquire,
};
#[cfg(doc)]
use lockkeeper_core::{ClientBuilder, Lease};
use lockkeeper_lua::redisson;

use crate::protocol::{RedissonProtocol, Tokens, of_name};
use crate::shared::{Variety, redisson_lock};

redisson_lock! {
    /// Redisson's `RFairLock`: one owner at a time across Rust and Java services, in the order in which they asked.
    ///
    /// It is a [`RedissonLock`](crate::RedissonLock) with a queue; what that page says about the name, owners and holders applies
    /// here too. The two exclude each other on one name, but a `RedissonLock`, like an `RLock`, overtakes the queue. Its release
    /// wakes the first waiter in it; that of an `RLock` in Java does not.
    ///
    /// # How it works
    ///
    /// A claim that finds the lock held, or others waiting, joins the end of Redisson's queue, which waiters in Java use too. A
    /// release sends a message to the first waiter in the queue only, and that waiter takes the lock. So each waiter here needs its
    /// own subscription, as in Java. A waiter also asks every third of the [waiter ttl](ClientBuilder::waiter_ttl), and when the
    /// holder's lease would have ended. A waiter that times out, or whose future is dropped, leaves the queue.
    ///
    /// A waiter that has died never takes its turn: all waiters behind it wait until its time in the queue is over, the
    /// [wait timeout](Self::wait_timeout). Set that to the `fairLockWaitTimeout` of the Java services.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonFairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// // In Java: redisson.getFairLock("printer").lock();
    /// let lock = RedissonFairLock::new(&client, "printer");
    /// let guard = lock.acquire().wait_for(Duration::from_secs(5)).await?;
    /// assert_eq!(lock.queue_len().await?, 0);
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # What this lock does not promise
    ///
    /// - **A place in the queue for longer than its time.** Once a waiter is the first, Redisson keeps it for the wait timeout,
    ///   even if it is alive. Then it is dropped and joins the end of the queue again.
    /// - **One clock.** Each Java client writes and compares the times in the queue by its own clock; clients here use the
    ///   server's. A clock that is ahead by more than the wait timeout drops live waiters. They join the end of the queue again.
    /// - **Immediate hand-over after a crash.** A waiter that dies delays all waiters behind it until its time is over; a holder
    ///   that dies delays them until its lease ends.
    /// - **Two waiters of one owner.** They share one place, because Redisson gives an owner one. If the one that asked last
    ///   leaves, both lose the place.
    /// - **A short script.** As in Redisson, a grant and a withdrawal move the waiters behind forward, here up to 256 of them.
    /// - What else [`RedissonLock`](crate::RedissonLock) does not promise.
    pub struct RedissonFairLock, RedissonFairGuard, Fair = Fair::DEFAULT;
}

impl Queued for RedissonFairGuard {}

impl RedissonFairLock {
    /// Sets how long the others wait for a waiter of this lock once it is the first in the queue: the time by which a dead waiter
    /// delays them. Default: 5 minutes, as Redisson's `fairLockWaitTimeout`.
    ///
    /// With a shorter time, others pass a dead waiter sooner; but a live waiter loses its place when a holder keeps the lock for
    /// longer than that. Use the same time in every client. It must be at least 1 ms and at most a year; otherwise the first
    /// acquisition fails with [`Config`](Error::Config).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_redisson::RedissonFairLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// // In Java: config.setFairLockWaitTimeout(60_000);
    /// let lock = RedissonFairLock::new(&client, "printer").wait_timeout(Duration::from_secs(60));
    /// let _guard = lock.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn wait_timeout(&self, wait: Duration) -> Self {
        let fair = Fair { wait };
        Self(self.0.by_checked(|name| fair.protocol(name.main())), fair)
    }

    /// How many owners wait for the lock, in Rust and in Java. A dead waiter counts until its time is over.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// See [`RedissonFairLock`].
    pub async fn queue_len(&self) -> Result<u64> {
        Ok(self.0.queue(None).await?.0)
    }
}

/// The settings of an `RFairLock`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fair {
    wait: Duration,
}

impl Fair {
    /// Redisson's own default.
    pub(crate) const DEFAULT: Self = Self {
        wait: Duration::from_secs(5 * 60),
    };

    /// The longest ttl.
    const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
}

impl Variety for Fair {
    type Protocol = FairProtocol;

    fn of_name(self, name: Name) -> Result<FairProtocol> {
        if self.wait < Duration::from_millis(1) || self.wait > Self::LONGEST {
            let wait = self.wait;
            return Err(Error::config(format!(
                "a wait timeout of {wait:?} is invalid: it must be between 1 ms and a year"
            )));
        }
        Ok(FairProtocol::new(name, self.wait))
    }
}

/// The protocol of one name: holds as of an `RLock`, and the queue beside them.
#[derive(Debug)]
pub(crate) struct FairProtocol {
    hold: RedissonProtocol,
    wait: Duration,
}

impl FairProtocol {
    pub(crate) const fn new(name: Name, wait: Duration) -> Self {
        let hold = RedissonProtocol::new(name, Tokens::Ours);
        Self { hold, wait }
    }

    fn wait_ms(&self) -> u128 {
        self.wait.as_millis()
    }

    /// The keys of the queue: Redisson's order and times of the waiters, and our own record of the claim of each.
    fn line(&self) -> [String; 3] {
        let name = self.hold.name();
        [
            self.hold.queue(),
            of_name("redisson_lock_timeout", name),
            name.part("redisson-queue"),
        ]
    }
}

impl Protocol for FairProtocol {
    fn kind(&self) -> Kind {
        Kind::new("redisson-fair")
    }

    fn name(&self) -> &Name {
        self.hold.name()
    }

    fn acquire(&self, ask: RequestContext<'_>) -> ScriptCall {
        let hold = self.hold.acquire(ask);
        let keys = hold.keys.iter().map(str::to_owned).chain(self.line());
        let (wait, limit) = (self.wait_ms().to_string(), ask.queue_limit().to_string());
        let args = hold.args.iter().map(str::to_owned).chain([wait, limit]);
        ScriptCall::new(&redisson::FAIR_ACQUIRE, keys, args)
    }

    fn renew(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.hold.renew(ask)
    }

    fn release(&self, ask: RequestContext<'_>, overtakes: bool) -> ScriptCall {
        // A late acquire would stay in the queue for longer than a lease lasts.
        let mut ask = ask;
        ask.ttl = ask.ttl.max(self.wait);
        let hold = self.hold.release(ask, overtakes);
        // The release of a hold has the queue itself among its keys.
        let line = self.line().into_iter().skip(1);
        let keys = hold.keys.iter().map(str::to_owned).chain(line);
        let args = hold.args.iter().map(str::to_owned);
        let args = args.chain([self.wait_ms().to_string()]);
        ScriptCall::new(&redisson::FAIR_RELEASE, keys, args)
    }

    fn verify(&self, ask: RequestContext<'_>) -> ScriptCall {
        self.hold.verify(ask)
    }

    fn reenters(&self) -> bool {
        true
    }

    fn queue(&self) -> Option<&dyn Queue> {
        Some(self)
    }

    fn foreign(&self) -> Option<&dyn Foreign> {
        Some(self)
    }
}

impl Queue for FairProtocol {
    fn heartbeat(&self, ask: RequestContext<'_>) -> ScriptCall {
        let [main, claims] = self.hold.keys();
        let keys = [main, claims, self.name().counter()];
        let args: [&dyn Display; 4] = [ask.claim, &ask.ttl_ms(), &ask.floor, &self.wait_ms()];
        ScriptCall::new(
            &redisson::FAIR_HEARTBEAT,
            keys.into_iter().chain(self.line()),
            args,
        )
    }

    fn position(&self, claim: &str) -> ScriptCall {
        let [queue, _, places] = self.line();
        ScriptCall::new(&redisson::FAIR_QUEUE, [queue, places], [claim])
    }

    fn turns(&self, owner: Owner) -> Option<String> {
        Some(format!("{}:{owner}", self.hold.channel()))
    }
}

impl Foreign for FairProtocol {
    fn channel(&self) -> String {
        self.hold.channel()
    }

    fn is_wake(&self) -> lockkeeper_core::protocol::IsWake {
        self.hold.is_wake()
    }

    fn inspect(&self) -> ScriptCall {
        self.hold.inspect_as(self.kind())
    }

    fn revoke(&self) -> ScriptCall {
        self.hold.revoke()
    }

    fn free(&self, claim: &str) -> ScriptCall {
        self.hold.free(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_is_told_of_its_turn_on_a_channel_of_its_own() {
        let protocol = Fair::DEFAULT.protocol("orders").unwrap();
        let owner: Owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:7".parse().unwrap();
        assert_eq!(
            protocol.turns(owner).unwrap(),
            format!("redisson_lock__channel:{{orders}}:{owner}")
        );
    }

    #[test]
    fn a_wait_timeout_that_ends_at_once_or_never_is_refused() {
        for wait in [Duration::ZERO, Duration::MAX] {
            let error = Fair { wait }.protocol("orders").unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{error}");
        }
    }
}
