//! What a server has and is: the names that hold something, and what the server says of itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockkeeper_lua::{Status, server};

use crate::admin::glob;
use crate::admin::inspection::put;
use crate::engine::Engine;
use crate::seam::protocol::ScriptCall;
use crate::seam::store::{Reply, Value};
use crate::words::error::{Error, Result};
use crate::words::name;
use crate::words::name::Name;

/// At how many keys the server looks for one page: some 100 µs, in which nobody else is served.
const PAGE: &str = "500";

/// The names that match a pattern and hold something, page by page; made by [`Client::names`](crate::Client::names).
///
/// The server is never kept for longer than a page of some hundred keys takes. A name that holds something all the while is
/// found; one that begins or ends to meanwhile may be. So may one that several held, or waited for, and all of whom have died, for
/// up to 20 minutes or the longest of their leases. A page may be empty, and a name may be on several. Of a cluster, the servers
/// that shared the keys at first are asked one after the other, and a name that wanders from one to another meanwhile may be missed.
pub struct Names {
    engine: Arc<Engine>,
    pattern: String,
    /// The pattern of the keys.
    keys: String,
    /// The servers that are still to be asked; the one of now last.
    servers: Vec<u32>,
    cursor: String,
}

impl Names {
    pub(crate) fn new(engine: &Arc<Engine>, pattern: &str) -> Self {
        Self {
            engine: Arc::clone(engine),
            pattern: pattern.to_owned(),
            keys: whole_keys(&engine.settings.namespace, pattern),
            servers: engine.requester.store.servers().into_iter().rev().collect(),
            cursor: "0".to_owned(),
        }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the server refuses or does not answer: asked again, it goes on from there.
    /// [`Error::Config`] if the pattern ends within brackets or behind a backslash, before anything is sent.
    /// [`Error::Closed`] if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the page is asked for again.
    ///
    /// # Examples
    ///
    /// See [`Client::names`](crate::Client::names).
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>> {
        if is_unfinished(&self.pattern) {
            return Err(Error::config(format!(
                "the pattern {:?} ends in the middle: close its brackets, and write `\\[` or `\\\\` for what stands for itself",
                self.pattern
            )));
        }
        let Some(server) = self.servers.last() else {
            return Ok(None);
        };
        let item = || {
            let args = [&*self.cursor, &*self.keys, PAGE];
            ScriptCall::new(&server::SCAN, ScriptCall::NONE, args).on(*server)
        };
        let engine = Arc::clone(&self.engine);
        let reply = ask(&engine, "list locks", item).await?;
        let (Status::Page, Some(next), Some(Value::List(keys))) = (
            reply.status(),
            reply.field(0).and_then(Value::as_str),
            reply.field(1),
        ) else {
            return Err(unexpected(&self.pattern, &reply));
        };
        let names = keys.iter().filter_map(Value::as_str);
        let names = names.filter_map(|key| Name::of_main(&engine.settings.namespace, key));
        let names = names.map(|name| name.to_string());
        let names = names.filter(|name| glob::matches(self.pattern.as_bytes(), name.as_bytes()));
        let names = names.collect();
        next.clone_into(&mut self.cursor);
        if next == "0" {
            self.servers.pop();
        }
        Ok(Some(names))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("pattern", &self.pattern)
            .field("cursor", &self.cursor)
            .finish_non_exhaustive()
    }
}

/// Whether a pattern ends within brackets or behind a backslash. Redis bears with that, but what is put behind it would be
/// read as a part of it.
fn is_unfinished(pattern: &str) -> bool {
    let mut rest = pattern.as_bytes();
    let mut bracket = false;
    loop {
        (rest, bracket) = match (rest, bracket) {
            ([], bracket) => return bracket,
            ([b'\\'], _) => return true,
            ([b'\\', _, behind @ ..], _) => (behind, bracket),
            ([b'[', b'^', behind @ ..] | [b'[', behind @ ..], false) => (behind, true),
            ([b']', behind @ ..], true) => (behind, false),
            // A range, whose end may be a bracket.
            ([_, b'-', _, behind @ ..], true) => (behind, true),
            ([_, behind @ ..], _) => (behind, bracket),
        };
    }
}

/// The pattern of the main keys: what stands for something in a namespace stands for itself.
fn whole_keys(namespace: &str, pattern: &str) -> String {
    let mut whole = name::in_pattern(namespace);
    if !namespace.is_empty() {
        whole.push(':');
    }
    whole + pattern
}

/// What a server is; see [`Client::server_facts`](crate::Client::server_facts). What it does not say is `None`: not every user may ask, and the embedded
/// engine has nothing to say.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Program and version, as in `redis 7.0.15` or `valkey 8.0.1`.
    pub version: Option<String>,
    /// What it forgets when its memory is full; anything but `noeviction` forgets locks.
    pub eviction: Option<String>,
    /// `master`, or `slave` of a replica.
    pub role: Option<String>,
    /// How many bytes of memory it may use; 0: as many as there are.
    pub max_memory: Option<u64>,
    /// Whether it writes an append-only file; without it, a restart forgets locks.
    pub append_only: Option<bool>,
    /// What its clock showed when it was asked.
    pub clock: SystemTime,
}

pub(crate) async fn server_facts(engine: &Engine) -> Result<ServerFacts> {
    let item = || ScriptCall::new(&server::DESCRIBE, ScriptCall::NONE, ScriptCall::NONE);
    let reply = ask(engine, "describe the server", item).await?;
    let part = |index: usize| u64::try_from(reply.field(index)?.as_i64()?).ok();
    let clock = || {
        let since = Duration::from_secs(part(0)?).checked_add(Duration::from_micros(part(1)?))?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    };
    let (Status::Server, Some(clock)) = (reply.status(), clock()) else {
        return Err(unexpected("", &reply));
    };
    let info = reply.field(2).and_then(Value::as_str).unwrap_or_default();
    Ok(ServerFacts::read(info, clock))
}

impl ServerFacts {
    /// Reads what `INFO` says of a server whose clock shows this: for a test of your own code, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use lockkeeper_core::ServerFacts;
    ///
    /// let info = "redis_version:7.4.1\r\nmaxmemory_policy:allkeys-lru\r\n";
    /// let facts = ServerFacts::read(info, SystemTime::now());
    /// assert_eq!(facts.version.as_deref(), Some("redis 7.4.1"));
    /// assert_eq!(facts.advice()[0].about, "eviction");
    /// ```
    pub fn read(info: &str, clock: SystemTime) -> Self {
        let field = |name: &str| {
            let mut lines = info
                .lines()
                .filter_map(|requester| requester.split_once(':'));
            lines.find(|(field, _)| *field == name).map(|it| it.1)
        };
        let version = match (field("valkey_version"), field("redis_version")) {
            (Some(version), _) => Some(format!("valkey {version}")),
            (None, version) => version.map(|version| format!("redis {version}")),
        };
        Self {
            version,
            eviction: field("maxmemory_policy").map(str::to_owned),
            role: field("role").map(str::to_owned),
            max_memory: field("maxmemory").and_then(|bytes| bytes.parse().ok()),
            append_only: field("aof_enabled").map(|enabled| enabled == "1"),
            clock,
        }
    }
}

async fn ask(engine: &Engine, doing: &str, item: impl Fn() -> ScriptCall) -> Result<Reply> {
    let (reply, _) = put(engine, item)
        .await?
        .map_err(|error| Error::backend(doing, error))?;
    Ok(reply)
}

fn unexpected(asked: &str, reply: &Reply) -> Error {
    Error::unexpected(asked, reply.status().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_stands_for_itself_in_a_pattern() {
        assert_eq!(whole_keys("lockkeeper", "a*"), "lockkeeper:a*");
        assert_eq!(whole_keys("what?[x]", "*"), r"what\?\[x\]:*");
        assert_eq!(whole_keys("", "a*"), "a*");
    }

    #[test]
    fn keys_that_are_no_main_keys_name_nothing() {
        let name = Name::of_main("ns", "ns:a:b").unwrap();
        assert_eq!(name.as_str(), "a:b");
        for (namespace, key) in [
            ("ns", "other:a"),
            ("ns", "ns:"),
            ("ns", "nsa"),
            ("", "lockkeeper.fence:{lockkeeper:000001}"),
            ("ns", "ns:a}b"),
            ("ns", "lockkeeper.queue:{ns:a}"),
        ] {
            assert_eq!(Name::of_main(namespace, key), None, "{key}");
        }
    }

    #[test]
    fn a_pattern_that_ends_in_the_middle_is_known() {
        for (pattern, expected) in [
            ("", false),
            ("a[b-d]*", false),
            ("a]", false),
            (r"a\\", false),
            (r"a\[", false),
            ("[a-]]", false),
            ("[^]", false),
            (r"a\", true),
            ("a[", true),
            ("a[^", true),
            ("a[bc", true),
            ("[a-]", true),
            (r"[\]", true),
            ("[]x[", true),
        ] {
            assert_eq!(is_unfinished(pattern), expected, "{pattern}");
        }
    }
}
