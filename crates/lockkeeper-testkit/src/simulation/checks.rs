//! The checkers: the rules that every step of a history must keep. The first violation ends the history.
//!
//! This module checks which leases are valid and which tokens they have. The submodules check the rest:
//!
//! - [`latches`]: what opens a latch
//! - [`handovers`]: how often a client hands a name over among its own claims
//! - [`laws`]: what a client may send
//! - [`majority`]: what servers grant together
//! - [`permits`]: how many permits of a semaphore are held
//! - [`progress`]: that waiters are served
//! - [`requests`]: what requests and their replies say about claims
//! - [`results`]: the results of work
//! - [`tokens`]: the order of tokens
//! - [`turns`]: the order of a queue

mod handovers;
mod latches;
mod laws;
mod leaders;
mod majority;
mod permits;
mod progress;
mod requests;
mod results;
mod tokens;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockkeeper::{Lease, LeaseState};
use lockkeeper_core::store::{Call, Reply};
use lockkeeper_lua::Status;
use lockkeeper_memory::MemoryStore;

use super::beyond::Beyond;
use super::place::Place;
use super::plan::{Fault, Plan};
use super::trace::{Violation, short};
use crate::kinds::{Grant, Mode, Standing};

use handovers::Handovers;
use latches::Latches;
use leaders::Leaders;
use majority::Majorities;
pub use requests::changes_a_claim;
pub(super) use requests::{Id, Verb, claims, items, labelled, labels, replaced, verb};
use requests::{Item, Waiter};

/// How far the server's clock may be behind ours.
const ROUNDING: Duration = Duration::from_millis(5);

/// In the calm, how long a name may be free while a task waits for it, and how long an unwanted claim may hold it, beyond what
/// the kind allows: a few round trips and the jitter of waiters.
const PROMPTLY: Duration = Duration::from_millis(300);

/// How far a server's uptime may be below the truth: it counts whole seconds, and the last one may be incomplete.
const UPTIME_ROUNDING: Duration = Duration::from_secs(2);

/// A lease that a task was given.
#[derive(Debug)]
struct Held {
    name: usize,
    client: usize,
    lease: Lease,
    /// The grant as its holder knows it.
    grant: Standing,
    /// How often the server had lost data before the grant.
    era: u64,
}

/// The state of all checkers.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The names, by number.
    places: Vec<Place>,
    forgets: bool,
    /// What is checked beyond the promises.
    beyond: Option<Beyond>,
    /// The server's clock never steps back, and it forgets nothing.
    steady: bool,
    longest_ttl: Duration,
    /// The minimum time that a lease lasts on the server.
    certain: Duration,
    /// How often waiters in a queue heartbeat.
    heartbeat: Duration,
    /// Clients that were closed or are gone; their requests may still arrive.
    dead: BTreeSet<usize>,
    violation: Option<Violation>,
    /// How many leases tasks were given.
    grants: u64,
    /// By server: whether claims given up in the storm must be gone once it is over, and not only claims granted later.
    settles: Vec<bool>,
    /// Whether a released claim may come back.
    late: bool,
    held: Vec<Held>,
    /// The last grant in a reply of the server, by name.
    last: BTreeMap<usize, Grant>,
    /// The last such grant that is not a reader's.
    last_write: BTreeMap<usize, Grant>,
    /// The first grant with a token, by name and token.
    firsts: BTreeMap<(usize, u64), Grant>,
    /// How often the name's server had lost data when a token was granted.
    eras: BTreeMap<(usize, u64), u64>,
    /// How often each server has lost data, and when it last did.
    losses: Vec<(u64, Duration)>,
    /// Claims whose release the server has executed.
    released: BTreeSet<Id>,
    /// Until when the tombstone stands that a release has left.
    tombstones: BTreeMap<Id, Duration>,
    /// When the server last granted a claim.
    granted: BTreeMap<Id, Duration>,
    /// When the server last executed something that may have armed the lease of a claim.
    armed: BTreeMap<Id, Duration>,
    /// The largest token with which the resource behind a name was written.
    written: BTreeMap<usize, u64>,
    /// How many acquisitions and holds an owner has, by name and owner.
    interest: BTreeMap<(usize, String), usize>,
    /// Owners that acquire several names at once, by name: such an owner may hold part of them long before a task is given a
    /// lease.
    gathering: BTreeSet<(usize, String)>,
    /// How many acquisitions wait, by name and client.
    waiting: BTreeMap<(usize, usize), usize>,
    /// The time by which a client must ask for a name, because it was told that it may have missed messages.
    looks: BTreeMap<(usize, usize), Duration>,
    /// Since when a name has been free although a task waits for it.
    idle: Vec<Option<Duration>>,
    /// When a claim of a name was last released.
    freed: Vec<Option<Duration>>,
    /// When waiters last lost their places because they ask for more permits than there are.
    dropped: Vec<Option<Duration>>,
    /// A claim that holds a name although no task wants it, and since when.
    ghost: Vec<Option<(String, Duration)>>,
    /// Requests in flight, by claim.
    open: BTreeMap<Id, Vec<(u64, bool)>>,
    /// Claims for which a release was sent.
    releasing: BTreeSet<Id>,
    /// Claims for which a client has sent a request, by client.
    asked: BTreeSet<(usize, String)>,
    /// The claims that wait in the queue of a name, in the order in which the server told them to wait.
    queues: Vec<Vec<Waiter>>,
    /// The grants of a name on the server after the last script that may have changed them.
    stood: Vec<Vec<Standing>>,
    /// The limit of a semaphore after that script, and at the last grant.
    limits: Vec<Option<u32>>,
    granted_in: Vec<Option<u32>>,
    /// The claims of all grants so far, and their tokens.
    ever: BTreeSet<(String, u64)>,
    /// The grants of a name that no task knows of yet, and since when.
    unheard: Vec<Vec<(Standing, Duration)>>,
    /// The handovers in a row that a client makes, by name.
    handovers: BTreeMap<usize, Handovers>,
    /// All results of work so far, by name and token.
    results: BTreeMap<(usize, u64), String>,
    /// What majorities of the servers have granted.
    majorities: Majorities,
    /// The leaders and their observers.
    pub(super) leaders: Leaders,
    /// The state of latches.
    pub(super) latches: Latches,
}

impl Checks {
    pub(super) fn new(places: Vec<Place>, plan: &Plan) -> Self {
        let names = places.len();
        Self {
            places,
            forgets: plan.forgets,
            late: plan.late,
            beyond: plan.beyond,
            steady: !plan.forgets && !plan.faults.contains(&Fault::ClockBack),
            longest_ttl: plan.ttl,
            certain: plan.shortest_ttl() - plan.margin(),
            heartbeat: plan.heartbeat(),
            settles: vec![plan.servers > 1; plan.servers],
            losses: vec![(0, Duration::ZERO); plan.servers],
            idle: vec![None; names],
            freed: vec![None; names],
            dropped: vec![None; names],
            ghost: vec![None; names],
            queues: vec![Vec::new(); names],
            stood: vec![Vec::new(); names],
            limits: vec![None; names],
            granted_in: vec![None; names],
            unheard: vec![Vec::new(); names],
            majorities: Majorities::new(plan.servers),
            ..Self::default()
        }
    }

    pub(super) const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(super) const fn grants(&self) -> u64 {
        self.grants
    }

    pub(super) fn violate(&mut self, rule: &'static str, what: String) {
        self.violation.get_or_insert(Violation { rule, what });
    }

    /// Records that a server has executed a client's request.
    pub(super) fn executed(
        &mut self,
        client: usize,
        call: &Call,
        reply: &Reply,
        (place, server): (usize, &MemoryStore),
        now: Duration,
    ) {
        let verb = verb(call);
        if !matches!(verb, Verb::Release | Verb::Other) {
            for claim in claims(call) {
                self.armed.insert((place, claim.to_owned()), now);
            }
        }
        self.look_at_turns(call, reply, (place, server), now);
        self.look_at_latch((client, place), call, reply, server, now);
        self.majorities.answered(place, call, reply);
        if verb == Verb::Convert
            && matches!(reply.status(), Status::Granted | Status::More)
            && let Some(old) = replaced(call)
        {
            self.released.insert((place, old.to_owned()));
        }
        for item in items(call, reply) {
            if let Some(name) = self.name_of(place, item.main) {
                self.look_at_result(name, &item, server, call, now);
                self.answered((client, place), name, &item, server, call, now);
            }
        }
    }

    /// The name with this main key on this server.
    fn name_of(&self, server: usize, main: &str) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|place| place.server == server && place.main == main)
    }

    /// Identifies a claim of a name.
    fn id(&self, name: usize, claim: &str) -> Id {
        (self.places[name].server, claim.to_owned())
    }

    /// Records the outcome of one claim of a request.
    fn answered(
        &mut self,
        (client, place): (usize, usize),
        name: usize,
        item: &Item<'_>,
        server: &MemoryStore,
        call: &Call,
        now: Duration,
    ) {
        let shown = self.places[name].on(server);
        let (claim, owner) = (item.claim, owner_of(item.claim));
        match (verb(call), item.status) {
            (Verb::Acquire | Verb::Convert, Some(Status::Granted)) => {
                let next = Grant {
                    owner: owner.to_owned(),
                    claim: claim.to_owned(),
                    token: item.token,
                    mode: item.mode(),
                    from: now,
                    until: now + self.certain,
                };
                if !self.dead.contains(&client) {
                    self.granted.insert((place, next.claim.clone()), now);
                }
                self.follow(name, next);
            }
            (Verb::Release, Some(Status::Released | Status::Dropped | Status::NotHeld)) => {
                self.freed[name] = Some(now);
                self.released.insert((place, claim.to_owned()));
                if !item.tombstone_ttl.is_zero() {
                    let until = now + item.tombstone_ttl;
                    self.tombstones.insert((place, claim.to_owned()), until);
                }
            }
            (Verb::Convert, Some(Status::Busy)) if shown.holders().len() < 2 => {
                let what = format!("{} alone reads name{name}", short(claim));
                self.violate("a refusal without cause", what);
            }
            (Verb::Acquire, Some(Status::OverLimit))
                if self.limits[name]
                    .is_none_or(|limit| u32::from(item.mode().permits()) <= limit) =>
            {
                let what = format!("{} fits in name{name}", short(claim));
                self.violate("a refusal without cause", what);
            }
            (Verb::Acquire, Some(Status::WouldDeadlock)) => {
                let holders = shown.holders();
                if !holders.iter().any(|holder| owner_of(holder) == owner) {
                    let what = format!("{} would wait for nobody in name{name}", short(claim));
                    self.violate("a refusal without cause", what);
                }
            }
            _ => {}
        }
    }

    /// Whether a lease armed at `armed` must have ended.
    fn is_over(&self, armed: Duration, now: Duration) -> bool {
        now > armed + self.longest_ttl + ROUNDING
    }

    /// Records that a server has lost its last writes, or all of its data.
    pub(super) fn forgot(&mut self, server: usize, now: Duration) {
        self.losses[server] = (self.losses[server].0 + 1, now);
        for (name, place) in self.places.iter().enumerate() {
            if place.server == server {
                self.queues[name].clear();
                self.stood[name].clear();
                self.limits[name] = None;
            }
        }
    }

    /// Whether a server has lost all data within the longest ttl, so that a Redlock must not count it. It knows that from its
    /// uptime.
    pub(super) fn keeps_one_out(&self, now: Duration) -> bool {
        let out = self.longest_ttl + UPTIME_ROUNDING;
        let mut losses = self.losses.iter();
        losses.any(|(count, lost)| *count > 0 && now <= *lost + out)
    }

    /// Records that a server was frozen long enough for clients to give up on releases: those claims end by their ttl.
    pub(super) fn gave_up_releases(&mut self, server: usize) {
        self.settles[server] = false;
    }

    /// How often the server of a name has lost data, and when it last did.
    fn losses(&self, name: usize) -> (u64, Duration) {
        self.losses[self.places[name].server]
    }

    /// Records that a task was given a lease.
    pub(super) fn given(&mut self, name: usize, client: usize, lease: &Lease, reads: bool) {
        self.grants += 1;
        let token = lease.fencing_token().get();
        let Some(&era) = self.eras.get(&(name, token)) else {
            let what = format!("token {token} was never given by the server");
            return self.violate("an invented token", what);
        };
        let mode = match self.firsts.get(&(name, token)).map(|it| it.mode) {
            Some(permits @ Mode::Permits { .. }) => permits,
            _ if reads => Mode::Read,
            _ => Mode::Write,
        };
        let grant = Standing {
            owner: lease.owner().to_string(),
            token,
            mode,
            claims: Vec::new(),
        };
        self.unheard[name].retain(|(other, _)| !grant.is_one_with(other));
        self.held.push(Held {
            name,
            client,
            lease: lease.clone(),
            grant,
            era,
        });
        if self.has_valid_lead(client, name) {
            // The waiting claims of this client are in its local queue.
            self.looks.remove(&(name, client));
        }
    }

    /// Records that a host was given a lease by a majority.
    pub(super) fn given_by_majority(&mut self, host: usize, lease: &Lease) {
        self.grants += 1;
        if let Err(Violation { rule, what }) = self.majorities.granted(host, lease) {
            self.violate(rule, what);
        }
    }

    /// Records that a client is closed or gone and holds nothing any more.
    pub(super) fn died(&mut self, client: usize) {
        self.dead.insert(client);
        self.held.retain(|held| held.client != client);
        self.looks.retain(|(_, waiting), _| *waiting != client);
    }

    /// How many leases of a client are valid.
    pub(super) fn valid(&self, client: usize) -> usize {
        let mine = self.held.iter().filter(|held| held.client == client);
        mine.filter(|held| is_valid(&held.lease)).count()
    }

    /// Records that a holder writes to the resource behind the lock, or reads it.
    pub(super) fn touch(&mut self, name: usize, lease: &Lease, reads: bool) {
        if self.places[name].model.has_permits() {
            // Holders at the same time have different tokens.
            return;
        }
        let token = lease.fencing_token().get();
        let last = self.written.entry(name).or_default();
        if token >= *last {
            *last = if reads { *last } else { token };
        } else if self.beyond == Some(Beyond::LateWrite) || !self.forgets && is_valid(lease) {
            let what = format!("a holder with token {token} comes after {last}");
            self.violate("a stale holder", what);
        }
    }

    /// Checks the leases that are valid now.
    pub(super) fn look(&mut self, now: Duration) {
        self.held.retain(|held| is_valid(&held.lease));
        self.look_for_overlap(now);
        self.look_for_permits(now);
        self.look_for_the_deaf(now);
    }

    fn look_for_overlap(&mut self, now: Duration) {
        let mut overlap = None;
        for (index, one) in self.held.iter().enumerate() {
            let others = &self.held[index + 1..];
            for other in others.iter().filter(|other| other.name == one.name) {
                let (_, lost) = self.losses(one.name);
                let excused = self.beyond != Some(Beyond::LostWrites)
                    && one.era != other.era
                    && now <= lost + self.longest_ttl;
                let model = &self.places[one.name].model;
                if !excused && !model.together(&one.grant, &other.grant) {
                    overlap = Some(format!(
                        "name{} is held by client {} with {} and by client {} with {}",
                        one.name,
                        one.client,
                        one.lease.fencing_token(),
                        other.client,
                        other.lease.fencing_token()
                    ));
                }
            }
        }
        if let Some(what) = overlap {
            self.violate("two holders", what);
        }
    }

    /// The claims that hold a name.
    pub(super) fn holders(&self, servers: &[MemoryStore], name: usize) -> Vec<String> {
        let place = &self.places[name];
        place.on(&servers[place.server]).holders()
    }

    /// Checks what must be true when all tasks have ended.
    pub(super) fn look_at_end(&mut self, servers: &[MemoryStore]) {
        if let Some(held) = self.held.iter().find(|held| is_valid(&held.lease)) {
            let what = format!("client {} holds name{}", held.client, held.name);
            self.violate("a lease without guard", what);
        }
        for name in 0..self.idle.len() {
            if let Some(claim) = self.holders(servers, name).first() {
                let what = format!("{} still holds name{name}", short(claim));
                self.violate("a claim left behind", what);
            }
        }
        if let Some((_, claim)) = self.open.keys().next() {
            let what = format!("for {}", short(claim));
            self.violate("a request under way at the end", what);
        }
    }
}

fn is_valid(lease: &Lease) -> bool {
    matches!(lease.state(), LeaseState::Held | LeaseState::Uncertain)
}

/// The owner part of a claim.
fn owner_of(claim: &str) -> &str {
    claim.split('/').next().unwrap_or_default()
}
