//! What befalls clients and the server: disasters while the storm lasts, a short cut now and then when it is over.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::Client;
use lockkeeper_memory::{MemoryStore, Snapshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::beyond::Beyond;
use super::crew::Crew;
use super::link::LinkStore;
use super::plan::{APART, Disaster};
use super::site::{Pausable, Site};
use super::world::World;

/// How long what went wrong may show after it is over: a request that is waited for, a pause between attempts.
const AFTERMATH: Duration = Duration::from_millis(700);

/// How long a connection is broken in fair weather, ms.
const BLIP: u64 = 200;

/// A process with its tasks.
#[derive(Debug)]
struct Process {
    site: Site,
    tasks: Vec<JoinHandle<()>>,
}

/// All processes, and what befalls them.
pub(super) struct Weather<'a> {
    world: Arc<World>,
    crew: &'a dyn Crew,
    random: Rng,
    processes: Vec<Process>,
    /// Tasks of processes that are gone.
    orphans: Vec<JoinHandle<()>>,
    /// Of each server.
    snapshots: Vec<Snapshot>,
    /// When each server's clock last stepped forward.
    stepped: Vec<Duration>,
    /// How far each server's clock is ahead of the time, ms; of a single one it does not matter.
    ahead: Vec<i64>,
    /// How far the servers' clocks stepped back in all.
    back: Duration,
}

impl<'a> Weather<'a> {
    pub(super) fn new(world: &Arc<World>, crew: &'a dyn Crew) -> Result<Self, lockkeeper::Error> {
        let mut weather = Self {
            world: Arc::clone(world),
            crew,
            random: Rng::with_seed(world.plan.seed_of(2)),
            processes: Vec::new(),
            orphans: Vec::new(),
            snapshots: world.servers.iter().map(MemoryStore::snapshot).collect(),
            stepped: vec![Duration::ZERO; world.servers.len()],
            ahead: world.plan.ahead.clone(),
            back: Duration::ZERO,
        };
        for _ in 0..world.plan.clients {
            weather.start()?;
        }
        Ok(weather)
    }

    /// A new process begins to work.
    fn start(&mut self) -> Result<(), lockkeeper::Error> {
        let world = &self.world;
        let mut site = Site {
            world: Arc::clone(world),
            links: Vec::new(),
            clients: Vec::new(),
        };
        for (place, server) in world.servers.iter().enumerate() {
            let link = world.network().connect(place, server);
            site.links.push(link);
            let settings = Client::builder()
                .seed(world.plan.seed_of(100 * (1 + link as u64)))
                .ttl(world.plan.ttl)
                .waiter_ttl(world.plan.waiter_ttl)
                .release_timeout(world.plan.ttl)
                .store_name(format!("s{place}"));
            let store = LinkStore::new(Arc::clone(world), link);
            site.clients.push(settings.build(Arc::new(store))?);
        }
        let jobs = self.crew.jobs(&site).into_iter();
        let tasks = jobs.map(|job| tokio::spawn(Pausable::new(world, site.links[0], job)));
        let tasks = tasks.collect();
        self.processes.push(Process { site, tasks });
        Ok(())
    }

    /// One of the servers.
    fn server(&mut self) -> usize {
        match self.world.servers.len() {
            1 => 0,
            servers => self.random.usize(..servers),
        }
    }

    /// Disasters until the storm is over.
    pub(super) async fn storm(&mut self) -> Result<(), lockkeeper::Error> {
        let plan = self.world.plan.clone();
        while self.world.now() < plan.storm {
            let interval = plan.interval.mul_f64(2.0 * self.random.f64());
            sleep(interval.min(plan.storm.saturating_sub(self.world.now()))).await;
            if plan.forgets && self.random.bool() {
                let server = self.server();
                self.snapshots[server] = self.world.servers[server].snapshot();
            }
            if let Some(disaster) = self.random.choice(plan.disasters.iter().copied()) {
                self.world.tell(format_args!("{disaster:?}"));
                self.befall(disaster).await?;
                self.world.look(true);
            }
        }
        Ok(())
    }

    async fn befall(&mut self, disaster: Disaster) -> Result<(), lockkeeper::Error> {
        let now = self.world.now();
        let process = self.random.usize(..self.processes.len());
        let server = self.server();
        let store = &self.world.servers[server];
        match disaster {
            Disaster::Cut => {
                let link = self.processes[process].site.links[server];
                self.cut(link, self.outage(), false);
            }
            Disaster::Restart => {
                store.flush_scripts();
                self.cut_all(server);
            }
            Disaster::ForgetScripts => store.flush_scripts(),
            Disaster::Pause => {
                let longest = self.world.plan.ttl.mul_f64(1.5).as_millis();
                let pause = self.random.u64(0..=u64::try_from(longest).unwrap_or(0));
                let until = (now + Duration::from_millis(pause)).min(self.world.plan.storm);
                for link in &self.processes[process].site.links {
                    self.world.network().links[*link].paused = until;
                }
            }
            Disaster::Close => {
                let process = self.processes.swap_remove(process);
                self.close(&process.site).await;
                self.orphans.extend(process.tasks);
                self.start()?;
            }
            Disaster::Crash => {
                let process = self.processes.swap_remove(process);
                for link in &process.site.links {
                    self.world.network().close(*link);
                    self.world.check(|checks| checks.died(*link));
                }
                process.tasks.iter().for_each(JoinHandle::abort);
                self.orphans.extend(process.tasks);
                self.start()?;
            }
            Disaster::ClockBack => {
                let longest = if self.world.servers.len() > 1 {
                    // Those of a Redlock are never behind the time, or they would be too far apart.
                    self.ahead[server]
                } else {
                    self.ttl_ms().cast_signed()
                };
                let step = self.random.i64(0..=longest);
                self.ahead[server] -= step;
                self.back += Duration::from_millis(step.unsigned_abs());
                store.step_clock(-step);
            }
            // Once in one lease, or the steps would add up to more than the margin.
            Disaster::ClockForward if now >= self.stepped[server] + 2 * self.world.plan.ttl => {
                self.stepped[server] = now;
                let longest = self.world.plan.margin() - Duration::from_millis(2);
                let longest = i64::try_from(longest.as_millis()).unwrap_or(0);
                let step = self.random.i64(0..=longest);
                if self.world.servers.len() == 1 || self.ahead[server] + step < APART {
                    self.ahead[server] += step;
                    store.step_clock(step);
                }
            }
            Disaster::ClockForward => {}
            Disaster::ClockLeap => {
                let leap = 2 * self.random.u64(0..=self.ttl_ms());
                store.step_clock(leap.cast_signed());
            }
            Disaster::DeletedKey => {
                let places = self.world.places();
                let place = &places[self.random.usize(..places.len())];
                // It may be gone already.
                let _ = self.world.servers[place.server].execute(&["DEL", &place.main]);
            }
            Disaster::Force => {
                let places = self.world.places();
                let place = &places[self.random.usize(..places.len())];
                let client = self.processes[process].site.clients[place.server].clone();
                // In a storm it may fail.
                if let Ok(found) = client.inspect(&place.name).await
                    && let Some(holder) = found.holders.first()
                {
                    let _ = client.force_release(&place.name, &holder.claim).await;
                }
            }
            Disaster::Failover => {
                store.restore(&self.snapshots[server]);
                store.flush_scripts();
                if self.world.plan.beyond == Some(Beyond::ClockBehind) {
                    let behind = 2 * self.random.u64(0..=self.ttl_ms());
                    self.back += Duration::from_millis(behind);
                    store.step_clock(-behind.cast_signed());
                }
                self.world.check(|checks| checks.forgot(server, now));
                self.cut_all(server);
            }
            Disaster::Empty => {
                store.restart_empty();
                self.world.check(|checks| checks.forgot(server, now));
                self.cut_all(server);
            }
            Disaster::Revoke => self.revoke(process),
        }
        Ok(())
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.world.plan.ttl.as_millis()).unwrap_or(0)
    }

    /// A process has a name revoked, wherever that is.
    fn revoke(&mut self, process: usize) {
        let places = self.world.places();
        let Some(meant) = self.random.choice(places) else {
            return;
        };
        for place in places.iter().filter(|place| place.name == meant.name) {
            let client = self.processes[process].site.clients[place.server].clone();
            let name = place.name.clone();
            self.orphans.push(tokio::spawn(async move {
                // Whether it was is seen on the server.
                let _ = client.revoke(&name).await;
            }));
        }
    }

    fn outage(&self) -> u64 {
        self.ttl_ms() / 4
    }

    fn cut(&self, link: usize, down: u64, server: bool) {
        let (now, latest) = (self.world.now(), self.world.plan.ttl.mul_f64(0.4));
        self.world.network().cut(link, now, down, latest, server);
        self.world.bell.notify_one();
    }

    /// Breaks every connection to a server.
    fn cut_all(&self, server: usize) {
        for process in &self.processes {
            self.cut(process.site.links[server], self.outage(), true);
        }
    }

    /// Closes the clients of a process.
    async fn close(&self, site: &Site) {
        for (link, client) in site.links.iter().zip(&site.clients) {
            self.close_client(*link, client).await;
        }
    }

    /// Closes a client and looks at what it reports.
    async fn close_client(&self, link: usize, client: &Client) {
        self.world.network().links[link].closing = true;
        let (held, interested) = self
            .world
            .check(|checks| (checks.believed(link), checks.interested()));
        let began = self.world.now();
        let report = client.close().await;
        let took = self.world.now() - began;
        self.world
            .tell(format_args!("c{link} is closed: {report:?}"));
        if took > self.world.plan.ttl + Duration::from_secs(1) {
            self.world
                .violate("closing takes too long", format!("client {link}: {took:?}"));
        }
        let asked = self.world.check(|checks| checks.asked(link));
        let told = report.confirmed + report.expiring + report.unconfirmed;
        if report.expiring < held
            || report.expiring > held + interested
            || told > asked + interested
        {
            let what = format!("client {link}: {report:?} of {held} held and {asked} claims");
            self.world.violate("a wrong close report", what);
        }
        if self.world.check(|checks| checks.believed(link)) > 0 {
            let what = format!("client {link} believes in a lease");
            self.world.violate("belief after closing", what);
        }
        self.world.check(|checks| checks.died(link));
    }

    /// Everything works again; clients go on for a while, and now and then a connection breaks for a moment.
    pub(super) async fn calm(&mut self) {
        self.world.heal();
        let processes = self.processes.iter();
        let links = processes.flat_map(|process| process.site.links.iter().copied());
        let links: Vec<usize> = links.collect();
        for &link in &links {
            // Whatever was missed is told.
            self.cut(link, 0, false);
        }
        // A connection that was broken for long before may still be.
        let mended = links
            .iter()
            .map(|link| self.world.network().links[*link].mended)
            .max();
        let broken = mended.unwrap_or_default().saturating_sub(self.world.now());
        self.fair_after(self.world.plan.timeout().max(broken));
        let calm = self.world.plan.calm;
        sleep(calm.mul_f64(0.3 + 0.3 * self.random.f64())).await;
        if let Some(link) = self.random.choice(links) {
            self.world.tell(format_args!("a blip"));
            self.fair_after(Duration::from_millis(BLIP));
            self.cut(link, BLIP, false);
        }
        sleep(calm.mul_f64(0.5)).await;
    }

    fn fair_after(&self, outage: Duration) {
        let after = outage + AFTERMATH;
        self.world.fair_from(self.world.now() + after);
    }

    /// Clients finish what they are at; all of them must come to an end.
    pub(super) async fn finish(&mut self) {
        self.world.tell(format_args!("the end"));
        self.world.end();
        let workers = u32::try_from(self.world.plan.clients * self.world.plan.tasks).unwrap_or(1);
        let bound = self.world.plan.ttl * 2 * workers + self.back + Duration::from_secs(30);
        let processes = self.processes.iter_mut();
        let tasks = processes.flat_map(|process| process.tasks.drain(..));
        let tasks: Vec<JoinHandle<()>> = tasks.chain(self.orphans.drain(..)).collect();
        let all = async {
            for task in tasks {
                if let Err(error) = task.await
                    && error.is_panic()
                {
                    self.world.violate("a panic", error.to_string());
                }
            }
        };
        if tokio::time::timeout(bound, all).await.is_err() {
            let what = format!("a task has not ended after {bound:?}");
            self.world.violate("stuck", what);
        }
        // The longest lease, a repeated leave, a lingering subscription.
        sleep(2 * self.world.plan.ttl + self.back + Duration::from_secs(8)).await;
    }

    /// All clients go; nothing is left of them.
    pub(super) async fn leave(mut self) {
        for Process { site, .. } in std::mem::take(&mut self.processes) {
            for link in &site.links {
                let mut channels = self.world.network().links[*link].subscribed.clone();
                channels.retain(|channel| !channel.starts_with("lockkeeper.client:"));
                if let Some(channel) = channels.first() {
                    let what = format!("client {link} listens to {channel}");
                    self.world.violate("a subscription left behind", what);
                }
            }
            if self.random.bool() {
                self.close(&site).await;
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}
