//! A web service with a lock in a handler, one for each order: 200 for the request that gets the lock, 409 with `Retry-After` for
//! one that comes while it is held, 503 while the lock server is out of reach.
//!
//! Read this when you write handlers, or tests of them: the requests go to the router itself, without a socket.
//! `cargo example web_service` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::ensure;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use lockkeeper::memory::MemoryStore;
use lockkeeper::{Client, Error, FencingToken, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::sleep;
use tower::ServiceExt as _;

/// A visitor waits for a moment, not for a whole lease.
const PATIENCE: Duration = Duration::from_millis(500);

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
        sleep(3 * PATIENCE).await;
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
    // A service goes on with axum::serve(listener, routes).with_graceful_shutdown(signal).await, and closes the client after that.

    let story = Story::new();
    story.chapter("Two requests for one order, and one for another");
    let (first, second, other) = tokio::try_join!(
        pay_order(&routes, 7),
        pay_order(&routes, 7),
        pay_order(&routes, 8),
    )?;
    for (order, answer) in [("7", &first), ("7", &second), ("8", &other)] {
        story.tell(&format!("order {order}"), answer.line());
    }
    let (paid, refused) = match first.status {
        StatusCode::OK => (first, second),
        _ => (second, first),
    };
    ensure!(paid.status == StatusCode::OK && other.status == StatusCode::OK);
    ensure!(refused.status == StatusCode::CONFLICT && refused.again);
    let charged = shop.charged.load(Ordering::Relaxed);
    ensure!(charged == 2, "{charged} charges for two orders");

    story.chapter("The lock server is out of reach");
    let store = MemoryStore::new();
    let outage = store.faults();
    let client = Client::builder().build(Arc::new(store))?;
    outage.disconnect();
    let (routes, shop) = self::routes(client.clone());
    let answer = pay_order(&routes, 11).await?;
    story.tell("order 11", answer.line());
    ensure!(answer.status == StatusCode::SERVICE_UNAVAILABLE && answer.again);
    let charged = shop.charged.load(Ordering::Relaxed);
    ensure!(charged == 0, "charged without a lock");
    client.close().await;
    place.close().await
}

/// What a visitor gets.
struct Answer {
    status: StatusCode,
    /// With `Retry-After`.
    again: bool,
    text: String,
}

impl Answer {
    fn line(&self) -> String {
        format!("{} {}", self.status.as_str(), self.text)
    }
}

/// Sends a request to the router, as a test of a handler does.
async fn pay_order(routes: &Router, order: u32) -> anyhow::Result<Answer> {
    let request = Request::post(format!("/orders/{order}/pay")).body(Body::empty())?;
    let response = routes.clone().oneshot(request).await?;
    Ok(Answer {
        status: response.status(),
        again: response.headers().contains_key(RETRY_AFTER),
        text: String::from_utf8(to_bytes(response.into_body(), 1024).await?.into())?,
    })
}
