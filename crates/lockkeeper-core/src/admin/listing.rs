//! Listing: the names that are in use, and what the server reports about itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockkeeper_lua::{Status, server};

use crate::admin::glob;
use crate::admin::question::{TRIES, put};
use crate::engine::Engine;
use crate::seam::protocol::ScriptCall;
use crate::seam::store::{Reply, Value};
use crate::words::error::{Error, Result};
use crate::words::name;
use crate::words::name::Name;

/// How many keys the server examines for one page. That takes some 100 µs, during which it serves no other client.
const PAGE: &str = "500";

/// The names that match a pattern and are in use, page by page; made by [`Client::names`](crate::Client::names).
///
/// For each page the server examines only some hundred keys, so a listing does not block other clients for long. A page
/// may be empty, and a name may be on several pages.
///
/// In the empty namespace, whatever is a string or a lock of Redisson is listed, because it may be another library's lock; the
/// strings that only Redisson writes beside its locks are not.
///
/// A name that is in use during the whole listing is found. A name that comes into use or becomes free meanwhile may or
/// may not be found. If a name had several holders or waiters and all have died, it can be listed for up to 20 minutes,
/// or for the longest of their leases. In a cluster, the listing asks the servers that had the keys at the start, one
/// after the other, so it may miss a name that moves from one to another meanwhile.
pub struct Names {
    engine: Arc<Engine>,
    pattern: String,
    /// The pattern for keys.
    keys: String,
    /// The servers that are still to be asked; the current one last.
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

    /// Returns the next page; `None` after the last.
    ///
    /// # Errors
    ///
    /// - [`Error::Backend`] if the server refuses or does not answer: call it again to continue from there;
    /// - [`Error::Config`] if the pattern ends inside brackets or after a backslash; then nothing was sent;
    /// - [`Error::Closed`] if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call asks for the same page again.
    ///
    /// # Examples
    ///
    /// See [`Client::names`](crate::Client::names).
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>> {
        if is_unfinished(&self.pattern) {
            return Err(Error::config(format!(
                "the pattern {:?} ends in the middle: close its brackets, and write `\\[` or `\\\\` for a literal character",
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
        let names = names.filter(|key| !is_beside_redisson(key));
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

/// Whether a key can only be one of those that Redisson writes beside a lock as plain strings: a counter of tokens, the answer of
/// an unlock, or the lease of a reader. As a name it would look like a lock of another library.
fn is_beside_redisson(key: &str) -> bool {
    let is_reads_lease = |key: &str| {
        let (owner, number) = key.rsplit_once(":rwlock_timeout:")?;
        let (id, thread) = owner.rsplit_once(':')?;
        let id = id.rsplit(':').next()?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        let is_id = id.len() == 36 && id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
        Some(is_id && is_number(thread) && is_number(number))
    };
    ["redisson_lock_token:", "redisson_unlock_latch:"]
        .iter()
        .any(|beginning| key.starts_with(beginning))
        || is_reads_lease(key).unwrap_or(false)
}

/// Whether a pattern ends inside brackets or after a backslash. Redis accepts that, but would treat a text appended to
/// it as part of the unfinished element.
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

/// The pattern for main keys, with the namespace's special characters escaped.
fn whole_keys(namespace: &str, pattern: &str) -> String {
    let mut whole = name::in_pattern(namespace);
    if !namespace.is_empty() {
        whole.push(':');
    }
    whole + pattern
}

/// Facts about a server; see [`Client::server_facts`](crate::Client::server_facts). A fact that the server does not
/// report is `None`: not every user may ask, and an in-process server reports no facts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The program and its version, for example `redis 7.0.15` or `valkey 8.0.1`.
    pub version: Option<String>,
    /// The eviction policy (`maxmemory-policy`); any policy but `noeviction` can delete locks.
    pub eviction: Option<String>,
    /// `master`, or `slave` for a replica.
    pub role: Option<String>,
    /// The memory limit in bytes; 0: no limit.
    pub max_memory: Option<u64>,
    /// Whether it writes an append-only file; without one, a restart loses locks.
    pub append_only: Option<bool>,
    /// The server's clock when it was asked.
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
    /// Reads the facts from the output of `INFO`; `clock` is the time of the server's clock. Also for tests of your own
    /// code.
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
    let (reply, _) = put(engine, TRIES, item)
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
    fn keys_beside_a_lock_of_redisson_are_known_by_their_form() {
        let thread = "2bbaa2bf-6d65-4e16-98b0-454cf99bfe9d:9";
        for (key, expected) in [
            ("redisson_lock_token:{name}".to_owned(), true),
            ("redisson_unlock_latch:a{b}:0123".to_owned(), true),
            (format!("{{name}}:{thread}:rwlock_timeout:1"), true),
            (format!("shop:a{{b}}:{thread}:rwlock_timeout:12"), true),
            (format!("name:{thread}"), false),
            (format!("{thread}:rwlock_timeout:"), false),
            ("name:rwlock_timeout:1".to_owned(), false),
            (":rwlock_timeout:1".to_owned(), false),
            ("name:7:rwlock_timeout:1".to_owned(), false),
            ("redisson_lock".to_owned(), false),
        ] {
            assert_eq!(is_beside_redisson(&key), expected, "{key}");
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
