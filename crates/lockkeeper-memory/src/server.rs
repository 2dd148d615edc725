//! One server: a database, the scripts that it was sent, its clock; and the register of servers that stores share by name.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};

use crate::command::{Database, Origin, integer};
use crate::interpreter::{self, Run};
use crate::resp::{Refusal, Resp};
use crate::wall_clock::WallClock;

static SHARED: Mutex<BTreeMap<String, Weak<Server>>> = Mutex::new(BTreeMap::new());

/// What all stores of one keyspace share.
#[derive(Debug)]
pub(crate) struct Server {
    name: Option<String>,
    state: Mutex<State>,
}

/// All mutable state, behind one lock: a script sees no other script's intermediate state.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) database: Database,
    pub(crate) clock: WallClock,
    /// Every script that was sent as text, by SHA-1.
    scripts: HashMap<String, Arc<str>>,
}

impl Server {
    pub(crate) fn new(name: Option<String>) -> Arc<Self> {
        static WARNING: Once = Once::new();
        WARNING.call_once(|| {
            tracing::warn!(
                "locks in memory:// are known to this process only, and nothing survives it"
            );
        });
        Arc::new(Self {
            name,
            state: Mutex::new(State {
                database: Database::default(),
                clock: WallClock::new(),
                scripts: HashMap::new(),
            }),
        })
    }

    /// The server of this name while any store uses it, otherwise a new one.
    pub(crate) fn shared(name: &str) -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = shared.get(name).and_then(Weak::upgrade) {
            return server;
        }
        shared.retain(|_, server| server.strong_count() > 0);
        let server = Self::new(Some(name.to_owned()));
        shared.insert(name.to_owned(), Arc::downgrade(&server));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("memory://{}", self.name.as_deref().unwrap_or_default())
    }

    /// The state, with its keyspace set to the present. A panic elsewhere does not matter: every command leaves the keyspace
    /// consistent.
    pub(crate) fn at_present(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.clock.now_micros();
        state.database.keyspace.begin(now);
        state
    }
}

impl State {
    /// `EVAL`: runs a script and remembers it.
    pub(crate) fn eval(&mut self, run: Run<'_>) -> Resp {
        if !self.scripts.contains_key(run.sha1) {
            if let Err(refusal) = interpreter::compile(run.sha1, run.source) {
                return refusal.into();
            }
            self.scripts.insert(run.sha1.to_owned(), run.source.into());
        }
        interpreter::run(run, &mut self.database)
    }

    /// `EVALSHA`: runs a script that was sent as text before.
    pub(crate) fn evalsha(&mut self, sha1: &str, keys: &[&str], args: &[&str]) -> Resp {
        let Some(source) = self.scripts.get(sha1).map(Arc::clone) else {
            return Refusal::NOSCRIPT.into();
        };
        let run = Run {
            sha1,
            source: &source,
            keys,
            args,
        };
        interpreter::run(run, &mut self.database)
    }

    pub(crate) fn restart_empty(&mut self) {
        self.database.keyspace.clear();
        self.database.restarted = Some(self.clock.now_micros());
        self.flush_scripts();
    }

    pub(crate) fn flush_scripts(&mut self) {
        self.scripts.clear();
    }

    /// A command as a client writes it, including `EVAL` and `EVALSHA`.
    pub(crate) fn command(&mut self, words: &[&str]) -> Resp {
        match words {
            [name, rest @ ..] if name.eq_ignore_ascii_case("eval") => {
                self.eval_command(rest, true).into()
            }
            [name, rest @ ..] if name.eq_ignore_ascii_case("evalsha") => {
                self.eval_command(rest, false).into()
            }
            words => {
                let words: Vec<Vec<u8>> = words.iter().map(|word| (*word).into()).collect();
                self.database.run(Origin::Client, &words).into()
            }
        }
    }

    fn eval_command(&mut self, words: &[&str], by_source: bool) -> Result<Resp, Refusal> {
        let [script, number, words @ ..] = words else {
            let name = if by_source { "eval" } else { "evalsha" };
            return Err(Refusal::wrong_number_of_arguments(name));
        };
        let number = usize::try_from(integer(number.as_bytes())?)
            .map_err(|_| Refusal::of("ERR Number of keys can't be negative"))?;
        let (keys, args) = words.split_at_checked(number).ok_or(Refusal::of(
            "ERR Number of keys can't be greater than number of args",
        ))?;
        if !by_source {
            return Ok(self.evalsha(&script.to_ascii_lowercase(), keys, args));
        }
        let sha1 = sha1_smol::Sha1::from(script).digest().to_string();
        Ok(self.eval(Run {
            sha1: &sha1,
            source: script,
            keys,
            args,
        }))
    }
}
