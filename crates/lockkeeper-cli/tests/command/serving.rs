//! The page and its routes, as browsers and scripts request them: which requests are refused, and which texts must harm
//! nobody.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, LossReason, Mutex};
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::printed::{ask, assert_printed};
use crate::support::{LIMIT, Run, until};
use crate::visiting::{Serving, TOKEN, encoded, names, request};

#[tokio::test]
async fn the_routes_answer_and_all_else_is_refused_with_words() -> Result<()> {
    let server = Server::start().await?;
    let settings = Client::builder().label("db7:99 prints");
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let lock = FairLock::new(&client, "print/er");
    let _guard = lock.acquire().await?;
    let owner = client.new_owner();
    let waiting = tokio::spawn(lock.acquire().owner(&owner).into_future());
    until("it waits", async || Ok(lock.queue_len().await? == 1)).await?;
    let serving = Serving::start(&server, &[]).await?;

    let page = serving.get("/").await?;
    ensure!(page.status == 200 && page.header("content-type") == "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    let (_, nonce) = policy
        .split_once("script-src 'nonce-")
        .context("no nonce")?;
    let nonce = nonce.split('\'').next().context("no nonce")?;
    ensure!(
        nonce.len() == 32 && policy.starts_with("default-src 'none'; connect-src 'self';"),
        "{policy}"
    );
    ensure!(page.body.matches(&format!("nonce=\"{nonce}\"")).count() == 2);
    ensure!(!page.body.contains("{{") && !page.body.contains("print/er"));
    let foreign = [
        "innerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "https:",
        " style=",
    ];
    for foreign in foreign {
        ensure!(!page.body.contains(foreign), "{foreign}");
    }
    let again = serving.get("/").await?;
    ensure!(again.header("content-security-policy") != policy);

    let listed = serving.get("/api/locks").await?;
    ensure!(listed.header("content-type") == "application/json");
    let sample = listed.json()?;
    ensure!(
        sample["locks"][0]["holder"] == "db7:99 prints" && sample["waiters"] == 1,
        "{sample}"
    );
    ensure!(serving.get("/api/locks?filter=PRINTS").await?.json()?["matching"] == 1);
    ensure!(serving.get("/api/locks?filter=nobody").await?.json()?["matching"] == 0);
    let mut events = serving.events("?open=print%2Fer").await?;
    let queued = |it: &Value| !it["open"]["queue"][0].is_null();
    let opened = events.wait_for("the queue", queued).await?;
    ensure!(
        opened["open"]["queue"][0]["owner"] == owner.to_string(),
        "{opened}"
    );
    let mut answers = String::new();
    let long = format!("/api/locks/{}", "n".repeat(2048));
    for path in [
        "/api/locks?sort=age",
        "/api/locks/print%2Fer",
        "/api/locks/free",
        "/api/locks/a%7Db",
        &long,
        "/nowhere",
        "/api",
        "/api/locks/print/er",
        "/events/x",
        "/%2e%2e/etc/passwd",
    ] {
        let answer = serving.get(path).await?;
        answers += &format!("{path}: {} {}\n", answer.status, answer.body.trim_end());
    }
    assert_printed!(answers.replace(&"n".repeat(2048), "LONG"));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for path in ["/", "/events", "/metrics", "/api/locks", "/api/locks/free"] {
            let what = format!("{method} {path}");
            let refused = request(serving.address, &what, "Host: localhost\r\n", "").await?;
            let allowed = refused.header("allow");
            ensure!(
                refused.status == 405 && allowed == "GET,HEAD",
                "{what}: {refused:?}"
            );
        }
    }
    for path in ["/", "/metrics", "/api/locks"] {
        let what = format!("HEAD {path}");
        let head = request(serving.address, &what, "Host: localhost\r\n", "").await?;
        ensure!(
            head.status == 200 && head.body.is_empty(),
            "{path}: {head:?}"
        );
    }
    for path in [
        "/",
        "/api/locks",
        "/api/locks/a%7Db",
        "/nowhere",
        "/metrics",
    ] {
        let answer = serving.get(path).await?;
        for (header, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-resource-policy", "same-origin"),
            ("set-cookie", ""),
            ("access-control-allow-origin", ""),
        ] {
            ensure!(answer.header(header) == value, "{header}: {answer:?}");
        }
        let policy = answer.header("content-security-policy");
        ensure!(policy.starts_with("default-src 'none'"), "{answer:?}");
    }
    waiting.abort();
    Ok(())
}

#[tokio::test]
async fn another_hosts_name_is_refused_unless_it_was_named() -> Result<()> {
    let server = Server::start().await?;
    let serving = Serving::start(&server, &["--host", "locks.example.org"]).await?;
    let ask = async |headers: &str| request(serving.address, "GET /api/locks", headers, "").await;
    for known in [
        "localhost:1",
        "127.0.0.1:9090",
        "[::1]",
        "Locks.Example.org",
    ] {
        let answer = ask(&format!("Host: {known}\r\n")).await?;
        ensure!(answer.status == 200, "{known}: {answer:?}");
    }
    let other = ask("Host: rebound.example.org:9090\r\n").await?;
    ensure!(
        other.status == 403 && other.body.contains("--host"),
        "{other:?}"
    );
    ensure!(!other.body.contains("locks.example.org"), "{other:?}");
    for none in ["", "Host: localhost\r\nHost: localhost\r\n"] {
        let answer = ask(none).await?;
        ensure!(answer.status == 400, "{none}: {answer:?}");
    }
    // A request with such a name cannot revoke either.
    let revoke = format!("Host: rebound.example.org\r\nAuthorization: Bearer {TOKEN}\r\n");
    let refused = request(serving.address, "POST /api/locks/x/revoke", &revoke, "").await?;
    ensure!(refused.status == 403, "{refused:?}");
    Ok(())
}

#[tokio::test]
async fn names_and_labels_of_any_sort_are_told_as_they_are_and_harm_nobody() -> Result<()> {
    let server = Server::start().await?;
    let label = "</script><img src=x onerror=alert(1)>\u{1b}[2J\u{202e}";
    let client = lockkeeper::connect_with(&server.url(), Client::builder().label(label)).await?;
    let long = "n".repeat(1024);
    let hostile = [
        "<script>alert(1)</script>",
        "\u{1b}]0;title\u{7}\u{1b}[2J",
        "\u{202e}gpj.exe\u{2066}\u{200b}",
        "\u{2028}\u{feff}\u{e0041}",
        "\"] 1\\u0022",
        &long,
    ];
    let mut held = Vec::new();
    for name in hostile {
        held.push(Mutex::new(&client, name).acquire().await?);
    }
    let serving = Serving::start(&server, &[]).await?;
    let mut events = serving.events("").await?;
    let event = events.text().await?.context("no event")?;
    let api = serving.get("/api/locks").await?.body;
    let metrics = serving.get("/metrics").await?.body;
    let is_harmless = |text: &str| {
        let seen = |it: char| it == '\n' || (!it.is_control() && (it.is_ascii() || it == '…'));
        ensure!(text.chars().all(seen), "{text}");
        Ok(())
    };
    for text in [&event, &api] {
        is_harmless(text)?;
        let sample: Value = serde_json::from_str(text)?;
        ensure!(names(&sample) == BTreeSet::from(hostile), "{text}");
        ensure!(sample["locks"][0]["holder"] == label, "{text}");
    }
    is_harmless(&metrics)?;
    for name in hostile {
        ensure!(!metrics.contains(name), "{metrics}");
        let one = serving
            .get(&format!("/api/locks/{}", encoded(name)))
            .await?;
        is_harmless(&one.body)?;
        let one = one.json()?;
        ensure!(
            one["name"] == name && one["holders"][0]["label"] == label,
            "{one}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn revoking_needs_the_option_and_the_token() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "a/b").acquire().await?;
    let path = "/api/locks/a%2Fb/revoke";
    let good = format!("Authorization: Bearer {TOKEN}\r\n");
    let meek = Serving::start(&server, &[]).await?;
    let refused = meek.post(path, &good).await?;
    ensure!(
        refused.status == 403 && refused.body.contains("--allow-revoke"),
        "{refused:?}"
    );

    let serving = Serving::start(&server, &["--allow-revoke"]).await?;
    for bad in [
        "",
        "Authorization: Bearer 0123456789abcdeF\r\n",
        "Authorization: Bearer \r\n",
        "Cookie: token=0123456789abcdef\r\n",
    ] {
        let refused = serving.post(path, bad).await?;
        let scheme = refused.header("www-authenticate");
        ensure!(
            refused.status == 401 && scheme == "Bearer",
            "{bad}: {refused:?}"
        );
        ensure!(!refused.body.contains(TOKEN), "{refused:?}");
    }
    ensure!(serving.get(path).await?.status == 405);
    guard.verify().await?;

    let told = serving.post(path, &good).await?;
    ensure!(told.status == 200 && told.json()?["told"] == 1, "{told:?}");
    ensure!(timeout(LIMIT, guard.lost()).await?.reason == LossReason::Revoked);
    drop(guard);
    until("it is free", async || {
        Ok(client.inspect("a/b").await?.holders.is_empty())
    })
    .await?;
    let free = serving.post(path, &good).await?;
    ensure!(
        free.status == 404 && free.body.contains("nobody holds"),
        "{free:?}"
    );
    Ok(())
}

#[tokio::test]
async fn it_ends_by_a_signal_also_while_pages_look_on() -> Result<()> {
    let server = Server::start().await?;
    for signal in [Signal::TERM, Signal::INT] {
        let mut serving = Serving::start(&server, &[]).await?;
        let mut events = serving.events("").await?;
        events.text().await?;
        let _idle = TcpStream::connect(serving.address).await?;
        serving.run.signal(signal)?;
        while events.text().await?.is_some() {}
        ensure!(serving.run.code().await? == 0);
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_served_is_said_in_a_line_before_anything_is_opened() -> Result<()> {
    let server = Server::start().await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let taken = listener.local_addr()?.to_string();
    let folder = tempfile::tempdir()?;
    let short = folder.path().join("token");
    std::fs::write(&short, "too short\n")?;
    let short = short.to_str().context("a strange path")?;
    let mut printed = String::new();
    for options in [
        "--listen localhost",
        "--listen 9090",
        "--listen 203.0.113.1:0",
        &format!("--listen {taken}"),
        "--listen 127.0.0.1:0 --allow-revoke",
        "--listen 127.0.0.1:0 --allow-revoke --token-file /no/such/file",
        &format!("--listen 127.0.0.1:0 --allow-revoke --token-file {short}"),
        &format!("--listen 127.0.0.1:0 --token-file {short}"),
        "--listen 127.0.0.1:0 --host https://locks",
        "--listen 127.0.0.1:0 a[",
    ] {
        let said = ask(&server, &format!("serve {options}")).await?;
        ensure!(!said.err.contains("too short"), "{said}");
        printed += &said.to_string();
    }
    assert_printed!(printed.replace(short, "FILE"));
    ensure!(server.commandstats("scan").await? == 0);
    Ok(())
}

#[tokio::test]
async fn listening_for_others_is_warned_of() -> Result<()> {
    let server = Server::start().await?;
    let mut serving = Run::command(&server, &["serve", "--listen", "0.0.0.0:0"])?;
    assert_printed!(serving.complaint().await?, @"lockkeeper: listening on <server>, not only on this machine: anybody who can connect sees all names and labels");
    Ok(())
}
