//! The locator of the server: a fixed address, or the sentinels that name the server.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::store::StoreError;

use crate::connection::Connection;
use crate::credentials::Login;
use crate::sentinel::Sentinels;
use crate::target::Target;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) enum Locator {
    /// It is always the same server.
    Fixed(Target),
    /// It is the primary that sentinels watch.
    Watched(Arc<Sentinels>),
}

impl Locator {
    /// The server to connect to now.
    pub(crate) async fn find(&self) -> Result<Target, StoreError> {
        match self {
            Self::Fixed(target) => Ok(target.clone()),
            Self::Watched(sentinels) => sentinels.find().await,
        }
    }

    /// Checks that a new connection leads to the right server.
    pub(crate) async fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Fixed(_) => Ok(()),
            Self::Watched(sentinels) => sentinels.check(connection).await,
        }
    }

    /// Resolves once the server to use is no longer the one at `target`.
    pub(crate) async fn moved(&self, target: &Target) -> String {
        match self {
            Self::Fixed(_) => std::future::pending().await,
            Self::Watched(sentinels) => sentinels.moved(target).await,
        }
    }

    /// Whether connections to it use TLS.
    pub(crate) fn speaks_tls(&self) -> bool {
        match self {
            Self::Fixed(target) => target.tls.is_some(),
            Self::Watched(sentinels) => sentinels.speak_tls(),
        }
    }

    /// How to log in to it.
    pub(crate) fn login(&self) -> &Login {
        match self {
            Self::Fixed(target) => &target.login,
            Self::Watched(sentinels) => sentinels.login(),
        }
    }

    /// The database on it.
    pub(crate) fn database(&self) -> u8 {
        match self {
            Self::Fixed(target) => target.database,
            Self::Watched(sentinels) => sentinels.database(),
        }
    }

    /// A server that should accept writes refuses them.
    pub(crate) fn doubt(&self) {
        if let Self::Watched(sentinels) = self {
            sentinels.doubt();
        }
    }
}

/// For logs and errors.
impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(target) => target.fmt(f),
            Self::Watched(sentinels) => sentinels.fmt(f),
        }
    }
}
