//! What the scripts of the fair lock do to its keys and what they answer, on the embedded engine and on a real server.
//!
//! Nobody waits here: time passes by moving what the keys say into the past.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::Item;
use lockkeeper_core::store::{Call, Event, Form, Reply, Store, Value};
use lockkeeper_lua::{Script, fair, name, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::vectors;

const MAIN: &str = "lockkeeper:name";
const FENCE: &str = "lockkeeper.fence:{lockkeeper:name}";
const QUEUE: &str = "lockkeeper.queue:{lockkeeper:name}";
const WAITERS: &str = "lockkeeper.waiters:{lockkeeper:name}";

/// Of a waiter, ms.
const WAITER_TTL: i64 = 10_000;
/// More than half of it: nobody could have been heard.
const GAP: i64 = 60_000;

const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const A: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/000000000000000a";
/// Another claim of the owner of `A`.
const A2: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a2";
const B: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:2/000000000000000b";
const C: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:3/000000000000000c";
const D: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:4/000000000000000d";
const E: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:5/000000000000000e";
const F: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:6/000000000000000f";

vectors! { Fair:
    claims_are_granted_in_the_order_in_which_they_came
    a_free_name_is_granted_and_leaves_its_fence_alone_behind
    a_repeated_acquire_keeps_its_place
    a_repeated_acquire_of_a_holder_arms_and_creates_nothing
    a_beat_never_shortens
    the_next_holder_is_told_its_token_and_its_last_request
    tokens_are_whole_numbers_whoever_draws_them
    dead_waiters_are_dropped_and_the_first_alive_is_granted
    a_waiter_past_its_time_is_never_granted
    a_waiter_past_its_time_has_lost_its_place_whoever_notices
    five_thousand_dead_waiters_take_a_bounded_number_of_runs
    the_budget_is_for_the_run_and_not_for_each_name
    a_leave_that_meets_many_dead_is_run_again
    waiters_keep_their_order_when_nobody_could_be_heard
    waiters_keep_their_order_over_two_gaps_in_a_row
    a_pardon_ends_and_the_silent_lose_their_places
    the_dead_are_not_pardoned_for_ever_when_hardly_anybody_asks
    a_try_never_passes_those_who_wait
    a_full_queue_takes_nobody_more
    a_waiter_leaves_its_place_to_the_next
    a_leave_run_twice_has_the_effect_of_once
    a_beat_after_the_leave_creates_nothing
    a_marked_leave_stops_a_late_acquire
    an_owner_that_holds_is_let_in_past_the_queue
    a_revoked_holder_is_not_armed_and_its_owner_not_let_in
    a_kept_name_is_granted_to_nobody_before_its_time
    an_expired_holder_is_followed_at_the_next_beat
    renew_and_verify_of_a_reentrant_lock_fit
    the_queue_is_told_to_whoever_asks
    every_key_carries_a_ttl
    what_a_deleted_queue_has_left_counts_for_nobody
    another_type_under_the_main_key_is_left_alone
    another_type_under_the_queue_is_left_alone
    another_type_under_the_waiters_is_left_alone
    another_type_under_the_fence_is_left_alone
    one_foreign_key_in_a_batch_does_not_touch_its_neighbours
}

/// A connection to a site, and the scripts of one fair lock.
struct Fair {
    site: Box<dyn Site>,
    store: Arc<dyn Store>,
    requests: AtomicU64,
}

impl Fair {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let store = site.store().await?;
        Ok(Self {
            site: Box::new(site),
            store,
            requests: AtomicU64::new(0),
        })
    }

    fn name() -> Result<Name> {
        Ok(Name::new("lockkeeper", "name")?)
    }

    fn last_request(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn call(&self, item: Item) -> Result<Reply> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let call = Call::new(item, request, Form::Source, Duration::from_secs(5));
        Ok(self.store.call(call).await?)
    }

    /// The reply as words.
    async fn run(&self, script: &'static Script, keys: &[&str], args: &[&str]) -> Result<String> {
        let owned = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        let reply = self
            .call(Item::new(script, owned(keys), owned(args)))
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

    async fn leave_with(&self, claim: &str, keep: &str, mark_ttl: &str) -> Result<String> {
        let gone = format!("lockkeeper.gone:{{lockkeeper:name}}:{claim}");
        let (stem, waiter_ttl) = (Self::name()?.part("grant"), WAITER_TTL.to_string());
        let keys = [MAIN, FENCE, &gone, QUEUE, WAITERS];
        let args = [claim, &stem, keep, mark_ttl, "0", &waiter_ttl];
        self.run(&fair::LEAVE, &keys, &args).await
    }

    /// What became of each claim, as words.
    async fn beat(&self, claims: &[&str]) -> Result<Vec<String>> {
        let name = Self::name()?;
        let items: Vec<_> = claims.iter().map(|&claim| (name.clone(), claim)).collect();
        self.beat_names(&items).await
    }

    async fn beat_names(&self, items: &[(Name, &str)]) -> Result<Vec<String>> {
        let item = |(name, claim): &(Name, &str)| {
            let keys = ["fence", "queue", "waiters"].map(|part| name.part(part));
            let args = [claim, "30000", "0", &*WAITER_TTL.to_string()].map(str::to_owned);
            Item::new(
                &fair::BEAT,
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

    async fn do_command(&self, words: &[&str]) -> Result<String> {
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
    async fn pass(&self, milliseconds: i64) -> Result<()> {
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
        let pardon = self.do_command(&["HGET", WAITERS, "pardon"]).await?;
        if let [from, to, gaps] = pardon.split(':').collect::<Vec<_>>()[..] {
            let (from, to): (i64, i64) = (from.parse()?, to.parse()?);
            let before = format!("{}:{}:{gaps}", from - milliseconds, to - milliseconds);
            self.do_command(&["HSET", WAITERS, "pardon", &before])
                .await?;
        }
        Ok(())
    }

    /// The waiter has been silent for long while others have been heard.
    async fn dies(&self, claim: &str) -> Result<()> {
        self.do_command(&["HSET", WAITERS, claim, "1:7"]).await?;
        Ok(())
    }

    /// Puts so many dead in a queue, which nothing else is in yet.
    async fn bury(&self, name: &Name, number: usize) -> Result<()> {
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

    async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.do_command(&["PTTL", key]).await?.parse()?)
    }

    async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.sort();
        Ok(keys)
    }

    /// What the client is told while `work` is done.
    async fn told(&self, work: impl AsyncFnOnce(&Self) -> Result<()>) -> Result<Vec<String>> {
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

fn text(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        value => value.as_str().unwrap_or("(nil)").to_owned(),
    }
}

/// The number in the reply's word of this index, behind this status.
fn number(reply: &str, status: &str, index: usize) -> Result<i64> {
    let words: Vec<&str> = reply.split(' ').collect();
    ensure!(words[0] == status, "{reply}");
    let word = words.get(index).with_context(|| reply.to_owned())?;
    word.parse().with_context(|| reply.to_owned())
}

fn token(reply: &str) -> Result<i64> {
    number(reply, "GRANTED", 1)
}

/// The place of a claim that was told to wait by an acquire.
fn waiting(reply: &str) -> Result<i64> {
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

async fn claims_are_granted_in_the_order_in_which_they_came(it: &Fair) -> Result<()> {
    let mut last = line_up(it, &[D, C, B]).await?;
    ensure!(it.beat(&[B, C, D]).await? == ["WAITING 3", "WAITING 2", "WAITING 1"]);
    let mut holder = A;
    for next in [D, C, B] {
        ensure!(it.leave(holder).await? == "LEFT 1 0");
        let granted = token(&it.beat(&[next]).await?[0])?;
        ensure!(granted > last);
        (holder, last) = (next, granted);
    }
    ensure!(it.leave(B).await? == "LEFT 1 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_free_name_is_granted_and_leaves_its_fence_alone_behind(it: &Fair) -> Result<()> {
    let told = it.told(async |it| {
        token(&it.acquire_with(A, "30000", "0", "0").await?)?;
        ensure!(it.keys().await? == [FENCE, MAIN]);
        ensure!(it.do_command(&["HGET", MAIN, "kind"]).await? == "fair");
        ensure!(it.leave(A).await? == "LEFT 1 0");
        Ok(())
    });
    ensure!(told.await?.is_empty());
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_repeated_acquire_keeps_its_place(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    let reply = it.acquire(B).await?;
    ensure!(waiting(&reply)? == 1);
    ensure!(number(&reply, "WAITING", 1)? > 599_000, "{reply}");
    ensure!(waiting(&it.acquire(C).await?)? == 2);
    let entry = it.number(WAITERS, C).await?.context("C waits")?;
    ensure!(entry.1 == format!(":{}", it.last_request()));
    ensure!(it.place(C).await? == "QUEUED 2 2");
    Ok(())
}

async fn a_repeated_acquire_of_a_holder_arms_and_creates_nothing(it: &Fair) -> Result<()> {
    let first = token(&it.acquire_with(A, "1000", "0", "-1").await?)?;
    ensure!(token(&it.acquire_with(A, "9000", "0", "-1").await?)? == first);
    ensure!(it.pttl(MAIN).await? > 8_000);
    ensure!(token(&it.acquire_with(A, "1000", &first.to_string(), "-1").await?)? == first);
    ensure!(it.pttl(MAIN).await? > 8_000);
    ensure!(it.acquire_with(A, "1000", "17", "-1").await? == "GONE");
    ensure!(it.acquire_with(B, "1000", "17", "-1").await? == "GONE");
    ensure!(it.leave(A).await? == "LEFT 1 0");
    ensure!(it.acquire_with(A, "1000", &first.to_string(), "-1").await? == "GONE");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_beat_never_shortens(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    let (now, _) = it.number(WAITERS, "seen").await?.context("seen")?;
    let far = now + 1_000_000;
    it.do_command(&["HSET", WAITERS, B, &format!("{far}:3")])
        .await?;
    ensure!(it.beat(&[B, A]).await?[0] == "WAITING 1");
    let (ends, _) = it.number(WAITERS, B).await?.context("B waits")?;
    ensure!(ends == far);
    let (lease, _) = it.number(MAIN, A).await?.context("A holds")?;
    ensure!(lease > now + 599_000);
    Ok(())
}

async fn the_next_holder_is_told_its_token_and_its_last_request(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.beat(&[B]).await?;
    let last = it.last_request();
    let told = it.told(async |it| {
        ensure!(it.leave(A).await? == "LEFT 1 0");
        Ok(())
    });
    let told = told.await?;
    let token = it.do_command(&["HGET", MAIN, "token"]).await?;
    ensure!(told == [format!("G {B} {token} {last}")], "{told:?}");
    ensure!(it.do_command(&["GET", FENCE]).await? == token);
    let left = it.pttl(MAIN).await?;
    ensure!((WAITER_TTL - 1_000..=WAITER_TTL).contains(&left), "{left}");
    // Its next beat is a renewal to the full ttl.
    ensure!(it.beat(&[B, C]).await? == [format!("GRANTED {token}"), "WAITING 1".to_owned()]);
    ensure!(it.pttl(MAIN).await? > 29_000);
    Ok(())
}

async fn tokens_are_whole_numbers_whoever_draws_them(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.do_command(&["SET", FENCE, "4503599627370495"]).await?;
    it.leave(A).await?;
    ensure!(it.beat(&[B]).await? == ["GRANTED 4503599627370496"]);
    it.leave(B).await?;
    ensure!(it.acquire(C).await? == "GRANTED 4503599627370497");
    it.leave(C).await?;
    ensure!(it.acquire(D).await? == "GRANTED 4503599627370498");
    Ok(())
}

async fn dead_waiters_are_dropped_and_the_first_alive_is_granted(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(B).await?;
    it.dies(C).await?;
    ensure!(it.beat(&[E]).await? == ["WAITING 2"]);
    it.dies(D).await?;
    ensure!(it.leave(A).await? == "LEFT 1 0");
    token(&it.beat(&[E]).await?[0])?;
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn a_waiter_past_its_time_is_never_granted(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    it.dies(B).await?;
    let told = it.told(async |it| {
        ensure!(it.leave(A).await? == "LEFT 1 0");
        Ok(())
    });
    ensure!(told.await?.is_empty());
    ensure!(it.keys().await? == [FENCE]);
    ensure!(it.beat(&[B]).await? == ["GONE"]);
    token(&it.acquire(C).await?)?;
    Ok(())
}

async fn a_waiter_past_its_time_has_lost_its_place_whoever_notices(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E]).await?;
    it.dies(C).await?;
    ensure!(it.beat(&[C, D]).await? == ["GONE", "WAITING 2"]);
    it.dies(D).await?;
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(it.beat(&[B, E, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

async fn five_thousand_dead_waiters_take_a_bounded_number_of_runs(it: &Fair) -> Result<()> {
    it.bury(&Fair::name()?, 5_000).await?;
    for _ in 0..19 {
        ensure!(it.acquire(A).await? == "MORE");
        ensure!(it.do_command(&["EXISTS", MAIN]).await? == "0");
    }
    token(&it.acquire(A).await?)?;
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn the_budget_is_for_the_run_and_not_for_each_name(it: &Fair) -> Result<()> {
    let names = [Fair::name()?, Name::new("lockkeeper", "other")?];
    let items = [(names[0].clone(), B), (names[1].clone(), B)];
    for name in &names {
        it.bury(name, 300).await?;
        it.do_command(&["ZADD", &name.part("queue"), "301", B])
            .await?;
        it.do_command(&["HSET", &name.part("waiters"), B, "9000000000000:1"])
            .await?;
        it.do_command(&[
            "HSET",
            name.main(),
            "kind",
            "fair",
            "owner",
            "x:1",
            A,
            "9000000000000",
        ])
        .await?;
    }
    ensure!(it.beat_names(&items).await? == ["MORE", "MORE"]);
    // The beat itself has been heard.
    let heard = it.number(WAITERS, B).await?.context("B waits")?;
    ensure!(heard.1 == format!(":{}", it.last_request()));
    ensure!(it.beat_names(&items).await? == ["WAITING 1", "MORE"]);
    ensure!(it.beat_names(&items).await? == ["WAITING 1", "WAITING 1"]);
    Ok(())
}

async fn a_leave_that_meets_many_dead_is_run_again(it: &Fair) -> Result<()> {
    it.bury(&Fair::name()?, 600).await?;
    for _ in 0..2 {
        ensure!(it.acquire(A).await? == "MORE");
    }
    token(&it.acquire(A).await?)?;
    it.bury(&Fair::name()?, 600).await?;
    ensure!(it.leave(A).await? == "MORE");
    ensure!(it.do_command(&["EXISTS", MAIN]).await? == "0");
    ensure!(it.leave(A).await? == "MORE");
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn waiters_keep_their_order_when_nobody_could_be_heard(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D, E, F]).await?;
    it.pass(GAP).await?;
    // The last is heard first. The holder's lease of ten minutes is not over.
    ensure!(it.beat(&[F]).await? == ["WAITING 5"]);
    ensure!(it.beat(&[E, D]).await? == ["WAITING 4", "WAITING 3"]);
    ensure!(it.leave(A).await? == "LEFT 1 0");
    token(&it.beat(&[B]).await?[0])?;
    ensure!(it.beat(&[C]).await? == ["WAITING 1"]);
    Ok(())
}

async fn waiters_keep_their_order_over_two_gaps_in_a_row(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    for _ in 0..2 {
        it.pass(GAP).await?;
        ensure!(it.beat(&[D]).await? == ["WAITING 3"]);
    }
    ensure!(it.beat(&[B, C, D]).await? == ["WAITING 1", "WAITING 2", "WAITING 3"]);
    Ok(())
}

async fn a_pardon_ends_and_the_silent_lose_their_places(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    it.pass(GAP).await?;
    for place in [3, 3, 3, 1] {
        ensure!(it.beat(&[D]).await? == [format!("WAITING {place}")]);
        it.pass(WAITER_TTL / 3 + 50).await?;
    }
    ensure!(it.beat(&[B, C]).await? == ["GONE", "GONE"]);
    Ok(())
}

/// A job that tries once an hour leaves gaps too.
async fn the_dead_are_not_pardoned_for_ever_when_hardly_anybody_asks(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    for waiters in ["2", "2", "2", "0"] {
        it.pass(GAP).await?;
        number(&it.acquire_with(D, "30000", "0", "0").await?, "BUSY", 1)?;
        ensure!(it.do_command(&["ZCARD", QUEUE]).await? == waiters);
    }
    Ok(())
}

async fn a_try_never_passes_those_who_wait(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    let busy = it.acquire_with(C, "30000", "0", "0").await?;
    ensure!(number(&busy, "BUSY", 1)? > 599_000);
    it.leave(A).await?;
    let busy = it.acquire_with(C, "30000", "0", "0").await?;
    ensure!(number(&busy, "BUSY", 1)? <= WAITER_TTL);
    ensure!(it.place(C).await? == "QUEUED 0 0");
    Ok(())
}

async fn a_full_queue_takes_nobody_more(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    ensure!(waiting(&it.acquire_with(C, "30000", "0", "2").await?)? == 2);
    ensure!(it.acquire_with(D, "30000", "0", "2").await? == "QUEUE_FULL 2");
    ensure!(waiting(&it.acquire_with(C, "30000", "0", "2").await?)? == 2);
    ensure!(it.beat(&[D]).await? == ["GONE"]);
    it.leave(B).await?;
    ensure!(waiting(&it.acquire_with(D, "30000", "0", "2").await?)? == 2);
    Ok(())
}

async fn a_waiter_leaves_its_place_to_the_next(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    ensure!(it.leave(B).await? == "LEFT 1 0");
    ensure!(it.beat(&[C, D]).await? == ["WAITING 1", "WAITING 2"]);
    // The name is taken from its holder by force: whoever comes next settles.
    it.do_command(&["DEL", MAIN]).await?;
    ensure!(it.leave(C).await? == "LEFT 1 0");
    token(&it.beat(&[D]).await?[0])?;
    Ok(())
}

async fn a_leave_run_twice_has_the_effect_of_once(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    ensure!(it.leave(A).await? == "LEFT 1 0");
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    token(&it.beat(&[B]).await?[0])?;
    ensure!(it.leave(C).await? == "LEFT 1 0");
    ensure!(it.leave(C).await? == "NOT_HELD 0");
    ensure!(it.leave(B).await? == "LEFT 1 0");
    ensure!(it.leave(B).await? == "NOT_HELD 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_beat_after_the_leave_creates_nothing(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    it.leave(B).await?;
    ensure!(it.beat(&[B]).await? == ["GONE"]);
    it.leave(A).await?;
    ensure!(it.beat(&[A, B]).await? == ["GONE", "GONE"]);
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_marked_leave_stops_a_late_acquire(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    ensure!(it.leave_with(B, "0", "5000").await? == "LEFT 1 0");
    let left = it
        .pttl(&format!("lockkeeper.gone:{{lockkeeper:name}}:{B}"))
        .await?;
    ensure!((4_000..=5_000).contains(&left), "{left}");
    ensure!(it.acquire(B).await? == "GONE");
    ensure!(it.leave_with(C, "0", "5000").await? == "NOT_HELD 0");
    it.leave(A).await?;
    ensure!(it.acquire(C).await? == "GONE");
    ensure!(it.do_command(&["EXISTS", MAIN]).await? == "0");
    Ok(())
}

async fn an_owner_that_holds_is_let_in_past_the_queue(it: &Fair) -> Result<()> {
    let first = line_up(it, &[B, C]).await?;
    ensure!(token(&it.acquire_with(A2, "30000", "0", "0").await?)? == first);
    ensure!(it.leave(A).await? == "LEFT 1 1");
    ensure!(it.beat(&[B]).await? == ["WAITING 1"]);
    ensure!(it.leave(A2).await? == "LEFT 1 0");

    // Both claims of an owner wait, and with the one the other is let in.
    ensure!(waiting(&it.acquire(A).await?)? == 2);
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(waiting(&it.acquire(A2).await?)? == 4);
    it.leave(B).await?;
    it.leave(C).await?;
    let granted = it.beat(&[A, D, A2]).await?;
    ensure!(
        granted[0] == granted[2] && granted[1] == "WAITING 1",
        "{granted:?}"
    );
    token(&granted[0])?;
    ensure!(it.place(A2).await? == "QUEUED 1 0");
    Ok(())
}

async fn a_revoked_holder_is_not_armed_and_its_owner_not_let_in(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    ensure!(it.run(&name::REVOKE, &[MAIN], &[]).await? == "TOLD 1");
    ensure!(it.acquire(A).await? == "REVOKED");
    ensure!(it.beat(&[A, B]).await? == ["REVOKED", "WAITING 1"]);
    ensure!(waiting(&it.acquire(A2).await?)? == 2);
    ensure!(it.beat(&[A2]).await? == ["WAITING 2"]);
    ensure!(it.leave(A).await? == "LEFT 1 0");
    token(&it.beat(&[B]).await?[0])?;
    Ok(())
}

async fn a_kept_name_is_granted_to_nobody_before_its_time(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    let left = number(&it.leave_with(A, "4000", "0").await?, "KEPT", 2)?;
    ensure!((3_000..=4_000).contains(&left), "{left}");
    number(&it.leave_with(A, "4000", "0").await?, "KEPT", 2)?;
    ensure!(it.beat(&[B]).await? == ["WAITING 1"]);
    number(&it.acquire_with(A2, "30000", "0", "0").await?, "BUSY", 1)?;
    it.pass(4_001).await?;
    token(&it.beat(&[B]).await?[0])?;
    Ok(())
}

async fn an_expired_holder_is_followed_at_the_next_beat(it: &Fair) -> Result<()> {
    let first = token(&it.acquire_with(A, "5000", "0", "-1").await?)?;
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    it.pass(4_900).await?;
    ensure!(it.beat(&[B]).await? == ["WAITING 1"]);
    it.pass(200).await?;
    ensure!(token(&it.beat(&[B]).await?[0])? > first);
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    ensure!(it.beat(&[A]).await? == ["GONE"]);
    Ok(())
}

async fn renew_and_verify_of_a_reentrant_lock_fit(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    it.leave(A).await?;
    ensure!(it.run(&reentrant::RENEW, &[MAIN], &[B, "60000"]).await? == "DONE RENEWED");
    ensure!(number(&it.run(&reentrant::VERIFY, &[MAIN], &[B]).await?, "HELD", 1)? > 59_000);
    ensure!(it.run(&reentrant::RENEW, &[MAIN], &[C, "60000"]).await? == "DONE GONE");
    let foreign = [C, "1000", "0", "0", "x:1"];
    let keys = [MAIN, FENCE, "gone"];
    ensure!(it.run(&reentrant::ACQUIRE, &keys, &foreign).await? == "WRONG_KIND");
    Ok(())
}

async fn the_queue_is_told_to_whoever_asks(it: &Fair) -> Result<()> {
    let inspect = async || {
        let keys = [MAIN, FENCE, QUEUE];
        it.run(
            &name::INSPECT,
            &keys,
            &["lockkeeper.wake:{lockkeeper:name}"],
        )
        .await
    };
    ensure!(it.place("").await? == "QUEUED 0 0");
    ensure!(inspect().await? == "FREE 0");
    let token = line_up(it, &[B, C]).await?;
    ensure!(it.place("").await? == "QUEUED 2 0");
    ensure!(it.place(C).await? == "QUEUED 2 2");
    let found = inspect().await?;
    ensure!(
        found.starts_with(&format!("FOUND fair {token} 2 {A} ")),
        "{found}"
    );
    ensure!(it.run(&name::FREE, &[MAIN], &[A, "wake"]).await? == "LEFT 1 0");
    ensure!(inspect().await? == "FREE 2");
    it.do_command(&["DEL", QUEUE]).await?;
    it.do_command(&["SET", QUEUE, "text"]).await?;
    ensure!(it.place(C).await? == "WRONG_KIND");
    Ok(())
}

async fn every_key_carries_a_ttl(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.leave_with(D, "0", "5000").await?;
    for key in it.keys().await? {
        ensure!(it.pttl(&key).await? > 0, "{key}");
    }
    for key in [QUEUE, WAITERS] {
        ensure!((599_000..=600_000).contains(&it.pttl(key).await?));
        it.do_command(&["PEXPIRE", key, "5000"]).await?;
    }
    it.beat(&[B]).await?;
    for key in [QUEUE, WAITERS] {
        ensure!(it.pttl(key).await? > 599_000, "a beat keeps {key}");
    }
    Ok(())
}

async fn what_a_deleted_queue_has_left_counts_for_nobody(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.pass(GAP).await?;
    it.do_command(&["DEL", QUEUE]).await?;
    ensure!(it.beat(&[B]).await? == ["GONE"]);
    ensure!(waiting(&it.acquire(D).await?)? == 1);
    ensure!(it.do_command(&["HGET", WAITERS, B]).await?.is_empty());
    ensure!(
        it.do_command(&["HGET", WAITERS, "pardon"])
            .await?
            .is_empty()
    );
    Ok(())
}

async fn another_type_under_the_main_key_is_left_alone(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    for foreign in [
        &["SET", MAIN, "text"][..],
        &["HSET", MAIN, "kind", "reentrant"],
        &["ZADD", MAIN, "1", "text"],
    ] {
        it.do_command(&["DEL", MAIN]).await?;
        it.do_command(foreign).await?;
        ensure!(it.acquire(C).await? == "WRONG_KIND");
        ensure!(it.beat(&[B, A]).await? == ["GONE", "GONE"]);
        ensure!(it.leave(A).await? == "NOT_HELD 0");
        ensure!(it.pttl(MAIN).await? == -1);
    }
    ensure!(it.leave(B).await? == "LEFT 1 0");
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn another_type_under_the_queue_is_left_alone(it: &Fair) -> Result<()> {
    left_alone_at(it, QUEUE).await
}

async fn another_type_under_the_waiters_is_left_alone(it: &Fair) -> Result<()> {
    left_alone_at(it, WAITERS).await
}

async fn left_alone_at(it: &Fair, key: &str) -> Result<()> {
    it.do_command(&["SET", key, "text"]).await?;
    ensure!(it.acquire(A).await? == "WRONG_KIND");
    it.do_command(&["DEL", key]).await?;
    let first = token(&it.acquire(A).await?)?;
    it.do_command(&["SET", key, "text"]).await?;
    ensure!(it.acquire(B).await? == "WRONG_KIND");
    // Whoever holds is not concerned.
    ensure!(it.acquire(A).await? == format!("GRANTED {first}"));
    ensure!(it.beat(&[A, B]).await? == [format!("GRANTED {first}"), "GONE".to_owned()]);
    ensure!(it.leave(A).await? == "LEFT 1 0");
    ensure!(it.do_command(&["GET", key]).await? == "text");
    ensure!(it.pttl(key).await? == -1);
    Ok(())
}

async fn another_type_under_the_fence_is_left_alone(it: &Fair) -> Result<()> {
    let first = line_up(it, &[B, C]).await?;
    it.do_command(&["DEL", FENCE]).await?;
    it.do_command(&["HSET", FENCE, "f", "v"]).await?;
    ensure!(it.beat(&[A, C]).await? == [format!("GRANTED {first}"), "WAITING 2".to_owned()]);
    ensure!(it.acquire(D).await? == "WRONG_KIND");
    ensure!(it.leave(A).await? == "LEFT 1 0");
    // No token can be drawn, so nothing is granted, and nobody loses its place.
    ensure!(it.beat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
    ensure!(it.acquire(D).await? == "WRONG_KIND");
    ensure!(it.leave(B).await? == "LEFT 1 0");
    ensure!(it.pttl(FENCE).await? == -1);
    it.do_command(&["DEL", FENCE]).await?;
    token(&it.beat(&[C]).await?[0])?;
    Ok(())
}

async fn one_foreign_key_in_a_batch_does_not_touch_its_neighbours(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    let foreign = |name: &str| Name::new("lockkeeper", name);
    let (main, queue, waiters) = (foreign("main")?, foreign("queue")?, foreign("waiters")?);
    let fence = foreign("fence")?;
    for key in [main.main(), &queue.part("queue"), &waiters.part("waiters")] {
        it.do_command(&["SET", key, "text"]).await?;
    }
    it.leave(A).await?;
    let items = [
        (main, B),
        (Fair::name()?, B),
        (queue, B),
        (waiters, C),
        (Fair::name()?, C),
        (fence.clone(), B),
    ];
    // Free, and the first in the queue cannot be granted.
    it.do_command(&["HSET", &fence.part("fence"), "f", "v"])
        .await?;
    it.do_command(&["ZADD", &fence.part("queue"), "1", B])
        .await?;
    it.do_command(&["HSET", &fence.part("waiters"), B, "9000000000000:1"])
        .await?;
    let outcomes = it.beat_names(&items).await?;
    token(&outcomes[1])?;
    for (index, expected) in [
        (0, "GONE"),
        (2, "GONE"),
        (3, "GONE"),
        (4, "WAITING 1"),
        (5, "WAITING 1"),
    ] {
        ensure!(outcomes[index] == expected, "{outcomes:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_refused_message_is_a_flag_and_the_grant_stands() -> Result<()> {
    let server = Server::start().await?;
    let rules = [
        "ACL", "SETUSER", "u", "on", ">pw", "~*", "+@all", "-publish",
    ];
    server.command(&rules).await?;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let it = Fair {
        store: Arc::new(RedisStore::connect(&url).await?),
        site: Box::new(server),
        requests: AtomicU64::new(0),
    };
    line_up(&it, &[B]).await?;
    ensure!(it.leave(A).await? == "LEFT 0 0");
    token(&it.beat(&[B]).await?[0])?;
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_newcomers_and_serves_those_who_wait() -> Result<()> {
    let it = Fair::on(Server::start().await?).await?;
    line_up(&it, &[B, C]).await?;
    it.do_command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    let refused = it.acquire(D).await.err().context("there is no room")?;
    ensure!(refused.to_string().contains("OOM"), "{refused}");
    ensure!(it.beat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
    ensure!(it.leave_with(A, "0", "5000").await? == "LEFT 1 0");
    token(&it.beat(&[B]).await?[0])?;
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(it.leave(C).await? == "LEFT 1 0");
    ensure!(it.leave(B).await? == "LEFT 1 0");
    Ok(())
}

/// The embedded server's clock really moves.
#[tokio::test]
async fn waiters_keep_their_order_when_the_server_slept() -> Result<()> {
    let server = MemoryStore::new();
    let it = Fair::on(server.sibling()).await?;
    line_up(&it, &[B, C, D, E, F]).await?;
    server.step_clock(GAP);
    ensure!(it.beat(&[F, C]).await? == ["WAITING 5", "WAITING 2"]);
    ensure!(it.leave(A).await? == "LEFT 1 0");
    token(&it.beat(&[B]).await?[0])?;
    Ok(())
}

/// Whoever sets up a server reads there what to allow.
#[tokio::test]
async fn the_rights_that_the_wire_format_names_are_enough() -> Result<()> {
    const PAGE: &str = include_str!("../docs/wire-format.md");
    let (_, rules) = PAGE.split_once("ACL SETUSER app").context("the rights")?;
    let (rules, _) = rules.split_once("```").context("their end")?;
    let server = Server::start().await?;
    let words: Vec<&str> = ["ACL", "SETUSER", "app"]
        .into_iter()
        .chain(rules.split_whitespace())
        .collect();
    server.command(&words).await?;
    let url = format!("redis://app:password@127.0.0.1:{}", server.port());
    let it = Fair {
        store: Arc::new(RedisStore::connect(&url).await?),
        site: Box::new(server),
        requests: AtomicU64::new(0),
    };
    line_up(&it, &[B, C]).await?;
    it.dies(B).await?;
    ensure!(it.beat(&[C]).await? == ["WAITING 1"]);
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(it.leave_with(A, "0", "5000").await? == "LEFT 1 0", "told");
    let granted = token(&it.beat(&[C]).await?[0])?;
    ensure!(
        token(
            &it.acquire_with(C, "1000", &granted.to_string(), "-1")
                .await?
        )? == granted
    );
    ensure!(it.run(&reentrant::RENEW, &[MAIN], &[C, "1000"]).await? == "DONE RENEWED");
    number(&it.run(&reentrant::VERIFY, &[MAIN], &[C]).await?, "HELD", 1)?;
    number(&it.leave_with(C, "100", "0").await?, "KEPT", 2)?;
    Ok(())
}
