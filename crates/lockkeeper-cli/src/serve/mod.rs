//! `serve`: holders and waiters as a web page, and metrics for Prometheus. `page.html` is the whole page; one sampler serves all
//! viewers.

mod connections;
mod feed;
mod host;
mod metrics;
mod routes;
mod token;
mod view;
mod viewers;

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper::Client;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args::ServeOptions;
use crate::exit::{self, Failure};
use crate::out;
use crate::server::Server;
use connections::Connections;
use feed::Feed;
use host::Hosts;
use routes::Served;
use token::Token;

/// How long to wait at the end for answers that are under way. Open pages are told at once.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Listening {
    listening: SocketAddr,
}

/// Serves until SIGTERM or SIGINT.
pub(crate) async fn serve(
    server: &Server,
    options: &ServeOptions,
    json: bool,
) -> Result<(), Failure> {
    let hosts = Hosts::new(&options.hosts)?;
    let token = match options.allow_revoke {
        true => Some(Token::read(options.token_file.as_deref())?),
        false => None,
    };
    let cannot = |error: std::io::Error| {
        let listen = options.listen;
        Failure::usage(format!(
            "cannot listen on {listen}: {error}; choose another --listen"
        ))
    };
    let listener = TcpListener::bind(options.listen).await.map_err(cannot)?;
    let listening = listener.local_addr().map_err(cannot)?;
    let stopped = stopped()?;
    let client = server.connect(Client::builder()).await?;
    // Reports a pattern that is wrong or not allowed now, and not only when the first page is opened.
    client.names(&options.pattern).next_page().await?;
    if !listening.ip().is_loopback() {
        let token = if token.is_some() {
            ", and the token is sent unencrypted"
        } else {
            ""
        };
        exit::say(&format!(
            "listening on {listening}, not only on this machine: anybody who can connect sees all names and labels{token}"
        ));
    }
    if json {
        out::json(&Listening { listening })?;
    } else {
        out::line(&format!("listening on http://{listening}"))?;
    }
    let (feed, sampler) = Feed::new(client.clone(), &options.pattern);
    let (end, over) = watch::channel(false);
    let served = Served::new(client.clone(), feed.clone(), hosts, token, over.clone());
    let connections = Connections::new(served.routes(), over);
    let outcome = tokio::select! {
        never = connections.accept(listener) => match never {},
        failure = feed.run(sampler) => Err(failure),
        () = stopped => Ok(()),
    };
    end.send_replace(true);
    connections.end(GRACE).await;
    client.close().await;
    outcome
}

/// Resolves when this process is asked to end.
fn stopped() -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| signal(kind).map_err(|error| Failure::system("listen for signals", &error));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
