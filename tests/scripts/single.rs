//! What each script does to the keys and what it answers, on the embedded engine and on a real server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Reply, Store, Value};
use lockkeeper_lua::{Script, Status, mutex};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

const MAIN: &str = "lockkeeper:name";
const FENCE: &str = "lockkeeper.fence:{lockkeeper:name}";

/// Makes a test on each site of every vector, which takes the scripts on that site.
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
}

pub(crate) use vectors;

vectors! { Scripts:
    an_acquire_of_a_free_name_writes_the_claim_and_the_fence_with_a_ttl
    a_repeated_acquire_arms_the_ttl_again_and_gives_the_same_token
    a_repeated_acquire_or_renewal_never_shortens
    a_repeated_acquire_keeps_the_fence_alive
    a_repeated_acquire_whose_fence_is_gone_draws_a_later_token
    an_acquire_of_a_held_name_says_for_how_long
    a_key_without_expiry_is_busy_without_end
    a_renewal_creates_nothing
    a_leave_by_another_claim_changes_nothing
    a_leave_run_twice_has_the_effect_of_once
    a_plain_leave_writes_no_mark_and_a_marked_one_stops_a_late_acquire
    a_marked_leave_removes_the_claim_and_touches_no_other
    verify_changes_nothing
    tokens_are_whole_numbers_that_lua_did_not_round
    a_token_is_above_the_floor
    a_fence_that_is_no_number_does_not_stop_grants
    a_fence_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead
    another_type_under_the_main_key_is_told_and_left_alone
    a_leave_tells_the_waiters_once
    a_peers_lock_excludes_ours_and_ours_excludes_it
}

/// A replica that has not heard of a claim must not say that it is gone.
#[tokio::test]
async fn a_replica_refuses_instead_of_answering_from_what_it_has() -> Result<()> {
    let server = Server::start().await?;
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).await?;
    let it = Scripts::on(server).await?;
    refused(&it, "READONLY").await
}

/// A user who may not read a key must not be told that nothing is there.
#[tokio::test]
async fn a_user_without_a_right_gets_the_refusal_and_no_answer() -> Result<()> {
    let server = Server::start().await?;
    let rules = [
        "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-get", "-getex", "-hdel",
        "-hmget", "-hgetall", "-set", "-zrem",
    ];
    server.command(&rules).await?;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let store = Arc::new(lockkeeper_redis::RedisStore::connect(&url).await?);
    let name = Name::new("lockkeeper", "name")?;
    let it = Scripts {
        site: Box::new(server),
        store,
        name,
    };
    refused(&it, "").await
}

/// Every script of every kind is refused by the server with this code. Those that name no key are about the server that
/// answers, whatever it is.
async fn refused(it: &Scripts, code: &str) -> Result<()> {
    let about_keys = |script: &&&Script| !script.keys.is_empty();
    for script in lockkeeper_lua::ALL.iter().filter(about_keys) {
        let keys = script.keys.iter().map(|key| it.name.part(key)).collect();
        let args: Vec<&str> = script.args[1..]
            .iter()
            .map(|&arg| match arg {
                // However short the server has been up, it takes part.
                "longest" => "0",
                _ if arg.ends_with("ttl") => "30000",
                _ => arg,
            })
            .collect();
        let error = it
            .run(script, keys, &args)
            .await
            .err()
            .with_context(|| format!("{} answered", script.name))?;
        let error = error.downcast::<lockkeeper_core::store::StoreError>()?;
        ensure!(
            error.outcome() == lockkeeper_core::store::Outcome::Refused,
            "{}: {error}",
            script.name
        );
        ensure!(
            code.is_empty() || error.code() == Some(code),
            "{}: {error}",
            script.name
        );
    }
    Ok(())
}

/// A connection to a site, and the scripts of one mutex.
struct Scripts {
    site: Box<dyn Site>,
    store: Arc<dyn Store>,
    name: Name,
}

impl Scripts {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let store = site.store().await?;
        Ok(Self {
            site: Box::new(site),
            store,
            name: Name::new("lockkeeper", "name")?,
        })
    }

    async fn run(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: &[&str],
    ) -> Result<Reply> {
        let item = ScriptCall::new(script, keys, args.iter().map(|&arg| arg.to_owned()));
        Ok(self
            .store
            .call(Call::new(item, 7, Form::Source, Duration::from_secs(5)))
            .await?)
    }

    fn tombstone(&self, claim: &str) -> String {
        format!("{}:{claim}", self.name.part("gone"))
    }

    async fn acquire(&self, claim: &str, ttl: &str) -> Result<Reply> {
        self.acquire_above(claim, ttl, "0").await
    }

    async fn acquire_above(&self, claim: &str, ttl: &str, floor: &str) -> Result<Reply> {
        let keys = vec![MAIN.to_owned(), FENCE.to_owned(), self.tombstone(claim)];
        self.run(&mutex::ACQUIRE, keys, &[claim, ttl, floor, "0"])
            .await
    }

    async fn renew(&self, claim: &str, ttl: &str) -> Result<Status> {
        let reply = self
            .run(&mutex::RENEW, vec![MAIN.to_owned()], &[claim, ttl])
            .await?;
        ensure!(reply.status() == Status::Done, "{reply:?}");
        let outcome = reply
            .field(0)
            .and_then(Value::as_str)
            .and_then(Status::parse);
        outcome.context("one status for each item")
    }

    async fn leave(&self, claim: &str) -> Result<Reply> {
        self.run(
            &mutex::RELEASE,
            vec![MAIN.to_owned()],
            &[claim, &self.name.part("wake"), "0"],
        )
        .await
    }

    async fn leave_marked(&self, claim: &str, ttl: &str) -> Result<Reply> {
        let keys = vec![MAIN.to_owned(), self.tombstone(claim)];
        self.run(
            &mutex::RELEASE_IN_DOUBT,
            keys,
            &[claim, &self.name.part("wake"), "0", ttl],
        )
        .await
    }

    async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.site.command(&["PTTL", key]).await?.parse()?)
    }

    async fn keys(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.sort();
        Ok(keys)
    }
}

/// The token of a grant.
fn token(reply: &Reply) -> Result<u64> {
    ensure!(reply.status() == Status::Granted, "{reply:?}");
    let token = reply
        .field(0)
        .and_then(Value::as_str)
        .context("a token is a string")?;
    Ok(token.parse()?)
}

/// The first field of a reply with this status.
fn field(reply: &Reply, status: Status) -> Result<i64> {
    ensure!(reply.status() == status, "{reply:?}");
    reply.field(0).and_then(Value::as_i64).context("a number")
}

async fn an_acquire_of_a_free_name_writes_the_claim_and_the_fence_with_a_ttl(
    it: &Scripts,
) -> Result<()> {
    let token = token(&it.acquire("a", "30000").await?)?;
    ensure!(it.keys().await? == [FENCE, MAIN]);
    ensure!(it.site.command(&["GET", MAIN]).await? == "a");
    ensure!(it.site.command(&["GET", FENCE]).await? == token.to_string());
    ensure!((29_000..=30_000).contains(&it.pttl(MAIN).await?));
    ensure!(
        (599_000..=600_000).contains(&it.pttl(FENCE).await?),
        "ten minutes"
    );
    Ok(())
}

async fn a_repeated_acquire_arms_the_ttl_again_and_gives_the_same_token(
    it: &Scripts,
) -> Result<()> {
    let first = token(&it.acquire("a", "30000").await?)?;
    it.site.command(&["PEXPIRE", MAIN, "3000"]).await?;
    ensure!(token(&it.acquire("a", "30000").await?)? == first);
    ensure!(it.pttl(MAIN).await? > 29_000, "not armed again");
    Ok(())
}

async fn a_repeated_acquire_or_renewal_never_shortens(it: &Scripts) -> Result<()> {
    it.acquire("a", "60000").await?;
    it.acquire("a", "30000").await?;
    ensure!(it.pttl(MAIN).await? > 59_000);
    ensure!(it.renew("a", "30000").await? == Status::Renewed);
    ensure!(it.pttl(MAIN).await? > 59_000);
    ensure!(it.renew("a", "90000").await? == Status::Renewed);
    ensure!(it.pttl(MAIN).await? > 89_000);
    Ok(())
}

async fn a_repeated_acquire_keeps_the_fence_alive(it: &Scripts) -> Result<()> {
    it.acquire("a", "30000").await?;
    it.site.command(&["PEXPIRE", FENCE, "5000"]).await?;
    it.acquire("a", "30000").await?;
    ensure!(it.pttl(FENCE).await? > 599_000);
    Ok(())
}

async fn a_repeated_acquire_whose_fence_is_gone_draws_a_later_token(it: &Scripts) -> Result<()> {
    let first = token(&it.acquire("a", "30000").await?)?;
    it.site.command(&["DEL", FENCE]).await?;
    ensure!(token(&it.acquire_above("a", "30000", &first.to_string()).await?)? > first);
    Ok(())
}

async fn an_acquire_of_a_held_name_says_for_how_long(it: &Scripts) -> Result<()> {
    it.acquire("a", "30000").await?;
    let left = field(&it.acquire("b", "90000").await?, Status::Busy)?;
    ensure!((29_000..=30_000).contains(&left), "{left}");
    ensure!(it.site.command(&["GET", MAIN]).await? == "a");
    Ok(())
}

async fn a_key_without_expiry_is_busy_without_end(it: &Scripts) -> Result<()> {
    it.site.command(&["SET", MAIN, "somebody"]).await?;
    ensure!(field(&it.acquire("b", "30000").await?, Status::Busy)? == -1);
    Ok(())
}

async fn a_renewal_creates_nothing(it: &Scripts) -> Result<()> {
    ensure!(it.renew("a", "30000").await? == Status::Gone);
    ensure!(it.keys().await?.is_empty());
    it.acquire("b", "30000").await?;
    ensure!(it.renew("a", "60000").await? == Status::Gone);
    ensure!(it.pttl(MAIN).await? <= 30_000);
    Ok(())
}

async fn a_leave_by_another_claim_changes_nothing(it: &Scripts) -> Result<()> {
    it.acquire("a", "30000").await?;
    ensure!(it.leave("b").await?.status() == Status::NotHeld);
    ensure!(it.site.command(&["GET", MAIN]).await? == "a");
    Ok(())
}

async fn a_leave_run_twice_has_the_effect_of_once(it: &Scripts) -> Result<()> {
    let first = token(&it.acquire("a", "30000").await?)?;
    ensure!(field(&it.leave("a").await?, Status::Released)? == 1);
    ensure!(token(&it.acquire("b", "30000").await?)? > first);
    ensure!(it.leave("a").await?.status() == Status::NotHeld);
    ensure!(
        it.site.command(&["GET", MAIN]).await? == "b",
        "the second leave took another's lock away"
    );
    Ok(())
}

async fn a_plain_leave_writes_no_mark_and_a_marked_one_stops_a_late_acquire(
    it: &Scripts,
) -> Result<()> {
    it.acquire("a", "30000").await?;
    it.leave("a").await?;
    ensure!(it.keys().await? == [FENCE]);

    ensure!(it.leave_marked("b", "30000").await?.status() == Status::NotHeld);
    let left = it.pttl(&it.tombstone("b")).await?;
    ensure!(
        (29_000..=30_000).contains(&left),
        "the mark lives for {left} ms"
    );
    ensure!(it.acquire("b", "30000").await?.status() == Status::Gone);
    ensure!(it.site.command(&["EXISTS", MAIN]).await? == "0");
    token(&it.acquire("c", "30000").await?)?;
    Ok(())
}

async fn a_marked_leave_removes_the_claim_and_touches_no_other(it: &Scripts) -> Result<()> {
    it.acquire("a", "30000").await?;
    ensure!(it.leave_marked("b", "30000").await?.status() == Status::NotHeld);
    ensure!(it.site.command(&["GET", MAIN]).await? == "a");
    ensure!(field(&it.leave_marked("a", "30000").await?, Status::Released)? == 1);
    ensure!(it.site.command(&["EXISTS", MAIN]).await? == "0");
    ensure!(
        it.leave_marked("a", "30000").await?.status() == Status::NotHeld,
        "run twice"
    );
    Ok(())
}

async fn verify_changes_nothing(it: &Scripts) -> Result<()> {
    let verify = || it.run(&mutex::VERIFY, vec![MAIN.to_owned()], &["a"]);
    ensure!(verify().await?.status() == Status::Gone);
    it.acquire("a", "30000").await?;
    it.site.command(&["PEXPIRE", MAIN, "9000"]).await?;
    let left = field(&verify().await?, Status::Held)?;
    ensure!((8_000..=9_000).contains(&left), "{left}");
    ensure!(it.pttl(MAIN).await? <= 9_000);
    Ok(())
}

/// A number joined with `..` would have come back as `1.7952195167329e+15`.
async fn tokens_are_whole_numbers_that_lua_did_not_round(it: &Scripts) -> Result<()> {
    let mut last = 0;
    for round in 0..50 {
        let claim = format!("claim {round}");
        let next = token(&it.acquire(&claim, "30000").await?)?;
        ensure!(
            next > last && next.to_string().len() == 16,
            "{next} after {last}"
        );
        last = next;
        it.leave(&claim).await?;
    }
    // Far ahead of the clock every token is the one before it plus one, to the last digit.
    it.site.command(&["SET", FENCE, "4503599627370495"]).await?;
    ensure!(token(&it.acquire("a", "30000").await?)? == 4_503_599_627_370_496);
    Ok(())
}

async fn a_token_is_above_the_floor(it: &Scripts) -> Result<()> {
    let reply = it.acquire_above("a", "30000", "4503599627370496").await?;
    ensure!(token(&reply)? == 4_503_599_627_370_497);
    Ok(())
}

async fn a_fence_that_is_no_number_does_not_stop_grants(it: &Scripts) -> Result<()> {
    it.site.command(&["SET", FENCE, "no number"]).await?;
    token(&it.acquire("a", "30000").await?)?;
    Ok(())
}

async fn a_fence_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead(it: &Scripts) -> Result<()> {
    let now = token(&it.acquire("a", "30000").await?)?;
    it.leave("a").await?;
    let hour_ahead = now + 3_600_000_000;
    it.site
        .command(&["SET", FENCE, &hour_ahead.to_string(), "PX", "30000"])
        .await?;
    ensure!(token(&it.acquire("b", "30000").await?)? == hour_ahead + 1);
    let kept = it.pttl(FENCE).await?;
    ensure!(
        (4_190_000..=4_200_000).contains(&kept),
        "an hour and ten minutes, not {kept} ms"
    );

    it.leave("b").await?;
    it.acquire("c", "7200000").await?;
    let kept = it.pttl(FENCE).await?;
    ensure!(
        kept > 14_400_000,
        "twice a lease of two hours, not {kept} ms"
    );
    Ok(())
}

async fn another_type_under_the_main_key_is_told_and_left_alone(it: &Scripts) -> Result<()> {
    it.site.command(&["HSET", MAIN, "kind", "other"]).await?;
    ensure!(it.acquire("a", "30000").await?.status() == Status::WrongKind);
    ensure!(it.renew("a", "30000").await? == Status::Gone);
    ensure!(it.leave("a").await?.status() == Status::NotHeld);
    ensure!(it.keys().await? == [MAIN]);
    ensure!(it.pttl(MAIN).await? == -1);
    Ok(())
}

async fn a_leave_tells_the_waiters_once(it: &Scripts) -> Result<()> {
    let listener = it.site.store().await?;
    let mut events = listener.events().context("its events are taken")?;
    listener.subscribe(&it.name.part("wake")).await?;
    it.acquire("a", "30000").await?;
    it.leave("a").await?;
    it.leave("a").await?;
    it.leave_marked("b", "30000").await?;
    // A message of our own behind them says that all others have arrived.
    it.site
        .command(&["PUBLISH", &it.name.part("wake"), "end"])
        .await?;
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != b"end") {
        let event = tokio::time::timeout(Duration::from_secs(5), events.recv()).await?;
        if let Some(lockkeeper_core::store::Event::Message { payload, .. }) = event {
            heard.push(payload);
        }
    }
    ensure!(heard == [b"free".to_vec(), b"end".to_vec()], "{heard:?}");
    Ok(())
}

/// A string key, a random token, compare and delete: the simple lock that many libraries write.
async fn a_peers_lock_excludes_ours_and_ours_excludes_it(it: &Scripts) -> Result<()> {
    const DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    ensure!(
        it.site
            .command(&["SET", MAIN, "peer", "NX", "PX", "30000"])
            .await?
            == "OK"
    );
    ensure!(it.acquire("a", "30000").await?.status() == Status::Busy);
    ensure!(it.leave("a").await?.status() == Status::NotHeld);
    ensure!(
        it.site
            .command(&["EVAL", DELETE, "1", MAIN, "peer"])
            .await?
            == "1"
    );

    token(&it.acquire("a", "30000").await?)?;
    ensure!(
        it.site
            .command(&["SET", MAIN, "peer", "NX", "PX", "30000"])
            .await?
            == ""
    );
    ensure!(
        it.site
            .command(&["EVAL", DELETE, "1", MAIN, "peer"])
            .await?
            == "0"
    );
    ensure!(it.renew("a", "30000").await? == Status::Renewed);
    Ok(())
}
