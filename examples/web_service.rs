//! A web service with a lock in a handler, one for each order: 200 for the request that gets the lock, 409 with `Retry-After` for
//! one that comes while it is held, 503 while the lock server is out of reach. On shutdown, requests under way are answered first.
//!
//! Read this when you write handlers. `cargo run --example web_service` needs no server; add `-- --url redis://127.0.0.1:6379` for
//! one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lockkeeper::memory::MemoryStore;
use lockkeeper::{Client, Error, FencingToken, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// A visitor waits for a moment, not for a whole lease.
const PATIENCE: Duration = Duration::from_millis(250);

/// What the handlers share: one client for the whole service. Clones of it are the same client.
#[derive(Clone)]
struct Shop {
    client: Client,
    charged: Arc<AtomicU32>,
}

fn routes(client: Client) -> (Router, Shop) {
    let charged = Arc::default();
    let shop = Shop { client, charged };
    let routes = Router::new().route("/orders/{order}/pay", post(pay));
    (routes.with_state(shop.clone()), shop)
}

/// `POST /orders/{order}/pay`. If the visitor disconnects, the future is dropped, and the lock with it.
async fn pay(State(shop): State<Shop>, Path(order): Path<u32>) -> Result<&'static str, Failure> {
    let lock = Mutex::new(&shop.client, &format!("order:{order}"));
    let guard = lock.acquire().wait_for(PATIENCE).await?;
    guard.run(shop.charge(order, guard.fencing_token())).await?;
    // The order is paid, whatever the result of the release: "try again" would be the wrong answer now. An unconfirmed release is
    // repeated in the background, and the lease expires by itself.
    if let Err(error) = guard.release().await {
        eprintln!("order {order} is paid; {error}");
    }
    Ok("paid")
}

impl Shop {
    /// The bank: slow, and it gets the token.
    async fn charge(&self, _order: u32, _token: FencingToken) {
        sleep(Duration::from_secs(1)).await;
        self.charged.fetch_add(1, Ordering::Relaxed);
    }
}

/// An error of a lock, as a visitor sees it.
struct Failure(Error);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let again = [(RETRY_AFTER, "1")];
        match self.0 {
            Error::Timeout { .. } => {
                (StatusCode::CONFLICT, again, "this order is being paid").into_response()
            }
            Error::Lost { .. } => {
                let text = "stopped: look at the order before you repeat it";
                (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
            }
            error if error.is_transient() => {
                (StatusCode::SERVICE_UNAVAILABLE, again, "try again").into_response()
            }
            error => {
                // The details are not for visitors.
                eprintln!("{error}");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("web_service").await?;
    let (routes, shop) = routes(place.client.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    // In a service: tokio::signal::ctrl_c(), or SIGTERM.
    let stopped = async move { drop(stopped.await) };
    let service = async {
        axum::serve(listener, routes)
            .with_graceful_shutdown(stopped)
            .await
    };
    let service = tokio::spawn(service);

    let story = Story::new();
    story.chapter("Two requests for one order, and one for another");
    let (first, second, other) = tokio::try_join!(
        request(&address, "/orders/7/pay"),
        request(&address, "/orders/7/pay"),
        request(&address, "/orders/8/pay"),
    )?;
    for (order, answer) in [("7", &first), ("7", &second), ("8", &other)] {
        story.tell(&format!("order {order}"), answer.first_line());
    }
    let (paid, refused) = match first.status {
        200 => (first, second),
        _ => (second, first),
    };
    ensure!((paid.status, other.status) == (200, 200));
    ensure!(refused.status == 409 && refused.head.contains("retry-after: 1"));

    story.chapter("The service is asked to end while it works");
    let last = tokio::spawn({
        let address = address.clone();
        async move { request(&address, "/orders/9/pay").await }
    });
    while place.client.inspect("order:9").await?.holders.is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    drop(stop);
    let last = last.await??;
    story.tell("order 9", last.first_line());
    ensure!(last.status == 200);
    service.await??;
    ensure!(
        request(&address, "/orders/10/pay").await.is_err(),
        "it has not ended"
    );
    ensure!(
        shop.charged.load(Ordering::Relaxed) == 3,
        "an order was paid twice"
    );

    story.chapter("The lock server is out of reach");
    let store = MemoryStore::new();
    let outage = store.faults();
    let client = Client::builder().build(Arc::new(store))?;
    outage.disconnect();
    let (_, shop) = self::routes(client);
    let failure = pay(State(shop), Path(11))
        .await
        .err()
        .context("it was paid")?;
    let answer = failure.into_response();
    story.tell("order 11", answer.status().as_str());
    ensure!(answer.status() == StatusCode::SERVICE_UNAVAILABLE);
    place.close().await
}

/// What a visitor gets.
struct Answer {
    status: u16,
    head: String,
    text: String,
}

impl Answer {
    fn first_line(&self) -> String {
        format!("{} {}", self.status, self.text)
    }
}

async fn request(address: &str, path: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, text) = answer.split_once("\r\n\r\n").context("no answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok(Answer {
        status,
        head: head.to_ascii_lowercase(),
        text: text.to_owned(),
    })
}
