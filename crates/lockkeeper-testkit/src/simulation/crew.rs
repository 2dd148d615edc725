//! What the clients of a history are there for: the seam between the world and those who work in it.

use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use fastrand::Rng;
use lockkeeper::Client;

use super::place::Place;
use super::plan::Plan;
use super::site::Site;
use super::species::Species;
use super::work::Worker;
use super::world::World;

/// What a task of a process does, from its beginning to its end.
pub(super) type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
pub(super) trait Crew: Send + Sync {
    /// The names that it works with.
    fn places(&self, plan: &Plan) -> Vec<Place>;

    /// What the tasks of a new process do.
    fn jobs(&self, site: &Site) -> Vec<Job>;
}

/// All clients work with locks of one kind.
#[derive(Debug, Default)]
pub(super) struct Alone<S>(PhantomData<S>);

impl<S: Species> Crew for Alone<S> {
    fn places(&self, plan: &Plan) -> Vec<Place> {
        let model = Arc::new(S::default());
        let names = (0..plan.names).map(|name| Place::new(0, format!("name{name}"), model.clone()));
        names.collect()
    }

    fn jobs(&self, site: &Site) -> Vec<Job> {
        let (world, client): (&Arc<World>, &Client) = (&site.world, &site.clients[0]);
        let places = world.places().iter().enumerate();
        let locks = places.map(|(name, place)| (name, S::lock(client, &place.name)));
        let locks: Vec<_> = locks.collect();
        let owner = client.new_owner();
        let tasks = (0..world.plan.tasks).map(|task| {
            let worker = Worker::<S> {
                site: site.clone(),
                place: 0,
                locks: locks.clone(),
                owner,
                random: Rng::with_seed(site.seed(1 + task as u64)),
            };
            Box::pin(worker.run()) as Job
        });
        tasks.collect()
    }
}
