//! Elections: one leader at a time with its value, and observers that never go back.

mod faults;
mod running;

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{
    Client, Election, Error, HandOver, Leader, Leaders, Leadership, LossReason, MultiLock, Mutex,
    Waiter,
};
use lockkeeper_lua::{election, lock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::faulty::Fate;
use lockkeeper_testkit::gated::drop_after;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use lockkeeper_tests::{client, faulty, patient};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

const TTL: Duration = Duration::from_secs(30);
const HEARTBEAT: Duration = Duration::from_millis(3_334);
const STATE: &str = "lockkeeper.state:{lockkeeper:name}";

async fn election(site: &impl Site, value: &str) -> Result<Election> {
    Ok(Election::new(&client(site, TTL).await?, "name").value(value))
}

/// Stands as a candidate at this place among the waiters.
async fn stand(
    election: &Election,
    place: usize,
) -> Result<JoinHandle<lockkeeper::Result<Leadership>>> {
    let campaign = tokio::spawn(election.campaign().into_future());
    timeout(PATIENCE, async {
        while election.candidates().await?.len() != place {
            sleep(Duration::from_millis(1)).await;
        }
        anyhow::Ok(())
    })
    .await??;
    Ok(campaign)
}

/// The next item of the stream, within the time that messages take.
async fn next(leaders: &mut Leaders) -> Result<Option<Leader>> {
    let next = timeout(PATIENCE, leaders.next()).await?;
    Ok(next.context("the stream ended")??)
}

/// The next leader with a value.
async fn next_known(leaders: &mut Leaders) -> Result<Leader> {
    loop {
        if let Some(leader) = next(leaders).await?.filter(|it| it.since.is_some()) {
            return Ok(leader);
        }
    }
}

/// Waits until the leader has this value.
async fn known_by(election: &Election, value: &str) -> Result<Leader> {
    timeout(PATIENCE, async {
        loop {
            match election.leader().await? {
                Some(leader) if leader.since.is_some() && leader.value == value => {
                    return Ok(leader);
                }
                _ => sleep(Duration::from_millis(1)).await,
            }
        }
    })
    .await?
}

/// Three candidates lead one after the other, and an observer sees them in order.
async fn candidates_lead_in_the_order_of_asking(site: &impl Site) -> Result<()> {
    let election = async |value: &str| {
        let client = site.client(patient()).await?;
        anyhow::Ok(Election::new(&client, "name").value(value))
    };
    let mut leaders = election("").await?.observe();
    ensure!(next(&mut leaders).await?.is_none(), "nobody leads");
    let mut elections = Vec::new();
    for value in ["one", "two", "three"] {
        elections.push(election(value).await?);
    }
    let mut leadership = elections[0].campaign().await?;
    let first = next_known(&mut leaders).await?;
    ensure!(first.value == "one" && first.term == leadership.term());
    ensure!(first.owner == Some(leadership.owner()) && first.label.is_some());
    let second = stand(&elections[1], 1).await?;
    let third = stand(&elections[2], 2).await?;
    for (campaign, value) in [(second, "two"), (third, "three")] {
        let before = leadership.term();
        leadership.resign().await?;
        leadership = timeout(PATIENCE, campaign).await???;
        ensure!(leadership.is_leader() && leadership.term() > before);
        let seen = next_known(&mut leaders).await?;
        ensure!(
            seen.value == value && seen.term == leadership.term(),
            "{seen:?}"
        );
    }
    leadership.resign().await?;
    ensure!(elections[0].leader().await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn candidates_lead_one_after_the_other_and_are_seen_in_order() -> Result<()> {
    candidates_lead_in_the_order_of_asking(&MemoryStore::new()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_lead_one_after_the_other_on_a_server() -> Result<()> {
    candidates_lead_in_the_order_of_asking(&Server::start().await?).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn candidates_lead_one_after_the_other_on_a_cluster() -> Result<()> {
    candidates_lead_in_the_order_of_asking(&Cluster::pooled().await?).await
}

#[tokio::test(start_paused = true)]
async fn a_resignation_hands_over_by_one_message() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let election = Election::new(&client, "name");
    let leadership = election.campaign().await?;
    let standby = stand(&election, 1).await?;
    known_by(&election, "").await?;
    let began = Instant::now();
    leadership.resign().await?;
    let next = standby.await??;
    ensure!(next.is_leader() && began.elapsed() < Duration::from_millis(10));
    // The name was inflated in the meantime, so no thin release was sent in vain.
    ensure!(requests.sent(&lock::DROP) == 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_leader_proclaims_is_seen_in_order_and_since_the_first() -> Result<()> {
    let server = MemoryStore::new();
    let (observes, leads) = (election(&server, "").await?, election(&server, "0").await?);
    let mut leaders = observes.observe();
    let leadership = leads.campaign().await?;
    let first = next_known(&mut leaders).await?;
    for value in ["1", "2", "", "ä\n\0"] {
        sleep(Duration::from_secs(1)).await;
        leadership.proclaim(value).await?;
        let seen = next(&mut leaders).await?.context("it leads")?;
        ensure!(seen.value == value && seen.term == first.term, "{seen:?}");
        ensure!(seen.since == first.since);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_long_is_refused_before_anything_is_sent() -> Result<()> {
    let server = MemoryStore::new();
    let (client, requests) = faulty(&server, TTL)?;
    let (most, more) = ("v".repeat(1_024), "v".repeat(1_025));
    let campaign = Election::new(&client, "name").value(&more).campaign().await;
    ensure!(
        matches!(campaign, Err(Error::Config { .. })),
        "{campaign:?}"
    );
    ensure!(server.keys().is_empty());
    let election = Election::new(&client, "name").value(&most);
    let leadership = election.campaign().await?;
    known_by(&election, &most).await?;
    let sent = requests.sent(&election::PROCLAIM);
    let proclaimed = leadership.proclaim(&more).await;
    ensure!(
        matches!(proclaimed, Err(Error::Config { .. })),
        "{proclaimed:?}"
    );
    ensure!(requests.sent(&election::PROCLAIM) == sent);
    ensure!(election.leader().await?.is_some_and(|it| it.value == most));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_with_a_standby_is_known_for_hours_and_leaves_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "one").await?;
    let leadership = election.campaign().await?;
    let first = known_by(&election, "one").await?;
    let standby = stand(&election, 1).await?;
    for _ in 0..4 {
        sleep(Duration::from_secs(3_600)).await;
        ensure!(election.leader().await?.as_ref() == Some(&first));
    }
    standby.abort();
    ensure!(standby.await.is_err_and(|it| it.is_cancelled()));
    sleep(Duration::from_secs(3_600)).await;
    ensure!(election.leader().await?.as_ref() == Some(&first));
    leadership.resign().await?;
    sleep(Duration::from_secs(600)).await;
    let left = server.keys();
    ensure!(
        left.iter().all(|key| key.starts_with("lockkeeper.fence:")),
        "{left:?}"
    );
    Ok(())
}

/// Whatever value it proclaimed last, and however it came to lead.
#[tokio::test(start_paused = true)]
async fn an_observer_is_told_at_once_that_a_leader_has_resigned_and_nobody_leads() -> Result<()> {
    let server = MemoryStore::new();
    let mut leaders = election(&server, "").await?.observe();
    ensure!(next(&mut leaders).await?.is_none());
    let (one, two) = (
        election(&server, "one").await?,
        election(&server, "two").await?,
    );
    let told = async |leaders: &mut Leaders, leadership: Leadership| {
        let resigned = Instant::now();
        leadership.resign().await?;
        while next(leaders).await?.is_some() {}
        let took = resigned.elapsed();
        ensure!(took < Duration::from_millis(10), "told after {took:?}");
        anyhow::Ok(())
    };
    let leadership = one.campaign().await?;
    next_known(&mut leaders).await?;
    told(&mut leaders, leadership).await?;

    let leadership = one.campaign().await?;
    leadership.proclaim("another").await?;
    next_known(&mut leaders).await?;
    let standby = stand(&two, 1).await?;
    leadership.resign().await?;
    let leadership = standby.await??;
    while next_known(&mut leaders).await?.value != "two" {}
    told(&mut leaders, leadership).await?;

    // A candidate that has given up is not in the way.
    let leadership = one.campaign().await?;
    next_known(&mut leaders).await?;
    let standby = stand(&two, 1).await?;
    standby.abort();
    ensure!(standby.await.is_err_and(|error| error.is_cancelled()));
    sleep(Duration::from_secs(1)).await;
    told(&mut leaders, leadership).await
}

#[tokio::test(start_paused = true)]
async fn an_observer_learns_of_a_leader_that_is_lost_within_a_heartbeat() -> Result<()> {
    let server = MemoryStore::new();
    let mut leaders = election(&server, "").await?.observe();
    let (dies, requests) = faulty(&server, TTL)?;
    let leadership = Election::new(&dies, "name")
        .value("dies")
        .campaign()
        .await?;
    let seen = next_known(&mut leaders).await?;
    requests.silence("name");
    let lost = leadership.lost().await;
    ensure!(lost.reason == LossReason::Expired, "{lost:?}");
    let ended = Instant::now();
    ensure!(next(&mut leaders).await?.is_none());
    // The lease ends on the server a margin after it ends here.
    let margin = TTL / 100 + Duration::from_millis(5);
    ensure!(
        ended.elapsed() <= margin + HEARTBEAT,
        "{:?}",
        ended.elapsed()
    );
    let next = election(&server, "next").await?;
    let _leadership = next.campaign().await?;
    ensure!(next_known(&mut leaders).await?.term > seen.term);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_a_closed_client_ends_with_that() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let mut leaders = Election::new(&client, "name").observe();
    ensure!(next(&mut leaders).await?.is_none());
    client.close().await;
    ensure!(matches!(leaders.next().await, Some(Err(Error::Closed))));
    ensure!(leaders.next().await.is_none());
    let mut unnamed = Election::new(&client, "").observe();
    ensure!(matches!(
        unnamed.next().await,
        Some(Err(Error::Config { .. }))
    ));
    ensure!(unnamed.next().await.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn observers_that_are_dropped_listen_no_more() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "one").await?;
    let channel = "lockkeeper.grant:{lockkeeper:name}";
    let mut streams: Vec<Leaders> = (0..10).map(|_| election.observe()).collect();
    for leaders in &mut streams {
        ensure!(next(leaders).await?.is_none());
    }
    let listened = async |clients| {
        timeout(PATIENCE, async {
            while server.listeners(channel).await? != clients {
                sleep(Duration::from_millis(100)).await;
            }
            anyhow::Ok(())
        })
        .await?
    };
    listened(1).await?;
    drop(streams);
    listened(0).await
}

#[tokio::test(start_paused = true)]
async fn a_next_that_is_dropped_loses_nothing() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "one").await?;
    for polls in 1..20 {
        let mut leaders = election.observe();
        let dropped = drop_after(leaders.next(), polls).await;
        if dropped.is_none() {
            let first = next(&mut leaders).await?;
            ensure!(first.is_none(), "after {polls} polls: {first:?}");
        }
        let leadership = election.campaign().await?;
        let seen = next_known(&mut leaders).await?;
        ensure!(seen.term == leadership.term());
        leadership.resign().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_hands_over_to_the_candidate_that_it_chose() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "one").await?;
    let leadership = election.campaign().await?;
    let (mut standbys, mut candidates) = (Vec::new(), Vec::<Waiter>::new());
    for place in 1..=3 {
        standbys.push(stand(&election, place).await?);
        candidates.extend(election.candidates().await?.pop());
    }
    let done = leadership.hand_over_to(&candidates[2]).await?;
    ensure!(matches!(done, HandOver::Done(_)), "{done:?}");
    let chosen = standbys.remove(2).await??;
    ensure!(chosen.is_leader() && Some(chosen.owner()) == candidates[2].owner);
    // The candidates before it have kept their order, and the chosen one is no longer in the queue.
    let HandOver::Refused(chosen) = chosen.hand_over_to(&candidates[2]).await? else {
        anyhow::bail!("there is no such candidate");
    };
    ensure!(chosen.is_leader());
    chosen.resign().await?;
    let next = standbys.remove(0).await??;
    ensure!(Some(next.owner()) == candidates[0].owner);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_lost_hands_nothing_over() -> Result<()> {
    let server = MemoryStore::new();
    let election = election(&server, "one").await?;
    let leadership = election.campaign().await?;
    let _standby = stand(&election, 1).await?;
    let candidate = election.candidates().await?.remove(0);
    // Removed by hand; no client is notified.
    let claim = election.leader().await?.context("it leads")?.claim;
    server.execute(&[
        "ZREM",
        "lockkeeper.holders:{lockkeeper:name}",
        &format!("x:{claim}"),
    ])?;
    let proclaimed = leadership.proclaim("late").await;
    ensure!(
        matches!(
            proclaimed,
            Err(Error::Lost {
                reason: LossReason::Gone,
                ..
            })
        ),
        "{proclaimed:?}"
    );
    ensure!(!leadership.is_leader());
    let done = leadership.hand_over_to(&candidate).await;
    ensure!(matches!(done, Err(Error::Lost { .. })), "{done:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_of_several_is_known_too() -> Result<()> {
    let server = MemoryStore::new();
    let client = client(&server, TTL).await?;
    let election = Election::new(&client, "name").value("both");
    let set = [election.target(), Mutex::new(&client, "other").target()];
    let both = MultiLock::new(set)?.acquire().await?;
    known_by(&election, "both").await?;
    both.release().await?;
    ensure!(election.leader().await?.is_none());
    Ok(())
}

/// All public types of an election can be sent to other threads.
#[tokio::test]
async fn an_election_can_be_run_and_observed_by_spawned_tasks() -> Result<()> {
    fn sent<T: Send + 'static>(value: T) -> T {
        value
    }
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Election>();
    shared::<Leadership>();
    shared::<Leader>();
    let client = Client::builder().build(Arc::new(MemoryStore::new()))?;
    let election = Election::new(&client, "name");
    let mut leaders = sent(election.observe());
    let first = poll_fn(|context| {
        futures_core::Stream::poll_next(std::pin::Pin::new(&mut leaders), context)
    });
    ensure!(matches!(first.await, Some(Ok(None))));
    let last = tokio::spawn(async move {
        election
            .run(|leadership| async move {
                tokio::task::yield_now().await;
                ControlFlow::Break(leadership.term())
            })
            .await
    });
    last.await??;
    Ok(())
}
