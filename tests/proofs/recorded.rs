//! Locks of all kinds at once on real servers that are stopped and killed, by clients that are killed, closed and cut off, and
//! a record of which leases were valid: for fifteen seconds each, or longer with `LOCKKEEPER_LOAD_SECONDS`.
//! `topologies/cluster.rs` runs the same tasks on a cluster. Under load without faults, for five seconds: readers and writers,
//! and sets of names that are taken together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use lockkeeper::{Client, ClientBuilder};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::kinds::KindModel;
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::recorded::{
    Job, Pace, Process, Records, Several, TTL, duration, nothing_is_held, nothing_remains, serve,
    settings, work,
};
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::{Site, options};
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::HOLDER;
use lockkeeper_tests::holder::Holder;
use lockkeeper_tests::patient;

/// Names of each kind.
const NAMES: usize = 2;

/// How many processes are simulated inside this one, and how many real ones are killed.
const PROCESSES: usize = 2;

/// The first two servers have single locks; the others may lose their data of a Redlock.
const SERVERS: usize = 5;

fn end() -> Instant {
    Instant::now() + duration().max(Duration::from_secs(15))
}

fn millis(most: u64) -> Duration {
    Duration::from_millis(fastrand::u64(..most))
}

/// Makes each process do each job until the time is over.
fn set_to_work(
    processes: &[Process],
    jobs: &[Job],
    records: &Arc<Records>,
    end: Instant,
) -> JoinSet<Result<()>> {
    let mut tasks = JoinSet::new();
    for process in processes {
        for &job in jobs {
            let (process, records) = (process.clone(), Arc::clone(records));
            tasks.spawn(async move { work(job, process, &records, end).await });
        }
    }
    tasks
}

/// A process's way to each server.
pub(crate) struct Ways(pub(crate) Vec<Proxy>);

impl Ways {
    pub(crate) async fn to(servers: &[Server]) -> Result<Self> {
        let mut proxies = Vec::new();
        for server in servers {
            proxies.push(Proxy::in_front_of(server).await?);
        }
        Ok(Self(proxies))
    }

    /// A client for each server, which may be out of reach.
    pub(crate) async fn clients(
        &self,
        records: &Records,
        settings: ClientBuilder,
    ) -> Result<Vec<Client>> {
        let mut clients = Vec::new();
        for (place, proxy) in self.0.iter().enumerate() {
            let store = options().connect_later(proxy.url()).await?;
            let settings = settings.clone().store_name(place.to_string());
            clients.push(records.client_over(Arc::new(store), settings)?);
        }
        Ok(clients)
    }

    /// Causes a fault on one of them, on the connection for commands or the one for messages.
    async fn suffer(&self) {
        let proxy = &self.0[fastrand::usize(..self.0.len())];
        let direction = fastrand::choice([Direction::ToServer, Direction::ToClient]);
        let direction = direction.unwrap_or(Direction::ToClient);
        match fastrand::u8(..7) {
            0 => proxy.reset_all(),
            1 => proxy.cut_all(),
            2 => proxy.cut_after(direction, fastrand::u64(..4_000)),
            3 => {
                let scripts = lockkeeper_lua::ALL;
                proxy.lose_reply_to(scripts[fastrand::usize(..scripts.len())].sha1);
            }
            4 => {
                proxy.delay(direction, millis(400));
                sleep(millis(1_000)).await;
            }
            5 => {
                proxy.hold(direction);
                sleep(millis(1_000)).await;
                proxy.release(direction);
            }
            _ => {
                proxy.black_hole(direction);
                sleep(millis(1_500)).await;
                // After a loss, the rest of that connection never arrives either.
                proxy.reset_all();
            }
        }
        sleep(millis(200)).await;
        proxy.clear();
    }
}

/// Stops one server after the other for a while, or makes it forget a Redlock. Returns how often each happened.
async fn servers_suffer(servers: &mut [Server], end: Instant) -> Result<[usize; 2]> {
    let (mut stopped, mut emptied) = (0, 0);
    while Instant::now() < end {
        let place = fastrand::usize(..SERVERS);
        if place >= 2 && fastrand::bool() {
            servers[place].restart().await?;
            emptied += 1;
        } else {
            servers[place].freeze()?;
            // Sometimes for longer than a lease.
            sleep(millis(if fastrand::u8(..5) == 0 { 4_000 } else { 800 })).await;
            servers[place].thaw()?;
            stopped += 1;
        }
        sleep(millis(600)).await;
    }
    Ok([stopped, emptied])
}

/// Closes the clients of a process while it works and replaces them. Returns how often.
async fn clients_close(
    process: &Process,
    ways: &Ways,
    records: &Records,
    end: Instant,
) -> Result<usize> {
    let mut closed = 0;
    loop {
        sleep(Duration::from_secs(1) + millis(3_000)).await;
        if Instant::now() >= end {
            return Ok(closed);
        }
        let before = process.replace(ways.clients(records, settings()).await?);
        for client in before {
            client.close().await;
        }
        closed += 1;
    }
}

/// Stops one process after the other for a while, perhaps longer than its leases last, and kills it. Returns how many.
async fn processes_die(ways: &Ways, records: &Records, end: Instant) -> Result<usize> {
    let names = NAMES.to_string();
    let seconds = (duration().as_secs() * 2 + 60).to_string();
    let mut words = vec!["all", &names, &seconds];
    words.extend(ways.0.iter().map(Proxy::url));
    let mut killed = 0;
    while Instant::now() < end {
        let mut holder = Holder::start(HOLDER, &words)?;
        let for_so_long = Duration::from_secs(2) + millis(2_000);
        hear(&mut holder, records, for_so_long).await?;
        if fastrand::bool() {
            holder.signal("-STOP")?;
            sleep(TTL.mul_f64(1.5 * fastrand::f64())).await;
            holder.signal("-CONT")?;
            hear(&mut holder, records, Duration::from_secs(1)).await?;
        }
        for line in holder.last_words().await? {
            note(&line, records)?;
        }
        killed += 1;
    }
    Ok(killed)
}

/// Records another process's reports of its leases for this long.
async fn hear(holder: &mut Holder, records: &Records, time: Duration) -> Result<()> {
    let until = tokio::time::Instant::now() + time;
    while let Ok(line) = tokio::time::timeout_at(until, holder.line()).await {
        note(&line?, records)?;
    }
    Ok(())
}

fn note(line: &str, records: &Records) -> Result<()> {
    let (name, span) = line.split_once(": ").context("no name")?;
    records.record(name, span.parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_servers_that_lose_nothing_no_two_are_valid_whatever_befalls_everybody() -> Result<()> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(Server::start().await?);
    }
    let jobs = Job::of_all(NAMES);
    let records = Arc::new(Records::of(&jobs).at_least(1));
    let (mut processes, mut ways, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PROCESSES {
        let way = Arc::new(Ways::to(&servers).await?);
        processes.push(Process::new(way.clients(&records, settings()).await?));
        ways.push(way);
        theirs.push(Arc::new(Ways::to(&servers).await?));
    }
    let end = end();
    let mut tasks = set_to_work(&processes, &jobs, &records, end);
    let (mut suffering, mut closing, mut dying) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    for ways in ways.iter().chain(&theirs).map(Arc::clone) {
        suffering.spawn(async move {
            while Instant::now() < end {
                ways.suffer().await;
            }
        });
    }
    for (process, ways) in processes.iter().zip(&ways) {
        let (process, ways, records) = (process.clone(), Arc::clone(ways), Arc::clone(&records));
        closing.spawn(async move { clients_close(&process, &ways, &records, end).await });
    }
    for ways in theirs {
        let records = Arc::clone(&records);
        dying.spawn(async move { processes_die(&ways, &records, end).await });
    }
    let [stopped, emptied] = servers_suffer(&mut servers, end).await?;
    suffering.join_all().await;
    let closed: usize = closing.join_all().await.into_iter().sum::<Result<_>>()?;
    let killed: usize = dying.join_all().await.into_iter().sum::<Result<_>>()?;
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    for process in &processes {
        serve(&jobs, process, &records).await?;
    }
    let grants = records.check()?;
    println!(
        "{grants} grants, {records}; {stopped} servers stopped, {emptied} emptied, clients closed {closed} times, {killed} \
         processes killed"
    );
    let clients = processes[0].clients();
    nothing_is_held(&clients[0], records.names()).await?;
    for server in &servers {
        nothing_remains(server).await?;
    }
    Ok(())
}

/// The primary dies with its last grants, is frozen, or is replaced while healthy. The other server takes over, and it becomes
/// the replica.
async fn primary_fails(watched: &mut Watched, records: &Records, how: usize) -> Result<()> {
    let primary = watched.primary().await?;
    let other = 1 - primary;
    records.may_lose(records.names().map(str::to_owned).collect());
    match how % 3 {
        0 => {
            // The grants of its last moments are lost.
            watched.cut_off(primary).await?;
            sleep(millis(600)).await;
            watched.kill(primary).await?;
            watched.switched_to(other).await?;
            watched.restart(primary).await?;
            watched.follow(primary).await?;
        }
        1 => {
            watched.freeze(primary).await?;
            watched.switched_to(other).await?;
            watched.thaw(primary)?;
            watched.follow(primary).await?;
        }
        _ => {
            watched.switch().await?;
            watched.switched_to(other).await?;
        }
    }
    watched.healed().await?;
    records.lost_nothing_more();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_two_are_valid_over_a_failover_only_and_tokens_drawn_never_go_back()
-> Result<()> {
    let mut watched = Watched::start().await?;
    let mut jobs = Job::of_singles(NAMES, 2);
    jobs.extend([Job::of_several(NAMES); 4]);
    let records = Arc::new(Records::of(&jobs).at_least(1));
    let mut processes = Vec::new();
    for _ in 0..PROCESSES {
        let client = records.client(&watched, settings()).await?;
        processes.push(Process::new(vec![client]));
    }
    let (begun, end) = (Instant::now(), end());
    let mut tasks = set_to_work(&processes, &jobs, &records, end);
    let mut failures = 0;
    while Instant::now() < end {
        sleep(Duration::from_secs(1) + millis(1_000)).await;
        primary_fails(&mut watched, &records, failures).await?;
        failures += 1;
    }
    let worked = timeout(2 * PATIENCE, async {
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        anyhow::Ok(())
    });
    worked.await??;
    for process in &processes {
        serve(&Job::of_each(NAMES), process, &records).await?;
    }
    let grants = records.check()?;
    let time = begun.elapsed();
    println!("{grants} grants, {records}; {failures} primaries replaced in {time:.0?}");
    ensure!(failures > 0, "no failover");
    let clients = processes[0].clients();
    nothing_is_held(&clients[0], records.names()).await?;
    nothing_remains(&watched).await
}

/// How many processes share names, and how many reading or writing tasks each has.
const SHARING: (usize, usize) = (4, 16);

/// Runs these jobs in several processes, without faults. Fails if a name was held less often than `at_least`.
async fn share(site: &dyn Site, jobs: &[Job], at_least: usize) -> Result<()> {
    let records = Records::of(jobs).at(Pace::Hurried).at_least(at_least);
    let records = Arc::new(records);
    let mut processes = Vec::new();
    for _ in 0..SHARING.0 {
        processes.push(Process::new(vec![records.client(site, patient()).await?]));
    }
    let mut tasks = set_to_work(&processes, jobs, &records, Instant::now() + duration());
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    println!("{} grants", records.check_without_faults()?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_writers_of_many_clients_never_meet() -> Result<()> {
    let jobs = Job::of_readers_and_writers(SHARING.1);
    share(&MemoryStore::new(), &jobs, 101).await
}

/// Eight tasks of each client take sets of five names.
async fn take_sets(kinds: &'static [KindModel], names: usize, of_each: usize) -> Result<()> {
    let sets = Job::Several(Several {
        kinds,
        names,
        of_each,
        together: [5, 5],
    });
    share(&Server::start().await?, &[sets; 8], 11).await
}

#[tokio::test]
async fn random_sets_of_names_exclude_one_another_and_all_are_served() -> Result<()> {
    take_sets(&[KindModel::COHORT], 20, 5).await
}

#[tokio::test]
async fn random_sets_of_mixed_kinds_exclude_one_another_and_all_are_served() -> Result<()> {
    take_sets(&KindModel::UNDER_LOAD, 4, 2).await
}

#[tokio::test]
async fn readers_and_writers_of_many_processes_never_meet() -> Result<()> {
    let server = Server::start().await?;
    let (tasks, seconds) = (SHARING.1.to_string(), duration().as_secs().to_string());
    // Of each process.
    let at_least = 26;
    let mut processes = JoinSet::new();
    for _ in 0..SHARING.0 {
        let mut holder = Holder::start(
            HOLDER,
            &[
                "share",
                &server.url(),
                &tasks,
                &seconds,
                &at_least.to_string(),
            ],
        )?;
        // All at once: a process that cannot print would keep holding.
        processes.spawn(async move { holder.rest().await });
    }
    let records = Records::of(&Job::of_readers_and_writers(1)).at_least(at_least * SHARING.0);
    while let Some(lines) = processes.join_next().await {
        for line in lines?? {
            note(&line, &records)?;
        }
    }
    println!("{} grants", records.check()?);
    Ok(())
}
