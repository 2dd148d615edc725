//! What other clients see of a lock, and can do to it.

use lockkeeper::HolderState;

use super::shared::*;

pub async fn inspection_shows_who_holds_and_how_many_wait<S: Subject>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (
        site.client(settings().label("machine one")).await?,
        client(site).await?,
    );
    let seen = other.inspect("name").await?;
    ensure!((seen.kind, seen.token, seen.holders.len()) == (None, None, 0));
    ensure!(seen.waiters == Some(0));

    let lock = S::new(&one, "name");
    let guard = lock.acquire().await?;
    let contender = S::Contender::new(&other, "name");
    let waiting = tokio::spawn(async move { contender.acquire().await });
    let seen = loop {
        let seen = other.inspect("name").await?;
        // The label is written, and the waiter subscribes, a moment after the grant.
        if seen.waiters == Some(1) && seen.holders.iter().all(|holder| holder.label.is_some()) {
            break seen;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    ensure!(seen.kind.as_deref() == Some(guard.kind().as_str()));
    ensure!(seen.token == Some(guard.fencing_token()));
    let [holder] = &seen.holders[..] else {
        bail!("one holder, not {:?}", seen.holders)
    };
    ensure!(holder.owner == Some(guard.owner()));
    ensure!(holder.claim.starts_with(&guard.owner().to_string()));
    ensure!(holder.label.as_deref() == Some("machine one"));
    ensure!(holder.left.is_some_and(|left| left <= LONG));
    ensure!(holder.state == HolderState::Held);
    Guard::release(guard).await?;
    Guard::release(waiting.await??).await?;
    Ok(())
}

pub async fn a_revoked_holder_is_told_at_once_and_holds_until_it_leaves<S: Subject>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let (lock, contender) = (S::new(&one, "name"), S::Contender::new(&other, "name"));
    let guard = lock.acquire().await?;
    listening(site, &guard).await?;
    ensure!(other.revoke("name").await? == 1);
    let end = tokio::time::timeout(PATIENCE, guard.ended()).await?;
    ensure!(end.reason() == Some(LossReason::Revoked), "{end:?}");
    ensure!(guard.state() == LeaseState::Lost(LossReason::Revoked));

    // The work under the lock may need a moment to stop.
    ensure!(contender.try_acquire().await?.is_none());
    ensure!(other.inspect("name").await?.holders[0].state == HolderState::Revoked);
    let waiting = tokio::spawn(async move { contender.acquire().wait_for(PATIENCE).await });
    let token = guard.fencing_token();
    let error = Guard::release(guard).await.err();
    ensure!(lost(&error) == Some(LossReason::Revoked), "{error:?}");
    let next = waiting.await??;
    ensure!(next.fencing_token() > token);
    ensure!(next.state() == LeaseState::Held);
    Guard::release(next).await?;
    ensure!(other.revoke("name").await? == 0);
    Ok(())
}

pub async fn a_revoked_lease_ends_although_its_guard_lives<S: Subject>(
    site: &dyn Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    beyond_stalls(site, RENEWED, async |ttl| {
        let guard = lock.acquire().ttl(ttl).await?;
        ensure!(client.revoke("name").await? == 1);
        let contender = S::Contender::new(&client, "name");
        let next = contender.acquire().wait_for(PATIENCE).await?;
        ensure!(guard.state() == LeaseState::Lost(LossReason::Revoked));
        drop(guard);
        next.verify().await?;
        Guard::release(next).await?;
        Ok(())
    })
    .await
}

pub async fn force_takes_the_lock_from_the_claim_that_is_meant_and_from_no_other<S: Subject>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let lock = S::new(&one, "name");
    let former = lock.acquire().await?;
    let former_claim = other.inspect("name").await?.holders[0].claim.clone();
    Guard::release(former).await?;

    let guard = lock.acquire().await?;
    listening(site, &guard).await?;
    ensure!(!other.force_release("name", &former_claim).await?);
    guard.verify().await?;
    let claim = other.inspect("name").await?.holders[0].claim.clone();
    ensure!(other.force_release("name", &claim).await?);
    let end = tokio::time::timeout(PATIENCE, guard.ended()).await?;
    ensure!(end.reason() == Some(LossReason::Gone), "{end:?}");
    let next = S::Contender::new(&other, "name")
        .acquire()
        .wait_for(PATIENCE)
        .await?;
    ensure!(next.fencing_token() > guard.fencing_token());
    drop(guard);
    Guard::release(next).await?;
    Ok(())
}

/// Waits until the holder's client is subscribed to its notices.
async fn listening(site: &dyn Site, lease: &lockkeeper::Lease) -> Result<()> {
    let owner = lease.owner().to_string();
    let Some((client, _)) = owner.split_once(':') else {
        bail!("{owner} has no client")
    };
    let channel = format!("lockkeeper.client:{client}");
    while site.listeners(&channel).await? != 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}
