//! Histories of the whole family: locks of every kind on five servers, in one world, by the same tasks.
//!
//! A few names lie on the servers, of every single kind at least one. Tasks take them one by one, as in the histories of one kind,
//! and by multi-locks over any of them, on whichever servers they are; and they take a Redlock over all five. So what one way of
//! taking a name leaves behind, the others meet. The world is that of the other histories, and so are its rules: a name has the
//! model of its kind, whoever takes it, and the parts of the Redlock are names too. What is its own is several servers, whose
//! clocks are apart, and revocation. In the end everybody takes everything at once.
//!
//! Histories of several locks alone were this one's forerunner, and the world of [`majority`](crate::majority) stays: its servers
//! stand still and lose their data more often, and its network keeps no order at all.

mod kinds;
mod quorum;
mod sets;

use std::pin::Pin;

use fastrand::Rng;
use tokio::time::sleep;

use super::crew::{Crew, Job};
use super::place::Place;
use super::plan::Plan;
use super::run::{Outcome, run_with};
use super::site::{Closed, Site};
use super::species::Species;
use super::work::Worker;
use kinds::{Parts, kinds};
use quorum::Quorum;
use sets::Sets;

/// How it is called on the command line.
pub const FAMILY: &str = "family";

/// What the Redlock is called.
const NAME: &str = "quorum";

/// Runs the history of a seed; with `keep_lines` it can be read afterwards.
///
/// # Errors
///
/// As for [`run`](super::run()).
pub fn run_family(seed: u64, keep_lines: bool) -> std::io::Result<Outcome> {
    run_with(&Family, Plan::of_a_family(seed), keep_lines, None)
}

/// One acquisition and what follows from it.
type Turn<'a> = Pin<Box<dyn Future<Output = Result<(), Closed>> + Send + 'a>>;

/// A task's way to take one name by a lock of its kind.
trait Single: Send {
    fn turn(&mut self) -> Turn<'_>;
}

impl<S: Species> Single for Worker<S> {
    fn turn(&mut self) -> Turn<'_> {
        Box::pin(Self::turn(self))
    }
}

/// See the module.
struct Family;

impl Crew for Family {
    fn places(&self, plan: &Plan) -> Vec<Place> {
        let single = kinds(plan).into_iter().enumerate();
        let single = single
            .map(|(name, (kind, server))| Place::new(server, format!("name{name}"), kind.model()));
        let parts =
            (0..plan.servers).map(|server| Place::new(server, NAME.to_owned(), Parts::model()));
        single.chain(parts).collect()
    }

    fn jobs(&self, site: &Site) -> Vec<Job> {
        let plan = &site.world.plan;
        let kinds = kinds(plan);
        // Tasks of one process share the owners of its single locks.
        let owners: Vec<_> = site
            .clients
            .iter()
            .map(lockkeeper::Client::new_owner)
            .collect();
        let task = |task: usize| {
            let mut parts = 1 + 20 * task as u64..;
            let mut random = || Rng::with_seed(site.seed(parts.next().unwrap_or_default()));
            let singles = kinds.iter().enumerate().map(|(name, (kind, place))| {
                kind.single(site, name, *place, owners[*place], random())
            });
            let singles = singles.collect();
            let task = Task {
                singles,
                sets: Sets::new(site.clone(), kinds.clone(), random()),
                quorum: Quorum::new(site.clone(), random())?,
                random: random(),
                site: site.clone(),
            };
            Ok(Box::pin(task.run()) as Job)
        };
        let tasks: Result<Vec<Job>, lockkeeper::Error> = (0..plan.tasks).map(task).collect();
        tasks.unwrap_or_else(|error| {
            site.world.violate("no lock", error.to_string());
            Vec::new()
        })
    }
}

/// A task of a process.
struct Task {
    site: Site,
    singles: Vec<Box<dyn Single>>,
    sets: Sets,
    quorum: Quorum,
    random: Rng,
}

impl Task {
    /// Works until the history ends or the process is closed; and in the end it is to have everything.
    async fn run(mut self) {
        // The client is closed.
        let _ = self.work().await;
    }

    async fn work(&mut self) -> Result<(), Closed> {
        while !self.site.world.is_ending() {
            match self.random.u8(..8) {
                0..4 => {
                    let single = self.random.usize(..self.singles.len());
                    self.singles[single].turn().await?;
                }
                4..6 => self.sets.turn().await?,
                _ => self.quorum.turn().await?,
            }
            let pause = self.site.spell(&mut self.random, 0.12);
            sleep(pause).await;
        }
        self.sets.take_all().await?;
        self.quorum.take().await
    }
}
