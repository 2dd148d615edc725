//! The subcommands that look at locks from outside.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, Mutex, ReentrantLock, RwLock};
use lockkeeper_testkit::server::Server;
use serde_json::Value;
use tokio::time::timeout;

use crate::support::{LIMIT, Run, said, until};

pub(crate) async fn json(server: &Server, words: &[&str]) -> Result<Vec<Value>> {
    let said = said(&server.url(), &[words, &["--json"]].concat()).await?;
    ensure!(said.code == Some(0), "{words:?}: {said:?}");
    let lines = said.out.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[tokio::test]
async fn inspect_shows_the_holder_and_the_queue_in_order() -> Result<()> {
    let server = Server::start().await?;
    let words = [
        "--label",
        "the printer",
        "--fair",
        "--lock",
        "printer",
        "--",
        "cat",
    ];
    let mut run = Run::start(&server, &words)?;
    let granted = run.event("granted").await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("db7:99")).await?;
    // A client sends its label with its first grant, so it must hold something once.
    let _known = Mutex::new(&client, "other").acquire().await?;
    let lock = FairLock::new(&client, "printer");
    let owners = [client.new_owner(), client.new_owner()];
    let mut waiting = Vec::new();
    for (place, owner) in (1..).zip(&owners) {
        waiting.push(tokio::spawn(lock.acquire().owner(owner).into_future()));
        until("it waits", async || Ok(lock.queue_len().await? == place)).await?;
    }
    let seen = &json(&server, &["inspect", "printer"]).await?[0];
    let holder = &seen["holders"][0];
    let pid = run.child.id().context("it ended")?;
    ensure!(
        seen["kind"] == "fair" && seen["fence"] == granted["fence"],
        "{seen}"
    );
    ensure!(
        holder["owner"] == granted["owner"] && holder["pid"] == pid,
        "{seen}"
    );
    let label = holder["label"].as_str().context("no label")?;
    ensure!(
        label
            == format!(
                "{}:{pid} the printer",
                holder["host"].as_str().unwrap_or("?")
            )
    );
    ensure!(
        holder["left_ms"]
            .as_u64()
            .is_some_and(|left| left > 15_000 && left <= 30_000)
    );
    let since = humantime::parse_rfc3339(seen["since"].as_str().context("no since")?)?;
    ensure!(since.elapsed()? < LIMIT, "{seen}");
    ensure!(seen["waiters"] == 2, "{seen}");
    for (place, owner) in owners.iter().enumerate() {
        let waiter = &seen["queue"][place];
        ensure!(
            waiter["owner"] == owner.to_string() && waiter["host"] == "db7",
            "{seen}"
        );
    }

    let text = said(&server.url(), &["inspect", "printer"]).await?.out;
    let places: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("db7:99"))
        .collect();
    ensure!(
        places.len() == 2 && places[0].starts_with("1 ") && places[1].starts_with("2 "),
        "{text}"
    );
    ensure!(
        text.contains("printer: fair, token") && !text.contains('\u{1b}'),
        "{text}"
    );
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

#[tokio::test]
async fn ls_shows_every_kind_that_matches_and_nothing_else() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let elsewhere =
        lockkeeper::connect_with(&server.url(), Client::builder().namespace("b*")).await?;
    let owner = client.new_owner();
    let reentrant = ReentrantLock::new(&client, "job:2");
    let held = (
        Mutex::new(&client, "job:1").acquire().await?,
        reentrant.acquire().owner(&owner).await?,
        reentrant.acquire().owner(&owner).await?,
        FairLock::new(&client, "job:3").acquire().await?,
        Mutex::new(&client, "deploy\u{1b}[2J").acquire().await?,
        Mutex::new(&elsewhere, "job:4").acquire().await?,
    );
    server
        .command(&["SET", "lockkeeper:job:5", "theirs"])
        .await?;
    server
        .command(&["ZADD", "lockkeeper:job:6", "1", "no lock"])
        .await?;
    let names = |locks: Vec<Value>| -> Vec<String> {
        locks
            .iter()
            .map(|lock| {
                format!(
                    "{}/{}",
                    lock["name"].as_str().unwrap_or("?"),
                    lock["kind"].as_str().unwrap_or("?")
                )
            })
            .collect()
    };
    let jobs = names(json(&server, &["ls", "job:[1-3]"]).await?);
    ensure!(
        jobs == ["job:1/mutex", "job:2/reentrant", "job:3/fair"],
        "{jobs:?}"
    );
    let others = names(json(&server, &["ls", "--namespace", "b*"]).await?);
    ensure!(others == ["job:4/mutex"], "{others:?}");

    let text = said(&server.url(), &["ls"]).await?.out;
    let lines: Vec<&str> = text.lines().collect();
    ensure!(lines.len() == 6 && lines[0].starts_with("NAME "), "{text}");
    ensure!(lines[1].starts_with(r"deploy\u{1b}[2J "), "{text}");
    ensure!(lines[3].contains("and 1 more"), "{text}");
    let columns: BTreeSet<_> = lines[..4]
        .iter()
        .zip(["KIND", "mutex", "mutex", "reentrant"])
        .map(|(line, word)| line.find(word))
        .collect();
    ensure!(columns.len() == 1, "not aligned: {text}");
    drop(held);
    Ok(())
}

#[tokio::test]
async fn what_an_acquisition_noted_is_shown_and_changes_no_terminal() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("web-1")).await?;
    let lock = FairLock::new(&client, "order:42");
    let _guard = lock.acquire().note("user 7 \u{202e}x").await?;
    let waiting = tokio::spawn(lock.acquire().note("user 8").into_future());
    let noted = async || {
        let seen = &json(&server, &["inspect", "order:42"]).await?[0];
        let holder = seen["holders"][0]["note"] == "user 7 \u{202e}x";
        Ok(holder && seen["queue"][0]["note"] == "user 8")
    };
    until("both are noted", noted).await?;
    for words in [&["ls"][..], &["inspect", "order:42"]] {
        let text = said(&server.url(), words).await?.out;
        ensure!(text.contains(r"web-1 (user 7 \u{202e}x)"), "{text}");
    }
    let text = said(&server.url(), &["inspect", "order:42"]).await?.out;
    ensure!(text.contains("web-1 (user 8)"), "{text}");
    let asked = [
        "run",
        "--fair",
        "--wait",
        "900ms",
        "--lock",
        "order:42",
        "--events",
        "/dev/stdout",
        "--",
        "true",
    ];
    let told = said(&server.url(), &asked).await?.out;
    let told = told
        .lines()
        .find(|line| line.contains(r#""event":"waiting""#));
    let told: Value = serde_json::from_str(told.context("it did not say that it waits")?)?;
    ensure!(
        told["place"] == 2 && told["holders"][0] == "web-1 (user 7 \u{202e}x)",
        "{told}"
    );
    ensure!(
        told["left_ms"].is_u64() && told["since"].is_string(),
        "{told}"
    );
    waiting.abort();
    Ok(())
}

#[tokio::test]
async fn colours_are_for_terminals_unless_they_are_asked_for() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "job").acquire().await?;
    for (words, coloured) in [
        (&["ls"][..], false),
        (&["ls", "--color", "always"], true),
        (&["doctor", "--color", "always"], true),
        (&["doctor", "--color", "never"], false),
    ] {
        let text = said(&server.url(), words).await?.out;
        ensure!(text.contains("\u{1b}[") == coloured, "{words:?}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn who_shares_a_lock_is_listed_and_shown_to_share_it() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label("db7:99")).await?;
    let lock = RwLock::new(&client, "prices");
    let reading = (lock.read().await?, lock.read().await?);
    let tagged = RwLock::new(&client, "{shop}:prices").read().await?;
    let writing = RwLock::new(&client, "stock").write().await?;

    let shares = |lock: &Value| -> Vec<Option<bool>> {
        let holders = lock["holders"].as_array().into_iter().flatten();
        holders.map(|holder| holder["shared"].as_bool()).collect()
    };
    let listed: Vec<_> = json(&server, &["ls"])
        .await?
        .iter()
        .map(|lock| (lock["name"].as_str().map(str::to_owned), shares(lock)))
        .collect();
    let expected = [
        ("prices", vec![Some(true), Some(true)]),
        ("stock", vec![Some(false)]),
        ("{shop}:prices", vec![Some(true)]),
    ]
    .map(|(name, shares)| (Some(name.to_owned()), shares));
    ensure!(listed == expected, "{listed:?}");
    let text = said(&server.url(), &["ls"]).await?.out;
    let modes: Vec<_> = text
        .lines()
        .map(|line| line.split_whitespace().nth(2).unwrap_or_default())
        .collect();
    ensure!(modes == ["MODE", "shared", "exclusive", "shared"], "{text}");

    let alone = tokio::spawn(lock.write().into_future());
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    let seen = &json(&server, &["inspect", "prices"]).await?[0];
    ensure!(shares(seen) == [Some(true), Some(true)], "{seen}");
    ensure!(seen["queue"][0]["shared"].is_null(), "{seen}");
    let listed = json(&server, &["ls", "prices"]).await?;
    ensure!(listed[0]["queue"] == seen["queue"], "{listed:?}");
    alone.abort();
    let text = said(&server.url(), &["inspect", "prices"]).await?.out;
    ensure!(text.contains("prices: rwlock, token"), "{text}");
    ensure!(text.matches("   shared   ").count() == 2, "{text}");
    let text = said(&server.url(), &["inspect", "stock"]).await?.out;
    ensure!(text.matches("   exclusive   ").count() == 1, "{text}");

    // All holders that share this token lose the lock.
    let token = reading.0.fencing_token().to_string();
    let words = ["release", "prices", "--force", "--fence", &token];
    let taken = said(&server.url(), &words).await?;
    ensure!(taken.code == Some(0), "{taken:?}");
    for lease in [reading.0.lost(), reading.1.lost()] {
        ensure!(timeout(LIMIT, lease).await?.reason == lockkeeper::LossReason::Gone);
    }
    drop((tagged, writing));
    Ok(())
}

#[tokio::test]
async fn ten_thousand_locks_are_listed_without_blocking_the_server() -> Result<()> {
    const LOCKS: usize = 10_000;
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let mut held = Vec::new();
    for number in 0..LOCKS {
        held.push(
            Mutex::new(&client, &format!("lock:{number}"))
                .acquire()
                .await?,
        );
    }
    server.command(&["CONFIG", "RESETSTAT"]).await?;
    server
        .command(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"])
        .await?;
    server.command(&["SLOWLOG", "RESET"]).await?;
    let begun = Instant::now();
    let listing = tokio::spawn({
        let (url, words) = (server.url(), ["ls", "lock:*", "--json"]);
        async move { said(&url, &words).await }
    });
    // Another client works meanwhile. Its requests are limited, so that it does not compete for the server until the end.
    let mut slowest = Duration::ZERO;
    let mut rounds = 0;
    while !listing.is_finished() && rounds < 1_000 {
        let asked = Instant::now();
        client.inspect("lock:17").await?;
        slowest = slowest.max(asked.elapsed());
        rounds += 1;
    }
    let said = listing.await??;
    let took = begun.elapsed();
    ensure!(said.code == Some(0) && said.out.lines().count() == LOCKS);
    let one = Instant::now();
    json(&server, &["inspect", "lock:9999"]).await?;
    println!(
        "{LOCKS} locks in {took:?}, one in {:?}; another client meanwhile: {rounds} looks, the slowest {slowest:?}",
        one.elapsed()
    );
    // The time that a command takes depends on the machine, but the number of requests does not.
    let slow = server.command(&["SLOWLOG", "LEN"]).await?.into_integer()?;
    println!("{slow} commands took more than 10 ms");
    ensure!(rounds > 100, "nobody else was served: {rounds}");
    ensure!(server.commandstats("keys").await? == 0);
    // There are 10,000 keys and a counter for nearly each of their slots, and a page has 500.
    let pages = server.commandstats("scan").await?;
    ensure!(pages >= 30, "{pages} pages");
    drop(held);
    Ok(())
}

#[tokio::test]
async fn revoke_tells_the_holder_and_a_free_lock_is_said_to_be_free() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let free = said(&server.url(), &["revoke", "name"]).await?;
    ensure!(
        free.code == Some(0) && free.out.contains("nobody holds it"),
        "{free:?}"
    );
    let guard = Mutex::new(&client, "name").acquire().await?;
    ensure!(json(&server, &["revoke", "name"]).await?[0]["told"] == 1);
    let lost = timeout(LIMIT, guard.lost()).await?;
    ensure!(lost.reason == lockkeeper::LossReason::Revoked);
    Ok(())
}

#[tokio::test]
async fn release_takes_a_lock_from_the_holder_that_is_named_and_from_nobody_else() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let fence = guard.fencing_token().get();
    let token = fence.to_string();
    let wrong = (fence - 1).to_string();
    let url = server.url();

    let meek = said(&url, &["release", "name", "--fence", &token]).await?;
    ensure!(
        meek.code == Some(64) && meek.err.contains("UNSAFE"),
        "{meek:?}"
    );
    let blind = said(&url, &["release", "name", "--force"]).await?;
    ensure!(
        blind.code == Some(64) && blind.err.contains("--fence"),
        "{blind:?}"
    );
    let mistaken = said(&url, &["release", "name", "--force", "--fence", &wrong]).await?;
    ensure!(
        mistaken.code == Some(75) && mistaken.err.contains(&token),
        "{mistaken:?}"
    );
    ensure!(guard.verify().await.is_ok());

    let taken = said(&url, &["release", "name", "--force", "--fence", &token]).await?;
    ensure!(
        taken.code == Some(0) && taken.out.contains("by force"),
        "{taken:?}"
    );
    ensure!(timeout(LIMIT, guard.lost()).await?.reason == lockkeeper::LossReason::Gone);

    let again = Mutex::new(&client, "name").acquire().await?;
    let late = said(&url, &["release", "name", "--force", "--fence", &token]).await?;
    ensure!(late.code == Some(75), "{late:?}");
    // The claim names a holder as well as the token does.
    let claim = client.inspect("name").await?.holders[0].claim.clone();
    let taken = said(&url, &["release", "name", "--force", "--claim", &claim]).await?;
    ensure!(taken.code == Some(0), "{taken:?}");
    ensure!(timeout(LIMIT, again.lost()).await?.reason == lockkeeper::LossReason::Gone);

    server
        .command(&["SET", "lockkeeper:name", "theirs"])
        .await?;
    let foreign = said(&url, &["release", "name", "--force", "--fence", &token]).await?;
    ensure!(
        foreign.code == Some(75) && foreign.err.contains("claim theirs"),
        "{foreign:?}"
    );
    let taken = said(&url, &["release", "name", "--force", "--claim", "theirs"]).await?;
    ensure!(taken.code == Some(0), "{taken:?}");
    Ok(())
}

#[tokio::test]
async fn what_other_libraries_hold_is_shown_as_theirs_and_named_as_it_is_shown() -> Result<()> {
    let server = Server::start().await?;
    let url = server.url();
    let write = "return redis.call('SET', KEYS[1], '\\236\\000\\254')";
    let key = "lockkeeper:bytes";
    server.command(&["EVAL", write, "1", key]).await?;
    let text = ["SET", "lockkeeper:text", "9f3c", "PX", "60000"];
    server.command(&text).await?;
    let thread = "67e55044-10b1-426f-9247-bb680e5fe0c8:42";
    let hash = ["HSET", "lockkeeper:thread", thread, "1"];
    server.command(&hash).await?;

    let seen = json(&server, &["ls"]).await?;
    let seen: Vec<_> = seen
        .iter()
        .map(|lock| [&lock["name"], &lock["kind"], &lock["holders"][0]["claim"]])
        .collect();
    let expected = [
        ["bytes", "foreign", "hex:ec00fe"],
        ["text", "foreign", "9f3c"],
        ["thread", "redisson", thread],
    ];
    ensure!(seen == expected, "{seen:?}");
    for [name, _, claim] in expected {
        let shown = said(&url, &["inspect", name]).await?;
        ensure!(shown.out.contains(claim), "{shown:?}");
        let asked = said(&url, &["revoke", name]).await?;
        ensure!(
            asked.code == Some(75) && asked.err.contains("another library"),
            "{asked:?}"
        );
        let taken = said(&url, &["release", name, "--force", "--claim", claim]).await?;
        ensure!(taken.code == Some(0), "{taken:?}");
    }
    ensure!(json(&server, &["ls"]).await?.is_empty());
    Ok(())
}
