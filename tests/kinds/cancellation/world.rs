//! The world in which futures are dropped, and what must be left of it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::{Acquire, Client, ClientBuilder, Guard, Lock, Redlock};
use lockkeeper_core::{Hold, Plan};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::FaultyStore;
use lockkeeper_testkit::gated::{GatedStore, drop_after};
use lockkeeper_testkit::subject::Subject;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(6);

/// How long a request or a reply is on its way.
const ONE_WAY: Duration = Duration::from_millis(3);

/// How much later a request arrives whose future was dropped, if the release behind it is to overtake it.
const LATE: Duration = Duration::from_millis(40);

/// Longer than it takes to queue, and shorter than any other wait.
const HELD_FOR: Duration = Duration::from_millis(50);

/// How long a dropped future may keep a name from others: a few requests, and no timeout.
const AT_ONCE: Duration = Duration::from_millis(100);

/// Longer than any future waits between two polls.
const A_MINUTE: Duration = Duration::from_secs(60);

/// More polls than any of the futures needs.
const TOO_MANY: usize = 200;

pub(super) const NAME: &str = "name";

/// A name that no script may acquire together with others, as on another node of a cluster.
pub(super) const APART: &str = "apart";

/// How keys begin that belong to a slot, to a client, and to a claim that was released.
const COUNTERS: &str = "lockkeeper.fence:";
const LABELS: &str = "lockkeeper.client:";
const TOMBSTONES: &str = "lockkeeper.gone:";

/// Three servers, and two clients of each.
pub(super) struct World {
    servers: Vec<MemoryStore>,
    /// The clients whose futures are dropped.
    pub(super) here: Vec<Client>,
    /// The clients that contend with them.
    pub(super) there: Vec<Client>,
    /// Acquisitions and holds that nobody drops.
    others: JoinSet<Result<()>>,
}

/// A future that is dropped.
pub(super) struct Case {
    future: Pin<Box<dyn Future<Output = Result<()>>>>,
    /// What another owner must be able to acquire afterwards.
    free: Plan,
    /// A hold that must survive.
    outer: Option<Hold>,
}

impl Case {
    pub(super) fn of<T>(
        future: impl Future<Output = lockkeeper::Result<T>> + 'static,
        contender: &impl Lock,
    ) -> Self {
        let future = Box::pin(async move {
            future.await?;
            Ok(())
        });
        Self {
            future,
            free: contender.plan(),
            outer: None,
        }
    }

    pub(super) fn inside(self, outer: impl Guard) -> Self {
        Self {
            outer: Some(outer.into()),
            ..self
        }
    }
}

impl World {
    /// A world in which a request arrives this much later if its future was dropped.
    fn new(settings: &ClientBuilder, if_dropped: Duration) -> Result<Self> {
        let servers = vec![MemoryStore::new(), MemoryStore::new(), MemoryStore::new()];
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for (server, seed) in servers.iter().zip(1..) {
            let network = FaultyStore::new(Arc::new(server.sibling()));
            network.delay(ONE_WAY, if_dropped);
            network.split_groups(APART);
            let settings = settings.clone();
            here.push(
                settings
                    .clone()
                    .seed(seed)
                    .build(Arc::new(GatedStore(network)))?,
            );
            there.push(settings.seed(!seed).build(Arc::new(server.sibling()))?);
        }
        let others = JoinSet::new();
        Ok(Self {
            servers,
            here,
            there,
            others,
        })
    }

    /// A lock on one server, and that of a contender.
    pub(super) fn locks<S: Subject>(&self) -> (S, S::Contender) {
        let contender = S::Contender::new(&self.there[0], NAME);
        (S::new(&self.here[0], NAME), contender)
    }

    pub(super) fn redlocks(&self) -> Result<(Redlock, Redlock)> {
        let contender = Redlock::new(&self.there, NAME)?;
        Ok((Redlock::new(&self.here, NAME)?, contender))
    }

    /// Holds this lock for a while.
    pub(super) async fn hold(&mut self, lock: &impl Lock) -> Result<()> {
        let guard = lock.acquire().await?;
        self.others.spawn(async move {
            sleep(HELD_FOR).await;
            Guard::release(guard).await?;
            Ok(())
        });
        Ok(())
    }

    /// Waits for this lock, which is held.
    pub(super) async fn queue(&mut self, lock: &impl Lock) {
        let lock = lock.clone();
        self.others.spawn(async move {
            Guard::release(lock.acquire().await?).await?;
            Ok(())
        });
        sleep(HELD_FOR).await;
    }

    /// Closes the clients whose futures were dropped.
    async fn close_here(&self) -> Result<()> {
        for client in &self.here {
            let report = client.close().await;
            ensure!(
                (report.expiring, report.unconfirmed) == (0, 0),
                "{report:?}"
            );
        }
        Ok(())
    }

    /// Checks that no server has a key other than those that begin with one of these.
    fn ensure_empty(&self, but: &[&str]) -> Result<()> {
        for server in &self.servers {
            let mut left = server.keys();
            left.retain(|key| !but.iter().any(|it| key.starts_with(it)));
            ensure!(left.is_empty(), "left on the server: {left:?}");
        }
        Ok(())
    }

    /// Checks what is left after the future of a case was dropped, or has ended.
    async fn settle(mut self, free: Plan, outer: Option<Hold>, closes_at_once: bool) -> Result<()> {
        if let Some(outer) = outer {
            outer.verify().await.context("the outer hold")?;
        }
        let others = async {
            while let Some(other) = self.others.join_next().await {
                other??;
            }
            anyhow::Ok(())
        };
        let others = timeout(HELD_FOR + AT_ONCE, others).await;
        others.context("others wait for too long")??;
        if closes_at_once {
            self.close_here().await?;
        }
        let stranger: Hold = Acquire::new(free).wait_for(AT_ONCE).await?;
        stranger.release().await?;
        // Until everything that was on its way has arrived, and then until tombstones have expired.
        sleep(AT_ONCE).await;
        self.ensure_empty(&[COUNTERS, LABELS, TOMBSTONES])?;
        sleep(2 * TTL).await;
        self.ensure_empty(&[COUNTERS, LABELS])?;
        self.close_here().await?;
        for client in &self.there {
            client.close().await;
        }
        drop(self);
        sleep(Duration::from_millis(1)).await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        ensure!(tasks == 0, "{tasks} tasks are left");
        Ok(())
    }
}

/// Runs `case` again and again, each time in a new world, and drops its future one poll later than the last time.
pub(super) async fn at_every_poll(
    settings: ClientBuilder,
    case: impl AsyncFn(&mut World) -> Result<Case>,
) -> Result<()> {
    let settings = settings.ttl(TTL);
    for polls in 0..TOO_MANY {
        let mut done = false;
        for (closes_at_once, if_dropped) in [
            (false, Duration::ZERO),
            (true, Duration::ZERO),
            (false, LATE),
        ] {
            let mut world = World::new(&settings, if_dropped)?;
            let case = case(&mut world).await?;
            let dropped = timeout(A_MINUTE, drop_after(case.future, polls)).await;
            done = dropped.context("not polled again")?.transpose()?.is_some();
            let settled = world.settle(case.free, case.outer, closes_at_once);
            settled.await.with_context(|| {
                format!("{polls} polls, late by {if_dropped:?}, closing at once: {closes_at_once}")
            })?;
        }
        if done {
            ensure!(polls > 1, "the future was never in the middle");
            return Ok(());
        }
    }
    bail!("not ready after {TOO_MANY} polls")
}
