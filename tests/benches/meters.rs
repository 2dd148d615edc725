//! Processor time, memory and commands, of this process and of the servers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result};
use lockkeeper_testkit::server::Server;
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep_until;

/// Processor time of this process, including kernel time.
pub(crate) fn own_processor_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

/// Memory that this process uses, in bytes; `None` on a system that does not report it.
pub(crate) fn own_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// Scripts that these servers were asked to run; a batch counts as one.
pub(crate) async fn scripts(servers: &[Server]) -> Result<f64> {
    let mut calls = 0;
    for server in servers {
        calls += server.commandstats("evalsha").await? + server.commandstats("eval").await?;
    }
    Ok(count(calls))
}

/// Commands that these servers have run, including those inside scripts.
pub(crate) async fn commands(servers: &[Server]) -> Result<f64> {
    sum_of(servers, "stats", "total_commands_processed").await
}

/// Bytes that these servers have received.
pub(crate) async fn received(servers: &[Server]) -> Result<f64> {
    sum_of(servers, "stats", "total_net_input_bytes").await
}

/// Processor time of these servers, including kernel time, in seconds.
pub(crate) async fn servers_processor_time(servers: &[Server]) -> Result<f64> {
    Ok(sum_of(servers, "cpu", "used_cpu_sys").await?
        + sum_of(servers, "cpu", "used_cpu_user").await?)
}

/// Memory that these servers have allocated, bytes.
pub(crate) async fn servers_memory(servers: &[Server]) -> Result<f64> {
    sum_of(servers, "memory", "used_memory").await
}

async fn sum_of(servers: &[Server], section: &str, field: &str) -> Result<f64> {
    let mut sum = 0.0;
    for server in servers {
        let text = server.command(&["INFO", section]).await?.into_text()?;
        let value = field_of(&text, field).with_context(|| format!("no {field}"))?;
        sum += value.parse::<f64>()?;
    }
    Ok(sum)
}

/// The cost of keeping leases or places in a queue.
pub(crate) struct Watched {
    /// Scripts per second on the servers.
    pub(crate) scripts: f64,
    /// The same in the busiest second.
    pub(crate) busiest: f64,
    /// Processor time of this process, % of one core.
    pub(crate) client: f64,
    /// Processor time of the servers, % of one core.
    pub(crate) server: f64,
}

/// Watches for this long, in steps of a second.
pub(crate) async fn watch(servers: &[Server], length: Duration) -> Result<Watched> {
    let start = tokio::time::Instant::now();
    let own_before = own_processor_time()?;
    let server_before = servers_processor_time(servers).await?;
    let scripts_before = scripts(servers).await?;
    let (mut last, mut busiest) = (scripts_before, 0_f64);
    for second in 1..=length.as_secs() {
        sleep_until(start + Duration::from_secs(second)).await;
        let now = scripts(servers).await?;
        busiest = busiest.max(now - last);
        last = now;
    }
    let seconds = start.elapsed().as_secs_f64();
    let own = own_processor_time()?
        .checked_sub(own_before)
        .context("time ran backwards")?;
    Ok(Watched {
        scripts: (last - scripts_before) / seconds,
        busiest,
        client: own.as_secs_f64() / seconds * 100.0,
        server: (servers_processor_time(servers).await? - server_before) / seconds * 100.0,
    })
}

/// How many processors there are, also those on which this process may not run.
pub(crate) fn processors() -> usize {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let all = text.lines().filter(|line| line.starts_with("processor"));
    all.count().max(1)
}

/// The facts that the figures depend on: name and text of each.
pub(crate) async fn machine(effort: &str) -> Result<BTreeMap<String, String>> {
    let server = Server::start().await?;
    let text = server.command(&["INFO", "server"]).await?.into_text()?;
    // Valkey reports its own version and the version of Redis that it is compatible with.
    let version = match field_of(&text, "valkey_version") {
        Some(version) => format!("valkey {version}"),
        None => format!(
            "redis {}",
            field_of(&text, "redis_version").unwrap_or("of unknown version")
        ),
    };
    let own = std::thread::available_parallelism()?.get();
    let cores = match processors() {
        all if all > own => format!("{own} of {all}"),
        _ => own.to_string(),
    };
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = about
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("an unknown processor", |(_, model)| model);
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let date = now.split('T').next().unwrap_or_default();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    let facts = [
        ("date", date.to_owned()),
        ("server", format!("{version}, on loopback over TCP")),
        ("cores", cores),
        ("processor", processor.to_owned()),
        ("load before", load.join(" ")),
        (
            "system",
            format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ),
        ("effort", effort.to_owned()),
    ];
    Ok(facts.map(|(name, text)| (name.to_owned(), text)).into())
}

/// A count as a figure. Exact up to 2^53, which no run comes near.
pub(crate) fn count(number: impl TryInto<u32>) -> f64 {
    number.try_into().map_or(f64::INFINITY, f64::from)
}

fn field_of<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(str::trim)
}
