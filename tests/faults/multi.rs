//! Members on two servers, one of which is frozen or killed in the middle of something.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, End, Error, FairLock, LossReason, MultiGuard, MultiLock, Mutex};
use lockkeeper_testkit::server::{Reply, Server};
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use lockkeeper_tests::patient;
use tokio::time::{sleep, timeout};

/// Of leases on the south, which fails, on a machine without stalls. They are renewed twice a second.
const TTL: Duration = Duration::from_secs(4);
const RENEWALS_PER_TTL: u32 = 8;

const NORTH: &str = "lockkeeper:in the north";
const SOUTH: &str = "lockkeeper:in the south";

/// Two servers, a client for each, and a lock over a mutex and a fair lock on the north and a mutex on the south. On the north
/// nothing ends by itself.
struct Two {
    ttl: Duration,
    north: Server,
    south: Server,
    clients: [Client; 2],
    lock: MultiLock,
}

impl Two {
    async fn start(ttl: Duration) -> Result<Self> {
        let (north, south) = (Server::start().await?, Server::start().await?);
        let brief = Client::builder()
            .ttl(ttl)
            .renewal_fraction(RENEWALS_PER_TTL);
        let clients = [
            north.client(patient().store_name("north")).await?,
            south.client(brief.store_name("south")).await?,
        ];
        let lock = MultiLock::new([
            Mutex::new(&clients[1], "in the south").target(),
            FairLock::new(&clients[0], "queue").target(),
            Mutex::new(&clients[0], "in the north").target(),
        ])?;
        Ok(Self {
            ttl,
            north,
            south,
            clients,
            lock,
        })
    }

    /// Calls `attempt` with two servers and a ttl that the machine can keep.
    async fn attempt(mut attempt: impl AsyncFnMut(Self) -> Result<()>) -> Result<()> {
        let witness = Server::start().await?;
        beyond_stalls(&witness, TTL, async |ttl| {
            attempt(Self::start(ttl).await?).await
        })
        .await
    }

    async fn acquire(&self) -> Result<MultiGuard> {
        Ok(timeout(PATIENCE, self.lock.acquire().into_future()).await??)
    }

    async fn north_is_free(&self) -> Result<()> {
        for key in [NORTH, "lockkeeper:queue"] {
            timeout(PATIENCE, self.north.vanished(key)).await??;
        }
        Ok(())
    }

    async fn south_is_free(&self) -> Result<()> {
        timeout(PATIENCE, self.south.vanished(SOUTH)).await?
    }
}

fn names(error: &Error) -> bool {
    error.to_string().contains("in the south")
}

#[tokio::test]
async fn a_server_frozen_before_an_acquire_fails_it_and_the_others_are_let_go() -> Result<()> {
    Two::attempt(async |it| {
        it.south.freeze()?;
        let failed = timeout(PATIENCE, it.lock.acquire().wait_for(it.ttl).into_future()).await?;
        let error = failed.err().context("it was acquired")?;
        ensure!(
            matches!(error, Error::Backend { .. }) && names(&error),
            "{error}"
        );
        it.north_is_free().await?;
        let tried = timeout(PATIENCE, it.lock.try_acquire().into_future()).await?;
        ensure!(tried.is_err_and(|error| names(&error)));
        it.north_is_free().await?;
        it.south.thaw()?;
        it.south_is_free().await?;
        it.acquire().await?.release().await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_server_killed_in_the_middle_of_an_acquire_fails_it_and_the_others_are_let_go()
-> Result<()> {
    Two::attempt(async |mut it| {
        let _busy = Mutex::new(&it.clients[1], "in the south").acquire().await?;
        let waiting = tokio::spawn(it.lock.acquire().into_future());
        // All of the north is held while the lock waits for the south.
        let held = async {
            while it
                .north
                .command(&["EXISTS", NORTH, "lockkeeper:queue"])
                .await?
                != Reply::Integer(2)
            {
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        timeout(PATIENCE, held).await??;
        it.south.kill()?;
        let failed = timeout(PATIENCE, waiting).await??;
        let error = failed.err().context("it was acquired")?;
        ensure!(
            matches!(error, Error::Backend { .. }) && names(&error),
            "{error}"
        );
        it.north_is_free().await
    })
    .await
}

#[tokio::test]
async fn a_server_killed_during_a_hold_ends_the_whole_and_the_others_go_with_the_guard()
-> Result<()> {
    Two::attempt(async |mut it| {
        let guard = it.acquire().await?;
        it.south.kill()?;
        let End::Lost(lost) = timeout(PATIENCE, guard.ended()).await? else {
            anyhow::bail!("it was released");
        };
        ensure!(
            lost.name == "in the south" && lost.reason == LossReason::Expired,
            "{lost:?}"
        );
        let error = guard.ensure_held().err().context("it is held")?;
        ensure!(names(&error), "{error}");
        let error = guard.release().await.err().context("it was released")?;
        ensure!(matches!(error, Error::Lost { .. }), "{error}");
        it.north_is_free().await
    })
    .await
}

#[tokio::test]
async fn a_server_frozen_over_its_renewals_ends_the_whole_by_its_deadline() -> Result<()> {
    Two::attempt(async |it| {
        let guard = it.acquire().await?;
        // After a renewal or two, so that the guard is in the middle of renewing.
        guard.run(sleep(it.ttl / 4)).await?;
        it.south.freeze()?;
        sleep(it.ttl).await;
        // A stall excuses nothing here: nobody is valid after the deadline.
        assert!(guard.ensure_held().is_err());
        ensure!(guard.ensure_held().is_err_and(|error| names(&error)));
        let lost = timeout(PATIENCE, guard.lost()).await?;
        ensure!(lost.name == "in the south", "{lost:?}");
        drop(guard);
        it.north_is_free().await?;
        it.south.thaw()?;
        it.south_is_free().await
    })
    .await
}

#[tokio::test]
async fn a_server_frozen_before_a_release_is_told_by_name_and_keeps_nobody_else() -> Result<()> {
    Two::attempt(async |it| {
        let guard = it.acquire().await?;
        it.south.freeze()?;
        let releasing = tokio::spawn(guard.release());
        it.north_is_free().await?;
        let error = timeout(PATIENCE, releasing)
            .await??
            .err()
            .context("all was released")?;
        let Error::Partial {
            members, failures, ..
        } = &error
        else {
            anyhow::bail!("{error}");
        };
        ensure!(*members == 3 && failures.len() == 1, "{error}");
        ensure!(failures[0].0 == "in the south", "{error}");
        it.south.thaw()?;
        it.south_is_free().await
    })
    .await
}

#[tokio::test]
async fn a_closed_client_ends_the_whole_and_the_others_go_with_the_guard() -> Result<()> {
    Two::attempt(async |it| {
        let guard = it.acquire().await?;
        it.clients[1].close().await;
        let lost = timeout(PATIENCE, guard.lost()).await?;
        ensure!(lost.reason == LossReason::ClientClosed, "{lost:?}");
        drop(guard);
        it.north_is_free().await?;
        let refused = timeout(PATIENCE, it.lock.acquire().into_future()).await?;
        ensure!(matches!(refused, Err(Error::Closed)));
        it.north_is_free().await
    })
    .await
}
