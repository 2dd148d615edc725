//! `leader`: shows who leads an election.

use std::time::SystemTime;

use lockkeeper::{Client, Election, Leader};
use serde::Serialize;

use crate::exit::Failure;
use crate::out;
use crate::server::Server;

#[derive(Serialize)]
struct Seen<'a> {
    /// When this line was printed, if there may be several.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a str>,
    name: &'a str,
    /// If nobody leads, this and all following fields are `None`.
    term: Option<u64>,
    value: Option<&'a str>,
    label: Option<&'a str>,
    /// RFC 3339, UTC, by the server's clock.
    since: Option<String>,
    claim: Option<&'a str>,
}

/// Prints who leads; with `watch`, also every change, until the process is ended.
pub(crate) async fn leader(
    server: &Server,
    name: &str,
    watch: bool,
    json: bool,
) -> Result<(), Failure> {
    let client = server.connect(Client::builder()).await?;
    let election = Election::new(&client, name);
    if !watch {
        return show(name, None, election.leader().await?.as_ref(), json);
    }
    let mut leaders = election.observe();
    while let Some(leader) = leaders.next().await {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        show(name, Some(&at), leader?.as_ref(), json)?;
    }
    Ok(())
}

fn show(name: &str, at: Option<&str>, leader: Option<&Leader>, json: bool) -> Result<(), Failure> {
    let since = leader.and_then(|leader| leader.since);
    let since = since.map(|since| humantime::format_rfc3339_millis(since).to_string());
    if json {
        return out::json(&Seen {
            at,
            name,
            term: leader.map(|leader| leader.term.get()),
            value: leader.map(|leader| &*leader.value),
            label: leader.and_then(|leader| leader.label.as_deref()),
            since,
            claim: leader.map(|leader| &*leader.claim),
        });
    }
    let at = at.map_or_else(String::new, |at| format!("{at}  "));
    let name = out::shown(name);
    let Some(leader) = leader else {
        return out::line(&format!("{at}{name}: nobody leads"));
    };
    let who = out::shown(leader.label.as_deref().unwrap_or(&leader.claim));
    let since = since.map_or_else(String::new, |since| format!(" since {since}"));
    let value = match &*leader.value {
        "" => String::new(),
        value => format!(": {}", out::shown(value)),
    };
    let term = leader.term;
    out::line(&format!(
        "{at}{name}: {who} leads{since}, term {term}{value}"
    ))
}
