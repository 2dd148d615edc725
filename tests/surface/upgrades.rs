//! Two versions on one server.

use anyhow::{Result, ensure};
use lockkeeper::{
    Client, Election, Error, FairLock, Latch, MultiLock, Mutex, Once, OnceError, Redlock,
    ReentrantLock, RwLock, Semaphore,
};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;

/// The promise of `docs/wire-format.md` for names that a later version stores differently: this version does not wait for them
/// and changes nothing.
#[tokio::test(start_paused = true)]
async fn a_name_of_a_later_wire_is_refused_in_words_by_every_kind() -> Result<()> {
    const LATER: &str = "wire * 2 whatever it says";
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    server.execute(&["RPUSH", "job", LATER])?;
    let work = Once::new(&client, "job")
        .get_or_run(async |_| Ok::<_, std::convert::Infallible>(Vec::new()))
        .await;
    let work = match work {
        Err(OnceError::Lock(error)) => Some(error),
        _ => None,
    };
    let mutex = Mutex::new(&client, "job");
    let servers = [(); 3].map(|()| MemoryStore::new());
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(server.client(Client::builder().namespace("")).await?);
        server.execute(&["RPUSH", "job", LATER])?;
    }
    let redlock = Redlock::new(&clients, "job")?;
    let rwlock = RwLock::new(&client, "job");
    let refusals = [
        ("mutex", mutex.acquire().await.err()),
        (
            "reentrant",
            ReentrantLock::new(&client, "job").acquire().await.err(),
        ),
        ("fair", FairLock::new(&client, "job").acquire().await.err()),
        ("read", rwlock.read().await.err()),
        ("write", rwlock.write().await.err()),
        (
            "semaphore",
            Semaphore::new(&client, "job", 2).acquire().await.err(),
        ),
        (
            "election",
            Election::new(&client, "job").campaign().await.err(),
        ),
        ("latch", Latch::new(&client, "job").arm(1).await.err()),
        ("once", work),
        (
            "multi",
            MultiLock::new([mutex.target()])?.acquire().await.err(),
        ),
        ("redlock", redlock.acquire().await.err()),
        ("inspect", client.inspect("job").await.err()),
        ("revoke", client.revoke("job").await.err()),
    ];
    for (kind, refusal) in refusals {
        let Some(error @ Error::WrongKind { .. }) = refusal else {
            anyhow::bail!("{kind}: {refusal:?}");
        };
        let text = error.to_string();
        ensure!(text.contains("a later version of Lockkeeper"), "{text}");
    }
    for server in servers.iter().chain([&server]) {
        ensure!(server.execute(&["LINDEX", "job", "0"])?.as_str() == Some(LATER));
    }
    Ok(())
}
