//! One of the servers, and what is to be said when several fail.

use std::fmt;
use std::sync::Arc;

use crate::clock::{Clock, Moment};
use crate::engine::Engine;
use crate::error::Error;
use crate::protocol::Protocol;
use crate::store::{Outcome, StoreError};

/// One server of a lock, with the client that talks to it.
pub(super) struct Node {
    pub(super) engine: Arc<Engine>,
    pub(super) protocol: Arc<dyn Protocol>,
    label: String,
}

impl Node {
    /// The server at this place of the list, counted from zero.
    pub(super) fn new(place: usize, engine: Arc<Engine>, protocol: Arc<dyn Protocol>) -> Self {
        let (number, address) = (place + 1, engine.line.store.address());
        let label = if address.is_empty() {
            format!("server {number}")
        } else {
            format!("server {number} ({address})")
        };
        Self {
            engine,
            protocol,
            label,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.protocol.name().as_str()
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.engine.line.clock
    }

    pub(super) fn now(&self) -> Moment {
        self.clock().now()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// An [`Error::Backend`] that names every server that failed, and why.
pub(super) fn failed_on(nodes: &[Node], doing: &str, troubles: &[Option<StoreError>]) -> Error {
    let failed: Vec<(&Node, &StoreError)> = nodes
        .iter()
        .zip(troubles)
        .filter_map(|(node, trouble)| Some((node, trouble.as_ref()?)))
        .collect();
    let texts: Vec<String> = failed
        .iter()
        .map(|(node, error)| format!("{}: {error}", node.label))
        .collect();
    let message = texts.join("; ");
    let (name, all) = (nodes[0].name(), nodes.len());
    let context = format!(
        "{doing} lock {name:?} by a majority of its {all} servers, {} of which failed",
        failed.len()
    );
    let refusal = failed
        .iter()
        .find(|(_, error)| error.outcome() == Outcome::Refused && !error.is_transient());
    let passing = failed.iter().any(|(_, error)| error.is_transient());
    let unknown = |(_, error): &(_, &StoreError)| error.outcome() == Outcome::Unknown;
    let cause = match refusal {
        // Its first word is the code, by which callers know it.
        Some((_, error)) if !passing => {
            StoreError::refused(format!("{} ({message})", error.message()))
        }
        _ if failed.iter().any(unknown) => StoreError::unknown(message),
        _ => StoreError::not_sent(message),
    };
    Error::backend(context, cause)
}
