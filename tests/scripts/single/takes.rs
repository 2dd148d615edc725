//! The first request of an acquisition: `lock/take`, and the command by which a release of what it granted is sent.

use lockkeeper_lua::lock;

use super::*;

vectors! { Scripts in [thin reentrant_thin]:
    a_free_name_is_taken_and_dropped
    whatever_else_stands_there_is_left_to_the_other_script
    a_claim_that_was_released_takes_nothing
    a_try_is_told_of_a_claim_that_has_all_of_the_name
    a_try_leaves_everything_else_to_the_other_script
    what_only_begins_with_the_value_is_not_dropped
    a_ttl_that_is_no_number_leaves_no_value
}

/// Takes the name, for a claim that waits or does not.
async fn take(it: &Scripts, who: Who, waits: bool) -> Result<String> {
    let id = who.id()?;
    let limit = if waits { None } else { Some(0) };
    let ask = usual(&id).on_inflated(false).queueing(TTL, limit);
    it.call(it.lock()?.taking().acquire(ask)).await
}

async fn drop_value(it: &Scripts, value: &str) -> Result<String> {
    it.run(&lock::DROP, [MAIN.to_owned()], &[value]).await
}

async fn a_free_name_is_taken_and_dropped(it: &Scripts) -> Result<()> {
    let token = token(&take(it, A, true).await?)?;
    let value = format!("{} x {} {token}", it.kind, A.text()?);
    ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
    ensure!(it.command(&["LLEN", MAIN]).await? == "1");
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    ensure!(it.renew(A).await? == "RENEWED");
    ensure!(drop_value(it, &value).await? == "DROPPED");
    ensure!(it.keys().await? == [name_of("name")?.counter()]);
    ensure!(drop_value(it, &value).await? == "INFLATED");
    Ok(())
}

async fn whatever_else_stands_there_is_left_to_the_other_script(it: &Scripts) -> Result<()> {
    it.acquire(B).await?;
    let marker = format!("{} * 0 0 0 0 - -", it.kind);
    for stands in [
        None,
        Some(["SET", MAIN, "peer"]),
        Some(["RPUSH", MAIN, &marker]),
    ] {
        if let Some(words) = stands {
            it.command(&["DEL", MAIN]).await?;
            it.command(&words).await?;
        }
        let before = it.dump().await?;
        ensure!(take(it, A, true).await? == "INFLATED", "{stands:?}");
        ensure!(it.dump().await? == before, "{stands:?}");
    }
    Ok(())
}

async fn a_claim_that_was_released_takes_nothing(it: &Scripts) -> Result<()> {
    it.release_in_doubt(A).await?;
    let before = it.dump().await?;
    for waits in [true, false] {
        ensure!(take(it, A, waits).await? == "INFLATED");
    }
    ensure!(it.dump().await? == before);
    Ok(())
}

async fn a_try_is_told_of_a_claim_that_has_all_of_the_name(it: &Scripts) -> Result<()> {
    token(&take(it, B, true).await?)?;
    number(&it.acquire(C).await?, "BUSY", 1)?;
    ensure!(it.is_polled().await?);
    for revoked in [false, true] {
        if revoked {
            ensure!(it.revoke().await? == "TOLD 1");
        }
        let before = it.dump().await?;
        let left = number(&take(it, A, false).await?, "BUSY", 1)?;
        ensure!(is_nearly(left, 30_000), "{left} ms");
        ensure!(it.dump().await? == before);
    }
    Ok(())
}

/// Its own owner, which may be let in; a claim in cooldown; a claim of another kind; parts of the name.
async fn a_try_leaves_everything_else_to_the_other_script(it: &Scripts) -> Result<()> {
    let (kind, own, other) = (it.kind, A2.text()?, B.text()?);
    for value in [
        format!("{kind} x {own} 7"),
        format!("{kind} x {other} 7c"),
        format!("{kind} x {other} 7cp"),
        format!("fair x {other} 7"),
        format!("{kind} 1 {other} 7"),
        format!("{kind} * 1 1 0 7 - {other}"),
        "peer".to_owned(),
    ] {
        it.command(&["DEL", MAIN]).await?;
        it.command(&["RPUSH", MAIN, &value]).await?;
        ensure!(take(it, A, false).await? == "INFLATED", "{value}");
        ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
    }
    Ok(())
}

async fn what_only_begins_with_the_value_is_not_dropped(it: &Scripts) -> Result<()> {
    let token = token(&take(it, A, true).await?)?;
    let value = format!("{} x {} {token}", it.kind, A.text()?);
    number(&it.acquire(B).await?, "BUSY", 1)?;
    ensure!(it.is_polled().await?);
    for value in [&*value, &value[..value.len() - 1], ""] {
        ensure!(drop_value(it, value).await? == "INFLATED");
    }
    it.command(&["DEL", MAIN]).await?;
    it.command(&["SET", MAIN, &value]).await?;
    ensure!(drop_value(it, &value).await? == "INFLATED");
    ensure!(it.command(&["GET", MAIN]).await? == value);
    Ok(())
}

async fn a_ttl_that_is_no_number_leaves_no_value(it: &Scripts) -> Result<()> {
    let (name, id) = (name_of("name")?, A.id()?);
    let keys = [name.main().to_owned(), name.counter(), name.tombstone(&id)];
    let value = format!("{} x {id} ", it.kind);
    for ttl in ["", "soon", "1.5", "99999999999999999999"] {
        let taken = it
            .run(&lock::TAKE, keys.clone(), &[&value, ttl, "0", "0"])
            .await;
        ensure!(taken.is_err(), "{ttl:?}: {taken:?}");
        ensure!(it.command(&["EXISTS", MAIN]).await? == "0", "{ttl:?}");
    }
    Ok(())
}
