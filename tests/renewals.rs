//! Many leases of one client: renewed in batches, each for itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, LeaseState, LossReason, Mutex};
use lockkeeper_core::store::Store;
use lockkeeper_lua::mutex;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};

const TTL: Duration = Duration::from_secs(3);

#[tokio::test]
async fn ten_thousand_leases_of_one_client_are_alive_after_three_ttls_but_for_one_that_was_overwritten()
-> Result<()> {
    const LEASES: usize = 10_000;
    let server = Server::start().await?;
    let client = server.client(Client::builder().ttl(TTL)).await?;
    let mut guards = Vec::with_capacity(LEASES);
    for number in 0..LEASES {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    server.command(&["DEL", "lockkeeper:name 77"]).await?;
    server
        .command(&["HSET", "lockkeeper:name 77", "somebody", "else"])
        .await?;
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    tokio::time::sleep(TTL * 3).await;

    let lost: Vec<_> = guards
        .iter()
        .filter(|guard| guard.ensure_held().is_err())
        .collect();
    ensure!(lost.len() == 1 && lost[0].name() == "name 77", "{lost:?}");
    ensure!(lost[0].state() == LeaseState::Lost(LossReason::Gone));
    // Nine periods of a third of a ttl, each in batches of a hundred; a tenth more for phases that begin anew.
    let scripts = server.commandstats("evalsha").await?;
    ensure!(
        (900..=1_400).contains(&scripts),
        "{scripts} scripts for some 90,000 renewals"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_as_a_whole_is_halved_until_every_lease_is_renewed() -> Result<()> {
    let server = MemoryStore::new();
    let store = Unruly::new(Arc::new(server.sibling()));
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::clone(&store) as Arc<dyn Store>)?;
    let mut guards = Vec::new();
    for number in 0..8 {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    // Taught by a first round of renewals; then the whole and its first half are refused.
    tokio::time::sleep(TTL / 2).await;
    let before = store.sent(&mutex::RENEW);
    store.plan(&mutex::RENEW, Fate::Refuse("TRYAGAIN several keys"));
    store.plan(&mutex::RENEW, Fate::Refuse("TRYAGAIN several keys"));
    tokio::time::sleep(TTL / 3).await;
    let sent = store.sent(&mutex::RENEW) - before;
    ensure!(
        sent == 5,
        "one of 8, one of 4, two of 2, one of 4: not {sent}"
    );
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_answer_makes_its_leases_uncertain_and_loses_none() -> Result<()> {
    let server = MemoryStore::new();
    let store = Unruly::new(Arc::new(server.sibling()));
    let client = Client::builder()
        .ttl(TTL)
        .build(Arc::clone(&store) as Arc<dyn Store>)?;
    let mut guards = Vec::new();
    for number in 0..150 {
        guards.push(
            Mutex::new(&client, &format!("name {number}"))
                .acquire()
                .await?,
        );
    }
    store.plan(&mutex::RENEW, Fate::LoseReply);
    tokio::time::sleep(TTL / 3 + TTL / 6 + Duration::from_millis(10)).await;
    tokio::time::sleep(TTL * 2).await;
    ensure!(guards.iter().all(|guard| guard.state() == LeaseState::Held));
    drop(guards);
    ensure!(client.close().await.unconfirmed == 0);
    Ok(())
}
