//! The place of a measurement: one server, or a cluster of six.

use std::slice;

use anyhow::Result;
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::report::{Row, Target};

/// The servers of one run.
pub(crate) enum Place {
    One(Server),
    Cluster(Cluster),
}

impl Place {
    pub(crate) async fn one() -> Result<Self> {
        Ok(Self::One(Server::start().await?))
    }

    /// Three primaries with a replica each.
    pub(crate) async fn cluster() -> Result<Self> {
        Ok(Self::Cluster(Cluster::start().await?))
    }

    /// All its servers; their costs are added up.
    pub(crate) fn servers(&self) -> &[Server] {
        match self {
            Self::One(server) => slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    pub(crate) async fn client(&self, settings: ClientBuilder) -> Result<Client> {
        let url = self.url();
        Ok(timeout(PATIENCE, lockkeeper::connect_with(&url, settings)).await??)
    }

    /// The suffix for figures; empty for one server.
    pub(crate) const fn suffix(&self) -> &'static str {
        match self {
            Self::One(_) => "",
            Self::Cluster(_) => ", cluster",
        }
    }

    /// Gives a figure its target on one server. On a cluster it is only reported.
    pub(crate) fn aim(&self, row: Row, most: f64) -> Row {
        match self {
            Self::One(_) => row.target(Target::AtMost(most)),
            Self::Cluster(_) => row,
        }
    }
}
