//! A claim is granted, repeats its request, is renewed and verified.

use super::*;

vectors! { Scripts in [thin inflated reentrant_thin reentrant_inflated]:
    an_acquire_of_a_free_name_writes_the_claim_and_the_counter_with_a_ttl
    a_repeated_acquire_arms_the_ttl_again_and_gives_the_same_token
    a_repeated_acquire_or_renewal_never_shortens
    a_repeated_acquire_gives_its_token_whatever_became_of_the_counter
    a_repeat_of_a_grant_creates_nothing
    a_repeat_of_another_grant_arms_nothing
    an_acquire_of_a_held_name_says_for_how_long
    a_renewal_creates_nothing
    a_renewal_reaches_every_item_whatever_the_others_meet
    a_lease_that_is_over_is_nobodys
    verify_changes_nothing
    a_revoked_claim_holds_and_is_armed_no_more
}

async fn an_acquire_of_a_free_name_writes_the_claim_and_the_counter_with_a_ttl(
    it: &Scripts,
) -> Result<()> {
    it.is_free().await?;
    let token = token(&it.acquire(A).await?)?;
    let counter = name_of("name")?.counter();
    ensure!(it.keys().await? == [&*counter, MAIN]);
    let value = format!("{} x {} {token}", it.kind, A.text()?);
    ensure!(it.command(&["GET", MAIN]).await? == value);
    ensure!(it.command(&["GET", &counter]).await? == token.to_string());
    ensure!((29_000..=30_000).contains(&it.pttl(MAIN).await?));
    ensure!(
        (DAY - 1_000..=DAY).contains(&it.pttl(&counter).await?),
        "a day"
    );
    Ok(())
}

async fn a_repeated_acquire_arms_the_ttl_again_and_gives_the_same_token(
    it: &Scripts,
) -> Result<()> {
    let first = it.hold(A).await?;
    for repeat_knows_its_token in [false, true] {
        it.lease_ends_in(A, 3_000).await?;
        let again = match repeat_knows_its_token {
            true => it.repeat(A, first).await?,
            false => it.acquire(A).await?,
        };
        ensure!(token(&again)? == first);
        let left = it.left(A).await?;
        ensure!((29_000..=30_000).contains(&left), "{left} ms");
    }
    Ok(())
}

async fn a_repeated_acquire_or_renewal_never_shortens(it: &Scripts) -> Result<()> {
    it.hold_for(A, 2 * TTL).await?;
    token(&it.acquire(A).await?)?;
    ensure!(it.left(A).await? > 59_000);
    ensure!(it.renew(A).await? == "RENEWED");
    ensure!(it.left(A).await? > 59_000);
    ensure!(it.renew_for(A, 3 * TTL).await? == "RENEWED");
    ensure!(it.left(A).await? > 89_000);
    Ok(())
}

async fn a_repeated_acquire_gives_its_token_whatever_became_of_the_counter(
    it: &Scripts,
) -> Result<()> {
    let (first, counter) = (it.hold(A).await?, name_of("name")?.counter());
    it.command(&["DEL", &counter]).await?;
    ensure!(token(&it.acquire(A).await?)? == first);
    it.command(&["SET", &counter, "no number", "PX", "5000"])
        .await?;
    ensure!(token(&it.repeat(A, first).await?)? == first);
    Ok(())
}

async fn a_repeat_of_a_grant_creates_nothing(it: &Scripts) -> Result<()> {
    it.is_free().await?;
    ensure!(it.repeat(A, 7).await? == "GONE");
    ensure!(it.standing().await?.is_empty());
    let token = it.hold(B).await?;
    ensure!(it.repeat(A, token).await? == "GONE");
    ensure!(it.standing().await? == [format!("x:{}", B.text()?)]);
    Ok(())
}

async fn a_repeat_of_another_grant_arms_nothing(it: &Scripts) -> Result<()> {
    let token = it.hold(A).await?;
    it.lease_ends_in(A, 3_000).await?;
    ensure!(it.repeat(A, token - 1).await? == "GONE");
    ensure!(it.left(A).await? <= 3_000);
    Ok(())
}

async fn an_acquire_of_a_held_name_says_for_how_long(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    let left = number(
        &it.acquire_with(B, |ask| ask.ttl = 3 * TTL).await?,
        "BUSY",
        1,
    )?;
    ensure!((29_000..=30_000).contains(&left), "{left}");
    ensure!(it.standing().await? == [format!("x:{}", A.text()?)]);
    Ok(())
}

async fn a_renewal_creates_nothing(it: &Scripts) -> Result<()> {
    ensure!(it.renew(A).await? == "GONE");
    ensure!(it.keys().await?.is_empty());
    it.hold(B).await?;
    let before = it.dump().await?;
    ensure!(it.renew_for(A, 2 * TTL).await? == "GONE");
    ensure!(it.dump().await? == before);
    ensure!(it.left(B).await? <= 30_000);
    Ok(())
}

async fn a_renewal_reaches_every_item_whatever_the_others_meet(it: &Scripts) -> Result<()> {
    it.hold(A).await?;
    it.lease_ends_in(A, 3_000).await?;
    let (other, free) = (lock_on("other", it.kind)?, lock_on("free", it.kind)?);
    it.command(&["HSET", "lockkeeper:other", "field", "value"])
        .await?;
    let a = A.id()?;
    for inflated in [false, true] {
        let ask = usual(&a).on_inflated(inflated);
        let items = [other.renew(ask), it.lock()?.renew(ask), free.renew(ask)];
        let outcomes = it.batch(items).await?;
        let held = match it.inflates && !inflated {
            true => "INFLATED",
            false => "RENEWED",
        };
        ensure!(outcomes == ["GONE", held, "GONE"], "{outcomes:?}");
    }
    ensure!(it.left(A).await? > 29_000);
    Ok(())
}

async fn a_lease_that_is_over_is_nobodys(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    // The server deletes an expired key; an expired claim among others stays unnoticed.
    it.lease_ends_in(A, 0).await?;
    ensure!(it.verify(A).await? == "GONE");
    ensure!(it.renew(A).await? == "GONE");
    ensure!(it.repeat(A, first).await? == "GONE");
    ensure!(it.release(A).await? == "NOT_HELD 0");
    ensure!(token(&it.acquire(B).await?)? > first);
    Ok(())
}

async fn verify_changes_nothing(it: &Scripts) -> Result<()> {
    ensure!(it.verify(A).await? == "GONE");
    it.hold(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    let before = it.dump().await?;
    let left = number(&it.verify(A).await?, "HELD", 1)?;
    ensure!((8_000..=9_000).contains(&left), "{left}");
    ensure!(it.verify(B).await? == "GONE");
    ensure!(it.dump().await? == before);
    ensure!(it.left(A).await? <= 9_000);
    Ok(())
}

async fn a_revoked_claim_holds_and_is_armed_no_more(it: &Scripts) -> Result<()> {
    let first = it.hold(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    for _ in 0..2 {
        ensure!(it.revoke().await? == "TOLD 1");
    }
    for answer in [
        it.acquire(A).await?,
        it.repeat(A, first).await?,
        it.renew(A).await?,
        it.verify(A).await?,
    ] {
        ensure!(answer == "REVOKED", "{answer}");
    }
    number(&it.acquire(B).await?, "BUSY", 1)?;
    number(&it.acquire(A2).await?, "BUSY", 1)?;
    let leases = it.leases().await?;
    ensure!(
        leases[0].0 == format!("rx:{}", A.text()?) && leases[0].1 <= 9_000,
        "{leases:?}"
    );
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [name_of("name")?.counter()]);
    Ok(())
}
