//! `serve`: holders and waiters as a web page, and metrics for Prometheus. `page.html` is the whole page; one sampler serves all
//! viewers.

mod feed;
mod host;
mod metrics;
mod routes;
mod token;
mod view;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lockkeeper::Client;
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::{self, Failure};
use crate::out;
use crate::server::Server;
use feed::Feed;
use host::Hosts;
use routes::Served;
use token::Token;

/// How long to wait at the end for answers that are under way. Open pages are told at once.
const GRACE: Duration = Duration::from_secs(2);

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// The address and port to listen on; port 0 takes a free port and prints it. Anybody who can connect sees all names and labels
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090", value_parser = address)]
    listen: SocketAddr,

    /// Another name by which browsers reach this server, in addition to localhost and IP addresses, for example through a proxy.
    /// May be given several times
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    /// Let anybody with the token revoke locks
    #[arg(long)]
    allow_revoke: bool,

    /// A file whose only line is that token, at least 16 characters [env: LOCKKEEPER_SERVE_TOKEN, the token itself]
    #[arg(long, value_name = "FILE", requires = "allow_revoke")]
    token_file: Option<PathBuf>,

    /// Which names: * matches any text, ? one character, [a-c] one of these characters
    #[arg(default_value = "*")]
    pattern: String,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:9090 or [::1]:9090")
}

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
    let mut ended = over.clone();
    let served = Served::new(client.clone(), feed.clone(), hosts, token, over);
    let serving = axum::serve(listener, served.routes()).with_graceful_shutdown(async move {
        // The error is ignored: if the sender is gone, the process is ending too.
        let _ = ended.wait_for(|over| *over).await;
    });
    let mut serving = tokio::spawn(serving.into_future());
    let outcome = tokio::select! {
        served = &mut serving => match served {
            Ok(Err(error)) => Err(Failure::system("serve", &error)),
            Ok(Ok(())) => Ok(()),
            Err(error) => Err(Failure::system("serve", &error)),
        },
        failure = feed.run(sampler) => Err(failure),
        () = stopped => Ok(()),
    };
    end.send_replace(true);
    if !serving.is_finished() && tokio::time::timeout(GRACE, &mut serving).await.is_err() {
        serving.abort();
    }
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
