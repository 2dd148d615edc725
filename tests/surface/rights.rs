//! The rights in [docs/wire-format.md](../../docs/wire-format.md) are sufficient, and the document lists exactly those tried
//! here.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, Election, FairLock, Guard, Lock as _, LossReason, MultiLock, Mutex, Reader,
    ReentrantLock, RwLock, Semaphore, Writer,
};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::{Reply, Server};
use lockkeeper_testkit::subject::Subject;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::patient;
use tokio::time::timeout;

const DOCUMENT: &str = include_str!("../../docs/wire-format.md");

/// The namespace of most tests.
const DEFAULT: &str = "lockkeeper";

/// The namespace in the document.
const TENANT: &str = "billing";

/// The command in the document that creates the user, for this namespace.
fn documented(namespace: &str) -> Result<Vec<String>> {
    let start = DOCUMENT.find("ACL SETUSER app").context("no rights")?;
    let rules = DOCUMENT[start..].split("```").next().context("no end")?;
    let words = rules.split_whitespace();
    Ok(words.map(|word| word.replace(TENANT, namespace)).collect())
}

/// Creates the user for the default namespace, with more rights than those.
async fn make_user(server: &Server, more: &[&str]) -> Result<()> {
    make_tenant(server, DEFAULT, more).await
}

async fn make_tenant(server: &Server, namespace: &str, more: &[&str]) -> Result<()> {
    let words = documented(namespace)?;
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    server.command(&words).await?;
    Ok(())
}

fn as_user(url: &str) -> String {
    url.replacen("://", "://app:password@", 1)
}

async fn connect(url: &str) -> Result<Client> {
    Ok(lockkeeper::connect_with(url, patient()).await?)
}

/// Everything that a lock does for a holder and a waiter, and the queries about it.
async fn all_of<S: Subject>(url: &str, namespace: &str, name: &str) -> Result<()> {
    let settings = || patient().namespace(namespace).label("whoever");
    let (one, other) = (
        lockkeeper::connect_with(url, settings()).await?,
        lockkeeper::connect_with(url, settings()).await?,
    );
    let missing = one.missing_rights().await?;
    ensure!(missing.is_empty(), "{missing:?}");
    let guard = S::new(&one, name).acquire().await?;
    guard.verify().await?;
    let waiter = S::Contender::new(&other, name);
    let waiting = tokio::spawn(async move { waiter.acquire().wait_for(PATIENCE).await });
    while other.inspect(name).await?.waiters != Some(1) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Guard::release(guard).await?;
    let guard = waiting.await??;
    ensure!(timeout(PATIENCE, listed(&one, name)).await??);
    while one.inspect(name).await?.holders[0].label.as_deref() != Some("whoever") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Right after its first grant, the client may not be subscribed yet.
    while one.revoke(name).await? == 1 {
        let told = timeout(Duration::from_millis(50), guard.ended()).await;
        if let Ok(end) = told {
            ensure!(end.reason() == Some(LossReason::Revoked), "{end:?}");
            break;
        }
    }
    drop(guard);
    ensure!(one.close().await.unconfirmed + other.close().await.unconfirmed == 0);
    Ok(())
}

async fn listed(client: &Client, name: &str) -> Result<bool> {
    let mut names = client.names("*");
    while let Some(page) = names.next_page().await? {
        if page.iter().any(|found| found == name) {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn all_kinds(url: &str, namespace: &str, tag: &str) -> Result<()> {
    let name = |name| format!("{tag}{name}");
    all_of::<Mutex>(url, namespace, &name("a mutex")).await?;
    all_of::<ReentrantLock>(url, namespace, &name("a re-entrant lock")).await?;
    all_of::<FairLock>(url, namespace, &name("a fair lock")).await?;
    all_of::<Writer>(url, namespace, &name("written")).await?;
    all_of::<Reader>(url, namespace, &name("read")).await?;
    all_of::<Semaphore>(url, namespace, &name("a semaphore")).await?;
    all_of::<Election>(url, namespace, &name("an election")).await?;
    let client = lockkeeper::connect_with(url, patient().namespace(namespace)).await?;
    let members = ["one", "other"].map(|it| Mutex::new(&client, &name(it)).target());
    MultiLock::new(members)?.acquire().await?.release().await?;
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_are_enough_on_one_server() -> Result<()> {
    let server = Server::start().await?;
    make_user(&server, &[]).await?;
    timeout(
        PATIENCE * 5,
        all_kinds(&as_user(&server.url()), DEFAULT, ""),
    )
    .await?
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_a_tenant_whatever_its_names_are() -> Result<()> {
    let server = Server::start().await?;
    for namespace in [TENANT, "b*[x]"] {
        make_tenant(
            &server,
            &namespace.replace('*', r"\*").replace('[', r"\["),
            &[],
        )
        .await?;
        for tag in ["", "{7}:", "{order:7}:", "of:{lockkeeper:7}:"] {
            timeout(
                PATIENCE * 5,
                all_kinds(&as_user(&server.url()), namespace, tag),
            )
            .await??;
        }
    }
    Ok(())
}

/// The server's answer to whether the user may send this command.
async fn dry_run(server: &Server, words: &[&str]) -> Result<String> {
    let words = [&["ACL", "DRYRUN", "app"], words].concat();
    server.command(&words).await?.into_text()
}

async fn texts(server: &Server, words: &[&str]) -> Result<Vec<String>> {
    let Reply::List(all) = server.command(words).await? else {
        anyhow::bail!("no list");
    };
    all.into_iter().map(Reply::into_text).collect()
}

#[tokio::test]
async fn a_tenant_cannot_touch_what_is_its_neighbours() -> Result<()> {
    let server = Server::start().await?;
    if !tells_of_rights(&connect(&server.url()).await?).await? {
        return Ok(());
    }
    make_tenant(&server, TENANT, &[]).await?;
    for (namespace, may) in [("shop", false), (TENANT, true)] {
        let settings = || patient().namespace(namespace);
        let one = lockkeeper::connect_with(&server.url(), settings()).await?;
        let other = lockkeeper::connect_with(&server.url(), settings()).await?;
        let names = [
            "x",
            "billing:x",
            "{billing:7}:x",
            "x:{billing:7}:x",
            "{billing:}x",
            "{x}:billing:x",
        ];
        let mut held = Vec::new();
        for name in names {
            let mutex = Mutex::new(&one, &format!("{name}:mutex")).acquire().await?;
            let fair = FairLock::new(&one, &format!("{name}:fair"))
                .acquire()
                .await?;
            let read = RwLock::new(&one, &format!("{name}:read")).read().await?;
            let waiter = FairLock::new(&other, &format!("{name}:fair"));
            let writer = RwLock::new(&other, &format!("{name}:read"));
            let waiting = tokio::spawn(waiter.acquire().into_future());
            let writing = tokio::spawn(writer.write().into_future());
            while waiter.queue_len().await? == 0
                || other.inspect(&format!("{name}:read")).await?.waiters == Some(0)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            held.push((mutex, fair, read, waiting, writing));
        }
        let keys = texts(&server, &["KEYS", "*"]).await?;
        // At most 3 main keys per name, 3 tokens, 2 queues with their state, and the readers; two labels.
        ensure!(keys.len() >= names.len() * 9, "{keys:?}");
        for key in &keys {
            for command in [&["DEL", key][..], &["GET", key], &["ZADD", key, "1", "x"]] {
                let said = dry_run(&server, command).await?;
                ensure!((said == "OK") == may, "{command:?}: {said}");
            }
        }
        let channels = texts(&server, &["PUBSUB", "CHANNELS"]).await?;
        let of_names = channels
            .iter()
            .filter(|it| !it.starts_with("lockkeeper.client:"));
        let of_names: Vec<&String> = of_names.collect();
        ensure!(of_names.len() >= names.len() * 2, "{channels:?}");
        for channel in of_names {
            for command in [&["PUBLISH", channel, "x"][..], &["SUBSCRIBE", channel]] {
                let said = dry_run(&server, command).await?;
                ensure!((said == "OK") == may, "{command:?}: {said}");
            }
        }
        for (.., waiting, writing) in &held {
            waiting.abort();
            writing.abort();
        }
        drop(held);
        one.close().await;
        other.close().await;
        server.command(&["FLUSHALL"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_are_enough_for_replicas() -> Result<()> {
    let server = Server::start().await?;
    let _replica = server.start_replica().await?;
    make_user(&server, &[]).await?;
    let client = connect(&as_user(&server.url())).await?;
    let lock = Mutex::new(&client, "name");
    let refused = lock.acquire().min_replicas(1).await;
    let error = refused.err().context("it may wait")?.to_string();
    ensure!(
        error.contains("NOPERM") && error.contains("'wait'"),
        "{error}"
    );
    let gone = lock.try_acquire().await?.context("it was not given back")?;
    gone.release().await?;

    make_user(&server, &["+wait"]).await?;
    lock.acquire().min_replicas(1).await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn who_lacks_a_right_is_told_what_to_allow() -> Result<()> {
    let server = Server::start().await?;
    let holder = connect(&server.url()).await?;
    let _guard = Mutex::new(&holder, "name").acquire().await?;
    for (taken, told) in [
        (
            "resetchannels",
            "&lockkeeper.*:{lockkeeper:* &lockkeeper.client:*",
        ),
        ("-subscribe", "'subscribe' command"),
        ("-evalsha", "'evalsha' command"),
        ("resetkeys", "~lockkeeper:* ~lockkeeper.*:{lockkeeper:*"),
    ] {
        make_user(&server, &[taken]).await?;
        let client = connect(&as_user(&server.url())).await?;
        let waiting = Mutex::new(&client, "name")
            .acquire()
            .wait_for(PATIENCE)
            .await;
        let error = waiting.err().context("it may")?.to_string();
        ensure!(error.contains(told) && error.contains("; allow"), "{error}");
    }
    Ok(())
}

/// Whether the server can report what its users may do.
async fn tells_of_rights(client: &Client) -> Result<bool> {
    let version = client.server_facts().await?.version;
    let version = version.context("no version")?;
    Ok(!version.starts_with("redis 6"))
}

#[tokio::test]
async fn rights_that_are_missing_are_named_as_the_rules_that_would_give_them() -> Result<()> {
    let server = Server::start().await?;
    let tells = tells_of_rights(&connect(&server.url()).await?).await?;
    for (taken, told) in [
        ("-get", "+get"),
        ("-time", "+time"),
        ("-publish", "&lockkeeper.*:{lockkeeper:* +publish"),
        (
            "resetchannels",
            "&lockkeeper.*:{lockkeeper:* &lockkeeper.client:* +publish +subscribe",
        ),
        // The user may be meant for other names.
        ("resetkeys", ""),
    ] {
        make_user(&server, &[taken]).await?;
        let client = connect(&as_user(&server.url())).await?;
        let missing = client.missing_rights().await?.join(" ");
        ensure!(
            missing == if tells { told } else { "" },
            "{taken}: {missing}"
        );
        // The rights that the report names are sufficient.
        let rules: Vec<&str> = missing.split(' ').filter(|rule| !rule.is_empty()).collect();
        make_user(&server, &[&[taken], &rules[..]].concat()).await?;
        let missing = client.missing_rights().await?;
        ensure!(missing.is_empty(), "{taken}: {missing:?}");
    }
    Ok(())
}

/// The rights that the document adds for a cluster, and for one with sharded messages.
const OF_CLUSTERS: [&str; 2] = ["+cluster|nodes", "+asking"];
const OF_SHARDED: [&str; 4] = [
    "+spublish",
    "+ssubscribe",
    "+sunsubscribe",
    "+pubsub|shardnumsub",
];

/// Creates the user on every node, with more rights than those.
async fn make_user_of(cluster: &Cluster, more: &[&str]) -> Result<()> {
    let mut words = OF_CLUSTERS.to_vec();
    if cluster.has_sharded_messages().await? {
        words.extend(OF_SHARDED);
    }
    ensure!(
        words.iter().all(|word| DOCUMENT.contains(word)),
        "{words:?}"
    );
    words.extend(more);
    for node in cluster.nodes() {
        make_user(node, &words).await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_lacks_a_right_to_sharded_messages_is_told_what_to_allow() -> Result<()> {
    let cluster = Cluster::options().replicas(0).start().await?;
    if !cluster.has_sharded_messages().await? {
        return Ok(());
    }
    // Which its timers wake when nobody can tell it.
    let other = lockkeeper::connect(&cluster.url()).await?;
    let guard = Mutex::new(&other, "name").acquire().await?;
    for (taken, told) in [
        (
            "resetchannels",
            "&lockkeeper.*:{lockkeeper:* &lockkeeper.client:*",
        ),
        ("-ssubscribe", "'ssubscribe' command"),
    ] {
        make_user_of(&cluster, &[taken]).await?;
        let client = connect(&as_user(&cluster.url())).await?;
        let waiting = Mutex::new(&client, "name")
            .acquire()
            .wait_for(PATIENCE)
            .await;
        let error = waiting.err().context("it may")?.to_string();
        ensure!(error.contains(told) && error.contains("; allow"), "{error}");
    }
    guard.release().await?;

    // A client without the right to publish can still lock; the others find out by their timers.
    make_user_of(&cluster, &["-spublish"]).await?;
    let mute = connect(&as_user(&cluster.url())).await?;
    let missing = mute.missing_rights().await?.join(" ");
    ensure!(
        missing == "&lockkeeper.*:{lockkeeper:* +spublish",
        "{missing}"
    );
    let guard = Mutex::new(&mute, "name").acquire().await?;
    let waiter = Mutex::new(&other, "name");
    let waiting = tokio::spawn(async move { waiter.acquire().wait_for(PATIENCE).await });
    while mute.inspect("name").await?.waiters != Some(1) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guard.release().await?;
    waiting.await??.release().await?;
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_are_enough_on_a_cluster() -> Result<()> {
    let cluster = Cluster::options().replicas(0).start().await?;
    make_user_of(&cluster, &[]).await?;
    let url = as_user(&cluster.url());
    for tag in ["", "{order:7}:"] {
        timeout(PATIENCE * 5, all_kinds(&url, DEFAULT, tag)).await??;
    }

    // A lease whose slot is in migration needs ASKING.
    let client = connect(&url).await?;
    let guard = Mutex::new(&client, "wanders").acquire().await?;
    let slot = cluster.slot_of("lockkeeper:wanders").await?;
    let from = cluster.primary_of(slot).await?;
    let to = (from + 1) % 3;
    cluster.begin_migration(slot, from, to).await?;
    cluster.move_keys(slot, from, to).await?;
    guard.verify().await?;
    cluster.end_migration(slot, from, to).await?;
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn the_documented_rights_are_enough_behind_sentinels() -> Result<()> {
    let watched = Watched::start().await?;
    for server in watched.servers() {
        make_user(server, &["+role"]).await?;
    }
    let rules = "ACL SETUSER sam on >word resetkeys resetchannels &+switch-master -@all +ping +subscribe +sentinel|master";
    for sentinel in watched.sentinels() {
        let words: Vec<&str> = rules.split_whitespace().collect();
        sentinel.command(&words).await?;
    }
    let url = as_user(&watched.url()) + "?sentinel_user=sam&sentinel_password=word";
    timeout(PATIENCE * 5, all_kinds(&url, DEFAULT, "")).await?
}
