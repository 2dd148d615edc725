//! Learns which node has which slot: at first from the seeds, then from any node that answers, when there is a reason and
//! periodically.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::Shared;
use super::channels;
use super::map::{By, View};
use super::node::Node;
use crate::connection::Connection;
use crate::connection_slot::closed;
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::seeds::Endpoint;
use crate::target::Target;

/// How often the map is checked without a reason. A request for a moved slot finds the new node by the answer; this check is for
/// names that nobody requests but whose messages somebody waits for.
const PERIOD: Duration = Duration::from_secs(10);

/// The shortest gap between surveys: a node that has just learnt something tells the others within that time.
const FIRST_GAP: Duration = Duration::from_millis(50);

/// The gap to which surveys slow down while nothing improves: a failover takes a second or more, and many clients ask.
const LONGEST_GAP: Duration = Duration::from_millis(500);

/// How long a node may take to answer. Only the next survey waits for the slowest node.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many nodes are asked when there is a reason. One may be cut off from the others; two rarely are.
const WITNESSES: usize = 3;

/// Runs until `closing` says so, or until the store is dropped.
pub(crate) async fn keep(shared: Arc<Shared>, mut closing: watch::Receiver<bool>) {
    let mut gap = FIRST_GAP;
    loop {
        let troubled = shared.is_troubled();
        let pause = if troubled { gap } else { PERIOD };
        let alarmed = tokio::select! {
            biased;
            () = closed(&mut closing) => return,
            () = shared.alarm.notified() => true,
            () = tokio::time::sleep(pause) => false,
        };
        if alarmed {
            tokio::select! {
                biased;
                () = closed(&mut closing) => return,
                () = tokio::time::sleep(gap) => {}
            }
        }
        let witnesses = if alarmed || troubled { WITNESSES } else { 1 };
        let changed = tokio::select! {
            biased;
            () = closed(&mut closing) => return,
            changed = look(&shared, witnesses) => changed,
        };
        let calm = changed || !(alarmed || troubled);
        gap = if calm {
            FIRST_GAP
        } else {
            (gap * 2).min(LONGEST_GAP)
        };
    }
}

/// Asks for the map once; returns whether it has changed.
async fn look(shared: &Arc<Shared>, witnesses: usize) -> bool {
    let by = reached_by(&shared.seeds.template);
    let views = ask_nodes(shared.witnesses(witnesses), by).await;
    if !views.is_empty() {
        return shared.learn(&views);
    }
    let strangers = shared.strangers();
    match ask_strangers(&shared.seeds.template, &shared.options, strangers).await {
        Ok(view) => shared.learn(&[view]),
        Err(error) => {
            tracing::debug!(cluster = %shared.seeds, %error, "nobody says who has which slot");
            false
        }
    }
}

impl Shared {
    /// Merges the statements of nodes and acts on them; returns whether a slot has a new owner.
    pub(super) fn learn(self: &Arc<Self>, views: &[View]) -> bool {
        let changed = self.change(|map| {
            let changed = views.iter().map(|view| map.merge(view));
            changed.fold(false, |any, changed| any | changed)
        });
        if changed {
            tracing::info!(cluster = %self.seeds, "the map of the slots has changed");
            // Messages sent in the meantime went to the new node.
            self.events.missed();
        }
        changed
    }

    /// Moves channels to the nodes that have their slots.
    pub(super) fn follow_channels(self: &Arc<Self>) {
        let misplaced = {
            let table = self.table();
            self.channels.misplaced(|slot| table.map.owner(slot))
        };
        if !misplaced.is_empty() {
            tokio::spawn(channels::follow(Arc::clone(self), misplaced));
        }
    }
}

/// Asks nodes that are connected.
async fn ask_nodes(nodes: Vec<Arc<Node>>, by: By) -> Vec<View> {
    let mut questions = JoinSet::new();
    for node in nodes {
        questions.spawn(async move {
            let deadline = Instant::now() + PATIENCE;
            let (_, answer) = node.exchange(&question(), deadline).await.ok()?;
            let text = reply::text(&answer.ok()?)?;
            View::read(&text, &node.endpoint, by)
        });
    }
    let mut views = Vec::new();
    while let Some(answer) = questions.join_next().await {
        views.extend(answer.ok().flatten());
    }
    views
}

/// Asks endpoints that are not connected. Returns the first answer, or why none answers.
pub(crate) async fn ask_strangers(
    template: &Target,
    options: &RedisOptions,
    endpoints: Vec<Endpoint>,
) -> Result<View, StoreError> {
    let mut questions = JoinSet::new();
    for endpoint in endpoints {
        let (target, options) = (endpoint.target(template), options.clone());
        questions.spawn(async move {
            let patience = options.connect_timeout;
            let asked = ask_stranger(target, options, &endpoint);
            let late = |_| StoreError::not_sent(format!("no answer within {patience:?}"));
            timeout(patience, asked).await.map_err(late)?
        });
    }
    let mut trouble = StoreError::not_sent("there is nobody to ask");
    while let Some(answer) = questions.join_next().await {
        match answer {
            Ok(Ok(view)) => return Ok(view),
            Ok(Err(error)) => trouble = error,
            Err(_) => {}
        }
    }
    Err(trouble)
}

async fn ask_stranger(
    target: Target,
    options: RedisOptions,
    endpoint: &Endpoint,
) -> Result<View, StoreError> {
    let patience = options.connect_timeout;
    let (connection, _lifeline) = Connection::open(&target, &options, None).await?;
    let text = reply::text(&connection.send(&question(), patience).await?);
    let by = reached_by(&target);
    let view = text.and_then(|text| View::read(&text, endpoint, by));
    view.ok_or_else(|| StoreError::unknown("the answer to CLUSTER NODES cannot be read"))
}

/// With TLS, by the names that nodes announce, because their certificates are issued for those names. Without TLS, by their
/// addresses, which need no resolver.
const fn reached_by(target: &Target) -> By {
    match target.tls {
        Some(_) => By::Name,
        None => By::Address,
    }
}

fn question() -> Outgoing {
    Outgoing::plain("CLUSTER", ["NODES"])
}
