//! The two states of a name, and the transitions between them.

use super::*;

vectors! { Scripts in [thin reentrant_thin]:
    the_thin_release_of_an_inflated_name_changes_nothing
    the_thin_renewal_of_an_inflated_name_changes_nothing
    the_renewal_of_inflated_names_understands_a_thin_value
    a_name_stays_inflated_until_nobody_stands_there_and_nobody_waits
    a_marker_over_nobody_is_free_for_every_kind_and_leaves_nothing_behind
    a_marker_over_dead_waiters_is_free_for_another_kind
    a_marker_over_a_waiter_alive_is_of_its_kind
    a_name_inflates_over_what_is_left_of_before
    the_marker_outlives_every_derived_key
}

async fn inflated(it: &Scripts) -> Result<i64> {
    let token = token(&it.acquire(A).await?)?;
    it.inflate("name", it.kind, A).await?;
    Ok(token)
}

/// An acquire that waits, for any kind.
async fn wait(it: &Scripts, who: Who) -> Result<String> {
    it.call(it.lock()?.queueing().acquire(usual(&who.id()?)))
        .await
}

/// A release for a kind that may wait: it uses the scripts for inflated names.
async fn withdraw(it: &Scripts, who: Who) -> Result<String> {
    let id = who.id()?;
    it.call(it.lock()?.queueing().release(usual(&id), false))
        .await
}

async fn the_thin_release_of_an_inflated_name_changes_nothing(it: &Scripts) -> Result<()> {
    inflated(it).await?;
    number(&it.acquire(B).await?, "BUSY", 1)?;
    let (before, mut poller) = (it.dump().await?, it.poller().await?);
    for claim in [A, B] {
        let id = claim.id()?;
        let ask = usual(&id).on_inflated(false);
        let ask = ask.granted(Some(FencingToken::new(7)));
        ensure!(it.call(it.lock()?.release(ask, false)).await? == "INFLATED");
    }
    ensure!(it.dump().await? == before);
    ensure!(is_nearly(it.left(A).await?, 30_000) && it.pttl(MAIN).await? > 600_000);
    ensure!(poller.heard(it).await?.is_empty());
    Ok(())
}

async fn the_thin_renewal_of_an_inflated_name_changes_nothing(it: &Scripts) -> Result<()> {
    inflated(it).await?;
    it.lease_ends_in(A, 3_000).await?;
    it.command(&["PEXPIRE", MAIN, "20000"]).await?;
    let before = it.dump().await?;
    for claim in [A, B] {
        let id = claim.id()?;
        let ask = usual(&id).on_inflated(false);
        ensure!(it.batch([it.lock()?.renew(ask)]).await? == ["INFLATED"]);
    }
    ensure!(it.dump().await? == before);
    ensure!(it.left(A).await? <= 3_000 && it.pttl(MAIN).await? <= 20_000);
    Ok(())
}

async fn the_renewal_of_inflated_names_understands_a_thin_value(it: &Scripts) -> Result<()> {
    token(&it.acquire(A).await?)?;
    it.lease_ends_in(A, 3_000).await?;
    let (a, b) = (A.id()?, B.id()?);
    let free = lock_on("free", it.kind)?;
    let items = || {
        Ok::<_, anyhow::Error>([
            it.lock()?.renew(usual(&b)),
            it.lock()?.renew(usual(&a)),
            free.renew(usual(&a)),
        ])
    };
    let before = it.dump().await?;
    ensure!(it.batch(items()?).await? == ["GONE", "RENEWED", "GONE"]);
    let left = it.left(A).await?;
    ensure!(is_nearly(left, 30_000), "{left} ms");
    ensure!(it.dump().await? == before);

    it.revoke().await?;
    it.lease_ends_in(A, 3_000).await?;
    ensure!(it.batch(items()?).await? == ["GONE", "REVOKED", "GONE"]);
    ensure!(it.pttl(MAIN).await? <= 3_000);
    it.release_with(A, TTL / 3).await?;
    ensure!(it.batch(items()?).await? == ["GONE", "GONE", "GONE"]);
    ensure!(it.pttl(MAIN).await? <= 10_000);
    Ok(())
}

async fn a_name_stays_inflated_until_nobody_stands_there_and_nobody_waits(
    it: &Scripts,
) -> Result<()> {
    let first = inflated(it).await?;
    let owner = format!("{CLIENT}:1");
    let flags = if it.kind == "mutex" { "-" } else { "-e" };
    let value = format!("{} * 1 1 0 {first} {flags} {owner}", it.kind);
    ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
    ensure!(it.keys().await? == [&*name_of("name")?.counter(), HOLDERS, MAIN]);
    number(&wait(it, B).await?, "WAITING", 1)?;
    number(&wait(it, C).await?, "WAITING", 1)?;
    ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
    ensure!(it.keys().await? == [&*name_of("name")?.counter(), HOLDERS, QUEUE, STATE, MAIN]);
    ensure!(withdraw(it, A).await? == "RELEASED 1 0");
    // It was the next claim's turn.
    ensure!(it.standing().await? == [format!("x:{}", B.text()?)]);
    ensure!(withdraw(it, C).await? == "RELEASED 1 0");
    ensure!(
        it.command(&["LINDEX", MAIN, "0"])
            .await?
            .contains(" * 1 1 0 ")
    );
    ensure!(withdraw(it, B).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [name_of("name")?.counter()]);
    Ok(())
}

async fn a_marker_over_nobody_is_free_for_every_kind_and_leaves_nothing_behind(
    it: &Scripts,
) -> Result<()> {
    let mut last = 0;
    for kind in ["mutex", "reentrant", "fair", "rwlock", "readers"] {
        let lock = match kind {
            "readers" => readers_on("name")?,
            kind => lock_on("name", kind)?,
        };
        let first = inflated(it).await?;
        it.lease_ends_in(A, -1).await?;
        let next = token(&it.call(lock.acquire(usual(&B.id()?))).await?)?;
        ensure!(next > first && first > last, "{kind}");
        let (share, kind) = if kind == "readers" {
            ("1", "rwlock")
        } else {
            ("x", kind)
        };
        ensure!(
            it.command(&["LINDEX", MAIN, "0"]).await?
                == format!("{kind} {share} {} {next}", B.text()?)
        );
        ensure!(it.keys().await? == [&*name_of("name")?.counter(), MAIN]);
        ensure!(it.call(lock.release(usual(&B.id()?), false)).await? == "RELEASED 1 0");
        last = next;
    }
    Ok(())
}

/// A name whose holder's lease has ended and for which B waits, and the lock of another kind on it.
async fn waited_for(it: &Scripts) -> Result<LockProtocol> {
    inflated(it).await?;
    number(&wait(it, B).await?, "WAITING", 1)?;
    it.lease_ends_in(A, -1).await?;
    lock_on(
        "name",
        if it.kind == "mutex" {
            "reentrant"
        } else {
            "mutex"
        },
    )
}

async fn a_marker_over_dead_waiters_is_free_for_another_kind(it: &Scripts) -> Result<()> {
    let other = waited_for(it).await?;
    it.command(&["HSET", STATE, &B.text()?, "1:100000:7"])
        .await?;
    token(&it.call(other.acquire(usual(&C.id()?))).await?)?;
    ensure!(it.keys().await? == [&*name_of("name")?.counter(), MAIN]);
    Ok(())
}

async fn a_marker_over_a_waiter_alive_is_of_its_kind(it: &Scripts) -> Result<()> {
    let other = waited_for(it).await?;
    ensure!(it.call(other.acquire(usual(&C.id()?))).await? == "WRONG_KIND");
    let b = B.id()?;
    let beat = it
        .batch([it.lock()?.queueing().heartbeat(usual(&b))])
        .await?
        .join(" ");
    token(&beat)?;
    Ok(())
}

async fn a_name_inflates_over_what_is_left_of_before(it: &Scripts) -> Result<()> {
    inflated(it).await?;
    number(&wait(it, B).await?, "WAITING", 1)?;
    it.command(&["DEL", MAIN]).await?;
    token(&it.acquire(C).await?)?;
    ensure!(
        number(&wait(it, Who(4, 1)).await?, "WAITING", 2)? == 1,
        "behind somebody of before"
    );
    ensure!(it.standing().await? == [format!("x:{}", C.text()?)]);
    ensure!(it.place(B).await? == "QUEUED 1 0" && it.place(Who(4, 1)).await? == "QUEUED 1 1");
    it.every_key_ends().await
}

async fn the_marker_outlives_every_derived_key(it: &Scripts) -> Result<()> {
    let hours = Duration::from_secs(7200);
    inflated(it).await?;
    it.every_key_ends().await?;
    number(&wait(it, B).await?, "WAITING", 1)?;
    it.every_key_ends().await?;
    let b = B.id()?;
    let beat = it
        .batch([it.lock()?.queueing().heartbeat(usual(&b))])
        .await?;
    ensure!(number(&beat[0], "WAITING", 1)? == 1, "{beat:?}");
    it.every_key_ends().await?;
    ensure!(it.renew_for(A, hours).await? == "RENEWED");
    ensure!(it.pttl(MAIN).await? > 7_190_000 && it.left(A).await? > 7_190_000);
    it.every_key_ends().await?;
    token(&it.acquire_with(A, |ask| ask.ttl = 2 * hours).await?)?;
    ensure!(it.pttl(MAIN).await? > 14_390_000 && it.pttl(HOLDERS).await? > 14_390_000);
    it.every_key_ends().await?;
    ensure!(withdraw(it, B).await? == "RELEASED 1 0");
    ensure!(it.release_with(A, 3 * hours).await?.starts_with("COOLDOWN"));
    ensure!(it.pttl(MAIN).await? > 21_590_000 && it.pttl(HOLDERS).await? > 21_590_000);
    it.every_key_ends().await
}
