//! What the scripts of the Redlock do to the keys of one of its servers and what they answer, on the embedded engine and on a
//! real server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Reply, Store, Value};
use lockkeeper_lua::{Script, Status, mutex, redlock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::vectors;

vectors! { Scripts:
    a_free_name_is_granted_with_a_claim_and_a_fence_that_end
    an_acquire_run_again_arms_and_gives_the_token_that_is_the_last
    an_acquire_run_again_never_shortens
    a_held_name_is_busy_for_as_long_as_its_lease
    a_server_up_for_less_than_the_longest_ttl_grants_nothing_and_says_until_when
    a_server_that_is_out_still_knows_who_holds
    a_marked_leave_stops_a_late_acquire
    a_claim_that_is_to_leave_is_told_so_and_others_wait
    another_type_under_the_main_key_is_told_and_left_alone
    a_token_written_back_is_the_last_and_the_next_is_larger
    a_smaller_token_written_back_lowers_nothing
    a_token_is_written_back_where_the_claim_holds_and_nowhere_else
    a_token_is_not_written_back_for_a_claim_that_is_to_leave
    a_token_written_back_arms_no_lease
    a_token_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead
    what_is_no_token_is_not_written_back
    the_scripts_of_a_mutex_renew_verify_and_leave
}

const A: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a1";
const B: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:2/00000000000000b1";
const MAIN: &str = "lockkeeper:name";
const FENCE: &str = "lockkeeper.fence:{lockkeeper:name}";
const TTL: &str = "30000";

/// No server is up for that long, ms.
const EVER: &str = "4000000000000000";

/// A connection to a site, and the scripts of one Redlock there.
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

    async fn run(&self, script: &'static Script, keys: &[&str], args: &[&str]) -> Result<Reply> {
        let text = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        let item = ScriptCall::new(script, text(keys), text(args));
        let call = Call::new(item, 7, Form::Source, Duration::from_secs(5));
        Ok(self.store.call(call).await?)
    }

    fn tombstone(&self, claim: &str) -> String {
        format!("{}:{claim}", self.name.part("gone"))
    }

    /// Acquires where the longest ttl is this one.
    async fn acquire_if_up(&self, claim: &str, ttl: &str, longest: &str) -> Result<Reply> {
        let keys = [MAIN, FENCE, &self.tombstone(claim)];
        self.run(&redlock::ACQUIRE, &keys, &[claim, ttl, "0", longest])
            .await
    }

    async fn acquire(&self, claim: &str) -> Result<Reply> {
        self.acquire_if_up(claim, TTL, "0").await
    }

    async fn granted(&self, claim: &str) -> Result<u64> {
        token(&self.acquire(claim).await?)
    }

    async fn raise(&self, claim: &str, token: &str) -> Result<Status> {
        let args = [claim, TTL, token];
        let reply = self.run(&redlock::RAISE, &[MAIN, FENCE], &args).await?;
        Ok(reply.status())
    }

    async fn leave(&self, claim: &str) -> Result<Status> {
        let args = [claim, &*self.name.part("wake"), "0"];
        Ok(self.run(&mutex::RELEASE, &[MAIN], &args).await?.status())
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        self.site.command(words).await
    }

    async fn fence(&self) -> Result<u64> {
        Ok(self.command(&["GET", FENCE]).await?.parse()?)
    }

    async fn left(&self, key: &str) -> Result<i64> {
        Ok(self.command(&["PTTL", key]).await?.parse()?)
    }
}

/// The token of a grant.
fn token(reply: &Reply) -> Result<u64> {
    ensure!(reply.status() == Status::Granted, "{reply:?}");
    let token = reply.field(0).and_then(Value::as_str);
    Ok(token.context("a token is a string")?.parse()?)
}

/// The first field of a reply with this status.
fn field(reply: &Reply, status: Status) -> Result<i64> {
    ensure!(reply.status() == status, "{reply:?}");
    reply.field(0).and_then(Value::as_i64).context("a number")
}

async fn a_free_name_is_granted_with_a_claim_and_a_fence_that_end(it: &Scripts) -> Result<()> {
    let token = it.granted(A).await?;
    ensure!(it.command(&["GET", MAIN]).await? == A);
    ensure!(it.fence().await? == token);
    let (lease, fence) = (it.left(MAIN).await?, it.left(FENCE).await?);
    ensure!((29_000..=30_000).contains(&lease), "{lease} ms");
    ensure!((599_000..=600_000).contains(&fence), "{fence} ms");
    ensure!(it.site.keys().await?.len() == 2, "more was written");
    Ok(())
}

async fn an_acquire_run_again_arms_and_gives_the_token_that_is_the_last(
    it: &Scripts,
) -> Result<()> {
    let token = it.granted(A).await?;
    it.command(&["PEXPIRE", MAIN, "3000"]).await?;
    it.command(&["PEXPIRE", FENCE, "3000"]).await?;
    ensure!(it.granted(A).await? == token);
    ensure!(it.left(MAIN).await? > 29_000 && it.left(FENCE).await? > 599_000);
    Ok(())
}

async fn an_acquire_run_again_never_shortens(it: &Scripts) -> Result<()> {
    it.acquire_if_up(A, "90000", "0").await?;
    it.granted(A).await?;
    ensure!(it.left(MAIN).await? > 89_000);
    Ok(())
}

async fn a_held_name_is_busy_for_as_long_as_its_lease(it: &Scripts) -> Result<()> {
    it.granted(A).await?;
    let left = field(&it.acquire(B).await?, Status::Busy)?;
    ensure!((29_000..=30_000).contains(&left), "{left} ms");
    it.command(&["SET", MAIN, A]).await?;
    ensure!(field(&it.acquire(B).await?, Status::Busy)? < 0);
    ensure!(it.command(&["GET", MAIN]).await? == A);
    Ok(())
}

async fn a_server_up_for_less_than_the_longest_ttl_grants_nothing_and_says_until_when(
    it: &Scripts,
) -> Result<()> {
    let left = field(&it.acquire_if_up(A, TTL, EVER).await?, Status::Quarantined)?;
    ensure!(left > 0 && left <= EVER.parse()?, "{left} ms");
    ensure!(it.site.keys().await?.is_empty(), "something was written");
    Ok(())
}

async fn a_server_that_is_out_still_knows_who_holds(it: &Scripts) -> Result<()> {
    let token_of_a = it.granted(A).await?;
    field(&it.acquire_if_up(B, TTL, EVER).await?, Status::Busy)?;
    ensure!(token(&it.acquire_if_up(A, TTL, EVER).await?)? == token_of_a);
    Ok(())
}

async fn a_marked_leave_stops_a_late_acquire(it: &Scripts) -> Result<()> {
    let (gone, wake) = (it.tombstone(A), it.name.part("wake"));
    it.run(
        &mutex::RELEASE_IN_DOUBT,
        &[MAIN, &gone],
        &[A, &wake, "0", TTL],
    )
    .await?;
    ensure!(it.acquire(A).await?.status() == Status::Gone);
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    it.granted(B).await?;
    Ok(())
}

async fn a_claim_that_is_to_leave_is_told_so_and_others_wait(it: &Scripts) -> Result<()> {
    it.granted(A).await?;
    let revoked = format!("revoked:{A}");
    it.command(&["SET", MAIN, &revoked, "PX", "9000"]).await?;
    ensure!(it.acquire(A).await?.status() == Status::Revoked);
    ensure!(it.left(MAIN).await? <= 9_000, "it was armed again");
    field(&it.acquire(B).await?, Status::Busy)?;
    Ok(())
}

async fn another_type_under_the_main_key_is_told_and_left_alone(it: &Scripts) -> Result<()> {
    it.command(&["HSET", MAIN, "kind", "other"]).await?;
    ensure!(it.acquire(A).await?.status() == Status::WrongKind);
    ensure!(it.raise(A, "7").await? == Status::Gone);
    ensure!(it.site.keys().await? == [MAIN], "something was written");
    Ok(())
}

async fn a_token_written_back_is_the_last_and_the_next_is_larger(it: &Scripts) -> Result<()> {
    let larger = it.granted(A).await? + 5_000_000;
    for _ in 0..2 {
        ensure!(it.raise(A, &larger.to_string()).await? == Status::Raised);
        ensure!(it.fence().await? == larger);
    }
    ensure!(it.leave(A).await? == Status::Released);
    ensure!(it.granted(B).await? == larger + 1);
    Ok(())
}

async fn a_smaller_token_written_back_lowers_nothing(it: &Scripts) -> Result<()> {
    let token = it.granted(A).await?;
    ensure!(it.raise(A, &(token - 1).to_string()).await? == Status::Raised);
    ensure!(it.fence().await? == token);
    // Of a fence that is gone, nobody knows what was drawn: the token is the last again.
    it.command(&["DEL", FENCE]).await?;
    ensure!(it.raise(A, &token.to_string()).await? == Status::Raised);
    ensure!(it.fence().await? == token && it.left(FENCE).await? > 0);
    Ok(())
}

async fn a_token_is_written_back_where_the_claim_holds_and_nowhere_else(
    it: &Scripts,
) -> Result<()> {
    ensure!(it.raise(A, "7").await? == Status::Gone);
    ensure!(it.site.keys().await?.is_empty());
    let token = it.granted(B).await?;
    let larger = (token + 1).to_string();
    ensure!(it.raise(A, &larger).await? == Status::Gone);
    // Kept for a claim that has left: it holds no more.
    let kept = format!("kept:{B}");
    it.command(&["SET", MAIN, &kept, "PX", "9000"]).await?;
    ensure!(it.raise(B, &larger).await? == Status::Gone);
    ensure!(it.fence().await? == token);
    Ok(())
}

async fn a_token_is_not_written_back_for_a_claim_that_is_to_leave(it: &Scripts) -> Result<()> {
    let token = it.granted(A).await?;
    let revoked = format!("revoked:{A}");
    it.command(&["SET", MAIN, &revoked, "PX", "9000"]).await?;
    ensure!(it.raise(A, &(token + 1).to_string()).await? == Status::Revoked);
    ensure!(it.fence().await? == token);
    Ok(())
}

async fn a_token_written_back_arms_no_lease(it: &Scripts) -> Result<()> {
    let token = it.granted(A).await?;
    it.command(&["PEXPIRE", MAIN, "9000"]).await?;
    ensure!(it.raise(A, &(token + 1).to_string()).await? == Status::Raised);
    ensure!(it.left(MAIN).await? <= 9_000);
    Ok(())
}

async fn a_token_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead(it: &Scripts) -> Result<()> {
    // An hour, in µs.
    let ahead = it.granted(A).await? + 3_600_000_000;
    ensure!(it.raise(A, &ahead.to_string()).await? == Status::Raised);
    let left = it.left(FENCE).await?;
    ensure!((4_190_000..=4_200_001).contains(&left), "{left} ms");
    Ok(())
}

async fn what_is_no_token_is_not_written_back(it: &Scripts) -> Result<()> {
    let token = it.granted(A).await?;
    for garbage in [
        "",
        "x",
        "-1",
        "1e300",
        "9007199254740993",
        "99999999999999999999",
    ] {
        ensure!(it.raise(A, garbage).await? == Status::Raised, "{garbage}");
        ensure!(it.fence().await? == token, "{garbage}");
    }
    Ok(())
}

async fn the_scripts_of_a_mutex_renew_verify_and_leave(it: &Scripts) -> Result<()> {
    it.granted(A).await?;
    it.command(&["PEXPIRE", MAIN, "3000"]).await?;
    let renewed = it.run(&mutex::RENEW, &[MAIN], &[A, TTL]).await?;
    ensure!(renewed.status() == Status::Done, "{renewed:?}");
    ensure!(it.left(MAIN).await? > 29_000);
    let held = it.run(&mutex::VERIFY, &[MAIN], &[A]).await?;
    ensure!(held.status() == Status::Held, "{held:?}");
    ensure!(it.leave(B).await? == Status::NotHeld && it.leave(A).await? == Status::Released);
    ensure!(it.site.keys().await? == [FENCE]);
    Ok(())
}
