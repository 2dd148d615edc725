//! The fault schedule: the faults of hosts and servers during the storm, an occasional short cut afterwards, and the end.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Client, Semaphore};
use lockkeeper_memory::{MemoryStore, Snapshot};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::beyond::Beyond;
use super::fate::Fate;
use super::host::{Host, Pausable};
use super::link::LinkStore;
use super::locks::LIMIT;
use super::network::Action;
use super::plan::{APART, Fault};
use super::workload::Workload;
use super::world::World;

/// How long a fault may have effects after it ends: a pending request, a pause between attempts.
const AFTERMATH: Duration = Duration::from_millis(700);

/// How long a cut lasts in the calm, ms.
const BLIP: u64 = 200;

/// A host with its tasks.
#[derive(Debug)]
struct Running {
    host: Host,
    tasks: Vec<JoinHandle<()>>,
}

/// All hosts, and the faults that they meet.
pub(super) struct FaultSchedule {
    world: Arc<World>,
    workload: Workload,
    random: Rng,
    hosts: Vec<Running>,
    /// Tasks of hosts that are gone.
    orphans: Vec<JoinHandle<()>>,
    /// One per server.
    snapshots: Vec<Snapshot>,
    /// When each server's clock last stepped forward.
    stepped: Vec<Duration>,
    /// How far each server's clock is ahead of the time, ms. With a single server it does not matter.
    ahead: Vec<i64>,
    /// How far the servers' clocks have stepped back in total.
    back: Duration,
}

impl FaultSchedule {
    pub(super) fn new(world: &Arc<World>, workload: Workload) -> Result<Self, lockkeeper::Error> {
        let mut schedule = Self {
            world: Arc::clone(world),
            workload,
            random: Rng::with_seed(world.plan.seed_of(2)),
            hosts: Vec::new(),
            orphans: Vec::new(),
            snapshots: world.servers.iter().map(MemoryStore::snapshot).collect(),
            stepped: vec![Duration::ZERO; world.servers.len()],
            ahead: world.plan.ahead.clone(),
            back: Duration::ZERO,
        };
        for _ in 0..world.plan.hosts {
            schedule.start()?;
        }
        Ok(schedule)
    }

    /// Starts a new host.
    fn start(&mut self) -> Result<(), lockkeeper::Error> {
        let world = &self.world;
        let mut host = Host {
            world: Arc::clone(world),
            links: Vec::new(),
            clients: Vec::new(),
        };
        for (place, server) in world.servers.iter().enumerate() {
            let link = world.network().connect(place, server);
            host.links.push(link);
            let settings = Client::builder()
                .seed(world.plan.seed_of(100 * (1 + link as u64)))
                .ttl(world.plan.ttl)
                .waiter_ttl(world.plan.waiter_ttl)
                .release_timeout(world.plan.ttl)
                .observer(world.ledger())
                .store_name(format!("s{place}"));
            let store = LinkStore::new(Arc::clone(world), link);
            host.clients.push(settings.build(Arc::new(store))?);
        }
        let jobs = self.workload.jobs(&host).into_iter();
        let tasks = jobs.map(|job| tokio::spawn(Pausable::new(world, host.links[0], job)));
        let tasks = tasks.collect();
        self.hosts.push(Running { host, tasks });
        Ok(())
    }

    /// Chooses one of the servers.
    fn server(&mut self) -> usize {
        match self.world.servers.len() {
            1 => 0,
            servers => self.random.usize(..servers),
        }
    }

    /// Runs faults until the storm is over.
    pub(super) async fn storm(&mut self) -> Result<(), lockkeeper::Error> {
        let plan = self.world.plan.clone();
        while self.world.now() < plan.storm {
            let interval = plan.interval.mul_f64(2.0 * self.random.f64());
            sleep(interval.min(plan.storm.saturating_sub(self.world.now()))).await;
            if plan.forgets && self.random.bool() {
                let server = self.server();
                self.snapshots[server] = self.world.servers[server].snapshot();
            }
            if let Some(fault) = self.random.choice(plan.faults.iter().copied()) {
                self.world.tell(format_args!("{fault:?}"));
                self.befall(fault).await?;
                self.world.look(|_| true);
            }
        }
        Ok(())
    }

    async fn befall(&mut self, fault: Fault) -> Result<(), lockkeeper::Error> {
        let now = self.world.now();
        let host = self.random.usize(..self.hosts.len());
        let server = self.server();
        let world = Arc::clone(&self.world);
        let store = &world.servers[server];
        match fault {
            Fault::Cut => {
                let link = self.hosts[host].host.links[server];
                self.cut(link, self.outage(), false);
            }
            Fault::Restart => {
                store.flush_scripts();
                self.cut_all(server);
            }
            Fault::ForgetScripts => store.flush_scripts(),
            Fault::Pause => {
                let until = self.until(1.5);
                for link in &self.hosts[host].host.links {
                    self.world.network().links[*link].paused = until;
                    self.world
                        .record(|record| record.paused.push((*link, now, until)));
                }
            }
            Fault::Close => {
                let gone = self.hosts.swap_remove(host);
                self.close(&gone.host).await;
                self.orphans.extend(gone.tasks);
                self.start()?;
            }
            Fault::Crash => {
                let gone = self.hosts.swap_remove(host);
                for link in &gone.host.links {
                    self.world.network().close(*link);
                    self.world.check(|checks| checks.died(*link));
                }
                gone.tasks.iter().for_each(JoinHandle::abort);
                self.orphans.extend(gone.tasks);
                self.start()?;
            }
            Fault::ClockBack => {
                let longest = if self.world.servers.len() > 1 {
                    // The clock of a Redlock's server never falls behind the time, or the clocks would be too far apart.
                    self.ahead[server]
                } else {
                    self.ttl_ms().cast_signed()
                };
                let step = self.random.i64(0..=longest);
                self.ahead[server] -= step;
                self.back += Duration::from_millis(step.unsigned_abs());
                store.step_clock(-step);
            }
            // At most once per lease, or the steps would add up to more than the margin.
            Fault::ClockForward if now >= self.stepped[server] + 2 * self.world.plan.ttl => {
                self.stepped[server] = now;
                let longest = self.world.plan.margin() - Duration::from_millis(2);
                let longest = i64::try_from(longest.as_millis()).unwrap_or(0);
                let step = self.random.i64(0..=longest);
                if self.world.servers.len() == 1 || self.ahead[server] + step < APART {
                    self.ahead[server] += step;
                    store.step_clock(step);
                }
            }
            Fault::ClockForward => {}
            Fault::ClockLeap => {
                let leap = 2 * self.random.u64(0..=self.ttl_ms());
                store.step_clock(leap.cast_signed());
            }
            Fault::DeletedKey => {
                let places = self.world.places();
                let place = &places[self.random.usize(..places.len())];
                // The key may be gone already.
                let _ = self.world.servers[place.server].execute(&["DEL", &place.main]);
            }
            Fault::Force => {
                let places = self.world.places();
                let place = &places[self.random.usize(..places.len())];
                let client = self.hosts[host].host.clients[place.server].clone();
                // This may fail in a storm.
                if let Ok(found) = client.inspect(&place.name).await
                    && let Some(holder) = found.holders.first()
                {
                    let _ = client.force_release(&place.name, &holder.claim).await;
                }
            }
            Fault::Failover => {
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
            Fault::Kill => {
                let until = self.until(1.5);
                if self.random.bool() {
                    self.cut_all(server);
                }
                let mut network = self.world.network();
                network.machines[server].killed = true;
                let fate = Fate(self.random.fork());
                network.put(until, Action::Revive { server }, fate);
                drop(network);
                self.world.planned.notify_one();
            }
            Fault::Freeze => {
                let until = self.until(1.5);
                let mut network = self.world.network();
                let machine = &mut network.machines[server];
                if machine.frozen <= now {
                    machine.frozen_since = now;
                }
                // Never earlier than a delayed action expects, or requests would overtake one another.
                machine.frozen = machine.frozen.max(until);
                let stood = machine.frozen - machine.frozen_since;
                drop(network);
                if stood >= self.world.plan.ttl / 2 {
                    self.world.check(|checks| checks.gave_up_releases(server));
                }
            }
            Fault::Silence => {
                let until = self.until(1.5);
                self.world.network().machines[server].silent = until;
            }
            Fault::Revoke => self.revoke(host),
            Fault::SetLimit => {
                let places = self.world.places();
                let place = &places[self.random.usize(..places.len())];
                let client = &self.hosts[host].host.clients[place.server];
                let semaphore = Semaphore::new(client, &place.name, LIMIT.into());
                let limit = self.random.u32(1..=u32::from(LIMIT) + 1);
                self.orphans.push(tokio::spawn(async move {
                    // The server shows whether it was set.
                    let _ = semaphore.set_limit(limit).await;
                }));
            }
        }
        Ok(())
    }

    /// A random time up to this many ttls from now, within the storm.
    fn until(&mut self, ttls: f64) -> Duration {
        let longest = self.world.plan.ttl.mul_f64(ttls).as_millis();
        let spell = self.random.u64(0..=u64::try_from(longest).unwrap_or(0));
        let now = self.world.now();
        (now + Duration::from_millis(spell))
            .min(self.world.plan.storm)
            .max(now)
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.world.plan.ttl.as_millis()).unwrap_or(0)
    }

    /// Makes a host revoke a name, on whichever server it is.
    fn revoke(&mut self, host: usize) {
        let places = self.world.places();
        let Some(meant) = self.random.choice(places) else {
            return;
        };
        for place in places.iter().filter(|place| place.name == meant.name) {
            let client = self.hosts[host].host.clients[place.server].clone();
            let name = place.name.clone();
            self.orphans.push(tokio::spawn(async move {
                // The server shows whether it was revoked.
                let _ = client.revoke(&name).await;
            }));
        }
    }

    fn outage(&self) -> u64 {
        self.ttl_ms() / 4
    }

    fn cut(&self, link: usize, down: u64, server: bool) {
        let (now, latest) = (self.world.now(), self.world.plan.latest());
        self.world.network().cut(link, now, down, latest, server);
        self.world.planned.notify_one();
    }

    /// Tells a client that it may have missed messages, although no connection broke.
    fn tell_of_gap(&self, link: usize) {
        let now = self.world.now();
        self.world.network().tell_of_gap(link, now);
        self.world.planned.notify_one();
    }

    /// Breaks every connection to a server.
    fn cut_all(&self, server: usize) {
        for running in &self.hosts {
            self.cut(running.host.links[server], self.outage(), true);
        }
    }

    /// Closes the clients of a host.
    async fn close(&self, host: &Host) {
        for (link, client) in host.links.iter().zip(&host.clients) {
            self.close_client(*link, client).await;
        }
    }

    /// Closes a client and checks its report.
    async fn close_client(&self, link: usize, client: &Client) {
        self.world.network().links[link].closing = true;
        let (held, interested) = self
            .world
            .check(|checks| (checks.valid(link), checks.interested()));
        let began = self.world.now();
        let report = client.close().await;
        let took = self.world.now() - began;
        self.world
            .tell(format_args!("c{link} is closed: {report:?}"));
        if took > self.world.plan.ttl + Duration::from_secs(1) {
            self.world
                .violate("closing takes too long", format!("client {link}: {took:?}"));
        }
        let (asked, later) = self
            .world
            .check(|checks| (checks.asked(link), checks.interested()));
        let told = report.confirmed + report.expiring + report.unconfirmed;
        if report.expiring < held
            // A closed client still takes part in a majority acquisition whose other clients are open.
            || report.expiring > held + interested + later
            || told > asked + interested
        {
            let what = format!("client {link}: {report:?} of {held} held and {asked} claims");
            self.world.violate("a wrong close report", what);
        }
        if self.world.check(|checks| checks.valid(link)) > 0 {
            let what = format!("client {link} assumes that it holds");
            self.world.violate("valid after closing", what);
        }
        self.world.check(|checks| checks.died(link));
    }

    /// Ends all faults. Hosts go on for a while, and one connection breaks for a moment or only reports that messages were
    /// missed.
    pub(super) async fn calm(&mut self) {
        self.world.heal();
        let hosts = self.hosts.iter();
        let links = hosts.flat_map(|running| running.host.links.iter().copied());
        let links: Vec<usize> = links.collect();
        for &link in &links {
            // Report everything that was missed.
            self.cut(link, 0, false);
        }
        // A connection that broke long before may still be down.
        let mended = links
            .iter()
            .map(|link| self.world.network().links[*link].mended)
            .max();
        let broken = mended.unwrap_or_default().saturating_sub(self.world.now());
        self.calm_after(self.world.plan.timeout().max(broken));
        let calm = self.world.plan.calm;
        sleep(calm.mul_f64(0.3 + 0.3 * self.random.f64())).await;
        if let Some(link) = self.random.choice(links) {
            self.world.tell(format_args!("a blip"));
            self.calm_after(Duration::from_millis(BLIP));
            // Whoever hears that a connection is down polls soon in any case.
            match self.random.bool() {
                true => self.cut(link, BLIP, false),
                false => self.tell_of_gap(link),
            }
        }
        sleep(calm.mul_f64(0.5)).await;
    }

    fn calm_after(&self, outage: Duration) {
        let after = outage + AFTERMATH;
        self.world.calm_from(self.world.now() + after);
    }

    /// Lets tasks finish their current turn; all of them must come to an end.
    pub(super) async fn finish(&mut self) {
        self.world.tell(format_args!("the end"));
        self.world.end();
        let workers = u32::try_from(self.world.plan.hosts * self.world.plan.tasks).unwrap_or(1);
        let bound = self.world.plan.ttl * 2 * workers + self.back + Duration::from_secs(30);
        let hosts = self.hosts.iter_mut();
        let tasks = hosts.flat_map(|running| running.tasks.drain(..));
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
        // The longest lease, a repeated release, a lingering subscription.
        sleep(2 * self.world.plan.ttl + self.back + Duration::from_secs(8)).await;
    }

    /// Stops all hosts.
    pub(super) async fn stop(mut self) {
        for Running { host, .. } in std::mem::take(&mut self.hosts) {
            for link in &host.links {
                let mut channels = self.world.network().links[*link].subscribed.clone();
                channels.retain(|channel| !channel.starts_with("lockkeeper.client:"));
                if let Some(channel) = channels.first() {
                    let what = format!("client {link} listens to {channel}");
                    self.world.violate("a subscription left behind", what);
                }
            }
            if self.random.bool() {
                self.close(&host).await;
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}
