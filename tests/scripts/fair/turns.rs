//! Who holds, who waits, and who is next.

use super::*;

vectors! { Fair:
    claims_are_granted_in_the_order_in_which_they_came
    a_free_name_is_granted_and_leaves_its_fence_alone_behind
    a_repeated_acquire_keeps_its_place
    a_repeated_acquire_of_a_holder_arms_and_creates_nothing
    a_heartbeat_never_shortens
    the_next_holder_is_told_its_token_and_its_last_request
    tokens_are_whole_numbers_whoever_draws_them
    a_try_never_passes_those_who_wait
    a_full_queue_takes_nobody_more
    a_waiter_leaves_its_place_to_the_next
    a_leave_run_twice_has_the_effect_of_once
    a_heartbeat_after_the_leave_creates_nothing
    a_marked_leave_stops_a_late_acquire
    an_owner_that_holds_is_let_in_past_the_queue
    a_revoked_holder_is_not_armed_and_its_owner_not_let_in
    a_kept_name_is_granted_to_nobody_before_its_time
    an_expired_holder_is_followed_at_the_next_heartbeat
    renew_and_verify_of_a_reentrant_lock_fit
    the_queue_is_told_to_whoever_asks
    every_key_carries_a_ttl
}

async fn claims_are_granted_in_the_order_in_which_they_came(it: &Fair) -> Result<()> {
    let mut last = line_up(it, &[D, C, B]).await?;
    ensure!(it.heartbeat(&[B, C, D]).await? == ["WAITING 3", "WAITING 2", "WAITING 1"]);
    let mut holder = A;
    for next in [D, C, B] {
        ensure!(it.leave(holder).await? == "RELEASED 1 0");
        let granted = token(&it.heartbeat(&[next]).await?[0])?;
        ensure!(granted > last);
        (holder, last) = (next, granted);
    }
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_free_name_is_granted_and_leaves_its_fence_alone_behind(it: &Fair) -> Result<()> {
    let told = it.told(async |it| {
        token(&it.acquire_with(A, "30000", "0", "0").await?)?;
        ensure!(it.keys().await? == [FENCE, MAIN]);
        ensure!(it.do_command(&["HGET", MAIN, "kind"]).await? == "fair");
        ensure!(it.leave(A).await? == "RELEASED 1 0");
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
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    ensure!(it.acquire_with(A, "1000", &first.to_string(), "-1").await? == "GONE");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_heartbeat_never_shortens(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    let (now, _) = it.number(WAITERS, "seen").await?.context("seen")?;
    let far = now + 1_000_000;
    it.do_command(&["HSET", WAITERS, B, &format!("{far}:3")])
        .await?;
    ensure!(it.heartbeat(&[B, A]).await?[0] == "WAITING 1");
    let (ends, _) = it.number(WAITERS, B).await?.context("B waits")?;
    ensure!(ends == far);
    let (lease, _) = it.number(MAIN, A).await?.context("A holds")?;
    ensure!(lease > now + 599_000);
    Ok(())
}

async fn the_next_holder_is_told_its_token_and_its_last_request(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.heartbeat(&[B]).await?;
    let last = it.last_request();
    let told = it.told(async |it| {
        ensure!(it.leave(A).await? == "RELEASED 1 0");
        Ok(())
    });
    let told = told.await?;
    let token = it.do_command(&["HGET", MAIN, "token"]).await?;
    ensure!(told == [format!("G {B} {token} {last}")], "{told:?}");
    ensure!(it.do_command(&["GET", FENCE]).await? == token);
    let left = it.pttl(MAIN).await?;
    ensure!((WAITER_TTL - 1_000..=WAITER_TTL).contains(&left), "{left}");
    // Its next heartbeat is a renewal to the full ttl.
    ensure!(it.heartbeat(&[B, C]).await? == [format!("GRANTED {token}"), "WAITING 1".to_owned()]);
    ensure!(it.pttl(MAIN).await? > 29_000);
    Ok(())
}

async fn tokens_are_whole_numbers_whoever_draws_them(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.do_command(&["SET", FENCE, "4503599627370495"]).await?;
    it.leave(A).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GRANTED 4503599627370496"]);
    it.leave(B).await?;
    ensure!(it.acquire(C).await? == "GRANTED 4503599627370497");
    it.leave(C).await?;
    ensure!(it.acquire(D).await? == "GRANTED 4503599627370498");
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
    ensure!(it.heartbeat(&[D]).await? == ["GONE"]);
    it.leave(B).await?;
    ensure!(waiting(&it.acquire_with(D, "30000", "0", "2").await?)? == 2);
    Ok(())
}

async fn a_waiter_leaves_its_place_to_the_next(it: &Fair) -> Result<()> {
    line_up(it, &[B, C, D]).await?;
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[C, D]).await? == ["WAITING 1", "WAITING 2"]);
    // The name is taken from its holder by force: whoever comes next settles.
    it.do_command(&["DEL", MAIN]).await?;
    ensure!(it.leave(C).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[D]).await?[0])?;
    Ok(())
}

async fn a_leave_run_twice_has_the_effect_of_once(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    ensure!(it.leave(C).await? == "RELEASED 1 0");
    ensure!(it.leave(C).await? == "NOT_HELD 0");
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    ensure!(it.leave(B).await? == "NOT_HELD 0");
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_heartbeat_after_the_leave_creates_nothing(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    it.leave(B).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    it.leave(A).await?;
    ensure!(it.heartbeat(&[A, B]).await? == ["GONE", "GONE"]);
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn a_marked_leave_stops_a_late_acquire(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    ensure!(it.leave_with(B, "0", "5000").await? == "RELEASED 1 0");
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
    ensure!(it.leave(A).await? == "RELEASED 1 1");
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    ensure!(it.leave(A2).await? == "RELEASED 1 0");

    // Both claims of an owner wait, and with the one the other is let in.
    ensure!(waiting(&it.acquire(A).await?)? == 2);
    ensure!(waiting(&it.acquire(D).await?)? == 3);
    ensure!(waiting(&it.acquire(A2).await?)? == 4);
    it.leave(B).await?;
    it.leave(C).await?;
    let granted = it.heartbeat(&[A, D, A2]).await?;
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
    ensure!(it.run(&name::REVOKE, &[MAIN, "readers"], &[]).await? == "TOLD 1");
    ensure!(it.acquire(A).await? == "REVOKED");
    ensure!(it.heartbeat(&[A, B]).await? == ["REVOKED", "WAITING 1"]);
    ensure!(waiting(&it.acquire(A2).await?)? == 2);
    ensure!(it.heartbeat(&[A2]).await? == ["WAITING 2"]);
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

async fn a_kept_name_is_granted_to_nobody_before_its_time(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    let left = number(&it.leave_with(A, "4000", "0").await?, "COOLDOWN", 2)?;
    ensure!((3_000..=4_000).contains(&left), "{left}");
    number(&it.leave_with(A, "4000", "0").await?, "COOLDOWN", 2)?;
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    number(&it.acquire_with(A2, "30000", "0", "0").await?, "BUSY", 1)?;
    it.pass(4_001).await?;
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

async fn an_expired_holder_is_followed_at_the_next_heartbeat(it: &Fair) -> Result<()> {
    let first = token(&it.acquire_with(A, "9000", "0", "-1").await?)?;
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    it.pass(8_000).await?;
    ensure!(it.heartbeat(&[B]).await? == ["WAITING 1"]);
    it.pass(1_001).await?;
    ensure!(token(&it.heartbeat(&[B]).await?[0])? > first);
    ensure!(it.leave(A).await? == "NOT_HELD 0");
    ensure!(it.heartbeat(&[A]).await? == ["GONE"]);
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
        let keys = [MAIN, FENCE, QUEUE, "readers"];
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
    ensure!(
        it.run(&name::FREE, &[MAIN, "readers"], &[A, "wake"])
            .await?
            == "RELEASED 1 0"
    );
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
        ensure!((600_000..=660_000).contains(&it.pttl(key).await?));
        it.do_command(&["PEXPIRE", key, "5000"]).await?;
    }
    it.heartbeat(&[B]).await?;
    for key in [QUEUE, WAITERS] {
        ensure!(it.pttl(key).await? > 600_000, "a heartbeat keeps {key}");
    }
    Ok(())
}
