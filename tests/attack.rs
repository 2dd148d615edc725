//! Orders of events and odd neighbours that are meant to break what is done to a lock from outside.

use std::sync::{Arc, Mutex as Cell, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, End, Error, HolderState, LeaseEvent, LossReason, Mutex, Observation, Observer,
    ReentrantLock, Released,
};
use lockkeeper_core::protocol::Item;
use lockkeeper_core::store::{Call, Form, Store, Value};
use lockkeeper_lua::{mutex, name, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::unruly::{Fate, Unruly};
use tokio::time::{Instant, sleep, timeout};

const SOON: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(6);
const MOMENT: Duration = Duration::from_millis(1);

async fn client(server: &MemoryStore) -> Result<Client> {
    server.client(Client::builder().ttl(TTL)).await
}

fn unruly(server: &MemoryStore) -> Result<(Client, Arc<Unruly>)> {
    let store = Unruly::new(Arc::new(server.sibling()));
    let settings = Client::builder().ttl(TTL);
    let client = settings.build(Arc::clone(&store) as Arc<dyn Store>)?;
    Ok((client, store))
}

/// Counts the leases that are lost.
#[derive(Debug, Default)]
struct Losses(Cell<Vec<LossReason>>);

impl Observer for Losses {
    fn observe(&self, observation: &Observation<'_>) {
        if let LeaseEvent::Lost(reason) = observation.event {
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(reason);
        }
    }
}

impl Losses {
    fn so_far(&self) -> Vec<LossReason> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_listen_does_not_ask_for_it_all_the_time() -> Result<()> {
    let (client, store) = unruly(&MemoryStore::new())?;
    store.refuse_subscriptions("NOPERM no permissions to access the channel");
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(Duration::from_secs(600)).await;
    guard.verify().await?;
    let asked = store.subscriptions();
    ensure!(
        (1..=20).contains(&asked),
        "asked {asked} times in ten minutes"
    );
    // Whoever waits is told at once that nobody can.
    let waited = Instant::now();
    let waiting = Mutex::new(&client, "name").acquire().await.err();
    ensure!(
        matches!(waiting, Some(Error::Backend { .. })),
        "{waiting:?}"
    );
    ensure!(waited.elapsed() < Duration::from_secs(1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_verify_found_is_told_once() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let client = server.client(settings).await?;
    let guard = Mutex::new(&client, "name").acquire().await?;
    let nested = ReentrantLock::new(&client, "nested");
    let nested = nested.acquire(&client.new_owner()).await?;
    sleep(MOMENT).await;
    server.mute(true);
    server.execute(&["DEL", "lockkeeper:name"])?;
    ensure!(client.revoke("nested").await? == 1);
    let (one, other) = tokio::join!(guard.verify(), guard.verify());
    ensure!(one.is_err() && other.is_err());
    ensure!(nested.verify().await.is_err());
    sleep(3 * TTL).await;
    let told = losses.so_far();
    ensure!(told == [LossReason::Gone, LossReason::Revoked], "{told:?}");
    drop((guard, nested));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_revoked_holder_is_told_once_however_often_and_whichever_way_it_hears() -> Result<()> {
    let server = MemoryStore::new();
    let losses = Arc::new(Losses::default());
    let settings = Client::builder()
        .ttl(TTL)
        .observer(Arc::clone(&losses) as Arc<dyn Observer>);
    let (client, other) = (server.client(settings).await?, client(&server).await?);
    let guard = Mutex::new(&client, "name").acquire().await?;
    sleep(MOMENT).await;
    for _ in 0..3 {
        ensure!(other.revoke("name").await? == 1);
        sleep(MOMENT).await;
    }
    ensure!(guard.verify().await.is_err());
    sleep(3 * TTL).await;
    drop(guard);
    client.close().await;
    ensure!(losses.so_far() == [LossReason::Revoked]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_token_is_shown_for_our_holders_alone() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let guard = Mutex::new(&client, "job").acquire().await?;
    let ours = guard.fencing_token();
    ensure!(client.inspect("job").await?.token == Some(ours));
    guard.release().await?;
    server.execute(&["SET", "job", "their token", "PX", "5000"])?;
    let seen = client.inspect("job").await?;
    ensure!(seen.token.is_none(), "of a hold that is over: {seen:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_value_is_no_text_can_be_inspected() -> Result<()> {
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    let write = "return redis.call('SET', KEYS[1], '\\255\\000\\254', 'PX', 5000)";
    server.command(&["EVAL", write, "1", "job"]).await.ok();
    let seen = client.inspect("job").await?;
    ensure!(seen.kind.as_deref() == Some("mutex"), "{seen:?}");
    ensure!(seen.holders.len() == 1 && seen.holders[0].owner.is_none());
    // It is not taken for another one.
    ensure!(!client.force_release("job", "").await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_looks_like_a_word_of_ours_in_anothers_value_excludes_and_is_left_alone() -> Result<()>
{
    let server = MemoryStore::new();
    let client = server.client(Client::builder().namespace("")).await?;
    for value in ["kept:x", "revoked:x", "kept:", "revoked:kept:y", ""] {
        server.execute(&["SET", "job", value, "PX", "5000"])?;
        ensure!(Mutex::new(&client, "job").try_acquire().await?.is_none());
        let error = client.revoke("job").await.err();
        ensure!(matches!(error, Some(Error::WrongKind { .. })), "{error:?}");
        ensure!(server.command(&["GET", "job"]).await? == value);
        let shown = client.inspect("job").await?.holders[0].claim.clone();
        ensure!(!client.force_release("job", "another").await?);
        ensure!(client.force_release("job", &shown).await?, "{value}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_whose_answer_was_lost_is_not_reported_as_none() -> Result<()> {
    let server = MemoryStore::new();
    let holder = client(&server).await?;
    let (other, store) = unruly(&server)?;
    // Teaches the server the script.
    ensure!(!other.force_release("name", "nobody").await?);
    let guard = Mutex::new(&holder, "name").acquire().await?;
    let claim = other.inspect("name").await?.holders[0].claim.clone();
    store.plan(&name::FREE, Fate::LoseReply);
    let outcome = other.force_release("name", &claim).await;
    ensure!(other.inspect("name").await?.kind.is_none());
    ensure!(!matches!(outcome, Ok(false)), "it was released by force");
    drop(guard);

    // One that never went out is no doubt.
    store.plan(&name::FREE, Fate::NotSent);
    ensure!(!other.force_release("name", &claim).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_no_inspection_and_counts_none() -> Result<()> {
    let server = MemoryStore::new();
    let store = Unruly::new(Arc::new(server.sibling()));
    let client = Client::builder()
        .request_timeout(Duration::from_secs(60))
        .build(Arc::clone(&store) as Arc<dyn Store>)?;
    store.silence("lockkeeper:name");
    let looking = tokio::spawn({
        let client = client.clone();
        async move { client.inspect("name").await }
    });
    store.wait_sent(&name::INSPECT, 1).await;
    let report = client.close().await;
    ensure!(report.unconfirmed == 0, "{report:?}");
    let error = timeout(Duration::from_secs(1), looking).await??.err();
    ensure!(matches!(error, Some(Error::Closed)), "{error:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_was_kept_for_less_than_its_lease_is_free_for_every_kind() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let lock = ReentrantLock::new(&client, "name");
    let second = Duration::from_secs(1);
    let guard = lock.acquire(&client.new_owner()).min_hold(second).await?;
    ensure!(matches!(guard.release().await?, Released::Kept(_)));
    sleep(second + MOMENT).await;
    ensure!(client.inspect("name").await?.kind.is_none());
    ensure!(Mutex::new(&client, "name").try_acquire().await?.is_some());
    Ok(())
}

/// The message and the answer come by different connections.
#[tokio::test(start_paused = true)]
async fn a_word_that_overtakes_the_answer_of_the_grant_is_not_lost() -> Result<()> {
    for forced in [false, true] {
        let server = MemoryStore::new();
        let other = client(&server).await?;
        let (holder, store) = unruly(&server)?;
        // From here on the client listens and the server knows the script.
        Mutex::new(&holder, "first")
            .acquire()
            .await?
            .release()
            .await?;
        sleep(MOMENT).await;
        store.slow_down(&mutex::ACQUIRE, Duration::from_millis(500));
        let acquiring = tokio::spawn({
            let lock = Mutex::new(&holder, "name");
            async move { lock.acquire().no_renewal().await }
        });
        sleep(Duration::from_millis(100)).await;
        let claim = other.inspect("name").await?.holders[0].claim.clone();
        let reason = if forced {
            ensure!(other.force_release("name", &claim).await?);
            LossReason::Gone
        } else {
            ensure!(other.revoke("name").await? == 1);
            LossReason::Revoked
        };
        let guard = acquiring.await??;
        let end = timeout(Duration::from_secs(1), guard.ended()).await;
        ensure!(end == Ok(End::Lost(reason)), "{end:?}");
        drop(guard);
        sleep(MOMENT).await;
        ensure!(Mutex::new(&other, "name").try_acquire().await?.is_some());
    }
    Ok(())
}

/// A stray acquire, a late renewal and a late leave all arrive after a kept, revoked or forced end.
#[tokio::test(start_paused = true)]
async fn whatever_arrives_late_after_a_leave_that_keeps_creates_and_shortens_nothing() -> Result<()>
{
    for reenters in [false, true] {
        let server = MemoryStore::new();
        let (client, store) = unruly(&server)?;
        let other = self::client(&server).await?;
        let (acquire, renew, marked) = if reenters {
            (
                &reentrant::ACQUIRE,
                &reentrant::RENEW,
                &reentrant::LEAVE_MARKED,
            )
        } else {
            (&mutex::ACQUIRE, &mutex::RENEW, &mutex::LEAVE_MARKED)
        };
        let shortest = Duration::from_secs(20);
        store.plan(acquire, Fate::Keep);
        store.plan(marked, Fate::Keep);
        let begun;
        if reenters {
            let lock = ReentrantLock::new(&client, "name");
            let guard = lock.acquire(&client.new_owner()).min_hold(shortest).await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        } else {
            let lock = Mutex::new(&client, "name");
            let guard = lock.acquire().min_hold(shortest).await?;
            begun = Instant::now();
            store.plan(renew, Fate::Keep);
            sleep(3 * TTL / 2).await;
            ensure!(matches!(guard.release().await?, Released::Kept(_)));
        }
        store.deliver(&server).await;
        let left = begun + shortest - Instant::now();
        let holder = other.inspect("name").await?.holders.remove(0);
        ensure!(holder.state == HolderState::Kept);
        let shown = holder.left.context("it ends")?;
        ensure!(
            shown + 2 * MOMENT >= left && shown <= left + 2 * MOMENT,
            "{shown:?} {left:?}"
        );
        sleep(left + 2 * MOMENT).await;
        ensure!(other.inspect("name").await?.kind.is_none());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_kept_hold_that_was_revoked_does_not_revoke_the_next_one() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server).await?;
    let lock = ReentrantLock::new(&client, "name");
    let owner = client.new_owner();
    let second = Duration::from_secs(1);
    let (one, other) = (
        lock.acquire(&owner).min_hold(second).await?,
        lock.acquire(&owner).await?,
    );
    ensure!(client.revoke("name").await? == 2);
    drop(one);
    drop(other);
    let begun = Instant::now();
    let next = lock.acquire(&owner).wait_for(SOON).await?;
    ensure!(
        begun.elapsed() + 2 * MOMENT >= second,
        "{:?}",
        begun.elapsed()
    );
    sleep(3 * TTL).await;
    next.verify().await?;
    ensure!(next.reenter().await?.release().await? == Released::StillHeld(1));
    ensure!(next.release().await? == Released::Free);
    Ok(())
}

/// One claim as the server must see it.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// Until when it holds, ms.
    lease: u64,
    token: u64,
    /// Until when the mark of its last leave stands.
    mark: Option<u64>,
}

/// Any request of any claim at any time, repeated or late, as long as it lives once: nobody holds beside another owner, in a
/// kept name or after a forced release, what is revoked stays so, tokens grow, and every key ends with what it holds.
#[tokio::test(start_paused = true)]
async fn no_order_of_requests_lets_two_hold_or_a_revoked_one_back() -> Result<()> {
    for seed in 0..400 {
        let story = &mut Vec::new();
        let outcome = random_requests(seed, story).await;
        outcome.with_context(|| format!("seed {seed}\n{}", story.join("\n")))?;
    }
    Ok(())
}

async fn random_requests(seed: u64, story: &mut Vec<String>) -> Result<()> {
    const MAIN: &str = "lockkeeper:name";
    let mut state = seed * 2_654_435_761 + 88_172_645_463_325_252;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let reenters = seed.is_multiple_of(2);
    let server = MemoryStore::new();
    let begun = Instant::now();
    let owner = |claim: usize| format!("00000000-0000-0000-0000-00000000000{}:1", claim % 2);
    let mut claims = vec![Seen::default(); 5];
    let (mut kept, mut revoked, mut last) = (0, false, 0);
    for request in 1..120 {
        sleep(Duration::from_millis(random(300))).await;
        let now = u64::try_from(begun.elapsed().as_millis())?;
        // In the very millisecond of an end the server may see it on either side.
        let ends = claims
            .iter()
            .flat_map(|claim| [Some(claim.lease), claim.mark]);
        if ends
            .flatten()
            .chain([kept])
            .any(|end| end.abs_diff(now) <= 1)
        {
            continue;
        }
        if claims.iter().all(|claim| claim.lease <= now) {
            revoked = false;
        }
        let one = usize::try_from(random(5))?;
        let (id, holder) = (format!("{}/{one:016x}", owner(one)), owner(one));
        let ttl = 200 + random(600);
        let keep = if random(2) == 0 { 0 } else { random(900) };
        let main = || MAIN.to_owned();
        let gone = || format!("gone:{id}");
        let text = |number: u64| number.to_string();
        let what = random(9);
        let item = match what {
            0..=3 => {
                let spent = claims[one].mark.is_some_and(|mark| mark <= now + 1);
                if spent {
                    claims[one].mark = None;
                    claims[one].token = 0;
                    // Its time is over: from here on the number stands for another claim.
                    continue;
                }
                let token = if random(2) == 0 { 0 } else { claims[one].token };
                let mut args = vec![id.clone(), text(ttl), text(0), text(token)];
                if reenters {
                    args.push(holder.clone());
                }
                let script = if reenters {
                    &reentrant::ACQUIRE
                } else {
                    &mutex::ACQUIRE
                };
                Item::new(script, [main(), "fence".to_owned(), gone()], args)
            }
            4 => {
                let script = if reenters {
                    &reentrant::RENEW
                } else {
                    &mutex::RENEW
                };
                Item::new(script, [main()], [id.clone(), text(ttl)])
            }
            5 | 6 => {
                let script = if reenters {
                    &reentrant::LEAVE_MARKED
                } else {
                    &mutex::LEAVE_MARKED
                };
                let args = [id.clone(), "wake".to_owned(), text(keep), text(1000)];
                Item::new(script, [main(), gone()], args)
            }
            7 => Item::new(&name::REVOKE, [main()], []),
            _ => Item::new(&name::FREE, [main()], [id.clone(), "wake".to_owned()]),
        };
        let call = Call::new(item, request, Form::Source, SOON);
        let reply = server.call(call).await?;
        let field = |place| reply.field(place).and_then(Value::as_i64).unwrap_or(-1);
        let number = |place| u64::try_from(field(place)).unwrap_or(0);
        let outcome = if what == 4 {
            reply
                .field(0)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        } else {
            reply.status().as_str().to_owned()
        };
        story.push(format!(
            "{now} {what} claim {one} ttl {ttl} keep {keep}: {outcome} {} {}",
            field(0),
            field(1)
        ));
        let held = claims[one].lease > now;
        let others = (0..5).any(|other| {
            let same = reenters && other % 2 == one % 2;
            other != one && !same && claims[other].lease > now
        });
        let alive = claims.iter().any(|claim| claim.lease > now);
        match &*outcome {
            "GRANTED" => {
                ensure!(!others, "beside another");
                ensure!(!revoked, "revoked and granted");
                ensure!(alive || kept <= now, "in a kept name");
                ensure!(claims[one].mark.is_none(), "after it left");
                let token = number(0);
                ensure!(
                    token > last || alive && token == last,
                    "tokens {last}, {token}"
                );
                last = token;
                claims[one].token = token;
                claims[one].lease = claims[one].lease.max(now + ttl);
            }
            "RENEWED" => {
                ensure!(held && !revoked, "renewed what does not hold");
                claims[one].lease = claims[one].lease.max(now + ttl);
            }
            "REVOKED" => ensure!(held && revoked, "revoked by nobody"),
            "BUSY" => ensure!(
                others || held || revoked || kept > now,
                "busy without anybody"
            ),
            "LEFT" if what == 8 => {
                ensure!(held || kept > now, "freed from nobody");
                for claim in &mut claims {
                    claim.lease = 0;
                }
                kept = 0;
            }
            "LEFT" | "KEPT" | "NOT_HELD" if what != 8 => {
                if held {
                    ensure!(outcome != "NOT_HELD", "it held");
                    kept = kept.max(now + keep);
                    claims[one].lease = 0;
                }
                if outcome == "LEFT" && !held && field(1) == 0 {
                    // A repetition by a holder that counts the shortest time as over.
                    ensure!(keep == 0 || kept <= now, "freed too soon");
                    kept = 0;
                }
                claims[one].mark = Some(now + 1000);
                let rest = claims.iter().any(|claim| claim.lease > now);
                if outcome == "KEPT" {
                    ensure!(!rest && number(1) == kept - now, "kept for {kept}");
                }
                if outcome == "LEFT" && held && !rest {
                    ensure!(kept <= now, "not kept until {kept}");
                }
            }
            "TOLD" => {
                ensure!(alive);
                revoked = true;
            }
            "FREE" => ensure!(!alive, "somebody holds"),
            _ => {}
        }
        let end = claims.iter().map(|claim| claim.lease).chain([kept]).max();
        let end = end.filter(|end| *end > now).map_or(0, |end| end - now);
        let left: i64 = server.command(&["PTTL", MAIN]).await?.parse()?;
        ensure!(left != -1, "without end");
        ensure!(
            end == 0 || left >= i64::try_from(end)?,
            "{left} ms for {end}"
        );
    }
    Ok(())
}
