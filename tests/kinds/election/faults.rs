//! Leaders that die or are cut off, lost requests and messages, and servers that lose data.

use std::pin::Pin;
use std::task::{Context as TaskContext, Wake};

use futures_core::Stream as _;
use lockkeeper::{FencingToken, Lease};
use lockkeeper_testkit::faulty::FaultyStore;
use parking_lot::Mutex as SyncMutex;
use tokio::task::JoinSet;

use super::*;

const WAITER_TTL: Duration = Duration::from_secs(10);

/// How often the leader changes.
const TERMS: usize = 100;

/// The present and former leaders, and when there will be no more.
#[derive(Default)]
struct Reign {
    leases: SyncMutex<Vec<Lease>>,
    vacant: SyncMutex<Option<Instant>>,
}

impl Reign {
    /// Records a new leadership. Returns how many there were before.
    fn begins(&self, leadership: &Leadership) -> Result<usize> {
        let mut leases = self.leases.lock();
        let last = leases.last().map(Lease::fencing_token);
        ensure!(
            last.is_none_or(|last| last < leadership.term()),
            "a term went back"
        );
        leases.push(Lease::clone(leadership));
        drop(leases);
        self.is_sound()?;
        let mut vacant = self.vacant.lock();
        let gap = vacant
            .take()
            .map(|since| since.elapsed())
            .unwrap_or_default();
        let longest = TTL + HEARTBEAT;
        ensure!(gap <= longest, "nobody has led for {gap:?}");
        Ok(self.count() - 1)
    }

    fn ends(&self) {
        *self.vacant.lock() = Some(Instant::now());
    }

    fn count(&self) -> usize {
        self.leases.lock().len()
    }

    /// At most one leads.
    fn is_sound(&self) -> Result<()> {
        let leases = self.leases.lock();
        let leading = leases.iter().rev().take(10);
        let leading = leading.filter(|it| it.end().is_none()).count();
        ensure!(leading <= 1, "{leading} lead");
        Ok(())
    }
}

/// One host: campaigns, and ends its terms in different ways.
async fn host(server: MemoryStore, reign: Arc<Reign>) -> Result<()> {
    loop {
        let (client, requests) = faulty(&server, TTL)?;
        let election = Election::new(&client, "name").value("host");
        let leadership = election.campaign().await?;
        let term = reign.begins(&leadership)?;
        if term >= TERMS {
            return Ok(());
        }
        // Some terms end before their first renewal.
        sleep([TTL, Duration::ZERO][term % 2]).await;
        match term % 5 {
            0 => drop(leadership.resign().await?),
            1 => {
                // The leader is killed: none of its requests reaches the server any more.
                requests.silence("name");
                reign.ends();
                drop(leadership);
            }
            2 => {
                // The leader is cut off and finds out by its clock.
                requests.silence("name");
                reign.ends();
                leadership.lost().await;
                ensure!(!leadership.is_leader());
            }
            3 => {
                client.revoke("name").await?;
                leadership.lost().await;
            }
            _ => match election.candidates().await?.last() {
                Some(last) => drop(leadership.hand_over_to(last).await?),
                None => drop(leadership.resign().await?),
            },
        }
    }
}

/// Observes until it is stopped; fails if the term goes back.
async fn observe(server: MemoryStore, seen: Arc<SyncMutex<Vec<FencingToken>>>) -> Result<()> {
    let mut leaders = election(&server, "").await?.observe();
    while let Some(leader) = leaders.next().await {
        let Some(leader) = leader? else { continue };
        let mut seen = seen.lock();
        let last = seen.last().copied();
        ensure!(last.is_none_or(|last| last <= leader.term), "it went back");
        if last != Some(leader.term) {
            seen.push(leader.term);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn over_a_hundred_terms_at_most_one_leads_and_observers_never_go_back() -> Result<()> {
    let server = MemoryStore::new();
    let (reign, seen) = (Arc::<Reign>::default(), Arc::default());
    let (mut hosts, mut watchers) = (JoinSet::new(), JoinSet::new());
    watchers.spawn(observe(server.sibling(), Arc::clone(&seen)));
    let watch = Arc::clone(&reign);
    watchers.spawn(async move {
        loop {
            watch.is_sound()?;
            sleep(Duration::from_millis(20)).await;
        }
    });
    for _ in 0..4 {
        hosts.spawn(host(server.sibling(), Arc::clone(&reign)));
    }
    tokio::select! {
        first = hosts.join_next() => first.context("no host")???,
        Some(failed) = watchers.join_next() => failed??,
    }
    ensure!(reign.count() > TERMS);
    // Of two terms within the time of a message, it may see only the second.
    let seen = seen.lock().len();
    ensure!(seen > TERMS / 2, "it has seen {seen}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_followed_within_a_ttl_and_a_heartbeat() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let leadership = Election::new(&client, "name").campaign().await?;
    let standby = stand(&election(&server, "two").await?, 1).await?;
    sleep(TTL).await;
    requests.silence("name");
    let died = Instant::now();
    drop(leadership);
    let next = standby.await??;
    ensure!(next.is_leader());
    ensure!(died.elapsed() <= TTL + HEARTBEAT, "{:?}", died.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_dies_as_it_is_made_the_leader_costs_one_waiter_ttl() -> Result<()> {
    let server = MemoryStore::new();
    let one = election(&server, "one").await?;
    let leadership = one.campaign().await?;
    let (dies, requests) = faulty(&server, TTL)?;
    let dead = stand(&Election::new(&dies, "name"), 1).await?;
    let third = stand(&election(&server, "three").await?, 2).await?;
    let mut leaders = election(&server, "").await?.observe();
    next_known(&mut leaders).await?;
    requests.silence("name");
    dead.abort();
    leadership.resign().await?;
    let resigned = Instant::now();
    // The present leader has not proclaimed anything.
    let ghost = next(&mut leaders).await?.context("one leads")?;
    ensure!(ghost.since.is_none() && ghost.value.is_empty());
    ensure!(resigned.elapsed() <= HEARTBEAT);
    let next = third.await??;
    ensure!(next.is_leader());
    ensure!(
        resigned.elapsed() <= WAITER_TTL + HEARTBEAT,
        "{:?}",
        resigned.elapsed()
    );
    ensure!(next_known(&mut leaders).await?.value == "three");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_proclamation_that_is_lost_is_sent_again_and_keeps_nobody_from_leading() -> Result<()> {
    for fate in [
        Fate::LoseReply,
        Fate::LoseRequest,
        Fate::NotSent,
        Fate::Refuse("LOADING"),
    ] {
        let server = MemoryStore::new();
        let (client, requests) = faulty(&server, TTL)?;
        requests.plan(&election::PROCLAIM, fate);
        let election = Election::new(&client, "name").value("one");
        let leadership = election.campaign().await?;
        ensure!(leadership.is_leader(), "{fate:?}");
        let known = known_by(&election, "one").await?;
        ensure!(known.term == leadership.term(), "{fate:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_late_first_value_does_not_replace_a_later_one() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    requests.plan(&election::PROCLAIM, Fate::Keep);
    let election = Election::new(&client, "name").value("first");
    let leadership = election.campaign().await?;
    requests.wait_sent(&election::PROCLAIM, 1).await;
    leadership.proclaim("second").await?;
    requests.deliver(&server).await;
    ensure!(
        election
            .leader()
            .await?
            .is_some_and(|it| it.value == "second")
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_late_value_of_a_term_that_is_over_is_nobodys() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    requests.plan(&election::PROCLAIM, Fate::Keep);
    let leadership = Election::new(&client, "name")
        .value("late")
        .campaign()
        .await?;
    requests.wait_sent(&election::PROCLAIM, 1).await;
    leadership.resign().await?;
    let next = election(&server, "next").await?;
    let _leadership = next.campaign().await?;
    known_by(&next, "next").await?;
    requests.deliver(&server).await;
    ensure!(next.leader().await?.is_some_and(|it| it.value == "next"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn observers_that_hear_no_message_learn_of_every_leader_within_a_heartbeat() -> Result<()> {
    let is_refused =
        |deaf: &FaultyStore| deaf.refuse_subscriptions("NOPERM no permissions to access a channel");
    for deafen in [is_refused, FaultyStore::lose_messages] {
        let server = MemoryStore::new();
        let (deaf, requests) = faulty(&server, TTL)?;
        deafen(&requests);
        let mut leaders = Election::new(&deaf, "name").observe();
        ensure!(next(&mut leaders).await?.is_none());
        for value in ["one", "two", "three"] {
            let election = election(&server, value).await?;
            let leadership = election.campaign().await?;
            known_by(&election, value).await?;
            let began = Instant::now();
            ensure!(next_known(&mut leaders).await?.value == value);
            ensure!(began.elapsed() <= HEARTBEAT, "{:?}", began.elapsed());
            leadership.resign().await?;
            ensure!(next(&mut leaders).await?.is_none());
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_observer_waits_for_a_server_that_does_not_answer() -> Result<()> {
    let server = MemoryStore::new();
    let (cut_off, requests) = faulty(&server, TTL)?;
    let mut leaders = Election::new(&cut_off, "name").observe();
    ensure!(next(&mut leaders).await?.is_none());
    requests.silence("name");
    let election = election(&server, "one").await?;
    let leadership = election.campaign().await?;
    known_by(&election, "one").await?;
    let silent = timeout(Duration::from_secs(300), leaders.next()).await;
    ensure!(silent.is_err(), "{silent:?}");
    requests.silence("nothing is called so");
    ensure!(next_known(&mut leaders).await?.term == leadership.term());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lost_its_data_has_a_later_term_and_observers_do_not_go_back() -> Result<()> {
    let server = MemoryStore::new();
    let (one, two) = (
        election(&server, "one").await?,
        election(&server, "two").await?,
    );
    let mut leaders = two.observe();
    let old = one.campaign().await?;
    let known = next_known(&mut leaders).await?;
    sleep(Duration::from_secs(1)).await;
    for key in server.keys() {
        server.execute(&["DEL", &key])?;
    }
    let new = two.campaign().await?;
    ensure!(new.term() > known.term);
    let seen = next_known(&mut leaders).await?;
    ensure!(seen.term == new.term() && seen.value == "two", "{seen:?}");
    let lost = old.lost().await;
    ensure!(lost.reason == LossReason::Gone, "{lost:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_an_earlier_time_is_passed_over() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "new").await?;
    let mut leaders = election.observe();
    let leadership = election.campaign().await?;
    let known = next_known(&mut leaders).await?;
    // The server returns as it was before this term, and then continues.
    let value = server.execute(&["LINDEX", "lockkeeper:name", "0"])?;
    let older = "election x 67e55044-10b1-426f-9247-bb680e5fe0c8:1/000000000000000a 7";
    server.execute(&["LSET", "lockkeeper:name", "0", older])?;
    server.execute(&["PEXPIRE", "lockkeeper:name", "20000"])?;
    let silent = timeout(WAITER_TTL, leaders.next()).await;
    ensure!(silent.is_err(), "{silent:?}");
    let lockkeeper_core::store::Value::Bytes(value) = value else {
        anyhow::bail!("{value:?}");
    };
    let value = String::from_utf8(value)?;
    server.execute(&["LSET", "lockkeeper:name", "0", &value])?;
    server.execute(&["PEXPIRE", "lockkeeper:name", "600000"])?;
    server.execute(&["PEXPIRE", STATE, "600000"])?;
    leadership.proclaim("newer").await?;
    let seen = next(&mut leaders).await?.context("it leads")?;
    ensure!(seen.term == known.term && seen.value == "newer");
    Ok(())
}

#[tokio::test]
async fn an_observer_of_a_server_that_restarts_goes_on() -> Result<()> {
    let mut server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let election = Election::new(&client, "name").value("one");
    let mut leaders = election.observe();
    let first = election.campaign().await?;
    let known = next_known(&mut leaders).await?;
    server.kill()?;
    server.restart().await?;
    let lost = timeout(PATIENCE, first.lost()).await?;
    ensure!(
        matches!(lost.reason, LossReason::Gone | LossReason::Expired),
        "{lost:?}"
    );
    let second = election.campaign().await?;
    loop {
        let seen = next_known(&mut leaders).await?;
        ensure!(seen.term >= known.term);
        if seen.term == second.term() {
            return Ok(());
        }
    }
}

/// A waker that ends another observer of the same name.
struct EndsAnother(SyncMutex<Option<Leaders>>);

impl Wake for EndsAnother {
    fn wake(self: Arc<Self>) {
        let other = self.0.lock().take();
        drop(other);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_woken_by_a_message_may_end_another_observer() -> Result<()> {
    let server = MemoryStore::new();
    let observers = election(&server, "one").await?;
    let (mut woken, mut other) = (observers.observe(), observers.observe());
    ensure!(next(&mut woken).await?.is_none() && next(&mut other).await?.is_none());
    // Both wait for the next message.
    let waker = Arc::new(EndsAnother(SyncMutex::default()));
    let noticed = Arc::clone(&waker).into();
    let mut context = TaskContext::from_waker(&noticed);
    for _ in 0..2 {
        ensure!(Pin::new(&mut woken).poll_next(&mut context).is_pending());
        ensure!(Pin::new(&mut other).poll_next(&mut context).is_pending());
        sleep(Duration::from_millis(100)).await;
    }
    *waker.0.lock() = Some(other);
    let elected = election(&server, "two").await?;
    let leadership = elected.campaign().await?;
    sleep(Duration::from_secs(1)).await;
    ensure!(waker.0.lock().is_none(), "the waker was not called");
    ensure!(next_known(&mut woken).await?.value == "two");
    leadership.resign().await?;
    Ok(())
}
