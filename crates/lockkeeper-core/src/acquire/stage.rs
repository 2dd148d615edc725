//! One stage of an acquisition: the names that are asked for together, and what the replies mean.
//!
//! One script takes all names of a stage or none. If others hold one of them or wait for it, an acquisition that waits
//! takes the stage [apart](Stage::apart): it acquires the names one after the other, in their order, each from its own
//! queue, and holds the earlier ones meanwhile. Why: docs/decisions/0028.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;

use crate::acquire::options::Options;
use crate::acquire::plan::{Plan, Target};
use crate::claim::Verdict;
use crate::engine::Engine;
use crate::engine::part::{Floor, Part};
use crate::engine::pass::Pass;
use crate::engine::requester::Failed;
use crate::engine::settings::{SHORTEST, check_time};
use crate::engine::terms::Terms;
use crate::engine::unreleased::Unreleased;
use crate::grant::hold::Hold;
use crate::quorum::Quorum;
use crate::seam::clock::Clock;
use crate::seam::protocol::Protocol;
use crate::words::error::{Error, Result};
use crate::words::moment::Moment;
use crate::words::owner::Owner;
use crate::words::record::Record;
use crate::words::store_error::StoreError;
use crate::words::token::FencingToken;

/// How many requests an acquisition that does not wait sends at most: one, and one more if the first got no usable
/// answer.
pub(super) const TRIES: u32 = 2;

/// A request to one of several servers may take at most the ttl divided by this: a round needs two requests one after
/// the other, and the holder loses that time.
const REQUESTS_PER_TTL: u32 = 10;

/// What a part of the grant is to be: one name, with its server and its owner.
#[derive(Clone)]
pub(super) struct PartSpec {
    pub(super) engine: Arc<Engine>,
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) owner: Owner,
    pub(super) terms: Terms,
    /// The server's name in errors, if there are several servers.
    pub(super) server: Option<Arc<str>>,
    /// That of its first claim. If that claim still holds on the server, an owner that may hold again gets its token.
    pub(super) floor: Floor,
}

/// The names that are asked for together: one, several by one script, or one on a majority of servers.
pub(super) struct Stage {
    pub(super) specs: Vec<PartSpec>,
    pub(super) quorum: Option<Quorum>,
    /// How long the servers may be unreachable: one ttl, because no lease of this client could outlive that, or the
    /// caller's time limit if it is longer.
    pub(super) patience: Duration,
    /// The note for its claims.
    pub(super) note: Option<Arc<str>>,
    /// Others hold the lock or wait for it: other acquisitions of its client may be polling its names.
    pub(super) contended: AtomicBool,
}

/// The outcome of an attempt to acquire a stage.
pub(super) enum Asked {
    Granted(Hold),
    /// Others hold.
    Busy(Busy),
    /// One script cannot acquire these names together: acquire them one after the other.
    Apart,
    /// The claim stands in the queue.
    Waiting,
    /// There is nothing to hold: the work of the name is done, or has failed.
    Done(Arc<Record>),
    /// The outcome is unknown, or nobody may hold now: ask again. The error is for an acquisition that does not ask
    /// again.
    Again {
        error: Error,
        /// Too few servers have answered. An acquisition gives up if that lasts for too long.
        silent: bool,
    },
}

/// What is in the way.
pub(super) struct Busy {
    /// The parts that others hold, and until when, if known.
    pub(super) specs: Vec<(usize, Option<Moment>)>,
    /// When the stage may be free, as far as known.
    pub(super) until: Option<Moment>,
    /// Other callers asked at the same moment and nobody got the lock.
    pub(super) contended: bool,
}

impl Busy {
    /// The first part that others hold.
    pub(super) fn first(&self) -> usize {
        self.specs.first().map_or(0, |(spec, _)| *spec)
    }
}

impl Stage {
    /// The stages of a plan. Also returns how long the names must stay unavailable to others once everything is held, if no
    /// single claim can ensure that.
    pub(super) fn of_plan(
        plan: &Plan,
        options: &Options,
        note: Option<&Arc<str>>,
        wait: Option<Duration>,
        waits: bool,
    ) -> Result<(Vec<Arc<Self>>, Option<Duration>)> {
        let stages = match plan {
            Plan::One(target) => vec![(std::slice::from_ref(target), None)],
            Plan::All(stages) => stages.iter().map(|it| (&it[..], None)).collect(),
            Plan::Majority(majority) => vec![(&majority.targets[..], Some(majority.quorum))],
        };
        let mut options = *options;
        if let Plan::Majority(majority) = plan {
            let defaults = majority.targets.iter().map(|it| it.engine.settings.ttl);
            let ttl = options.ttl.or(defaults.min()).unwrap_or_default();
            let longest = majority.longest;
            check_time("longest_ttl", longest, SHORTEST)?;
            if ttl > longest {
                return Err(Error::config(format!(
                    "a ttl of {ttl:?} is longer than this lock's longest ttl of {longest:?}, for which a restarted server stays out: raise that in every process"
                )));
            }
            options.ttl = Some(ttl);
        }
        let names = stages.iter().filter(|(_, quorum)| quorum.is_none());
        let several = names.map(|(targets, _)| targets.len()).sum::<usize>() > 1;
        let mut owners = Owners::default();
        let mut made = Vec::new();
        for (targets, quorum) in stages {
            if targets.is_empty() {
                continue;
            }
            let mut specs: Vec<PartSpec> = Vec::with_capacity(targets.len());
            for target in targets {
                let shared = quorum.and_then(|_| specs.first().map(|spec| spec.owner));
                let mut spec = PartSpec::new(target, shared, &options, &mut owners)?;
                if several || options.min_replicas > 0 {
                    // If a part is released before everything is held, no cooldown starts.
                    spec.terms.min_hold = None;
                }
                spec.terms.wait_until =
                    wait.map(|wait| spec.engine.requester.clock.now().after(wait));
                if !waits {
                    spec.terms.queue_limit = Some(0);
                }
                spec.terms.in_cohort =
                    quorum.is_none() && targets.len() == 1 && spec.protocol.has_cohorts();
                if quorum.is_some() {
                    let longest = spec.terms.ttl / REQUESTS_PER_TTL;
                    spec.terms.timeout = spec.terms.timeout.min(longest);
                    spec.server = Some(label(specs.len() + 1, &spec.engine));
                }
                specs.push(spec);
            }
            let ttl = specs.iter().map(|spec| spec.terms.ttl).min();
            let patience = ttl.unwrap_or_default().max(wait.unwrap_or_default());
            made.push(Arc::new(Self {
                specs,
                quorum,
                patience,
                note: note.cloned(),
                contended: AtomicBool::new(false),
            }));
        }
        check_queue_limit(&made, options.max_queue)?;
        let deferred = several || options.min_replicas > 0;
        Ok((made, options.min_hold.filter(|_| deferred)))
    }

    /// One stage for each of its names, to acquire them one after the other.
    pub(super) fn apart(&self) -> impl DoubleEndedIterator<Item = Arc<Self>> {
        let alone = |spec: &PartSpec| {
            Arc::new(Self {
                specs: vec![spec.clone()],
                quorum: None,
                patience: self.patience,
                note: self.note.clone(),
                contended: AtomicBool::new(false),
            })
        };
        self.specs.iter().map(alone)
    }

    /// Whether one script can ask for all of its names.
    pub(super) fn can_be_asked_for_together(&self) -> bool {
        let joint = |spec: &PartSpec| spec.protocol.joint().is_some();
        self.specs.len() == 1 || self.specs.iter().all(joint)
    }

    /// Whether other acquisitions of its clients poll one of its names and must not be overtaken.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded = |spec: &PartSpec| {
            let protocol = &spec.protocol;
            let passes = self.quorum.is_none() && protocol.reenters();
            let polls = protocol.queue().is_none() && !passes;
            polls && spec.engine.subscriptions.crowded(&protocol.channel())
        };
        self.specs.iter().any(crowded)
    }

    /// Whether one script asks for several names.
    pub(super) fn is_of_several(&self) -> bool {
        self.quorum.is_none() && self.specs.len() > 1
    }

    /// The terms of the next claim of this part.
    pub(super) fn terms(&self, spec: &PartSpec) -> Terms {
        let subscriptions = &spec.engine.subscriptions;
        let contended = self.contended.load(Ordering::Relaxed);
        let polled = spec.protocol.queue().is_none()
            && (contended || subscriptions.crowded(&spec.protocol.channel()));
        let refusals = &spec.engine.requester.refusals;
        let expects_others = spec.protocol.takes()
            && (spec.terms.expects_others
                || contended
                || polled
                || refusals.expect_others(spec.protocol.name()));
        Terms {
            polled,
            expects_others,
            ..spec.terms
        }
    }

    pub(super) fn first(&self) -> &PartSpec {
        // A stage has at least one part.
        &self.specs[0]
    }

    /// The names of the stage.
    pub(super) fn names(&self) -> Vec<&str> {
        let names = self.specs.iter().map(|spec| spec.protocol.name().as_str());
        names
            .take(if self.quorum.is_some() { 1 } else { usize::MAX })
            .collect()
    }

    pub(super) fn is_of_one_name(&self) -> bool {
        self.specs.len() == 1 || self.quorum.is_some()
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.first().engine.requester.clock
    }

    /// How many of its clients may be closed at most if it is to be acquired.
    pub(super) fn may_be_closed(&self) -> usize {
        self.quorum
            .map_or(0, |quorum| quorum.servers() - quorum.size())
    }

    /// Its clients: one, or one for each server.
    pub(super) fn engines(&self) -> impl Iterator<Item = &Arc<Engine>> {
        let clients = match self.quorum {
            Some(quorum) => quorum.servers(),
            None => 1,
        };
        self.specs.iter().map(|spec| &spec.engine).take(clients)
    }

    /// Passes of its clients.
    pub(super) fn enter(&self) -> Result<Vec<Pass>> {
        let passes = self.engines().filter_map(|engine| engine.enter().ok());
        let passes: Vec<Pass> = passes.collect();
        match passes.len() + self.may_be_closed() < self.engines().count() {
            true => Err(Error::Closed),
            false => Ok(passes),
        }
    }

    /// Whether its clients have pending releases of one of its names.
    pub(super) fn is_being_left(&self) -> bool {
        let left = |spec: &PartSpec| spec.engine.releaser.departing(&[spec.protocol.name()]);
        self.specs.iter().any(|spec| left(spec).is_some())
    }

    /// Waits until its clients' pending releases of its names are done, for `longest` each or for one request's
    /// timeout. For several servers a majority is enough.
    pub(super) async fn departed(&self, longest: Option<Duration>) {
        let departing = self.specs.iter().map(async |spec| {
            let longest = longest.unwrap_or(spec.terms.timeout);
            spec.engine.departed(&[spec.protocol.name()], longest).await;
        });
        match self.quorum {
            None => drop(join_all(departing).await),
            Some(quorum) => {
                let mut departing: FuturesUnordered<_> = departing.collect();
                let mut free = 0;
                while !quorum.is_reached(free) && departing.next().await.is_some() {
                    free += 1;
                }
            }
        }
    }

    /// Whether its claim waits in a queue on the server.
    pub(super) fn queues(&self) -> bool {
        self.specs.len() == 1 && self.first().protocol.queue().is_some()
    }

    /// The name of a part.
    pub(super) fn name(&self, spec: usize) -> String {
        let spec = self.specs.get(spec);
        spec.map_or_else(String::new, |spec| spec.protocol.name().to_string())
    }

    /// The error when there is nothing to hold.
    pub(super) fn done(&self, record: Arc<Record>) -> Error {
        let name = self.name(0);
        Error::Done { name, record }
    }

    pub(super) fn backend(&self, spec: usize, doing: &str, error: StoreError) -> Error {
        let name = self.name(spec);
        let with_it = match self.names().len() {
            1 => String::new(),
            names => format!(" and {} more with it", names - 1),
        };
        Error::backend(format!("{doing} lock {name:?}{with_it}"), error)
    }

    pub(super) fn protocol_error(&self, spec: usize, message: String) -> Error {
        Error::protocol(self.name(spec), message)
    }

    pub(super) fn wrong_kind(&self, spec: usize) -> Error {
        let protocol = &self.specs[spec].protocol;
        let name = protocol.name();
        Error::wrong_kind(name.as_str(), protocol.kind().as_str(), name.main())
    }

    /// Makes new claims for the parts, which one script asks for. The claims, and the duty to release them, exist before
    /// anything is sent.
    pub(super) fn arm(&self) -> Unreleased {
        let engine = &self.first().engine;
        let arm = |spec: &PartSpec| {
            let id = engine.claim(spec.owner);
            let terms = self.terms(spec);
            let part = engine.arm(id, &spec.protocol, terms, self.note.clone(), None);
            if let Some(floor) = spec.floor.get() {
                part.floor.set(floor);
            }
            part
        };
        Unreleased {
            engine: Arc::clone(engine),
            parts: self.specs.iter().map(arm).collect(),
            server: None,
        }
    }

    /// What the answers to one request for all parts mean together.
    pub(super) fn read(&self, outcomes: Vec<std::result::Result<Verdict, Failed>>) -> Result<Read> {
        let (mut tokens, mut busy) = (Vec::new(), Vec::new());
        let (mut spent, mut apart) = (false, false);
        for (spec, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(Verdict::Granted(token)) => tokens.push(token),
                Ok(Verdict::Busy(left)) => busy.push((spec, left)),
                Ok(Verdict::Free) => {}
                Ok(Verdict::More) if self.is_of_several() => apart = true,
                Ok(Verdict::Waiting(place)) => {
                    tracing::debug!(place, "in the queue");
                    return Ok(Read::Waiting);
                }
                Ok(Verdict::QueueFull(length)) => {
                    let name = self.name(spec);
                    return Err(Error::QueueFull { name, length });
                }
                // A claim id is used once; what these claims may still hold is released when they are dropped.
                Ok(Verdict::Stale) => spent = true,
                Ok(Verdict::WrongKind) => return Err(self.wrong_kind(spec)),
                Ok(Verdict::WouldDeadlock) => {
                    return Err(Error::WouldDeadlock {
                        name: self.name(spec),
                    });
                }
                Ok(Verdict::OverLimit(limit)) => {
                    let name = self.name(spec);
                    return Err(Error::OverLimit { name, limit });
                }
                Ok(verdict) => {
                    let message = format!("unexpected answer to an acquire: {verdict:?}");
                    return Err(self.protocol_error(spec, message));
                }
                Err(Failed::Forbidden(reason)) => {
                    let message = format!("the claim may not acquire now: {reason:?}");
                    return Err(self.protocol_error(spec, message));
                }
                Err(Failed::Store(error)) if error.is_transient() => {
                    return Ok(Read::Silent(self.backend(0, "acquire", error)));
                }
                Err(Failed::Store(error)) => return Err(self.backend(spec, "acquire", error)),
            }
        }
        if spent {
            let late = StoreError::unknown(self.first().terms.too_late());
            Ok(Read::Spent(self.backend(0, "acquire", late)))
        } else if apart {
            Ok(Read::Apart)
        } else if tokens.len() == self.specs.len() {
            Ok(Read::Granted(tokens))
        } else if busy.is_empty() || !tokens.is_empty() {
            let message = "some of several claims were granted".to_owned();
            Err(self.protocol_error(0, message))
        } else {
            Ok(Read::Busy(busy))
        }
    }
}

/// What several answers mean together.
pub(super) enum Read {
    Granted(Vec<FencingToken>),
    Busy(Vec<(usize, Option<Duration>)>),
    Apart,
    Waiting,
    Spent(Error),
    Silent(Error),
}

impl PartSpec {
    /// Whether this claim was made for it.
    pub(super) fn asked_by(&self, part: &Part) -> bool {
        let same_server = Arc::ptr_eq(&self.engine.requester, &part.requester);
        same_server && self.protocol.name() == part.protocol.name()
    }

    fn new(
        target: &Target,
        shared: Option<Owner>,
        options: &Options,
        owners: &mut Owners,
    ) -> Result<Self> {
        let (engine, protocol) = (Arc::clone(&target.engine), Arc::clone(target.protocol()?));
        // A caller that names an owner may hold the lock already.
        let nested = options.owner.is_some();
        let owner = target.own_owner().or(options.owner);
        let options = Options { owner, ..*options };
        let mut terms = options.terms(&engine, &*protocol)?;
        terms.expects_others = nested && protocol.reenters();
        Ok(Self {
            terms,
            owner: owner.or(shared).unwrap_or_else(|| owners.of(&engine)),
            engine,
            protocol,
            server: None,
            floor: Floor::none(),
        })
    }
}

/// New owners, one for each client.
#[derive(Default)]
struct Owners(Vec<(u128, Owner)>);

impl Owners {
    fn of(&mut self, engine: &Engine) -> Owner {
        let client = engine.id.as_u128();
        let known = self.0.iter().find(|(known, _)| *known == client);
        known.map(|(_, owner)| *owner).unwrap_or_else(|| {
            let owner = engine.new_owner();
            self.0.push((client, owner));
            owner
        })
    }
}

fn check_queue_limit(stages: &[Arc<Stage>], limit: Option<u64>) -> Result<()> {
    let queues = |spec: &PartSpec| spec.protocol.queue().is_some();
    if limit.is_some() && !stages.iter().flat_map(|it| &it.specs).any(queues) {
        let kind = stages.first().map(|stage| stage.first().protocol.kind());
        let kind = kind.map_or("", |kind| kind.as_str());
        return Err(Error::config(format!(
            "a {kind} lock has no queue that max_queue could bound"
        )));
    }
    if limit == Some(0) {
        return Err(Error::config(
            "a max_queue of zero never waits: use try_acquire",
        ));
    }
    Ok(())
}

/// The name in errors of the server at this place of the list, counted from 1.
fn label(number: usize, engine: &Engine) -> Arc<str> {
    let address = engine.requester.store.address();
    match address.is_empty() {
        true => format!("server {number}").into(),
        false => format!("server {number} ({address})").into(),
    }
}
