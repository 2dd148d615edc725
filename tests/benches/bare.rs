//! A hand-over of a fair lock without the lock: the script by which the holder leaves, sent by the client library, and the
//! message that it publishes, received by a second connection of it. No lock over this library can be faster.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fred::interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_lua::{Status, lock};
use lockkeeper_testkit::server::Server;
use tokio::time::{sleep, timeout};

use crate::pairs::{NAMESPACE, TTL_MS, arguments, connect_library, execute, status};

/// Who holds and waits here.
const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

const WAITER_TTL_MS: &str = "10000";

/// Two connections of the client library, and claims that hand one name on and on.
pub(crate) struct Bare {
    scripts: fred::clients::Client,
    messages: fred::clients::Client,
    name: Name,
    /// How many claims there have been.
    claims: u64,
}

impl Bare {
    /// Connects, subscribes, and teaches the server the scripts.
    pub(crate) async fn start(server: &Server) -> Result<Self> {
        for script in [&lock::ACQUIRE, &lock::RELEASE] {
            let load = ["SCRIPT", "LOAD", script.source];
            server.command(&load).await?;
        }
        let name = Name::new(NAMESPACE, "bare")?;
        let scripts = connect_library(server).await?;
        let messages = connect_library(server).await?;
        let channel = format!("{}:{CLIENT}", name.part("grant"));
        messages.subscribe(channel).await?;
        // The library answers a subscription before it is sent; what comes behind it, it does not.
        messages.ping::<()>(None).await?;
        Ok(Self {
            scripts,
            messages,
            name,
            claims: 0,
        })
    }

    /// From the send of a leave to the arrival of the message that the next claim holds, so many times, with a `rest`
    /// before each.
    pub(crate) async fn hand_overs(
        &mut self,
        number: usize,
        rest: Duration,
    ) -> Result<Vec<Duration>> {
        let mut turns = Vec::with_capacity(number);
        self.claims += 1;
        let first = self.acquire(self.claims);
        for _ in 0..number {
            self.claims += 1;
            turns.push((self.acquire(self.claims), self.leave(self.claims - 1)));
        }
        let last = self.leave(self.claims);
        let (scripts, mut messages) = (self.scripts.clone(), self.messages.message_rx());
        let work = async move {
            let expect = async |item: ScriptCall, expected| {
                let reply = execute(&scripts, arguments(item, 1)).await?;
                ensure!(status(&reply) == Some(expected), "{reply:?}");
                Ok(())
            };
            expect(first, Status::Granted).await?;
            let mut times = Vec::with_capacity(turns.len());
            for (acquire, leave) in turns {
                expect(acquire, Status::Waiting).await?;
                sleep(rest).await;
                let leave = arguments(leave, 1);
                let start = Instant::now();
                let told = async {
                    messages.recv().await?;
                    anyhow::Ok(start.elapsed())
                };
                let (left, time) = tokio::join!(execute(&scripts, leave), told);
                ensure!(status(&left?) == Some(Status::Released));
                times.push(time?);
            }
            expect(last, Status::Released).await?;
            anyhow::Ok(times)
        };
        // In a task, as users of the lock are.
        let work = tokio::spawn(timeout(Duration::from_secs(20), work));
        work.await?.context("a message was lost")?
    }

    /// Says goodbye to the server.
    pub(crate) async fn stop(self) -> Result<()> {
        self.scripts.quit().await?;
        self.messages.quit().await?;
        Ok(())
    }

    fn acquire(&self, number: u64) -> ScriptCall {
        let (owner, claim) = who(number);
        let args = [
            &claim,
            TTL_MS,
            "0",
            "0",
            &owner,
            WAITER_TTL_MS,
            &self.name.part("grant"),
            "-1",
        ];
        ScriptCall::new(&lock::ACQUIRE, self.keys(&claim), args.map(str::to_owned))
    }

    fn leave(&self, number: u64) -> ScriptCall {
        let (_, claim) = who(number);
        let args = [
            &claim,
            &*self.name.part("grant"),
            "0",
            "0",
            "0",
            WAITER_TTL_MS,
        ];
        ScriptCall::new(&lock::RELEASE, self.keys(&claim), args.map(str::to_owned))
    }

    fn keys(&self, claim: &str) -> [String; 5] {
        let part = |part| self.name.part(part);
        [
            self.name.main().to_owned(),
            part("fence"),
            format!("{}:{claim}", part("gone")),
            part("queue"),
            part("waiters"),
        ]
    }
}

/// An owner of its own, and its claim.
fn who(number: u64) -> (String, String) {
    let owner = format!("{CLIENT}:{number}");
    let claim = format!(
        "{owner}/{:016x}",
        number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    );
    (owner, claim)
}
