//! One name of one kind on several independent servers, a majority of which decides: what such a kind wraps.
//!
//! Each server has a client of its own and a claim of its own, all of one id. [`quorum`](crate::quorum) says when those
//! make a grant; each claim is renewed by its own client, and the lease lasts as long as a majority of them does.

mod acquire;
mod acquisition;
mod hold;
mod lease;
mod node;
mod round;
mod wait;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use acquire::{QuorumAcquire, QuorumTryAcquire};
pub use hold::QuorumHold;
pub use lease::QuorumLease;
pub(crate) use lease::Shared;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::name::Name;
use crate::protocol::Protocol;
use crate::quorum::Quorum;
use node::Node;

/// A lock over several servers before anybody has acquired it: their clients, and a kind's protocol for one name on each.
/// Clones are the same lock.
#[derive(Clone)]
pub struct QuorumLock {
    nodes: Arc<[Node]>,
    quorum: Quorum,
    /// The longest ttl that anybody uses.
    longest: Duration,
}

impl QuorumLock {
    /// A lock called `name` on the servers of these clients; `protocol` makes its kind's protocol of the checked name and the
    /// longest ttl that anybody uses, which is the longest of the clients' own.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] unless the clients are odd in number, three or more and each another one, or for a bad name.
    pub fn new<'a, P: Protocol>(
        clients: impl IntoIterator<Item = &'a Client>,
        name: &str,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Result<Self> {
        let clients: Vec<&Client> = clients.into_iter().collect();
        let quorum = Quorum::of(clients.len()).ok_or_else(|| {
            let number = clients.len();
            Error::config(format!(
                "a lock over several servers needs an odd number of them, {} or more, not {number}",
                Quorum::FEWEST
            ))
        })?;
        for (place, client) in clients.iter().enumerate() {
            let same = |other: &&Client| Arc::ptr_eq(&other.engine, &client.engine);
            if clients[..place].iter().any(same) {
                return Err(Error::config(
                    "each server of a lock over several needs a client of its own: one is there twice",
                ));
            }
        }
        let ttls = clients.iter().map(|client| client.engine.settings.ttl);
        let longest = ttls.max().unwrap_or_default();
        let mut nodes = Vec::with_capacity(clients.len());
        for (place, client) in clients.into_iter().enumerate() {
            let engine = Arc::clone(&client.engine);
            let protocol = protocol(engine.name(name)?, longest);
            nodes.push(Node::new(place, engine, Arc::new(protocol)));
        }
        Ok(Self {
            nodes: nodes.into(),
            quorum,
            longest,
        })
    }

    /// The same lock where the longest ttl that anybody uses is this one.
    #[must_use]
    pub fn longest_ttl<P: Protocol>(
        &self,
        longest: Duration,
        protocol: impl Fn(Name, Duration) -> P,
    ) -> Self {
        let nodes = self.nodes.iter().enumerate().map(|(place, node)| {
            let protocol = protocol(node.protocol.name().clone(), longest);
            Node::new(place, Arc::clone(&node.engine), Arc::new(protocol))
        });
        Self {
            nodes: nodes.collect(),
            quorum: self.quorum,
            longest,
        }
    }

    /// An acquisition that waits; `wrap` makes the kind's guard.
    pub fn acquire<G>(&self, wrap: fn(QuorumHold) -> G) -> QuorumAcquire<G> {
        QuorumAcquire::new(self.clone(), wrap)
    }

    /// An acquisition that does not wait; `wrap` makes the kind's guard.
    pub fn try_acquire<G>(&self, wrap: fn(QuorumHold) -> G) -> QuorumTryAcquire<G> {
        QuorumTryAcquire::new(QuorumAcquire::new(self.clone(), wrap))
    }

    fn first(&self) -> &Node {
        // There are three or more.
        &self.nodes[0]
    }

    fn name(&self) -> &str {
        self.first().name()
    }
}

impl fmt::Debug for QuorumLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = &self.first().protocol;
        let servers = self.nodes.len();
        write!(
            f,
            "{}({:?} on {servers} servers)",
            protocol.kind(),
            self.name()
        )
    }
}
