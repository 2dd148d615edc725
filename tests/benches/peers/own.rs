//! The peers' work, done by Lockkeeper.

use std::time::{Duration, Instant};

use anyhow::Result;
use lockkeeper::{
    Client, FairLock, Guard, Lock, MultiLock, Mutex, Redlock, ReentrantLock, RwLock, Semaphore,
};
use tokio::task::JoinSet;

use super::{Answer, Scene, Work};
use crate::meters::own_processor_time;
use crate::pairs::micros;

/// Clients of all servers, created on demand.
pub(crate) struct Own {
    urls: Vec<String>,
    clients: Vec<Vec<Client>>,
}

impl Own {
    pub(crate) fn new(urls: Vec<String>) -> Self {
        let clients = Vec::new();
        Self { urls, clients }
    }

    pub(crate) async fn work(&mut self, scene: Scene, millis: usize) -> Result<Answer> {
        while self.clients.len() < scene.clients {
            let mut clients = Vec::new();
            for url in &self.urls {
                clients.push(lockkeeper::connect(url).await?);
            }
            self.clients.push(clients);
        }
        let (began, used) = (Instant::now(), own_processor_time()?);
        let end = began + Duration::from_millis(millis.try_into()?);
        let mut working = JoinSet::new();
        for task in 0..scene.tasks {
            let which = task % scene.clients;
            let clients = &self.clients[which];
            let name = match scene.work {
                Work::Pairs => format!("{} {task}", scene.title()),
                Work::Contended => scene.title(),
            };
            spawn(&mut working, which, clients, scene, &name, end)?;
        }
        let mut waits = vec![Vec::new(); scene.clients];
        while let Some(done) = working.join_next().await {
            let (which, its) = done?;
            waits[which].extend(its?.into_iter().map(micros));
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(Answer {
            waits,
            seconds,
            processor: micros(own_processor_time()? - used),
        })
    }

    pub(crate) async fn stop(self) {
        for client in self.clients.into_iter().flatten() {
            client.close().await;
        }
    }
}

type Working = JoinSet<(usize, Result<Vec<Duration>>)>;

fn spawn(
    working: &mut Working,
    which: usize,
    clients: &[Client],
    scene: Scene,
    name: &str,
    end: Instant,
) -> Result<()> {
    let client = &clients[0];
    let work = scene.work;
    match scene.kind {
        "reentrant" => spawn_one(working, which, ReentrantLock::new(client, name), work, end),
        "fair" => spawn_one(working, which, FairLock::new(client, name), work, end),
        "read" => {
            let lock = RwLock::new(client, name).reader();
            spawn_one(working, which, lock, work, end);
        }
        "write" => {
            let lock = RwLock::new(client, name).writer();
            spawn_one(working, which, lock, work, end);
        }
        "semaphore" => spawn_one(working, which, Semaphore::new(client, name, 4), work, end),
        "eight" => spawn_one(working, which, eight(client, name)?, work, end),
        "redlock" => spawn_one(working, which, Redlock::new(clients, name)?, work, end),
        _ => spawn_one(working, which, Mutex::new(client, name), work, end),
    }
    Ok(())
}

/// Eight names, which one script acquires.
fn eight(client: &Client, name: &str) -> Result<MultiLock> {
    let locks = (0..8).map(|number| Mutex::new(client, &format!("{name} {number}")));
    let locks: Vec<_> = locks.collect();
    Ok(MultiLock::new(&locks)?)
}

fn spawn_one<L: Lock + 'static>(
    working: &mut Working,
    which: usize,
    lock: L,
    work: Work,
    end: Instant,
) {
    working.spawn(async move { (which, repeat(lock, work, end).await) });
}

async fn repeat<L: Lock>(lock: L, work: Work, end: Instant) -> Result<Vec<Duration>> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        let guard = lock.acquire().await?;
        let granted = start.elapsed();
        Guard::release(guard).await?;
        waits.push(match work {
            Work::Pairs => start.elapsed(),
            Work::Contended => granted,
        });
    }
    Ok(waits)
}
