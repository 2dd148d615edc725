//! Administration by name alone, and keys changed by hand.

use super::*;

vectors! { [thin inflated] [rwlock] {
    what_is_held_is_told_to_whoever_asks
    force_takes_the_name_from_all_who_hold_together
    a_marker_whose_holders_were_deleted_stands_for_nobody
    what_a_deleted_queue_has_left_counts_for_nobody
    a_deleted_marker_is_a_free_name
}}

async fn what_is_held_is_told_to_whoever_asks(it: &Lock) -> Result<()> {
    ensure!(it.place("").await? == "QUEUED 0 0");
    ensure!(it.inspect().await? == "FREE 0");
    ensure!(it.revoke().await? == "FREE");
    for of in it.shares() {
        let (kind, share) = (it.kind, of(A).share);
        let token = it.hold(of(A)).await?;
        let held = async |waiters: usize, state: &str| {
            let found = it.inspect().await?;
            let words: Vec<&str> = found.split(' ').collect();
            let (token, waiters) = (token.to_string(), waiters.to_string());
            ensure!(
                words[..5] == ["FOUND", kind, &token, &waiters, A],
                "{found}"
            );
            ensure!(words[6..] == [state, share, "0"], "{found}");
            ensure!(is_nearly(words[5].parse()?, HOUR), "{found}");
            anyhow::Ok(())
        };
        held(0, "held").await?;
        for claim in [B, C] {
            waiting(&it.acquire(claim).await?)?;
        }
        held(2, "held").await?;
        ensure!(it.place("").await? == "QUEUED 2 0");
        ensure!(it.place(C).await? == "QUEUED 2 2");
        let queue = it
            .run(&name::WAITERS, [it.main(), it.queue()], &["0", "9"])
            .await?;
        ensure!(queue == format!("WAITERS {B} {C}"), "{queue}");
        ensure!(it.revoke().await? == "TOLD 1");
        held(2, "revoked").await?;
        ensure!(it.free(B).await? == "NOT_HELD 0");
        ensure!(it.free(A).await? == "RELEASED 1 0");
        ensure!(it.inspect().await? == "FREE 2");
        for claim in [C, B] {
            it.release(claim).await?;
        }
    }
    it.hold(A).await?;
    waiting(&it.acquire(B).await?)?;
    it.command(&["SET", &it.queue(), "text"]).await?;
    ensure!(it.place(C).await? == "WRONG_KIND");
    Ok(())
}

async fn force_takes_the_name_from_all_who_hold_together(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = it.hold(A).await?;
        ensure!(it.free(A).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
        it.hold(A).await?;
        token(&it.acquire(of(A2)).await?)?;
        ensure!(it.free(of(A2).id).await? == "RELEASED 1 0");
        for claim in [writer(A), of(A2)] {
            ensure!(it.verify(claim).await? == "GONE");
            ensure!(it.release(claim).await? == "NOT_HELD 0");
        }
        ensure!(token(&it.acquire(of(B)).await?)? > first);
        ensure!(it.release(of(B)).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn a_marker_whose_holders_were_deleted_stands_for_nobody(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = line_up(it, &[]).await?;
        token(&it.acquire(of(A2)).await?)?;
        it.command(&["DEL", &it.holders()]).await?;
        for claim in [writer(A), of(A2)] {
            ensure!(it.verify(claim).await? == "GONE");
            ensure!(it.renew(claim, "60000").await? == "DONE GONE");
            ensure!(it.release(claim).await? == "NOT_HELD 0");
        }
        // No claim waits: what is left is removed.
        let second = it.hold(A).await?;
        ensure!(second > first);
        for claim in [B, C] {
            waiting(&it.acquire(claim).await?)?;
        }
        it.command(&["DEL", &it.holders()]).await?;
        ensure!(waiting(&it.acquire(of(D)).await?)? == 2);
        ensure!(it.counts().await? == "1 1 0");
        let granted = it.heartbeat(&[B, C]).await?;
        ensure!(token(&granted[0])? > second && granted[1] == "WAITING 1");
        for claim in [writer(B), writer(C), of(D)] {
            ensure!(it.release(claim).await? == "RELEASED 1 0");
        }
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn what_a_deleted_queue_has_left_counts_for_nobody(it: &Lock) -> Result<()> {
    line_up(it, &[B, C]).await?;
    it.pass(GAP).await?;
    it.command(&["DEL", &it.queue()]).await?;
    ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
    ensure!(waiting(&it.acquire(D).await?)? == 1);
    ensure!(it.heartbeat(&[C, D]).await? == ["GONE", "WAITING 1"]);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    token(&it.heartbeat(&[D]).await?[0])?;
    Ok(())
}

/// Without the marker, the other keys mean nothing.
async fn a_deleted_marker_is_a_free_name(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let first = line_up(it, &[B]).await?;
        it.command(&["DEL", &it.main()]).await?;
        ensure!(it.verify(A).await? == "GONE");
        ensure!(it.renew(A, "60000").await? == "DONE GONE");
        ensure!(it.heartbeat(&[A, B]).await? == ["GONE", "GONE"]);
        ensure!(token(&it.acquire(of(C)).await?)? > first);
        ensure!(it.verify(A).await? == "GONE");
        ensure!(waiting(&it.acquire(D).await?)? == 1);
        ensure!(it.heartbeat(&[B]).await? == ["GONE"]);
        ensure!(it.release(of(C)).await? == "RELEASED 1 0");
        ensure!(it.release(D).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}
