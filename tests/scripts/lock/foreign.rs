//! Keys with another type or another kind's data: the scripts leave them alone.

use super::*;

vectors! { [thin inflated] [rwlock] {
    another_type_or_kind_under_the_main_key_is_left_alone
    another_type_under_the_counter_stops_no_grant
}}

mod derived {
    use super::*;

    vectors! { [thin] [rwlock] {
        what_lies_under_other_keys_means_nothing_to_a_thin_name
        another_type_under_the_holders_is_left_alone
        another_type_under_the_queue_is_left_alone
        another_type_under_the_state_is_left_alone
        one_foreign_key_in_a_batch_does_not_touch_its_neighbours
    }}

    /// Data under the other keys is from an earlier time.
    async fn what_lies_under_other_keys_means_nothing_to_a_thin_name(it: &Lock) -> Result<()> {
        for of in it.shares() {
            for key in it.derived() {
                it.command(&["SET", &key, "text"]).await?;
                let first = it.hold(of(A)).await?;
                ensure!(it.heartbeat(&[of(A)]).await? == [format!("GRANTED {first}")]);
                ensure!(it.renew(of(A), "60000").await? == "DONE RENEWED");
                ensure!(is_nearly(it.left(of(A)).await?, HOUR));
                ensure!(it.command(&["GET", &key]).await? == "text");
                ensure!(waiting(&it.acquire(B).await?)? == 1);
                ensure!(it.release(of(A)).await? == "RELEASED 1 0");
                ensure!(it.release(B).await? == "RELEASED 1 0");
                ensure!(it.keys().await?.is_empty());
            }
        }
        Ok(())
    }

    async fn another_type_under_the_holders_is_left_alone(it: &Lock) -> Result<()> {
        left_alone_at(it, &it.holders(), "GONE").await?;
        // No claim is left there.
        token(&it.heartbeat(&[B]).await?[0])?;
        Ok(())
    }

    async fn another_type_under_the_queue_is_left_alone(it: &Lock) -> Result<()> {
        left_alone_at(it, &it.queue(), "RENEWED").await?;
        ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
        ensure!(waiting(&it.acquire(C).await?)? == 1);
        Ok(())
    }

    async fn another_type_under_the_state_is_left_alone(it: &Lock) -> Result<()> {
        left_alone_at(it, &it.state(), "RENEWED").await?;
        // It is unknown whether the claim is alive.
        ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
        ensure!(waiting(&it.acquire(C).await?)? == 1);
        Ok(())
    }

    /// `A` holds, `B` waits, and the key is replaced. Afterwards it is deleted.
    async fn left_alone_at(it: &Lock, key: &str, renewed: &str) -> Result<()> {
        line_up(it, &[B]).await?;
        it.command(&["DEL", key]).await?;
        it.command(&["SET", key, "text"]).await?;
        let before = it.value().await?;
        for claim in [A, B, C] {
            ensure!(it.acquire(claim).await? == "WRONG_KIND");
            ensure!(it.heartbeat(&[claim]).await? == ["GONE"]);
            ensure!(it.release(claim).await? == "NOT_HELD 0");
            ensure!(it.convert(D, claim, "0").await? == "WRONG_KIND");
        }
        // The holder is not affected as long as it is known.
        ensure!(it.renew(A, "60000").await? == format!("DONE {renewed}"));
        ensure!((it.verify(A).await? == "GONE") == (renewed == "GONE"));
        ensure!(it.value().await? == before);
        ensure!(it.command(&["GET", key]).await? == "text");
        ensure!(it.pttl(key).await? == -1);
        it.command(&["DEL", key]).await?;
        Ok(())
    }

    async fn one_foreign_key_in_a_batch_does_not_touch_its_neighbours(it: &Lock) -> Result<()> {
        let names = ["main", "holders", "queue", "state"].map(|name| it.named(name));
        let mut items = Vec::new();
        for (name, key) in names.into_iter().zip(0..) {
            let name = name?;
            line_up(&name, &[B]).await?;
            let key = &name.all()[key];
            it.command(&["DEL", key]).await?;
            it.command(&["SET", key, "text"]).await?;
            items.push(name.beat(B));
        }
        line_up(it, &[B, C]).await?;
        it.release(A).await?;
        items.insert(1, it.beat(B));
        items.push(it.beat(C));
        let outcomes = it.batch(items).await?;
        token(&outcomes[1])?;
        ensure!(outcomes[5].starts_with("WAITING 1 "), "{outcomes:?}");
        for index in [0, 2, 3, 4] {
            ensure!(outcomes[index] == "GONE", "{outcomes:?}");
        }
        Ok(())
    }
}

async fn another_type_or_kind_under_the_main_key_is_left_alone(it: &Lock) -> Result<()> {
    let main = &*it.main();
    let thin = format!("reentrant x {F} 17");
    let mut values = vec![
        vec!["SET", main, "text"],
        vec!["RPUSH", main, &thin],
        vec!["HSET", main, "kind", it.kind],
        vec!["ZADD", main, "1", "text"],
    ];
    if it.inflated {
        values.push(vec!["RPUSH", main, "reentrant * 1 1 0 17 -e 67e5:1"]);
    }
    for foreign in values {
        if it.inflated {
            line_up(it, &[B]).await?;
        }
        it.command(&["DEL", main]).await?;
        it.command(&foreign).await?;
        let before = (it.keys().await?, it.command(&["TYPE", main]).await?);
        for of in it.shares() {
            ensure!(it.acquire(of(C)).await? == "WRONG_KIND", "{foreign:?}");
            ensure!(it.heartbeat(&[of(A), of(C)]).await? == ["GONE", "GONE"]);
            ensure!(it.convert(D, of(C), "0").await? == "WRONG_KIND");
            ensure!(it.release(of(C)).await? == "NOT_HELD 0");
            ensure!(it.renew(of(C), "60000").await? == "DONE GONE");
            ensure!(it.verify(of(C)).await? == "GONE");
        }
        ensure!(before == (it.keys().await?, it.command(&["TYPE", main]).await?));
        ensure!(it.pttl(main).await? == -1);
        it.command(&["DEL", main]).await?;
    }
    Ok(())
}

/// Many names share the counter: the next grant begins a new one.
async fn another_type_under_the_counter_stops_no_grant(it: &Lock) -> Result<()> {
    let counter = it.name.counter();
    let replaced = async || {
        it.command(&["DEL", &counter]).await?;
        it.command(&["HSET", &counter, "f", "v"]).await
    };
    let first = line_up(it, &[B, C]).await?;
    replaced().await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    let granted = it.heartbeat(&[B, C]).await?;
    let second = token(&granted[0])?;
    ensure!(second > first && granted[1] == "WAITING 1", "{granted:?}");
    replaced().await?;
    ensure!(it.release(B).await? == "RELEASED 1 0");
    let third = token(&it.acquire(C).await?)?;
    ensure!(third > second);
    ensure!(it.release(C).await? == "RELEASED 1 0");
    replaced().await?;
    let fourth = token(&it.acquire(D).await?)?;
    ensure!(fourth > third);
    ensure!(it.command(&["GET", &counter]).await? == fourth.to_string());
    ensure!(it.pttl(&counter).await? > 0);
    Ok(())
}
