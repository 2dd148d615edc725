//! The nodes of a cluster that are known before its map is.

use std::fmt;

use crate::target::{Address, Target};

/// Where a node listens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    /// IPv6 addresses are without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The first nodes to ask.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Seeds {
    /// How to reach and log in to any node.
    pub(crate) template: Target,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Seeds {
    /// `None` without any.
    pub(crate) fn new(targets: Vec<Target>) -> Option<Self> {
        let endpoint = |target: &Target| match &target.address {
            Address::Tcp { host, port } => Some(Endpoint {
                host: host.trim_matches(['[', ']']).to_owned(),
                port: *port,
            }),
            Address::Unix { .. } => None,
        };
        Some(Self {
            endpoints: targets.iter().filter_map(endpoint).collect(),
            template: targets.into_iter().next()?,
        })
    }
}

impl Endpoint {
    /// Reads `host:port` as nodes write it. No host, or `?`, means the node that was asked.
    pub(crate) fn read(text: &str, asked: &Self) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let host = if matches!(host, "" | "?") {
            &asked.host
        } else {
            host
        };
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }

    /// The target of the node, with the login of `template`.
    pub(crate) fn target(&self, template: &Target) -> Target {
        template.elsewhere(Address::tcp(&self.host, self.port))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{endpoint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seeds({self})")
    }
}
