//! A tower layer that serialises requests by key, across all machines: requests with the same key are served one after the other,
//! requests with different keys at the same time. The key is a function of the request.
//!
//! Read this when not a single handler, but everything that touches a customer, an account or a document must be serialised.
//! `SerializeBy` wraps any service: here the routes of axum, but also a client of a database or of another service.
//! `cargo example tower_layer` needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::collections::BTreeMap;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::ensure;
use axum::Router;
use axum::body::Body;
use axum::error_handling::HandleErrorLayer;
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use lockkeeper::{Client, Error, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::sleep;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt as _};

/// Serves the requests with the same key one after the other.
#[derive(Clone)]
struct SerializeBy<K> {
    client: Client,
    /// How long a request waits for its turn.
    patience: Duration,
    /// Computes the name of the lock that a request needs; `None` for requests that need none.
    key: K,
}

impl<S, K: Clone> Layer<S> for SerializeBy<K> {
    type Service = Serialized<S, K>;

    fn layer(&self, inner: S) -> Self::Service {
        let layer = self.clone();
        Serialized { inner, layer }
    }
}

/// A service behind [`SerializeBy`].
#[derive(Clone)]
struct Serialized<S, K> {
    inner: S,
    layer: SerializeBy<K>,
}

impl<S, K, R> Service<R> for Serialized<S, K>
where
    S: Service<R, Error: Into<BoxError>, Response: Send, Future: Send> + Clone + Send + 'static,
    K: Fn(&R) -> Option<String>,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        // This instance is ready, so the future takes it; a clone need not be ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let name = (self.layer.key)(&request);
        let lock = name.map(|name| Mutex::new(&self.layer.client, &name));
        let patience = self.layer.patience;
        Box::pin(async move {
            let Some(lock) = lock else {
                return inner.call(request).await.map_err(Into::into);
            };
            let guard = lock.acquire().wait_for(patience).await?;
            // A lost lease stops the inner service at its next await.
            let response = guard.run(inner.call(request)).await?.map_err(Into::into);
            // The request is served: the result of the release does not change the answer.
            if let Err(error) = guard.release().await {
                eprintln!("{error}");
            }
            response
        })
    }
}

/// One lock for each account, whatever the request does to it: `/accounts/7/…` is `account:7`.
fn by_account<B>(request: &Request<B>) -> Option<String> {
    let path = request.uri().path().strip_prefix("/accounts/")?;
    let account = path.split('/').next()?;
    Some(format!("account:{account}"))
}

/// What a visitor gets if its request had no turn.
async fn explain(error: BoxError) -> (StatusCode, String) {
    let status = match error.downcast_ref() {
        Some(Error::Timeout { .. }) => StatusCode::CONFLICT,
        Some(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, error.to_string())
}

/// How many requests of each account are being served, and the most there were at once.
#[derive(Default)]
struct Bank(StdMutex<BTreeMap<u32, (u32, u32)>>);

impl Bank {
    async fn withdraw(&self, account: u32) {
        self.change(account, |now, most| (now + 1, most.max(now + 1)));
        sleep(Duration::from_millis(50)).await;
        self.change(account, |now, most| (now - 1, most));
    }

    fn change(&self, account: u32, change: impl FnOnce(u32, u32) -> (u32, u32)) {
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = served.entry(account).or_default();
        *entry = change(entry.0, entry.1);
    }

    fn most_of(&self, account: u32) -> u32 {
        let served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        served.get(&account).map_or(0, |(_, most)| *most)
    }
}

fn machine(client: Client, patience: Duration, bank: &Arc<Bank>) -> Router {
    let bank = Arc::clone(bank);
    let withdraw = async move |Path(account): Path<u32>| bank.withdraw(account).await;
    let key = by_account;
    let layers = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(explain))
        .layer(SerializeBy {
            client,
            patience,
            key,
        });
    Router::new()
        .route("/accounts/{account}/withdraw", post(withdraw))
        .layer(layers)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("tower_layer").await?;
    let story = Story::new();
    let bank = Arc::<Bank>::default();

    story.chapter("Twelve requests on two machines, for two accounts");
    let patience = Duration::from_secs(60);
    let machines = [place.client.clone(), place.another().await?];
    let machines = machines.map(|client| machine(client, patience, &bank));
    let mut visitors = tokio::task::JoinSet::new();
    for number in 0..12 {
        let machine = machines[number % 2].clone();
        let account = 7 + number / 2 % 2;
        visitors.spawn(machine.oneshot(withdrawal(account)?));
    }
    while let Some(answer) = visitors.join_next().await {
        ensure!(answer??.status() == StatusCode::OK);
    }
    for account in [7, 8] {
        let most = bank.most_of(account);
        story.tell("bank", format!("account {account}: {most} at a time"));
        ensure!(most == 1, "requests of account {account} met");
    }

    story.chapter("Somebody is at the account for longer than a request waits");
    let clerk = Mutex::new(&place.client, "account:7").acquire().await?;
    let hasty = machine(place.client.clone(), Duration::from_millis(250), &bank);
    let answer = hasty.oneshot(withdrawal(7)?).await?;
    story.tell("account 7", answer.status().as_str());
    ensure!(answer.status() == StatusCode::CONFLICT);
    let answer = machines[0].clone().oneshot(withdrawal(8)?).await?;
    story.tell("account 8", answer.status().as_str());
    ensure!(answer.status() == StatusCode::OK);
    clerk.release().await?;
    place.close().await
}

fn withdrawal(account: usize) -> anyhow::Result<Request<Body>> {
    let request = Request::post(format!("/accounts/{account}/withdraw"));
    Ok(request.body(Body::empty())?)
}
