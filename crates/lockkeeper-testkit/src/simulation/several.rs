//! Several locks at once, of two servers, in histories of their own: what the engine does around many names is not seen in a
//! world of one server and one name per lock.
//!
//! Several processes with a client for each server take random sets of mutexes, re-entrant, fair and read-write locks. In the
//! storm requests and answers are late or lost and names are revoked; then the weather is fair. What must hold: nobody believes
//! in a name beside another, tokens of a name grow, a claim lives once and does not come back, what a release or a loss leaves
//! behind is gone long before a lease ends as soon as the servers answer, and in the end everybody has been served and nothing
//! is held.

mod way;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, MultiGuard};
use lockkeeper_core::protocol::Answer;
use lockkeeper_core::store::{Call, Reply, StoreError, Value};
use lockkeeper_memory::MemoryStore;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

use super::checks::{Violation, claims};
use super::run::Outcome;
use super::trace::{Trace, short};
use way::Way;
use work::Worker;

/// How it is called on the command line.
pub const SEVERAL: &str = "multi";

const CLIENTS: u64 = 3;
const TASKS: u64 = 2;
const TTL: Duration = Duration::from_secs(60);
const WAITER_TTL: Duration = Duration::from_secs(3);
/// How long the weather is bad.
const STORM: Duration = Duration::from_secs(40);
/// By when what nobody holds is gone once the servers answer: before a lease that nobody leaves for would have ended.
const SETTLED: Duration = Duration::from_secs(8);
/// Where the servers' clocks begin, µs since the Unix epoch: any time, but always the same.
const BEGINNING: i64 = 1_700_000_000_000_000;

/// The two servers, by name.
const STORES: [&str; 2] = ["north", "south"];

/// What must not be ends the history.
type Checked = Result<(), Violation>;

fn violation<T>(rule: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { rule, what })
}

/// What all parts of one history share. One thread runs it all, so no lock here is ever waited for.
struct History {
    beginning: Instant,
    calm: Instant,
    state: Mutex<State>,
}

struct State {
    trace: Trace,
    requests: u64,
    /// Who believes in a name.
    believers: BTreeMap<String, u64>,
    /// The last token of each name.
    tokens: BTreeMap<String, u64>,
    /// Claims for which a leave was sent.
    leaving: BTreeSet<String>,
    /// Claims whose leave was executed.
    left: BTreeSet<String>,
    /// The first violation that was seen on the way to a server.
    violation: Option<Violation>,
}

impl History {
    fn new(keep_lines: bool) -> Arc<Self> {
        let beginning = Instant::now();
        Arc::new(Self {
            beginning,
            calm: beginning + STORM,
            state: Mutex::new(State {
                trace: Trace::new(keep_lines),
                requests: 0,
                believers: BTreeMap::new(),
                tokens: BTreeMap::new(),
                leaving: BTreeSet::new(),
                left: BTreeSet::new(),
                violation: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, event: fmt::Arguments<'_>) {
        let now = self.beginning.elapsed();
        self.state().trace.tell(now, event);
    }

    fn is_calm(&self) -> bool {
        Instant::now() >= self.calm
    }

    /// A guard has been granted to a task: every member is its alone, with a token that is new.
    fn granted(&self, task: u64, guard: &MultiGuard, clients: &[Client; 2]) -> Checked {
        for lease in guard.leases() {
            let (store, token) = (store_of(clients, lease.owner()), lease.fencing_token());
            let name = format!("{store}/{}", lease.name());
            self.tell(format_args!("task {task} holds {name} with {token}"));
            let mut state = self.state();
            if let Some(other) = state.believers.insert(name.clone(), task) {
                let what = format!("{name} is believed in by {other} and {task}");
                return violation("two holders", what);
            }
            let last = state.tokens.insert(name.clone(), token.get());
            if last.is_some_and(|last| last >= token.get()) {
                return violation(
                    "token order",
                    format!("{name}: token {token} after {last:?}"),
                );
            }
        }
        Ok(())
    }

    /// The task believes no longer.
    fn ended(&self, task: u64) {
        self.tell(format_args!("task {task} believes no longer"));
        let mut state = self.state();
        state.believers.retain(|_, believer| *believer != task);
    }

    /// A request is sent: for a claim that leaves nothing but leaves may be.
    fn sent(&self, store: &str, call: &Call) {
        let script = call.item.script.name;
        let about: Vec<String> = claims(call).into_iter().map(short).collect();
        self.tell(format_args!("to the {store}: {script} {}", about.join(" ")));
        let mut state = self.state();
        state.requests += 1;
        for claim in claims(call) {
            if script.contains("leave") {
                state.leaving.insert(claim.to_owned());
            } else if state.leaving.contains(claim) && !script.contains("verify") {
                let what = format!("{script} is sent for {}, which has left", short(claim));
                let rule = "a claim lives once";
                state.violation.get_or_insert(Violation { rule, what });
            }
        }
    }

    /// A server has executed a request: what has left does not come back.
    fn executed(&self, store: &str, call: &Call, answer: &Result<Reply, StoreError>) {
        let script = call.item.script;
        let Ok(reply) = answer else {
            return self.tell(format_args!("the {store} refuses {}", script.name));
        };
        self.tell(format_args!(
            "the {store}: {} {:?}",
            script.name,
            reply.fields()
        ));
        let mut state = self.state();
        for (place, claim) in claims(call).into_iter().enumerate() {
            let outcome = if script.batch {
                reply.field(place).and_then(Answer::of_item)
            } else {
                Answer::read(reply)
            };
            match outcome {
                Some(Answer::Left { .. } | Answer::Kept { .. } | Answer::NotHeld { .. }) => {
                    state.left.insert(claim.to_owned());
                }
                Some(Answer::Granted(_)) if state.left.contains(claim) => {
                    let what = format!("{} by {}", short(claim), script.name);
                    let rule = "back after its leave";
                    state.violation.get_or_insert(Violation { rule, what });
                }
                _ => {}
            }
        }
    }

    fn seen(&self) -> Checked {
        self.state().violation.clone().map_or(Ok(()), Err)
    }
}

/// Of which of a process's two clients an owner is.
fn store_of(clients: &[Client; 2], owner: lockkeeper::Owner) -> &'static str {
    let own = clients[0].new_owner().to_string();
    let prefix = own.split(':').next().unwrap_or_default();
    STORES[usize::from(!owner.to_string().starts_with(prefix))]
}

/// Runs the history of a seed; with `keep_lines` it can be read afterwards.
///
/// # Errors
///
/// If there is no runtime to be had from the system.
pub fn run_several(seed: u64, keep_lines: bool) -> std::io::Result<Outcome> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(async {
        let history = History::new(keep_lines);
        let violation = storm_and_calm(&history, seed).await.err();
        if let Some(Violation { rule, what }) = &violation {
            history.tell(format_args!("VIOLATION {rule}: {what}"));
        }
        let mut state = history.state();
        Outcome {
            seed,
            hash: state.trace.hash(),
            events: state.trace.events(),
            requests: state.requests,
            violation,
            lines: state.trace.take_lines(),
        }
    }))
}

async fn storm_and_calm(history: &Arc<History>, seed: u64) -> Checked {
    let mut random = Rng::with_seed(seed);
    let servers = [MemoryStore::new(), MemoryStore::new()];
    for server in &servers {
        server.set_clock(BEGINNING);
    }
    let mut workers = Vec::new();
    for process in 0..CLIENTS {
        let mut client = |store: usize| {
            let settings = Client::builder()
                .ttl(TTL)
                .waiter_ttl(WAITER_TTL)
                .label(process.to_string())
                .store_name(STORES[store])
                .seed(random.u64(..));
            let way = Way::new(&servers[store], STORES[store], random.u64(..), history);
            settings.build(way).map_err(|error| Violation {
                rule: "no client",
                what: error.to_string(),
            })
        };
        let clients = [client(0)?, client(1)?];
        for task in 0..TASKS {
            workers.push(Worker {
                history: Arc::clone(history),
                clients: clients.clone(),
                task: process * TASKS + task,
                random: random.fork(),
            });
        }
    }
    let storming = workers.iter().cloned();
    let storming: Vec<_> = storming.map(|it| tokio::spawn(it.storm())).collect();
    while !history.is_calm() {
        sleep(Duration::from_millis(random.u64(500..5_000))).await;
        let name = ["m0", "m1", "r4", "f"][random.usize(..4)];
        let clients = &workers[0].clients;
        let _ = clients[random.usize(..2)].revoke(name).await;
    }
    for task in storming {
        finished(task.await)?;
    }
    sleep(SETTLED).await;
    history.seen()?;
    if let Some(key) = held(&servers).first() {
        return violation("held by nobody", key.clone());
    }
    let taking: Vec<_> = workers
        .into_iter()
        .map(|it| tokio::spawn(it.take_all()))
        .collect();
    for task in taking {
        finished(task.await)?;
    }
    history.seen()
}

fn finished(outcome: Result<Checked, tokio::task::JoinError>) -> Checked {
    outcome.unwrap_or_else(|panic| violation("a panic", panic.to_string()))
}

/// The main keys of names that are held.
fn held(servers: &[MemoryStore; 2]) -> Vec<String> {
    let mut held = Vec::new();
    for (server, store) in servers.iter().zip(STORES) {
        for key in server.keys() {
            let left = server.execute(&["PTTL", &key]);
            if key.starts_with("lockkeeper:")
                && left.is_ok_and(|left| matches!(left, Value::Integer(0..)))
            {
                held.push(format!("{store}/{key}"));
            }
        }
    }
    held
}
