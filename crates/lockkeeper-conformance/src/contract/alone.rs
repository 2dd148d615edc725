//! Bad input and closing, for kinds on one server.

use super::shared::*;

pub async fn bad_ttls_and_names_are_refused_before_anything_is_sent<S: Subject>(
    site: &dyn Site,
) -> Result<()> {
    let client = client(site).await?;
    for name in ["", &"n".repeat(2048), "a}b", "a{}"] {
        let error = S::new(&client, name).acquire().await.err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{name:?}: {error:?}"
        );
    }
    for ttl in [
        Duration::ZERO,
        Duration::from_micros(900),
        Duration::from_millis(5),
        Duration::MAX,
    ] {
        let error = S::new(&client, "name").acquire().ttl(ttl).await.err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{ttl:?}: {error:?}"
        );
    }
    ensure!(site.keys().await?.is_empty(), "something was sent");
    Ok(())
}

pub async fn closing_cuts_leases_short_and_refuses_more<S: Subject>(site: &dyn Site) -> Result<()> {
    let (one, other) = (client(site).await?, client(site).await?);
    let held = S::new(&one, "held").acquire().await?;
    let dropped = S::new(&one, "dropped").acquire().await?;
    let busy = S::Contender::new(&other, "busy").acquire().await?;
    let waiter = S::new(&one, "busy");
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    while other.inspect("busy").await?.waiters != Some(1) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(dropped);

    let report = one.close().await;
    // The dropped guard, and the waiter, which is withdrawn.
    ensure!(
        (report.expiring, report.confirmed, report.unconfirmed) == (1, 2, 0),
        "{report:?}"
    );
    ensure!(held.state() == LeaseState::Lost(LossReason::ClientClosed));
    let error = waiting.await?.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    let error = S::new(&one, "more").acquire().await.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    ensure!(
        S::Contender::new(&other, "held")
            .try_acquire()
            .await?
            .is_none(),
        "its work may still be running"
    );
    expect_free::<S>(from_ref(&other), "dropped").await?;
    Guard::release(busy).await?;
    Ok(())
}
