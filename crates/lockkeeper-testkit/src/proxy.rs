//! A TCP proxy that drops, delays and cuts the traffic through it.
//!
//! A fault is switched on by a call or triggered at a byte, never by time, and applies at once to current and future
//! connections. Instead of sleeping, a test waits for what the proxy has seen: [`Proxy::seen`].
//!
//! The most important fault is the lost reply: [`Proxy::lose_reply_to`] lets a request pass and cuts the connection when the
//! server answers. The server has executed the request, and the client cannot know.

mod connection;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::server::Server;

/// The direction in which bytes flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies and messages.
    ToClient,
}

/// What the proxy has seen since it started, over all connections. Index arrays with `[Direction::ToServer as usize]` and
/// `[Direction::ToClient as usize]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections accepted, refused ones not included.
    pub accepted: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Connections that were cut by a byte count or a lost reply.
    pub cut: u64,
    /// Bytes that arrived, including those that were not passed on.
    pub received: [u64; 2],
    /// Bytes that were passed on.
    pub forwarded: [u64; 2],
    /// Bytes that a black hole swallowed.
    pub swallowed: [u64; 2],
}

/// A proxy on a free loopback port. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy in front of any TCP server.
    ///
    /// # Errors
    ///
    /// If no port can be listened on.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, upstream, Arc::clone(&shared)));
        Ok(Self {
            address,
            url: format!("redis://{address}"),
            shared,
            accepting,
        })
    }

    /// Starts a proxy in front of a [`Server`]; its [`url`](Self::url) carries the server's password.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub async fn in_front_of(server: &Server) -> Result<Self> {
        let mut proxy = Self::start(server.address()).await?;
        proxy.url = server.url_at(proxy.address);
        Ok(proxy)
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where clients connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Delays bytes by this much, without limiting how many are in flight.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.lane(direction, |lane| lane.delay = delay);
    }

    /// Holds bytes back until [`release`](Self::release).
    pub fn hold(&self, direction: Direction) {
        self.lane(direction, |lane| lane.held = true);
    }

    /// Passes on the bytes that were held, in order, and stops holding.
    pub fn release(&self, direction: Direction) {
        self.lane(direction, |lane| lane.held = false);
    }

    /// Swallows bytes, and the end of a connection too: each side takes the other for connected but silent. Bytes that are
    /// held are swallowed when they are released.
    pub fn black_hole(&self, direction: Direction) {
        self.lane(direction, |lane| lane.swallowed = true);
    }

    /// Passes bytes on again; swallowed bytes stay lost.
    pub fn end_black_hole(&self, direction: Direction) {
        self.lane(direction, |lane| lane.swallowed = false);
    }

    /// Cuts, once, the first connection that passes this many bytes from now on; its remaining bytes are lost. With 0 it cuts
    /// the first connection that has anything to pass.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.settings.send_modify(|settings| {
            settings.triggers += 1;
            settings.lanes[direction as usize].cut = Some((settings.triggers, bytes));
        });
    }

    /// Lets the next request that contains this text pass to the server, once, and cuts its connection when the server sends
    /// anything on it: the reply, or an earlier reply still in flight. An empty text matches any request.
    pub fn lose_reply_to(&self, text: impl Into<Vec<u8>>) {
        let text = text.into();
        self.shared
            .settings
            .send_modify(|settings| settings.losing = Some(text));
    }

    /// Turns new connections away with a reset, or accepts them again.
    pub fn refuse(&self, refuse: bool) {
        self.shared
            .settings
            .send_modify(|settings| settings.refuse = refuse);
    }

    /// Ends every fault; cuts nothing.
    pub fn clear(&self) {
        self.shared.settings.send_modify(|settings| {
            *settings = Settings {
                triggers: settings.triggers,
                ..Settings::default()
            };
        });
    }

    /// Closes every open connection properly; the server still receives what was sent to it.
    pub fn cut_all(&self) {
        self.shared.sever.send_replace(Sever::Cut);
    }

    /// Resets every open connection, as a machine does that has rebooted.
    pub fn reset_all(&self) {
        self.shared.sever.send_replace(Sever::Reset);
    }

    /// What the proxy has seen so far.
    pub fn so_far(&self) -> Seen {
        *self.shared.seen.borrow()
    }

    /// Waits until what the proxy has seen fulfils a condition. Never returns if it does not, so put a timeout around the
    /// test.
    pub async fn seen(&self, condition: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.shared.seen.subscribe();
        let reached = seen.wait_for(condition).await.map(|seen| *seen);
        // Cannot fail: the sender lives as long as `self`.
        reached.unwrap_or_else(|_| self.so_far())
    }

    fn lane(&self, direction: Direction, change: impl FnOnce(&mut Lane)) {
        self.shared
            .settings
            .send_modify(|settings| change(&mut settings.lanes[direction as usize]));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The faults that are switched on.
#[derive(Debug, Default)]
struct Settings {
    lanes: [Lane; 2],
    losing: Option<Vec<u8>>,
    refuse: bool,
    /// How many byte counts were ever set, which distinguishes one from the next.
    triggers: u64,
}

/// The faults of one direction.
#[derive(Debug, Default)]
struct Lane {
    delay: Duration,
    held: bool,
    swallowed: bool,
    /// The number of the trigger, and the bytes that may pass.
    cut: Option<(u64, u64)>,
}

/// How a connection is ended by the proxy.
#[derive(Debug, Clone, Copy, Default)]
enum Sever {
    #[default]
    Cut,
    Reset,
}

#[derive(Debug, Default)]
struct Shared {
    settings: watch::Sender<Settings>,
    sever: watch::Sender<Sever>,
    seen: watch::Sender<Seen>,
}

/// Accepts as long as the proxy lives; the connections end with this task.
async fn accept(listener: TcpListener, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        if shared.settings.borrow().refuse {
            // Best effort: a close without the reset refuses as well.
            let _ = client.set_zero_linger();
            continue;
        }
        shared.seen.send_modify(|seen| {
            seen.accepted += 1;
            seen.open += 1;
        });
        // Subscribe here, so that a sever after the count increases also reaches this connection.
        let sever = shared.sever.subscribe();
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let remains = match TcpStream::connect(upstream).await {
                Ok(server) => connection::run(client, server, &shared, sever).await,
                Err(_) => None,
            };
            shared.seen.send_modify(|seen| seen.open -= 1);
            if let Some(server) = remains {
                connection::drain(server).await;
            }
        });
    }
}
