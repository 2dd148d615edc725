//! What the scripts of the read-write lock do to its keys and what they answer, on the embedded engine and on a real server.
//!
//! Nobody waits here: time passes by moving what the keys say into the past.

mod conversions;
mod foreign;
mod modes;
mod turns;

use std::ops::Deref;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_lua::{name, reentrant, rwlock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::fair::{
    A, A2, B, C, D, E, FENCE, Fair, MAIN, QUEUE, READERS, WAITER_TTL, WAITERS, number, text, token,
    waiting,
};
use crate::scripts::single::vectors;

/// A third claim of the owner of `A`.
const A3: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a3";

/// The modes.
const READ: &str = "read";
const WRITE: &str = "write";

/// Moves the ends of readers' leases, and leaves facts alone.
const SHIFT: &str = "local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #all, 2 do
  local score = tonumber(all[i + 1])
  if score > 0 then redis.call('ZADD', KEYS[1], string.format('%.0f', score - tonumber(ARGV[1])), all[i]) end
end
return 1";

/// The keys of one lock, as those of a fair lock are, and its readers.
struct Rw(Fair);

impl Deref for Rw {
    type Target = Fair;

    fn deref(&self) -> &Fair {
        &self.0
    }
}

/// How an acquire differs from the usual one.
#[derive(Debug, Clone, Copy)]
struct How {
    ttl: &'static str,
    token: i64,
    limit: &'static str,
    known: bool,
}

const USUAL: How = How {
    ttl: "30000",
    token: 0,
    limit: "-1",
    known: true,
};

/// Which does not wait.
const TRY: How = How {
    limit: "0",
    ..USUAL
};

fn gone_key(claim: &str) -> String {
    format!("lockkeeper.gone:{{lockkeeper:name}}:{claim}")
}

impl Rw {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        Ok(Self(Fair::on(site).await?))
    }

    async fn read(&self, claim: &str) -> Result<String> {
        self.ask(claim, READ, USUAL).await
    }

    async fn write(&self, claim: &str) -> Result<String> {
        self.ask(claim, WRITE, USUAL).await
    }

    async fn ask(&self, claim: &str, mode: &str, how: How) -> Result<String> {
        let (owner, _) = claim.split_once('/').context("no claim")?;
        let (stem, waiter_ttl) = (Fair::name()?.part("grant"), WAITER_TTL.to_string());
        let (token, known) = (how.token.to_string(), u8::from(how.known).to_string());
        let keys = [MAIN, FENCE, &gone_key(claim), QUEUE, WAITERS, READERS];
        let args = [
            claim,
            how.ttl,
            "0",
            &token,
            owner,
            &waiter_ttl,
            &stem,
            how.limit,
            mode,
            &known,
        ];
        self.run(&rwlock::ACQUIRE, &keys, &args).await
    }

    async fn leave(&self, claim: &str, mode: &str) -> Result<String> {
        self.leave_with(claim, mode, "0", "0").await
    }

    async fn leave_with(&self, claim: &str, mode: &str, keep: &str, mark: &str) -> Result<String> {
        let (stem, waiter_ttl) = (Fair::name()?.part("grant"), WAITER_TTL.to_string());
        let keys = [MAIN, FENCE, &gone_key(claim), QUEUE, WAITERS, READERS];
        let args = [claim, &stem, keep, mark, "0", &waiter_ttl, mode, "1"];
        self.run(&rwlock::RELEASE, &keys, &args).await
    }

    /// `claim` takes the place of `old`.
    async fn convert(&self, claim: &str, mode: &str, old: &str, mark: &str) -> Result<String> {
        let (stem, waiter_ttl) = (Fair::name()?.part("grant"), WAITER_TTL.to_string());
        let (gone, old_gone) = (gone_key(claim), gone_key(old));
        let keys = [MAIN, FENCE, &gone, QUEUE, WAITERS, READERS, &old_gone];
        let args = [claim, "30000", "0", &waiter_ttl, &stem, mode, old, mark];
        self.run(&rwlock::CONVERT, &keys, &args).await
    }

    /// What became of each claim, as words.
    async fn heartbeat(&self, claims: &[(&str, &str)]) -> Result<Vec<String>> {
        let item = |(claim, mode): &(&str, &str)| {
            let keys = [MAIN, FENCE, QUEUE, WAITERS, READERS].map(str::to_owned);
            let stem = Fair::name()?.part("grant");
            let waiter_ttl = WAITER_TTL.to_string();
            let args = [claim, "30000", "0", &waiter_ttl, &stem, mode].map(str::to_owned);
            Ok(ScriptCall::new(&rwlock::HEARTBEAT, keys, args))
        };
        let items: Vec<ScriptCall> = claims.iter().map(item).collect::<Result<_>>()?;
        let batch = items.into_iter().reduce(|mut batch, item| {
            batch.keys.extend(item.keys);
            batch.args.extend(item.args);
            batch
        });
        let batch = batch.context("no items")?;
        let reply = self.call(batch).await?;
        let outcomes = (0..).map_while(|index| reply.field(index));
        Ok(outcomes.map(text).collect())
    }

    async fn renew(&self, claim: &str) -> Result<String> {
        self.run(&rwlock::RENEW_READ, &[READERS], &[claim, "60000"])
            .await
    }

    async fn verify(&self, claim: &str) -> Result<String> {
        self.run(&rwlock::VERIFY_READ, &[READERS], &[claim]).await
    }

    /// So many ms later, or earlier, with nothing heard in between.
    async fn shift(&self, milliseconds: i64) -> Result<()> {
        self.pass(milliseconds).await?;
        let shift = ["EVAL", SHIFT, "1", READERS, &milliseconds.to_string()];
        self.do_command(&shift).await?;
        Ok(())
    }

    /// So many wait to read, all alive.
    async fn crowd(&self, number: usize) -> Result<()> {
        for n in 1..=number {
            let claim = crowded(n);
            self.do_command(&["ZADD", QUEUE, &n.to_string(), &claim])
                .await?;
            let entry = ["HSET", WAITERS, &claim, "9000000000000:7:read"];
            self.do_command(&entry).await?;
        }
        Ok(())
    }

    async fn readers(&self) -> Result<i64> {
        let count = "return #redis.call('ZRANGEBYSCORE', KEYS[1], 1, '+inf')";
        Ok(self
            .do_command(&["EVAL", count, "1", READERS])
            .await?
            .parse()?)
    }
}

/// The claim of one of a crowd.
fn crowded(n: usize) -> String {
    format!("67e55044-10b1-426f-9247-bb680e5fe0c8:{}/{n:016x}", n + 100)
}
