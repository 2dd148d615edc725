//! One name of one kind on one client: what every kind of lock wraps.

use std::fmt;
use std::sync::Arc;

use crate::acquire::{Acquire, TryAcquire};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::inspection;
use crate::name::Name;
use crate::owner::Owner;
use crate::protocol::Protocol;

/// A lock before anybody has acquired it: a client and a kind's protocol for one name. Clones are the same lock.
///
/// A name that cannot be one is reported by the first acquisition, so that making a lock never fails.
#[derive(Clone)]
pub struct Lock {
    client: Client,
    protocol: std::result::Result<Arc<dyn Protocol>, Arc<str>>,
}

impl Lock {
    /// A lock called `name`; `protocol` makes its kind's protocol of the checked name.
    pub fn new<P: Protocol>(client: &Client, name: &str, protocol: impl FnOnce(Name) -> P) -> Self {
        let protocol = match client.engine.name(name) {
            Ok(name) => Ok(Arc::new(protocol(name)) as Arc<dyn Protocol>),
            Err(error) => Err(error.to_string().into()),
        };
        Self {
            client: client.clone(),
            protocol,
        }
    }

    /// The same name on the same client by another protocol, of another mode for example.
    #[must_use]
    pub fn by<P: Protocol>(&self, protocol: impl FnOnce(Name) -> P) -> Self {
        let by =
            |ours: &Arc<dyn Protocol>| Arc::new(protocol(ours.name().clone())) as Arc<dyn Protocol>;
        Self {
            client: self.client.clone(),
            protocol: self.protocol.as_ref().map(by).map_err(Arc::clone),
        }
    }

    /// An acquisition that waits; `wrap` makes the kind's guard, which may keep the lock.
    pub fn acquire<G>(&self, wrap: fn(Hold, Self) -> G) -> Acquire<G> {
        Acquire::new(self.clone(), wrap)
    }

    /// An acquisition that does not wait; `wrap` makes the kind's guard, which may keep the lock.
    pub fn try_acquire<G>(&self, wrap: fn(Hold, Self) -> G) -> TryAcquire<G> {
        TryAcquire::new(Acquire::new(self.clone(), wrap))
    }

    /// How many wait for the lock, of a kind with a queue, and where the first waiting acquisition of `owner` by this client
    /// stands, counted from one.
    ///
    /// # Errors
    ///
    /// As for [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn queue(&self, owner: Option<&Owner>) -> Result<(u64, Option<u64>)> {
        inspection::queue(&self.client.engine, &**self.protocol()?, owner).await
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn protocol(&self) -> Result<&Arc<dyn Protocol>> {
        self.protocol
            .as_ref()
            .map_err(|reason| Error::config(&**reason))
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.protocol {
            Ok(protocol) => write!(f, "{}({:?})", protocol.kind(), protocol.name().as_str()),
            Err(reason) => write!(f, "Lock(no name: {reason})"),
        }
    }
}
