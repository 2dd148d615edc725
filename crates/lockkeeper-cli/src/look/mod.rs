//! The subcommands for people who look at locks: `ls`, `inspect`, `watch`, `leader`, `limit`, `revoke`, `release`.

mod leader;
mod view;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use lockkeeper::{Client, Error, Once, Semaphore, Waiter};
use serde::Serialize;

use crate::args::Release;
use crate::exit::{CONFLICT, Failure};
use crate::out;
use crate::server::Server;
pub(crate) use leader::leader;
pub(crate) use view::{Lock, Part, described, time};

/// How many names are asked about at once. Each request is a script of its own, so the server serves others between them.
const AT_ONCE: usize = 64;

/// How many claims of a queue are shown.
pub(crate) const QUEUE: u32 = 100;

/// Lists the held locks.
pub(crate) async fn list(server: &Server, pattern: &str, json: bool) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    let mut found = BTreeSet::new();
    let mut names = client.names(pattern);
    while let Some(page) = names.next_page().await? {
        found.extend(page);
    }
    let look = async |name: &String| {
        let seen = client.inspect(name).await?;
        // For a kind without a queue, `waiters` counts the clients that listen, and there is nothing to read about them.
        let queue = match json && seen.waiters > Some(0) {
            true => queue(&client, name).await?,
            false => Vec::new(),
        };
        Ok((seen, queue))
    };
    let mut looks = stream::iter(found.iter().map(look)).buffered(AT_ONCE);
    let mut rows = Vec::new();
    while let Some(looked) = looks.next().await {
        let (seen, queue) = match looked {
            // The key belongs to another program.
            Err(Error::WrongKind { .. }) => continue,
            looked => looked?,
        };
        // It was released since it was found.
        if seen.holders.is_empty() {
            continue;
        }
        let lock = Lock::new(seen, queue);
        if json {
            out::json(&lock)?;
        } else {
            rows.push(row(&lock));
        }
    }
    if !json {
        let heading = ["NAME", "KIND", "MODE", "HOLDER", "LEFT", "TOKEN", "WAITERS"];
        out::table(&heading, &rows)?;
    }
    Ok(())
}

fn row(lock: &Lock) -> Vec<String> {
    let first = lock.holders.first();
    let holder = match (first, lock.holders.len()) {
        (Some(first), 1) => first.described(),
        (Some(first), holds) => format!("{} and {} more", first.described(), holds - 1),
        (None, _) => String::new(),
    };
    vec![
        lock.name.clone(),
        lock.kind.clone().unwrap_or_default(),
        lock.mode(),
        holder,
        first.map(Part::left).unwrap_or_default(),
        number(lock.fence),
        number(lock.waiters),
    ]
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Shows one lock.
pub(crate) async fn inspect(server: &Server, name: &str, json: bool) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    let lock = look(&client, name).await?;
    if json {
        return out::json(&lock);
    }
    let name = out::shown(&lock.name);
    if let Some(kind) = &lock.kind {
        let since = lock.since.as_deref().unwrap_or("unknown");
        let token = number(lock.fence);
        let permits = lock
            .permits()
            .map_or_else(String::new, |it| format!(", {it}"));
        out::line(&format!(
            "{name}: {kind}{permits}, token {token}, since {since}"
        ))?;
        let part = |part: &Part| {
            vec![
                part.described(),
                lock.mode_of(part),
                part.state.to_owned(),
                part.left(),
                part.claim.clone(),
            ]
        };
        let rows: Vec<_> = lock.holders.iter().map(part).collect();
        out::table(&["HOLDER", "MODE", "STATE", "LEFT", "CLAIM"], &rows)?;
    } else {
        out::line(&format!("{name}: free"))?;
    }
    if let Some(result) = &lock.result {
        out::line(&format!("{name}: {}", result.summary()))?;
    }
    if !lock.queue.is_empty() {
        let place = |(place, part): (usize, &Part)| {
            let place = (place + 1).to_string();
            vec![place, part.described(), part.claim.clone()]
        };
        let rows: Vec<_> = lock.queue.iter().enumerate().map(place).collect();
        out::table(&["PLACE", "WAITER", "CLAIM"], &rows)?;
    }
    match lock.waiters {
        Some(0) | None => Ok(()),
        Some(waiters) => out::line(&format!("{waiters} waiting")),
    }
}

async fn queue(client: &Client, name: &str) -> lockkeeper::Result<Vec<Waiter>> {
    match client.waiters(name, QUEUE).await {
        // A key of another program is in place of the queue.
        Err(Error::WrongKind { .. }) => Ok(Vec::new()),
        queue => queue,
    }
}

/// Reads everything that can be shown about one lock.
pub(crate) async fn look(client: &Client, name: &str) -> Result<Lock, Failure> {
    let seen = client.inspect(name).await?;
    let queue = queue(client, name).await?;
    let record = match Once::new(client, name).peek().await {
        Err(Error::WrongKind { .. }) => None,
        record => record?,
    };
    Ok(Lock::new(seen, queue).with_result(record.as_ref()))
}

#[derive(Serialize)]
struct Change<'a> {
    at: String,
    #[serde(flatten)]
    lock: &'a Lock,
}

/// Prints every change of a lock, until the process is ended. It polls, because a client that listens to messages counts as a
/// waiter; polling leaves no trace on the server.
pub(crate) async fn watch(
    server: &Server,
    name: &str,
    interval: Duration,
    json: bool,
) -> Result<(), Failure> {
    if interval < Duration::from_millis(10) {
        return Err(Failure::usage(
            "an --interval below 10ms would load the server too much",
        ));
    }
    let client = server.connect(Client::builder()).await?;
    let mut before = None;
    let mut silent = false;
    loop {
        match look(&client, name).await {
            Ok(lock) => {
                let gist = lock.gist();
                if silent || before.as_ref() != Some(&gist) {
                    change(&lock, json)?;
                    before = Some(gist);
                }
                silent = false;
            }
            Err(failure) if failure.code == crate::exit::UNAVAILABLE => {
                if !silent {
                    failure.print();
                }
                silent = true;
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(interval).await;
    }
}

fn change(lock: &Lock, json: bool) -> Result<(), Failure> {
    let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    if json {
        return out::json(&Change { at, lock });
    }
    let waiting = match lock.waiters {
        Some(0) | None => String::new(),
        Some(waiters) => format!(", {waiters} waiting"),
    };
    let holders: Vec<String> = lock
        .holders
        .iter()
        .map(|part| {
            let shared = match part.permits {
                Some(number) => format!(" with {number} {}", lock.units(number)),
                None if part.shares() => " and shared".to_owned(),
                None => String::new(),
            };
            let who = out::shown(&part.described());
            format!("{}{shared} by {who}", part.state)
        })
        .collect();
    let permits = lock
        .permits()
        .map_or_else(String::new, |it| format!("{it}: "));
    let holders = match &holders[..] {
        [] => "free".to_owned(),
        holders => format!(
            "{permits}{}, token {}",
            holders.join(", "),
            number(lock.fence)
        ),
    };
    let result = lock.result.as_ref();
    let result = result.map_or_else(String::new, |result| format!("; {}", result.summary()));
    out::line(&format!("{at}  {holders}{waiting}{result}"))
}

#[derive(Serialize)]
struct Limit<'a> {
    name: &'a str,
    /// `None`: nobody holds or waits, so the next claim sets it.
    limit: Option<u32>,
    held: u32,
    waiters: u64,
}

/// Shows how many permits a semaphore has. If a limit is given, sets it first.
pub(crate) async fn limit(
    server: &Server,
    name: &str,
    limit: Option<u32>,
    json: bool,
) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    // The limit of this handle only matters for its own claims, and it makes none.
    let semaphore = Semaphore::new(&client, name, limit.unwrap_or(1)).target();
    let seen = semaphore.permits(limit).await?;
    if json {
        return out::json(&Limit {
            name,
            limit: seen.map(|seen| seen.limit),
            held: seen.map_or(0, |seen| seen.held),
            waiters: seen.map_or(0, |seen| seen.waiters),
        });
    }
    let name = out::shown(name);
    out::line(&match (seen, limit) {
        (Some(seen), _) => {
            let (limit, held, waiters) = (seen.limit, seen.held, seen.waiters);
            format!("{name}: a limit of {limit}, {held} held, {waiters} waiting")
        }
        (None, None) => {
            format!("{name}: nobody holds it or waits for it, so the next run sets the limit")
        }
        (None, Some(_)) => format!(
            "{name}: nobody holds it or waits for it, so nothing was changed: the next run sets the limit"
        ),
    })
}

#[derive(Serialize)]
struct Told<'a> {
    name: &'a str,
    told: u64,
}

/// Revokes a lock.
pub(crate) async fn revoke(server: &Server, name: &str, json: bool) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    let told = client.revoke(name).await?;
    if json {
        return out::json(&Told { name, told });
    }
    let name = out::shown(name);
    match told {
        0 => out::line(&format!("{name}: nobody holds it")),
        1 => out::line(&format!("{name}: its holder was asked to release it")),
        _ => out::line(&format!(
            "{name}: its {told} holders were asked to release it"
        )),
    }
}

#[derive(Serialize)]
struct Taken<'a> {
    name: &'a str,
    claim: &'a str,
    taken: bool,
}

/// Takes a lock from the holder that is named, and from no other.
pub(crate) async fn release(server: &Server, options: &Release, json: bool) -> Result<(), Failure> {
    if !options.force {
        return Err(Failure::usage(
            "taking a lock from its holder is UNSAFE for what the lock protects: a live holder keeps working until it learns of it. \
             `lockkeeper revoke` asks it to stop. If you know that it is dead, add --force",
        ));
    }
    let name = &*options.name;
    let client = server.connect(Client::builder()).await?;
    let lock = Lock::new(client.inspect(name).await?, Vec::new());
    let meant = |part: &&Part| match (&options.claim, options.fence) {
        (Some(claim), _) => part.claim == *claim,
        (None, fence) => lock.fence.is_some() && lock.fence == fence,
    };
    let Some(part) = lock.holders.iter().find(meant) else {
        return Err(Failure::new(CONFLICT, not_meant(&lock)));
    };
    let taken = client.force_release(name, &part.claim).await?;
    if !taken {
        let message = format!("{name:?}: that holder no longer holds it; nothing was taken");
        return Err(Failure::new(CONFLICT, message));
    }
    if json {
        let claim = &*part.claim;
        return out::json(&Taken { name, claim, taken });
    }
    // Holders that share a lock lose it together.
    let holders: BTreeSet<&str> = lock.holders.iter().map(Part::known_as).collect();
    let holders: Vec<String> = holders.into_iter().map(out::shown).collect();
    out::line(&format!(
        "{}: taken by force from {}; a live holder keeps working until it learns of it",
        out::shown(name),
        holders.join(", ")
    ))
}

fn not_meant(lock: &Lock) -> String {
    let name = &lock.name;
    match (lock.holders.first(), lock.fence) {
        (None, _) => format!("{name:?}: nobody holds it"),
        (Some(holder), Some(fence)) => {
            let known_as = holder.known_as();
            format!("{name:?}: it is held with token {fence} by {known_as}; nothing was taken")
        }
        (Some(holder), None) => {
            let claim = &holder.claim;
            format!(
                "{name:?}: it has no single token; to take it from its holder, use --claim {claim}; nothing was taken"
            )
        }
    }
}
