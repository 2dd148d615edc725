//! Sends a script to the node that has its keys, and follows redirections to another node.
//!
//! A redirection means that nothing was executed, so sending again executes once. A request that gets no answer stays unknown and
//! is never sent again here.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Call, Outcome, Replicated, Reply, StoreError};
use tokio::time::{Instant, sleep};

use super::Shared;
use super::answer::Answer;
use crate::connection_slot::closed_error;
use crate::replica_wait_pool::ReplicaWaitConnection;
use crate::request::{self, Outgoing};

/// How often one request is redirected. A consistent cluster needs two redirections at most.
const REDIRECTIONS: u32 = 5;

/// How often a request is sent again while its slot is migrating. More attempts would only delay a batch of renewals, which the
/// engine splits once it knows: with one key each they succeed.
const REPEATS: u32 = 3;

/// The first pause before a request is sent again; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(2);

/// As [`Store::call`](lockkeeper_core::store::Store::call).
pub(crate) async fn call(shared: &Arc<Shared>, call: Call) -> Result<Reply, StoreError> {
    Ok(follow(shared, call, false).await?.0)
}

/// As [`Store::call_replicated`](lockkeeper_core::store::Store::call_replicated), for the replicas of the node that executed the
/// script.
pub(crate) async fn call_replicated(
    shared: &Arc<Shared>,
    call: Call,
    replicas: u32,
    patience: Duration,
) -> Result<Replicated, StoreError> {
    let (reply, pooled) = follow(shared, call, true).await?;
    let reached = match pooled {
        Some(pooled) => pooled.wait(replicas, patience).await,
        None => Err(StoreError::not_sent("there is no connection to ask by")),
    };
    Ok(Replicated::new(reply, reached))
}

/// Sends a script to the node that has its keys; with `aside`, on a connection that is the caller's until it is dropped.
async fn follow(
    shared: &Arc<Shared>,
    mut call: Call,
    aside: bool,
) -> Result<(Reply, Option<ReplicaWaitConnection>), StoreError> {
    // Nothing is awaited before the request is queued, so requests for one node leave in the order of their first polls.
    let deadline = Instant::now() + call.timeout;
    let (slot, anywhere) = (request::slot(&call.item), call.item.keys.is_empty());
    let request = Outgoing::of(&mut call)?;
    let owner = || match (call.item.server, anywhere) {
        (Some(server), _) => {
            let gone = || StoreError::not_sent("this node has no slots any more");
            shared.node(server).ok_or_else(gone)
        }
        (None, true) => shared.any_node(),
        (None, false) => Ok(shared.owner(slot)?.1),
    };
    let (mut node, mut asking) = (owner()?, false);
    let (mut redirections, mut repeats) = (0, 0);
    loop {
        let sent = if aside {
            let sent = node.exchange_aside(&request, asking, deadline).await;
            sent.map(|(pooled, answer)| (pooled.connection(), answer, Some(pooled)))
        } else {
            let sent = if asking {
                node.ask(&request, deadline).await
            } else {
                node.exchange(&request, deadline).await
            };
            sent.map(|(connection, answer)| (connection, answer, None))
        };
        let (connection, answer, pooled) = sent.inspect_err(|error| {
            if error.outcome() != Outcome::Refused {
                shared.alarm.notify_one();
            }
        })?;
        let refusal = match answer {
            Ok(value) => {
                let reply = Reply::read(call.request, value).map_err(|bad| {
                    node.condemn(&connection);
                    StoreError::unknown(bad.to_string()).with_source(bad)
                });
                return Ok((reply?, pooled));
            }
            Err(refusal) => refusal,
        };
        if let Some(pooled) = pooled {
            pooled.give_back();
        }
        match Answer::read(refusal.message(), &node.endpoint) {
            Answer::Moved(endpoint) if redirections < REDIRECTIONS => {
                // The second time, the nodes do not agree yet.
                pause(redirections, deadline).await?;
                redirections += 1;
                shared.change(|map| map.hint(slot, &endpoint));
                shared.alarm.notify_one();
                (node, asking) = (owner()?, false);
            }
            Answer::Ask(endpoint) if redirections < REDIRECTIONS => {
                redirections += 1;
                let next = shared.node_at(&endpoint).ok_or_else(closed_error)?;
                (node, asking) = (next, true);
            }
            Answer::Moved(_) | Answer::Ask(_) => {
                return Err(StoreError::not_sent(format!(
                    "nobody admits to have slot {slot}"
                )));
            }
            Answer::TryAgain if repeats < REPEATS => {
                repeats += 1;
                pause(repeats, deadline).await?;
                (node, asking) = (owner()?, false);
            }
            Answer::NotNow => {
                shared.alarm.notify_one();
                return Err(refusal);
            }
            Answer::TryAgain | Answer::Other => return Err(refusal),
        }
    }
}

/// Waits a little the second time, longer each further time.
async fn pause(times: u32, deadline: Instant) -> Result<(), StoreError> {
    if times == 0 {
        return Ok(());
    }
    let pause = PAUSE * 2_u32.pow(times - 1);
    if Instant::now() + pause >= deadline {
        return Err(StoreError::not_sent("the slot is on its way"));
    }
    sleep(pause).await;
    Ok(())
}
