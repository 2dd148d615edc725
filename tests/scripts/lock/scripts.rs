//! The scripts of one name as a client runs them, and direct access to the keys to move time on and to inspect them.

use std::ops::Deref;

use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_lua::lock;
use lockkeeper_testkit::site::Site;

use super::*;

/// Moves all times in the keys this far into the past.
const PASS: &str = "local passed = tonumber(ARGV[1])
local function earlier(number)
  return tonumber(number) > 1e12 and string.format('%.0f', tonumber(number) - passed) or number
end
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left > passed then
    redis.call('PEXPIRE', key, string.format('%.0f', left - passed))
  elseif left >= 0 then
    redis.call('DEL', key)
  end
end
local holders = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
for i = 1, #holders, 2 do
  redis.call('ZADD', KEYS[2], earlier(holders[i + 1]), holders[i])
end
local state = redis.call('HGETALL', KEYS[4])
for i = 1, #state, 2 do
  if not string.find(state[i], '^o:') then
    redis.call('HSET', KEYS[4], state[i], (string.gsub(state[i + 1], '%d+', earlier)))
  end
end
return 1";

/// When a holder's lease ends on the server's clock, ms, whether it holds alone or not.
const END: &str = "local time = redis.call('TIME')
local left = redis.call('PTTL', KEYS[1])
local found = redis.call('ZMSCORE', KEYS[2], ARGV[1])[1]
return found or string.format('%.0f', math.floor(time[1] * 1000 + time[2] / 1000) + left)";

/// The scripts of one name on a connection.
#[derive(Clone)]
pub(super) struct Lock {
    pub(super) connection: Connection,
    pub(super) name: Name,
    pub(super) kind: &'static str,
    pub(super) inflated: bool,
}

impl Deref for Lock {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Lock {
    pub(super) async fn on(
        site: impl Site + 'static,
        kind: &'static str,
        state: &str,
    ) -> Result<Self> {
        Ok(Self {
            connection: Connection::to(site).await?,
            name: Name::new("lockkeeper", "name")?,
            kind,
            inflated: state == "inflated",
        })
    }

    /// Another name on the same site.
    pub(super) fn named(&self, name: &str) -> Result<Self> {
        let name = Name::new("lockkeeper", name)?;
        Ok(Self {
            name,
            ..self.clone()
        })
    }

    pub(super) fn main(&self) -> String {
        self.name.main().to_owned()
    }

    /// The keys that belong to the marker.
    pub(super) fn derived(&self) -> [String; 3] {
        ["holders", "queue", "state"].map(|part| self.name.part(part))
    }

    /// The main key and the keys that belong to the marker.
    pub(super) fn all(&self) -> [String; 4] {
        let [holders, queue, state] = self.derived();
        [self.main(), holders, queue, state]
    }

    pub(super) fn holders(&self) -> String {
        self.name.part("holders")
    }

    pub(super) fn queue(&self) -> String {
        self.name.part("queue")
    }

    pub(super) fn state(&self) -> String {
        self.name.part("state")
    }

    pub(super) fn tombstone(&self, claim: &str) -> String {
        let (client, random) = (&claim[..8], &claim[claim.len() - 16..]);
        format!("{}:{client}/{random}", self.name.part("gone"))
    }

    /// The keys of a script that may change everything.
    pub(super) fn keys_for(&self, claim: &str) -> [String; 6] {
        let [main, holders, queue, state] = self.all();
        let (counter, tombstone) = (self.name.counter(), self.tombstone(claim));
        [main, counter, tombstone, holders, queue, state]
    }

    /// The shares that claims take in this kind.
    pub(super) fn shares(&self) -> &'static [Of] {
        match self.kind {
            "rwlock" => &[writer, reader],
            "semaphore" => &[one, two, four],
            _ => &[writer],
        }
    }

    /// Whether an owner that holds may re-enter, as a script argument.
    fn reenters(&self) -> &'static str {
        match self.kind {
            "mutex" | "semaphore" => "0",
            _ => "1",
        }
    }

    pub(super) async fn ask<'a>(&self, claim: impl Into<Claim<'a>>, how: How) -> Result<String> {
        let Claim { id, share } = claim.into();
        let (token, channel) = (how.token.to_string(), self.name.grants());
        let args = [
            id,
            how.ttl,
            "0",
            &token,
            self.kind,
            share,
            "0",
            WAITER_TTL_TEXT,
            &channel,
            how.limit,
            self.reenters(),
        ];
        self.run(&lock::ACQUIRE, self.keys_for(id), &args).await
    }

    /// Acquires; waits if it must.
    pub(super) async fn acquire<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<String> {
        self.ask(claim, USUAL).await
    }

    /// Holds for an hour, alone or as the only holder of an inflated name. Returns its token.
    pub(super) async fn hold<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<i64> {
        self.hold_with(claim, LONG).await
    }

    pub(super) async fn hold_with<'a>(&self, claim: impl Into<Claim<'a>>, how: How) -> Result<i64> {
        let token = token(&self.ask(claim, how).await?)?;
        if self.inflated {
            self.inflate().await?;
        }
        Ok(token)
    }

    /// Inflates the name: a claim waits and withdraws.
    pub(super) async fn inflate(&self) -> Result<()> {
        let of = self.shares().last().context("a kind has shares")?;
        let of: Of = if self.kind == "rwlock" { writer } else { *of };
        waiting(&self.acquire(of(PASSER_BY)).await?)?;
        ensure!(self.release(of(PASSER_BY)).await? == "RELEASED 1 0");
        ensure!(self.value().await?.contains(" * "));
        Ok(())
    }

    /// Releases as a client does whose acquires have been answered.
    pub(super) async fn release<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<String> {
        self.release_with(claim, "0", "0").await
    }

    pub(super) async fn release_with<'a>(
        &self,
        claim: impl Into<Claim<'a>>,
        cooldown: &str,
        tombstone_ttl: &str,
    ) -> Result<String> {
        let Claim { id, share } = claim.into();
        let channel = self.name.grants();
        let args = [
            id,
            self.kind,
            share,
            &channel,
            cooldown,
            tombstone_ttl,
            "0",
            WAITER_TTL_TEXT,
            self.reenters(),
        ];
        self.run(&lock::RELEASE, self.keys_for(id), &args).await
    }

    /// `claim` replaces `old`.
    pub(super) async fn convert<'a, 'b>(
        &self,
        claim: impl Into<Claim<'a>>,
        old: impl Into<Claim<'b>>,
        tombstone_ttl: &str,
    ) -> Result<String> {
        let (claim, old, channel) = (claim.into(), old.into(), self.name.grants());
        let keys = self.keys_for(claim.id).into_iter();
        let args = [
            claim.id,
            USUAL.ttl,
            "0",
            self.kind,
            claim.share,
            WAITER_TTL_TEXT,
            &channel,
            old.id,
            old.share,
            tombstone_ttl,
        ];
        let keys = keys.chain([self.tombstone(old.id)]);
        self.run(&lock::CONVERT, keys, &args).await
    }

    /// The item of a heartbeat.
    pub(super) fn beat<'a>(&self, claim: impl Into<Claim<'a>>) -> ScriptCall {
        self.beat_with(claim, WAITER_TTL_TEXT)
    }

    pub(super) fn beat_with<'a>(
        &self,
        claim: impl Into<Claim<'a>>,
        waiter_ttl: &str,
    ) -> ScriptCall {
        let (Claim { id, share }, channel) = (claim.into(), self.name.grants());
        let [main, counter, _, holders, queue, state] = self.keys_for(id);
        let args = [
            id,
            USUAL.ttl,
            "0",
            self.kind,
            share,
            waiter_ttl,
            &channel,
            self.reenters(),
        ];
        let keys = [main, counter, holders, queue, state];
        ScriptCall::new(&lock::HEARTBEAT, keys, args.map(str::to_owned))
    }

    /// The outcome of each claim, as text, without the time that the first claim in the queue is told.
    pub(super) async fn heartbeat<'a, C>(&self, claims: &[C]) -> Result<Vec<String>>
    where
        C: Into<Claim<'a>> + Copy,
    {
        let beats = claims.iter().map(|&claim| self.beat(claim));
        let mut outcomes = self.batch(beats).await?;
        for outcome in &mut outcomes {
            if outcome.starts_with("WAITING 1 ") {
                outcome.truncate("WAITING 1".len());
            }
        }
        Ok(outcomes)
    }

    /// How long no holder's lease ends, as the first claim in the queue is told, ms.
    pub(super) async fn first_end<'a>(&self, first: impl Into<Claim<'a>>) -> Result<i64> {
        let outcomes = self.batch([self.beat(first)]).await?;
        number(&outcomes[0], "WAITING", 2)
    }

    /// Renews as a client does that does not know whether the name is inflated.
    pub(super) async fn renew<'a>(&self, claim: impl Into<Claim<'a>>, ttl: &str) -> Result<String> {
        let Claim { id, share } = claim.into();
        let reply = self.run(&lock::RENEW, [self.main()], &[id, ttl]).await?;
        match &*reply {
            "DONE INFLATED" => {
                let [main, holders, _, state] = self.all();
                let owners = if share == "x" { holders.clone() } else { state };
                let keys = [main, holders, owners];
                self.run(&lock::RENEW_INFLATED, keys, &[id, ttl, share])
                    .await
            }
            _ => Ok(reply),
        }
    }

    pub(super) async fn verify<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<String> {
        let Claim { id, share } = claim.into();
        let reply = self.run(&lock::VERIFY, [self.main()], &[id]).await?;
        let keys = [self.main(), self.holders()];
        match &*reply {
            "INFLATED" => self.run(&lock::VERIFY_INFLATED, keys, &[id, share]).await,
            _ => Ok(reply),
        }
    }

    /// How long a holder's lease still lasts.
    pub(super) async fn left<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<i64> {
        number(&self.verify(claim).await?, "HELD", 1)
    }

    /// When it ends on the server's clock.
    pub(super) async fn end<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<i64> {
        let Claim { id, share } = claim.into();
        let (main, holders, member) = (self.main(), self.holders(), format!("{share}:{id}"));
        let end = ["EVAL", END, "2", &main, &holders, &member];
        Ok(self.command(&end).await?.parse()?)
    }

    /// The limit; sets it first unless `limit` is 0.
    pub(super) async fn limit(&self, limit: u32) -> Result<String> {
        let (channel, limit) = (self.name.grants(), limit.to_string());
        let [main, counter, _, holders, queue, state] = self.keys_for(A);
        let args = [&*limit, "0", self.kind, WAITER_TTL_TEXT, &channel];
        self.run(&lock::LIMIT, [main, counter, holders, queue, state], &args)
            .await
    }

    pub(super) async fn place<'a>(&self, claim: impl Into<Claim<'a>>) -> Result<String> {
        let Claim { id, share } = claim.into();
        self.run(&lock::QUEUE, [self.main(), self.queue()], &[id, share])
            .await
    }

    pub(super) async fn inspect(&self) -> Result<String> {
        let channel = self.name.grants();
        self.run(&name::INSPECT, self.all(), &[&channel]).await
    }

    pub(super) async fn revoke(&self) -> Result<String> {
        self.run(&name::REVOKE, self.all(), &[]).await
    }

    pub(super) async fn free(&self, claim: &str) -> Result<String> {
        let channel = self.name.grants();
        self.run(&name::FREE, self.all(), &[claim, &channel]).await
    }

    /// The value of the main key.
    pub(super) async fn value(&self) -> Result<String> {
        self.command(&["LINDEX", &self.main(), "0"]).await
    }

    /// How many claims take the whole inflated name, how many of these are live, and how many parts the others take.
    pub(super) async fn counts(&self) -> Result<String> {
        let value = self.value().await?;
        let words: Vec<&str> = value.split(' ').collect();
        ensure!(
            words.len() == 8 && words[..2] == [self.kind, "*"],
            "{value}"
        );
        Ok(words[2..5].join(" "))
    }

    /// How many partial claims of an owner are counted, and their token.
    pub(super) async fn counted(&self, claim: &str) -> Result<String> {
        let (owner, _) = claim.split_once('/').context("no claim")?;
        let field = format!("o:{owner}");
        self.command(&["HGET", &self.state(), &field]).await
    }

    pub(super) async fn cardinality(&self, key: &str) -> Result<usize> {
        Ok(self.command(&["ZCARD", key]).await?.parse()?)
    }

    /// Every key of the name, except the counter of its slot.
    pub(super) async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.retain(|key| *key != self.name.counter());
        keys.sort();
        Ok(keys)
    }

    /// The `state` entry of a waiter, or another fact: its first number and the rest.
    pub(super) async fn entry(&self, field: &str) -> Result<Option<(i64, String)>> {
        let entry = self.command(&["HGET", &self.state(), field]).await?;
        let digits = entry.split(':').next().unwrap_or_default();
        let rest = entry[digits.len()..].to_owned();
        Ok(digits.parse().ok().map(|number| (number, rest)))
    }

    /// Moves time on by this many ms, or back, without any request in between.
    pub(super) async fn pass(&self, milliseconds: i64) -> Result<()> {
        let [main, holders, queue, state] = self.all();
        let passed = milliseconds.to_string();
        let pass = ["EVAL", PASS, "4", &main, &holders, &queue, &state, &passed];
        self.command(&pass).await?;
        Ok(())
    }

    /// The server has not heard from the waiter for long, while it has from others.
    pub(super) async fn dies(&self, claim: &str) -> Result<()> {
        let died = ["HSET", &self.state(), claim, "1:100000:7"];
        self.command(&died).await?;
        Ok(())
    }

    /// Puts claims directly at the end of the queue of an inflated name, as `entry` says.
    pub(super) async fn line<'a>(
        &self,
        claims: impl IntoIterator<Item = Claim<'a>>,
        entry: &str,
    ) -> Result<()> {
        let first = self.cardinality(&self.queue()).await? + 1;
        let claims: Vec<_> = (first..)
            .zip(claims)
            .map(|(n, Claim { id, share })| (n.to_string(), format!("{share}:{id}"), id))
            .collect();
        for claims in claims.chunks(500) {
            let (queue, state) = (self.queue(), self.state());
            let (mut places, mut entries) = (vec!["ZADD", &queue], vec!["HSET", &state]);
            for (ticket, member, id) in claims {
                places.extend([&**ticket, &**member]);
                entries.extend([id, entry]);
            }
            self.command(&places).await?;
            self.command(&entries).await?;
        }
        Ok(())
    }

    /// Puts this many long-dead waiters into the queue.
    pub(super) async fn bury(&self, number: usize) -> Result<()> {
        let dead = crowd(number);
        let dead = dead.iter().map(|id| writer(id));
        self.line(dead, "1:100000:7").await
    }

    /// The messages to the client during `work`.
    pub(super) async fn told(&self, work: impl Future<Output = Result<()>>) -> Result<Vec<String>> {
        let channel = format!("{}:{CLIENT}", self.name.grants());
        let mut listener = self.listen(channel).await?;
        work.await?;
        listener.heard(self).await
    }
}
