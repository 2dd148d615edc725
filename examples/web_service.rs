//! A web service with a lock in a handler: 200 for who gets it, 409 with `Retry-After` for who comes while it is held, 503 while
//! the lock server is out of reach.
//!
//! Read this when you write handlers. The web server is a few lines of tokio, so that nothing hides; with axum the handler takes
//! `State<Client>` and `Path<u32>` and is the same. `cargo run --example web_service` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper::{Client, Error, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// `POST /orders/{order}/pay`. If the visitor goes away the future is dropped, and the lock with it.
async fn pay(client: &Client, order: u32) -> (u16, &'static str) {
    match try_pay(client, order).await {
        Ok(Some(())) => (200, "paid"),
        Ok(None) => (409, "this order is being paid"),
        Err(Error::Lost { .. }) => (500, "stopped: look at the order before you repeat it"),
        Err(error) if error.is_transient() => (503, "try again"),
        Err(_) => (500, "something is wrong with the settings"),
    }
}

async fn try_pay(client: &Client, order: u32) -> lockkeeper::Result<Option<()>> {
    let lock = Mutex::new(client, &format!("order:{order}"));
    // A visitor waits for a moment, not for a lease.
    let guard = match lock.acquire().wait_for(Duration::from_millis(250)).await {
        Ok(guard) => guard,
        Err(Error::Timeout { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let token = guard.fencing_token().get();
    guard.run(charge(order, token)).await?;
    guard.release().await?;
    Ok(Some(()))
}

/// The bank: slow, and told the token.
async fn charge(_order: u32, _token: u64) {
    sleep(Duration::from_secs(1)).await;
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("web_service").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    // One client for the whole service; clones are the same client.
    tokio::spawn(serve(listener, place.client.clone()));

    let story = Story::new();
    story.chapter("Two requests for one order, and one for another");
    let (first, second, other) = tokio::try_join!(
        post(&address, "/orders/7/pay"),
        post(&address, "/orders/7/pay"),
        post(&address, "/orders/8/pay"),
    )?;
    for (path, answer) in [("7", &first), ("7", &second), ("8", &other)] {
        story.tell(&format!("order {path}"), answer);
    }
    let mut both = [&first[..3], &second[..3]];
    both.sort_unstable();
    ensure!(both == ["200", "409"] && other.starts_with("200"));
    place.close().await
}

async fn serve(listener: TcpListener, client: Client) -> anyhow::Result<()> {
    loop {
        let (visitor, _) = listener.accept().await?;
        tokio::spawn(answer(visitor, client.clone()));
    }
}

async fn answer(visitor: TcpStream, client: Client) -> anyhow::Result<()> {
    let (reader, mut writer) = visitor.into_split();
    let mut lines = BufReader::new(reader).lines();
    let line = lines.next_line().await?;
    while lines
        .next_line()
        .await?
        .is_some_and(|header| !header.is_empty())
    {}
    let order = line.as_deref().and_then(|line| {
        let path = line.strip_prefix("POST /orders/")?;
        path.split_once("/pay")?.0.parse().ok()
    });
    let (status, text) = match order {
        Some(order) => pay(&client, order).await,
        None => (404, "no such page"),
    };
    let retry = if status == 409 {
        "Retry-After: 1\r\n"
    } else {
        ""
    };
    let length = text.len();
    let head = format!("HTTP/1.1 {status} -\r\n{retry}Content-Length: {length}\r\n\r\n");
    writer.write_all(format!("{head}{text}").as_bytes()).await?;
    Ok(())
}

/// What a visitor gets: status and text.
async fn post(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("POST {path} HTTP/1.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, text) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok(format!("{status} {text}"))
}
