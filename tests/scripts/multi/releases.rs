//! Releases of several names in one run.

use super::*;

vectors! { Scripts in [thin inflated]:
    a_release_takes_away_nothing_of_others
}

vectors! { Scripts:
    a_release_frees_every_name_and_tells_those_who_poll_each
    a_release_run_twice_has_the_effect_of_once
    a_release_of_an_inflated_name_is_left_to_the_script_of_one_name
    a_release_in_doubt_stops_a_late_acquire_and_another_item_makes_no_tombstone
    a_release_before_its_time_keeps_the_name
}

async fn a_release_frees_every_name_and_tells_those_who_poll_each(it: &Scripts) -> Result<()> {
    let mut pollers = Vec::new();
    for name in NAMES {
        pollers.push(it.listen(name_of(name)?.wakes()).await?);
    }
    for round in 0..3 {
        // No one polls; others poll; others of the same client poll.
        ask(it, &three(1), |ask| ask.polled = round == 2).await?;
        if round == 1 {
            poll(it, &three(2)).await?;
        }
        ensure!(release(it, &three(1)).await? == ["RELEASED 1 0"; 3]);
        ensure!(held(it).await?.is_empty());
        for poller in &mut pollers {
            let heard = poller.heard(it).await?;
            ensure!(
                heard == ["free"][..usize::from(round > 0)],
                "{round}: {heard:?}"
            );
        }
    }
    Ok(())
}

/// Each claim asks alone, and is to be notified when its name is free.
async fn poll(it: &Scripts, on: &[On<'_>]) -> Result<()> {
    for (name, kind, who) in on {
        let id = who.id()?;
        let busy = lock_on(name, kind)?.acquire(RequestContext::new(&id, TTL, 0, None));
        number(&it.call(busy).await?, "BUSY", 1)?;
    }
    Ok(())
}

async fn a_release_run_twice_has_the_effect_of_once(it: &Scripts) -> Result<()> {
    hold(it, &three(1)).await?;
    release(it, &three(1)).await?;
    hold(it, &three(2)).await?;
    ensure!(release(it, &three(1)).await? == ["NOT_HELD 0"; 3]);
    ensure!(
        held(it).await?.len() == 3,
        "the second release took others' locks away"
    );
    Ok(())
}

async fn a_release_takes_away_nothing_of_others(it: &Scripts) -> Result<()> {
    hold(it, &[("a", "mutex", Who(1, 1))]).await?;
    hold(it, &[("b", "reentrant", Who(2, 2))]).await?;
    it.command(&["HSET", "lockkeeper:c", "field", "value"])
        .await?;
    let left = release(it, &three(1)).await?;
    if it.inflates {
        ensure!(left == ["INFLATED", "INFLATED", "NOT_HELD 0"], "{left:?}");
        ensure!(held(it).await?.len() == 3);
        return Ok(());
    }
    ensure!(
        left == ["RELEASED 1 0", "NOT_HELD 0", "NOT_HELD 0"],
        "{left:?}"
    );
    ensure!(held(it).await? == ["lockkeeper:b", "lockkeeper:c"]);
    Ok(())
}

async fn a_release_of_an_inflated_name_is_left_to_the_script_of_one_name(
    it: &Scripts,
) -> Result<()> {
    hold(it, &three(1)).await?;
    it.inflate("b", "reentrant", Who(1, 2)).await?;
    let before = it.command(&["LINDEX", "lockkeeper:b", "0"]).await?;
    let left = release_with(it, &three(1), Duration::ZERO, true).await?;
    ensure!(
        left == ["RELEASED 1 0", "INFLATED", "RELEASED 1 0"],
        "{left:?}"
    );
    ensure!(it.command(&["LINDEX", "lockkeeper:b", "0"]).await? == before);
    let tombstone = name_of("b")?.tombstone(&Who(1, 2).id()?);
    ensure!(
        it.command(&["EXISTS", &tombstone]).await? == "0",
        "it was done in part"
    );
    Ok(())
}

async fn a_release_in_doubt_stops_a_late_acquire_and_another_item_makes_no_tombstone(
    it: &Scripts,
) -> Result<()> {
    hold(it, &three(1)).await?;
    release(it, &three(1)).await?;
    ensure!(
        it.keys().await?.len() == 3,
        "more than the counters is left"
    );
    release_with(it, &three(2), Duration::ZERO, true).await?;
    let outcomes = acquire(it, &three(2)).await?;
    ensure!(outcomes == ["GONE"; 3], "{outcomes:?}");
    let left = it.pttl(&name_of("b")?.tombstone(&Who(2, 2).id()?)).await?;
    ensure!(is_nearly(left, 30_000), "the tombstone lives for {left} ms");
    ensure!(held(it).await?.is_empty());
    Ok(())
}

async fn a_release_before_its_time_keeps_the_name(it: &Scripts) -> Result<()> {
    let mut pollers = Vec::new();
    for name in NAMES {
        pollers.push(it.listen(name_of(name)?.wakes()).await?);
    }
    hold(it, &three(1)).await?;
    poll(it, &three(2)).await?;
    let cooldown = Duration::from_secs(9);
    let left = release_with(it, &three(1), cooldown, false).await?;
    ensure!(left == ["COOLDOWN 1 9000"; 3], "{left:?}");
    for poller in &mut pollers {
        ensure!(poller.heard(it).await? == ["kept"]);
    }
    for outcome in acquire(it, &three(2)).await? {
        ensure!(is_nearly(number(&outcome, "BUSY", 1)?, 9_000), "{outcome}");
    }
    for key in it.keys().await? {
        ensure!(it.pttl(&key).await? > 0, "{key} has no end");
    }
    for outcome in release(it, &three(1)).await? {
        number(&outcome, "COOLDOWN", 2)?;
    }
    Ok(())
}
