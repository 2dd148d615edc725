//! Data of another kind, and what remains on the server.

use lockkeeper_core::Name;

use super::shared::*;

pub async fn another_kinds_data_is_refused<S: Common>(site: &dyn Site) -> Result<()> {
    let client = clients(site).await?;
    site.command(&["HSET", "lockkeeper:hash", "kind", "something"])
        .await?;
    site.command(&["HSET", "lockkeeper:foreign", "field", "value"])
        .await?;
    let mut errors = Vec::new();
    for name in ["hash", "foreign"] {
        let lock = S::over(&client, name);
        errors.extend([lock.acquire().await.err(), lock.try_acquire().await.err()]);
    }
    for error in errors {
        ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
    }
    let keys = site.keys().await?.into_iter();
    // The counter of a slot belongs to no name.
    let left = keys.filter(|key| !key.starts_with("lockkeeper.fence:"));
    ensure!(left.count() == 2, "something was left behind");
    Ok(())
}

pub async fn a_free_lock_leaves_only_its_counter_behind<S: Common>(site: &dyn Site) -> Result<()> {
    let client = connect(site, settings().label(""), |store| store).await?;
    let lock = S::over(&client, "name");
    Guard::release(lock.acquire().await?).await?;
    let counter = Name::new("lockkeeper", "name")?.counter();
    ensure!(site.keys().await? == [counter.as_str()]);
    let left: i64 = site.command(&["PTTL", &counter]).await?.parse()?;
    // A token may be ahead of the server's clock: one that its client proposed, by a second at most.
    ensure!(
        (1..=86_401_000).contains(&left),
        "the counter lives for {left} ms"
    );
    Ok(())
}
