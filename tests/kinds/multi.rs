//! The multi-lock: its cost, whom it excludes, what it waits for, and what happens when a part is lost.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, End, Error, FairLock, LeaseState, LossReason, MultiLock, Mutex, ReentrantLock,
    Released, RwLock, Semaphore,
};
use lockkeeper_lua::{lock, multi};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::HOLDER;
use lockkeeper_tests::holder::Holder;
use lockkeeper_tests::{client, counter, faulty, patient};

pub(crate) const TTL: Duration = Duration::from_secs(6);
const LIMIT: Duration = Duration::from_secs(120);

/// A lock over these mutexes.
pub(crate) fn mutexes(
    client: &Client,
    names: impl IntoIterator<Item = impl ToString>,
) -> Result<MultiLock> {
    let member = |name: &str| Mutex::new(client, name).target();
    let members = names.into_iter().map(|name| member(&name.to_string()));
    Ok(MultiLock::new(members)?)
}

/// The main keys on the site.
pub(crate) async fn held(site: &impl Site) -> Result<Vec<String>> {
    let mut keys = site.keys().await?;
    keys.retain(|key| key.starts_with("lockkeeper:"));
    Ok(keys)
}

/// Waits until nothing is held, for less than a lease.
pub(crate) async fn all_free(site: &impl Site) -> Result<()> {
    let free = async {
        while !held(site).await?.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    timeout(TTL / 2, free).await.context("something is held")?
}

#[tokio::test]
async fn any_number_of_names_is_one_command_to_acquire_and_one_to_release() -> Result<()> {
    let server = Server::start().await?;
    let client = server.client(patient().label("")).await?;
    // The first rounds load the scripts on the server.
    for names in [1, 2] {
        mutexes(&client, 0..names)?
            .acquire()
            .await?
            .release()
            .await?;
    }
    while server.commandstats("subscribe").await? == 0 {
        tokio::task::yield_now().await;
    }
    for names in [1, 2, 16, 128] {
        let lock = mutexes(&client, 0..names)?;
        server.command(&["CONFIG", "RESETSTAT"]).await?;
        let guard = lock.acquire().await?;
        ensure!(server.commandstats("evalsha").await? == 1, "{names} names");
        ensure!(guard.parts().len() == names);
        guard.release().await?;
        // One name alone is dropped, by a command that is no script.
        let scripts = if names == 1 { 1 } else { 2 };
        ensure!(
            server.commandstats("evalsha").await? == scripts,
            "{names} names"
        );
        ensure!(server.commandstats("eval").await? == 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_of_all_kinds_are_renewed_together() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let mutexes = (0..16).map(|name| Mutex::new(&client, &format!("m{name}")).target());
    let reentrant = (0..16).map(|name| ReentrantLock::new(&client, &format!("r{name}")).target());
    let guard = MultiLock::new(mutexes.chain(reentrant))?.acquire().await?;
    guard.run(sleep(TTL * 3)).await?;
    let sent = store.keys_sent(&lock::RENEW);
    ensure!((8..=12).contains(&sent.len()), "{} requests", sent.len());
    ensure!(sent.iter().all(|keys| keys.len() == 32), "{sent:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn sets_with_a_fair_lock_among_them_never_wait_for_one_another() -> Result<()> {
    let server = MemoryStore::new();
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let client = client(&server, TTL).await?;
        tasks.spawn(async move {
            let (a, b) = (Mutex::new(&client, "a"), ReentrantLock::new(&client, "b"));
            let (f, w) = (FairLock::new(&client, "f"), RwLock::new(&client, "w"));
            for round in 0..20 {
                let members = match (task + round) % 4 {
                    0 => vec![a.target(), f.target(), b.target()],
                    1 => vec![f.target(), b.target()],
                    2 => vec![w.reader().target(), f.target(), a.target()],
                    _ => vec![b.target(), w.writer().target(), f.target()],
                };
                let guard = MultiLock::new(members)?.acquire().wait_for(LIMIT).await?;
                sleep(Duration::from_millis(3)).await;
                guard.release().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    all_free(&server).await
}

#[tokio::test]
async fn two_stores_that_processes_list_in_opposite_orders_are_taken_in_one() -> Result<()> {
    let servers = [Server::start().await?, Server::start().await?];
    let [north, south] = [("north", &servers[0]), ("south", &servers[1])]
        .map(|(name, server)| format!("{name}={}", server.url()));
    let mut processes = Vec::new();
    for [first, second] in [[&north, &south], [&south, &north]].repeat(2) {
        processes.push(Holder::start(HOLDER, &["both", first, second, "40"])?);
    }
    for mut process in processes {
        ensure!(process.rest().await?.len() == 40);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn single_locks_and_several_exclude_one_another_and_wake_one_another() -> Result<()> {
    let server = MemoryStore::new();
    let (one, other) = (client(&server, TTL).await?, client(&server, TTL).await?);
    let guard = mutexes(&one, ["a", "b"])?.acquire().await?;
    let single = Mutex::new(&other, "b");
    ensure!(single.try_acquire().await?.is_none());
    let waiting = tokio::spawn(single.acquire().wait_for(TTL / 2).into_future());
    sleep(Duration::from_millis(20)).await;
    guard.release().await?;
    let single = waiting.await??;
    ensure!(mutexes(&one, ["a", "b"])?.try_acquire().await?.is_none());
    let waiting = tokio::spawn(
        mutexes(&one, ["a", "b"])?
            .acquire()
            .wait_for(TTL / 2)
            .into_future(),
    );
    sleep(Duration::from_millis(20)).await;
    ensure!(
        held(&server).await? == ["lockkeeper:a", "lockkeeper:b"],
        "what comes before it in order is held while it is waited for"
    );
    single.release().await?;
    waiting.await??.release().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_ends_the_whole_and_says_which() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let queue = FairLock::new(&client, "f").target();
    let members = ["a", "b"].map(|name| Mutex::new(&client, name).target());
    let guard = MultiLock::new(members.into_iter().chain([queue]))?
        .acquire()
        .await?;
    let parts = guard.parts();
    let names: Vec<&str> = parts.iter().map(lockkeeper::Lease::name).collect();
    ensure!(names == ["a", "b", "f"], "{names:?}");
    client.revoke("b").await?;
    let End::Lost(lost) = guard.ended().await else {
        anyhow::bail!("it was released");
    };
    ensure!(
        lost.name == "b" && lost.reason == LossReason::Revoked,
        "{lost:?}"
    );
    ensure!(guard.parts()[0].state() == LeaseState::Lost(LossReason::Revoked));
    // As with a single lock, a lost part that is still on the server stays until the guard is gone: its work needs time to
    // stop.
    ensure!(held(&server).await? == ["lockkeeper:a", "lockkeeper:b", "lockkeeper:f"]);
    let error = guard.release().await.err().context("it was released")?;
    ensure!(
        matches!(&error, Error::Lost { name, .. } if name == "b"),
        "{error}"
    );
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_the_rest_is_collected_begins_again_with_new_claims() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let queue = FairLock::new(&client, "f");
    let busy = queue.acquire().await?;
    let members = ["a", "b"].map(|name| Mutex::new(&client, name).target());
    let lock = MultiLock::new(members.into_iter().chain([queue.target()]))?;
    let waiting = tokio::spawn(lock.acquire().into_future());
    sleep(Duration::from_millis(20)).await;
    let before = server.command(&["LINDEX", "lockkeeper:a", "0"]).await?;
    ensure!(!before.is_empty(), "a is not held while f is waited for");
    client.revoke("b").await?;
    sleep(Duration::from_millis(20)).await;
    let after = server.command(&["LINDEX", "lockkeeper:a", "0"]).await?;
    ensure!(
        !after.is_empty() && after != before,
        "{before} then {after}"
    );
    busy.release().await?;
    let guard = timeout(TTL, waiting).await???;
    guard.verify().await?;
    ensure!(guard.release().await? == Released::Free);
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn a_try_that_fails_late_has_let_go_of_everything_when_it_says_so() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let queue = FairLock::new(&client, "f");
    let busy = queue.acquire().await?;
    let members = ["a", "b"].map(|name| Mutex::new(&client, name).target());
    let lock = MultiLock::new(members.into_iter().chain([queue.target()]))?;
    // The same with a minimum hold time.
    ensure!(lock.try_acquire().min_hold(TTL / 2).await?.is_none());
    ensure!(held(&server).await? == ["lockkeeper:f"]);
    busy.release().await?;
    let guard = lock
        .try_acquire()
        .min_hold(TTL / 2)
        .await?
        .context("all are free")?;
    let released = guard.release().await?;
    ensure!(
        matches!(released, Released::Kept(left) if left > Duration::ZERO),
        "{released:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_names_what_was_held_and_leaves_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let busy = Mutex::new(&client, "b").acquire().await?;
    let late = mutexes(&client, ["a", "b", "c"])?
        .acquire()
        .wait_for(TTL * 2)
        .await;
    ensure!(matches!(late, Err(Error::Timeout { name, .. }) if name == "b"));
    let late = mutexes(&client, ["a", "b"])?
        .acquire()
        .wait_for(Duration::ZERO)
        .await;
    ensure!(matches!(late, Err(Error::Timeout { name, .. }) if name == "b"));
    busy.release().await?;
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_arrives_after_its_leaves_creates_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = mutexes(&client, ["a", "b"])?;
    lock.acquire().await?.release().await?;
    let before = store.sent(&multi::RELEASE);
    store.plan(&multi::ACQUIRE, Fate::Keep);
    let late = timeout(Duration::from_millis(10), lock.acquire().into_future()).await;
    ensure!(late.is_err(), "it was answered");
    store.wait_sent(&multi::RELEASE, before + 1).await;
    sleep(Duration::from_millis(10)).await;
    let replies = store.deliver(&server.sibling()).await;
    ensure!(replies.len() == 1 && replies[0].is_ok(), "{replies:?}");
    ensure!(held(&server).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lost_replies_are_repeated_and_have_the_effect_of_once() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let lock = mutexes(&client, ["a", "b"])?;
    lock.acquire().await?.release().await?;
    store.plan(&multi::ACQUIRE, Fate::LoseReply);
    store.plan(&multi::RELEASE, Fate::LoseReply);
    let guard = lock.acquire().await?;
    for part in guard.parts() {
        let (name, token) = (part.name(), part.fencing_token());
        let fence = server.command(&["GET", &counter(name)?]).await?;
        ensure!(
            fence == token.to_string(),
            "{name}: a second token was drawn"
        );
    }
    // Renewed by the script that distinguishes a copy in doubt.
    guard.run(sleep(TTL * 3)).await?;
    ensure!(guard.release().await? == Released::Free);
    all_free(&server).await
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_refused_as_a_whole_lets_each_go_by_itself() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    let guard = mutexes(&client, ["a", "b"])?.acquire().await?;
    store.plan(&multi::RELEASE, Fate::Refuse("NOPERM not this script"));
    ensure!(guard.release().await? == Released::Free);
    ensure!(held(&server).await?.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_released_is_named_and_the_others_are_released() -> Result<()> {
    let server = MemoryStore::new();
    let (client, store) = faulty(&server, TTL)?;
    store.split_groups("{south}");
    let guard = mutexes(&client, ["a", "b", "{south}:c"])?.acquire().await?;
    store.silence("{south}");
    let error = guard.release().await.err().context("all was released")?;
    let Error::Partial {
        members: 3,
        failures,
        ..
    } = &error
    else {
        anyhow::bail!("{error}");
    };
    ensure!(
        failures.len() == 1 && failures[0].0 == "{south}:c",
        "{error}"
    );
    ensure!(
        error
            .to_string()
            .starts_with("1 of 3 locks were not released"),
        "{error}"
    );
    ensure!(held(&server).await? == ["lockkeeper:{south}:c"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_holds_is_let_in_as_a_member_too() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let (owner, other) = (client.new_owner(), client.new_owner());
    let account = ReentrantLock::new(&client, "account");
    let outer = account.acquire().owner(&owner).await?;
    let both = MultiLock::new([account.target(), Mutex::new(&client, "m").target()])?;
    ensure!(both.try_acquire().owner(&other).await?.is_none());
    let guard = both.acquire().owner(&owner).await?;
    let inner = guard.part("account").context("a lease")?;
    ensure!(inner.fencing_token() == outer.fencing_token());
    ensure!(guard.release().await? == Released::StillHeld(1));
    let own = MultiLock::new([
        account.target().owner(&owner),
        Mutex::new(&client, "m").target(),
    ])?;
    own.try_acquire()
        .await?
        .context("its own owner holds")?
        .release()
        .await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn members_that_cannot_be_held_together_are_refused_with_a_reason() -> Result<()> {
    let (one, other) = (MemoryStore::new(), MemoryStore::new());
    let (one, other) = (client(&one, TTL).await?, client(&other, TTL).await?);
    let a = Mutex::new(&one, "a");
    let calls = Semaphore::new(&one, "calls", 8);
    let refusals = [
        (vec![], "at least one member"),
        (
            vec![a.target(), ReentrantLock::new(&one, "a").target()],
            "differ in kind",
        ),
        (
            vec![a.target(), a.target().owner(&one.new_owner())],
            "differ in kind, mode, permits or owner",
        ),
        (
            vec![calls.permits(1).target(), calls.permits(3).target()],
            "differ in kind, mode, permits or owner",
        ),
        (
            vec![a.target(), Mutex::new(&other, "a").target()],
            "store_name",
        ),
        (vec![Mutex::new(&one, "").target()], "empty"),
    ];
    for (members, reason) in refusals {
        let error = MultiLock::new(members)
            .err()
            .context("it was allowed")?
            .to_string();
        ensure!(error.contains(reason), "{error}");
    }
    let twice = MultiLock::new([a.target(), a.target()])?.acquire().await?;
    ensure!(twice.parts().len() == 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn another_kind_under_one_name_is_told_by_that_name() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    server.command(&["HSET", "lockkeeper:b", "f", "v"]).await?;
    server.command(&["PEXPIRE", "lockkeeper:b", "1000"]).await?;
    let error = mutexes(&client, ["a", "b", "c"])?
        .acquire()
        .await
        .err()
        .context("it was acquired")?;
    ensure!(
        matches!(&error, Error::WrongKind { name, .. } if name == "b"),
        "{error}"
    );
    all_free(&server).await
}
