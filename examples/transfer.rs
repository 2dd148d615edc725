//! Two accounts and the money between them: clerks move it back and forth at the same time, each under the locks of both accounts,
//! in any order. No money is lost, and no two clerks wait for each other forever.
//!
//! Read this when one step touches several things that each have a lock. `cargo example transfer` needs no server;
//! `-- --url redis://127.0.0.1:6379` runs the same program on one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser as _;
use lockkeeper::{Client, Error, FencingToken, Lease, MultiGuard, MultiLock, Mutex};
use lockkeeper_examples::Arguments;
use tokio::task::JoinSet;
use tokio::time::sleep;

const ANN: &str = "account:ann";
const BOB: &str = "account:bob";
const TRANSFERS: usize = 8;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { url } = Arguments::parse();
    // A separate namespace keeps the program away from everything else on a shared server.
    let settings = Client::builder().namespace("transfer");
    let client = lockkeeper::connect_with(&url, settings)
        .await
        .context("failed to connect")?;
    let bank = Arc::<Bank>::default();
    let begun = Instant::now();

    println!("Clerks move money to and fro, each under both locks");
    let mut clerks = JoinSet::new();
    for number in 0..TRANSFERS {
        let (client, bank) = (client.clone(), Arc::clone(&bank));
        // Every other clerk names the accounts the other way round: if they took them one by one, they would soon wait for each
        // other.
        let (from, to) = if number % 2 == 0 {
            (ANN, BOB)
        } else {
            (BOB, ANN)
        };
        clerks.spawn(async move {
            let both = both(&client, from, to)?;
            let guard = both.acquire().wait_for(Duration::from_secs(30)).await?;
            guard.run(transfer(&bank, &guard, from, to, 10)).await??;
            guard.release().await?;
            let seconds = begun.elapsed().as_secs_f64();
            println!("{seconds:>8.3} s  clerk {number}  moved 10 from {from} to {to}");
            anyhow::Ok(())
        });
    }
    while let Some(clerk) = clerks.join_next().await {
        clerk??;
    }
    ensure!(bank.total() == 200, "money was lost or made");
    println!("             bank     still has {} in all", bank.total());

    println!("\nOne account is busy; once the time is over, nothing is held");
    let audit = Mutex::new(&client, BOB).acquire().await?;
    let late = both(&client, ANN, BOB)?.acquire();
    match late.wait_for(Duration::from_millis(200)).await {
        Err(Error::Timeout { name, .. }) => {
            println!("             clerk    waited for {name}, in vain");
        }
        other => anyhow::bail!("expected to wait in vain: {other:?}"),
    }
    let ann = Mutex::new(&client, ANN).try_acquire().await?;
    ensure!(ann.is_some(), "a part was held");
    println!("             clerk    holds nothing: {ANN} is free");
    drop(ann);
    audit.release().await?;

    println!("\nOne lock is asked back in the middle, and the whole stops");
    let guard = both(&client, ANN, BOB)?.acquire().await?;
    let late_tokens: Vec<FencingToken> = guard.parts().iter().map(Lease::fencing_token).collect();
    client.revoke(ANN).await?;
    match guard.run(sleep(Duration::from_secs(60))).await {
        Err(Error::Lost { name, reason, .. }) => {
            println!("             clerk    stopped: {name} was lost, {reason}");
        }
        other => anyhow::bail!("expected a loss: {other:?}"),
    }
    drop(guard);
    let next = both(&client, ANN, BOB)?.acquire().await?;
    transfer(&bank, &next, BOB, ANN, 10).await?;
    next.release().await?;
    // The first clerk's write comes late; the ledger has seen larger tokens and refuses it.
    ensure!(!bank.accepts(ANN, late_tokens[0]), "a late write was taken");
    println!("             bank     refuses what the first clerk would still write");

    client.close().await;
    Ok(())
}

/// A lock over both accounts; the order does not matter.
fn both(client: &Client, from: &str, to: &str) -> lockkeeper::Result<MultiLock> {
    MultiLock::new([
        Mutex::new(client, from).target(),
        Mutex::new(client, to).target(),
    ])
}

/// Moves money under the locks of both accounts. The bank gets each account's token with each write.
async fn transfer(
    bank: &Bank,
    guard: &MultiGuard,
    from: &str,
    to: &str,
    amount: i64,
) -> anyhow::Result<()> {
    let (taken, given) = (bank.balance(from) - amount, bank.balance(to) + amount);
    // This takes a while, during which somebody else would see the old balance.
    sleep(Duration::from_millis(5)).await;
    for (account, balance) in [(from, taken), (to, given)] {
        let lease = guard.part(account).context("an account without a lock")?;
        bank.write(account, balance, lease.fencing_token())?;
    }
    Ok(())
}

/// Balances, and the largest token with which each account was written. A real one is a database.
#[derive(Default)]
struct Bank(StdMutex<BTreeMap<String, (i64, Option<FencingToken>)>>);

impl Bank {
    fn with<T>(&self, account: &str, f: impl FnOnce(&mut (i64, Option<FencingToken>)) -> T) -> T {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f(accounts.entry(account.to_owned()).or_insert((100, None)))
    }

    fn balance(&self, account: &str) -> i64 {
        self.with(account, |(balance, _)| *balance)
    }

    fn accepts(&self, account: &str, token: FencingToken) -> bool {
        self.with(account, |(_, last)| *last <= Some(token))
    }

    /// Writes unless a later holder has written.
    fn write(&self, account: &str, balance: i64, token: FencingToken) -> anyhow::Result<()> {
        ensure!(
            self.accepts(account, token),
            "{account}: token {token} is too old"
        );
        self.with(account, |it| *it = (balance, Some(token)));
        Ok(())
    }

    fn total(&self) -> i64 {
        self.balance(ANN) + self.balance(BOB)
    }
}
