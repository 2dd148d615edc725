//! Listings: names page by page, the waiters of a queue, and a server's description of itself.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, Error, FairLock, Mutex, RwLock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::time::timeout;

/// For a whole test.
const LIMIT: Duration = PATIENCE.saturating_mul(5);

async fn names(client: &Client, pattern: &str) -> Result<(BTreeSet<String>, usize)> {
    let (mut found, mut pages) = (BTreeSet::new(), 0);
    let mut names = client.names(pattern);
    while let Some(page) = names.next_page().await? {
        found.extend(page);
        pages += 1;
    }
    ensure!(names.next_page().await?.is_none(), "it begins anew");
    Ok((found, pages))
}

/// Returns the number of pages.
async fn all_names_that_match_are_listed(site: &impl Site) -> Result<usize> {
    let client = site.client(Client::builder()).await?;
    let bare = site.client(Client::builder().namespace("")).await?;
    let mut held = Vec::new();
    for number in 0..1_200 {
        let lock = Mutex::new(&client, &format!("many:{number}"));
        held.push(lock.acquire().await?);
    }
    held.push(Mutex::new(&client, "one").acquire().await?);
    held.push(Mutex::new(&bare, "bare").acquire().await?);
    let (found, pages) = names(&client, "many:*").await?;
    ensure!(found.len() == 1_200, "{}", found.len());
    ensure!(names(&client, "[n-p]ne").await?.0 == ["one".to_owned()].into());
    ensure!(names(&client, "none*").await?.0.is_empty());
    // Derived keys are not names.
    ensure!(
        names(&bare, "*e*")
            .await?
            .0
            .iter()
            .all(|name| !name.starts_with("lockkeeper."))
    );
    ensure!(names(&bare, "ba*").await?.0 == ["bare".to_owned()].into());
    drop(held);
    Ok(pages)
}

#[tokio::test]
async fn all_names_that_match_are_listed_on_a_cluster() -> Result<()> {
    let cluster = Cluster::pooled().await?;
    let pages = timeout(LIMIT, all_names_that_match_are_listed(&cluster)).await??;
    ensure!(pages >= 6, "{pages} pages of three nodes");
    Ok(())
}

#[tokio::test]
async fn all_names_that_match_are_listed_on_memory() -> Result<()> {
    all_names_that_match_are_listed(&MemoryStore::new()).await?;
    Ok(())
}

#[tokio::test]
async fn all_names_that_match_are_listed_in_pages_on_a_server() -> Result<()> {
    let pages = all_names_that_match_are_listed(&Server::start().await?).await?;
    // 1,200 keys and nearly as many counters, in pages of 500.
    ensure!(pages >= 5, "{pages} pages");
    Ok(())
}

async fn names_that_are_only_read_are_listed(site: &impl Site) -> Result<()> {
    const NAMES: [&str; 5] = ["{shop}:a", "a", "a{b}", "shop:{7}:a", "writing"];
    let mut held = Vec::new();
    let mut clients = Vec::new();
    for namespace in ["lockkeeper", "", "t.[x]"] {
        let client = site.client(Client::builder().namespace(namespace)).await?;
        for name in NAMES {
            let lock = RwLock::new(&client, name);
            if name == "writing" {
                let owner = client.new_owner();
                let guard = lock.write().owner(&owner).await?;
                held.push((Some(guard), lock.read().owner(&owner).await?));
            } else {
                held.push((None, lock.read().await?));
                held.push((None, lock.read().await?));
            }
        }
        clients.push(client);
    }
    let is = async |client: &Client, pattern: &str, expected: &[&str]| {
        let (found, _) = names(client, pattern).await?;
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        ensure!(found == expected, "{pattern}: {found:?}");
        Ok(())
    };
    for client in [&clients[0], &clients[2]] {
        is(client, "*", &NAMES).await?;
        is(client, "*a", &["a", "{shop}:a", "shop:{7}:a"]).await?;
        is(client, "a", &["a"]).await?;
        is(client, "a[{]b?", &["a{b}"]).await?;
        is(client, "?shop}:*", &["{shop}:a"]).await?;
        is(client, "b*", &[]).await?;
    }
    // A client without a namespace sees the names of all namespaces, but no derived keys.
    let (all, _) = names(&clients[1], "*").await?;
    ensure!(all.len() == 3 * NAMES.len(), "{all:?}");
    is(&clients[1], "a{*", &["a{b}"]).await?;
    drop(held);
    Ok(())
}

#[tokio::test]
async fn names_that_are_only_read_are_listed_on_memory() -> Result<()> {
    timeout(
        LIMIT,
        names_that_are_only_read_are_listed(&MemoryStore::new()),
    )
    .await?
}

#[tokio::test]
async fn names_that_are_only_read_are_listed_on_a_server() -> Result<()> {
    let server = Server::start().await?;
    timeout(LIMIT, names_that_are_only_read_are_listed(&server)).await?
}

#[tokio::test]
async fn a_pattern_that_ends_in_the_middle_is_refused() -> Result<()> {
    let client = MemoryStore::new().client(Client::builder()).await?;
    for pattern in ["a[bc", r"a\"] {
        let error = client.names(pattern).next_page().await.err();
        ensure!(matches!(error, Some(Error::Config { .. })), "{error:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn waiters_are_shown_in_order_and_no_more_than_asked_for() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().label("here")).await?;
    let lock = FairLock::new(&client, "name");
    ensure!(client.waiters("name", 10).await?.is_empty());
    let _guard = lock.acquire().await?;
    let mut owners = Vec::new();
    let mut waiting = Vec::new();
    for place in 1..=5 {
        let owner = client.new_owner();
        owners.push(Some(owner));
        waiting.push(tokio::spawn(lock.acquire().owner(&owner).into_future()));
        let joined = async {
            while lock.queue_len().await? < place {
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        timeout(LIMIT, joined).await??;
    }
    let seen = client.waiters("name", 100).await?;
    let shown: Vec<_> = seen.iter().map(|waiter| waiter.owner).collect();
    ensure!(shown == owners, "{seen:?}");
    ensure!(
        seen.iter()
            .all(|waiter| waiter.label.as_deref() == Some("here"))
    );
    ensure!(client.waiters("name", 3).await? == seen[..3]);
    ensure!(client.waiters("name", 0).await?.is_empty());
    server.execute(&["SET", "lockkeeper.queue:{lockkeeper:other}", "theirs"])?;
    // Without a marker the key means nothing.
    ensure!(client.waiters("other", 3).await?.is_empty());
    server.execute(&["RPUSH", "lockkeeper:other", "fair * 1 1 0 7 -e owner"])?;
    let error = client.waiters("other", 3).await.err();
    ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
    Ok(())
}

/// The rights as the wire format lists them.
#[tokio::test]
async fn the_rights_to_list_and_to_describe_are_the_ones_that_are_named() -> Result<()> {
    let server = Server::start().await?;
    let user = async |name: &str, more: &[&str]| {
        let rules = "on >pw resetkeys resetchannels ~lockkeeper:* ~lockkeeper.*:{lockkeeper:* &lockkeeper.*:{lockkeeper:* &lockkeeper.client:* -@all \
                     +ping +evalsha +eval +subscribe +unsubscribe +time";
        let mut words = vec!["ACL", "SETUSER", name];
        words.extend(rules.split_whitespace().chain(more.iter().copied()));
        server.command(&words).await?;
        let url = format!("redis://{name}:pw@{}", server.address());
        lockkeeper::connect(&url).await.map_err(anyhow::Error::from)
    };
    let able = user("able", &["+scan", "+info"]).await?;
    ensure!(names(&able, "*").await?.0.is_empty());
    let facts = able.server_facts().await?;
    ensure!(
        facts.version.is_some_and(|it| it.contains(' ')),
        "no version"
    );
    ensure!(facts.eviction.as_deref() == Some("noeviction") && facts.max_memory == Some(0));
    ensure!(facts.role.as_deref() == Some("master"));

    let unable = user("unable", &[]).await?;
    let error = names(&unable, "*").await.unwrap_err().to_string();
    ensure!(error.contains("list locks: the server refused"), "{error}");
    let facts = unable.server_facts().await?;
    ensure!((facts.version, facts.eviction) == (None, None));
    ensure!(facts.clock.elapsed().is_ok_and(|ago| ago < LIMIT));
    Ok(())
}
