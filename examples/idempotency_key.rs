//! A payment whose request may arrive twice: the visitor's `Idempotency-Key` is the name, and the body is the fingerprint. The
//! second request gets the first one's answer, even if it arrives while the first one is still running. The same key with another
//! body is refused.
//!
//! Read this when you write handlers for requests that are repeated. `cargo example idempotency_key` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lockkeeper::{Client, Error, Once, OnceError, OnceOutcome};
use lockkeeper_examples::{Place, Story};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// What the handlers share.
#[derive(Clone)]
struct Service {
    client: Client,
    /// How often the bank was asked for money.
    charges: Arc<AtomicU32>,
}

/// `POST /payments`. If the visitor disconnects, the future is dropped: a charge under way is abandoned, and the visitor's next
/// request starts again. A service that must not stop halfway spawns the work.
async fn pay(
    State(service): State<Service>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key.filter(|key| !key.is_empty() && key.len() <= 100) else {
        return (
            StatusCode::BAD_REQUEST,
            "an Idempotency-Key, please".to_owned(),
        );
    };
    // In hex, because a name may not contain every character that a visitor can send.
    let key: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let payment = Once::new(&service.client, &format!("payment:{key}"))
        .fingerprint(&body)
        .keep_for(Duration::from_secs(24 * 60 * 60))
        .wait_for(Duration::from_secs(60));
    let charged = payment.get_or_run(async |_| {
        // The bank gets the key too: it charges once even if this process dies before it can store the result.
        service.charge(&body, &key).await
    });
    match charged.await {
        Ok(outcome) => {
            let repeated = if matches!(outcome, OnceOutcome::Stored(_)) {
                ", as told before"
            } else {
                ""
            };
            let receipt = String::from_utf8_lossy(&outcome.into_value()).into_owned();
            (StatusCode::OK, receipt + repeated)
        }
        Err(OnceError::NotKept { value, .. }) => {
            (StatusCode::OK, String::from_utf8_lossy(&value).into_owned())
        }
        Err(OnceError::Work(error)) => (StatusCode::BAD_GATEWAY, error.to_string()),
        Err(OnceError::Lock(Error::Mismatch { .. })) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "this key was used for another payment".to_owned(),
        ),
        Err(OnceError::Lock(Error::Timeout { .. })) => (
            StatusCode::CONFLICT,
            "this payment is being worked on".to_owned(),
        ),
        Err(OnceError::Lock(error)) if error.is_transient() => {
            (StatusCode::SERVICE_UNAVAILABLE, "try again".to_owned())
        }
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "look at the payment before you repeat it".to_owned(),
        ),
    }
}

impl Service {
    /// The bank: slow, and it gets the key.
    async fn charge(&self, body: &[u8], _key: &str) -> io::Result<Vec<u8>> {
        sleep(Duration::from_millis(100)).await;
        let receipt = self.charges.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(format!("receipt {receipt} for {}", String::from_utf8_lossy(body)).into_bytes())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("idempotency_key").await?;
    let service = Service {
        client: place.client.clone(),
        charges: Arc::default(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let router = Router::new()
        .route("/payments", post(pay))
        .with_state(service.clone());
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    // A key for this run; a visitor makes one for each payment.
    let key = place.client.new_owner().to_string();
    let story = Story::new();

    story.chapter("The button is pressed twice");
    let (first, second) = tokio::try_join!(
        request(&address, &key, "10 EUR"),
        request(&address, &key, "10 EUR"),
    )?;
    story.tell("press 1", &first);
    story.tell("press 2", &second);
    ensure!(
        first.starts_with("200 receipt 1 for 10 EUR")
            && second.starts_with("200 receipt 1 for 10 EUR")
    );

    story.chapter("The answer got lost, and the visitor asks again a little later");
    let third = request(&address, &key, "10 EUR").await?;
    story.tell("again", &third);
    ensure!(third == "200 receipt 1 for 10 EUR, as told before");
    ensure!(service.charges.load(Ordering::SeqCst) == 1, "charged twice");

    story.chapter("The same key with another amount, and a request without a key");
    let other = request(&address, &key, "20 EUR").await?;
    story.tell("20 EUR", &other);
    let none = request(&address, "", "10 EUR").await?;
    story.tell("no key", &none);
    ensure!(other.starts_with("422") && none.starts_with("400"));

    server.abort();
    place.close().await
}

/// Sends a request as a visitor does; returns the status and the body.
async fn request(address: &str, key: &str, body: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!(
        "POST /payments HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: {key}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok(format!("{status} {body}"))
}
