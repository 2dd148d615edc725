//! Foreign data under a name's keys.

use super::*;

vectors! { Scripts:
    another_type_under_the_main_key_is_told_and_left_alone
    a_peers_lock_excludes_ours_and_ours_excludes_it
    another_librarys_value_is_busy_for_a_mutex_and_another_kind_where_owners_reenter
    another_kinds_claim_is_told_and_left_alone
    what_only_looks_like_a_marker_is_told_and_left_alone
}

/// The protocols of all kinds on the name, with their labels.
fn all_kinds() -> Result<Vec<(&'static str, LockProtocol)>> {
    let mut kinds = vec![("readers", readers_on("name")?)];
    for kind in ["mutex", "reentrant", "fair", "rwlock"] {
        kinds.push((kind, lock_on("name", kind)?));
    }
    Ok(kinds)
}

/// Checks every request of this kind but acquiring: the claim is told that it is gone, or to use the scripts for inflated
/// names.
async fn is_not_there(it: &Scripts, lock: &LockProtocol) -> Result<()> {
    let (a, value) = (A.id()?, it.command(&["TYPE", MAIN]).await?);
    let is_inflated = value == "list" && it.command(&["LINDEX", MAIN, "0"]).await?.contains(" * ");
    for inflated in [false, true] {
        let ask = usual(&a).on_inflated(inflated);
        let ask = ask.granted(Some(FencingToken::new(7)));
        let (gone, not_held) = match (is_inflated, inflated) {
            (true, false) => ("INFLATED", "INFLATED"),
            (false, false) => ("GONE", "INFLATED"),
            (_, true) => ("GONE", "NOT_HELD 0"),
        };
        ensure!(it.batch([lock.renew(ask)]).await? == [gone]);
        let released = it.call(lock.release(ask, false)).await?;
        ensure!(released == not_held, "{released}");
    }
    ensure!(it.call(lock.verify(usual(&a))).await? == "GONE");
    if let Some(queue) = lock.queue() {
        ensure!(it.batch([queue.heartbeat(usual(&a))]).await? == ["GONE"]);
    }
    Ok(())
}

async fn another_type_under_the_main_key_is_told_and_left_alone(it: &Scripts) -> Result<()> {
    it.command(&["HSET", MAIN, "kind", "other"]).await?;
    let before = it.dump().await?;
    for (kind, lock) in all_kinds()? {
        is_not_there(it, &lock).await?;
        ensure!(it.dump().await? == before, "{kind}");
    }
    for (kind, lock) in all_kinds()? {
        // For a first request, which only looks for a free name, and for a repeated one.
        for token in [None, Some(FencingToken::new(7))] {
            let a = A.id()?;
            let mut ask = usual(&a);
            ask.token = token;
            ensure!(it.call(lock.acquire(ask)).await? == "WRONG_KIND", "{kind}");
        }
    }
    ensure!(it.keys().await? == [MAIN]);
    ensure!(it.command(&["HGET", MAIN, "kind"]).await? == "other" && it.pttl(MAIN).await? == -1);
    Ok(())
}

/// A string key, a random token, compare and delete: the simple lock of many libraries.
async fn a_peers_lock_excludes_ours_and_ours_excludes_it(it: &Scripts) -> Result<()> {
    const DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    let takes = ["SET", MAIN, "peer", "NX", "PX", "30000"];
    let deletes = ["EVAL", DELETE, "1", MAIN, "peer"];
    ensure!(it.command(&takes).await? == "OK");
    let left = number(&it.acquire(A).await?, "BUSY", 1)?;
    ensure!(is_nearly(left, 30_000), "{left} ms");
    ensure!(it.release(A).await? == "NOT_HELD 0");
    ensure!(it.command(&deletes).await? == "1");

    token(&it.acquire(A).await?)?;
    for inflates in [false, true] {
        if inflates {
            it.inflate("name", "mutex", A).await?;
        }
        ensure!(it.command(&takes).await?.is_empty());
        // It says that it fails, where it would say 0 of another string.
        ensure!(it.command(&deletes).await.is_err());
        ensure!(it.renew(A).await? == "RENEWED");
    }
    Ok(())
}

async fn another_librarys_value_is_busy_for_a_mutex_and_another_kind_where_owners_reenter(
    it: &Scripts,
) -> Result<()> {
    let words = ["somebody", "3f1c", "mutex x claim", "mutex:1:2", "x"];
    for (value, left) in words
        .iter()
        .flat_map(|word| [(word, None), (word, Some("30000"))])
    {
        it.command(&["DEL", MAIN]).await?;
        let mut set = vec!["SET", MAIN, value];
        set.extend(left.iter().flat_map(|left| ["PX", left]));
        it.command(&set).await?;
        let before = it.dump().await?;
        for (kind, lock) in all_kinds()? {
            let reply = it.call(lock.acquire(usual(&A.id()?))).await?;
            if kind != "mutex" {
                ensure!(reply == "WRONG_KIND", "{kind}: {reply}");
            } else if left.is_none() {
                ensure!(reply == "BUSY -1 1", "{reply}");
            } else {
                ensure!(
                    is_nearly(number(&reply, "BUSY", 1)?, 30_000)
                        && number(&reply, "BUSY", 2)? == 1,
                    "{reply}"
                );
            }
            is_not_there(it, &lock).await?;
            ensure!(it.dump().await? == before, "{kind}");
        }
        // Nor does it create a queue.
        let waiting = lock_on("name", "mutex")?.queueing();
        number(&it.call(waiting.acquire(usual(&A.id()?))).await?, "BUSY", 1)?;
        ensure!(it.revoke().await? == "WRONG_KIND");
        ensure!(it.dump().await? == before, "{value}");
        ensure!((it.pttl(MAIN).await? == -1) == left.is_none(), "{value}");
    }
    Ok(())
}

async fn another_kinds_claim_is_told_and_left_alone(it: &Scripts) -> Result<()> {
    for holder in ["mutex", "reentrant", "fair", "rwlock"] {
        let held = lock_on("name", holder)?;
        let b = B.id()?;
        token(&it.call(held.acquire(usual(&b))).await?)?;
        for inflates in [false, true] {
            if inflates {
                it.inflate("name", holder, B).await?;
            }
            let before = it.dump().await?;
            for (kind, lock) in all_kinds()? {
                if kind == holder || (kind, holder) == ("readers", "rwlock") {
                    continue;
                }
                let reply = it.call(lock.acquire(usual(&A.id()?))).await?;
                ensure!(reply == "WRONG_KIND", "{kind} on {holder}: {reply}");
                is_not_there(it, &lock).await?;
                ensure!(it.dump().await? == before, "{kind} on {holder}");
            }
        }
        ensure!(it.call(held.release(usual(&b), false)).await? == "RELEASED 1 0");
    }
    Ok(())
}

async fn what_only_looks_like_a_marker_is_told_and_left_alone(it: &Scripts) -> Result<()> {
    for value in [
        "mutex * ",
        "mutex * 1 1 0 7",
        "mutex * a b c d - e",
        "mutex * 1 1 0 7 p owner",
        // The format that docs/wire-format.md promises for a later version.
        "wire * 2 whatever it says",
    ] {
        it.command(&["DEL", MAIN]).await?;
        it.command(&["RPUSH", MAIN, value]).await?;
        let before = it.dump().await?;
        for (kind, lock) in all_kinds()? {
            let a = A.id()?;
            ensure!(
                it.call(lock.acquire(usual(&a))).await? == "WRONG_KIND",
                "{kind}: {value}"
            );
            ensure!(
                it.call(lock.verify(usual(&a))).await? == "GONE",
                "{kind}: {value}"
            );
            ensure!(
                it.batch([lock.renew(usual(&a))]).await? == ["GONE"],
                "{kind}: {value}"
            );
            ensure!(
                it.call(lock.release(usual(&a), false)).await? == "NOT_HELD 0",
                "{kind}: {value}"
            );
            ensure!(it.dump().await? == before, "{kind}: {value}");
        }
    }
    Ok(())
}
