//! A cluster: servers that share the keys by slots, each with its own connections. The map changes only in `Shared::change`.
//!
//! [`map`] says which node has which slot; [`survey`] keeps it up to date; [`router`] sends scripts where the map says and handles
//! what nodes answer instead; [`channels`] keeps each subscription on the node that has its slot. The cluster support of client
//! libraries is not used: fred's cannot survive `ASK`, stops entirely when one node is dead, and mixes up replies.

mod answer;
mod channels;
mod map;
mod node;
mod router;
mod survey;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::clock::{BootClock, Clock};
use lockkeeper_core::store::{Call, Event, Replicated, Reply, Store, StoreError, slot_of};
use lockkeeper_core::{Error, Result};
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::events::Events;
use crate::failure;
use crate::options::RedisOptions;
use crate::seeds::{Endpoint, Seeds};
use channels::Channels;
use map::{Map, NodeId};
use node::Node;

/// The store.
pub(crate) struct Cluster {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    survey: Mutex<Option<JoinHandle<()>>>,
}

/// What all parts of the store share.
pub(crate) struct Shared {
    seeds: Seeds,
    options: RedisOptions,
    events: Arc<Events>,
    channels: Channels,
    table: RwLock<Table>,
    /// Notified when the map may be wrong.
    alarm: Arc<Notify>,
    /// How many times any node was needed: each time it is another one.
    turns: AtomicUsize,
}

struct Table {
    map: Map,
    /// By their numbers in the map.
    nodes: Vec<Option<Arc<Node>>>,
    closed: bool,
}

impl Cluster {
    /// Asks the seeds for the map and connects to every node that has slots; with `later`, in the background if no seed is within
    /// reach.
    pub(crate) async fn open(seeds: Seeds, options: RedisOptions, later: bool) -> Result<Self> {
        let endpoints = seeds.endpoints.clone();
        let view = survey::ask_strangers(&seeds.template, &options, endpoints).await;
        let views = match view {
            Ok(view) => vec![view],
            Err(error) if later && error.is_transient() => {
                tracing::warn!(cluster = %seeds, %error, "not connected yet");
                Vec::new()
            }
            Err(error) => return Err(refused(&seeds, error)),
        };
        let shared = Arc::new(Shared::new(seeds, options));
        shared.learn(&views);
        let (closing, closed) = watch::channel(false);
        let survey = tokio::spawn(survey::keep(Arc::clone(&shared), closed));
        let cluster = Self {
            shared,
            closing,
            survey: Mutex::new(Some(survey)),
        };
        if !views.is_empty() {
            cluster.connected().await?;
        }
        Ok(cluster)
    }

    /// Waits until a connection to every node has been tried, and fails if no node lets this user in.
    async fn connected(&self) -> Result<()> {
        let shared = &self.shared;
        let nodes = shared.table().primaries();
        for node in &nodes {
            // Limited by the connect timeout, which runs for all nodes at once.
            let _ = timeout(shared.options.connect_timeout, node.current.decided()).await;
        }
        let unserved = shared.table().map.unserved();
        if unserved > 0 {
            tracing::warn!(cluster = %shared.seeds, unserved, "nobody has some of the slots");
        }
        let mut trouble = StoreError::not_sent("no node has slots");
        for node in &nodes {
            match node.current.connection() {
                Ok(_) => {
                    tracing::info!(cluster = %shared.seeds, nodes = nodes.len(), "connected");
                    return Ok(());
                }
                Err(error) => trouble = error,
            }
        }
        Err(refused(&shared.seeds, trouble))
    }
}

fn refused(seeds: &Seeds, error: StoreError) -> Error {
    let advice = if error.message().contains("cluster support disabled") {
        ": it is a single server, use redis://"
    } else {
        failure::advice(&error, &seeds.template.login)
    };
    let hint = failure::hint(&error, seeds.template.tls.is_some());
    Error::backend(
        format!("connect to the cluster at {seeds}{advice}{hint}"),
        error,
    )
}

impl Shared {
    fn new(seeds: Seeds, options: RedisOptions) -> Self {
        Self {
            seeds,
            options,
            events: Arc::default(),
            channels: Channels::default(),
            table: RwLock::new(Table {
                map: Map::new(),
                nodes: Vec::new(),
                closed: false,
            }),
            alarm: Arc::default(),
            turns: AtomicUsize::new(0),
        }
    }

    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the map, and then connections and channels to match: connections to every node that has slots and to nodes that were
    /// asked lately, no others; each channel on the node that has its slot.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Map) -> T) -> T {
        let (result, gone) = {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            let result = change(&mut table.map);
            (result, self.reconcile(&mut table))
        };
        // Outside the lock: dropping the last handle closes the connections of the node.
        drop(gone);
        self.follow_channels();
        result
    }

    fn reconcile(&self, table: &mut Table) -> Vec<Arc<Node>> {
        let Table { map, nodes, closed } = table;
        let primaries = map.primaries();
        let mut gone = Vec::new();
        for (id, node) in (0..).zip(nodes.iter_mut()) {
            let stays = |node: &mut Arc<Node>| !primaries.contains(&id) && !node.take_asked();
            gone.extend(node.take_if(stays));
        }
        for id in primaries {
            if !*closed {
                self.ensure(map, nodes, id);
            }
        }
        gone
    }

    fn ensure(&self, map: &Map, nodes: &mut Vec<Option<Arc<Node>>>, id: NodeId) {
        let index = id as usize;
        if nodes.len() <= index {
            nodes.resize(index + 1, None);
        }
        if nodes[index].is_none() {
            let endpoint = map.endpoint(id).cloned();
            nodes[index] = endpoint.map(|endpoint| {
                let (template, options) = (&self.seeds.template, &self.options);
                Arc::new(Node::start(
                    endpoint,
                    template,
                    options,
                    &self.events,
                    &self.alarm,
                ))
            });
        }
    }

    /// The node that has a slot.
    fn owner(&self, slot: u16) -> std::result::Result<(NodeId, Arc<Node>), StoreError> {
        let table = self.table();
        let owner = table
            .map
            .owner(slot)
            .and_then(|id| Some((id, table.node(id)?)));
        owner.ok_or_else(|| {
            self.alarm.notify_one();
            StoreError::not_sent(format!("no node is known to have slot {slot}"))
        })
    }

    fn node(&self, id: NodeId) -> Option<Arc<Node>> {
        self.table().node(id)
    }

    /// The node at an endpoint that another node has named.
    fn node_at(self: &Arc<Self>, endpoint: &Endpoint) -> Option<Arc<Node>> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let Table { map, nodes, closed } = &mut *table;
        let id = map.node_at(endpoint);
        if !*closed {
            self.ensure(map, nodes, id);
        }
        table.node(id)
    }

    /// Whether a node that has slots cannot be reached, or slots have no node.
    fn is_troubled(&self) -> bool {
        let table = self.table();
        let primaries = table.primaries();
        primaries.is_empty() || !primaries.iter().all(|node| node.current.is_up())
    }

    /// Some of the reachable nodes, to ask.
    fn witnesses(&self, most: usize) -> Vec<Arc<Node>> {
        let mut nodes = self.table().primaries();
        nodes.retain(|node| node.current.is_up());
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let first = turn % nodes.len().max(1);
        nodes.rotate_left(first);
        nodes.truncate(most);
        nodes
    }

    /// A reachable node that has slots.
    fn any_node(&self) -> std::result::Result<Arc<Node>, StoreError> {
        let node = self.witnesses(1).pop();
        node.ok_or_else(|| StoreError::not_sent("no node is within reach"))
    }

    /// The endpoints to ask when no node answers: all that were ever named.
    fn strangers(&self) -> Vec<Endpoint> {
        let mut endpoints = self.seeds.endpoints.clone();
        endpoints.extend(self.table().map.members().cloned());
        endpoints.sort();
        endpoints.dedup();
        endpoints
    }
}

impl Table {
    fn node(&self, id: NodeId) -> Option<Arc<Node>> {
        self.nodes.get(id as usize).cloned().flatten()
    }

    fn primaries(&self) -> Vec<Arc<Node>> {
        let primaries = self.map.primaries().into_iter();
        primaries.filter_map(|id| self.node(id)).collect()
    }
}

#[async_trait]
impl Store for Cluster {
    async fn call(&self, call: Call) -> std::result::Result<Reply, StoreError> {
        router::call(&self.shared, call).await
    }

    async fn call_replicated(
        &self,
        call: Call,
        replicas: u32,
        patience: Duration,
    ) -> std::result::Result<Replicated, StoreError> {
        router::call_replicated(&self.shared, call, replicas, patience).await
    }

    async fn subscribe(&self, channel: &str) -> std::result::Result<(), StoreError> {
        channels::subscribe(&self.shared, channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> std::result::Result<(), StoreError> {
        channels::unsubscribe(&self.shared, channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.shared.events.stream()
    }

    fn group(&self, key: &str) -> u32 {
        slot_of(key).into()
    }

    fn server_of(&self, group: u32) -> u32 {
        let slot = u16::try_from(group).unwrap_or_default();
        self.shared.table().map.owner(slot).unwrap_or_default()
    }

    fn servers(&self) -> Vec<u32> {
        self.shared.table().map.primaries()
    }

    fn address(&self) -> String {
        self.shared.seeds.to_string()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    async fn close(&self) {
        self.closing.send_replace(true);
        if let Some(survey) = self.survey.lock().await.take() {
            // An error means that it has ended already.
            let _ = survey.await;
        }
        let nodes = {
            let mut table = self
                .shared
                .table
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            table.closed = true;
            std::mem::take(&mut table.nodes)
        };
        let mut farewells = tokio::task::JoinSet::new();
        for node in nodes.into_iter().flatten() {
            farewells.spawn(async move { node.close().await });
        }
        while farewells.join_next().await.is_some() {}
        self.shared.events.end();
        tracing::info!(cluster = %self.shared.seeds, "closed");
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("seeds", &self.shared.seeds)
            .finish_non_exhaustive()
    }
}
