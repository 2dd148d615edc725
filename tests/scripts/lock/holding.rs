//! What a holding claim may do and what is done to it, thin or inflated, in each share.

use super::*;

vectors! { [thin inflated] [mutex rwlock] {
    a_grant_writes_the_claim_and_a_release_leaves_nothing
    a_repeated_acquire_arms_and_creates_nothing
    a_heartbeat_of_a_holder_arms_and_never_shortens
    renewal_and_verification_see_who_holds
    a_release_run_twice_has_the_effect_of_once
    a_tombstone_stops_a_late_acquire
    a_cooldown_grants_to_nobody_before_its_time
    an_expired_holder_is_followed_at_the_next_heartbeat
    a_waiter_leaves_the_holder_exactly_its_lease
    a_revoked_holder_is_not_armed_and_its_owner_not_let_in
    another_kind_does_not_touch_what_is_held
    tokens_are_whole_numbers_whoever_draws_them
}}

mod of_owners {
    use super::*;

    vectors! { [thin inflated] [rwlock] {
        an_owner_that_holds_is_let_in_with_its_token
    }}

    async fn an_owner_that_holds_is_let_in_with_its_token(it: &Lock) -> Result<()> {
        for of in it.shares() {
            let first = it.hold(A).await?;
            ensure!(token(&it.ask(of(A2), TRY).await?)? == first);
            ensure!(token(&it.ask(of(A2), TRY).await?)? == first);
            ensure!(is_nearly(it.left(A).await?, HOUR));
            ensure!(is_nearly(it.left(of(A2)).await?, 60_000));
            ensure!(it.release(A).await? == "RELEASED 1 1");
            ensure!(it.verify(A).await? == "GONE");
            ensure!(waiting(&it.acquire(B).await?)? == 1);
            ensure!(it.release(of(A2)).await? == "RELEASED 1 0");
            ensure!(token(&it.heartbeat(&[B]).await?[0])? > first);
            ensure!(it.release(B).await? == "RELEASED 1 0");
            ensure!(it.keys().await?.is_empty());
        }
        Ok(())
    }
}

async fn a_grant_writes_the_claim_and_a_release_leaves_nothing(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let told = it.told(async {
            let claim = of(A);
            let token = token(&it.ask(claim, TRY).await?)?;
            ensure!(it.keys().await? == [it.main()]);
            let written = format!("{} {} {A} {token}", it.kind, claim.share);
            ensure!(it.value().await? == written);
            ensure!(is_nearly(it.pttl(&it.main()).await?, 60_000));
            ensure!(it.hold(claim).await? == token);
            ensure!(it.release(claim).await? == "RELEASED 1 0");
            Ok(())
        });
        ensure!(told.await?.is_empty());
        ensure!(it.keys().await?.is_empty());
        let counters = it.site.keys().await?;
        ensure!(counters == [it.name.counter()], "{counters:?}");
        ensure!(it.pttl(&it.name.counter()).await? > 0);
    }
    Ok(())
}

async fn a_repeated_acquire_arms_and_creates_nothing(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let claim = of(A);
        let first = it.hold_with(claim, USUAL).await?;
        let renewal = How {
            token: first,
            ..LONG
        };
        ensure!(token(&it.ask(claim, USUAL).await?)? == first);
        ensure!(token(&it.ask(claim, renewal).await?)? == first);
        ensure!(is_nearly(it.left(claim).await?, HOUR));
        let shorter = How {
            ttl: "1000",
            ..renewal
        };
        ensure!(token(&it.ask(claim, shorter).await?)? == first);
        ensure!(is_nearly(it.left(claim).await?, HOUR));
        let other = How { token: 17, ..USUAL };
        ensure!(it.ask(claim, other).await? == "GONE");
        ensure!(it.ask(of(B), other).await? == "GONE");
        ensure!(it.release(claim).await? == "RELEASED 1 0");
        ensure!(it.ask(claim, renewal).await? == "GONE");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn a_heartbeat_of_a_holder_arms_and_never_shortens(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = it.hold_with(of(A), USUAL).await?;
        it.pass(30_000).await?;
        ensure!(
            it.heartbeat(&[of(A), of(B)]).await? == [format!("GRANTED {first}"), "GONE".into()]
        );
        ensure!(is_nearly(it.left(of(A)).await?, 60_000));
        ensure!(it.hold(of(A)).await? == first);
        ensure!(it.heartbeat(&[of(A)]).await? == [format!("GRANTED {first}")]);
        ensure!(is_nearly(it.left(of(A)).await?, HOUR));
        ensure!(it.release(of(A)).await? == "RELEASED 1 0");
        ensure!(it.heartbeat(&[of(A)]).await? == ["GONE"]);
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn renewal_and_verification_see_who_holds(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold_with(of(A), USUAL).await?;
        ensure!(is_nearly(it.left(of(A)).await?, 60_000));
        ensure!(it.renew(of(A), "200000").await? == "DONE RENEWED");
        ensure!(is_nearly(it.left(of(A)).await?, 200_000));
        ensure!(it.renew(of(A), "1000").await? == "DONE RENEWED");
        ensure!(is_nearly(it.left(of(A)).await?, 200_000), "shortened");
        ensure!(it.renew(of(B), "200000").await? == "DONE GONE");
        ensure!(it.verify(of(B)).await? == "GONE");
        it.pass(200_001).await?;
        ensure!(it.renew(of(A), "200000").await? == "DONE GONE");
        ensure!(it.verify(of(A)).await? == "GONE");
        ensure!(it.release(of(A)).await? == "NOT_HELD 0");
    }
    Ok(())
}

async fn a_release_run_twice_has_the_effect_of_once(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        ensure!(it.release_with(of(B), "0", "0").await? == "NOT_HELD 0");
        ensure!(it.release_with(of(A), "0", "0").await? == "RELEASED 1 0");
        ensure!(it.release_with(of(A), "0", "0").await? == "NOT_HELD 0");
        token(&it.acquire(writer(B)).await?)?;
        ensure!(it.release(of(A)).await? == "NOT_HELD 0");
        ensure!(it.release(B).await? == "RELEASED 1 0");
        ensure!(it.release(B).await? == "NOT_HELD 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn a_tombstone_stops_a_late_acquire(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        ensure!(it.release_with(of(B), "0", "50000").await? == "NOT_HELD 0");
        ensure!(is_nearly(it.pttl(&it.tombstone(B)).await?, 50_000));
        ensure!(it.ask(of(B), TRY).await? == "GONE");
        ensure!(it.acquire(of(B)).await? == "GONE");
        ensure!(it.release_with(of(A), "0", "50000").await? == "RELEASED 1 0");
        for late in [A, B] {
            ensure!(it.acquire(of(late)).await? == "GONE");
        }
        let mut left = [it.tombstone(A), it.tombstone(B)];
        left.sort();
        ensure!(it.keys().await? == left);
        it.command(&["DEL", &left[0], &left[1]]).await?;
    }
    Ok(())
}

async fn a_cooldown_grants_to_nobody_before_its_time(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    for _ in 0..2 {
        let reply = it.release_with(A, "40000", "0").await?;
        ensure!(is_nearly(number(&reply, "COOLDOWN", 2)?, 40_000), "{reply}");
        for key in it.keys().await? {
            ensure!(it.pttl(&key).await? > 0, "{key}");
        }
    }
    ensure!(it.verify(A).await? == "GONE");
    ensure!(it.renew(A, "60000").await? == "DONE GONE");
    let reply = it.acquire(B).await?;
    ensure!(is_nearly(number(&reply, "WAITING", 1)?, 40_000), "{reply}");
    for of in it.shares() {
        number(&it.ask(of(A2), TRY).await?, "BUSY", 1)?;
    }
    ensure!(it.heartbeat(&[A, B]).await? == ["GONE", "WAITING 1"]);
    ensure!(is_nearly(it.first_end(B).await?, 40_000));
    it.pass(40_001).await?;
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

async fn an_expired_holder_is_followed_at_the_next_heartbeat(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = it.hold_with(of(A), USUAL).await?;
        ensure!(waiting(&it.acquire(B).await?)? == 1);
        it.pass(10_000).await?;
        ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
        it.pass(50_001).await?;
        ensure!(token(&it.heartbeat(&[B]).await?[0])? > first);
        ensure!(it.release(of(A)).await? == "NOT_HELD 0");
        ensure!(it.heartbeat(&[of(A)]).await? == ["GONE"]);
        ensure!(it.counted(A).await?.is_empty());
        ensure!(it.release(B).await? == "RELEASED 1 0");
    }
    Ok(())
}

async fn a_waiter_leaves_the_holder_exactly_its_lease(it: &Lock) -> Result<()> {
    for of in it.shares() {
        for how in [USUAL, LONG] {
            let first = it.hold_with(of(A), how).await?;
            it.pass(7_000).await?;
            let before = it.end(of(A)).await?;
            let reply = it.acquire(B).await?;
            ensure!(waiting(&reply)? == 1, "{reply}");
            let after = it.end(of(A)).await?;
            ensure!(before <= after, "shortened by {} ms", before - after);
            // Any other duration that the script could use would differ by more than a slow server's delay.
            ensure!(after - before < 5_000, "longer by {} ms", after - before);
            ensure!(token(&it.ask(of(A), USUAL).await?)? == first);
            ensure!(it.release(of(A)).await? == "RELEASED 1 0");
            ensure!(it.release(B).await? == "RELEASED 1 0");
        }
    }
    Ok(())
}

async fn a_revoked_holder_is_not_armed_and_its_owner_not_let_in(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold_with(of(A), USUAL).await?;
        for _ in 0..2 {
            ensure!(it.revoke().await? == "TOLD 1");
        }
        ensure!(it.ask(of(A), LONG).await? == "REVOKED");
        ensure!(it.renew(of(A), "3600000").await? == "DONE REVOKED");
        ensure!(it.verify(of(A)).await? == "REVOKED");
        for nested in it.shares() {
            number(&it.ask(nested(B), TRY).await?, "BUSY", 1)?;
        }
        number(&it.ask(of(A2), TRY).await?, "BUSY", 1)?;
        ensure!(waiting(&it.acquire(B).await?)? == 1);
        ensure!(waiting(&it.acquire(of(A2)).await?)? == 2);
        ensure!(it.heartbeat(&[of(A), of(A2)]).await? == ["REVOKED", "WAITING 2"]);
        let reply = it.ask(of(C), TRY).await?;
        ensure!(is_nearly(number(&reply, "BUSY", 1)?, 60_000), "{reply}");
        ensure!(it.release(of(A)).await? == "RELEASED 1 0");
        token(&it.heartbeat(&[B]).await?[0])?;
        for claim in [writer(B), of(A2)] {
            ensure!(it.release(claim).await? == "RELEASED 1 0");
        }
    }
    Ok(())
}

async fn another_kind_does_not_touch_what_is_held(it: &Lock) -> Result<()> {
    for of in it.shares() {
        it.hold(of(A)).await?;
        let before = it.value().await?;
        let other = Lock {
            kind: "reentrant",
            ..it.clone()
        };
        ensure!(other.acquire(B).await? == "WRONG_KIND");
        ensure!(other.heartbeat(&[of(A)]).await? == ["GONE"]);
        ensure!(other.release_with(of(A), "0", "0").await? == "NOT_HELD 0");
        ensure!(other.convert(B, of(A), "0").await? == "WRONG_KIND");
        ensure!(it.value().await? == before);
        ensure!(is_nearly(it.left(of(A)).await?, HOUR));
        ensure!(it.release(of(A)).await? == "RELEASED 1 0");
    }
    Ok(())
}

async fn tokens_are_whole_numbers_whoever_draws_them(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    let far = ["SET", &it.name.counter(), "4503599627370495"];
    it.command(&far).await?;
    for claim in [B, C] {
        waiting(&it.acquire(claim).await?)?;
    }
    it.release(A).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GRANTED 4503599627370496"]);
    it.release(B).await?;
    ensure!(it.acquire(C).await? == "GRANTED 4503599627370497");
    it.release(C).await?;
    ensure!(it.acquire(D).await? == "GRANTED 4503599627370498");
    Ok(())
}
