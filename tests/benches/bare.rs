//! A hand-over of a fair lock without the lock: redis-rs alone sends the release script, and a second connection
//! receives the message that the script publishes. No lock over this library can be faster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::protocol::{LockProtocol, Protocol as _, RequestContext};
use lockkeeper_core::{ClaimId, Kind, Name};
use lockkeeper_lua::{Status, lock};
use lockkeeper_testkit::server::Server;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, PushKind};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, timeout};

use crate::pairs::{NAMESPACE, TTL, command, connect_redis_rs, send, told};

/// The client id of all claims here.
const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

const WAITER_TTL: Duration = Duration::from_secs(10);

/// Two connections of the client library, and claims that hand one name on repeatedly.
pub(crate) struct Bare {
    scripts: MultiplexedConnection,
    // Kept so that it does not end.
    _subscribed: MultiplexedConnection,
    messages: Arc<Mutex<UnboundedReceiver<redis::PushInfo>>>,
    name: Name,
    /// How many claims there were so far.
    claims: u64,
}

impl Bare {
    /// Connects, subscribes, and loads the scripts.
    pub(crate) async fn start(server: &Server) -> Result<Self> {
        for script in [&lock::ACQUIRE, &lock::RELEASE] {
            let load = ["SCRIPT", "LOAD", script.source];
            server.command(&load).await?;
        }
        let name = Name::new(NAMESPACE, "bare")?;
        let (scripts, _) = connect_redis_rs(server).await?;
        let (mut subscribed, messages) = connect_redis_rs(server).await?;
        let channel = format!("{}:{CLIENT}", name.part("grant"));
        subscribed.subscribe(channel).await?;
        Ok(Self {
            scripts,
            _subscribed: subscribed,
            messages: Arc::new(Mutex::new(messages)),
            name,
            claims: 0,
        })
    }

    /// Measures this many hand-overs: from sending a release to the arrival of the message that the next claim holds, with a
    /// `rest` before each.
    pub(crate) async fn hand_overs(
        &mut self,
        number: usize,
        rest: Duration,
    ) -> Result<Vec<Duration>> {
        let mut turns = Vec::with_capacity(number);
        self.claims += 1;
        let first = self.acquire(self.claims)?;
        for _ in 0..number {
            self.claims += 1;
            turns.push((self.acquire(self.claims)?, self.leave(self.claims - 1)?));
        }
        let last = self.leave(self.claims)?;
        let mut scripts = self.scripts.clone();
        let messages = Arc::clone(&self.messages);
        let work = async move {
            let mut messages = messages.lock_owned().await;
            let mut expect = async |command: &Cmd, expected| {
                let reply = send(&mut scripts, command).await?;
                ensure!(told(&reply) == Some(expected), "{reply:?}");
                anyhow::Ok(())
            };
            expect(&first, Status::Granted).await?;
            let mut times = Vec::with_capacity(turns.len());
            for (acquire, leave) in turns {
                expect(&acquire, Status::Waiting).await?;
                sleep(rest).await;
                let start = Instant::now();
                let granted = async {
                    while messages.recv().await.context("no messages")?.kind != PushKind::Message {}
                    anyhow::Ok(start.elapsed())
                };
                let (left, time) = tokio::join!(expect(&leave, Status::Released), granted);
                left?;
                times.push(time?);
            }
            expect(&last, Status::Released).await?;
            anyhow::Ok(times)
        };
        // In a task, as users of the lock run it.
        let work = tokio::spawn(timeout(Duration::from_secs(20), work));
        work.await?.context("a message was lost")?
    }

    fn acquire(&self, number: u64) -> Result<Cmd> {
        Ok(command(&self.lock().acquire(ask(&who(number)?)), 1))
    }

    fn leave(&self, number: u64) -> Result<Cmd> {
        Ok(command(&self.lock().release(ask(&who(number)?), false), 1))
    }

    fn lock(&self) -> LockProtocol {
        let lock = LockProtocol::new(self.name.clone(), Kind::new("fair"));
        lock.reentrant().queueing()
    }
}

/// A claim with an owner of its own.
fn who(number: u64) -> Result<ClaimId> {
    let owner = format!("{CLIENT}:{number}").parse()?;
    Ok(ClaimId::new(
        owner,
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
    ))
}

/// A request for a name that is inflated, because there is a queue.
const fn ask(claim: &ClaimId) -> RequestContext<'_> {
    RequestContext::new(claim, TTL, 0, None).queueing(WAITER_TTL, None)
}
