//! The effect of the scripts of single-server kinds on the keys of a name, and their replies, on the embedded engine and on a
//! real server. What can happen in both states of a name is tested in both, with one claim alone under it (thin) and with
//! several keys that describe it (inflated), and for both kinds without a queue.

mod counter;
mod foreign;
mod held;
mod keys;
mod polls;
mod reentry;
mod refusals;
mod states;
mod takes;

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_core::protocol::{LockProtocol, Protocol as _, Queue as _, RequestContext, Share};
use lockkeeper_core::{ClaimId, FencingToken, Kind, Name};
use lockkeeper_lua::{Script, name as by_name};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use super::connection::{Connection, Listener};
pub(super) use super::connection::{SLACK, is_nearly, number};

/// Defines a test on each site for every vector, which takes the scripts on that site, or one for each of these states.
macro_rules! vectors {
    ($scripts:ident: $($test:ident)*) => {
        mod on_memory {
            use super::*;
            $(#[tokio::test]
            async fn $test() -> Result<()> {
                super::$test(&$scripts::on(MemoryStore::new()).await?).await
            })*
        }
        mod on_a_server {
            use super::*;
            $(#[tokio::test]
            async fn $test() -> Result<()> {
                super::$test(&$scripts::on(Server::start().await?).await?).await
            })*
        }
    };
    ($scripts:ident in []: $($test:ident)*) => {};
    ($scripts:ident in [$state:ident $($others:ident)*]: $($test:ident)*) => {
        mod $state {
            use super::*;
            mod on_memory {
                use super::*;
                $(#[tokio::test]
                async fn $test() -> Result<()> {
                    super::$test(&$scripts::on(MemoryStore::new()).await?.$state()).await
                })*
            }
            mod on_a_server {
                use super::*;
                $(#[tokio::test]
                async fn $test() -> Result<()> {
                    super::$test(&$scripts::on(Server::start().await?).await?.$state()).await
                })*
            }
        }
        $crate::scripts::single::vectors! { $scripts in [$($others)*]: $($test)* }
    };
}

pub(crate) use vectors;

pub(super) const MAIN: &str = "lockkeeper:name";
pub(super) const HOLDERS: &str = "lockkeeper.holders:{lockkeeper:name}";
pub(super) const QUEUE: &str = "lockkeeper.queue:{lockkeeper:name}";
pub(super) const STATE: &str = "lockkeeper.state:{lockkeeper:name}";
const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

pub(super) const TTL: Duration = Duration::from_secs(30);
/// How long a counter is remembered, ms.
pub(super) const DAY: i64 = 86_400_000;

/// A claim: its owner's number and its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who(pub(super) u8, pub(super) u8);

pub(super) const A: Who = Who(1, 1);
/// Another claim of the owner of `A`.
pub(super) const A2: Who = Who(1, 2);
pub(super) const B: Who = Who(2, 1);
pub(super) const C: Who = Who(3, 1);
/// A claim that inflates a name and is gone.
const PASSER_BY: Who = Who(200, 200);

impl Who {
    pub(super) fn id(self) -> Result<ClaimId> {
        let owner = format!("{CLIENT}:{}", self.0).parse()?;
        Ok(ClaimId::new(
            owner,
            u64::from(self.0) << 32 | u64::from(self.1),
        ))
    }

    pub(super) fn text(self) -> Result<String> {
        Ok(self.id()?.as_str().to_owned())
    }
}

pub(super) fn name_of(name: &str) -> Result<Name> {
    Ok(Name::new("lockkeeper", name)?)
}

/// The lock of this kind on a name.
pub(super) fn lock_on(name: &str, kind: &'static str) -> Result<LockProtocol> {
    let lock = LockProtocol::new(name_of(name)?, Kind::new(kind));
    Ok(match kind {
        "mutex" | "redlock" | "once" => lock,
        "election" => lock.queueing(),
        "reentrant" => lock.reentrant(),
        "fair" => lock.reentrant().queueing(),
        "rwlock" => lock
            .reentrant()
            .queueing()
            .in_mode(Share::Whole, Share::Parts(1), "write"),
        _ => bail!("no kind {kind}"),
    })
}

/// The readers' lock on a name.
pub(super) fn readers_on(name: &str) -> Result<LockProtocol> {
    let lock = lock_on(name, "rwlock")?;
    Ok(lock.in_mode(Share::Parts(1), Share::Whole, "read"))
}

/// A default request: waits in a queue of any length, has the default ttl, and knows nothing about the name.
fn usual(claim: &ClaimId) -> RequestContext<'_> {
    RequestContext::new(claim, TTL, 0, None).queueing(Duration::from_secs(10), None)
}

/// The token of a grant.
pub(super) fn token(reply: &str) -> Result<i64> {
    ensure!(reply.split(' ').count() == 2, "{reply}");
    number(reply, "GRANTED", 1)
}

/// The scripts of one name of one kind on a connection.
pub(super) struct Scripts {
    pub(super) connection: Connection,
    pub(super) kind: &'static str,
    pub(super) inflates: bool,
}

impl Deref for Scripts {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Scripts {
    /// The scripts of a mutex whose claims are thin.
    pub(super) async fn on(site: impl Site + 'static) -> Result<Self> {
        Ok(Self {
            connection: Connection::to(site).await?,
            kind: "mutex",
            inflates: false,
        })
    }

    /// Keeps claims thin, as far as possible.
    pub(super) const fn thin(self) -> Self {
        self
    }

    /// Inflates names when they are held.
    pub(super) const fn inflated(mut self) -> Self {
        self.inflates = true;
        self
    }

    /// The thin scripts of a re-entrant lock.
    pub(super) const fn reentrant_thin(mut self) -> Self {
        self.kind = "reentrant";
        self
    }

    pub(super) const fn reentrant_inflated(self) -> Self {
        self.reentrant_thin().inflated()
    }

    fn lock(&self) -> Result<LockProtocol> {
        lock_on("name", self.kind)
    }

    /// Acquires with a request changed like this; polls if it must.
    pub(super) async fn acquire_with(
        &self,
        who: Who,
        change: impl FnOnce(&mut RequestContext<'_>),
    ) -> Result<String> {
        let id = who.id()?;
        let mut ask = usual(&id);
        change(&mut ask);
        self.call(self.lock()?.acquire(ask)).await
    }

    pub(super) async fn acquire(&self, who: Who) -> Result<String> {
        self.acquire_with(who, |_| {}).await
    }

    /// Repeats the grant with this token.
    pub(super) async fn repeat(&self, who: Who, token: i64) -> Result<String> {
        let token = FencingToken::new(token.try_into()?);
        self.acquire_with(who, |ask| ask.token = Some(token)).await
    }

    /// Acquires the name in the state that this test is about. Returns its token.
    pub(super) async fn hold(&self, who: Who) -> Result<i64> {
        self.hold_for(who, TTL).await
    }

    pub(super) async fn hold_for(&self, who: Who, ttl: Duration) -> Result<i64> {
        let token = token(&self.acquire_with(who, |ask| ask.ttl = ttl).await?)?;
        self.come_to(who).await?;
        Ok(token)
    }

    /// Inflates the name that the claim holds, if this test is about inflated names.
    pub(super) async fn come_to(&self, who: Who) -> Result<()> {
        match self.inflates {
            true => self.inflate("name", self.kind, who).await,
            false => Ok(()),
        }
    }

    /// Inflates the name that the claim holds: its owner re-enters, or another claim waits and withdraws.
    pub(super) async fn inflate(&self, name: &str, kind: &'static str, who: Who) -> Result<()> {
        let (lock, nested) = (lock_on(name, kind)?, Who(who.0, 200).id()?);
        let (lock, id, holds, answer) = match kind {
            "mutex" => (lock.queueing(), PASSER_BY.id()?, 0, "WAITING"),
            _ => (lock, nested, 1, "GRANTED"),
        };
        let came = self.call(lock.acquire(usual(&id))).await?;
        ensure!(came.starts_with(answer), "{came}");
        let went = self.call(lock.release(usual(&id), false)).await?;
        ensure!(went == format!("RELEASED 1 {holds}"), "{went}");
        let value = self
            .command(&["LINDEX", name_of(name)?.main(), "0"])
            .await?;
        ensure!(value.starts_with(&format!("{kind} * 1 1 0 ")), "{value}");
        Ok(())
    }

    /// Makes the name free. If this test is about inflated names, a marker without holders stays, as dead claims leave it.
    pub(super) async fn is_free(&self) -> Result<()> {
        if self.inflates {
            self.hold(Who(201, 1)).await?;
            self.lease_ends_in(Who(201, 1), -1).await?;
            ensure!(self.command(&["EXISTS", MAIN]).await? == "1");
        }
        Ok(())
    }

    /// Renews as the engine does: as if the claim were thin, and then, if the name is inflated, by the other script.
    pub(super) async fn renew_for(&self, who: Who, ttl: Duration) -> Result<String> {
        let id = who.id()?;
        let mut ask = usual(&id).on_inflated(false);
        ask.ttl = ttl;
        let thin = self.batch([self.lock()?.renew(ask)]).await?.join(" ");
        if thin != "INFLATED" {
            return Ok(thin);
        }
        Ok(self
            .batch([self.lock()?.renew(ask.on_inflated(true))])
            .await?
            .join(" "))
    }

    pub(super) async fn renew(&self, who: Who) -> Result<String> {
        self.renew_for(who, TTL).await
    }

    /// Releases as the engine does: as if the claim were thin, and then, if the name is inflated, by the other script.
    pub(super) async fn release_with(&self, who: Who, cooldown: Duration) -> Result<String> {
        let id = who.id()?;
        let ask = usual(&id).on_inflated(false).cooling_down(cooldown);
        let ask = ask.granted(self.token_there().await?);
        match &*self.call(self.lock()?.release(ask, false)).await? {
            // To a client that is the same: nobody was there to be told.
            "DROPPED" => Ok("RELEASED 1 0".to_owned()),
            "INFLATED" => {
                let whole = self.lock()?.release(ask.on_inflated(true), false);
                self.call(whole).await
            }
            reply => Ok(reply.to_owned()),
        }
    }

    /// The token in the value of one claim under the name, if there is such a value.
    async fn token_there(&self) -> Result<Option<FencingToken>> {
        if self.command(&["TYPE", MAIN]).await? != "list" {
            return Ok(None);
        }
        let value = self.command(&["LINDEX", MAIN, "0"]).await?;
        let last = value.split(' ').nth(3).unwrap_or_default();
        let digits = last.trim_end_matches(|it: char| !it.is_ascii_digit());
        Ok(digits.parse().ok().map(FencingToken::new))
    }

    pub(super) async fn release(&self, who: Who) -> Result<String> {
        self.release_with(who, Duration::ZERO).await
    }

    /// Releases while an acquire is unanswered.
    pub(super) async fn release_in_doubt(&self, who: Who) -> Result<String> {
        self.call(self.lock()?.release(usual(&who.id()?), true))
            .await
    }

    pub(super) async fn verify(&self, who: Who) -> Result<String> {
        let (lock, id) = (self.lock()?, who.id()?);
        let reply = self.call(lock.verify(usual(&id))).await?;
        match &*reply {
            "INFLATED" => self.call(lock.verify(usual(&id).on_inflated(true))).await,
            _ => Ok(reply),
        }
    }

    /// Revokes the present holders.
    pub(super) async fn revoke(&self) -> Result<String> {
        self.revoke_on("name").await
    }

    pub(super) async fn revoke_on(&self, name: &str) -> Result<String> {
        let name = name_of(name)?;
        let derived = ["holders", "queue", "state"].map(|part| name.part(part));
        let keys = std::iter::once(name.main().to_owned()).chain(derived);
        self.run(&by_name::REVOKE, keys, &[]).await
    }

    /// A subscriber to the channel for pollers of the name.
    pub(super) async fn poller(&self) -> Result<Listener> {
        self.listen(name_of("name")?.wakes()).await
    }

    /// The length of the queue, and the claim's place in it.
    async fn place(&self, who: Who) -> Result<String> {
        let lock = self.lock()?.queueing();
        self.call(lock.position(&who.text()?)).await
    }
}
