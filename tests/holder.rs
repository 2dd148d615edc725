//! A program that tests of several processes run. It takes a lock and waits to be killed, stopped or told to release; or it
//! works under locks and records when its leases were valid.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper::redisson::{
    RedissonFairLock, RedissonLock, RedissonPermitExpirableSemaphore, RedissonReadWriteLock,
    RedissonSemaphore,
};
use lockkeeper::{
    Client, ClientBuilder, Election, FairLock, Guard as _, Lock, MultiLock, Mutex, ReentrantLock,
    RwLock, Semaphore,
};
use lockkeeper_testkit::history::{ValidSpan, now};
use lockkeeper_testkit::recorded::{self, Job, Pace, Process, Records};
use lockkeeper_testkit::until::PATIENCE;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, stdin};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The ttl of what nobody kills and no Java waits for, ms.
const HOUR: &str = "3600000";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["hold", url, name, ttl] => hold(&connect(url, ttl).await?, name).await,
        ["reenter", url, name, ttl, owner] => {
            let client = connect(url, ttl).await?;
            let guard = ReentrantLock::new(&client, name)
                .acquire()
                .owner(&owner.parse()?)
                .wait_for(PATIENCE)
                .await?;
            println!("held {}", guard.fencing_token());
            std::future::pending::<Result<()>>().await
        }
        ["work", url, name, tasks, rounds] => {
            work(
                &connect(url, HOUR).await?,
                name,
                tasks.parse()?,
                rounds.parse()?,
            )
            .await
        }
        ["redisson", url, name, ttl] => {
            let lock = RedissonLock::new(&connect(url, ttl).await?, name);
            let guard = lock.acquire().wait_for(PATIENCE).await?;
            println!("held {}", guard.owner());
            std::future::pending::<Result<()>>().await
        }
        ["redisson-fair", url, name, ttl, wait] => {
            let lock = RedissonFairLock::new(&connect(url, ttl).await?, name);
            let lock = lock.wait_timeout(Duration::from_millis(wait.parse()?));
            let guard = lock.acquire().wait_for(PATIENCE).await?;
            println!("held {}", guard.owner());
            std::future::pending::<Result<()>>().await
        }
        ["redisson-read", url, name, ttl] => {
            let lock = RedissonReadWriteLock::new(&connect(url, ttl).await?, name);
            let guard = lock.read().wait_for(PATIENCE).await?;
            println!("held {}", guard.owner());
            std::future::pending::<Result<()>>().await
        }
        ["redisson-write", url, name, ttl] => {
            let lock = RedissonReadWriteLock::new(&connect(url, ttl).await?, name);
            let guard = lock.write().wait_for(PATIENCE).await?;
            println!("held {}", guard.owner());
            std::future::pending::<Result<()>>().await
        }
        ["redisson-permits", url, kind, name, ttl] => {
            let client = connect(url, ttl).await?;
            let (plain, leased) = (
                RedissonSemaphore::new(&client, name),
                RedissonPermitExpirableSemaphore::new(&client, name),
            );
            let _guards = match kind {
                "semaphore" => (Some(plain.acquire().wait_for(PATIENCE).await?), None),
                _ => (None, Some(leased.acquire().wait_for(PATIENCE).await?)),
            };
            println!("held");
            std::future::pending::<Result<()>>().await
        }
        ["redisson-count", url, name, counter, rounds] => {
            let lock = RedissonLock::new(&connect(url, "30000").await?, name);
            count(&lock, url, counter, rounds.parse()?).await
        }
        ["redisson-write-count", url, name, counter, rounds] => {
            let lock = RedissonReadWriteLock::new(&connect(url, "30000").await?, name);
            count(&lock.writer(), url, counter, rounds.parse()?).await
        }
        ["share", url, tasks, seconds, times] => {
            let jobs = Job::of_readers_and_writers(tasks.parse()?);
            let clients = vec![connect(url, HOUR).await?];
            let records = Records::of(&jobs).at(Pace::Hurried);
            let records = records.at_least(times.parse()?);
            record(clients, &jobs, records, seconds.parse()?).await
        }
        ["read", url, name, ttl] => {
            let lock = RwLock::new(&connect(url, ttl).await?, name);
            let guard = lock.read().wait_for(PATIENCE).await?;
            println!("held {}", guard.fencing_token());
            std::future::pending::<Result<()>>().await
        }
        ["all", names, seconds, ref urls @ ..] => all(urls, names.parse()?, seconds.parse()?).await,
        ["both", first, second, rounds] => both([first, second], rounds.parse()?).await,
        ["elect", url, name, ttl] => elect(url, name, ttl).await,
        ["permits", url, name, limit] => {
            let client = connect(url, HOUR).await?;
            permits(&Semaphore::new(&client, name, limit.parse()?)).await
        }
        ["queue", url, name, number, waiter_ttl] => {
            queue(url, name, number.parse()?, waiter_ttl.parse()?).await
        }
        _ => bail!(
            "holder all NAMES SECONDS URL… | both NAME=URL NAME=URL ROUNDS | elect URL NAME TTL_MS | hold URL NAME TTL_MS | permits URL NAME LIMIT | queue URL NAME NUMBER WAITER_TTL_MS | read URL NAME TTL_MS | redisson URL NAME TTL_MS | redisson-fair URL NAME TTL_MS WAIT_MS | redisson-count URL NAME COUNTER ROUNDS | redisson-permits URL KIND NAME TTL_MS | redisson-read URL NAME TTL_MS | redisson-write URL NAME TTL_MS | redisson-write-count URL NAME COUNTER ROUNDS | reenter URL NAME TTL_MS OWNER | share URL TASKS SECONDS TIMES | work URL NAME TASKS ROUNDS"
        ),
    }
}

async fn connect(url: &str, ttl: &str) -> Result<Client> {
    let settings = settings().ttl(Duration::from_millis(ttl.parse()?));
    Ok(lockkeeper::connect_with(url, settings).await?)
}

/// No request and no release fails because the machine is slow.
fn settings() -> ClientBuilder {
    Client::builder()
        .request_timeout(PATIENCE)
        .release_timeout(PATIENCE)
}

/// Under the lock, reads a number and writes the next one, this many times; then prints `done`.
async fn count<L: Lock>(lock: &L, url: &str, counter: &str, rounds: u64) -> Result<()> {
    let address = url.strip_prefix("redis://").context("redis://HOST:PORT")?;
    let address = address.trim_end_matches('/');
    let mut server = BufReader::new(TcpStream::connect(address).await?);
    for _ in 0..rounds {
        let guard = lock.acquire().await?;
        let number = ask(&mut server, &format!("GET {counter}")).await?;
        let number: u64 = number.parse()?;
        let next = number + 1;
        let set = ask(&mut server, &format!("SET {counter} {next}")).await?;
        ensure!(set == "+OK", "{set}");
        guard.release().await?;
    }
    println!("done");
    Ok(())
}

/// Sends a command in one line. Returns the string in the reply, or the reply line itself.
async fn ask(server: &mut BufReader<TcpStream>, command: &str) -> Result<String> {
    server
        .write_all(format!("{command}\r\n").as_bytes())
        .await?;
    let mut line = String::new();
    server.read_line(&mut line).await?;
    if line.starts_with('$') {
        line.clear();
        server.read_line(&mut line).await?;
    }
    Ok(line.trim_end().to_owned())
}

/// Works under locks of all kinds on several servers.
async fn all(urls: &[&str], names: usize, seconds: u64) -> Result<()> {
    let mut clients = Vec::new();
    for (place, url) in urls.iter().enumerate() {
        let settings = recorded::settings().store_name(place.to_string());
        clients.push(lockkeeper::connect_later(url, settings).await?);
    }
    let jobs = Job::of_all(names);
    record(clients, &jobs, Records::of(&jobs), seconds).await
}

/// Does each of these jobs in a task of its own, and prints `NAME: SPAN` for each time in which a lease was valid.
async fn record(clients: Vec<Client>, jobs: &[Job], records: Records, seconds: u64) -> Result<()> {
    let say = |name: &str, span: &ValidSpan| println!("{name}: {span}");
    let records = Arc::new(records.telling(say));
    let end = Instant::now() + Duration::from_secs(seconds);
    let process = Process::new(clients);
    let mut set = JoinSet::new();
    for &job in jobs {
        let (process, records) = (process.clone(), Arc::clone(&records));
        set.spawn(async move { recorded::work(job, process, &records, end).await });
    }
    while let Some(done) = set.join_next().await {
        done??;
    }
    // An acquisition that was given up at the end may not be released yet, and leases are long.
    for client in process.clients() {
        client.close().await;
    }
    Ok(())
}

/// Repeatedly takes a mutex and a fair lock of each of two servers together, in the order in which the servers are named, and
/// prints `done` each time.
async fn both(servers: [&str; 2], rounds: u64) -> Result<()> {
    let mut members = Vec::new();
    for server in servers {
        let (name, url) = server.split_once('=').context("NAME=URL")?;
        let client = lockkeeper::connect_with(url, settings().store_name(name)).await?;
        members.push(FairLock::new(&client, "queue").target());
        members.push(Mutex::new(&client, "account").target());
    }
    let lock = MultiLock::new(members)?;
    for _ in 0..rounds {
        let guard = lock.acquire().wait_for(PATIENCE).await?;
        guard.ensure_held()?;
        guard.release().await?;
        println!("done");
    }
    Ok(())
}

/// Prints `held TOKEN`, then `lost REASON` if the lease is lost, or `released` after a line on the standard input.
async fn hold(client: &Client, name: &str) -> Result<()> {
    let lock = Mutex::new(client, name);
    let guard = lock.acquire().wait_for(PATIENCE).await?;
    println!("held {}", guard.fencing_token());
    let mut line = String::new();
    let mut input = BufReader::new(stdin());
    tokio::select! {
        lost = guard.lost() => {
            println!("lost {:?} {}", lost.reason, if guard.ensure_held().is_err() { "and knows" } else { "but does not know" });
        }
        _ = input.read_line(&mut line) => {
            guard.release().await?;
            println!("released");
        }
    }
    Ok(())
}

/// Leads again and again. While it leads, it prints `SPAN`, from the grant until now, every few milliseconds. It resigns for
/// each line on the standard input.
async fn elect(url: &str, name: &str, ttl: &str) -> Result<()> {
    let settings = Client::builder()
        .ttl(Duration::from_millis(ttl.parse()?))
        .waiter_ttl(Duration::from_millis(ttl.parse()?));
    let client = lockkeeper::connect_later(url, settings).await?;
    let election = Election::new(&client, name).value(std::process::id().to_string());
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        let leadership = match election.campaign().await {
            Ok(leadership) => leadership,
            Err(error) if error.is_transient() => continue,
            Err(error) => return Err(error.into()),
        };
        let mut span = ValidSpan {
            from: now(),
            until: now(),
            token: leadership.term().get(),
            shared: false,
            holder: std::process::id().to_string(),
        };
        // Read the time before the check, which says that the lease was valid then.
        while leadership.is_leader() {
            println!("{span}");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
                line = lines.next_line() => {
                    line?.context("nobody reads what it says")?;
                    break;
                }
            }
            span.until = now();
        }
        // The next campaign finds out whether the lease was already lost or the server did not answer.
        drop(leadership.resign().await);
    }
}

/// Puts this many waiters into the queue, one after the other, and prints `queued`; then `served I TOKEN` as each is granted.
async fn queue(url: &str, name: &str, number: u64, waiter_ttl: u64) -> Result<()> {
    let settings = settings().waiter_ttl(Duration::from_millis(waiter_ttl));
    let lock = FairLock::new(&lockkeeper::connect_with(url, settings).await?, name);
    let mut waiters = JoinSet::new();
    for place in 0..number {
        let before = lock.queue_len().await?;
        let waiting = lock.clone();
        waiters.spawn(async move {
            let guard = waiting.acquire().await?;
            println!("served {place} {}", guard.fencing_token());
            guard.release().await?;
            anyhow::Ok(())
        });
        while lock.queue_len().await? == before {
            tokio::task::yield_now().await;
        }
    }
    println!("queued");
    while let Some(done) = waiters.join_next().await {
        done??;
    }
    Ok(())
}

/// Executes its input, `acquire`, `release` (one guard) and `limit N`, and prints the outcome of each.
async fn permits(semaphore: &Semaphore) -> Result<()> {
    let mut guards = Vec::new();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["acquire"] => match semaphore.try_acquire().await? {
                Some(guard) => {
                    guards.push(guard);
                    println!("held {}", guards.len());
                }
                None => println!("busy"),
            },
            ["release"] => {
                let guard = guards.pop().context("nothing is held")?;
                guard.release().await?;
                println!("held {}", guards.len());
            }
            ["limit", limit] => {
                let stands = semaphore.set_limit(limit.parse()?).await?;
                println!("{}", if stands { "set" } else { "nobody" });
            }
            _ => bail!("what is {line:?}?"),
        }
    }
    Ok(())
}

/// Prints one line for each time in which a task of this process held the lock.
async fn work(client: &Client, name: &str, tasks: u32, rounds: u32) -> Result<()> {
    let mut set = JoinSet::new();
    for task in 0..tasks {
        let lock = Mutex::new(client, name);
        set.spawn(async move {
            for _ in 0..rounds {
                let guard = lock.acquire().await?;
                let from = now();
                tokio::task::yield_now().await;
                let holder = format!("process {}, task {task}", std::process::id());
                println!("{}", ValidSpan::until_now(from, &guard, false, holder)?);
                guard.release().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = set.join_next().await {
        done??;
    }
    Ok(())
}
