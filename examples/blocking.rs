//! A program of threads without async code of its own: a small runtime renews its leases, and each thread waits for its locks with
//! `Handle::block_on`.
//!
//! Read this when you add a lock to blocking code. Use a multi-threaded runtime; one worker is enough. A current-thread runtime
//! would renew nothing while its thread works. Never call `Handle::block_on` inside async code: it panics, because it would block
//! the thread that other tasks need. There, use `spawn_blocking` for blocking work, and keep the guard outside.
//! `cargo example blocking` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::thread;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use lockkeeper::{Client, Error, LossReason, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::runtime::{Builder, Handle};

/// So short that a piece of work takes longer, to show that it is renewed.
const TTL: Duration = Duration::from_secs(2);

fn main() -> anyhow::Result<()> {
    // The only place where async begins. Dropping it ends the client's tasks, so it must outlive every guard.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let place = runtime.block_on(Place::open("blocking"))?;
    let story = Story::new();

    story.chapter("Three threads, one lock, and work that outlasts a lease");
    let count = std::sync::Mutex::new(0);
    let piece = |name| {
        // Never contended: the lock is held.
        let mut count = count.try_lock().map_err(|_| anyhow!("two at a time"))?;
        // The first one outlasts a lease.
        thread::sleep(if *count == 0 { TTL } else { TTL / 20 });
        *count += 1;
        story.tell(name, format!("is number {count}"));
        Ok(())
    };
    thread::scope(|scope| {
        let (handle, client, piece) = (runtime.handle(), &place.client, &piece);
        let workers = ["ann", "bob", "carl"];
        let workers = workers.map(|name| scope.spawn(move || work(handle, client, || piece(name))));
        workers.into_iter().try_for_each(|worker| {
            let outcome = worker.join();
            outcome.map_err(|_| anyhow!("a thread has panicked"))?
        })
    })?;
    ensure!(count.into_inner()? == 3);

    story.chapter("Nothing can stop a thread: it must look for itself");
    let lock = Mutex::new(&place.client, "ledger");
    let guard = runtime.block_on(lock.acquire().into_future())?;
    let operator = runtime.spawn({
        let client = place.client.clone();
        async move {
            tokio::time::sleep(TTL / 4).await;
            client.revoke("ledger").await
        }
    });
    let mut pages = 0;
    let stopped = loop {
        // Between two steps. It sends no request, and is as fast as reading a clock.
        match guard.ensure_held() {
            Ok(()) if pages < 100 => thread::sleep(TTL / 20),
            held => break held,
        }
        pages += 1;
    };
    story.tell("dora", format!("stopped after {pages} of 100 pages"));
    let revoked = matches!(
        stopped,
        Err(Error::Lost {
            reason: LossReason::Revoked,
            ..
        })
    );
    ensure!(revoked && pages < 100);
    ensure!(runtime.block_on(operator)?? == 1);
    // Dropping a guard needs no runtime: the release runs in the background.
    drop(guard);
    ensure!(runtime.block_on(lock.acquire().into_future()).is_ok());

    story.chapter("From async code: the guard stays, the work goes to a thread that may block");
    runtime.block_on(async {
        let guard = lock.acquire().ttl(TTL).await?;
        let sum = tokio::task::spawn_blocking(|| (0..1_000_000_u64).sum::<u64>());
        // If the lease is lost, this returns at once; the thread runs on to its end, because nothing can stop it.
        let sum = guard.run(sum).await??;
        guard.release().await?;
        story.tell("emil", format!("has added up {sum}"));
        anyhow::Ok(())
    })?;
    runtime.block_on(place.close())
}

/// One piece of blocking work under the lock.
fn work(
    handle: &Handle,
    client: &Client,
    piece: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let lock = Mutex::new(client, "ledger");
    let guard = handle.block_on(lock.acquire().ttl(TTL).into_future())?;
    let outcome = piece();
    handle.block_on(guard.release())?;
    outcome
}
