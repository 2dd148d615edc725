//! A limited number of permits of a name.

use super::*;

vectors! { [thin inflated] [semaphore] {
    claims_hold_side_by_side_up_to_the_limit
    nobody_passes_a_large_claim_in_front
    a_release_lets_in_as_many_as_fit
    a_repeated_acquire_counts_once
    a_claim_gives_back_all_that_it_took_and_no_more
    the_permits_of_the_dead_come_back_with_their_weight
    each_claim_has_a_token_of_its_own_in_the_order_of_grants
    the_limit_of_those_who_hold_stands_and_others_are_told
    the_limit_stands_while_somebody_waits
    more_than_the_limit_that_stands_is_refused
    a_free_name_has_the_limit_of_its_next_holder
    a_lowered_limit_takes_nothing_and_lets_nobody_in
    a_waiter_for_more_than_a_lowered_limit_stops_nobody
    a_raised_limit_lets_in_those_in_front
    a_limit_that_nobody_has_is_not_changed
    a_claim_that_cools_down_keeps_its_permits
    the_permits_of_revoked_claims_are_taken
    force_takes_all_permits
    an_owner_is_not_let_in_again
}}

/// A claim of a client that states a limit of five.
const fn one_of_five(id: &str) -> Claim<'_> {
    Claim { id, share: "1/5" }
}

const fn five(id: &str) -> Claim<'_> {
    Claim { id, share: "5/5" }
}

/// The permits taken and the limit.
async fn taken(it: &Lock) -> Result<String> {
    let reply = it.limit(0).await?;
    let words: Vec<&str> = reply.split(' ').collect();
    ensure!(words[0] == "LIMIT" && words.len() == 4, "{reply}");
    Ok(format!("{}/{}", words[2], words[1]))
}

async fn claims_hold_side_by_side_up_to_the_limit(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    token(&it.acquire(one(B)).await?)?;
    token(&it.acquire(one(C)).await?)?;
    ensure!(taken(it).await? == "4/4");
    number(&it.ask(one(D), TRY).await?, "BUSY", 1)?;
    ensure!(waiting(&it.acquire(one(D)).await?)? == 1);
    ensure!(it.counts().await? == "0 0 4/4");
    let release = [two(A), one(B), one(C)];
    for claim in release {
        ensure!(it.release(claim).await? == "RELEASED 1 0");
    }
    ensure!(taken(it).await? == "1/4");
    ensure!(it.release(one(D)).await? == "RELEASED 1 0");
    ensure!(it.limit(0).await? == "FREE");
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn nobody_passes_a_large_claim_in_front(it: &Lock) -> Result<()> {
    it.hold(one(A)).await?;
    ensure!(waiting(&it.acquire(four(B)).await?)? == 1);
    ensure!(waiting(&it.acquire(one(C)).await?)? == 2);
    number(&it.ask(one(D), TRY).await?, "BUSY", 1)?;
    ensure!(it.heartbeat(&[one(C)]).await? == ["WAITING 2"]);
    ensure!(taken(it).await? == "1/4");
    ensure!(it.release(one(A)).await? == "RELEASED 1 0");
    let large = token(&it.heartbeat(&[four(B)]).await?[0])?;
    ensure!(it.heartbeat(&[one(C)]).await? == ["WAITING 1"]);
    ensure!(it.release(four(B)).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[one(C)]).await?[0])? > large);
    Ok(())
}

async fn a_release_lets_in_as_many_as_fit(it: &Lock) -> Result<()> {
    it.hold(four(A)).await?;
    for (place, claim) in [(1, one(B)), (2, two(C)), (3, two(D)), (4, one(E))] {
        ensure!(waiting(&it.acquire(claim).await?)? == place);
    }
    let told = it.told(async {
        ensure!(it.release(four(A)).await? == "RELEASED 1 0");
        Ok(())
    });
    let told = told.await?;
    ensure!(
        told.len() == 2 && told[0].contains(B) && told[1].contains(C),
        "{told:?}"
    );
    ensure!(taken(it).await? == "3/4");
    ensure!(it.heartbeat(&[two(D), one(E)]).await? == ["WAITING 1", "WAITING 2"]);
    Ok(())
}

async fn a_repeated_acquire_counts_once(it: &Lock) -> Result<()> {
    let first = it.hold(two(A)).await?;
    ensure!(token(&it.acquire(two(A)).await?)? == first);
    let second = token(&it.acquire(one(B)).await?)?;
    ensure!(token(&it.acquire(one(B)).await?)? == second);
    ensure!(token(&it.acquire(two(A)).await?)? == first);
    ensure!(
        it.heartbeat(&[two(A), one(B)]).await?
            == [format!("GRANTED {first}"), format!("GRANTED {second}")]
    );
    ensure!(it.renew(two(A), "60000").await? == "DONE RENEWED");
    ensure!(taken(it).await? == "3/4");
    ensure!(waiting(&it.acquire(two(C)).await?)? == 1);
    ensure!(waiting(&it.acquire(two(C)).await?)? == 1);
    ensure!(it.release(one(B)).await? == "RELEASED 1 0");
    token(&it.acquire(two(C)).await?)?;
    ensure!(taken(it).await? == "4/4");
    Ok(())
}

async fn a_claim_gives_back_all_that_it_took_and_no_more(it: &Lock) -> Result<()> {
    it.hold(one(A)).await?;
    token(&it.acquire(two(B)).await?)?;
    ensure!(it.release(two(B)).await? == "RELEASED 1 0");
    ensure!(it.release(two(B)).await? == "NOT_HELD 0");
    ensure!(it.release_with(two(B), "0", "60000").await? == "NOT_HELD 0");
    ensure!(taken(it).await? == "1/4");
    ensure!(it.acquire(two(B)).await? == "GONE");
    ensure!(taken(it).await? == "1/4");
    Ok(())
}

async fn the_permits_of_the_dead_come_back_with_their_weight(it: &Lock) -> Result<()> {
    it.hold(one(A)).await?;
    token(&it.acquire(two(B)).await?)?;
    ensure!(waiting(&it.acquire(two(C)).await?)? == 1);
    it.pass(70_000).await?;
    let granted = token(&it.heartbeat(&[two(C)]).await?[0])?;
    ensure!(taken(it).await? == "3/4");
    ensure!(it.verify(two(B)).await? == "GONE");
    ensure!(it.release(two(B)).await? == "NOT_HELD 0");
    ensure!(taken(it).await? == "3/4");
    ensure!(token(&it.acquire(one(D)).await?)? > granted);
    Ok(())
}

async fn each_claim_has_a_token_of_its_own_in_the_order_of_grants(it: &Lock) -> Result<()> {
    let mut last = it.hold(one(A)).await?;
    for claim in [B, C, D] {
        let granted = token(&it.acquire(one(claim)).await?)?;
        ensure!(granted > last);
        last = granted;
    }
    for claim in [E, F] {
        waiting(&it.acquire(one(claim)).await?)?;
    }
    for (gone, claim) in [(C, E), (A, F)] {
        ensure!(it.release(one(gone)).await? == "RELEASED 1 0");
        let granted = token(&it.heartbeat(&[one(claim)]).await?[0])?;
        ensure!(granted > last);
        last = granted;
    }
    Ok(())
}

async fn the_limit_of_those_who_hold_stands_and_others_are_told(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    let told = it.acquire(one_of_five(B)).await?;
    ensure!(number(&told, "GRANTED", 2)? == 4);
    token(&it.acquire(one(C)).await?)?;
    let told = it.acquire(one_of_five(D)).await?;
    ensure!(waiting(&told)? == 1);
    ensure!(number(&told, "WAITING", 3)? == 4);
    let usual = it.acquire(one(E)).await?;
    ensure!(
        waiting(&usual)? == 2 && usual.split(' ').count() == 3,
        "{usual}"
    );
    Ok(())
}

async fn the_limit_stands_while_somebody_waits(it: &Lock) -> Result<()> {
    it.hold(four(A)).await?;
    ensure!(waiting(&it.acquire(one_of_five(B)).await?)? == 1);
    ensure!(waiting(&it.acquire(one_of_five(C)).await?)? == 2);
    ensure!(it.release(four(A)).await? == "RELEASED 1 0");
    ensure!(taken(it).await? == "2/4");
    Ok(())
}

async fn more_than_the_limit_that_stands_is_refused(it: &Lock) -> Result<()> {
    it.hold(one(A)).await?;
    ensure!(it.acquire(five(B)).await? == "OVER_LIMIT 4");
    ensure!(it.ask(five(B), TRY).await? == "OVER_LIMIT 4");
    ensure!(it.place(five(B)).await? == "QUEUED 0 0");
    ensure!(it.release(one(A)).await? == "RELEASED 1 0");
    token(&it.acquire(five(B)).await?)?;
    ensure!(taken(it).await? == "5/5");
    Ok(())
}

async fn a_free_name_has_the_limit_of_its_next_holder(it: &Lock) -> Result<()> {
    it.hold(four(A)).await?;
    ensure!(waiting(&it.acquire(one(B)).await?)? == 1);
    it.pass(2 * HOUR).await?;
    // The holder and the waiters have died.
    token(&it.acquire(five(C)).await?)?;
    ensure!(taken(it).await? == "5/5");
    Ok(())
}

async fn a_lowered_limit_takes_nothing_and_lets_nobody_in(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    token(&it.acquire(two(B)).await?)?;
    ensure!(it.limit(2).await? == "LIMIT 2 4 0");
    ensure!(it.verify(two(A)).await?.starts_with("HELD"));
    ensure!(it.renew(two(A), "60000").await? == "DONE RENEWED");
    ensure!(waiting(&it.acquire(one(C)).await?)? == 1);
    ensure!(it.release(two(A)).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[one(C)]).await? == ["WAITING 1"]);
    ensure!(it.release(two(B)).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[one(C)]).await?[0])?;
    ensure!(taken(it).await? == "1/2");
    Ok(())
}

async fn a_waiter_for_more_than_a_lowered_limit_stops_nobody(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    ensure!(waiting(&it.acquire(four(B)).await?)? == 1);
    ensure!(waiting(&it.acquire(one(C)).await?)? == 2);
    ensure!(it.limit(3).await? == "LIMIT 3 3 0");
    ensure!(it.heartbeat(&[four(B)]).await? == ["GONE"]);
    token(&it.heartbeat(&[one(C)]).await?[0])?;
    ensure!(it.acquire(four(D)).await? == "OVER_LIMIT 3");
    Ok(())
}

async fn a_raised_limit_lets_in_those_in_front(it: &Lock) -> Result<()> {
    it.hold(four(A)).await?;
    for claim in [one(B), two(C), four(D), one(E)] {
        waiting(&it.acquire(claim).await?)?;
    }
    let told = it.told(async {
        ensure!(it.limit(8).await? == "LIMIT 8 7 2");
        Ok(())
    });
    let told = told.await?;
    ensure!(
        told.len() == 2 && told[0].contains(B) && told[1].contains(C),
        "{told:?}"
    );
    ensure!(it.heartbeat(&[four(D), one(E)]).await? == ["WAITING 1", "WAITING 2"]);
    // Setting it again has the same effect.
    ensure!(it.limit(8).await? == "LIMIT 8 7 2");
    Ok(())
}

async fn a_limit_that_nobody_has_is_not_changed(it: &Lock) -> Result<()> {
    ensure!(it.limit(7).await? == "FREE");
    ensure!(it.keys().await?.is_empty());
    it.hold(one(A)).await?;
    ensure!(taken(it).await? == "1/4");
    ensure!(it.release(one(A)).await? == "RELEASED 1 0");
    it.command(&["RPUSH", &it.main(), "fair x a:1/1 7"]).await?;
    ensure!(it.limit(0).await? == "WRONG_KIND");
    ensure!(it.limit(3).await? == "WRONG_KIND");
    ensure!(it.value().await? == "fair x a:1/1 7");
    Ok(())
}

async fn a_claim_that_cools_down_keeps_its_permits(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    token(&it.acquire(one(B)).await?)?;
    let cooldown = it.release_with(two(A), "50000", "0").await?;
    ensure!(cooldown == "COOLDOWN 1 50000", "{cooldown}");
    ensure!(taken(it).await? == "3/4");
    ensure!(waiting(&it.acquire(two(C)).await?)? == 1);
    it.pass(51_000).await?;
    token(&it.heartbeat(&[two(C)]).await?[0])?;
    ensure!(taken(it).await? == "3/4");
    Ok(())
}

async fn the_permits_of_revoked_claims_are_taken(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.renew(two(A), "60000").await? == "DONE REVOKED");
    ensure!(it.acquire(two(A)).await? == "REVOKED");
    // What is left may be taken.
    token(&it.acquire(one(C)).await?)?;
    ensure!(taken(it).await? == "3/4");
    ensure!(it.release(one(C)).await? == "RELEASED 1 0");
    ensure!(waiting(&it.acquire(four(B)).await?)? == 1);
    ensure!(taken(it).await? == "2/4");
    ensure!(it.release(two(A)).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[four(B)]).await?[0])?;
    ensure!(it.release(four(B)).await? == "RELEASED 1 0");
    // The same if somebody waits already.
    it.hold(two(A)).await?;
    ensure!(waiting(&it.acquire(four(B)).await?)? == 1);
    ensure!(waiting(&it.acquire(one(C)).await?)? == 2);
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.release(four(B)).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[one(C)]).await?[0])?;
    ensure!(taken(it).await? == "3/4");
    Ok(())
}

async fn force_takes_all_permits(it: &Lock) -> Result<()> {
    it.hold(two(A)).await?;
    token(&it.acquire(one(B)).await?)?;
    ensure!(waiting(&it.acquire(two(C)).await?)? == 1);
    let seen = it.inspect().await?;
    ensure!(
        seen.contains("held 2/4") && seen.contains("held 1/4") && seen.ends_with(" 4"),
        "{seen}"
    );
    ensure!(it.free(A).await? == "RELEASED 1 0");
    ensure!(it.verify(one(B)).await? == "GONE");
    token(&it.heartbeat(&[two(C)]).await?[0])?;
    ensure!(taken(it).await? == "2/4");
    Ok(())
}

async fn an_owner_is_not_let_in_again(it: &Lock) -> Result<()> {
    let first = it.hold(two(A)).await?;
    let second = token(&it.acquire(two(A2)).await?)?;
    ensure!(second > first);
    ensure!(waiting(&it.acquire(one(A3)).await?)? == 1);
    ensure!(it.release(two(A2)).await? == "RELEASED 1 0");
    ensure!(token(&it.heartbeat(&[one(A3)]).await?[0])? > second);
    ensure!(it.renew(two(A), "60000").await? == "DONE RENEWED");
    Ok(())
}
