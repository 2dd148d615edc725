//! Claims for which one script does the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::part::Part;
use crate::seam::store::Store;
use crate::words::answer::Verb;
use crate::words::moment::Moment;

/// How many leases one script renews at most: some 50 µs on the server, which others wait for.
const MOST: usize = 100;

/// See the module. What is done is fixed with the batch: a claim that changes before it is sent concerns no other.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) verb: Verb,
    pub(super) parts: Vec<Arc<Part>>,
    /// When the first of it was due.
    pub(super) due: Moment,
}

/// What the claims of a batch have in common. One timeout too, or the leases that can wait for an answer would depend on those
/// that cannot.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    verb: Verb,
    inflated: bool,
    group: u32,
    timeout: Duration,
}

/// Gathers claims into batches, each with the server that has its keys; of those that are alike the first come first. A claim
/// whose acquire is repeated goes alone.
pub(super) fn gather(
    store: &dyn Store,
    due: impl IntoIterator<Item = (Verb, Moment, Arc<Part>)>,
) -> Vec<(u32, Batch)> {
    let mut alone = Vec::new();
    let mut batches: BTreeMap<Alike, Vec<Batch>> = BTreeMap::new();
    for (verb, due, part) in due {
        let group = store.group(part.protocol.name().main());
        if verb == Verb::Acquire {
            let parts = vec![part];
            alone.push((store.server_of(group), Batch { verb, parts, due }));
            continue;
        }
        let alike = Alike {
            verb,
            inflated: part.claim().may_be_inflated(),
            group,
            timeout: part.terms.timeout,
        };
        let batches = batches.entry(alike).or_default();
        match batches.last_mut() {
            Some(batch) if batch.parts.len() < MOST => {
                batch.parts.push(part);
                batch.due = batch.due.min(due);
            }
            _ => {
                let parts = vec![part];
                batches.push(Batch { verb, parts, due });
            }
        }
    }
    let batches = batches.into_iter().flat_map(|(alike, batches)| {
        let server = store.server_of(alike.group);
        batches.into_iter().map(move |batch| (server, batch))
    });
    alone.into_iter().chain(batches).collect()
}
