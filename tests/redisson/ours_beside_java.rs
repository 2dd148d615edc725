//! Locks of ours, not of Redisson's format, in the empty namespace beside a live Redisson that tries the same name. Their main key is a string,
//! so a script of Redisson ends with an error at once. A hash with large numbers in it sends Redisson 4.7.0's unlock of a read lock into a
//! loop that stops the whole server.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, FairLock, Guard as _, Lease, Lock, Mutex, ReentrantLock, RwLock};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use tokio::time::{sleep, timeout};

use crate::beside_java::LONG;
use crate::java::{Java, JavaClient};

/// All that Redisson might take the name for.
const KINDS: [&str; 5] = ["lock", "fenced", "fair", "read", "write"];

/// A server, a Redisson and two clients of ours in the empty namespace.
struct Beside {
    server: Server,
    redisson: JavaClient,
    client: Client,
    /// The waiters of one client hand some locks over among themselves, so another one waits.
    other: Client,
}

impl Beside {
    async fn start() -> Result<Option<Self>> {
        let Some(java) = Java::start()? else {
            return Ok(None);
        };
        let server = Server::start().await?;
        let redisson = java.client(&server, LONG).await?;
        let settings = || Client::builder().namespace("").ttl(LONG);
        let client = server.client(settings()).await?;
        let other = server.client(settings()).await?;
        Ok(Some(Self {
            server,
            redisson,
            client,
            other,
        }))
    }

    /// While this is held, Redisson gets errors, and changes nothing.
    async fn refuses(&self, name: &str, lease: &Lease) -> Result<()> {
        let dump = async || self.server.command(&["GET", name]).await?.into_text();
        let before = dump().await?;
        for kind in KINDS {
            let theirs = self.redisson.lock(kind, name);
            for verb in ["try", "unlock"] {
                let answer = theirs.tell(verb, "7").await?;
                ensure!(
                    answer.starts_with("error") && answer.contains("WRONGTYPE"),
                    "{verb} of {kind} {name}: {answer}"
                );
                let ping = timeout(PATIENCE, self.server.command(&["PING"]));
                ensure!(ping.await??.into_text()? == "PONG");
            }
        }
        ensure!(dump().await? == before, "{name}: {before} has changed");
        lease.verify().await?;
        Ok(())
    }

    /// Until the value of the name says so, by its second word or its last flag.
    async fn says(&self, name: &str, is_so: fn(&str) -> bool) -> Result<()> {
        let says = async {
            while !is_so(&self.server.command(&["GET", name]).await?.into_text()?) {
                sleep(Duration::from_millis(2)).await;
            }
            anyhow::Ok(())
        };
        timeout(LONG, says).await.context("it never does")?
    }

    /// Held by one claim, and then by one with a waiter.
    async fn refuses_thin_and_inflated<L: Lock + 'static>(
        &self,
        name: &str,
        of: impl Fn(&Client) -> L,
    ) -> Result<()> {
        let guard = of(&self.client).acquire().await?;
        self.refuses(name, guard.lease()).await?;
        let waiting = tokio::spawn(of(&self.other).acquire().into_future());
        self.says(name, |value| is_inflated(value) || value.ends_with('p'))
            .await?;
        self.refuses(name, guard.lease()).await?;
        guard.release().await?;
        timeout(LONG, waiting).await???.release().await?;
        Ok(())
    }
}

/// Several claims hold or wait in a queue. Where others may use a name too, a mutex has no queue, and its waiters poll.
fn is_inflated(value: &str) -> bool {
    value.split(' ').nth(1) == Some("*")
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn redisson_gets_an_error_for_a_name_that_a_lock_of_ours_holds() -> Result<()> {
    let Some(beside) = &Beside::start().await? else {
        return Ok(());
    };
    beside
        .refuses_thin_and_inflated("mutex", |client| Mutex::new(client, "mutex"))
        .await?;
    beside
        .refuses_thin_and_inflated("fair", |client| FairLock::new(client, "fair"))
        .await?;
    beside
        .refuses_thin_and_inflated("writer", |client| RwLock::new(client, "writer").writer())
        .await?;
    beside
        .refuses_thin_and_inflated("reentrant", |client| {
            ReentrantLock::new(client, "reentrant")
        })
        .await
}

#[tokio::test]
#[ignore = "long: beside Java"]
async fn redisson_gets_an_error_for_a_name_that_is_held_twice() -> Result<()> {
    let Some(beside) = &Beside::start().await? else {
        return Ok(());
    };
    let first = ReentrantLock::new(&beside.client, "again")
        .acquire()
        .await?;
    let second = first.reenter().await?;
    beside.says("again", is_inflated).await?;
    beside.refuses("again", second.lease()).await?;
    first.release().await?;
    beside.refuses("again", second.lease()).await?;

    let readers = [&beside.client, &beside.other].map(|client| RwLock::new(client, "read"));
    let first = readers[0].read().await?;
    beside.refuses("read", first.lease()).await?;
    let second = readers[1].read().await?;
    beside.says("read", is_inflated).await?;
    beside.refuses("read", first.lease()).await?;
    first.release().await?;
    beside.refuses("read", second.lease()).await
}
