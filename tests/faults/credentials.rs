//! Passwords that change while clients hold locks and wait for them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, Credentials, LeaseState, Mutex, MutexGuard, RedisOptions, RedisStore, Transport,
};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Renewed every second, and not lost on a slow machine.
const TTL: Duration = Duration::from_secs(60);
const RENEWALS_PER_TTL: u32 = 60;

/// How long the test watches renewals.
const WATCHED: Duration = Duration::from_secs(3);
const HELD: usize = 100;

/// Both client libraries.
const TRANSPORTS: [Transport; 2] = [Transport::RedisRs, Transport::Fred];

async fn start() -> Result<Server> {
    let user = "user app on >old ~* &* +@all";
    Server::options().configuration(user).start().await
}

fn client(store: RedisStore) -> Result<Client> {
    let settings = Client::builder()
        .ttl(TTL)
        .renewal_fraction(RENEWALS_PER_TTL);
    Ok(settings.request_timeout(TTL).build(Arc::new(store))?)
}

async fn hold(client: &Client) -> Result<Vec<MutexGuard>> {
    let mut guards = Vec::new();
    for number in 0..HELD {
        let lock = Mutex::new(client, &format!("held {number}"));
        guards.push(lock.acquire().await?);
    }
    Ok(guards)
}

/// Waits until each lease has been renewed at the end of the watch. Fails if one was lost.
async fn are_renewed(guards: &[MutexGuard]) -> Result<()> {
    let since = Instant::now();
    let lived = async {
        loop {
            for guard in guards {
                let state = guard.state();
                let lost = matches!(state, LeaseState::Lost(_));
                ensure!(!lost, "{}: {state:?}", guard.name());
            }
            let over = |guard: &MutexGuard| since.elapsed() + guard.remaining() > TTL + WATCHED;
            if guards.iter().all(over) {
                return Ok(());
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, lived).await?
}

/// Changes the password and disconnects all clients that logged in with the old one.
async fn rotate(server: &Server, tell: impl FnOnce() -> Result<()>) -> Result<()> {
    let change = ["ACL", "SETUSER", "app", "resetpass", ">new"];
    server.command(&change).await?;
    let killed = server.command(&["CLIENT", "KILL", "USER", "app"]).await?;
    ensure!(killed.into_integer()? >= 4, "nobody was cut off");
    // Only now, so that the first attempts to reconnect are refused.
    tell()
}

/// `holder` holds 100 leases; `other` waits for one of them; short locks come and go all the time.
async fn lose_no_lease(
    server: &Server,
    holder: RedisStore,
    other: RedisStore,
    tell: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let (holder, other) = (client(holder)?, client(other)?);
    let mut guards = hold(&holder).await?;
    let mut waiters = JoinSet::new();
    let waited_for = Mutex::new(&other, "held 0");
    waiters.spawn(async move { anyhow::Ok(waited_for.acquire().await?) });
    let passed = Arc::new(AtomicU64::new(0));
    let mut load = JoinSet::new();
    for task in 0..8 {
        let (lock, passed) = (
            Mutex::new(&holder, &format!("load {task}")),
            Arc::clone(&passed),
        );
        load.spawn(async move {
            loop {
                // A request in progress may fail when its connection is cut.
                if let Ok(guard) = lock.acquire().await
                    && guard.release().await.is_ok()
                {
                    passed.fetch_add(1, Ordering::Relaxed);
                }
                tokio::task::yield_now().await;
            }
        });
    }
    rotate(server, tell).await?;
    are_renewed(&guards).await?;
    for guard in &guards {
        guard.verify().await?;
    }
    let before = passed.load(Ordering::Relaxed);
    let goes_on = async {
        while passed.load(Ordering::Relaxed) == before {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, goes_on)
        .await
        .context("the load has ended")?;
    load.shutdown().await;
    guards.swap_remove(0).release().await?;
    let served = timeout(PATIENCE, waiters.join_next()).await?;
    let guard = served.context("nobody waits")???;
    guard.release().await?;
    drop(guards);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_a_provider_changes_loses_no_lease() -> Result<()> {
    for transport in TRANSPORTS {
        let server = start().await?;
        let password = Arc::new(StdMutex::new("old"));
        let given = Arc::clone(&password);
        let options = RedisOptions::new()
            .transport(transport)
            .credentials(move || {
                let password = *given.lock().unwrap_or_else(|poison| poison.into_inner());
                async move { Ok(Credentials::new(password).user("app")) }
            });
        let url = format!("redis://{}", server.address());
        let holder = options.clone().connect(&url).await?;
        let other = options.connect(&url).await?;
        lose_no_lease(&server, holder, other, || {
            *password.lock().unwrap_or_else(|poison| poison.into_inner()) = "new";
            Ok(())
        })
        .await
        .with_context(|| format!("by {transport:?}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_changes_in_its_file_loses_no_lease() -> Result<()> {
    for transport in TRANSPORTS {
        let server = start().await?;
        let file = PathBuf::from(server.file("password"));
        std::fs::write(&file, "old\n")?;
        let url = format!(
            "redis://app@{}?password-file={}",
            server.address(),
            file.display()
        );
        let options = RedisOptions::new().transport(transport);
        let holder = options.clone().connect(&url).await?;
        let other = options.connect(&url).await?;
        lose_no_lease(&server, holder, other, || {
            Ok(std::fs::write(&file, "new\n")?)
        })
        .await
        .with_context(|| format!("by {transport:?}"))?;
    }
    Ok(())
}

/// Like IAM tokens: each is valid for a second, and worthless afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_of_a_second_keep_leases_of_any_length() -> Result<()> {
    for transport in TRANSPORTS {
        let server = Arc::new(start().await?);
        let lived = beyond_stalls(&*server, Duration::from_secs(1), async |life| {
            passwords_end(&server, transport, life).await
        });
        lived.await.with_context(|| format!("by {transport:?}"))?;
    }
    Ok(())
}

async fn passwords_end(server: &Arc<Server>, transport: Transport, life: Duration) -> Result<()> {
    let (number, vault) = (Arc::new(AtomicU64::new(0)), Arc::clone(server));
    let options = RedisOptions::new()
        .transport(transport)
        .credentials(move || {
            let (number, vault) = (number.fetch_add(1, Ordering::Relaxed), Arc::clone(&vault));
            async move {
                // New users, because a server checks the password only at login.
                let user = format!("app{number}");
                let rights = ["on", ">pw", "~*", "&*", "+@all"];
                let add = [&["ACL", "SETUSER", user.as_str()], &rights[..]].concat();
                vault.command(&add).await?;
                tokio::spawn(async move {
                    sleep(life).await;
                    // Disconnects clients that are still logged in as this user. It fails if the server is gone.
                    drop(vault.command(&["ACL", "DELUSER", &user]).await);
                });
                let expires_in = life * 9 / 10;
                Ok(Credentials::new("pw")
                    .user(format!("app{number}"))
                    .expires_in(expires_in))
            }
        });
    let url = format!("redis://{}", server.address());
    let client = client(options.connect(&url).await?)?;
    let guards = hold(&client).await?;
    are_renewed(&guards).await?;
    drop(guards);
    client.close().await;
    Ok(())
}
