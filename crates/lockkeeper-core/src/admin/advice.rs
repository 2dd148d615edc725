//! Advice about a server: what endangers locks on it, and what to do about that.

use crate::admin::listing::ServerFacts;

/// The oldest versions that support what the scripts need.
const OLDEST: [(&str, [u64; 2]); 2] = [("redis", [6, 2]), ("valkey", [7, 2])];

/// One problem of a server and what to do about it, in one sentence; see [`ServerFacts::advice`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// The topic: `server`, `role`, `eviction` or `persistence`.
    pub about: &'static str,
    /// True if locks do not work on this server. Otherwise they work, but may be lost.
    pub grave: bool,
    /// What is wrong, and what to do about it.
    pub text: String,
}

impl ServerFacts {
    /// Returns advice about a server with these facts. A fact that the server does not report gives no advice. Clients
    /// log the advice as warnings when they connect, and `lockkeeper doctor` shows it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// for advice in client.server_facts().await?.advice() {
    ///     println!("{}: {}", advice.about, advice.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn advice(&self) -> Vec<Advice> {
        let mild = |about, text| Advice {
            about,
            grave: false,
            text,
        };
        let grave = |about, text| Advice {
            about,
            grave: true,
            text,
        };
        let version = self
            .version
            .as_deref()
            .filter(|version| is_too_old(version));
        let version = version.map(|version| {
            let text = format!("{version} is too old: use Redis 6.2, Valkey 7.2 or later");
            grave("server", text)
        });
        let replica = self.role.as_deref().filter(|role| *role == "slave");
        let replica = replica.map(|_| {
            let text = "this is a replica: connect to its primary".to_owned();
            grave("role", text)
        });
        let eviction = self.eviction.as_deref().filter(|it| *it != "noeviction");
        let eviction = eviction.map(|policy| {
            let text = match self.max_memory {
                Some(0) => format!("{policy}, without a limit of memory yet: set noeviction"),
                _ => format!(
                    "{policy}: locks are lost when memory is full; set maxmemory-policy noeviction"
                ),
            };
            mild("eviction", text)
        });
        let persistence = self.append_only.filter(|append_only| !append_only);
        let persistence = persistence.map(|_| {
            let text = "no append-only file: a restart loses the locks that are held; set appendonly yes, or start the \
                        server again only after the longest ttl has passed";
            mild("persistence", text.to_owned())
        });
        let all = [version, replica, eviction, persistence];
        all.into_iter().flatten().collect()
    }
}

/// Whether a version such as `redis 6.0.16` is older than the oldest supported one; false if it cannot be parsed.
fn is_too_old(version: &str) -> bool {
    let Some((program, number)) = version.split_once(' ') else {
        return false;
    };
    let mut parts = number.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor))) = (parts.next(), parts.next()) else {
        return false;
    };
    OLDEST
        .iter()
        .any(|(name, oldest)| *name == program && [major, minor] < *oldest)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn about(info: &str) -> Vec<(&'static str, bool)> {
        let advice = ServerFacts::read(info, SystemTime::UNIX_EPOCH).advice();
        advice.iter().map(|it| (it.about, it.grave)).collect()
    }

    #[test]
    fn a_good_server_and_one_that_says_nothing_need_no_advice() {
        let good = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n";
        assert_eq!(about(good), []);
        assert_eq!(about(""), []);
    }

    #[test]
    fn each_danger_is_told_apart() {
        for (info, expected) in [
            ("redis_version:6.0.16", ("server", true)),
            ("role:slave", ("role", true)),
            (
                "maxmemory_policy:volatile-ttl\r\nmaxmemory:0",
                ("eviction", false),
            ),
            (
                "maxmemory_policy:allkeys-lru\r\nmaxmemory:9",
                ("eviction", false),
            ),
            ("aof_enabled:0", ("persistence", false)),
        ] {
            assert_eq!(about(info), [expected], "{info}");
        }
    }

    #[test]
    fn the_oldest_versions_that_will_do_are_those_of_the_manual() {
        for (version, expected) in [
            ("redis 6.2.0", false),
            ("redis 6.0.20", true),
            ("redis 5.0.14", true),
            ("redis 10.0.0", false),
            ("valkey 7.2.5", false),
            ("valkey 7.1.9", true),
            ("valkey 9.1.2", false),
            ("other 1.0.0", false),
            ("redis unstable", false),
        ] {
            assert_eq!(is_too_old(version), expected, "{version}");
        }
    }
}
