//! Fencing tokens, drawn from the counter that all names of a slot share.

use super::*;

vectors! { Scripts:
    tokens_are_whole_numbers_that_lua_did_not_round
    a_token_is_above_the_floor
    the_names_of_a_slot_share_a_counter
    a_counter_that_is_no_number_does_not_stop_grants
    a_counter_at_its_end_stays_there
    a_counter_of_another_type_begins_again_at_the_clock
    a_lost_counter_begins_again_at_the_clock
    a_counter_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead
    a_counter_that_was_raised_a_moment_ago_is_drawn_from_by_one_step
}

impl Scripts {
    /// Acquires with a counter that was raised a moment ago, or longer ago.
    async fn acquire_from(&self, who: Who, floor: u64, raised_lately: bool) -> Result<i64> {
        // Far enough from the threshold for a slow machine.
        let left = if raised_lately {
            DAY + 60_000
        } else {
            DAY - 60_000
        };
        self.command(&["PEXPIRE", &counter()?, &left.to_string()])
            .await?;
        token(&self.acquire_with(who, |ask| ask.floor = floor).await?)
    }
}

fn counter() -> Result<String> {
    Ok(name_of("name")?.counter())
}

/// A number converted with `..` would have come back as `1.7952195167329e+15`.
async fn tokens_are_whole_numbers_that_lua_did_not_round(it: &Scripts) -> Result<()> {
    let mut last = 0;
    for round in 0..50 {
        let next = token(&it.acquire(Who(1, round)).await?)?;
        ensure!(
            next > last && next.to_string().len() == 16,
            "{next} after {last}"
        );
        last = next;
        it.release(Who(1, round)).await?;
    }
    // Far ahead of the clock, every token is exactly the previous one plus one.
    it.command(&["SET", &counter()?, "4503599627370495"])
        .await?;
    ensure!(token(&it.acquire(A).await?)? == 4_503_599_627_370_496);
    ensure!(it.command(&["GET", &counter()?]).await? == "4503599627370496");
    Ok(())
}

async fn a_token_is_above_the_floor(it: &Scripts) -> Result<()> {
    let floor = 4_503_599_627_370_496;
    ensure!(it.acquire_from(A, floor, false).await? == 4_503_599_627_370_497);
    it.release(A).await?;
    ensure!(it.acquire_from(A, floor + 100, true).await? == 4_503_599_627_370_597);
    Ok(())
}

async fn the_names_of_a_slot_share_a_counter(it: &Scripts) -> Result<()> {
    let mut last = 0;
    for name in ["{tag}:a", "{tag}:b", "{tag}:a:long"] {
        let lock = lock_on(name, "mutex")?;
        let next = token(&it.call(lock.acquire(usual(&A.id()?))).await?)?;
        ensure!(next > last, "{next} after {last}");
        ensure!(it.command(&["GET", &name_of("{tag}:a")?.counter()]).await? == next.to_string());
        last = next;
    }
    Ok(())
}

async fn a_counter_that_is_no_number_does_not_stop_grants(it: &Scripts) -> Result<()> {
    let mut last = 0;
    for garbage in ["no number", "", "-7", "1e3"] {
        for lately in [false, true] {
            it.command(&["SET", &counter()?, garbage]).await?;
            let next = it.acquire_from(A, 0, lately).await?;
            ensure!(
                next > last && next.to_string().len() == 16,
                "{garbage:?}, {lately}: {next} after {last}"
            );
            ensure!(
                it.command(&["GET", &counter()?]).await? == next.to_string(),
                "{garbage:?}, {lately}"
            );
            ensure!(
                it.pttl(&counter()?).await? > DAY - SLACK,
                "{garbage:?}, {lately}: it has no end"
            );
            last = next;
            it.release(A).await?;
        }
    }
    Ok(())
}

async fn a_counter_at_its_end_stays_there(it: &Scripts) -> Result<()> {
    const END: i64 = (1 << 53) - 1;
    // The last values are larger than Lua's exact integers, and than a server's counter.
    for last in [
        "9007199254740990",
        "9007199254740993",
        "9223372036854775807",
        "99999999999999999999",
    ] {
        for lately in [false, true] {
            it.command(&["SET", &counter()?, last]).await?;
            for _ in 0..2 {
                let next = it.acquire_from(A, 0, lately).await?;
                ensure!(next == END, "{last}, {lately}: {next}");
                it.release(A).await?;
            }
        }
    }
    // The largest that is one.
    it.command(&["SET", &counter()?, "9007199254740989"])
        .await?;
    ensure!(it.acquire_from(A, 0, false).await? == END - 1);
    Ok(())
}

async fn a_counter_of_another_type_begins_again_at_the_clock(it: &Scripts) -> Result<()> {
    let mut last = 0;
    for lately in [false, true] {
        it.command(&["DEL", &counter()?]).await?;
        it.command(&["HSET", &counter()?, "field", "value"]).await?;
        let next = it.acquire_from(A, 0, lately).await?;
        ensure!(next > last, "{lately}: {next} after {last}");
        ensure!(it.command(&["GET", &counter()?]).await? == next.to_string());
        last = next;
        it.release(A).await?;
    }
    Ok(())
}

async fn a_lost_counter_begins_again_at_the_clock(it: &Scripts) -> Result<()> {
    let mut last = it.acquire_from(A, 0, false).await?;
    for lately in [false, true] {
        it.release(A).await?;
        it.command(&["DEL", &counter()?]).await?;
        let next = it.acquire_from(A, 0, lately).await?;
        ensure!(next > last, "{lately}: {next} after {last}");
        ensure!(
            it.pttl(&counter()?).await? > DAY - SLACK,
            "{lately}: it has no end"
        );
        last = next;
    }
    Ok(())
}

async fn a_counter_ahead_of_the_clock_is_kept_for_as_long_as_it_is_ahead(
    it: &Scripts,
) -> Result<()> {
    let now = token(&it.acquire(A).await?)?;
    it.release(A).await?;
    let hour_ahead = now + 3_600_000_000;
    it.command(&["SET", &counter()?, &hour_ahead.to_string(), "PX", "30000"])
        .await?;
    ensure!(token(&it.acquire(B).await?)? == hour_ahead + 1);
    let kept = it.pttl(&counter()?).await?;
    let expected = DAY + 3_600_000;
    ensure!(
        is_nearly(kept, expected),
        "an hour and a day, not {kept} ms"
    );
    it.release(B).await?;
    ensure!(token(&it.acquire(C).await?)? == hour_ahead + 2);
    ensure!(
        is_nearly(it.pttl(&counter()?).await?, expected),
        "shortened"
    );
    Ok(())
}

async fn a_counter_that_was_raised_a_moment_ago_is_drawn_from_by_one_step(
    it: &Scripts,
) -> Result<()> {
    let first = token(&it.acquire(A).await?)?;
    it.release(A).await?;
    for next in first + 1..first + 4 {
        ensure!(it.acquire_from(A, 0, true).await? == next);
        let value = format!("mutex x {} {next}", A.text()?);
        ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == value);
        ensure!(it.command(&["GET", &counter()?]).await? == next.to_string());
        it.release(A).await?;
    }
    let clock = it.acquire_from(A, 0, false).await?;
    ensure!(clock > first + 3, "not raised: {clock} after {first}");
    Ok(())
}
