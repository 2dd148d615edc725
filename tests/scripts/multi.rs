//! The effect of the multi-lock's scripts on the keys, and their replies, on the embedded engine and on a real server, with
//! thin names and with inflated ones.

mod releases;

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_core::protocol::{Joint as _, Protocol as _, RequestContext, ScriptCall, Together};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;

use crate::scripts::single::{
    DAY, Scripts, TTL, Who, is_nearly, lock_on, name_of, number, readers_on, vectors,
};

vectors! { Scripts in [thin inflated]:
    one_name_held_by_another_keeps_all_others_free
    every_name_that_is_held_is_named
    a_tombstone_of_one_claim_keeps_all_of_them_out
    single_scripts_and_these_understand_one_another
}

mod free {
    use super::*;

    vectors! { Scripts:
        an_acquire_writes_under_each_name_what_its_kind_writes
        an_acquire_takes_each_share_that_is_asked_for
        a_repeated_acquire_arms_all_again_and_gives_the_same_tokens
        what_only_the_script_of_one_name_can_tell_is_left_to_that
        a_revoked_claim_is_told_so_and_nothing_is_armed
        another_kind_under_one_name_is_told_and_nothing_written
    }
}

mod many {
    use super::*;

    vectors! { Scripts:
        a_counter_of_another_type_begins_again
        a_name_given_twice_is_refused
        a_hundred_and_twenty_eight_names_and_more_are_one_run
    }
}

/// A name, its kind, and a claim on it.
type On<'a> = (&'a str, &'static str, Who);

/// A mutex `a`, a re-entrant lock `b` and a mutex `c`.
const fn three(owner: u8) -> [On<'static>; 3] {
    [
        ("a", "mutex", Who(owner, 1)),
        ("b", "reentrant", Who(owner, 2)),
        ("c", "mutex", Who(owner, 3)),
    ]
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn item(
    on: &On<'_>,
    verb: Together,
    change: impl Fn(&mut RequestContext<'_>),
) -> Result<ScriptCall> {
    let (name, kind, who) = *on;
    let id = who.id()?;
    let mut ask = RequestContext::new(&id, TTL, 0, None);
    change(&mut ask);
    Ok(lock_on(name, kind)?.item(ask, verb))
}

async fn ask(
    it: &Scripts,
    on: &[On<'_>],
    change: impl Fn(&mut RequestContext<'_>),
) -> Result<Vec<String>> {
    let items: Result<Vec<_>> = on
        .iter()
        .map(|on| item(on, Together::Acquire, &change))
        .collect();
    it.batch(items?).await
}

async fn acquire(it: &Scripts, on: &[On<'_>]) -> Result<Vec<String>> {
    ask(it, on, |_| {}).await
}

/// Acquires the names in the state that this test is about. Returns the outcomes.
async fn hold(it: &Scripts, on: &[On<'_>]) -> Result<Vec<String>> {
    let outcomes = acquire(it, on).await?;
    for (outcome, (name, kind, who)) in outcomes.iter().zip(on) {
        number(outcome, "GRANTED", 1)?;
        if it.inflates {
            it.inflate(name, kind, *who).await?;
        }
    }
    Ok(outcomes)
}

async fn release_with(
    it: &Scripts,
    on: &[On<'_>],
    cooldown: Duration,
    overtakes: bool,
) -> Result<Vec<String>> {
    let verb = Together::Release { overtakes };
    let items: Result<Vec<_>> = on
        .iter()
        .map(|on| item(on, verb, |ask| ask.cooldown = cooldown))
        .collect();
    it.batch(items?).await
}

async fn release(it: &Scripts, on: &[On<'_>]) -> Result<Vec<String>> {
    release_with(it, on, Duration::ZERO, false).await
}

fn statuses(outcomes: &[String]) -> Vec<&str> {
    outcomes
        .iter()
        .filter_map(|outcome| outcome.split(' ').next())
        .collect()
}

/// The reply for a name that another claim holds.
const fn held_by_another(it: &Scripts) -> &'static str {
    if it.inflates { "INFLATED" } else { "BUSY" }
}

/// The main keys that exist.
async fn held(it: &Scripts) -> Result<Vec<String>> {
    let mut keys = it.keys().await?;
    keys.retain(|key| key.starts_with("lockkeeper:"));
    Ok(keys)
}

/// What is left of the lease of the only claim under a name, from its keys, ms.
async fn left(it: &Scripts, name: &str) -> Result<i64> {
    let leases = it.leases_of(name).await?;
    ensure!(leases.len() == 1, "{leases:?}");
    Ok(leases[0].1)
}

async fn all_end_in(it: &Scripts, on: &[On<'_>], left: i64) -> Result<()> {
    for (name, _, who) in on {
        it.lease_on_ends_in(name, *who, left).await?;
    }
    Ok(())
}

async fn an_acquire_writes_under_each_name_what_its_kind_writes(it: &Scripts) -> Result<()> {
    let outcomes = acquire(it, &three(1)).await?;
    for ((name, kind, who), outcome) in three(1).into_iter().zip(&outcomes) {
        let (name, token) = (name_of(name)?, number(outcome, "GRANTED", 1)?);
        let value = format!("{kind} x {} {token}", who.text()?);
        ensure!(it.command(&["LINDEX", name.main(), "0"]).await? == value);
        ensure!(it.command(&["GET", &name.counter()]).await? == token.to_string());
        let left = it.pttl(name.main()).await?;
        ensure!(is_nearly(left, 30_000), "{name}: {left} ms");
        let left = it.pttl(&name.counter()).await?;
        ensure!(is_nearly(left, DAY), "{name}: {left} ms");
    }
    ensure!(it.keys().await?.len() == 6, "more was written");
    Ok(())
}

async fn an_acquire_takes_each_share_that_is_asked_for(it: &Scripts) -> Result<()> {
    let (reads, id) = (readers_on("a")?, Who(1, 1).id()?);
    let ask = RequestContext::new(&id, TTL, 0, None);
    let outcomes = it
        .batch([
            reads.item(ask, Together::Acquire),
            item(&three(1)[1], Together::Acquire, |_| {})?,
        ])
        .await?;
    let token = number(&outcomes[0], "GRANTED", 1)?;
    let value = format!("rwlock 1 {} {token}", Who(1, 1).text()?);
    ensure!(it.command(&["LINDEX", "lockkeeper:a", "0"]).await? == value);
    // As with a single reader, another one may read beside it.
    let other = Who(2, 1).id()?;
    let beside = it
        .call(reads.acquire(RequestContext::new(&other, TTL, 0, None)))
        .await?;
    number(&beside, "GRANTED", 1)?;
    Ok(())
}

async fn one_name_held_by_another_keeps_all_others_free(it: &Scripts) -> Result<()> {
    hold(it, &[("b", "reentrant", Who(2, 9))]).await?;
    let before = it.keys().await?;
    let outcomes = acquire(it, &three(1)).await?;
    ensure!(
        statuses(&outcomes) == ["FREE", held_by_another(it), "FREE"],
        "{outcomes:?}"
    );
    if !it.inflates {
        let left = number(&outcomes[1], "BUSY", 1)?;
        ensure!(is_nearly(left, 30_000), "{left}");
    }
    ensure!(it.keys().await? == before, "something was written");
    Ok(())
}

async fn every_name_that_is_held_is_named(it: &Scripts) -> Result<()> {
    hold(
        it,
        &[("a", "mutex", Who(2, 8)), ("b", "reentrant", Who(2, 9))],
    )
    .await?;
    let before = it.dump().await?;
    let outcomes = acquire(it, &three(1)).await?;
    let held = held_by_another(it);
    ensure!(statuses(&outcomes) == [held, held, "FREE"], "{outcomes:?}");
    ensure!(it.dump().await? == before);
    Ok(())
}

async fn a_repeated_acquire_arms_all_again_and_gives_the_same_tokens(it: &Scripts) -> Result<()> {
    let first = hold(it, &three(1)).await?;
    all_end_in(it, &three(1), 3_000).await?;
    ensure!(acquire(it, &three(1)).await? == first);
    for name in NAMES {
        let left = left(it, name).await?;
        ensure!(is_nearly(left, 30_000), "{name}: {left} ms");
    }
    Ok(())
}

async fn what_only_the_script_of_one_name_can_tell_is_left_to_that(it: &Scripts) -> Result<()> {
    // Another claim of the same owner; another library's value; a marker without holders.
    hold(it, &[("a", "reentrant", Who(1, 9))]).await?;
    it.command(&["SET", "lockkeeper:b", "somebody"]).await?;
    it.command(&["RPUSH", "lockkeeper:c", "mutex * 0 0 0 0 - -"])
        .await?;
    let before = it.dump().await?;
    let on = [
        ("a", "reentrant", Who(1, 1)),
        ("b", "mutex", Who(1, 2)),
        ("c", "mutex", Who(1, 3)),
    ];
    ensure!(acquire(it, &on).await? == ["INFLATED"; 3]);
    // Another reader reads, and this one may read beside it.
    let (reads, one, other) = (readers_on("d")?, Who(1, 4).id()?, Who(2, 4).id()?);
    let ask = |id| RequestContext::new(id, TTL, 0, None);
    number(&it.call(reads.acquire(ask(&other))).await?, "GRANTED", 1)?;
    ensure!(it.batch([reads.item(ask(&one), Together::Acquire)]).await? == ["INFLATED"]);
    number(
        &it.call(reads.release(ask(&other), false)).await?,
        "RELEASED",
        1,
    )?;
    it.command(&["DEL", &name_of("d")?.counter()]).await?;
    ensure!(it.dump().await? == before, "something was written");
    Ok(())
}

async fn a_tombstone_of_one_claim_keeps_all_of_them_out(it: &Scripts) -> Result<()> {
    let tombstone = name_of("c")?.tombstone(&Who(1, 3).id()?);
    it.command(&["SET", &tombstone, "1", "PX", "5000"]).await?;
    let outcomes = acquire(it, &three(1)).await?;
    ensure!(outcomes == ["FREE", "FREE", "GONE"], "{outcomes:?}");
    ensure!(held(it).await?.is_empty());
    Ok(())
}

async fn a_revoked_claim_is_told_so_and_nothing_is_armed(it: &Scripts) -> Result<()> {
    hold(it, &three(1)).await?;
    all_end_in(it, &three(1), 3_000).await?;
    for name in ["a", "b"] {
        ensure!(it.revoke_on(name).await? == "TOLD 1");
    }
    let outcomes = acquire(it, &three(1)).await?;
    ensure!(outcomes == ["REVOKED", "REVOKED", "FREE"], "{outcomes:?}");
    for name in NAMES {
        ensure!(left(it, name).await? <= 3_000, "{name}");
    }
    ensure!(release(it, &three(1)).await? == ["RELEASED 1 0"; 3]);
    Ok(())
}

async fn another_kind_under_one_name_is_told_and_nothing_written(it: &Scripts) -> Result<()> {
    hold(
        it,
        &[("a", "reentrant", Who(2, 1)), ("b", "mutex", Who(2, 2))],
    )
    .await?;
    it.command(&["HSET", "lockkeeper:c", "field", "value"])
        .await?;
    let before = it.dump().await?;
    let outcomes = acquire(it, &three(1)).await?;
    ensure!(outcomes == ["WRONG_KIND"; 3], "{outcomes:?}");
    ensure!(it.dump().await? == before);
    Ok(())
}

async fn a_counter_of_another_type_begins_again(it: &Scripts) -> Result<()> {
    let counter = name_of("c")?.counter();
    it.command(&["HSET", &counter, "field", "value"]).await?;
    hold(it, &three(1)).await?;
    ensure!(it.command(&["GET", &counter]).await?.parse::<u64>()? > 0);
    Ok(())
}

async fn a_name_given_twice_is_refused(it: &Scripts) -> Result<()> {
    let outcomes = acquire(it, &[("a", "mutex", Who(1, 1)), ("a", "mutex", Who(1, 2))]).await?;
    ensure!(outcomes == ["FREE", "WRONG_KIND"], "{outcomes:?}");
    ensure!(it.keys().await?.is_empty());
    Ok(())
}

async fn single_scripts_and_these_understand_one_another(it: &Scripts) -> Result<()> {
    hold(it, &three(1)).await?;
    let other = Who(2, 7).id()?;
    for (name, kind, who) in three(1) {
        let lock = lock_on(name, kind)?;
        let busy = it
            .call(lock.acquire(RequestContext::new(&other, TTL, 0, None)))
            .await?;
        number(&busy, "BUSY", 1)?;
        // Single scripts treat such a claim like any other.
        let id = who.id()?;
        let ask = RequestContext::new(&id, TTL, 0, None);
        ensure!(it.batch([lock.renew(ask)]).await? == ["RENEWED"]);
        number(&it.call(lock.verify(ask)).await?, "HELD", 1)?;
        ensure!(it.call(lock.release(ask, false)).await? == "RELEASED 1 0");
        // A claim of a single lock excludes several names.
        number(
            &it.call(lock.acquire(RequestContext::new(&other, TTL, 0, None)))
                .await?,
            "GRANTED",
            1,
        )?;
        if it.inflates {
            it.inflate(name, kind, Who(2, 7)).await?;
        }
    }
    let outcomes = acquire(it, &three(1)).await?;
    ensure!(
        statuses(&outcomes) == [held_by_another(it); 3],
        "{outcomes:?}"
    );
    let single: Vec<_> = three(2)
        .map(|(name, kind, _)| (name, kind, Who(2, 7)))
        .into();
    let released = match it.inflates {
        true => "INFLATED",
        false => "RELEASED 1 0",
    };
    ensure!(release(it, &single).await? == [released; 3]);
    Ok(())
}

async fn a_hundred_and_twenty_eight_names_and_more_are_one_run(it: &Scripts) -> Result<()> {
    for count in [1, 2, 16, 128, 1024] {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{count}:{number}"))
            .collect();
        let kinds = ["mutex", "reentrant"].into_iter().cycle();
        let on: Vec<On<'_>> = names
            .iter()
            .zip(kinds)
            .map(|(name, kind)| (&**name, kind, Who(1, 1)))
            .collect();
        let outcomes = acquire(it, &on).await?;
        ensure!(outcomes.len() == count && statuses(&outcomes) == vec!["GRANTED"; count]);
        let left = release(it, &on).await?;
        ensure!(left == vec!["RELEASED 1 0"; count]);
    }
    Ok(())
}
