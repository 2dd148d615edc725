//! The effect of a latch's scripts on the keys of a name, and their replies, on the embedded engine and on a real server.

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_core::protocol::{Protocol as _, RequestContext, ScriptCall};
use lockkeeper_latch::{arming, count, protocol};
use lockkeeper_lua::name;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::{
    A, B, MAIN, Scripts, TTL, Who, is_nearly, lock_on, name_of, number, readers_on, vectors,
};

vectors! { Latch:
    a_name_that_nobody_armed_has_no_latch
    an_armed_latch_opens_when_as_many_ids_have_counted
    an_id_counts_once
    the_last_count_tells_those_who_wait_and_no_other_does
    a_latch_that_is_armed_again_stays_as_it_is
    a_latch_without_counts_is_open
    each_count_keeps_the_latch_for_its_ttl_and_nothing_else_does
    a_latch_that_nobody_counts_down_has_ended_and_can_be_armed_anew
    an_open_latch_is_known_for_its_ttl_and_leaves_nothing
    a_latch_that_lost_its_ids_has_ended
    ids_that_were_lost_one_by_one_count_as_not_yet_come
    ids_of_a_latch_before_do_not_count
    a_latch_is_seen_from_outside_and_forced_away
    a_revoked_latch_counts_on
    a_late_release_of_whoever_waited_changes_nothing
    locks_of_other_kinds_keep_out_and_are_kept_out
    what_is_no_latch_is_told
}

const COUNTED: &str = "lockkeeper.counted:{lockkeeper:name}";

/// A connection to a site, and the scripts of one name.
struct Latch(Scripts);

impl Deref for Latch {
    type Target = Scripts;

    fn deref(&self) -> &Scripts {
        &self.0
    }
}

impl Latch {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let mut scripts = Scripts::on(site).await?;
        scripts.kind = "latch";
        Ok(Self(scripts))
    }

    async fn arm(&self, who: Who, n: u32) -> Result<String> {
        self.call(arming(&name_of("name")?, &who.id()?, n, TTL))
            .await
    }

    async fn count(&self, id: &str) -> Result<String> {
        self.call(count(&name_of("name")?, id)).await
    }

    /// The reply to a waiter, without the time.
    async fn look(&self) -> Result<String> {
        let id = B.id()?;
        let ask = RequestContext::new(&id, TTL, 0, None);
        let reply = self.call(protocol(name_of("name")?).acquire(ask)).await?;
        let words: Vec<&str> = reply.split(' ').collect();
        Ok(match words[0] {
            "BUSY" => format!("{} of {} ms", words[3], words[1].parse::<u64>()? / 1000),
            "STORED" => words[2].to_owned(),
            _ => reply,
        })
    }

    async fn value(&self) -> Result<String> {
        self.command(&["LINDEX", MAIN, "0"]).await
    }
}

async fn a_name_that_nobody_armed_has_no_latch(it: &Latch) -> Result<()> {
    ensure!(it.look().await? == "absent");
    ensure!(it.count("a").await? == "GONE absent");
    ensure!(it.command(&["EXISTS", MAIN, COUNTED]).await? == "0");
    Ok(())
}

async fn an_armed_latch_opens_when_as_many_ids_have_counted(it: &Latch) -> Result<()> {
    ensure!(it.arm(A, 2).await? == "COUNTS 2 2 1");
    ensure!(it.value().await? == format!("latch 2/2 {} 0", A.text()?));
    ensure!(it.look().await?.starts_with("2 of "));
    ensure!(it.count("a").await? == "COUNTS 1 2");
    ensure!(it.look().await?.starts_with("1 of "));
    ensure!(it.count("b").await? == "COUNTS 0 2");
    ensure!(it.look().await? == "open");
    ensure!(it.value().await? == format!("latch 0/2 {} 0", A.text()?));
    ensure!(it.command(&["EXISTS", COUNTED]).await? == "0");
    ensure!(it.count("c").await? == "COUNTS 0 2", "more than it needs");
    Ok(())
}

async fn an_id_counts_once(it: &Latch) -> Result<()> {
    it.arm(A, 2).await?;
    for _ in 0..3 {
        ensure!(it.count("a").await? == "COUNTS 1 2");
    }
    it.count("b").await?;
    ensure!(it.count("a").await? == "COUNTS 0 2");
    Ok(())
}

async fn the_last_count_tells_those_who_wait_and_no_other_does(it: &Latch) -> Result<()> {
    let mut waiter = it.poller().await?;
    it.arm(A, 2).await?;
    it.count("a").await?;
    it.count("a").await?;
    ensure!(waiter.heard(it).await?.is_empty());
    it.count("b").await?;
    ensure!(waiter.heard(it).await? == ["free"]);
    it.count("b").await?;
    it.count("c").await?;
    ensure!(waiter.heard(it).await?.is_empty(), "told again");
    Ok(())
}

async fn a_latch_that_is_armed_again_stays_as_it_is(it: &Latch) -> Result<()> {
    ensure!(it.arm(A, 2).await? == "COUNTS 2 2 1");
    it.count("a").await?;
    it.command(&["PEXPIRE", MAIN, "9000"]).await?;
    ensure!(it.arm(A, 2).await? == "COUNTS 1 2 1", "its own, repeated");
    ensure!(it.arm(B, 2).await? == "COUNTS 1 2 0");
    ensure!(it.arm(B, 3).await? == "COUNTS 1 2 0", "another number");
    ensure!(it.pttl(MAIN).await? <= 9_000);
    it.count("b").await?;
    ensure!(it.arm(A, 2).await? == "COUNTS 0 2 1");
    ensure!(it.arm(B, 2).await? == "COUNTS 0 2 0");
    ensure!(it.look().await? == "open");
    Ok(())
}

async fn a_latch_without_counts_is_open(it: &Latch) -> Result<()> {
    ensure!(it.arm(A, 0).await? == "COUNTS 0 0 1");
    ensure!(it.look().await? == "open");
    ensure!(it.count("a").await? == "COUNTS 0 0");
    ensure!(it.command(&["EXISTS", COUNTED]).await? == "0");
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    Ok(())
}

async fn each_count_keeps_the_latch_for_its_ttl_and_nothing_else_does(it: &Latch) -> Result<()> {
    it.arm(A, 3).await?;
    ensure!(is_nearly(it.pttl(COUNTED).await?, 60_000));
    for (id, lives) in [("a", 30_000), ("a", 9_000), ("b", 30_000)] {
        it.command(&["PEXPIRE", MAIN, "9000"]).await?;
        it.command(&["PEXPIRE", COUNTED, "18000"]).await?;
        it.look().await?;
        it.arm(B, 3).await?;
        it.count(id).await?;
        let (main, counted) = (it.pttl(MAIN).await?, it.pttl(COUNTED).await?);
        ensure!(is_nearly(main, lives), "{id}: {main}");
        ensure!(is_nearly(counted, 2 * lives), "{id}: {counted}");
    }
    Ok(())
}

async fn a_latch_that_nobody_counts_down_has_ended_and_can_be_armed_anew(it: &Latch) -> Result<()> {
    it.arm(A, 2).await?;
    it.count("a").await?;
    it.command(&["PEXPIRE", MAIN, "0"]).await?;
    ensure!(it.look().await? == "ended");
    ensure!(it.count("b").await? == "GONE ended");
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    ensure!(it.arm(B, 2).await? == "COUNTS 2 2 1");
    ensure!(it.count("a").await? == "COUNTS 1 2");
    Ok(())
}

async fn an_open_latch_is_known_for_its_ttl_and_leaves_nothing(it: &Latch) -> Result<()> {
    it.arm(A, 1).await?;
    it.command(&["PEXPIRE", MAIN, "9000"]).await?;
    it.count("a").await?;
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    ensure!(it.command(&["EXISTS", COUNTED]).await? == "0");
    it.command(&["PEXPIRE", MAIN, "0"]).await?;
    ensure!(it.look().await? == "absent");
    Ok(())
}

async fn a_latch_that_lost_its_ids_has_ended(it: &Latch) -> Result<()> {
    it.arm(A, 2).await?;
    it.count("a").await?;
    it.command(&["DEL", COUNTED]).await?;
    ensure!(it.look().await? == "ended");
    ensure!(it.count("b").await? == "GONE ended");
    ensure!(it.arm(A, 2).await? == "COUNTS 2 2 1");
    Ok(())
}

async fn ids_that_were_lost_one_by_one_count_as_not_yet_come(it: &Latch) -> Result<()> {
    it.arm(A, 3).await?;
    it.count("a").await?;
    it.count("b").await?;
    it.command(&["ZREM", COUNTED, "a"]).await?;
    ensure!(it.count("c").await? == "COUNTS 1 3");
    ensure!(it.count("a").await? == "COUNTS 0 3");
    Ok(())
}

async fn ids_of_a_latch_before_do_not_count(it: &Latch) -> Result<()> {
    it.arm(A, 2).await?;
    it.count("a").await?;
    // Evicted, or taken by force.
    it.command(&["DEL", MAIN]).await?;
    ensure!(it.look().await? == "ended");
    ensure!(it.arm(B, 2).await? == "COUNTS 2 2 1");
    ensure!(it.count("b").await? == "COUNTS 1 2");
    Ok(())
}

async fn a_latch_is_seen_from_outside_and_forced_away(it: &Latch) -> Result<()> {
    it.arm(A, 3).await?;
    it.count("a").await?;
    let derived = ["holders", "queue", "state"];
    let of = name_of("name")?;
    let keys = || {
        let derived = derived.map(|part| of.part(part)).into_iter();
        [MAIN.to_owned()].into_iter().chain(derived)
    };
    let inspect = ScriptCall::new(&name::INSPECT, keys(), [of.wakes()]);
    let seen = it.call(inspect).await?;
    ensure!(seen.starts_with("FOUND latch 0 "), "{seen}");
    ensure!(seen.contains(&A.text()?), "{seen}");
    ensure!(seen.ends_with(" held 2/3 3"), "{seen}");
    let mut waiter = it.poller().await?;
    let force = ScriptCall::new(&name::FREE, keys(), [A.text()?, of.wakes()]);
    ensure!(it.call(force).await? == "RELEASED 1 0");
    ensure!(waiter.heard(it).await? == ["free"]);
    ensure!(it.look().await? == "ended");
    Ok(())
}

async fn a_revoked_latch_counts_on(it: &Latch) -> Result<()> {
    it.arm(A, 2).await?;
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.arm(B, 2).await? == "COUNTS 2 2 0");
    ensure!(it.count("a").await? == "COUNTS 1 2");
    ensure!(it.count("b").await? == "COUNTS 0 2");
    Ok(())
}

async fn a_late_release_of_whoever_waited_changes_nothing(it: &Latch) -> Result<()> {
    let (id, latch) = (B.id()?, protocol(name_of("name")?));
    let ask = || RequestContext::new(&id, TTL, 0, None);
    ensure!(it.call(latch.release(ask(), true)).await? == "NOT_HELD 0");
    it.arm(A, 2).await?;
    for overtakes in [true, false] {
        ensure!(it.call(latch.release(ask(), overtakes)).await? == "NOT_HELD 0");
    }
    ensure!(it.call(latch.verify(ask())).await? == "GONE");
    ensure!(it.count("a").await? == "COUNTS 1 2");
    let tombstone = name_of("name")?.tombstone(&B.id()?);
    ensure!(it.command(&["EXISTS", &tombstone]).await? == "0");
    Ok(())
}

async fn locks_of_other_kinds_keep_out_and_are_kept_out(it: &Latch) -> Result<()> {
    let kinds = ["mutex", "reentrant", "fair", "rwlock", "once"];
    let id = A.id()?;
    let ask = || {
        let ask = RequestContext::new(&id, TTL, 0, None);
        ask.queueing(Duration::from_secs(10), None)
    };
    for kind in kinds {
        let lock = lock_on("name", kind)?;
        let granted = it.call(lock.acquire(ask())).await?;
        ensure!(granted.starts_with("GRANTED "), "{kind}: {granted}");
        number(&granted, "GRANTED", 1)?;
        ensure!(it.look().await? == "WRONG_KIND", "{kind}");
        ensure!(it.arm(B, 2).await? == "WRONG_KIND", "{kind}");
        ensure!(it.count("a").await? == "WRONG_KIND", "{kind}");
        ensure!(it.call(lock.release(ask(), false)).await? == "RELEASED 1 0");
    }
    for n in [2, 0] {
        it.arm(B, n).await?;
        for kind in kinds {
            let answer = it.call(lock_on("name", kind)?.acquire(ask())).await?;
            ensure!(answer == "WRONG_KIND", "{kind}: {answer}");
        }
        let reader = it.call(readers_on("name")?.acquire(ask())).await?;
        ensure!(reader == "WRONG_KIND", "{reader}");
        ensure!(it.value().await? == format!("latch {n}/{n} {} 0", B.text()?));
        it.command(&["DEL", MAIN]).await?;
    }
    Ok(())
}

async fn what_is_no_latch_is_told(it: &Latch) -> Result<()> {
    for value in ["text", "latch x a 7", "latch 1 a 7", "fair * 0 0 0 0 - -"] {
        it.command(&["DEL", MAIN]).await?;
        it.command(&["RPUSH", MAIN, value]).await?;
        ensure!(it.look().await? == "WRONG_KIND", "{value}");
        ensure!(it.arm(A, 1).await? == "WRONG_KIND", "{value}");
        ensure!(it.count("a").await? == "WRONG_KIND", "{value}");
    }
    it.command(&["DEL", MAIN]).await?;
    for (key, command) in [(MAIN, "ZADD"), (COUNTED, "HSET")] {
        it.command(&[command, key, "1", "a"]).await?;
        ensure!(it.look().await? == "WRONG_KIND", "{key}");
        ensure!(it.arm(A, 1).await? == "WRONG_KIND", "{key}");
        ensure!(it.count("a").await? == "WRONG_KIND", "{key}");
        it.command(&["DEL", key]).await?;
    }
    Ok(())
}
