//! Several locks being acquired, one step after the other, each step while the ones before are held.
//!
//! What is lost while the rest is collected makes it begin again, with new claims. Whoever drops this gives up everything:
//! what holds and what asks.

mod group;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use crate::acquire::Wishes;
use crate::acquisition::{Acquisition, WITHDRAWAL};
use crate::bundle::Bundle;
use crate::clock::{Moment, sleep_until_some};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::hold::Hold;
use crate::lease::{Ended, Lease};
use crate::member::Member;
use crate::name::Name;
use crate::owner::Owner;
use crate::pass::Pass;
use crate::protocol::Protocol;
use crate::tenure::Terms;
use group::Group;

/// One lock of a step, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) owner: Owner,
    pub(crate) terms: Terms,
}

/// What is acquired together, from one client.
#[derive(Debug)]
struct Step {
    engine: Arc<Engine>,
    seats: Vec<Seat>,
}

/// The step under way.
enum Stage {
    /// By its kind's own protocol.
    Alone(Box<Acquisition>),
    /// By the script for several names.
    Together(Group),
}

/// See the module.
pub(crate) struct Gathering {
    steps: Vec<Step>,
    min_hold: Option<Duration>,
    /// `None`: for ever.
    wait: Option<Duration>,
    started: Moment,
    stage: Option<Stage>,
    /// What the steps before hold.
    held: Vec<Vec<Hold>>,
    /// Dropped after the claims, whose leaves are posted: closing waits for both.
    _passes: Vec<Pass>,
}

impl Gathering {
    pub(crate) fn new(steps: &[Vec<Member>], wishes: Wishes) -> Result<Self> {
        let mut steps: Vec<Step> = owners(steps, wishes)?;
        let Some(first) = steps.first() else {
            return Err(Error::config("there is no lock to acquire"));
        };
        let started = first.engine.line.clock.now();
        let wait = wishes.wait.longest();
        for Step { engine, seats } in &mut steps {
            // Of each client by its own clock.
            let now = engine.line.clock.now();
            for seat in seats {
                seat.terms.wait_until = wait.map(|wait| now.after(wait));
            }
        }
        Ok(Self {
            started,
            _passes: engines(&steps)
                .iter()
                .map(|engine| engine.enter())
                .collect::<Result<_>>()?,
            min_hold: wishes.min_hold,
            wait,
            stage: None,
            held: Vec::new(),
            steps,
        })
    }

    pub(crate) fn span(&self) -> tracing::Span {
        let seats = self.steps.iter().flat_map(|step| &step.seats);
        let names: Vec<&str> = seats.map(|seat| seat.protocol.name().as_str()).collect();
        tracing::info_span!("acquire_all", ?names, wait = ?self.wait)
    }

    /// Runs `work`, and stops it when a client is closed.
    pub(crate) async fn unless_closed<T>(
        mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let engines = engines(&self.steps);
        let closed = select_all(engines.iter().map(|engine| Box::pin(engine.closed())));
        tokio::select! {
            biased;
            _ = closed => Err(Error::Closed),
            result = work(&mut self) => result,
        }
    }

    /// Asks for each step once; `None` if another claim holds one of them. Then nothing is held that a server could be told to
    /// let go.
    pub(crate) async fn once(&mut self) -> Result<Option<Bundle>> {
        self.departed(|terms| terms.timeout).await;
        for step in 0..self.steps.len() {
            let mut stage = self.begin(step)?;
            let holds = match &mut stage {
                Stage::Alone(acquisition) => {
                    acquisition.once().await.map(|hold| hold.map(|it| vec![it]))
                }
                Stage::Together(group) => group.once().await,
            };
            match holds? {
                Some(holds) => self.held.push(holds),
                None => {
                    self.stage = Some(stage);
                    self.give_back().await;
                    return Ok(None);
                }
            }
        }
        Bundle::begin(std::mem::take(&mut self.held), self.min_hold).map(Some)
    }

    /// Lets go of what the steps before hold, and waits for the servers' word, for no longer than a release may take.
    async fn give_back(&mut self) {
        if let Ok(part) = Bundle::begin(std::mem::take(&mut self.held), None)
            && let Err(error) = part.release().await
        {
            tracing::debug!(%error, "what was held in part is left for in the background");
        }
    }

    /// The same in the background: what was acquired by one script is left for by one.
    fn let_go(&mut self) {
        let held = std::mem::take(&mut self.held);
        drop(Bundle::begin(held, None));
    }

    /// Asks until all are held, or until the time to wait is over.
    pub(crate) async fn wait(&mut self) -> Result<Bundle> {
        let Some(waited) = self.wait else {
            return self.begin_all().await;
        };
        if waited.is_zero() {
            let all = self.once().await?;
            return all.ok_or_else(|| self.timeout(waited));
        }
        let clock = self
            .steps
            .first()
            .map(|step| Arc::clone(&step.engine.line.clock));
        let Some(clock) = clock else {
            return self.begin_all().await;
        };
        let deadline = Some(self.started.after(waited));
        let complete = tokio::select! {
            biased;
            outcome = self.begin_all() => Some(outcome),
            () = sleep_until_some(&clock, deadline) => None,
        };
        match complete {
            Some(outcome) => outcome,
            None => {
                let timeout = self.timeout(waited);
                self.stage = None;
                self.let_go();
                self.departed(|_| WITHDRAWAL).await;
                Err(timeout)
            }
        }
    }

    async fn begin_all(&mut self) -> Result<Bundle> {
        self.departed(|terms| terms.timeout).await;
        self.until_complete().await
    }

    /// Waits until what these clients have given up of the names has left them, for so long each.
    async fn departed(&self, longest: impl Fn(&Terms) -> Duration) {
        let names = self.steps.iter().map(|step| {
            let names = step.seats.iter().map(|seat| seat.protocol.name());
            names.collect::<Vec<_>>()
        });
        let names: Vec<Vec<&Name>> = names.collect();
        let mut steps = Vec::new();
        for (Step { engine, seats }, names) in self.steps.iter().zip(&names) {
            let longest = seats.iter().map(|seat| longest(&seat.terms)).min();
            steps.push(engine.departed(names, longest.unwrap_or_default()));
        }
        join_all(steps).await;
    }

    /// Takes step after step. A loss on the way begins again, with new claims.
    async fn until_complete(&mut self) -> Result<Bundle> {
        loop {
            for step in 0..self.steps.len() {
                let stage = self.begin(step)?;
                let stage = self.stage.insert(stage);
                let lost = first_ended(&self.held);
                let holds = tokio::select! {
                    biased;
                    () = lost => break,
                    holds = stage.until_granted() => holds?,
                };
                self.held.push(holds);
            }
            self.stage = None;
            if self.held.len() < self.steps.len() {
                self.let_go();
                continue;
            }
            match Bundle::begin(std::mem::take(&mut self.held), self.min_hold) {
                Ok(bundle) => return Ok(bundle),
                Err(error) => tracing::debug!(%error, "lost while the rest was collected"),
            }
        }
    }

    fn begin(&self, step: usize) -> Result<Stage> {
        let Step { engine, seats } = &self.steps[step];
        if let [seat] = &seats[..] {
            let Seat {
                protocol,
                owner,
                terms,
            } = seat.clone();
            let acquisition = Acquisition::new(Arc::clone(engine), protocol, terms, owner, None)?;
            return Ok(Stage::Alone(Box::new(acquisition.patient_for(self.wait))));
        }
        Ok(Stage::Together(Group::new(
            Arc::clone(engine),
            seats.clone(),
            self.wait,
        )))
    }

    /// The time to wait is over: says what for, or why nobody knows.
    fn timeout(&mut self, waited: Duration) -> Error {
        let (name, trouble) = match &mut self.stage {
            Some(Stage::Alone(acquisition)) => (acquisition.name(), acquisition.trouble()),
            Some(Stage::Together(group)) => (group.awaited(), group.trouble()),
            None => {
                let first = self.steps.first().and_then(|step| step.seats.first());
                let name = first.map_or_else(String::new, |seat| seat.protocol.name().to_string());
                (name, None)
            }
        };
        match trouble {
            Some(trouble) => Error::backend(format!("acquire lock {name:?}"), trouble),
            None => Error::Timeout { name, waited },
        }
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Stage {
    async fn until_granted(&mut self) -> Result<Vec<Hold>> {
        match self {
            Self::Alone(acquisition) => Ok(vec![acquisition.until_granted().await?]),
            Self::Together(group) => group.until_granted().await,
        }
    }
}

/// The steps with an owner for each member: its own, that of all, or a new one of its client.
fn owners(steps: &[Vec<Member>], wishes: Wishes) -> Result<Vec<Step>> {
    let several = steps.iter().map(Vec::len).sum::<usize>() > 1;
    let mut fresh: Vec<(u128, Owner)> = Vec::new();
    let mut seated = Vec::new();
    for members in steps {
        let Some(first) = members.first() else {
            continue;
        };
        let engine = Arc::clone(first.engine());
        let known = fresh.iter().find(|(client, _)| *client == first.client());
        let new = known.map_or_else(|| engine.new_owner(), |(_, owner)| *owner);
        fresh.push((first.client(), new));
        let mut seats = Vec::new();
        for member in members {
            let protocol = Arc::clone(member.protocol()?);
            let owner = member.own_owner().or(wishes.owner);
            let mut terms = Wishes { owner, ..wishes }.terms(&engine, &*protocol)?;
            // What the lease of one member hands out may join the others.
            terms.known_owner |= several;
            // A part that is given back is not kept from anybody; the whole is, once it is complete.
            terms.min_hold = None;
            let owner = owner.unwrap_or(new);
            seats.push(Seat {
                protocol,
                owner,
                terms,
            });
        }
        seated.push(Step { engine, seats });
    }
    Ok(seated)
}

/// The clients of the steps, each once.
fn engines(steps: &[Step]) -> Vec<Arc<Engine>> {
    let mut engines: Vec<Arc<Engine>> = Vec::new();
    for step in steps {
        if !engines
            .iter()
            .any(|engine| Arc::ptr_eq(engine, &step.engine))
        {
            engines.push(Arc::clone(&step.engine));
        }
    }
    engines
}

/// Resolves when one of them has ended; never if there is none.
async fn first_ended(held: &[Vec<Hold>]) {
    let ended: Vec<Ended> = held
        .iter()
        .flatten()
        .map(|hold| Lease::ended(hold))
        .collect();
    if ended.is_empty() {
        std::future::pending::<()>().await;
    }
    select_all(ended).await;
}
