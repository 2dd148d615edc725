//! The page and its routes, as browsers and scripts request them: which requests are refused, and which texts must harm
//! nobody.

use std::collections::BTreeSet;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, LossReason, Mutex};
use lockkeeper_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::support::{LIMIT, command, said, until};
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
    for foreign in [
        "innerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "https:",
        " style=",
    ] {
        ensure!(!page.body.contains(foreign), "{foreign}");
    }
    let again = serving.get("/").await?;
    ensure!(again.header("content-security-policy") != policy);

    let listed = serving.get("/api/locks").await?;
    let sample = listed.json()?;
    ensure!(listed.header("content-type") == "application/json");
    ensure!(
        sample["locks"][0]["holder"] == "db7:99 prints" && sample["waiters"] == 1,
        "{sample}"
    );
    ensure!(serving.get("/api/locks?filter=PRINTS").await?.json()?["matching"] == 1);
    ensure!(serving.get("/api/locks?filter=nobody").await?.json()?["matching"] == 0);
    ensure!(serving.get("/api/locks?sort=age").await?.status == 400);
    let mut events = serving.events("?open=print%2Fer").await?;
    let queued = |it: &Value| !it["open"]["queue"][0].is_null();
    let opened = events.wait_for("the queue", queued).await?;
    ensure!(
        opened["open"]["queue"][0]["owner"] == owner.to_string(),
        "{opened}"
    );
    let one = serving.get("/api/locks/print%2Fer").await?.json()?;
    ensure!(
        one["kind"] == "fair" && one["queue"][0]["owner"] == owner.to_string(),
        "{one}"
    );
    let free = serving.get("/api/locks/free").await?.json()?;
    ensure!(
        free["kind"].is_null() && free["holders"] == Value::Array(Vec::new()),
        "{free}"
    );
    let bad = serving.get("/api/locks/a%7Db").await?;
    ensure!(
        bad.status == 400 && bad.body.contains("not one complete hash tag"),
        "{bad:?}"
    );
    let long = serving
        .get(&format!("/api/locks/{}", "n".repeat(2048)))
        .await?;
    ensure!(
        long.status == 400 && long.body.contains("1024 bytes"),
        "{long:?}"
    );

    for path in [
        "/nowhere",
        "/api",
        "/api/locks/print/er",
        "/events/x",
        "/%2e%2e/etc/passwd",
    ] {
        let none = serving.get(path).await?;
        ensure!(
            none.status == 404 && none.body.contains("/metrics"),
            "{path}: {none:?}"
        );
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for path in ["/", "/events", "/metrics", "/api/locks", "/api/locks/free"] {
            let what = format!("{method} {path}");
            let refused = request(serving.address, &what, "Host: localhost\r\n", "").await?;
            ensure!(
                refused.status == 405 && refused.header("allow") == "GET,HEAD",
                "{what}: {refused:?}"
            );
        }
    }
    for path in ["/", "/metrics", "/api/locks"] {
        let head = request(
            serving.address,
            &format!("HEAD {path}"),
            "Host: localhost\r\n",
            "",
        )
        .await?;
        ensure!(
            head.status == 200 && head.body.is_empty(),
            "{path}: {head:?}"
        );
    }
    for answer in [
        page,
        listed,
        bad,
        serving.get("/nowhere").await?,
        serving.get("/metrics").await?,
    ] {
        ensure!(
            answer.header("x-content-type-options") == "nosniff",
            "{answer:?}"
        );
        ensure!(
            answer.header("referrer-policy") == "no-referrer",
            "{answer:?}"
        );
        ensure!(
            answer.header("cross-origin-resource-policy") == "same-origin",
            "{answer:?}"
        );
        ensure!(
            answer
                .header("content-security-policy")
                .starts_with("default-src 'none'"),
            "{answer:?}"
        );
        ensure!(
            answer.header("set-cookie").is_empty()
                && answer.header("access-control-allow-origin").is_empty()
        );
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
    ensure!(
        request(serving.address, "POST /api/locks/x/revoke", &revoke, "")
            .await?
            .status
            == 403
    );
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
    let single = serving
        .get(&format!("/api/locks/{}", encoded(hostile[2])))
        .await?
        .body;
    for (what, text) in [
        ("events", &event),
        ("api", &api),
        ("metrics", &metrics),
        ("one", &single),
    ] {
        let seen = |it: char| it == '\n' || (!it.is_control() && (it.is_ascii() || it == '…'));
        ensure!(text.chars().all(seen), "{what}: {text}");
    }
    for text in [&event, &api] {
        let sample: Value = serde_json::from_str(text)?;
        ensure!(names(&sample) == BTreeSet::from(hostile), "{text}");
        ensure!(sample["locks"][0]["holder"] == label, "{text}");
    }
    ensure!(serde_json::from_str::<Value>(&single)?["name"] == hostile[2]);
    for name in hostile {
        ensure!(!metrics.contains(name), "{metrics}");
        let one = serving
            .get(&format!("/api/locks/{}", encoded(name)))
            .await?
            .json()?;
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
        ensure!(
            refused.status == 401 && refused.header("www-authenticate") == "Bearer",
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
        serving.signal(signal)?;
        while events.text().await?.is_some() {}
        let status = timeout(LIMIT, serving.child.wait())
            .await
            .context("it hangs")??;
        ensure!(status.code() == Some(0), "{status}");
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
    let free = ["--listen", "127.0.0.1:0"];
    for (words, reason) in [
        (&["--listen", "localhost"][..], "such as 127.0.0.1:9090"),
        (&["--listen", "9090"], "such as 127.0.0.1:9090"),
        (
            &["--listen", "203.0.113.1:0"],
            "cannot listen on 203.0.113.1:0",
        ),
        (&["--allow-revoke"], "needs a token"),
        (
            &["--allow-revoke", "--token-file", "/no/such/file"],
            "/no/such/file",
        ),
        (&["--allow-revoke", "--token-file", short], "16 to 1024"),
        (&["--token-file", short], "--allow-revoke"),
        (&["--host", "https://locks"], "without scheme or port"),
        (&["a["], "ends in the middle"),
    ] {
        let listen = if words.contains(&"--listen") {
            &[][..]
        } else {
            &free
        };
        let said = said(&server.url(), &[&["serve"], listen, words].concat()).await?;
        ensure!(
            said.code == Some(64) && said.out.is_empty(),
            "{words:?}: {said:?}"
        );
        ensure!(
            said.err.contains(reason) && !said.err.contains("too short"),
            "{words:?}: {said:?}"
        );
    }
    let taken = said(&server.url(), &["serve", "--listen", &taken]).await?;
    ensure!(
        taken.code == Some(64) && taken.err.lines().count() == 1,
        "{taken:?}"
    );
    ensure!(taken.err.contains("choose another --listen"), "{taken:?}");
    ensure!(server.commandstats("scan").await? == 0);
    Ok(())
}

#[tokio::test]
async fn listening_for_others_is_warned_of() -> Result<()> {
    let server = Server::start().await?;
    let mut command = command(&server.url(), &["serve", "--listen", "0.0.0.0:0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let err = child.stderr.take().context("no stderr")?;
    let warning = timeout(LIMIT, BufReader::new(err).lines().next_line()).await??;
    let warning = warning.context("no warning")?;
    ensure!(warning.contains("not only on this machine"), "{warning}");
    Ok(())
}
