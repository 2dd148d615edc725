//! Keys that hold another type, servers that refuse: what the scripts of the fair lock leave alone.

use super::*;

vectors! { Fair:
    what_a_deleted_queue_has_left_counts_for_nobody
    another_type_under_the_main_key_is_left_alone
    another_type_under_the_queue_is_left_alone
    another_type_under_the_waiters_is_left_alone
    another_type_under_the_fence_is_left_alone
    one_foreign_key_in_a_batch_does_not_touch_its_neighbours
}

async fn what_a_deleted_queue_has_left_counts_for_nobody(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.pass(GAP).await?;
    it.do_command(&["DEL", QUEUE]).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    ensure!(waiting(&it.acquire(D).await?)? == 1);
    ensure!(it.do_command(&["HGET", WAITERS, B]).await?.is_empty());
    ensure!(it.do_command(&["HGET", WAITERS, "grace"]).await?.is_empty());
    Ok(())
}

async fn another_type_under_the_main_key_is_left_alone(it: &Fair) -> Result<()> {
    line_up(it, &[B]).await?;
    for foreign in [
        &["SET", MAIN, "text"][..],
        &["HSET", MAIN, "kind", "reentrant"],
        &["ZADD", MAIN, "1", "text"],
    ] {
        it.do_command(&["DEL", MAIN]).await?;
        it.do_command(foreign).await?;
        ensure!(it.acquire(C).await? == "WRONG_KIND");
        ensure!(it.heartbeat(&[B, A]).await? == ["GONE", "GONE"]);
        ensure!(it.leave(A).await? == "NOT_HELD 0");
        ensure!(it.pttl(MAIN).await? == -1);
    }
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    ensure!(it.keys().await? == [FENCE, MAIN]);
    Ok(())
}

async fn another_type_under_the_queue_is_left_alone(it: &Fair) -> Result<()> {
    left_alone_at(it, QUEUE).await
}

async fn another_type_under_the_waiters_is_left_alone(it: &Fair) -> Result<()> {
    left_alone_at(it, WAITERS).await
}

async fn another_type_under_the_fence_is_left_alone(it: &Fair) -> Result<()> {
    let first = line_up(it, &[B, C]).await?;
    it.do_command(&["DEL", FENCE]).await?;
    it.do_command(&["HSET", FENCE, "f", "v"]).await?;
    ensure!(it.heartbeat(&[A, C]).await? == [format!("GRANTED {first}"), "WAITING 2".to_owned()]);
    ensure!(it.acquire(D).await? == "WRONG_KIND");
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    // No token can be drawn, so nothing is granted, and nobody loses its place.
    ensure!(it.heartbeat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
    ensure!(it.acquire(D).await? == "WRONG_KIND");
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    ensure!(it.pttl(FENCE).await? == -1);
    it.do_command(&["DEL", FENCE]).await?;
    token(&it.heartbeat(&[C]).await?[0])?;
    Ok(())
}

async fn one_foreign_key_in_a_batch_does_not_touch_its_neighbours(it: &Fair) -> Result<()> {
    line_up(it, &[B, C]).await?;
    let foreign = |name: &str| Name::new("lockkeeper", name);
    let (main, queue, waiters) = (foreign("main")?, foreign("queue")?, foreign("waiters")?);
    let fence = foreign("fence")?;
    for key in [main.main(), &queue.part("queue"), &waiters.part("waiters")] {
        it.do_command(&["SET", key, "text"]).await?;
    }
    it.leave(A).await?;
    let items = [
        (main, B),
        (Fair::name()?, B),
        (queue, B),
        (waiters, C),
        (Fair::name()?, C),
        (fence.clone(), B),
    ];
    // Free, and the first in the queue cannot be granted.
    it.do_command(&["HSET", &fence.part("fence"), "f", "v"])
        .await?;
    it.do_command(&["ZADD", &fence.part("queue"), "1", B])
        .await?;
    it.do_command(&["HSET", &fence.part("waiters"), B, "9000000000000:1"])
        .await?;
    let outcomes = it.heartbeat_names(&items).await?;
    token(&outcomes[1])?;
    for (index, expected) in [
        (0, "GONE"),
        (2, "GONE"),
        (3, "GONE"),
        (4, "WAITING 1"),
        (5, "WAITING 1"),
    ] {
        ensure!(outcomes[index] == expected, "{outcomes:?}");
    }
    Ok(())
}

async fn left_alone_at(it: &Fair, key: &str) -> Result<()> {
    it.do_command(&["SET", key, "text"]).await?;
    ensure!(it.acquire(A).await? == "WRONG_KIND");
    it.do_command(&["DEL", key]).await?;
    let first = token(&it.acquire(A).await?)?;
    it.do_command(&["SET", key, "text"]).await?;
    ensure!(it.acquire(B).await? == "WRONG_KIND");
    // Whoever holds is not concerned.
    ensure!(it.acquire(A).await? == format!("GRANTED {first}"));
    ensure!(it.heartbeat(&[A, B]).await? == [format!("GRANTED {first}"), "GONE".to_owned()]);
    ensure!(it.leave(A).await? == "RELEASED 1 0");
    ensure!(it.do_command(&["GET", key]).await? == "text");
    ensure!(it.pttl(key).await? == -1);
    Ok(())
}

#[tokio::test]
async fn a_refused_message_is_a_flag_and_the_grant_stands() -> Result<()> {
    let server = Server::start().await?;
    let rules = [
        "ACL", "SETUSER", "u", "on", ">pw", "~*", "+@all", "-publish",
    ];
    server.command(&rules).await?;
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port());
    let it = Fair {
        store: Arc::new(RedisStore::connect(&url).await?),
        site: Box::new(server),
        requests: AtomicU64::new(0),
    };
    line_up(&it, &[B]).await?;
    ensure!(it.leave(A).await? == "RELEASED 0 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_newcomers_and_serves_those_who_wait() -> Result<()> {
    let it = Fair::on(Server::start().await?).await?;
    line_up(&it, &[B, C]).await?;
    it.do_command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    let refused = it.acquire(D).await.err().context("there is no room")?;
    ensure!(refused.to_string().contains("OOM"), "{refused}");
    ensure!(it.heartbeat(&[B, C]).await? == ["WAITING 1", "WAITING 2"]);
    ensure!(it.leave_with(A, "0", "5000").await? == "RELEASED 1 0");
    token(&it.heartbeat(&[B]).await?[0])?;
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(it.leave(C).await? == "RELEASED 1 0");
    ensure!(it.leave(B).await? == "RELEASED 1 0");
    Ok(())
}

/// Whoever sets up a server reads there what to allow.
#[tokio::test]
async fn the_rights_that_the_wire_format_names_are_enough() -> Result<()> {
    const PAGE: &str = include_str!("../../../docs/wire-format.md");
    let (_, rules) = PAGE.split_once("ACL SETUSER app").context("the rights")?;
    let (rules, _) = rules.split_once("```").context("their end")?;
    let rules = rules.replace("billing", "lockkeeper");
    let server = Server::start().await?;
    let words: Vec<&str> = ["ACL", "SETUSER", "app"]
        .into_iter()
        .chain(rules.split_whitespace())
        .collect();
    server.command(&words).await?;
    let url = format!("redis://app:password@127.0.0.1:{}", server.port());
    let it = Fair {
        store: Arc::new(RedisStore::connect(&url).await?),
        site: Box::new(server),
        requests: AtomicU64::new(0),
    };
    line_up(&it, &[B, C]).await?;
    it.dies(B).await?;
    ensure!(it.heartbeat(&[C]).await? == ["WAITING 1"]);
    ensure!(it.place(C).await? == "QUEUED 1 1");
    ensure!(
        it.leave_with(A, "0", "5000").await? == "RELEASED 1 0",
        "told"
    );
    let granted = token(&it.heartbeat(&[C]).await?[0])?;
    ensure!(
        token(
            &it.acquire_with(C, "1000", &granted.to_string(), "-1")
                .await?
        )? == granted
    );
    ensure!(it.run(&reentrant::RENEW, &[MAIN], &[C, "1000"]).await? == "DONE RENEWED");
    number(&it.run(&reentrant::VERIFY, &[MAIN], &[C]).await?, "HELD", 1)?;
    number(&it.leave_with(C, "100", "0").await?, "COOLDOWN", 2)?;
    Ok(())
}
