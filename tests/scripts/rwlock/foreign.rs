//! Keys that hold another type: what the scripts of the read-write lock leave alone.

use super::*;

vectors! { Rw:
    another_type_under_any_key_is_told_and_left_alone
    another_kind_under_the_main_key_is_told_and_left_alone
    a_foreign_fence_grants_nothing_and_costs_no_place
}

/// Nothing but refusals, and nothing changed.
async fn is_left_alone(it: &Rw, key: &str) -> Result<()> {
    for mode in [READ, WRITE] {
        ensure!(it.ask(A, mode, USUAL).await? == "WRONG_KIND", "{key}");
        ensure!(it.heartbeat(&[(A, mode)]).await? == ["GONE"], "{key}");
        ensure!(it.leave(A, mode).await? == "NOT_HELD 0", "{key}");
        ensure!(it.convert(A2, mode, A, "0").await? == "WRONG_KIND", "{key}");
    }
    ensure!(it.renew(A).await? == "DONE GONE", "{key}");
    ensure!(it.verify(A).await? == "GONE", "{key}");
    ensure!(it.keys().await? == [key]);
    ensure!(it.pttl(key).await? == -1);
    Ok(())
}

async fn another_type_under_any_key_is_told_and_left_alone(it: &Rw) -> Result<()> {
    for key in [MAIN, QUEUE, WAITERS, READERS] {
        it.do_command(&["SET", key, "text"]).await?;
        is_left_alone(it, key).await?;
        it.do_command(&["DEL", key]).await?;
    }
    it.do_command(&["HSET", FENCE, "f", "v"]).await?;
    is_left_alone(it, FENCE).await
}

async fn another_kind_under_the_main_key_is_told_and_left_alone(it: &Rw) -> Result<()> {
    it.do_command(&["HSET", MAIN, "kind", "reentrant"]).await?;
    is_left_alone(it, MAIN).await?;
    it.do_command(&["DEL", MAIN]).await?;
    it.do_command(&["ZADD", MAIN, "1", "text"]).await?;
    is_left_alone(it, MAIN).await
}

async fn a_foreign_fence_grants_nothing_and_costs_no_place(it: &Rw) -> Result<()> {
    let first = token(&it.write(A).await?)?;
    ensure!(waiting(&it.read(B).await?)? == 1);
    it.do_command(&["DEL", FENCE]).await?;
    it.do_command(&["HSET", FENCE, "f", "v"]).await?;
    ensure!(token(&it.write(A).await?)? == first);
    ensure!(it.convert(A2, READ, A, "0").await? == "WRONG_KIND");
    ensure!(it.leave(A, WRITE).await? == "RELEASED 1 0");
    ensure!(it.heartbeat(&[(B, READ)]).await? == ["WAITING 1"]);
    it.do_command(&["DEL", FENCE]).await?;
    token(&it.heartbeat(&[(B, READ)]).await?[0])?;
    Ok(())
}
