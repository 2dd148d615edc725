//! The routes of this server, and which requests it accepts.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::stream;
use lockkeeper::Client;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use super::connections::Stay;
use super::feed::{Feed, Seen, Sight, Viewer};
use super::host::Hosts;
use super::metrics;
use super::token::Token;
use super::view::{Question, View};
use super::viewers;
use crate::exit::{self, Failure};
use crate::live::Sample;
use crate::look;
use crate::out::{harmless, shown};

/// The page. Its placeholders are replaced by the nonce that allows its script and its style, and by whether it may revoke.
const PAGE: &str = include_str!("page.html");

/// The placeholder of the nonce.
const NONCE: &str = "{{nonce}}";

/// How many requests about single locks may be under way at once, for all viewers together.
const QUESTIONS: usize = 4;

/// How long a single request waits for a sample, or for the questions before it: less than the 10 s that Prometheus waits by default.
const PATIENCE: Duration = Duration::from_secs(8);

/// How often an idle connection gets a keep-alive. Proxies cut a connection that is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long a page waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);

/// What all handlers need.
pub(super) struct Served {
    pub(super) client: Client,
    pub(super) feed: Arc<Feed>,
    pub(super) hosts: Hosts,
    /// `None`: revoking is disabled.
    pub(super) token: Option<Token>,
    questions: Semaphore,
    /// Whether the server is shutting down.
    pub(super) over: watch::Receiver<bool>,
}

impl Served {
    pub(super) fn new(
        client: Client,
        feed: Arc<Feed>,
        hosts: Hosts,
        token: Option<Token>,
        over: watch::Receiver<bool>,
    ) -> Self {
        Self {
            client,
            feed,
            hosts,
            token,
            questions: Semaphore::new(QUESTIONS),
            over,
        }
    }

    /// All routes.
    pub(super) fn routes(self) -> Router {
        let served = Arc::new(self);
        Router::new()
            .route("/", get(page))
            .route("/events", get(events))
            .route("/metrics", get(metrics))
            .route("/api/locks", get(locks))
            .route("/api/locks/{name}", get(lock))
            .route("/api/locks/{name}/revoke", post(revoke))
            .fallback(nowhere)
            .method_not_allowed_fallback(not_so)
            .layer(middleware::from_fn_with_state(Arc::clone(&served), guard))
            .with_state(served)
    }
}

type Known = State<Arc<Served>>;

/// A plain-text answer.
fn words(status: StatusCode, text: &str) -> Response {
    (status, format!("{}\n", shown(text))).into_response()
}

fn in_json(text: String) -> Response {
    let text = harmless(&text);
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

/// Why the locks' server did not do what a request asked for.
struct Refusal(Failure);

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0.code {
            exit::USAGE => StatusCode::BAD_REQUEST,
            exit::UNAVAILABLE => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        words(status, self.0.message())
    }
}

/// Admits requests that address this server by one of its own names, unless another web page sent them. Adds headers to each answer that keep browsers from using the
/// answer for anything else.
async fn guard(State(served): Known, request: Request, next: Next) -> Response {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let mut response = match (hosts.next(), hosts.next()) {
        (Some(host), None) if host.to_str().is_ok_and(|host| served.hosts.know(host)) => {
            match served.hosts.is_foreign(&request) {
                true => words(
                    StatusCode::FORBIDDEN,
                    "another web page asks, which this server does not answer",
                ),
                false => next.run(request).await,
            }
        }
        (Some(host), None) => {
            let host = String::from_utf8_lossy(host.as_bytes());
            let text = format!(
                "this server does not accept the name {:?}: to allow a name, start the server with --host NAME",
                shown(&host)
            );
            words(StatusCode::FORBIDDEN, &text)
        }
        _ => words(StatusCode::BAD_REQUEST, "exactly one Host header is needed"),
    };
    const ALWAYS: [(HeaderName, &str); 6] = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    let headers = response.headers_mut();
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The page already has a more permissive policy.
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'"));
    response
}

async fn nowhere() -> Response {
    words(
        StatusCode::NOT_FOUND,
        "there is /, /events, /api/locks, /api/locks/NAME and /metrics",
    )
}

async fn not_so() -> Response {
    words(
        StatusCode::METHOD_NOT_ALLOWED,
        "use GET or HEAD to read locks, and POST /api/locks/NAME/revoke to revoke one",
    )
}

async fn page(State(served): Known) -> Response {
    let nonce = Uuid::new_v4().simple().to_string();
    let revoke = if served.token.is_some() { "yes" } else { "no" };
    let page = PAGE.replace(NONCE, &nonce).replace("{{revoke}}", revoke);
    let policy = format!(
        "default-src 'none'; connect-src 'self'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, page).into_response()
}

/// Sends a sample per second, for as long as the page is open.
async fn events(
    State(served): Known,
    Extension(stay): Extension<Stay>,
    Query(question): Query<Question>,
) -> Response {
    let viewer = served.feed.look_on(question, stay);
    let over = served.over.clone();
    let samples = stream::unfold(Some((viewer, over)), next_event);
    let alive = KeepAlive::new().interval(HEARTBEAT);
    Sse::new(samples).keep_alive(alive).into_response()
}

/// What a viewer needs: the samples, and the end of the server. `None`: its last event was sent.
type Looking = Option<(Viewer, watch::Receiver<bool>)>;

async fn next_event(looking: Looking) -> Option<(serde_json::Result<Event>, Looking)> {
    let (mut viewer, mut over) = looking?;
    let seen = tokio::select! {
        biased;
        _ = over.wait_for(|over| *over) => None,
        seen = viewer.next() => seen,
    }?;
    let event = Event::default().retry(RETRY);
    match seen {
        Seen::Sample(text) => Some((text.map(|text| event.data(text)), Some((viewer, over)))),
        Seen::Displaced => {
            let text = format!("more than {} pages are open", viewers::MOST);
            Some((Ok(event.event("displaced").data(text)), None))
        }
    }
}

async fn locks(State(served): Known, Query(question): Query<Question>) -> Response {
    let sample = match served.feed.sample(PATIENCE).await {
        Sight::Whole(sample) => sample,
        Sight::Part(sample) => return unfinished(&sample),
        Sight::Nothing => {
            return words(StatusCode::BAD_GATEWAY, "the locks' server does not answer");
        }
    };
    match View::new(&sample, &question).json() {
        Ok(text) => in_json(text),
        Err(error) => Refusal(Failure::system("write", &error)).into_response(),
    }
}

/// Refuses to show a part of the locks as if it were all.
fn unfinished(sample: &Sample) -> Response {
    let text = format!(
        "not all names were asked about yet since this server started or paused, {} of those on the list not once: try again",
        sample.load.unknown
    );
    let later = [(header::RETRY_AFTER, "10")];
    (later, words(StatusCode::SERVICE_UNAVAILABLE, &text)).into_response()
}

async fn lock(State(served): Known, Path(name): Path<String>) -> Result<Response, Refusal> {
    let lock = {
        let place = tokio::time::timeout(PATIENCE, served.questions.acquire());
        let Ok(_place) = place.await else {
            let text = "too many requests about single locks wait for the locks' server: try again";
            return Ok(words(StatusCode::SERVICE_UNAVAILABLE, text));
        };
        look::look(&served.client, &name).await?
    };
    let text = serde_json::to_string(&lock);
    Ok(in_json(
        text.map_err(|error| Failure::system("write", &error))?,
    ))
}

async fn metrics(State(served): Known) -> Response {
    let text = match served.feed.scrape(PATIENCE).await {
        Sight::Whole(sample) => metrics::text(Some(&sample)),
        Sight::Part(sample) => return unfinished(&sample),
        Sight::Nothing => metrics::text(None),
    };
    ([(header::CONTENT_TYPE, metrics::TYPE)], text).into_response()
}

async fn revoke(
    State(served): Known,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Some(token) = &served.token else {
        let text = "revoking is disabled: this server was started without --allow-revoke";
        return Ok(words(StatusCode::FORBIDDEN, text));
    };
    if !token.is_shown(&headers) {
        let text = "revoking needs the header `Authorization: Bearer TOKEN`, with the token that this server was started with";
        let scheme = [(header::WWW_AUTHENTICATE, "Bearer")];
        return Ok((scheme, words(StatusCode::UNAUTHORIZED, text)).into_response());
    }
    let told = served.client.revoke(&name).await.map_err(Failure::from)?;
    if told == 0 {
        let text = format!("nobody holds {name:?}");
        return Ok(words(StatusCode::NOT_FOUND, &text));
    }
    exit::say(&format!("{name:?} was revoked over HTTP: {told} told"));
    Ok(in_json(json!({ "name": name, "told": told }).to_string()))
}
