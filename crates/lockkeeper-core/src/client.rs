//! The client: one connection to one deployment.

use std::fmt;
use std::sync::Arc;

use crate::builder::ClientBuilder;
use crate::engine::Engine;
use crate::owner::Owner;

/// A connection to one deployment, shared by all locks that are made from it. Clones are the same client.
///
/// One client per process and deployment is enough: it renews all leases from one task and listens on one connection.
/// When the last clone and the last guard are gone, what was given up is still left for in the background.
#[derive(Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

/// What [`Client::close`] found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// Claims that nobody held any more and that the server has confirmed to be gone, since the client was made.
    pub confirmed: usize,
    /// Leases whose guards were alive: lost to their holders, and held on the server until their ttl ends.
    pub expiring: usize,
    /// Claims that nobody held any more, or that were just being acquired or released, and that the server has not
    /// confirmed to be gone: it did not answer in time, or refused. Those that are there end with their ttl.
    pub unconfirmed: usize,
}

impl Client {
    /// Settings for a new client, to be handed to `lockkeeper::connect_with` together with a URL.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A new logical holder, unlike any other.
    pub fn new_owner(&self) -> Owner {
        self.engine.new_owner()
    }

    /// Ends the client: waiting acquisitions fail with [`Error::Closed`](crate::Error::Closed), live guards are lost, what was given up is
    /// left for, connections are closed.
    ///
    /// A lease whose guard is still alive is not released, because nobody knows whether the work under it has stopped:
    /// it is [`Lost`](crate::LossReason::ClientClosed) to its holder and expires on the server. Release guards first.
    /// Takes at most the client's release timeout, and a second more to take leave of the server. Closing twice is
    /// harmless.
    ///
    /// # Cancel safety
    ///
    /// The client is closed as soon as the future was polled once; dropping it later only leaves the rest to the
    /// background.
    pub async fn close(&self) -> CloseReport {
        self.engine.close().await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.engine.id)
            .field("namespace", &self.engine.settings.namespace)
            .field("store", &self.engine.line.store)
            .finish_non_exhaustive()
    }
}
