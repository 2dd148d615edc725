//! The record of a history: what clients send and when they hear, for the [nets](super::net).

use std::time::Duration;

use lockkeeper_core::store::{Call, Reply, StoreError};

/// A script call, as a client hands it to the network.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) at: Duration,
    pub(super) link: usize,
    pub(super) server: usize,
    pub(super) call: Call,
    /// When its caller had the outcome, and the outcome; `None` if the caller waits no more.
    pub(super) settled: Option<(Duration, Result<Reply, StoreError>)>,
}

/// Something that may make a client ask at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    NewConnection,
    /// A message, or the confirmation of a subscription.
    Other,
}

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    pub(super) sent: Vec<Sent>,
    /// What each link heard, and when.
    pub(super) heard: Vec<(usize, Duration, Heard)>,
    /// The links that did not run for a while, and from when until when.
    pub(super) paused: Vec<(usize, Duration, Duration)>,
    /// How many messages the servers published to clients.
    pub(super) messages: u64,
    /// How many subscriptions clients asked for.
    pub(super) subscriptions: u64,
}
