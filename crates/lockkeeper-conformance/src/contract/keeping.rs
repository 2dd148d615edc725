//! A lock that stays unavailable for a minimum time.

use lockkeeper::{CoolsDown, Released};
use tokio::time::Instant;

use super::shared::*;

/// The minimum time to hold in these tests.
const SHORTEST: Duration = Duration::from_millis(500);

pub async fn min_hold_keeps_everybody_out_after_a_release<S: Subject<Guard: CoolsDown>>(
    site: &dyn Site,
) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let (lock, contender) = (S::new(&one, "name"), S::Contender::new(&other, "name"));
    let beside = S::Contender::new(&one, "name");
    for by_drop in [false, true] {
        // A minimum hold time counts from the request.
        let asked = Instant::now();
        let is_over = || asked.elapsed() >= SHORTEST;
        let guard = lock.acquire().min_hold(SHORTEST).await?;
        let token = guard.fencing_token();
        let waiter = contender.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        let lease = (*guard).clone();
        if by_drop {
            drop(guard);
        } else {
            let released = Guard::release(guard).await?;
            let kept = matches!(released, Released::Kept(left) if left <= SHORTEST);
            ensure!(kept || is_over(), "{released:?}");
            for other in [&contender, &beside] {
                ensure!(other.try_acquire().await?.is_none() || is_over());
            }
        }
        // The holder may no longer rely on it.
        ensure!(lease.state() == LeaseState::Released);
        // The waiter learns the new end: it does not wait for the end of the former lease.
        let next = tokio::time::timeout(PATIENCE, waiting).await???;
        ensure!(is_over(), "granted again after {:?}", asked.elapsed());
        ensure!(next.fencing_token() > token);
        Guard::release(next).await?;
    }
    Ok(())
}

pub async fn a_release_after_min_hold_frees_at_once<S: Subject<Guard: CoolsDown>>(
    site: &dyn Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let guard = lock.acquire().min_hold(SHORT).ttl(LONG).await?;
    tokio::time::sleep(SHORT).await;
    ensure!(Guard::release(guard).await? == Released::Free);
    ensure!(
        S::Contender::new(&client, "name")
            .try_acquire()
            .await?
            .is_some()
    );
    Ok(())
}

pub async fn min_hold_may_outlast_the_ttl_of_a_renewed_lease<S: Subject<Guard: CoolsDown>>(
    site: &dyn Site,
) -> Result<()> {
    let client = client(site).await?;
    let lock = S::new(&client, "name");
    let (asked, shortest) = beyond_stalls(site, RENEWED, async |ttl| {
        let asked = Instant::now();
        let guard = lock.acquire().ttl(ttl).min_hold(ttl * 2).await?;
        ensure!(matches!(Guard::release(guard).await?, Released::Kept(left) if left > ttl));
        Ok((asked, ttl * 2))
    })
    .await?;
    expect_free::<S>(from_ref(&client), "name").await?;
    ensure!(asked.elapsed() >= shortest);
    Ok(())
}

pub async fn bad_bounds_of_holding_are_refused_before_anything_is_sent<
    S: Subject<Guard: CoolsDown>,
>(
    site: &dyn Site,
) -> Result<()> {
    let client = site.client(settings().label("")).await?;
    let lock = S::new(&client, "name");
    for (acquire, reason) in [
        (
            lock.acquire().ttl(SHORT).no_renewal().min_hold(SHORTEST),
            "longer than the ttl",
        ),
        (
            lock.acquire().min_hold(LONG).max_hold(SHORTEST),
            "longer than the max_hold",
        ),
        (lock.acquire().min_hold(Duration::MAX), "at most a year"),
        (lock.acquire().max_hold(Duration::ZERO), "max_hold of 0ns"),
    ] {
        let Err(Error::Config { message, .. }) = acquire.await else {
            bail!("not refused: {reason}")
        };
        ensure!(message.contains(reason), "{message}");
    }
    ensure!(site.keys().await?.is_empty());
    Ok(())
}
