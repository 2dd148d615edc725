//! The sixth generation: Redlock as its page describes it, in the fewest lines. It always runs on five embedded servers, whatever
//! the URL is, because the program must control their clocks.

use std::time::Duration;

use anyhow::Result;
use lockkeeper_examples::Redis;
use tokio::time::{Instant, sleep};

use super::stage::{LEASE, LOCK, OVER, Stage, server, taken};

/// Five servers that share nothing.
struct Servers(Vec<Redis>);

impl Servers {
    fn new() -> Self {
        Self((0..5).map(|_| server()).collect())
    }

    /// Asks the servers that can be reached. Returns until when the lock is valid, if a majority has granted it.
    async fn take(
        &self,
        stage: &Stage,
        who: &str,
        token: &str,
        reached: &[usize],
    ) -> Result<Option<Instant>> {
        let begun = Instant::now();
        let lease = LEASE.as_millis().to_string();
        let mut granted = Vec::new();
        for number in reached {
            let set = ["SET", LOCK, token, "NX", "PX", &lease];
            if taken(self.0[*number].command(&set).await?) {
                granted.push("ABCDE".as_bytes()[*number] as char);
            }
        }
        let names: String = granted.iter().collect();
        stage.tell(who, format!("SET NX PX on all of them: granted by {names}"));
        let valid = begun + LEASE - LEASE / 100;
        let held = granted.len() >= 3 && Instant::now() < valid;
        Ok(held.then_some(valid))
    }
}

pub(crate) async fn majority(stage: &mut Stage) -> Result<()> {
    let all = [0, 1, 2, 3, 4];
    let servers = Servers::new();
    let ann = servers.take(stage, "ann", "f3a9", &all).await?;
    stage.tell("", "server A dies, and comes back without the lock");
    servers.0[0].command(&["DEL", LOCK]).await?;
    let bob = servers.take(stage, "bob", "77c0", &all).await?;
    let alone = ann.is_some() && bob.is_none();
    stage.repaired("one server may be lost", alone)?;

    let servers = Servers::new();
    let carl = servers.take(stage, "carl", "b512", &[0, 1, 2]).await?;
    stage.tell("", "an operator sets the clock of server C forward");
    jump(&servers.0[2], OVER);
    let dora = servers.take(stage, "dora", "08de", &[2, 3, 4]).await?;
    let now = Instant::now();
    let both = carl.is_some_and(|until| now < until) && dora.is_some();
    stage.broken("carl and dora are both inside: a clock jumped", both)?;

    let servers = Servers::new();
    let mut register = String::new();
    let emil = servers.take(stage, "emil", "e001", &all).await?;
    let checked = emil.is_some_and(|until| Instant::now() < until);
    stage.tell("emil", "looks at his clock: the lock is valid");
    stage.tell("emil", "falls asleep, between the look and the write");
    sleep(OVER).await;
    let fritz = servers.take(stage, "fritz", "d1ce", &all).await?;
    "fritz was here".clone_into(&mut register);
    stage.tell("fritz", "writes");
    if checked {
        "emil was here".clone_into(&mut register);
        stage.tell("emil", "wakes up and writes");
    }
    let overwritten = fritz.is_some() && register == "emil was here";
    stage.broken(
        "a late write has replaced a newer one: a random token has no order",
        overwritten,
    )
}

/// Sets a server's clock forward.
fn jump(server: &Redis, by: Duration) {
    if let Redis::Memory(store) = server {
        store.step_clock(i64::try_from(by.as_millis()).unwrap_or(i64::MAX));
    }
}
