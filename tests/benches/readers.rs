//! Many readers behind one writer of a read-write lock: how long until all of them read, and how long one script keeps the
//! server busy meanwhile.

use std::time::Instant;

use anyhow::{Result, ensure};
use lockkeeper::RwLock;
use lockkeeper_lua::lock;
use lockkeeper_testkit::server::Server;
use tokio::task::{JoinSet, yield_now};

use crate::report::{Row, Target};
use crate::rounds::Spread;
use crate::slowlog::SlowLog;
use crate::{Effort, PATIENCE};

const PART: &str = "readers";

/// The name of the lock: 32 bytes, about as long as a name that contains a UUID.
const NAME: &str = "bench:readers:000000000000000000";

/// How many wait to read.
const READERS: usize = 10_000;

/// Readers that come at the same time.
const TOGETHER: usize = 64;

/// Lets readers wait, releases the writer, and watches them enter, a few times.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let (mut entered, mut leaves, mut heartbeats) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..effort.periods.max(2) {
        let server = Server::start().await?;
        let log = SlowLog(&server);
        let client = lockkeeper::connect(&server.url()).await?;
        let lock = RwLock::new(&client, NAME);
        let writing = lock.write().await?;
        let mut readers = JoinSet::new();
        while readers.len() < READERS {
            let more = READERS.min(readers.len() + TOGETHER);
            while readers.len() < more {
                let lock = lock.clone();
                readers
                    .spawn(async move { lock.read().await.map(|guard| (Instant::now(), guard)) });
            }
            let start = Instant::now();
            while lock.queue_len().await? < u64::try_from(more)? {
                ensure!(start.elapsed() < PATIENCE, "not all have joined");
                yield_now().await;
            }
        }
        log.start().await?;
        let start = Instant::now();
        writing.release().await?;
        let mut last = start;
        let mut guards = Vec::with_capacity(READERS);
        while let Some(reader) = readers.join_next().await {
            let (granted, guard) = reader??;
            last = last.max(granted);
            guards.push(guard);
        }
        entered.push((last - start).as_secs_f64());
        leaves.extend(log.of(&lock::RELEASE).await?);
        heartbeats.extend(log.of(&lock::HEARTBEAT).await?);
        log.stop().await?;
        let token = guards.first().map(|guard| guard.fencing_token());
        ensure!(
            guards
                .iter()
                .all(|guard| Some(guard.fencing_token()) == token),
            "those who read together must share a token"
        );
        drop(guards);
        client.close().await;
    }
    let row = |what: &str, unit, spread| Row::new(PART, format!("{READERS}: {what}"), unit, spread);
    let entered = Spread::of(entered)?;
    let leaves = Spread::of(leaves)?;
    let mut rows = vec![
        row("all in", "s", entered).target(Target::AtMost(1.0)),
        row("leave script", "µs", leaves),
        row("leave script, longest", "µs", Spread::once(leaves.max))
            .target(Target::AtMost(1_000.0)),
    ];
    if !heartbeats.is_empty() {
        let heartbeats = Spread::of(heartbeats)?;
        let longest = row(
            "heartbeat script, longest",
            "µs",
            Spread::once(heartbeats.max),
        );
        rows.push(longest.target(Target::AtMost(1_000.0)));
    }
    Ok(rows)
}
