//! One lock under constant contention from programs of another library and ours. Under the lock, each reads a number twice and
//! writes it back plus one, which reveals anyone else inside.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, Guard, Lock, Mutex, Redlock};
use lockkeeper_testkit::peer::{self, Program};
use lockkeeper_testkit::server::Server;
use lockkeeper_tests::patient;
use redis::AsyncCommands as _;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How often both sides together acquire the lock.
const ACQUISITIONS: usize = 10_000;

/// The number of clients on each side, and of tasks per client. For a Redlock, one task: each client asks all servers, and
/// more tasks would rarely leave a majority to any of them.
const CLIENTS: usize = 2;
const TASKS: usize = 2;

/// The longest pause before a task wants the lock again, ms. Without it the releasing task would always be first.
const PAUSE: u64 = 4;

/// A started server takes part in a Redlock once it is older than one of our leases.
const TTL: Duration = Duration::from_secs(2);

/// The time for everything, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(600);

/// The folder of the program around the client in `examples/other-languages/python`, which uses our format.
const CLIENT: &str = "python-client";

const NAME: &str = "invoice:42";
const COUNT: &str = "invoice:42:count";

/// The work of each side.
#[derive(Debug, Clone, Copy)]
struct Mix {
    folder: &'static str,
    kind: &'static str,
    servers: usize,
    tasks: usize,
}

macro_rules! mixes {
    ($($test:ident: $folder:literal $kind:literal on $servers:literal)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        #[ignore = "long: ten thousand acquisitions beside another library"]
        async fn $test() -> Result<()> {
            let tasks = if $servers > 1 { 1 } else { TASKS };
            mix(Mix { folder: $folder, kind: $kind, servers: $servers, tasks }).await
        }
    )*};
}

mixes! {
    rslock_and_the_mutex_exclude_one_another: "rslock" "mutex" on 1
    redsync_and_the_mutex_exclude_one_another: "redsync" "mutex" on 1
    asyncio_locks_of_redis_py_and_the_mutex_exclude_one_another: "redis-py" "mutex" on 1
    threads_with_redis_py_and_the_mutex_exclude_one_another: "redis-py" "threads" on 1
    node_redlock_and_the_mutex_exclude_one_another: "node-redlock" "mutex" on 1
    quorums_of_rslock_and_of_the_redlock_exclude_one_another: "rslock" "redlock" on 3
    quorums_of_redsync_and_of_the_redlock_exclude_one_another: "redsync" "redlock" on 3
    quorums_of_node_redlock_and_of_the_redlock_exclude_one_another: "node-redlock" "redlock" on 3
    the_client_in_python_and_the_mutex_exclude_one_another: "python-client" "mutex" on 1
    the_client_in_python_and_the_fair_lock_exclude_one_another: "python-client" "fair" on 1
}

async fn mix(mix: Mix) -> Result<()> {
    let Some(words) = words(mix.folder)? else {
        return Ok(());
    };
    let servers = started(mix.servers).await?;
    let mut program = Program::start(&words, &servers).await?;
    let each = ACQUISITIONS / 2 / CLIENTS / mix.tasks;
    let order = json!({
        "work": "counted", "kind": mix.kind, "name": NAME, "tasks": mix.tasks * CLIENTS, "clients": CLIENTS, "count": each, "pause": PAUSE,
    });
    let mut clients = Vec::new();
    let ours = async {
        let mut working = JoinSet::new();
        for _ in 0..CLIENTS {
            let of_one = connected(&servers, mix).await?;
            for _ in 0..mix.tasks {
                let redis = redis::Client::open(servers[0].url())?;
                let redis = redis.get_multiplexed_async_connection().await?;
                match mix.kind {
                    "redlock" => working.spawn(counted(Redlock::new(&of_one, NAME)?, redis, each)),
                    "fair" => working.spawn(counted(FairLock::new(&of_one[0], NAME), redis, each)),
                    _ => working.spawn(counted(Mutex::new(&of_one[0], NAME), redis, each)),
                };
            }
            clients.extend(of_one);
        }
        let mut met = 0;
        while let Some(done) = timeout(PATIENCE, working.join_next()).await? {
            met += done??;
        }
        anyhow::Ok(met)
    };
    let (theirs, met) = tokio::try_join!(program.work(&order, PATIENCE), ours)?;

    let stored = servers[0].command(&["GET", COUNT]).await?.into_text()?;
    let expected = format!("{ACQUISITIONS} ");
    ensure!(stored.starts_with(&expected), "{stored}, not {expected}");
    let granted: usize = waits(&theirs)?.into_iter().map(Vec::len).sum();
    ensure!(granted == ACQUISITIONS / 2, "{granted} by theirs");
    let their_met = theirs["met"].as_u64().context("not how often")?;
    println!(
        "proved {ACQUISITIONS} acquisitions beside other libraries\n{} {} {}: ours came after theirs {met} times, theirs after ours {their_met} times, in {} s",
        program.name, program.version, mix.kind, theirs["seconds"],
    );
    // Otherwise one side had the lock to itself while the other waited.
    ensure!(met > 100 && their_met > 100, "{met}, {their_met}");
    program.stop().await?;
    for client in clients {
        client.close().await;
    }
    Ok(())
}

/// The command line of a folder's program; `None`, after a message, if it cannot be tried.
pub(super) fn words(folder: &str) -> Result<Option<Vec<String>>> {
    if folder != CLIENT {
        return peer::built(folder);
    }
    // It needs redis-py and nothing else that must be built.
    let words = peer::built("redis-py")?;
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/python-client/peer.py");
    let words = words.and_then(|words| words.into_iter().next());
    Ok(words.map(|python| vec![python, program.to_owned()]))
}

async fn started(number: usize) -> Result<Vec<Server>> {
    let mut servers = Vec::new();
    for _ in 0..number {
        servers.push(Server::start().await?);
    }
    Ok(servers)
}

async fn connected(servers: &[Server], mix: Mix) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for server in servers {
        let settings = match mix.folder {
            CLIENT => patient(),
            _ => patient()
                .namespace("")
                .poll_every(Duration::from_millis(20)),
        };
        let settings = if mix.servers > 1 {
            settings.ttl(TTL)
        } else {
            settings
        };
        clients.push(lockkeeper::connect_with(&server.url(), settings).await?);
    }
    Ok(clients)
}

fn waits(answer: &Value) -> Result<Vec<&Vec<Value>>> {
    let waits = answer["waits"].as_array().context("no waits")?;
    let waits = waits.iter().map(Value::as_array);
    waits.collect::<Option<_>>().context("no waits of a client")
}

/// Does the same as the other programs. Returns how often another side had added last.
async fn counted<L: Lock>(lock: L, mut redis: MultiplexedConnection, times: usize) -> Result<u64> {
    let mut met = 0;
    for _ in 0..times {
        let guard = lock.acquire().await?;
        let text: Option<String> = redis.get(COUNT).await?;
        let again: Option<String> = redis.get(COUNT).await?;
        ensure!(again == text, "{text:?} has become {again:?} under ours");
        let stored = text.as_deref().unwrap_or("0 nobody");
        let (number, last) = stored.split_once(' ').context("no number")?;
        let number: usize = number.parse()?;
        let () = redis
            .set(COUNT, format!("{} lockkeeper", number + 1))
            .await?;
        met += u64::from(text.is_some() && last != "lockkeeper");
        Guard::release(guard).await?;
        sleep(Duration::from_micros(fastrand::u64(0..=PAUSE * 1_000))).await;
    }
    Ok(met)
}
