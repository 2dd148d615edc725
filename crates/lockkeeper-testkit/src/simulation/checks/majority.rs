//! What a lock by a majority of servers is granted, and what the servers have answered.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper::Lease;
use lockkeeper_core::store::{Call, Reply};
use lockkeeper_lua::{Status, redlock};

use crate::simulation::trace::Violation;

/// The state of one name.
#[derive(Debug, Default)]
pub(super) struct Majorities {
    /// The number of servers.
    servers: usize,
    /// The leases that may be valid, and their hosts.
    held: Vec<(usize, Lease)>,
    last: u64,
    /// The servers that have answered that a token is their last and that a claim of this owner holds with it.
    answered: BTreeMap<(String, u64), BTreeSet<usize>>,
}

impl Majorities {
    pub(super) fn new(servers: usize) -> Self {
        Self {
            servers,
            ..Self::default()
        }
    }

    /// Records a server's answer to a request.
    pub(super) fn answered(&mut self, place: usize, call: &Call, reply: &Reply) {
        let Call { item, .. } = call;
        let token = match (reply.status(), reply.fields()) {
            (Status::Granted, [token, ..]) if item.script.name == redlock::ACQUIRE.name => {
                token.as_i64().and_then(|token| token.try_into().ok())
            }
            (Status::Raised, _) => item.args.get(1).and_then(|token| token.parse().ok()),
            _ => None,
        };
        let claim = item.args.first().and_then(|claim| claim.split_once('/'));
        if let (Some((owner, _)), Some(token)) = (claim, token) {
            let owner = owner.to_owned();
            let servers = self.answered.entry((owner, token)).or_default();
            servers.insert(place);
        }
    }

    /// Records that a host was granted the lock.
    ///
    /// # Errors
    ///
    /// The rule that this breaks.
    pub(super) fn granted(&mut self, host: usize, lease: &Lease) -> Result<(), Violation> {
        let token = lease.fencing_token().get();
        self.held.retain(|(_, held)| held.ensure_held().is_ok());
        let other = self.held.first().map(|(other, _)| *other);
        let claim = (lease.owner().to_string(), token);
        let servers = self.answered.get(&claim).map_or(0, BTreeSet::len);
        let last = std::mem::replace(&mut self.last, token);
        self.held.push((host, lease.clone()));
        let violation = |rule, what| Err(Violation { rule, what });
        if let Some(other) = other.filter(|_| lease.ensure_held().is_ok()) {
            let what = format!("c{other} and c{host} with {token}");
            return violation("two holders", what);
        }
        if token <= last {
            let what = format!("{token} of c{host} after {last}");
            return violation("tokens out of order", what);
        }
        if servers <= self.servers / 2 {
            let what = format!("{servers} servers answered for {token} of c{host}");
            return violation("a grant without a majority", what);
        }
        Ok(())
    }
}
