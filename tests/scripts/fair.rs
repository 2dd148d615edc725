//! What the scripts of the fair lock do to its keys and what they answer, on the embedded engine and on a real server.
//!
//! Nobody waits here: time passes by moving what the keys say into the past.

mod foreign;
mod silence;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Reply, Store, Value};
use lockkeeper_lua::{Script, fair, name, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::vectors;

pub(crate) const MAIN: &str = "lockkeeper:name";
pub(crate) const FENCE: &str = "lockkeeper.fence:{lockkeeper:name}";
pub(crate) const QUEUE: &str = "lockkeeper.queue:{lockkeeper:name}";
pub(crate) const WAITERS: &str = "lockkeeper.waiters:{lockkeeper:name}";
/// Nobody reads by a fair lock, but what goes by the name alone looks.
pub(crate) const READERS: &str = "lockkeeper.readers:{lockkeeper:name}";

/// Of a waiter, ms.
pub(crate) const WAITER_TTL: i64 = 10_000;
/// More than half of it: nobody could have been heard.
const GAP: i64 = 60_000;

pub(crate) const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
pub(crate) const A: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/000000000000000a";
/// Another claim of the owner of `A`.
pub(crate) const A2: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a2";
pub(crate) const B: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:2/000000000000000b";
pub(crate) const C: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:3/000000000000000c";
pub(crate) const D: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:4/000000000000000d";
pub(crate) const E: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:5/000000000000000e";
const F: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:6/000000000000000f";

/// A connection to a site, and the scripts of one fair lock.
pub(crate) struct Fair {
    site: Box<dyn Site>,
    store: Arc<dyn Store>,
    requests: AtomicU64,
}

impl Fair {
    pub(crate) async fn on(site: impl Site + 'static) -> Result<Self> {
        let store = site.store().await?;
        Ok(Self {
            site: Box::new(site),
            store,
            requests: AtomicU64::new(0),
        })
    }

    pub(crate) fn name() -> Result<Name> {
        Ok(Name::new("lockkeeper", "name")?)
    }

    pub(crate) fn last_request(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) async fn call(&self, item: ScriptCall) -> Result<Reply> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let call = Call::new(item, request, Form::Source, Duration::from_secs(5));
        Ok(self.store.call(call).await?)
    }

    /// The reply as words.
    pub(crate) async fn run(
        &self,
        script: &'static Script,
        keys: &[&str],
        args: &[&str],
    ) -> Result<String> {
        let owned = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let reply = self
            .call(ScriptCall::new(script, owned(keys), owned(args)))
            .await?;
        let mut words = vec![reply.status().as_str().to_owned()];
        words.extend((0..).map_while(|index| reply.field(index)).map(text));
        Ok(words.join(" "))
    }

    /// Waits if it must.
    async fn acquire(&self, claim: &str) -> Result<String> {
        self.acquire_with(claim, "30000", "0", "-1").await
    }

    async fn acquire_with(
        &self,
        claim: &str,
        ttl: &str,
        token: &str,
        limit: &str,
    ) -> Result<String> {
        let gone = format!("lockkeeper.gone:{{lockkeeper:name}}:{claim}");
        let (owner, _) = claim.split_once('/').context("no claim")?;
        let (stem, waiter_ttl) = (Self::name()?.part("grant"), WAITER_TTL.to_string());
        let keys = [MAIN, FENCE, &gone, QUEUE, WAITERS];
        let args = [claim, ttl, "0", token, owner, &waiter_ttl, &stem, limit];
        self.run(&fair::ACQUIRE, &keys, &args).await
    }

    async fn leave(&self, claim: &str) -> Result<String> {
        self.leave_with(claim, "0", "0").await
    }

    async fn leave_with(&self, claim: &str, keep: &str, tombstone_ttl: &str) -> Result<String> {
        let gone = format!("lockkeeper.gone:{{lockkeeper:name}}:{claim}");
        let (stem, waiter_ttl) = (Self::name()?.part("grant"), WAITER_TTL.to_string());
        let keys = [MAIN, FENCE, &gone, QUEUE, WAITERS];
        let args = [claim, &stem, keep, tombstone_ttl, "0", &waiter_ttl];
        self.run(&fair::RELEASE, &keys, &args).await
    }

    /// What became of each claim, as words.
    async fn heartbeat(&self, claims: &[&str]) -> Result<Vec<String>> {
        let name = Self::name()?;
        let items: Vec<_> = claims.iter().map(|&claim| (name.clone(), claim)).collect();
        self.heartbeat_names(&items).await
    }

    async fn heartbeat_names(&self, items: &[(Name, &str)]) -> Result<Vec<String>> {
        let item = |(name, claim): &(Name, &str)| {
            let keys = ["fence", "queue", "waiters"].map(|part| name.part(part));
            let args = [claim, "30000", "0", &*WAITER_TTL.to_string()].map(str::to_owned);
            ScriptCall::new(
                &fair::HEARTBEAT,
                std::iter::once(name.main().to_owned()).chain(keys),
                args.into_iter().chain([name.part("grant")]),
            )
        };
        let batch = items.iter().map(item).reduce(|mut batch, item| {
            batch.keys.extend(item.keys);
            batch.args.extend(item.args);
            batch
        });
        let reply = self.call(batch.context("no items")?).await?;
        let outcomes = (0..).map_while(|index| reply.field(index));
        Ok(outcomes.map(text).collect())
    }

    async fn place(&self, claim: &str) -> Result<String> {
        self.run(&fair::QUEUE, &[QUEUE], &[claim]).await
    }

    pub(crate) async fn do_command(&self, words: &[&str]) -> Result<String> {
        self.site.command(words).await
    }

    async fn number(&self, key: &str, field: &str) -> Result<Option<(i64, String)>> {
        let value = self.do_command(&["HGET", key, field]).await?;
        let digits = value.split(':').next().unwrap_or_default();
        Ok(match digits.parse() {
            Ok(number) => Some((number, value[digits.len()..].to_owned())),
            Err(_) => None,
        })
    }

    /// So many ms later, with nothing heard in between: all that the keys say is moved into the past.
    pub(crate) async fn pass(&self, milliseconds: i64) -> Result<()> {
        let claims = [A, A2, B, C, D, E, F];
        let kept = claims.map(|claim| format!("kept:{claim}"));
        let kept = kept.iter().map(String::as_str);
        let leases = claims.into_iter().chain(kept).map(|field| (MAIN, field));
        let waiters = claims
            .into_iter()
            .chain(["seen"])
            .map(|field| (WAITERS, field));
        for (key, field) in leases.chain(waiters) {
            if let Some((number, rest)) = self.number(key, field).await? {
                let before = format!("{}{rest}", number - milliseconds);
                self.do_command(&["HSET", key, field, &before]).await?;
            }
        }
        let grace = self.do_command(&["HGET", WAITERS, "grace"]).await?;
        if let [from, to, gaps] = grace.split(':').collect::<Vec<_>>()[..] {
            let (from, to): (i64, i64) = (from.parse()?, to.parse()?);
            let before = format!("{}:{}:{gaps}", from - milliseconds, to - milliseconds);
            self.do_command(&["HSET", WAITERS, "grace", &before])
                .await?;
        }
        Ok(())
    }

    /// The waiter has been silent for long while others have been heard.
    pub(crate) async fn dies(&self, claim: &str) -> Result<()> {
        self.do_command(&["HSET", WAITERS, claim, "1:7"]).await?;
        Ok(())
    }

    /// Puts so many dead in a queue, which nothing else is in yet.
    pub(crate) async fn bury(&self, name: &Name, number: usize) -> Result<()> {
        let (queue, waiters) = (name.part("queue"), name.part("waiters"));
        let dead: Vec<_> = (1..=number)
            .map(|n| (n.to_string(), format!("dead {n}")))
            .collect();
        for dead in dead.chunks(500) {
            let mut places = vec!["ZADD", &queue];
            let mut entries = vec!["HSET", &waiters];
            for (ticket, claim) in dead {
                places.extend([&**ticket, &**claim]);
                entries.extend([&**claim, "1:7"]);
            }
            self.do_command(&places).await?;
            self.do_command(&entries).await?;
        }
        Ok(())
    }

    pub(crate) async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.do_command(&["PTTL", key]).await?.parse()?)
    }

    pub(crate) async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.sort();
        Ok(keys)
    }

    /// What the client is told while `work` is done.
    pub(crate) async fn told(
        &self,
        work: impl AsyncFnOnce(&Self) -> Result<()>,
    ) -> Result<Vec<String>> {
        let listener = self.site.store().await?;
        let mut events = listener.events().context("its events are taken")?;
        let channel = format!("{}:{CLIENT}", Self::name()?.part("grant"));
        listener.subscribe(&channel).await?;
        work(self).await?;
        // A message of our own behind them says that all others have arrived.
        self.do_command(&["PUBLISH", &channel, "end"]).await?;
        let mut heard = Vec::new();
        loop {
            let event = tokio::time::timeout(Duration::from_secs(5), events.recv()).await?;
            match event {
                Some(Event::Message { payload, .. }) if payload == b"end" => return Ok(heard),
                Some(Event::Message { payload, .. }) => heard.push(String::from_utf8(payload)?),
                Some(_) => {}
                None => bail!("the events ended"),
            }
        }
    }
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        value => value.as_str().unwrap_or("(nil)").to_owned(),
    }
}

/// The number in the reply's word of this index, behind this status.
pub(crate) fn number(reply: &str, status: &str, index: usize) -> Result<i64> {
    let words: Vec<&str> = reply.split(' ').collect();
    ensure!(words[0] == status, "{reply}");
    let word = words.get(index).with_context(|| reply.to_owned())?;
    word.parse().with_context(|| reply.to_owned())
}

pub(crate) fn token(reply: &str) -> Result<i64> {
    number(reply, "GRANTED", 1)
}

/// The place of a claim that was told to wait by an acquire.
pub(crate) fn waiting(reply: &str) -> Result<i64> {
    number(reply, "WAITING", 2)
}

/// `A` holds, and these wait.
async fn line_up(it: &Fair, waiters: &[&str]) -> Result<i64> {
    let token = token(&it.acquire_with(A, "600000", "0", "-1").await?)?;
    for (before, claim) in (0..).zip(waiters) {
        ensure!(waiting(&it.acquire(claim).await?)? == before + 1);
    }
    Ok(token)
}
