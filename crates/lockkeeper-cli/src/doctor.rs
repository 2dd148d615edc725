//! `doctor`: checks whether a server is suitable for locks.

use std::time::{Duration, Instant, SystemTime};

use comfy_table::Color;
use lockkeeper::{Client, Error, LossReason, Mutex, ServerFacts};
use serde::Serialize;

use crate::exit::{Failure, UNAVAILABLE};
use crate::out;
use crate::server::Server;

/// How long a message may take to arrive.
const MESSAGE: Duration = Duration::from_secs(2);

/// How long to wait before the message is sent again.
const AGAIN: Duration = Duration::from_millis(200);

/// How often to ask the server whether the other client listens yet. The server does not report it by itself.
const POLL: Duration = Duration::from_millis(5);

/// How many round trips are measured.
const ROUNDS: usize = 20;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Good,
    /// Locks work, but the user should know something.
    Warning,
    /// Locks do not work.
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    detail: String,
}

/// Runs all checks and prints what they found; returns the exit code.
pub(crate) async fn run(server: &Server, json: bool) -> Result<u8, Failure> {
    let begun = Instant::now();
    let client = server.connect(Client::builder()).await?;
    let took = out::duration(begun.elapsed());
    let mut findings = vec![finding(
        "connection",
        Verdict::Good,
        format!("up in {took}"),
    )];
    match client.server_facts().await {
        Ok(facts) => findings.extend(facts_found(&facts)),
        Err(error) => findings.push(finding("server", Verdict::Bad, error.to_string())),
    }
    let rights = rights(&client).await;
    let may_lock = rights.verdict != Verdict::Bad;
    findings.push(rights);
    // A server that refuses everything would fail each of these checks.
    if may_lock {
        findings.push(outcome("scripts", scripts(&client).await));
        findings.push(outcome("messages", messages(&client).await));
        let other = server.connect(Client::builder()).await?;
        findings.push(outcome("wakes", wakes(&client, &other).await));
        other.close().await;
    }
    findings.push(match client.names("").next_page().await {
        Ok(_) => finding("listing", Verdict::Good, "locks can be listed"),
        Err(error) => finding(
            "listing",
            Verdict::Warning,
            format!("ls will fail: {error}"),
        ),
    });
    client.close().await;
    print(&findings, json)?;
    let bad = findings.iter().any(|it| it.verdict == Verdict::Bad);
    Ok(if bad { UNAVAILABLE } else { 0 })
}

fn finding(check: &'static str, verdict: Verdict, detail: impl Into<String>) -> Finding {
    let detail = detail.into();
    Finding {
        check,
        verdict,
        detail,
    }
}

fn outcome(check: &'static str, outcome: Result<String, String>) -> Finding {
    match outcome {
        Ok(detail) => finding(check, Verdict::Good, detail),
        Err(detail) => finding(check, Verdict::Bad, detail),
    }
}

fn facts_found(facts: &ServerFacts) -> Vec<Finding> {
    let append_only = facts.append_only.map(|_| "it has an append-only file");
    let said = [
        ("server", facts.version.as_deref()),
        ("role", facts.role.as_deref()),
        ("eviction", facts.eviction.as_deref()),
        ("persistence", append_only),
    ];
    let advice = facts.advice();
    let judged = |(check, said): (&'static str, Option<&str>)| match (
        advice.iter().find(|it| it.about == check),
        said,
    ) {
        (Some(advice), _) if advice.grave => finding(check, Verdict::Bad, &*advice.text),
        (Some(advice), _) => finding(check, Verdict::Warning, &*advice.text),
        (None, Some(said)) => finding(check, Verdict::Good, said),
        (None, None) => finding(check, Verdict::Warning, "the server does not say"),
    };
    let mut findings: Vec<_> = said.into_iter().map(judged).collect();
    findings.push(finding("clock", Verdict::Good, clock(facts.clock)));
    findings
}

/// The server's clock compared with this machine's. No lease depends on the difference, but a person may.
fn clock(theirs: SystemTime) -> String {
    let ahead = theirs.duration_since(SystemTime::now());
    let (difference, side) = match ahead {
        Ok(ahead) => (ahead, "ahead of"),
        Err(error) => (error.duration(), "behind"),
    };
    format!("{} {side} this machine's", out::duration(difference))
}

/// Checks whether this user can get a lock in this namespace, and which missing rights the server reports.
async fn rights(client: &Client) -> Finding {
    let tried = Mutex::new(client, &own_name(client)).try_acquire().await;
    if let Err(Error::Backend { cause, .. }) = &tried
        && cause.code() == Some("NOPERM")
    {
        return finding("rights", Verdict::Bad, cause.to_string());
    }
    drop(tried);
    let (verdict, detail) = match client.missing_rights().await {
        Ok(rules) if rules.is_empty() => (Verdict::Good, "no missing right is known".to_owned()),
        Ok(rules) => (
            Verdict::Warning,
            format!(
                "locks are refused, or waiters learn of releases late: allow the user {}",
                rules.join(" ")
            ),
        ),
        Err(error) => (Verdict::Warning, error.to_string()),
    };
    finding("rights", verdict, detail)
}

/// A unique name, which no other program uses.
fn own_name(client: &Client) -> String {
    format!("doctor:{}", client.new_owner())
}

/// Acquires, verifies and releases a lock.
async fn scripts(client: &Client) -> Result<String, String> {
    let name = own_name(client);
    let text = |error: Error| error.to_string();
    let guard = Mutex::new(client, &name)
        .try_acquire()
        .await
        .map_err(text)?;
    let Some(guard) = guard else {
        return Err(format!("a new random name is already held: {name}"));
    };
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        guard.verify().await.map_err(text)?;
        rounds.push(begun.elapsed());
    }
    rounds.sort_unstable();
    guard.release().await.map_err(text)?;
    let median = rounds[ROUNDS / 2].as_micros();
    Ok(format!(
        "a lock was acquired and released; a round trip takes {median} µs"
    ))
}

/// A revocation must arrive as a message.
async fn messages(client: &Client) -> Result<String, String> {
    let name = own_name(client);
    let text = |error: Error| error.to_string();
    let guard = Mutex::new(client, &name).acquire().await.map_err(text)?;
    let told = async {
        loop {
            let begun = Instant::now();
            client.revoke(&name).await.map_err(text)?;
            // The revocation is sent again, because the first message may have been sent before the client listened.
            if let Ok(end) = tokio::time::timeout(AGAIN, guard.ended()).await {
                return Ok((end, begun.elapsed()));
            }
        }
    };
    match tokio::time::timeout(MESSAGE, told).await {
        Ok(Ok((end, took))) if end.reason() == Some(LossReason::Revoked) => {
            Ok(format!("one arrived in {} µs", took.as_micros()))
        }
        Ok(Ok((end, _))) => Err(format!("a revoked lock ended for another reason: {end:?}")),
        Ok(Err(error)) => Err(error),
        Err(_) => Err("none arrived: does the user lack the rights to the channels?".to_owned()),
    }
}

/// A release must wake a waiter of another client. Without the message, that waiter would ask again only after this check is
/// over.
async fn wakes(client: &Client, other: &Client) -> Result<String, String> {
    let name = own_name(client);
    let text = |error: Error| error.to_string();
    let guard = Mutex::new(client, &name).acquire().await.map_err(text)?;
    let lock = Mutex::new(other, &name);
    let waiter = lock.acquire().wait_for(MESSAGE);
    let mut waiter = std::pin::pin!(waiter.into_future());
    // Wait until the other client listens, or is refused.
    let listens = async {
        while !matches!(
            client.inspect(&name).await.map(|it| it.waiters),
            Ok(Some(1..)) | Err(_)
        ) {
            tokio::time::sleep(POLL).await;
        }
    };
    let refused = tokio::select! {
        biased;
        answer = &mut waiter => Some(answer),
        _ = tokio::time::timeout(AGAIN, listens) => None,
    };
    if let Some(answer) = refused {
        return Err(answer.map_or_else(text, |_| "two clients held the same lock".to_owned()));
    }
    guard.release().await.map_err(text)?;
    let begun = Instant::now();
    match waiter.await {
        Ok(guard) => {
            let took = begun.elapsed().as_micros();
            guard.release().await.map_err(text)?;
            Ok(format!("a waiter got the lock {took} µs after its release"))
        }
        Err(_) => Err(
            "a release woke no waiter: does the user lack the right to PUBLISH, or in a cluster from version 7 to \
             SPUBLISH?"
                .to_owned(),
        ),
    }
}

fn print(findings: &[Finding], json: bool) -> Result<(), Failure> {
    if json {
        return findings.iter().try_for_each(out::json);
    }
    let row = |finding: &Finding| {
        let (verdict, color) = match finding.verdict {
            Verdict::Good => ("ok", Color::Green),
            Verdict::Warning => ("WARNING", Color::Yellow),
            Verdict::Bad => ("BAD", Color::Red),
        };
        vec![
            out::cell(finding.check),
            out::cell(verdict).fg(color),
            out::cell(&finding.detail),
        ]
    };
    out::table_of_cells(&["CHECK", "", "DETAIL"], findings.iter().map(row).collect())
}
