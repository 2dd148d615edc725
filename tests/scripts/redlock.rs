//! The effect of the Redlock's scripts on the keys of one of its servers, and their replies, on the embedded engine and on a
//! real server. Its names are never inflated: only claims that take a whole free name use them.

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_lua::redlock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use tokio::time::sleep;

use crate::scripts::single::{
    A, A2, B, DAY, MAIN, Scripts, TTL, Who, is_nearly, name_of, number, token, vectors,
};

vectors! { Member:
    a_free_name_is_granted_with_a_claim_and_a_counter_that_end
    an_acquire_run_again_arms_and_gives_the_same_token
    an_acquire_run_again_never_shortens
    a_held_name_is_busy_for_as_long_as_its_lease
    a_poller_leaves_a_sign_and_is_told
    a_server_up_for_less_than_the_longest_ttl_grants_nothing_and_says_until_when
    a_server_that_is_out_still_knows_who_holds
    a_release_in_doubt_stops_a_late_acquire
    a_revoked_claim_is_told_so_and_others_wait
    a_name_that_cools_down_is_busy_for_its_own_owner_too
    another_type_under_the_main_key_is_told_and_left_alone
    another_kinds_claim_is_told_and_left_alone
    a_token_written_back_is_the_last_and_the_next_is_larger
    a_smaller_token_written_back_lowers_nothing
    a_token_is_written_back_where_the_claim_holds_and_nowhere_else
    a_token_is_not_written_back_for_a_revoked_claim
    a_token_written_back_arms_no_lease_and_keeps_the_sign
    a_token_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead
    what_is_no_token_is_not_written_back
    the_scripts_of_a_single_lock_renew_verify_and_release
    a_proposal_is_followed_and_the_next_token_is_larger
    a_proposal_that_is_too_far_ahead_or_none_is_not_followed
}

/// Longer than any server has been up, ms.
const EVER: &str = "4000000000000000";

/// A connection to one of the servers, and the scripts of one Redlock there.
struct Member(Scripts);

impl Deref for Member {
    type Target = Scripts;

    fn deref(&self) -> &Scripts {
        &self.0
    }
}

impl Member {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let mut scripts = Scripts::on(site).await?;
        scripts.kind = "redlock";
        Ok(Self(scripts))
    }

    /// Acquires with this longest ttl.
    async fn acquire_if_up(&self, who: Who, ttl: Duration, longest: &str) -> Result<String> {
        self.ask(who, ttl, longest, "0").await
    }

    async fn ask(&self, who: Who, ttl: Duration, longest: &str, polled: &str) -> Result<String> {
        let ttl = ttl.as_millis().to_string();
        self.acquire_by(who, &[&ttl, "0", longest, polled]).await
    }

    async fn propose(&self, who: Who, proposal: &str, longest: &str) -> Result<String> {
        self.acquire_by(who, &["30000", proposal, longest, "0"])
            .await
    }

    /// Acquires with these arguments behind the claim.
    async fn acquire_by(&self, who: Who, args: &[&str]) -> Result<String> {
        let (name, claim) = (name_of("name")?, who.text()?);
        let keys = vec![MAIN.to_owned(), name.counter(), name.tombstone(&who.id()?)];
        self.run(&redlock::ACQUIRE, keys, &[&[&*claim], args].concat())
            .await
    }

    async fn acquire(&self, who: Who) -> Result<String> {
        self.acquire_if_up(who, TTL, "0").await
    }

    /// Takes the free name with a proposal and a longest ttl of a second, and releases it. Returns the token.
    async fn drawn(&self, proposal: &str) -> Result<i64> {
        let token = token(&self.propose(A, proposal, "1000").await?)?;
        ensure!(self.counter().await? == token);
        ensure!(
            self.command(&["LINDEX", MAIN, "0"]).await?
                == format!("redlock x {} {token}", A.text()?)
        );
        self.release(A).await?;
        Ok(token)
    }

    /// Waits until the server has been up long enough to take part with a longest ttl of a second.
    async fn takes_part(&self) -> Result<()> {
        while self
            .acquire_if_up(A, TTL, "1000")
            .await?
            .starts_with("QUARANTINED")
        {
            sleep(Duration::from_millis(50)).await;
        }
        self.release(A).await?;
        Ok(())
    }

    /// The server's clock, µs.
    async fn clock(&self) -> Result<i64> {
        let script =
            "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])";
        Ok(self.command(&["EVAL", script, "0"]).await?.parse()?)
    }

    async fn granted(&self, who: Who) -> Result<i64> {
        token(&self.acquire(who).await?)
    }

    async fn raise(&self, who: Who, token: &str) -> Result<String> {
        let keys = vec![MAIN.to_owned(), name_of("name")?.counter()];
        self.run(&redlock::RAISE, keys, &[&who.text()?, token])
            .await
    }

    async fn counter(&self) -> Result<i64> {
        Ok(self
            .command(&["GET", &name_of("name")?.counter()])
            .await?
            .parse()?)
    }

    /// How long the counter will be remembered, ms.
    async fn counter_left(&self) -> Result<i64> {
        self.pttl(&name_of("name")?.counter()).await
    }
}

async fn a_free_name_is_granted_with_a_claim_and_a_counter_that_end(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    ensure!(
        it.command(&["LINDEX", MAIN, "0"]).await? == format!("redlock x {} {token}", A.text()?)
    );
    ensure!(it.counter().await? == token);
    let (lease, counter) = (it.pttl(MAIN).await?, it.counter_left().await?);
    ensure!(is_nearly(lease, 30_000), "{lease} ms");
    ensure!(is_nearly(counter, DAY), "{counter} ms");
    ensure!(it.keys().await?.len() == 2, "more was written");
    Ok(())
}

async fn an_acquire_run_again_arms_and_gives_the_same_token(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    it.lease_ends_in(A, 3_000).await?;
    ensure!(it.granted(A).await? == token);
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    it.command(&["DEL", &name_of("name")?.counter()]).await?;
    ensure!(
        it.granted(A).await? == token,
        "whatever became of the counter"
    );
    Ok(())
}

async fn an_acquire_run_again_never_shortens(it: &Member) -> Result<()> {
    it.acquire_if_up(A, 3 * TTL, "0").await?;
    it.granted(A).await?;
    ensure!(is_nearly(it.pttl(MAIN).await?, 90_000));
    Ok(())
}

async fn a_held_name_is_busy_for_as_long_as_its_lease(it: &Member) -> Result<()> {
    it.granted(A).await?;
    for claim in [A2, B] {
        let left = number(&it.acquire(claim).await?, "BUSY", 1)?;
        ensure!(is_nearly(left, 30_000), "{left} ms");
    }
    ensure!(it.standing().await? == [format!("x:{}", A.text()?)]);
    // Another library's value, into which no sign may be written.
    it.command(&["SET", MAIN, "peer"]).await?;
    ensure!(it.acquire(B).await? == "BUSY -1 1");
    ensure!(it.command(&["GET", MAIN]).await? == "peer");
    Ok(())
}

async fn a_poller_leaves_a_sign_and_is_told(it: &Member) -> Result<()> {
    let mut poller = it.poller().await?;
    it.granted(A).await?;
    ensure!(!it.is_polled().await?);
    it.release(A).await?;
    ensure!(poller.heard(it).await?.is_empty());
    for others_poll in [false, true] {
        token(
            &it.ask(A, TTL, "0", if others_poll { "1" } else { "0" })
                .await?,
        )?;
        if !others_poll {
            number(&it.acquire(B).await?, "BUSY", 1)?;
            number(&it.acquire(B).await?, "BUSY", 1)?;
        }
        let value = it.command(&["LINDEX", MAIN, "0"]).await?;
        ensure!(value.ends_with('p') && !value.ends_with("pp"), "{value}");
        ensure!(it.release(A).await? == "RELEASED 1 0");
        ensure!(poller.heard(it).await? == ["free"]);
    }
    Ok(())
}

async fn a_server_up_for_less_than_the_longest_ttl_grants_nothing_and_says_until_when(
    it: &Member,
) -> Result<()> {
    let left = number(&it.acquire_if_up(A, TTL, EVER).await?, "QUARANTINED", 1)?;
    ensure!(left > 0 && left <= EVER.parse()?, "{left} ms");
    ensure!(it.keys().await?.is_empty(), "something was written");
    Ok(())
}

async fn a_server_that_is_out_still_knows_who_holds(it: &Member) -> Result<()> {
    let token_of_a = it.granted(A).await?;
    number(&it.acquire_if_up(B, TTL, EVER).await?, "BUSY", 1)?;
    ensure!(token(&it.acquire_if_up(A, TTL, EVER).await?)? == token_of_a);
    Ok(())
}

async fn a_release_in_doubt_stops_a_late_acquire(it: &Member) -> Result<()> {
    ensure!(it.release_in_doubt(A).await? == "NOT_HELD 0");
    ensure!(it.acquire(A).await? == "GONE");
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    it.granted(B).await?;
    Ok(())
}

async fn a_revoked_claim_is_told_so_and_others_wait(it: &Member) -> Result<()> {
    it.granted(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.acquire(A).await? == "REVOKED");
    ensure!(it.pttl(MAIN).await? <= 9_000, "it was armed again");
    number(&it.acquire(B).await?, "BUSY", 1)?;
    Ok(())
}

async fn a_name_that_cools_down_is_busy_for_its_own_owner_too(it: &Member) -> Result<()> {
    it.granted(A).await?;
    ensure!(it.release_with(A, TTL / 3).await? == "COOLDOWN 1 10000");
    for claim in [A, A2, B] {
        let left = number(&it.acquire(claim).await?, "BUSY", 1)?;
        ensure!(is_nearly(left, 10_000), "{left} ms");
    }
    Ok(())
}

async fn another_type_under_the_main_key_is_told_and_left_alone(it: &Member) -> Result<()> {
    it.command(&["HSET", MAIN, "kind", "other"]).await?;
    ensure!(it.acquire(A).await? == "WRONG_KIND");
    ensure!(it.raise(A, "7").await? == "GONE");
    ensure!(it.keys().await? == [MAIN], "something was written");
    Ok(())
}

async fn another_kinds_claim_is_told_and_left_alone(it: &Member) -> Result<()> {
    let mutex = format!("mutex x {} 7", B.text()?);
    let marker = format!("mutex * 1 1 0 7 - {}", B.text()?);
    for value in [mutex, marker] {
        it.command(&["DEL", MAIN]).await?;
        it.command(&["RPUSH", MAIN, &value]).await?;
        ensure!(it.acquire(A).await? == "WRONG_KIND", "{value}");
        ensure!(it.raise(A, "9").await? == "GONE", "{value}");
        ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
    }
    ensure!(it.keys().await? == [MAIN], "something was written");
    Ok(())
}

async fn a_token_written_back_is_the_last_and_the_next_is_larger(it: &Member) -> Result<()> {
    let larger = it.granted(A).await? + 5_000_000;
    for _ in 0..2 {
        ensure!(it.raise(A, &larger.to_string()).await? == "RAISED");
        ensure!(it.counter().await? == larger);
        ensure!(
            it.command(&["LINDEX", MAIN, "0"]).await?
                == format!("redlock x {} {larger}", A.text()?)
        );
    }
    ensure!(it.granted(A).await? == larger, "run again");
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.granted(B).await? == larger + 1);
    Ok(())
}

async fn a_smaller_token_written_back_lowers_nothing(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    ensure!(it.raise(A, &(token - 1).to_string()).await? == "RAISED");
    ensure!(it.counter().await? == token && it.granted(A).await? == token);
    // If the counter is gone, it is unknown what was drawn: the token becomes the last one again.
    it.command(&["DEL", &name_of("name")?.counter()]).await?;
    ensure!(it.raise(A, &token.to_string()).await? == "RAISED");
    ensure!(it.counter().await? == token && it.counter_left().await? > 0);
    // One behind the clock does not look as if it had been raised just now, so the next draw raises it.
    it.command(&["DEL", &name_of("name")?.counter()]).await?;
    let behind = token - 20_000_000;
    ensure!(it.raise(A, &behind.to_string()).await? == "RAISED");
    ensure!(it.counter().await? == behind && it.counter_left().await? <= DAY - 10);
    Ok(())
}

async fn a_token_is_written_back_where_the_claim_holds_and_nowhere_else(it: &Member) -> Result<()> {
    ensure!(it.raise(A, "7").await? == "GONE");
    ensure!(it.keys().await?.is_empty());
    let token = it.granted(B).await?;
    let larger = (token + 1).to_string();
    ensure!(it.raise(A, &larger).await? == "GONE");
    // A released claim holds no more.
    it.release_with(B, TTL).await?;
    ensure!(it.raise(B, &larger).await? == "GONE");
    ensure!(it.counter().await? == token);
    Ok(())
}

async fn a_token_is_not_written_back_for_a_revoked_claim(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    it.revoke().await?;
    ensure!(it.raise(A, &(token + 1).to_string()).await? == "REVOKED");
    ensure!(it.counter().await? == token);
    Ok(())
}

async fn a_token_written_back_arms_no_lease_and_keeps_the_sign(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    it.lease_ends_in(A, 9_000).await?;
    ensure!(it.raise(A, &(token + 1).to_string()).await? == "RAISED");
    ensure!(it.pttl(MAIN).await? <= 9_000 && it.is_polled().await?);
    Ok(())
}

async fn a_token_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead(it: &Member) -> Result<()> {
    // An hour, in µs.
    let ahead = it.granted(A).await? + 3_600_000_000;
    ensure!(it.raise(A, &ahead.to_string()).await? == "RAISED");
    let (left, expected) = (it.counter_left().await?, DAY + 3_600_000);
    ensure!(
        (expected - 10_000..=expected + 1).contains(&left),
        "{left} ms"
    );
    Ok(())
}

async fn what_is_no_token_is_not_written_back(it: &Member) -> Result<()> {
    let token = it.granted(A).await?;
    for garbage in [
        "",
        "x",
        "-1",
        "1e300",
        "9007199254740993",
        "99999999999999999999",
    ] {
        ensure!(it.raise(A, garbage).await? == "RAISED", "{garbage}");
        ensure!(it.counter().await? == token, "{garbage}");
        ensure!(it.granted(A).await? == token, "{garbage}");
    }
    Ok(())
}

async fn the_scripts_of_a_single_lock_renew_verify_and_release(it: &Member) -> Result<()> {
    it.granted(A).await?;
    it.lease_ends_in(A, 3_000).await?;
    ensure!(it.renew(A).await? == "RENEWED");
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    number(&it.verify(A).await?, "HELD", 1)?;
    ensure!(it.release(B).await? == "NOT_HELD 0" && it.release(A).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [name_of("name")?.counter()]);
    Ok(())
}

async fn a_proposal_is_followed_and_the_next_token_is_larger(it: &Member) -> Result<()> {
    it.takes_part().await?;
    loop {
        let proposal = it.clock().await? + 400_000;
        let token = it.drawn(&proposal.to_string()).await?;
        let again = it.drawn(&proposal.to_string()).await?;
        ensure!(token >= proposal && again > token, "{again} after {token}");
        if it.clock().await? < proposal {
            ensure!(
                token == proposal && again == proposal + 1,
                "{again} after {token}"
            );
            // Nor does a smaller one lower the counter.
            ensure!(it.drawn(&(proposal - 100_000).to_string()).await? > again);
            return Ok(());
        }
    }
}

async fn a_proposal_that_is_too_far_ahead_or_none_is_not_followed(it: &Member) -> Result<()> {
    it.takes_part().await?;
    let hour_ahead = it.clock().await? + 3_600_000_000;
    let mut last = it.drawn("0").await?;
    let far = [
        "9007199254740990",
        "9007199254740993",
        "99999999999999999999",
    ];
    let none = ["", "x", "-1", "1e300", "1"];
    for proposal in far
        .into_iter()
        .chain(none)
        .chain([&*hour_ahead.to_string()])
    {
        let token = it.drawn(proposal).await?;
        ensure!(token > last && token < hour_ahead, "{token} for {proposal}");
        last = token;
    }
    Ok(())
}

/// The bound is half the longest ttl ahead of the clock, and a second at most.
#[tokio::test]
async fn a_proposal_is_followed_up_to_its_bound_and_no_chain_of_them_gets_further() -> Result<()> {
    let server = MemoryStore::new();
    let now = 1_795_000_000_000_000;
    server.stop_clock(now);
    let it = Member::on(server).await?;
    let mut last = now - 1;
    for (longest, bound) in [
        ("1000", 500_000),
        ("2000", 1_000_000),
        ("3600000", 1_000_000),
    ] {
        for ahead in [bound + 1, bound, bound, 2 * bound] {
            let proposal = now + ahead;
            let token = token(&it.propose(A, &proposal.to_string(), longest).await?)?;
            let own = (last + 1).max(now);
            let expected = if ahead > bound {
                own
            } else {
                own.max(proposal)
            };
            ensure!(token == expected, "{token} for {proposal}, {longest}");
            last = token;
            it.release(A).await?;
        }
    }
    Ok(())
}
