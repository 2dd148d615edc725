//! The checkers: what must hold at every step of a history. The first violation ends it.
//!
//! Here is which leases are valid, and which tokens they were given. [`latches`] is about what opens them, [`laws`] about what may be sent, [`majority`] about what
//! servers grant together, [`permits`] about how many hold a semaphore, [`progress`] about waiters that must be served, [`results`] about what has come of work, [`tokens`] about their order, [`turns`] about that of a queue.

mod latches;
mod laws;
mod leaders;
mod majority;
mod permits;
mod progress;
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
use super::kind::{Grant, KindModel, Standing};
use super::place::Place;
use super::plan::{Fault, Plan};
use super::trace::short;

use latches::Latches;
pub(super) use laws::claims;
use laws::{Item, Verb, items, labelled, replaced, verb};
use leaders::Leaders;
use majority::Majorities;
use turns::Waiter;

/// What the server's clock may be behind ours.
const ROUNDING: Duration = Duration::from_millis(5);

/// By how much a server's uptime may be short of the truth: it counts whole seconds, the last of which is not counted on.
const UPTIME_ROUNDING: Duration = Duration::from_secs(2);

/// Something that must not have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken, in two or three words.
    pub rule: &'static str,
    /// By whom and how.
    pub what: String,
}

/// A claim on one server: what a Redlock has on each of its servers has the same claim.
pub(super) type Id = (usize, String);

/// A lease that somebody was given.
#[derive(Debug)]
struct Held {
    name: usize,
    client: usize,
    lease: Lease,
    /// What it is to its holder.
    grant: Standing,
    /// How often its server had lost data when it was granted.
    era: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The names, each at its number.
    places: Vec<Place>,
    forgets: bool,
    /// What is asked for beyond the promises.
    beyond: Option<Beyond>,
    /// The server's clock never runs or steps back, and it forgets nothing.
    steady: bool,
    longest_ttl: Duration,
    /// How long every lease lasts on the server at least.
    certain: Duration,
    /// How often waiters in a queue heartbeat.
    heartbeat: Duration,
    /// For how long a waiter in a queue is alive after a sign of it, whatever the clocks do.
    alive: Duration,
    /// Clients that were closed or are gone: what they sent may still arrive.
    dead: BTreeSet<usize>,
    violation: Option<Violation>,
    /// How many leases somebody was given.
    grants: u64,
    /// By server: what was given up in the storm is gone when it is over, and not only what was granted later.
    settles: Vec<bool>,
    /// What was released may be back.
    late: bool,
    held: Vec<Held>,
    /// The last grant that the server answered with, by name.
    last: BTreeMap<usize, Grant>,
    /// The last of those that are not to read.
    last_write: BTreeMap<usize, Grant>,
    /// The first to have a token, by name and token.
    firsts: BTreeMap<(usize, u64), Grant>,
    /// How often the server of a name had lost data when a token was given.
    eras: BTreeMap<(usize, u64), u64>,
    /// How often each server has lost data, and when it did last.
    losses: Vec<(u64, Duration)>,
    /// Claims whose release the server has executed.
    released: BTreeSet<Id>,
    /// When the server last granted a claim.
    granted: BTreeMap<Id, Duration>,
    /// When the server last executed something that may have armed the lease of a claim.
    armed: BTreeMap<Id, Duration>,
    /// The largest token with which the resource behind a name was written.
    written: BTreeMap<usize, u64>,
    /// Owners that acquire or hold, how often.
    interest: BTreeMap<(usize, String), usize>,
    /// Owners that collect several names, by each: part of them may be held for long before anybody is given a lease.
    gathering: BTreeSet<(usize, String)>,
    /// How many wait, by name and client.
    waiting: BTreeMap<(usize, usize), usize>,
    /// Before when a client must ask for a name, because it was told of a gap.
    looks: BTreeMap<(usize, usize), Duration>,
    /// Since when a name is free with somebody waiting.
    idle: Vec<Option<Duration>>,
    /// When a claim of a name was last released.
    freed: Vec<Option<Duration>>,
    /// When waiters last lost their places because they ask for more than there is.
    dropped: Vec<Option<Duration>>,
    /// Since when a name is held by a claim that nobody wants.
    ghost: Vec<Option<(String, Duration)>>,
    /// Requests on their way, by claim.
    open: BTreeMap<Id, Vec<(u64, bool)>>,
    /// Claims for which a release was sent.
    releasing: BTreeSet<Id>,
    /// Claims for which anything was sent, by client.
    asked: BTreeSet<(usize, String)>,
    /// The claims that wait in the queue of a name, in the order in which they were told to.
    queues: Vec<Vec<Waiter>>,
    /// The grants of a name that stood on the server when a script that may change that was last run.
    stood: Vec<Vec<Standing>>,
    /// The limit of a semaphore that stood behind that script, and the one that stood at the last grant.
    limits: Vec<Option<u32>>,
    granted_in: Vec<Option<u32>>,
    /// The claims of all such grants, and their tokens.
    ever: BTreeSet<(String, u64)>,
    /// The grants of a name that nobody has heard of yet, and since when.
    unheard: Vec<Vec<(Standing, Duration)>>,
    /// What has come of work, ever, by name and token.
    results: BTreeMap<(usize, u64), String>,
    /// What a majority of the servers has granted.
    majorities: Majorities,
    /// Who leads, and who observes that.
    pub(super) leaders: Leaders,
    /// What is known of latches.
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
            // The server's clock runs or steps ahead by less than a twentieth of that.
            alive: match plan.beyond {
                Some(Beyond::Silence) => Duration::MAX,
                _ => plan.waiter_ttl.mul_f64(0.95),
            },
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

    /// A server has executed a request of a client.
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

    /// The name that has its main key on this server.
    fn name_of(&self, server: usize, main: &str) -> Option<usize> {
        let mut places = self.places.iter();
        places.position(|place| place.server == server && place.main == main)
    }

    /// A claim of a name.
    fn id(&self, name: usize, claim: &str) -> Id {
        (self.places[name].server, claim.to_owned())
    }

    /// What became of one claim of a request.
    fn answered(
        &mut self,
        (client, place): (usize, usize),
        name: usize,
        item: &Item<'_>,
        server: &MemoryStore,
        call: &Call,
        now: Duration,
    ) {
        let Place { model, main, .. } = &self.places[name];
        let (claim, owner) = (item.claim, owner_of(item.claim));
        match (verb(call), item.status) {
            (Verb::Acquire | Verb::Convert, Some(Status::Granted)) => {
                let next = Grant {
                    owner: owner.to_owned(),
                    claim: claim.to_owned(),
                    token: item.token,
                    reads: item.reads(),
                    permits: item.permits(),
                    from: now,
                    until: now + self.certain,
                };
                if !self.dead.contains(&client) {
                    self.granted.insert((place, next.claim.clone()), now);
                }
                self.follow(name, next);
            }
            (Verb::Release, Some(Status::Released | Status::NotHeld)) => {
                self.freed[name] = Some(now);
                self.released.insert((place, claim.to_owned()));
            }
            (Verb::Convert, Some(Status::Busy)) if model.holders(server, main).len() < 2 => {
                let what = format!("{} alone reads name{name}", short(claim));
                self.violate("a refusal without cause", what);
            }
            (Verb::Acquire, Some(Status::OverLimit))
                if self.limits[name].is_none_or(|limit| item.permits() <= limit) =>
            {
                let what = format!("{} fits in name{name}", short(claim));
                self.violate("a refusal without cause", what);
            }
            (Verb::Acquire, Some(Status::WouldDeadlock)) => {
                let holders = model.holders(server, main);
                if !holders.iter().any(|holder| owner_of(holder) == owner) {
                    let what = format!("{} would wait for nobody in name{name}", short(claim));
                    self.violate("a refusal without cause", what);
                }
            }
            _ => {}
        }
    }

    /// Whether a lease that was armed then must be over.
    fn is_over(&self, armed: Duration, now: Duration) -> bool {
        now > armed + self.longest_ttl + ROUNDING
    }

    /// A server has lost its last writes, or all.
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

    /// Whether a server has lost all within the longest ttl, so that no Redlock counts on it. It knows by its uptime.
    pub(super) fn keeps_one_out(&self, now: Duration) -> bool {
        let out = self.longest_ttl + UPTIME_ROUNDING;
        let mut losses = self.losses.iter();
        losses.any(|(count, lost)| *count > 0 && now <= *lost + out)
    }

    /// A server stood still for so long that releases may have been given up: those claims end by their ttl.
    pub(super) fn gave_up_releases(&mut self, server: usize) {
        self.settles[server] = false;
    }

    /// How often the server of a name has lost data, and when it did last.
    fn losses(&self, name: usize) -> (u64, Duration) {
        self.losses[self.places[name].server]
    }

    /// Somebody was given a lease.
    pub(super) fn given(&mut self, name: usize, client: usize, lease: &Lease, reads: bool) {
        self.grants += 1;
        let token = lease.fencing_token().get();
        let Some(&era) = self.eras.get(&(name, token)) else {
            let what = format!("token {token} was never given by the server");
            return self.violate("an invented token", what);
        };
        let grant = Standing {
            owner: lease.owner().to_string(),
            token,
            reads,
            permits: self.firsts.get(&(name, token)).map_or(0, |it| it.permits),
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
        if self.believes_to_lead(client, name) {
            // Those of its claims that wait stand in line.
            self.looks.remove(&(name, client));
        }
    }

    /// A host was given a lease by a majority.
    pub(super) fn given_by_majority(&mut self, host: usize, lease: &Lease) {
        self.grants += 1;
        if let Err(Violation { rule, what }) = self.majorities.granted(host, lease) {
            self.violate(rule, what);
        }
    }

    /// A client is closed or gone, and holds nothing any more.
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

    /// A holder writes to the resource behind the lock, or reads it.
    pub(super) fn touch(&mut self, name: usize, lease: &Lease, reads: bool) {
        if self.places[name].model == KindModel::Semaphore {
            // Those that hold together have different tokens.
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

    /// Looks at what is valid.
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
        let Place {
            server,
            main,
            model,
            ..
        } = &self.places[name];
        model.holders(&servers[*server], main)
    }

    /// What must be true when nobody works any more.
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

/// The owner in a claim.
fn owner_of(claim: &str) -> &str {
    claim.split('/').next().unwrap_or_default()
}
