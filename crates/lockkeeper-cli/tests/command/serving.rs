//! The page and the metrics, as browsers, scripts and Prometheus ask for them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, LossReason, Mutex};
use lockkeeper_testkit::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::time::timeout;

use crate::support::{LIMIT, command, said, until};

/// What lets revoke in these tests.
pub(crate) const TOKEN: &str = "0123456789abcdef";

/// A `serve` under way.
pub(crate) struct Serving {
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Serving {
    /// `lockkeeper serve` on a free port, with these words behind.
    pub(crate) async fn start(server: &Server, words: &[&str]) -> Result<Self> {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut command = command(&server.url(), &[&listen, words].concat());
        command.env("LOCKKEEPER_SERVE_TOKEN", TOKEN);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.as_mut().context("no stdout")?;
        let mut line = String::new();
        let mut out = BufReader::new(out);
        let read = timeout(LIMIT, out.read_line(&mut line));
        read.await.context("it does not listen")??;
        let said: Value = serde_json::from_str(&line)?;
        let address = said["listening"].as_str().context(line)?.parse()?;
        Ok(Self { address, child })
    }

    async fn get(&self, path: &str) -> Result<Answer> {
        request(
            self.address,
            &format!("GET {path}"),
            "Host: localhost\r\n",
            "",
        )
        .await
    }

    /// Posts, with these headers.
    async fn post(&self, path: &str, headers: &str) -> Result<Answer> {
        let headers = format!("Host: localhost\r\n{headers}");
        request(self.address, &format!("POST {path}"), &headers, "").await
    }

    async fn events(&self, question: &str) -> Result<Events> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!("GET /events{question} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        Ok(Events(BufReader::new(stream)))
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().context("it has ended")?;
        Ok(kill_process(
            Pid::from_raw(id.cast_signed()).context("no process")?,
            signal,
        )?)
    }
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("{self:?}"))
    }
}

/// Asks `METHOD PATH` with these headers and this body, and reads to the end.
pub(crate) async fn request(
    address: SocketAddr,
    what: &str,
    headers: &str,
    body: &str,
) -> Result<Answer> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let length = body.len();
        let head = format!(
            "{what} HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).await?;
        let mut answer = Vec::new();
        // Not everybody ends the connection when asked to.
        while stream.read_buf(&mut answer).await? > 0 && !is_whole(&answer) {}
        Ok::<_, anyhow::Error>(String::from_utf8(answer)?)
    };
    let answer = timeout(LIMIT, asking).await.context("no answer")??;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .with_context(|| answer.clone())?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Answer {
        status: status.context("no status")?.parse()?,
        headers: headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}

/// Whether as much has come of an answer as its head has promised.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let head_length = head.len() + 4;
    let head = head.to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= head_length + length)
}

/// What a page follows.
struct Events(BufReader<TcpStream>);

impl Events {
    /// The text of the next line that has data; `None`: there is no more.
    async fn text(&mut self) -> Result<Option<String>> {
        loop {
            let mut line = String::new();
            let read = timeout(LIMIT, self.0.read_line(&mut line));
            if read.await.context("no event")?? == 0 {
                return Ok(None);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Ok(Some(data.to_owned()));
            }
        }
    }

    /// The next of them that is like that.
    async fn wait_for(&mut self, what: &str, so: impl Fn(&Value) -> bool) -> Result<Value> {
        let begun = Instant::now();
        loop {
            let text = self.text().await?.context("the events have ended")?;
            let event: Value = serde_json::from_str(&text)?;
            if so(&event) {
                return Ok(event);
            }
            ensure!(begun.elapsed() < LIMIT, "not so in time: {what}: {event}");
        }
    }
}

/// Bytes as they stand in an address.
fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn names(sample: &Value) -> BTreeSet<&str> {
    let locks = sample["locks"].as_array().into_iter().flatten();
    locks.filter_map(|lock| lock["name"].as_str()).collect()
}

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
        bad.status == 400 && bad.body.contains("stray brace"),
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
    // Nor is anything revoked so.
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

/// The lines of a text in the format 0.0.4, by name and labels. Fails where that format is not kept.
fn metrics_of(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut types = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let mut values = BTreeMap::new();
    ensure!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').context("a HELP without words")?;
            ensure!(helped.insert(name) && words.ends_with('.'), "{line}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').context("a TYPE without one")?;
            ensure!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            ensure!(
                helped.contains(name) && types.insert(name, kind).is_none(),
                "{line}"
            );
            continue;
        }
        let (series, value) = line.rsplit_once(' ').context("a line without a value")?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').context("an open brace")?),
            None => (series, ""),
        };
        ensure!(
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
            "{line}"
        );
        if !labels.is_empty() {
            let (label, value) = labels.split_once('=').context("a label without a value")?;
            let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let plain = value.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_lowercase()));
            ensure!(label == "kind" && plain, "{line}");
        }
        let family = name
            .strip_suffix("_sum")
            .or_else(|| name.strip_suffix("_count"));
        let family = family
            .filter(|it| types.get(it) == Some(&"summary"))
            .unwrap_or(name);
        let kind = types
            .get(family)
            .with_context(|| format!("no TYPE before {line}"))?;
        ensure!((*kind == "counter") == name.ends_with("_total"), "{line}");
        ensure!(
            values.insert(series.to_owned(), value.parse()?).is_none(),
            "twice: {line}"
        );
    }
    ensure!(types.len() == helped.len());
    Ok(values)
}

#[tokio::test]
async fn the_metrics_count_what_is_held_and_are_as_many_with_many_names() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let serving = Serving::start(&server, &[]).await?;
    let answer = serving.get("/metrics").await?;
    ensure!(answer.header("content-type") == "text/plain; version=0.0.4; charset=utf-8");
    let before = metrics_of(&answer.body)?;
    ensure!(
        before["lockkeeper_up"] == 1.0 && before["lockkeeper_listed"] == 1.0,
        "{before:?}"
    );
    ensure!(before["lockkeeper_names{kind=\"mutex\"}"] == 0.0);

    let mut held = Vec::new();
    for number in 0..40 {
        held.push(
            Mutex::new(&client, &format!("job:{number}"))
                .acquire()
                .await?,
        );
    }
    let lock = FairLock::new(&client, "printer");
    let _guard = lock.acquire().await?;
    let waiting = [client.new_owner(), client.new_owner()]
        .map(|owner| tokio::spawn(lock.acquire().owner(&owner).into_future()));
    server.command(&["SET", "lockkeeper:theirs", "x"]).await?;
    until("all are counted", async || {
        let after = metrics_of(&serving.get("/metrics").await?.body)?;
        ensure!(after.keys().eq(before.keys()), "other lines: {after:?}");
        let all = [
            ("lockkeeper_names{kind=\"mutex\"}", 41.0),
            ("lockkeeper_names{kind=\"fair\"}", 1.0),
            ("lockkeeper_holders{kind=\"fair\"}", 1.0),
            ("lockkeeper_waiters{kind=\"fair\"}", 2.0),
            ("lockkeeper_waiters_most{kind=\"fair\"}", 2.0),
            ("lockkeeper_holders_revoked{kind=\"mutex\"}", 0.0),
        ];
        let longest = after["lockkeeper_held_longest_seconds{kind=\"fair\"}"];
        let counted = after["lockkeeper_grants_seen_total"] >= 41.0;
        Ok(counted && longest > 0.0 && all.iter().all(|(name, value)| after[*name] == *value))
    })
    .await?;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    drop(held);
    Ok(())
}

#[tokio::test]
async fn an_outage_is_told_and_outlived() -> Result<()> {
    let mut server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&client, "nightly").acquire().await?;
    let serving = Serving::start(&server, &[]).await?;
    let mut events = serving.events("").await?;
    let calm = events.wait_for("the lock", |it| it["names"] == 1).await?;
    ensure!(calm["unreachable"].is_null(), "{calm}");
    server.kill()?;
    events
        .wait_for("the outage", |it| it["unreachable"].is_string())
        .await?;
    let metrics = metrics_of(&serving.get("/metrics").await?.body)?;
    ensure!(
        metrics["lockkeeper_up"] == 0.0 && !metrics.contains_key("lockkeeper_listed"),
        "{metrics:?}"
    );
    ensure!(serving.get("/api/locks/nightly").await?.status == 502);
    server.restart().await?;
    events
        .wait_for("its end", |it| {
            it["unreachable"].is_null() && it["names"] == 0
        })
        .await?;
    ensure!(metrics_of(&serving.get("/metrics").await?.body)?["lockkeeper_up"] == 1.0);
    drop(guard);
    Ok(())
}

#[tokio::test]
async fn the_server_is_asked_once_for_all_and_not_at_all_while_nobody_looks_on() -> Result<()> {
    let server = Server::start().await?;
    let serving = Serving::start(&server, &[]).await?;
    // One page of names, to see at the start whether that is allowed.
    ensure!(server.commandstats("scan").await? == 1);
    let mut pages = Vec::new();
    for _ in 0..5 {
        pages.push(serving.events("").await?);
    }
    for events in &mut pages {
        events.text().await?;
    }
    let (before, begun) = (server.commandstats("scan").await?, Instant::now());
    for _ in 0..3 {
        for events in &mut pages {
            events.text().await?;
        }
    }
    // One page of names for each sample of a second, however many are sent it.
    let asked = server.commandstats("scan").await? - before;
    let seconds = begun.elapsed().as_secs() + 2;
    ensure!(asked >= 2 && asked <= seconds, "{asked} in {seconds} s");
    drop(pages);
    let mut last = (server.commandstats("scan").await?, Instant::now());
    until("it rests", async || {
        let now = server.commandstats("scan").await?;
        if now != last.0 {
            last = (now, Instant::now());
        }
        Ok(last.1.elapsed().as_secs() >= 3)
    })
    .await
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
        (&["--listen", "localhost"][..], "as in 127.0.0.1:9090"),
        (&["--listen", "9090"], "as in 127.0.0.1:9090"),
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
        (&["--host", "https://locks"], "without scheme and port"),
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
    ensure!(warning.contains("not on this machine alone"), "{warning}");
    Ok(())
}
