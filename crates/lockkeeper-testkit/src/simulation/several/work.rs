//! What a task of a process does with sets of names of both servers.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{
    Client, Error, FairLock, Lease, Member, MultiGuard, MultiLock, Mutex, ReentrantLock, Result,
    RwLock,
};
use tokio::time::{sleep, timeout};

use super::{Checked, History, Violation, violation};

/// How long anybody waits in the storm, ms.
const LONGEST_WAIT: u64 = 6_000;

/// By when everybody has been served at the latest.
const END: Duration = Duration::from_secs(3600);

/// How many names there are on each server.
const NAMES: u64 = 8;

/// The name and the kind of a lock: the same in every process.
fn member(client: &Client, name: u64) -> Member {
    match name {
        0..4 => Mutex::new(client, &format!("m{name}")).member(),
        4..6 => ReentrantLock::new(client, &format!("r{name}")).member(),
        6 => FairLock::new(client, "f").member(),
        _ => RwLock::new(client, "w").write_member(),
    }
}

/// One task of a process, which has a client for each server.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) history: Arc<History>,
    pub(super) clients: [Client; 2],
    pub(super) task: u64,
    pub(super) random: Rng,
}

impl Worker {
    /// Until the storm is over, takes random sets, holds them for a while, and lets go: by release or by drop, or because somebody
    /// has revoked one of them.
    pub(super) async fn storm(mut self) -> Checked {
        while !self.history.is_calm() {
            self.history.seen()?;
            let patience = Duration::from_millis(self.random.u64(1..LONGEST_WAIT));
            match self.asked(patience).await {
                Ok(Some(guard)) => self.keep(guard).await?,
                outcome => {
                    let task = self.task;
                    let said = outcome.err().map(|error| error.to_string());
                    self.history
                        .tell(format_args!("task {task} has nothing: {said:?}"));
                    sleep(patience / 8).await;
                }
            }
        }
        Ok(())
    }

    /// Asks for some names, in one way or another.
    async fn asked(&mut self, patience: Duration) -> Result<Option<MultiGuard>> {
        let random = &mut self.random;
        let mut members = Vec::new();
        for _ in 0..random.usize(1..6) {
            members.push(member(
                &self.clients[random.usize(..2)],
                random.u64(..NAMES),
            ));
        }
        let lock = MultiLock::new(members)?;
        match random.u8(..4) {
            0 => lock.try_acquire().await,
            1 => {
                let asked = timeout(patience, lock.acquire().into_future()).await;
                asked.unwrap_or(Err(Error::Closed)).map(Some)
            }
            _ => lock.acquire().wait_for(patience).await.map(Some),
        }
    }

    async fn keep(&mut self, guard: MultiGuard) -> Checked {
        self.history.granted(self.task, &guard, &self.clients)?;
        let spell = Duration::from_millis(self.random.u64(..3_000));
        let lost = timeout(spell, guard.lost()).await;
        self.history.ended(self.task);
        if lost.is_ok() {
            sleep(Duration::from_millis(1)).await;
            let held = |lease: &&Lease| lease.ensure_held().is_ok();
            if let Some(lease) = guard.leases().iter().find(held) {
                return violation("goes on after the loss of another", lease.name().to_owned());
            }
        }
        if self.random.bool() {
            let _ = guard.release().await;
        }
        Ok(())
    }

    /// Takes everything there is: whoever asks is served in the end.
    pub(super) async fn take_all(self) -> Checked {
        let of_one = |client| (0..NAMES).map(move |name| member(client, name));
        let all = self.clients.iter().flat_map(of_one);
        let fails = |error: Error| Violation {
            rule: "an error without cause",
            what: error.to_string(),
        };
        let lock = MultiLock::new(all).map_err(fails)?;
        let Ok(guard) = timeout(END, lock.acquire().into_future()).await else {
            return violation("never served", format!("task {}", self.task));
        };
        let guard = guard.map_err(fails)?;
        self.history.granted(self.task, &guard, &self.clients)?;
        sleep(Duration::from_millis(5)).await;
        self.history.ended(self.task);
        guard.release().await.map(drop).map_err(fails)
    }
}
