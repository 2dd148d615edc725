//! What a server has and is: the names that hold something, and what the server says of itself.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lockkeeper_lua::{Status, server};

use crate::client::Client;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::inspection::put;
use crate::name::Name;
use crate::protocol::Item;
use crate::store::{Reply, Value};

/// At how many keys the server looks for one page: some 100 µs, in which nobody else is served.
const PAGE: &str = "500";

/// The names that match a pattern and hold something, page by page; made by [`Client::names`].
///
/// The server is never kept for longer than a page of some hundred keys takes. A name that holds something all the while is
/// found; one that begins or ends to meanwhile may be. A page may be empty, and a name may be on several.
pub struct Names {
    client: Client,
    pattern: String,
    /// `None` after the last page.
    cursor: Option<String>,
}

impl Names {
    pub(crate) fn new(client: &Client, pattern: &str) -> Self {
        Self {
            client: client.clone(),
            pattern: whole_keys(&client.engine.settings.namespace, pattern),
            cursor: Some("0".to_owned()),
        }
    }

    /// The next page; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`] if the server refuses or does not answer: asked again, it goes on from there.
    /// [`Error::Closed`] if the client is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the page is asked for again.
    ///
    /// # Examples
    ///
    /// See [`Client::names`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>> {
        let Some(cursor) = &self.cursor else {
            return Ok(None);
        };
        let item = || {
            let args = [cursor.clone(), self.pattern.clone(), PAGE.to_owned()];
            Item::new(&server::SCAN, [], args)
        };
        let engine = Arc::clone(&self.client.engine);
        let reply = ask(&engine, "list locks", item).await?;
        let (Status::Page, Some(next), Some(Value::List(keys))) = (
            reply.status(),
            reply.field(0).and_then(Value::as_str),
            reply.field(1),
        ) else {
            return Err(unexpected(&self.pattern, &reply));
        };
        let names = keys.iter().filter_map(Value::as_str);
        let names = names.filter_map(|key| name_of(&engine.settings.namespace, key));
        let names = names.collect();
        self.cursor = (next != "0").then(|| next.to_owned());
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

/// The pattern of the main keys: what stands for something in a namespace stands for itself.
fn whole_keys(namespace: &str, pattern: &str) -> String {
    let mut whole = String::new();
    for character in namespace.chars() {
        if "*?[]\\".contains(character) {
            whole.push('\\');
        }
        whole.push(character);
    }
    if !namespace.is_empty() {
        whole.push(':');
    }
    whole + pattern
}

/// The name that has this main key; `None` if none has.
fn name_of(namespace: &str, key: &str) -> Option<String> {
    let name = match namespace {
        "" => key,
        _ => key.strip_prefix(namespace)?.strip_prefix(':')?,
    };
    Name::new(namespace, name).ok().map(|name| name.to_string())
}

/// What a server is; see [`Client::server_facts`]. What it does not say is `None`: not every user may ask, and the embedded
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
    /// What its clock showed when it was asked.
    pub clock: SystemTime,
}

pub(crate) async fn server_facts(engine: &Engine) -> Result<ServerFacts> {
    let item = || Item::new(&server::DESCRIBE, [], []);
    let reply = ask(engine, "describe the server", item).await?;
    let part = |index: usize| u64::try_from(reply.field(index)?.as_i64()?).ok();
    let (Status::Server, Some(seconds), Some(micros)) = (reply.status(), part(0), part(1)) else {
        return Err(unexpected("", &reply));
    };
    let info = reply.field(2).and_then(Value::as_str).unwrap_or_default();
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(field, _)| *field == name).map(|it| it.1)
    };
    let version = match (field("valkey_version"), field("redis_version")) {
        (Some(version), _) => Some(format!("valkey {version}")),
        (None, version) => version.map(|version| format!("redis {version}")),
    };
    Ok(ServerFacts {
        version,
        eviction: field("maxmemory_policy").map(str::to_owned),
        role: field("role").map(str::to_owned),
        max_memory: field("maxmemory").and_then(|bytes| bytes.parse().ok()),
        clock: SystemTime::UNIX_EPOCH
            + Duration::from_secs(seconds)
            + Duration::from_micros(micros),
    })
}

async fn ask(engine: &Engine, doing: &str, item: impl Fn() -> Item) -> Result<Reply> {
    let (reply, _) = put(engine, item)
        .await?
        .map_err(|error| Error::backend(doing, error))?;
    Ok(reply)
}

fn unexpected(asked: &str, reply: &Reply) -> Error {
    Error::Protocol {
        name: asked.to_owned(),
        message: format!("an unexpected answer, {}", reply.status().as_str()),
    }
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
        assert_eq!(name_of("ns", "ns:a:b").as_deref(), Some("a:b"));
        for (namespace, key) in [
            ("ns", "other:a"),
            ("ns", "ns:"),
            ("ns", "nsa"),
            ("", "lockkeeper.fence:{lockkeeper:a}"),
            ("ns", "ns:a}b"),
        ] {
            assert_eq!(name_of(namespace, key), None, "{key}");
        }
    }
}
