//! Claims that one script can handle together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::part::Part;
use crate::seam::store::Store;
use crate::words::answer::Verb;
use crate::words::moment::Moment;

/// The most leases that one script renews. It takes some 50 µs on the server, and others wait for that long.
const MOST: usize = 100;

/// See the module documentation. Its request is fixed when it is built. If a claim changes before the batch is sent, no
/// other claim is affected.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) verb: Verb,
    pub(super) parts: Vec<Arc<Part>>,
    /// When the first of its claims was due.
    pub(super) due: Moment,
}

/// What the claims of a batch have in common. This includes the timeout: otherwise a lease that can wait longer for an
/// answer would depend on one that cannot.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    verb: Verb,
    /// The kind, if its names are shared with another library. Such a kind has scripts of its own.
    foreign: Option<&'static str>,
    inflated: bool,
    group: u32,
    timeout: Duration,
}

/// Collects claims into batches, each with the server of its keys. Claims of one batch keep their order, except that heartbeats of one
/// name follow one another: they share its keys. A claim whose acquire is repeated goes alone.
pub(super) fn gather(
    store: &dyn Store,
    due: impl IntoIterator<Item = (Verb, Moment, Arc<Part>)>,
) -> Vec<(u32, Batch)> {
    let mut gathered = Vec::new();
    let mut together: BTreeMap<Alike, Vec<(Moment, Arc<Part>)>> = BTreeMap::new();
    for (verb, due, part) in due {
        let protocol = &part.protocol;
        let group = store.group(protocol.name().main());
        if verb == Verb::Acquire {
            let parts = vec![part];
            gathered.push((store.server_of(group), Batch { verb, parts, due }));
            continue;
        }
        let alike = Alike {
            verb,
            foreign: protocol.foreign().map(|_| protocol.kind().as_str()),
            inflated: part.claim().may_be_inflated(),
            group,
            timeout: part.terms.timeout,
        };
        together.entry(alike).or_default().push((due, part));
    }
    for (alike, mut claims) in together {
        let (verb, server) = (alike.verb, store.server_of(alike.group));
        if verb == Verb::Heartbeat {
            claims.sort_by(|(_, a), (_, b)| a.protocol.name().cmp(b.protocol.name()));
        }
        let mut claims = claims.into_iter().peekable();
        while let Some(&(due, _)) = claims.peek() {
            let some = claims.by_ref().take(MOST);
            let (dues, parts): (Vec<Moment>, Vec<Arc<Part>>) = some.unzip();
            let due = dues.into_iter().fold(due, Moment::min);
            gathered.push((server, Batch { verb, parts, due }));
        }
    }
    gathered
}
