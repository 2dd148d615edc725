//! Which claims may hold together, with which token, and for how long.

use super::*;

vectors! { [thin inflated] [rwlock] {
    readers_share_a_token_and_each_write_draws_its_own
    an_owner_that_writes_gets_in_in_either_mode
    a_read_that_outlives_its_write_does_not_give_its_token_on
    an_owner_that_reads_gets_in_to_read_and_never_waits_for_itself
    the_claims_of_an_owner_that_reads_are_counted_however_they_go
    tokens_of_readers_are_whole_numbers
    a_cooldown_of_a_read_keeps_writers_out_and_that_of_a_write_everybody
    each_reader_has_a_lease_of_its_own
    the_dead_stay_dead_when_the_clock_steps_back
    all_readers_are_revoked_and_freed_together
    nobody_joins_a_read_that_was_revoked_after_its_write
}}

async fn readers_share_a_token_and_each_write_draws_its_own(it: &Lock) -> Result<()> {
    let read = it.hold(reader(A)).await?;
    ensure!(token(&it.acquire(reader(B)).await?)? == read);
    ensure!(waiting(&it.acquire(C).await?)? == 1);
    ensure!(it.release(reader(A)).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    ensure!(it.release(reader(B)).await? == "RELEASED 1 0");
    let written = token(&it.heartbeat(&[C]).await?[0])?;
    ensure!(written > read);
    ensure!(it.release(C).await? == "RELEASED 1 0");
    ensure!(token(&it.acquire(reader(D)).await?)? > written);
    Ok(())
}

async fn an_owner_that_writes_gets_in_in_either_mode(it: &Lock) -> Result<()> {
    let first = it.hold(A).await?;
    ensure!(token(&it.ask(reader(A2), TRY).await?)? == first);
    ensure!(waiting(&it.acquire(reader(B)).await?)? == 1);
    ensure!(token(&it.ask(A3, TRY).await?)? == first);
    number(&it.ask(reader(C), TRY).await?, "BUSY", 1)?;
    ensure!(it.release(A).await? == "RELEASED 1 2");
    ensure!(it.heartbeat(&[reader(B)]).await? == ["WAITING 1"]);
    ensure!(it.release(reader(A2)).await? == "RELEASED 1 1");
    ensure!(it.release(A3).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[reader(B)]).await?[0])? > first);
    Ok(())
}

async fn a_read_that_outlives_its_write_does_not_give_its_token_on(it: &Lock) -> Result<()> {
    let written = it.hold(A).await?;
    ensure!(token(&it.acquire(reader(A2)).await?)? == written);
    ensure!(it.release(A).await? == "RELEASED 1 1");
    let read = token(&it.acquire(reader(B)).await?)?;
    ensure!(read > written);
    ensure!(token(&it.acquire(reader(C)).await?)? == read);
    // Inside its own read it has that read's token, as its guard expects.
    ensure!(token(&it.acquire(reader(A3)).await?)? == written);
    ensure!(token(&it.acquire(reader(A2)).await?)? == written);
    let heartbeat = it.heartbeat(&[reader(A3), reader(B)]).await?;
    ensure!(heartbeat == [format!("GRANTED {written}"), format!("GRANTED {read}")]);
    number(&it.ask(D, TRY).await?, "BUSY", 1)?;
    Ok(())
}

async fn an_owner_that_reads_gets_in_to_read_and_never_waits_for_itself(it: &Lock) -> Result<()> {
    let first = it.hold(reader(A)).await?;
    ensure!(it.acquire(A2).await? == "WOULD_DEADLOCK");
    ensure!(waiting(&it.acquire(B).await?)? == 1);
    ensure!(waiting(&it.acquire(reader(C)).await?)? == 2);
    ensure!(token(&it.ask(reader(A2), TRY).await?)? == first);
    ensure!(it.acquire(A3).await? == "WOULD_DEADLOCK");
    ensure!(it.release(reader(A)).await? == "RELEASED 1 1");
    ensure!(it.acquire(A3).await? == "WOULD_DEADLOCK");
    ensure!(it.release(reader(A2)).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[reader(C)]).await? == ["WAITING 1"]);
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

async fn the_claims_of_an_owner_that_reads_are_counted_however_they_go(it: &Lock) -> Result<()> {
    let first = it.hold(reader(A)).await?;
    ensure!(token(&it.acquire(reader(A2)).await?)? == first);
    ensure!(token(&it.acquire(reader(A2)).await?)? == first);
    ensure!(it.counted(A).await? == format!("2 {first}"));
    // One is released,
    ensure!(it.release(reader(A)).await? == "RELEASED 1 1");
    ensure!(it.release(reader(A)).await? == "NOT_HELD 1");
    ensure!(it.counted(A).await? == format!("1 {first}"));
    // one cools down,
    token(&it.acquire(reader(A3)).await?)?;
    ensure!(it.release_with(reader(A3), "90000", "0").await? == "RELEASED 1 1");
    ensure!(it.counted(A).await? == format!("1 {first}"));
    ensure!(it.counts().await? == "0 0 2");
    // one expires,
    token(&it.ask(reader(A), LONG).await?)?;
    ensure!(it.counted(A).await? == format!("2 {first}"));
    it.pass(60_001).await?;
    ensure!(
        it.heartbeat(&[reader(A), reader(A2)]).await?
            == [format!("GRANTED {first}"), "GONE".into()]
    );
    ensure!(it.counted(A).await? == format!("1 {first}"));
    ensure!(it.counts().await? == "0 0 2");
    // and one is converted, behind the one that cooled down.
    it.pass(30_000).await?;
    let written = token(&it.convert(A2, reader(A), "0").await?)?;
    ensure!(it.counted(A).await?.is_empty());
    ensure!(it.counts().await? == "1 1 0");
    ensure!(token(&it.acquire(reader(A3)).await?)? == written);
    ensure!(it.counted(A).await? == format!("1 {written}"));
    ensure!(token(&it.convert(reader(A), A2, "0").await?)? == written);
    ensure!(it.counted(A).await? == format!("2 {written}"));
    Ok(())
}

async fn tokens_of_readers_are_whole_numbers(it: &Lock) -> Result<()> {
    let far = ["SET", &it.name.counter(), "4503599627370495"];
    it.command(&far).await?;
    ensure!(it.hold(reader(A)).await? == 4_503_599_627_370_496);
    ensure!(it.acquire(reader(B)).await? == "GRANTED 4503599627370496");
    number(&it.convert(A2, reader(A), "0").await?, "BUSY", 1)?;
    it.release(reader(B)).await?;
    ensure!(it.convert(A2, reader(A), "0").await? == "GRANTED 4503599627370497");
    ensure!(it.acquire(reader(A3)).await? == "GRANTED 4503599627370497");
    it.release(A2).await?;
    ensure!(it.acquire(reader(B)).await? == "GRANTED 4503599627370498");
    ensure!(it.acquire(reader(A3)).await? == "GRANTED 4503599627370497");
    Ok(())
}

async fn a_cooldown_of_a_read_keeps_writers_out_and_that_of_a_write_everybody(
    it: &Lock,
) -> Result<()> {
    it.hold(reader(A)).await?;
    for _ in 0..2 {
        let reply = it.release_with(reader(A), "40000", "0").await?;
        ensure!(is_nearly(number(&reply, "COOLDOWN", 2)?, 40_000), "{reply}");
    }
    token(&it.acquire(reader(B)).await?)?;
    it.release(reader(B)).await?;
    ensure!(waiting(&it.acquire(C).await?)? == 1);
    it.pass(40_001).await?;
    token(&it.heartbeat(&[C]).await?[0])?;
    for _ in 0..2 {
        number(&it.release_with(C, "40000", "0").await?, "COOLDOWN", 2)?;
    }
    ensure!(waiting(&it.acquire(reader(D)).await?)? == 1);
    it.pass(40_001).await?;
    token(&it.heartbeat(&[reader(D)]).await?[0])?;
    Ok(())
}

async fn each_reader_has_a_lease_of_its_own(it: &Lock) -> Result<()> {
    it.hold_with(reader(A), USUAL).await?;
    token(&it.acquire(reader(B)).await?)?;
    ensure!(it.renew(reader(B), "200000").await? == "DONE RENEWED");
    ensure!(is_nearly(it.left(reader(B)).await?, 200_000));
    ensure!(is_nearly(it.left(reader(A)).await?, 60_000));
    it.pass(60_001).await?;
    ensure!(it.verify(reader(A)).await? == "GONE");
    ensure!(it.renew(reader(A), "200000").await? == "DONE GONE");
    ensure!(it.renew(reader(B), "200000").await? == "DONE RENEWED");
    ensure!(it.release(reader(A)).await? == "NOT_HELD 0");
    ensure!(it.renew(reader(C), "200000").await? == "DONE GONE");
    ensure!(waiting(&it.acquire(C).await?)? == 1);
    it.pass(200_001).await?;
    token(&it.heartbeat(&[C]).await?[0])?;
    ensure!(it.heartbeat(&[reader(B)]).await? == ["GONE"]);
    Ok(())
}

async fn the_dead_stay_dead_when_the_clock_steps_back(it: &Lock) -> Result<()> {
    for (died, next, newcomer) in [
        (reader(A), writer(B), reader(A2)),
        (writer(A), reader(B), writer(A2)),
    ] {
        for waits in [false, true] {
            it.hold_with(died, USUAL).await?;
            if waits {
                ensure!(waiting(&it.acquire(next).await?)? == 1);
            }
            it.pass(60_001).await?;
            match waits {
                true => token(&it.heartbeat(&[next]).await?[0])?,
                false => token(&it.acquire(next).await?)?,
            };
            it.pass(-40_000).await?;
            number(&it.ask(newcomer, TRY).await?, "BUSY", 1)?;
            ensure!(it.renew(died, "60000").await? == "DONE GONE");
            ensure!(it.release(died).await? == "NOT_HELD 0");
            ensure!(it.release(next).await? == "RELEASED 1 0");
            ensure!(it.keys().await?.is_empty());
        }
    }
    Ok(())
}

async fn all_readers_are_revoked_and_freed_together(it: &Lock) -> Result<()> {
    let token = it.hold(reader(A)).await?;
    it.acquire(reader(B)).await?;
    ensure!(waiting(&it.acquire(C).await?)? == 1);
    let found = it.inspect().await?;
    ensure!(
        found.starts_with(&format!("FOUND rwlock {token} 1 ")),
        "{found}"
    );
    ensure!(found.matches(" held 1").count() == 2, "{found}");
    ensure!(it.revoke().await? == "TOLD 2");
    ensure!(it.inspect().await?.matches(" revoked 1").count() == 2);
    for claim in [A, B].map(reader) {
        ensure!(it.renew(claim, "60000").await? == "DONE REVOKED");
        ensure!(it.verify(claim).await? == "REVOKED");
        ensure!(it.acquire(claim).await? == "REVOKED");
        ensure!(it.heartbeat(&[claim]).await? == ["REVOKED"]);
        ensure!(it.convert(A2, claim, "0").await? == "REVOKED");
    }
    // No claim joins holders that are asked to release.
    ensure!(waiting(&it.acquire(reader(D)).await?)? == 2);
    ensure!(waiting(&it.acquire(reader(A2)).await?)? == 3);
    ensure!(it.free(E).await? == "NOT_HELD 0");
    ensure!(it.free(A).await? == "RELEASED 1 0");
    ensure!(it.verify(reader(B)).await? == "GONE");
    ensure!(it.counted(A).await?.is_empty() && it.counted(B).await?.is_empty());
    ensure!(it.inspect().await? == "FREE 3");
    Ok(())
}

async fn nobody_joins_a_read_that_was_revoked_after_its_write(it: &Lock) -> Result<()> {
    it.hold(A).await?;
    token(&it.acquire(reader(A2)).await?)?;
    ensure!(it.release(A).await? == "RELEASED 1 1");
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.acquire(reader(A2)).await? == "REVOKED");
    for claim in [A3, B].map(reader) {
        number(&it.ask(claim, TRY).await?, "BUSY", 1)?;
    }
    ensure!(it.release(reader(A2)).await? == "RELEASED 1 0");
    token(&it.acquire(reader(B)).await?)?;
    Ok(())
}
