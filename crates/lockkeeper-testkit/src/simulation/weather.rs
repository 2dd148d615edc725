//! What befalls clients and the server: disasters while the storm lasts, a short cut now and then when it is over.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::Client;
use lockkeeper_memory::Snapshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::beyond::Beyond;
use super::link::LinkStore;
use super::plan::{Disaster, Plan};
use super::species::Species;
use super::work::{Pausable, Worker};
use super::world::World;

/// How long what went wrong may show after it is over: a request that is waited for, a pause between attempts.
const AFTERMATH: Duration = Duration::from_millis(700);

/// How long a connection is broken in fair weather, ms.
const BLIP: u64 = 200;

/// A client with its tasks.
#[derive(Debug)]
struct Site {
    link: usize,
    client: Client,
    tasks: Vec<JoinHandle<()>>,
}

/// All clients, and what befalls them.
#[derive(Debug)]
pub(super) struct Weather {
    world: Arc<World>,
    random: Rng,
    sites: Vec<Site>,
    /// Tasks of clients that are gone.
    orphans: Vec<JoinHandle<()>>,
    snapshot: Snapshot,
    /// When the clock last stepped forward.
    stepped: Duration,
    /// How far it stepped back in all.
    back: Duration,
}

impl Weather {
    pub(super) fn new<S: Species>(world: &Arc<World>) -> Result<Self, lockkeeper::Error> {
        let mut weather = Self {
            world: Arc::clone(world),
            random: Rng::with_seed(world.plan.seed_of(2)),
            sites: Vec::new(),
            orphans: Vec::new(),
            snapshot: world.server.snapshot(),
            stepped: Duration::ZERO,
            back: Duration::ZERO,
        };
        for _ in 0..world.plan.clients {
            weather.start::<S>()?;
        }
        Ok(weather)
    }

    /// A new client begins to work.
    fn start<S: Species>(&mut self) -> Result<(), lockkeeper::Error> {
        let world = &self.world;
        let link = world.network().connect(&world.server);
        let part = 100 * (1 + link as u64);
        let client = Client::builder()
            .seed(world.plan.seed_of(part))
            .ttl(world.plan.ttl)
            .waiter_ttl(world.plan.waiter_ttl)
            .release_timeout(world.plan.ttl)
            .build(Arc::new(LinkStore::new(Arc::clone(world), link)))?;
        let names = (0..world.plan.names).map(|name| S::lock(&client, &Plan::name(name)));
        let locks: Vec<S::Lock> = names.collect();
        let owner = client.new_owner();
        let tasks = (0..world.plan.tasks).map(|task| {
            let worker = Worker::<S> {
                world: Arc::clone(world),
                client: client.clone(),
                locks: locks.clone(),
                owner,
                link,
                random: Rng::with_seed(world.plan.seed_of(part + 1 + task as u64)),
            };
            tokio::spawn(Pausable::new(world, link, worker.run()))
        });
        let tasks = tasks.collect();
        self.sites.push(Site {
            link,
            client,
            tasks,
        });
        Ok(())
    }

    /// Disasters until the storm is over.
    pub(super) async fn storm<S: Species>(&mut self) -> Result<(), lockkeeper::Error> {
        let plan = self.world.plan.clone();
        while self.world.now() < plan.storm {
            let interval = plan.interval.mul_f64(2.0 * self.random.f64());
            sleep(interval.min(plan.storm.saturating_sub(self.world.now()))).await;
            if plan.forgets && self.random.bool() {
                self.snapshot = self.world.server.snapshot();
            }
            if let Some(disaster) = self.random.choice(plan.disasters.iter().copied()) {
                self.world.tell(format_args!("{disaster:?}"));
                self.befall::<S>(disaster).await?;
                self.world.look(true);
            }
        }
        Ok(())
    }

    async fn befall<S: Species>(&mut self, disaster: Disaster) -> Result<(), lockkeeper::Error> {
        let now = self.world.now();
        let site = self.random.usize(..self.sites.len());
        let link = self.sites[site].link;
        match disaster {
            Disaster::Cut => self.cut(link, self.outage(), false),
            Disaster::Restart => {
                self.world.server.flush_scripts();
                self.cut_all();
            }
            Disaster::ForgetScripts => self.world.server.flush_scripts(),
            Disaster::Pause => {
                let longest = self.world.plan.ttl.mul_f64(1.5).as_millis();
                let pause = self.random.u64(0..=u64::try_from(longest).unwrap_or(0));
                let until = (now + Duration::from_millis(pause)).min(self.world.plan.storm);
                self.world.network().links[link].paused = until;
            }
            Disaster::Close => {
                let site = self.sites.swap_remove(site);
                self.close(&site).await;
                self.orphans.extend(site.tasks);
                self.start::<S>()?;
            }
            Disaster::Crash => {
                let site = self.sites.swap_remove(site);
                self.world.network().close(link);
                self.world.check(|checks| checks.died(link));
                site.tasks.iter().for_each(JoinHandle::abort);
                self.orphans.extend(site.tasks);
                self.start::<S>()?;
            }
            Disaster::ClockBack => {
                let step = self.random.u64(0..=self.ttl_ms());
                self.back += Duration::from_millis(step);
                self.world
                    .server
                    .step_clock(-i64::try_from(step).unwrap_or(0));
            }
            // Once in one lease, or the steps would add up to more than the margin.
            Disaster::ClockForward if now >= self.stepped + 2 * self.world.plan.ttl => {
                self.stepped = now;
                let longest = self.world.plan.margin() - Duration::from_millis(2);
                let longest = i64::try_from(longest.as_millis()).unwrap_or(0);
                self.world.server.step_clock(self.random.i64(0..=longest));
            }
            Disaster::ClockForward => {}
            Disaster::ClockLeap => {
                let leap = 2 * self.random.u64(0..=self.ttl_ms());
                self.world.server.step_clock(leap.cast_signed());
            }
            Disaster::DeletedKey => {
                let main = Plan::main(self.random.usize(..self.world.plan.names));
                // It may be gone already.
                let _ = self.world.server.execute(&["DEL", &main]);
            }
            Disaster::Force => {
                let name = Plan::name(self.random.usize(..self.world.plan.names));
                let client = self.sites[site].client.clone();
                // In a storm it may fail.
                if let Ok(found) = client.inspect(&name).await
                    && let Some(holder) = found.holders.first()
                {
                    let _ = client.force_release(&name, &holder.claim).await;
                }
            }
            Disaster::Failover => {
                self.world.server.restore(&self.snapshot);
                self.world.server.flush_scripts();
                if self.world.plan.beyond == Some(Beyond::ClockBehind) {
                    let behind = 2 * self.random.u64(0..=self.ttl_ms());
                    self.back += Duration::from_millis(behind);
                    self.world.server.step_clock(-behind.cast_signed());
                }
                self.world.check(|checks| checks.forgot(now));
                self.cut_all();
            }
        }
        Ok(())
    }

    fn ttl_ms(&self) -> u64 {
        u64::try_from(self.world.plan.ttl.as_millis()).unwrap_or(0)
    }

    fn outage(&self) -> u64 {
        self.ttl_ms() / 4
    }

    fn cut(&self, link: usize, down: u64, server: bool) {
        let (now, latest) = (self.world.now(), self.world.plan.ttl.mul_f64(0.4));
        self.world.network().cut(link, now, down, latest, server);
        self.world.bell.notify_one();
    }

    fn cut_all(&self) {
        for site in &self.sites {
            self.cut(site.link, self.outage(), true);
        }
    }

    /// Closes a client and looks at what it reports.
    async fn close(&self, site: &Site) {
        let link = site.link;
        self.world.network().links[link].closing = true;
        let (held, interested) = self
            .world
            .check(|checks| (checks.believed(link), checks.interested()));
        let began = self.world.now();
        let report = site.client.close().await;
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
        let links: Vec<usize> = self.sites.iter().map(|site| site.link).collect();
        for &link in &links {
            // Whatever was missed is told.
            self.cut(link, 0, false);
        }
        self.fair_after(self.world.plan.timeout());
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
        let tasks = self.sites.iter_mut().flat_map(|site| site.tasks.drain(..));
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
        for site in std::mem::take(&mut self.sites) {
            let mut channels = self.world.network().links[site.link].subscribed.clone();
            channels.retain(|channel| !channel.starts_with("lockkeeper.client:"));
            if let Some(channel) = channels.first() {
                let what = format!("client {} listens to {channel}", site.link);
                self.world.violate("a subscription left behind", what);
            }
            if self.random.bool() {
                self.close(&site).await;
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}
