//! What operators see: a span for each acquisition and each hold, an event for each change of a lease, and never a password.

use std::io::Write;
use std::sync::{Arc, Once};
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, Mutex};
use lockkeeper_lua::lock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{faulty, patient};
use parking_lot::Mutex as Cell;
use tracing::Instrument as _;
use tracing::field::Field;
use tracing::span::{Id, Record};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Records everything that is logged while this is the thread's default subscriber.
#[derive(Clone, Default)]
struct Log(Arc<Cell<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        let bytes = self.0.lock();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn collect(&self) -> tracing::subscriber::DefaultGuard {
        // If another test's thread reached a callsite for the first time at this moment, without a subscriber, the callsite
        // would be disabled for good. One global subscriber keeps all callsites enabled.
        static FOR_ALL: Once = Once::new();
        FOR_ALL.call_once(|| {
            let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
        });
        tracing::callsite::rebuild_interest_cache();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(self.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn every_turn_of_a_lease_is_logged_with_its_name() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let (client, store) = faulty(&MemoryStore::new(), Duration::from_secs(6))?;
    let lock = Mutex::new(&client, "invoice:42");

    let owner = client.new_owner();
    let guard = lock
        .acquire()
        .owner(&owner)
        .wait_for(Duration::from_secs(9))
        .await?;
    let text = log.text();
    for part in [
        "acquire{".to_owned(),
        "name=\"invoice:42\"".to_owned(),
        "kind=mutex".to_owned(),
        format!("owner={owner}"),
        "wait=Some(9s)".to_owned(),
        "granted".to_owned(),
        format!("token={}", guard.fencing_token()),
    ] {
        ensure!(text.contains(&part), "{part} is not in:\n{text}");
    }

    tokio::time::sleep(Duration::from_millis(2_100)).await;
    ensure!(log.text().contains("renewed"), "{}", log.text());
    store.plan(&lock::RENEW, Fate::LoseRequest);
    tokio::time::sleep(Duration::from_secs(4)).await;
    ensure!(log.text().contains("uncertain"), "{}", log.text());
    guard.release().await?;
    ensure!(log.text().contains("released"), "{}", log.text());

    let guard = lock.acquire().no_renewal().await?;
    guard.lost().await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let text = log.text();
    ensure!(
        text.contains("lost") && text.contains("deadline passed"),
        "{text}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_time_of_holding_is_a_span_below_the_callers_that_says_how_it_ended() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let server = MemoryStore::new();
    let client = Client::builder().build(Arc::new(server.sibling()))?;
    let lock = Mutex::new(&client, "invoice:42");
    let token = lock
        .acquire()
        .note("user 42")
        .hold(async |lease| {
            tracing::info!("at work");
            lease.fencing_token()
        })
        .instrument(tracing::info_span!("request", id = 7))
        .await?;
    let text = log.text();
    let at_work = text.lines().find(|line| line.contains("at work"));
    let spans =
        format!("request{{id=7}}:hold{{name=\"invoice:42\" token={token} note=\"user 42\"}}: ");
    ensure!(at_work.is_some_and(|line| line.contains(&spans)), "{text}");

    let ends = Ends::default();
    let _seen = tracing::subscriber::set_default(tracing_subscriber::registry().with(ends.clone()));
    tracing::callsite::rebuild_interest_cache();
    lock.acquire().await?.release().await?;
    drop(lock.acquire().await?);
    let guard = lock.acquire().await?;
    client.revoke("invoice:42").await?;
    guard.lost().await;
    drop(guard);
    // What a release finds out is logged within it.
    let guard = lock.acquire().await?;
    server.execute(&["DEL", "lockkeeper:invoice:42"])?;
    ensure!(guard.release().await.is_err());
    let ended = ends.0.lock().clone();
    ensure!(
        ended == ["released", "released", "revoked", "gone"],
        "{ended:?}"
    );
    Ok(())
}

/// How the spans of finished holds ended.
#[derive(Clone, Default)]
struct Ends(Arc<Cell<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for Ends {
    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        values.record(&mut |field: &Field, value: &dyn std::fmt::Debug| {
            if field.name() == "outcome" {
                let value = format!("{value:?}").trim_matches('"').to_owned();
                self.0.lock().push(value);
            }
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_one_line_for_each_interval_however_many_leases_there_are() -> Result<()>
{
    const LEASES: usize = 2_000;
    let log = Log::default();
    let (client, store) = faulty(&MemoryStore::new(), Duration::from_secs(30))?;
    let mut guards = Vec::new();
    for number in 0..LEASES {
        let lock = Mutex::new(&client, &format!("invoice{number}"));
        guards.push(lock.acquire().await?);
    }
    let _collecting = log.collect();
    store.silence("invoice");
    tokio::time::sleep(Duration::from_secs(27)).await;
    for guard in &guards {
        guard.ensure_held()?;
    }
    let text = log.text();
    let failed = text
        .matches("a renewal failed; the lease is uncertain")
        .count();
    ensure!(failed >= LEASES, "only {failed} renewals have failed");
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("WARN")).collect();
    println!("{failed} failures, {} lines", warnings.len());
    ensure!(warnings.len() <= 3, "{} lines", warnings.len());
    let counts = warnings.iter().filter_map(|line| {
        let count = line.split("renewals=").nth(1)?;
        count.split(' ').next()?.parse::<usize>().ok()
    });
    // The first one is logged alone.
    let counted = counts.sum::<usize>() + 1;
    ensure!(
        counted >= LEASES,
        "{counted} counted:\n{}",
        warnings.join("\n")
    );
    Ok(())
}

/// Closes all connections but the one that asks.
async fn kill_connections(server: &Server) -> Result<()> {
    for kind in ["normal", "pubsub"] {
        server.command(&["CLIENT", "KILL", "TYPE", kind]).await?;
    }
    Ok(())
}

async fn logged(log: &Log, what: &str, times: usize) -> Result<()> {
    let looked = async {
        while log.text().matches(what).count() < times {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let looked = tokio::time::timeout(PATIENCE, looked).await;
    ensure!(looked.is_ok(), "{what} was not logged:\n{}", log.text());
    Ok(())
}

#[tokio::test]
async fn why_a_server_does_not_let_in_again_is_a_warning_and_written_once() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let server = Server::options().configuration("user ann on >hunter2 ~* &* +@all");
    let server = server.start().await?;
    let url = format!("redis://ann:hunter2@{}", server.address());
    let client = lockkeeper::connect(&url).await?;
    server
        .command(&["ACL", "SETUSER", "ann", "resetpass", ">other"])
        .await?;
    kill_connections(&server).await?;
    // Both connections are retried repeatedly, which is logged at a more detailed level.
    logged(&log, "cannot connect, trying again", 8).await?;
    client.close().await;
    let text = log.text();
    let warnings = text.lines().filter(|line| line.contains("WARN"));
    let reasons: Vec<&str> = warnings
        .filter(|line| line.contains("cannot connect") && line.contains("WRONGPASS"))
        .collect();
    ensure!(reasons.len() == 2, "{reasons:#?}");
    ensure!(!text.contains("hunter2"), "{text}");
    Ok(())
}

#[tokio::test]
async fn what_is_known_of_a_server_is_not_said_again_at_each_reconnect() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    for times in 1..4 {
        logged(&log, "looked at the server", times).await?;
        kill_connections(&server).await?;
    }
    logged(&log, "looked at the server", 4).await?;
    client.close().await;
    let text = log.text();
    let said = text.matches("about=\"persistence\"").count();
    ensure!(said == 1, "said {said} times");
    Ok(())
}

/// The warnings when a client connects to `url`.
async fn warned(url: &str) -> Result<String> {
    let log = Log::default();
    let _collecting = log.collect();
    let client = lockkeeper::connect_with(url, patient()).await?;
    let looked = async {
        let asked = |text: &str| {
            text.contains("found no missing rights") || text.contains("about=\"rights\"")
        };
        while !log.text().contains("looked at the server") || !asked(&log.text()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await?;
    client.close().await;
    let text = log.text();
    let warnings = text.lines().filter(|line| line.contains("WARN"));
    Ok(warnings.map(|line| line.to_owned() + "\n").collect())
}

#[tokio::test]
async fn connecting_warns_of_what_can_cost_a_lock() -> Result<()> {
    let durable = || Server::options().configuration("appendonly yes");
    let good = durable().start().await?;
    let text = warned(&good.url()).await?;
    ensure!(text.is_empty(), "{text}");

    let forgetful = durable().configuration("maxmemory-policy allkeys-lru");
    let full = forgetful.clone().configuration("maxmemory 100mb");
    let (forgetful, full) = (forgetful.start().await?, full.start().await?);
    let volatile = Server::start().await?;
    let replica = durable().configuration(format!("replicaof 127.0.0.1 {}", good.port()));
    let replica = replica.start().await?;
    for (server, about, part) in [
        (&forgetful, "eviction", "allkeys-lru, without a limit"),
        (&full, "eviction", "lost when memory is full"),
        (&volatile, "persistence", "no append-only file"),
        (&replica, "role", "a replica"),
    ] {
        let text = warned(&server.url()).await?;
        let expected = format!("about=\"{about}\"");
        ensure!(text.lines().count() == 1, "{about}:\n{text}");
        ensure!(text.contains(&expected) && text.contains(part), "{text}");
    }
    Ok(())
}

#[tokio::test]
async fn connecting_warns_of_missing_rights() -> Result<()> {
    let durable = || Server::options().configuration("appendonly yes");
    let user = |taken: &str| format!("user default on nopass ~* &* +@all {taken}");
    let mute = durable().configuration(user("-publish")).start().await?;
    let text = warned(&mute.url()).await?;
    let facts = lockkeeper::connect_with(&mute.url(), patient())
        .await?
        .server_facts()
        .await?;
    // Servers before 7.0 do not report it.
    if !facts.version.is_some_and(|it| it.starts_with("redis 6")) {
        ensure!(
            text.lines().count() == 1 && text.contains("+publish"),
            "{text}"
        );
    }
    // A missing command is not a missing right.
    let renamed = durable().configuration("rename-command PTTL \"\"");
    let text = warned(&renamed.start().await?.url()).await?;
    ensure!(text.is_empty(), "{text}");
    let without_scripts = durable().configuration(user("-eval -evalsha"));
    let text = warned(&without_scripts.start().await?.url()).await?;
    ensure!(text.lines().count() == 1, "{text}");
    ensure!(
        text.contains("'evalsha' command; allow the user this command"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_say_what_it_is_is_not_judged() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let server = Server::options().configuration("user default on nopass ~* &* +@all -info");
    let server = server.start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let refused = async {
        while !log.text().contains("does not say what it is") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused).await?;
    Mutex::new(&client, "name")
        .acquire()
        .await?
        .release()
        .await?;
    client.close().await;
    ensure!(!log.text().contains("WARN"), "{}", log.text());
    Ok(())
}

#[tokio::test]
async fn a_password_is_never_logged() -> Result<()> {
    let log = Log::default();
    let _collecting = log.collect();
    let server = Server::options().password("hunter2").start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    Mutex::new(&client, "name")
        .acquire()
        .await?
        .release()
        .await?;
    client.close().await;
    let wrong = lockkeeper::connect(&server.url().replace("hunter2", "hunter23")).await;
    ensure!(wrong.is_err());
    let text = log.text();
    ensure!(text.contains("connected"), "nothing was logged:\n{text}");
    ensure!(!text.contains("hunter2"), "{text}");
    Ok(())
}
