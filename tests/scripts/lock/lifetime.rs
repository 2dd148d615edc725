//! The lifetime of an inflated name's keys: they expire together, after everything that the marker stands for.

use super::*;

vectors! { [thin inflated] [rwlock] {
    every_key_carries_a_ttl
    a_marker_outlives_an_hour_long_lease
    a_nested_claim_in_an_inflated_name_leaves_no_key_without_ttl
    renewals_alone_keep_what_belongs_to_the_holders
    a_queue_lives_for_as_long_as_its_waiters_are_heard
    leases_that_begin_where_nobody_stood_are_outlived_by_their_keys
}}

/// All existing keys expire, and the marker not before another.
async fn all_end(it: &Lock, range: std::ops::RangeInclusive<i64>) -> Result<()> {
    let left = it.pttl(&it.main()).await?;
    ensure!(range.contains(&left), "{left} ms are left to the marker");
    // Reads the marker first: a key that is read later has had more time to expire.
    const OUTLIVES: &str = "local marker = redis.call('PTTL', KEYS[1])
for i = 2, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left == -1 or left > marker then return KEYS[i] end
end
return ''";
    let [main, holders, queue, state] = it.all();
    let outlives = ["EVAL", OUTLIVES, "4", &main, &holders, &queue, &state];
    let later = it.command(&outlives).await?;
    ensure!(later.is_empty(), "{later} outlives the marker");
    Ok(())
}

async fn every_key_carries_a_ttl(it: &Lock) -> Result<()> {
    let remembered = MEMORY..=2 * MEMORY;
    it.hold_with(A, USUAL).await?;
    for claim in [B, C] {
        waiting(&it.acquire(claim).await?)?;
    }
    it.release_with(D, "0", "50000").await?;
    ensure!(it.keys().await?.len() == 5);
    ensure!(it.pttl(&it.tombstone(D)).await? > 0);
    all_end(it, remembered.clone()).await?;
    for key in it.all() {
        it.command(&["PEXPIRE", &key, "50000"]).await?;
    }
    it.heartbeat(&[B]).await?;
    all_end(it, remembered.clone()).await?;
    it.release(A).await?;
    all_end(it, remembered).await
}

async fn a_marker_outlives_an_hour_long_lease(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        ensure!(waiting(&it.acquire(B).await?)? == 1);
        all_end(it, HOUR - SLACK..=HOUR).await?;
        // The rest of the keys' lifetime; the lease must not get more than the marker.
        it.pass(HOUR - 2 * SLACK).await?;
        it.heartbeat(&[B]).await?;
        ensure!(it.left(of(A)).await? > 0);
        all_end(it, MEMORY..=HOUR).await?;
        ensure!(it.renew(of(A), "7200000").await? == "DONE RENEWED");
        all_end(it, 2 * HOUR - SLACK..=2 * HOUR).await?;
        ensure!(it.release(of(A)).await? == "RELEASED 1 0");
        ensure!(it.release(B).await? == "RELEASED 1 0");
    }
    Ok(())
}

async fn a_nested_claim_in_an_inflated_name_leaves_no_key_without_ttl(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(A).await?;
        token(&it.acquire(of(A2)).await?)?;
        all_end(it, MEMORY..=HOUR).await?;
        number(&it.release_with(A, "40000", "0").await?, "RELEASED", 2)?;
        all_end(it, MEMORY..=HOUR).await?;
        number(&it.release_with(of(A2), "40000", "0").await?, "COOLDOWN", 2)?;
        all_end(it, MEMORY..=HOUR).await?;
        it.pass(40_001).await?;
    }
    Ok(())
}

/// The server hears only from holders: what it knows about them must not expire before they end. Waiters keep their queue by
/// heartbeats, and this one is dead.
async fn renewals_alone_keep_what_belongs_to_the_holders(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = it.hold_with(of(A), USUAL).await?;
        ensure!(token(&it.acquire(of(A2)).await?)? == first);
        ensure!(waiting(&it.acquire(B).await?)? == 1);
        for _ in 0..50 {
            it.pass(30_000).await?;
            for claim in [A, A2] {
                ensure!(it.renew(of(claim), "60000").await? == "DONE RENEWED");
            }
        }
        // Not compared with one another: moving time by hand changes each by a few ms.
        let [main, holders, _, state] = it.all();
        let keys = match of(A).share {
            "x" => vec![main, holders],
            _ => vec![main, holders, state],
        };
        for key in keys {
            let left = it.pttl(&key).await?;
            ensure!((MEMORY..=2 * MEMORY).contains(&left), "{key}: {left} ms");
        }
        for claim in [A, A2] {
            ensure!(token(&it.acquire(of(claim)).await?)? == first);
        }
        ensure!(it.release(of(A)).await? == "RELEASED 1 1");
        ensure!(it.release(of(A2)).await? == "RELEASED 1 0");
        it.command(&["DEL", &it.main()]).await?;
    }
    Ok(())
}

/// Renewals, which do not arm it, came first.
async fn a_queue_lives_for_as_long_as_its_waiters_are_heard(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        for claim in [B, C] {
            waiting(&it.acquire(claim).await?)?;
        }
        for key in it.all() {
            it.command(&["PEXPIRE", &key, "599000"]).await?;
        }
        ensure!(it.renew(of(A), "60000").await? == "DONE RENEWED");
        ensure!(it.heartbeat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
        for key in it.all() {
            let left = it.pttl(&key).await?;
            ensure!(left > MEMORY, "{key}: {left} ms");
        }
        it.command(&["DEL", &it.main()]).await?;
    }
    Ok(())
}

/// A claim that is granted from the queue when no holder is left recreates the holders. They live as long as the marker, which
/// is enough for a slightly shorter lease.
async fn leases_that_begin_where_nobody_stood_are_outlived_by_their_keys(it: &Lock) -> Result<()> {
    const LITTLE_LESS_THAN_AN_HOUR: How = How {
        ttl: "3599500",
        ..USUAL
    };
    for of in it.shares() {
        it.hold_with(B, USUAL).await?;
        for claim in [of(A), writer(C)] {
            waiting(&it.acquire(claim).await?)?;
        }
        for key in it.all() {
            it.command(&["PEXPIRE", &key, "3600000"]).await?;
        }
        ensure!(it.release(B).await? == "RELEASED 1 0");
        // Its owner was granted from the queue.
        token(&it.ask(of(A2), LITTLE_LESS_THAN_AN_HOUR).await?)?;
        let [main, holders, ..] = it.all();
        for key in [main, holders] {
            let left = it.pttl(&key).await?;
            // Read a moment later, so it can only be less.
            let lease = it.left(of(A2)).await?;
            ensure!(left >= lease, "{key}: {left} ms, the lease {lease}");
        }
        it.command(&["DEL", &it.main()]).await?;
    }
    Ok(())
}
