//! Who may hold together, with which token, and for how long.

use super::*;

vectors! { Rw:
    readers_share_a_token_and_each_write_draws_its_own
    a_repeated_acquire_arms_and_creates_nothing
    a_free_name_leaves_its_fence_alone_behind
    an_owner_that_writes_gets_in_in_either_mode
    a_read_that_outlives_its_write_does_not_give_its_token_on
    an_owner_that_reads_gets_in_to_read_and_never_waits_for_itself
    an_owner_made_for_one_claim_is_not_looked_for
    tokens_of_readers_are_whole_numbers
    a_kept_read_keeps_writers_out_and_a_kept_write_everybody
    each_reader_has_a_lease_of_its_own
    who_has_died_stays_dead_beside_a_writer_when_the_clock_steps_back
    who_has_died_stays_dead_beside_readers_when_the_clock_steps_back
    what_goes_by_the_name_alone_knows_readers
    every_key_carries_a_ttl
}

async fn readers_share_a_token_and_each_write_draws_its_own(it: &Rw) -> Result<()> {
    let read = token(&it.read(A).await?)?;
    ensure!(token(&it.read(B).await?)? == read);
    ensure!(waiting(&it.write(C).await?)? == 1);
    ensure!(it.leave(A, READ).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[(C, WRITE)]).await? == ["WAITING 1"]);
    ensure!(it.leave(B, READ).await? == "RELEASED 1 0");
    let written = token(&it.heartbeat(&[(C, WRITE)]).await?[0])?;
    ensure!(written > read);
    ensure!(it.leave(C, WRITE).await? == "RELEASED 1 0");
    ensure!(token(&it.read(D).await?)? > written);
    Ok(())
}

async fn a_repeated_acquire_arms_and_creates_nothing(it: &Rw) -> Result<()> {
    for mode in [READ, WRITE] {
        let short = How {
            ttl: "5000",
            ..USUAL
        };
        let first = token(&it.ask(A, mode, short).await?)?;
        ensure!(token(&it.ask(A, mode, USUAL).await?)? == first);
        let renewal = How {
            token: first,
            ..short
        };
        ensure!(token(&it.ask(A, mode, renewal).await?)? == first);
        it.shift(20_000).await?;
        ensure!(token(&it.ask(A, mode, renewal).await?)? == first);
        let other = How { token: 17, ..USUAL };
        ensure!(it.ask(A, mode, other).await? == "GONE");
        ensure!(it.ask(B, mode, other).await? == "GONE");
        ensure!(it.leave(A, mode).await? == "RELEASED 1 0");
        ensure!(it.leave(A, mode).await? == "NOT_HELD 0");
        ensure!(it.ask(A, mode, renewal).await? == "GONE");
        ensure!(it.heartbeat(&[(A, mode)]).await? == ["GONE"]);
        ensure!(it.keys().await? == [FENCE]);
    }
    Ok(())
}

async fn a_free_name_leaves_its_fence_alone_behind(it: &Rw) -> Result<()> {
    let told = it.told(async |fair| {
        let keys = fair.keys().await?;
        ensure!(keys.is_empty());
        token(&it.ask(A, READ, TRY).await?)?;
        ensure!(fair.keys().await? == [FENCE, READERS]);
        ensure!(it.leave(A, READ).await? == "RELEASED 1 0");
        token(&it.ask(A, WRITE, TRY).await?)?;
        ensure!(fair.keys().await? == [FENCE, MAIN]);
        ensure!(fair.do_command(&["HGET", MAIN, "kind"]).await? == "rwlock");
        ensure!(it.leave(A, WRITE).await? == "RELEASED 1 0");
        Ok(())
    });
    ensure!(told.await?.is_empty());
    ensure!(it.keys().await? == [FENCE]);
    Ok(())
}

async fn an_owner_that_writes_gets_in_in_either_mode(it: &Rw) -> Result<()> {
    let first = token(&it.write(A).await?)?;
    ensure!(waiting(&it.read(B).await?)? == 1);
    ensure!(token(&it.ask(A2, READ, TRY).await?)? == first);
    ensure!(token(&it.ask(A3, WRITE, TRY).await?)? == first);
    number(&it.ask(C, READ, TRY).await?, "BUSY", 1)?;
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 2");
    ensure!(it.heartbeat(&[(B, READ)]).await? == ["WAITING 1"]);
    ensure!(it.leave(A2, READ).await? == "RELEASED 1 1");
    ensure!(it.leave(A3, WRITE).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[(B, READ)]).await?[0])? > first);
    Ok(())
}

async fn a_read_that_outlives_its_write_does_not_give_its_token_on(it: &Rw) -> Result<()> {
    let written = token(&it.write(A).await?)?;
    ensure!(token(&it.read(A2).await?)? == written);
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 1");
    let read = token(&it.read(B).await?)?;
    ensure!(read > written);
    ensure!(token(&it.read(C).await?)? == read);
    // Inside its own read it has the token of that, as its guard expects.
    ensure!(token(&it.read(A3).await?)? == written);
    ensure!(token(&it.read(A2).await?)? == written);
    number(&it.ask(D, WRITE, TRY).await?, "BUSY", 1)?;
    Ok(())
}

async fn an_owner_that_reads_gets_in_to_read_and_never_waits_for_itself(it: &Rw) -> Result<()> {
    let first = token(&it.read(A).await?)?;
    ensure!(it.write(A2).await? == "WOULD_DEADLOCK");
    ensure!(waiting(&it.write(B).await?)? == 1);
    ensure!(waiting(&it.read(C).await?)? == 2);
    ensure!(token(&it.ask(A2, READ, TRY).await?)? == first);
    ensure!(it.write(A3).await? == "WOULD_DEADLOCK");
    ensure!(it.leave(A, READ).await? == "RELEASED 1 1");
    ensure!(it.leave(A2, READ).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[(C, READ)]).await? == ["WAITING 1"]);
    token(&it.heartbeat(&[(B, WRITE)]).await?[0])?;
    Ok(())
}

async fn an_owner_made_for_one_claim_is_not_looked_for(it: &Rw) -> Result<()> {
    let new = How {
        known: false,
        ..USUAL
    };
    token(&it.ask(A, READ, new).await?)?;
    ensure!(waiting(&it.ask(A2, WRITE, new).await?)? == 1);
    ensure!(waiting(&it.ask(A3, READ, new).await?)? == 2);
    Ok(())
}

async fn tokens_of_readers_are_whole_numbers(it: &Rw) -> Result<()> {
    it.do_command(&["SET", FENCE, "4503599627370495"]).await?;
    ensure!(it.read(A).await? == "GRANTED 4503599627370496");
    ensure!(it.read(B).await? == "GRANTED 4503599627370496");
    ensure!(it.convert(A2, WRITE, A, "0").await?.starts_with("BUSY "));
    it.leave(B, READ).await?;
    ensure!(it.convert(A2, WRITE, A, "0").await? == "GRANTED 4503599627370497");
    ensure!(it.read(A3).await? == "GRANTED 4503599627370497");
    it.leave(A2, WRITE).await?;
    ensure!(it.read(B).await? == "GRANTED 4503599627370498");
    ensure!(it.read(A3).await? == "GRANTED 4503599627370497");
    Ok(())
}

async fn a_kept_read_keeps_writers_out_and_a_kept_write_everybody(it: &Rw) -> Result<()> {
    token(&it.read(A).await?)?;
    for _ in 0..2 {
        let left = number(&it.leave_with(A, READ, "4000", "0").await?, "COOLDOWN", 2)?;
        ensure!((3_000..=4_000).contains(&left), "{left}");
    }
    token(&it.read(B).await?)?;
    it.leave(B, READ).await?;
    ensure!(waiting(&it.write(C).await?)? == 1);
    it.shift(4_001).await?;
    token(&it.heartbeat(&[(C, WRITE)]).await?[0])?;
    for _ in 0..2 {
        number(&it.leave_with(C, WRITE, "4000", "0").await?, "COOLDOWN", 2)?;
    }
    ensure!(waiting(&it.read(D).await?)? == 1);
    it.shift(4_001).await?;
    token(&it.heartbeat(&[(D, READ)]).await?[0])?;
    Ok(())
}

async fn each_reader_has_a_lease_of_its_own(it: &Rw) -> Result<()> {
    token(&it.read(A).await?)?;
    token(&it.read(B).await?)?;
    ensure!(it.renew(B).await? == "DONE RENEWED");
    ensure!(number(&it.verify(B).await?, "HELD", 1)? > 59_000);
    ensure!(number(&it.verify(A).await?, "HELD", 1)? <= 30_000);
    it.shift(30_001).await?;
    ensure!(it.verify(A).await? == "GONE");
    ensure!(it.renew(A).await? == "DONE GONE");
    ensure!(it.renew(B).await? == "DONE RENEWED");
    ensure!(it.leave(A, READ).await? == "NOT_HELD 0");
    ensure!(it.renew(C).await? == "DONE GONE");
    ensure!(waiting(&it.write(C).await?)? == 1);
    it.shift(60_001).await?;
    token(&it.heartbeat(&[(C, WRITE)]).await?[0])?;
    ensure!(it.heartbeat(&[(B, READ)]).await? == ["GONE"]);
    Ok(())
}

async fn who_has_died_stays_dead_beside_a_writer_when_the_clock_steps_back(it: &Rw) -> Result<()> {
    for waits in [false, true] {
        token(&it.read(A).await?)?;
        if waits {
            ensure!(waiting(&it.write(B).await?)? == 1);
        }
        it.shift(30_001).await?;
        if waits {
            it.do_command(&["HSET", WAITERS, B, "9000000000000:7:write"])
                .await?;
            token(&it.heartbeat(&[(B, WRITE)]).await?[0])?;
        } else {
            token(&it.write(B).await?)?;
        }
        it.shift(-20_000).await?;
        number(&it.ask(A2, READ, TRY).await?, "BUSY", 1)?;
        ensure!(it.renew(A).await? == "DONE GONE");
        ensure!(it.leave(B, WRITE).await? == "RELEASED 1 0");
        ensure!(it.keys().await? == [FENCE]);
    }
    Ok(())
}

async fn who_has_died_stays_dead_beside_readers_when_the_clock_steps_back(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    it.shift(30_001).await?;
    token(&it.read(B).await?)?;
    it.shift(-20_000).await?;
    number(&it.ask(A2, WRITE, TRY).await?, "BUSY", 1)?;
    ensure!(it.leave(A, WRITE).await? == "NOT_HELD 0");
    token(&it.read(C).await?)?;
    Ok(())
}

async fn what_goes_by_the_name_alone_knows_readers(it: &Rw) -> Result<()> {
    let inspect = async || {
        let keys = [MAIN, FENCE, QUEUE, READERS];
        it.run(&name::INSPECT, &keys, &["wake"]).await
    };
    ensure!(inspect().await? == "FREE 0");
    let token = token(&it.read(A).await?)?;
    it.read(B).await?;
    ensure!(waiting(&it.write(C).await?)? == 1);
    let found = inspect().await?;
    ensure!(
        found.starts_with(&format!("FOUND rwlock {token} 1 ")),
        "{found}"
    );
    ensure!(found.matches(" held read").count() == 2, "{found}");
    ensure!(it.run(&name::REVOKE, &[MAIN, READERS], &[]).await? == "TOLD 2");
    ensure!(inspect().await?.matches(" revoked read").count() == 2);
    ensure!(it.renew(A).await? == "DONE REVOKED");
    ensure!(it.verify(A).await? == "REVOKED");
    ensure!(it.read(A).await? == "REVOKED");
    ensure!(it.heartbeat(&[(B, READ)]).await? == ["REVOKED"]);
    ensure!(it.convert(A2, WRITE, A, "0").await? == "REVOKED");
    // Nobody joins those who are to leave.
    ensure!(waiting(&it.read(D).await?)? == 2);
    ensure!(waiting(&it.read(A2).await?)? == 3);
    ensure!(it.run(&name::FREE, &[MAIN, READERS], &[E, "wake"]).await? == "NOT_HELD 0");
    ensure!(it.run(&name::FREE, &[MAIN, READERS], &[A, "wake"]).await? == "RELEASED 1 0");
    ensure!(it.verify(B).await? == "GONE");
    ensure!(inspect().await? == "FREE 3");
    Ok(())
}

async fn every_key_carries_a_ttl(it: &Rw) -> Result<()> {
    token(&it.write(A).await?)?;
    token(&it.read(A2).await?)?;
    it.read(B).await?;
    it.leave_with(D, READ, "0", "5000").await?;
    it.convert(A3, READ, A, "5000").await?;
    ensure!(it.keys().await?.len() >= 4);
    for key in it.keys().await? {
        ensure!(it.pttl(&key).await? > 0, "{key}");
    }
    ensure!(it.run(&reentrant::RENEW, &[MAIN], &[A, "60000"]).await? == "DONE GONE");
    Ok(())
}
