//! The page in Chromium, driven through WebDriver. Only `cargo xtask prove` runs this, because installing a browser takes a
//! minute.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, LossReason, Mutex};
use lockkeeper_testkit::server::Server;
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::{LIMIT, until};
use crate::visiting::{Serving, TOKEN, request};

/// The key under which WebDriver returns elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A script that reads the lines of the list: name, kind, holder, waiting.
const ROWS: &str = "return [...document.querySelectorAll('#locks tbody tr')].map(
    (line) => [0, 1, 2, 5].map((place) => line.children[place].innerText.trim()))";

/// A browser without a window.
struct Browser {
    driver: SocketAddr,
    session: String,
    child: Child,
}

impl Browser {
    async fn start() -> Result<Self> {
        let mut command = Command::new("chromedriver");
        // It gets its own process group, to which the browser will belong.
        command.arg("--port=0").process_group(0);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.context("install chromium and chromium-driver to run this")?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let port = loop {
            let line = timeout(LIMIT, lines.next_line()).await??;
            let line = line.context("chromedriver has ended")?;
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').parse()?;
            }
        };
        let mut browser = Self {
            driver: SocketAddr::from(([127, 0, 0, 1], port)),
            session: String::new(),
            child,
        };
        let mut arguments = vec!["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"];
        // Chromium's sandbox does not work for root.
        if geteuid().is_root() {
            arguments.push("--no-sandbox");
        }
        let wanted = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let session = json!({ "capabilities": { "alwaysMatch": wanted } });
        let session = browser.call("POST", "/session", &session).await?;
        let id = session["sessionId"].as_str().context("no session")?;
        browser.session = format!("/session/{id}");
        Ok(browser)
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let what = format!("{method} {}{path}", self.session);
        let headers = format!(
            "Host: {}\r\nContent-Type: application/json\r\n",
            self.driver
        );
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let answer = request(self.driver, &what, &headers, &body).await?;
        ensure!(answer.status == 200, "{what}: {}", answer.body);
        Ok(answer.json()?["value"].take())
    }

    async fn opens(&self, url: &str) -> Result<()> {
        self.call("POST", "/url", &json!({ "url": url }))
            .await
            .map(drop)
    }

    /// Runs a script in the page, and returns what the script returns.
    async fn runs(&self, script: &str) -> Result<Value> {
        let call = json!({ "script": script, "args": [] });
        self.call("POST", "/execute/sync", &call).await
    }

    /// Finds an element, and returns the path for requests about it.
    async fn element(&self, selector: &str) -> Result<String> {
        let call = json!({ "using": "css selector", "value": selector });
        let found = self.call("POST", "/element", &call).await?;
        Ok(format!(
            "/element/{}",
            found[ELEMENT].as_str().context("no element")?
        ))
    }

    async fn clicks(&self, selector: &str) -> Result<()> {
        let element = self.element(selector).await?;
        self.call("POST", &format!("{element}/click"), &json!({}))
            .await
            .map(drop)
    }

    async fn types(&self, selector: &str, text: &str) -> Result<()> {
        let element = self.element(selector).await?;
        let call = json!({ "text": text });
        self.call("POST", &format!("{element}/value"), &call)
            .await
            .map(drop)
    }

    /// Waits until the list has exactly these lines.
    async fn lists(&self, expected: Value) -> Result<()> {
        let mut seen = Value::Null;
        let listed = until("the list", async || {
            seen = self.runs(ROWS).await?;
            Ok(seen == expected)
        });
        listed
            .await
            .with_context(|| format!("{seen} is not {expected}"))
    }

    /// Waits until the element with this id shows this text.
    async fn shows(&self, id: &str, text: &str) -> Result<()> {
        let script = format!("return document.getElementById('{id}').innerText");
        let shown = async || {
            Ok(self
                .runs(&script)
                .await?
                .as_str()
                .is_some_and(|it| it.contains(text)))
        };
        until(&format!("{id} shows {text}"), shown).await
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = self
            .child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            eprintln!("the browser is still there: {error}");
        }
    }
}

#[tokio::test]
#[ignore = "long: needs a browser, which takes a minute to install"]
async fn the_page_follows_what_is_held_and_shows_foreign_text_as_text() -> Result<()> {
    let browser = Browser::start().await?;
    let mut server = Server::start().await?;
    let serving = Serving::start(&server, &["--allow-revoke"]).await?;
    browser
        .opens(&format!("http://{}/", serving.address))
        .await?;
    browser.shows("status", "live").await?;
    browser.shows("none", "Nothing is held").await?;
    // A reload of the page would lose this mark.
    browser.runs("window.mark = 1").await?;

    let settings = Client::builder().label("db7:99 <img src=x onerror=hit=1>");
    let client = lockkeeper::connect_with(&server.url(), settings).await?;
    let holder = "db7:99 <img src=x onerror=hit=1>";
    let lock = FairLock::new(&client, "printer");
    let guard = lock.acquire().await?;
    browser
        .lists(json!([["printer", "fair", holder, ""]]))
        .await?;

    let owners = [client.new_owner(), client.new_owner()];
    let waiting = owners
        .each_ref()
        .map(|it| tokio::spawn(lock.acquire().owner(it).into_future()));
    browser
        .lists(json!([["printer", "fair", holder, "2"]]))
        .await?;
    waiting[1].abort();
    browser
        .lists(json!([["printer", "fair", holder, "1"]]))
        .await?;

    let script = "<script>hit=1</script>";
    let hostile = Mutex::new(&client, script).acquire().await?;
    let turned = Mutex::new(&client, "\u{202e}gpj\u{1b}[2J")
        .acquire()
        .await?;
    browser
        .lists(json!([
            ["printer", "fair", holder, "1"],
            [script, "mutex", holder, ""],
            ["\\u{202e}gpj\\u{1b}[2J", "mutex", holder, ""],
        ]))
        .await?;
    let foreign = "return [document.scripts.length, document.images.length, typeof hit]";
    ensure!(browser.runs(foreign).await? == json!([1, 0, "undefined"]));

    browser
        .clicks("#locks tbody tr:nth-child(1) button")
        .await?;
    browser.shows("queue", &owners[0].to_string()).await?;
    browser
        .clicks("#locks tbody tr:nth-child(2) button")
        .await?;
    browser.shows("name", script).await?;
    browser
        .types("#token", "a wrong one of some length")
        .await?;
    browser.clicks("#revoke button").await?;
    browser
        .shows("revoked", "Authorization: Bearer TOKEN")
        .await?;
    browser
        .runs("document.getElementById('token').value = ''")
        .await?;
    browser.types("#token", TOKEN).await?;
    browser.clicks("#revoke button").await?;
    browser.shows("revoked", "told 1").await?;
    ensure!(timeout(LIMIT, hostile.lost()).await?.reason == LossReason::Revoked);
    drop(hostile);
    browser.shows("facts", "nobody holds it").await?;
    let left = [
        ["printer", "fair", holder, "1"],
        ["\\u{202e}gpj\\u{1b}[2J", "mutex", holder, ""],
    ];
    browser.lists(json!(left)).await?;
    browser.clicks("#close").await?;

    browser.types("#filter", "PRINT").await?;
    browser
        .lists(json!([["printer", "fair", holder, "1"]]))
        .await?;
    drop(guard);
    browser
        .lists(json!([["printer", "fair", holder, ""]]))
        .await?;

    server.kill()?;
    browser.shows("trouble", "does not answer").await?;
    server.restart().await?;
    browser.shows("status", "live").await?;
    browser.lists(json!([])).await?;

    ensure!(
        browser.runs("return window.mark").await? == 1,
        "it was loaded again"
    );
    // The browser logs here what the page's policy has blocked. The refused revoke is the only failure.
    let log = browser
        .call("POST", "/se/log", &json!({ "type": "browser" }))
        .await?;
    let told: Vec<&str> = log
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["message"].as_str())
        .collect();
    ensure!(told.len() == 1 && told[0].contains("401"), "{told:?}");
    waiting[0].abort();
    drop(turned);
    Ok(())
}

#[tokio::test]
#[ignore = "long: needs a browser, which takes a minute to install"]
async fn a_page_makes_room_for_newer_ones_and_says_so() -> Result<()> {
    let browser = Browser::start().await?;
    let server = Server::start().await?;
    let serving = Serving::start(&server, &[]).await?;
    browser
        .opens(&format!("http://{}/", serving.address))
        .await?;
    browser.shows("status", "live").await?;
    let mut pages = Vec::new();
    let trouble = "return document.getElementById('trouble').innerText";
    until("it says so", async || {
        pages.push(serving.events("").await?);
        let said = browser.runs(trouble).await?;
        let said = said.as_str().unwrap_or_default();
        Ok(said.contains("makes room for newer ones, because more than 64 pages are open"))
    })
    .await?;
    browser.shows("status", "not connected").await
}
