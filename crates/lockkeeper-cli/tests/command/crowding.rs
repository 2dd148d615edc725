//! `serve` with more visitors than it has room for, some of whom mean no good: whoever comes and asks is answered.

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{select_all, try_join_all};
use lockkeeper::Mutex;
use lockkeeper_testkit::server::Server;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{LIMIT, THIS};
use crate::visiting::{Serving, request};

#[tokio::test]
async fn requests_that_never_arrive_keep_nobody_out() -> Result<()> {
    let server = Server::start().await?;
    // With fewer files than there are visitors, whoever keeps all of them would be in the way of all others.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 256; exec \"$@\"", "sh", THIS]);
    let serving = Serving::start_by(command, &server, &[]).await?;
    let mut visitors = Vec::new();
    for visitor in 0..300 {
        let mut stream = TcpStream::connect(serving.address).await?;
        // Every other sends a part of a request.
        if visitor % 2 == 0 {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHo").await?;
        }
        visitors.push(stream);
    }
    for path in ["/metrics", "/", "/api/locks"] {
        let answer = serving.get(path).await?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
    }
    // Those who came first have gone.
    let mut read = Vec::new();
    let ended = timeout(LIMIT, visitors[0].read_to_end(&mut read)).await;
    // The error is ignored: what was sent may not have been read.
    drop(ended.context("it is still there")?);
    ensure!(read.is_empty(), "{read:?}");
    Ok(())
}

#[tokio::test]
async fn a_page_that_comes_takes_the_place_of_one_that_is_there() -> Result<()> {
    const PLACES: usize = 64;
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = Mutex::new(&client, "nightly").acquire().await?;
    let serving = Serving::start(&server, &[]).await?;
    let mut pages = Vec::new();
    for _ in 0..PLACES {
        let mut events = serving.events("").await?;
        events.text().await?.context("it is not shown anything")?;
        // From now on, nobody reads this.
        pages.push(events);
    }
    let mut another = serving.events("").await?;
    another.wait_for("the lock", |it| it["names"] == 1).await?;
    // One of the others is told why it goes.
    let ends = pages.into_iter().map(|mut events| {
        Box::pin(async move {
            let mut last = String::new();
            while let Some(text) = events.text().await? {
                last = text;
            }
            anyhow::Ok(last)
        })
    });
    let (last, ..) = select_all(ends).await;
    ensure!(last?.trim_end() == "more than 64 pages are open");
    // Scrapes have room beside the pages.
    ensure!(serving.get("/metrics").await?.status == 200);
    Ok(())
}

#[tokio::test]
async fn other_web_pages_are_not_answered_and_links_from_there_are() -> Result<()> {
    let server = Server::start().await?;
    let serving = Serving::start(&server, &["--allow-revoke"]).await?;
    let ask = async |what: &str, headers: &str| {
        let headers = format!("Host: localhost:9090\r\n{headers}");
        request(serving.address, what, &headers, "").await
    };
    let ask = &ask;
    const FOREIGN: [&str; 4] = [
        "Origin: https://example.org\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost:3000\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n",
    ];
    let routes = ["/", "/events", "/metrics", "/api/locks", "/api/locks/name"];
    let asked = FOREIGN.iter().flat_map(|headers| {
        let gets = routes.map(|path| format!("GET {path}"));
        let all = gets
            .into_iter()
            .chain(["POST /api/locks/name/revoke".to_owned()]);
        all.map(move |what| async move {
            let answer = ask(&what, headers).await?;
            ensure!(
                answer.status == 403 && answer.body.starts_with("another web page"),
                "{what}: {headers}: {answer:?}"
            );
            Ok(())
        })
    });
    try_join_all(asked).await?;
    for own in [
        "Origin: http://localhost:9090\r\n",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
    ] {
        for path in ["/", "/metrics", "/api/locks"] {
            let answer = ask(&format!("GET {path}"), own).await?;
            ensure!(answer.status == 200, "{path}: {own}: {answer:?}");
        }
    }
    Ok(())
}
