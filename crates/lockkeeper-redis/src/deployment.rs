//! What stands behind a URL: one server, or several that share the keys.

use lockkeeper_core::{Error, Result};

use crate::cluster::Seeds;
use crate::target::{Target, config, decode};

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One server that has every key.
    Single(Target),
    /// Servers that share the keys by slots.
    Cluster(Seeds),
}

impl Deployment {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        match url.split_once("://") {
            Some(("redis-cluster" | "valkey-cluster", rest)) => Ok(Self::Cluster(cluster(rest)?)),
            _ => Ok(Self::Single(Target::parse(url)?)),
        }
    }
}

/// `[[user]:password@]host[:port][,host[:port]]…[?node=host[:port]&…]`
fn cluster(rest: &str) -> Result<Seeds> {
    let several = several(rest, "redis-cluster://host:6379")?;
    if !matches!(several.path, "" | "0") {
        return Err(config(
            "the URL of a cluster names a database, and clusters have number 0 alone",
        ));
    }
    for (key, _) in &several.settings {
        if *key != "node" {
            return Err(config(
                "the URL of a cluster has an unknown setting; node is known, for further seeds: ?node=host:6379",
            ));
        }
    }
    let targets = several.targets(6379)?;
    Seeds::new(targets).ok_or_else(|| config("the URL of a cluster names no host"))
}

/// A URL that names several servers.
struct Several<'a> {
    user_info: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    settings: Vec<(&'a str, &'a str)>,
}

impl Several<'_> {
    /// Every server named, each once, with the same credentials.
    fn targets(&self, port: u16) -> Result<Vec<Target>> {
        let further = self.settings.iter().filter(|(key, _)| *key == "node");
        let further: Result<Vec<String>> = further.map(|(_, host)| decode(host)).collect();
        let further = further?;
        let hosts = self.hosts.iter().copied();
        let mut targets: Vec<Target> = Vec::new();
        for host in hosts.chain(further.iter().map(String::as_str)) {
            if host.contains(['@', '/', '?', '#']) {
                return Err(Error::config(
                    "the URL of the server has a seed that is no host with a port",
                ));
            }
            let user_info = self.user_info.map(|text| format!("{text}@"));
            let user_info = user_info.unwrap_or_default();
            let target = Target::parse_with_port(&format!("redis://{user_info}{host}"), port)?;
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(targets)
    }
}

/// Takes a URL apart that may name several hosts, which no library reads. `rest` is what follows `://`.
fn several<'a>(rest: &'a str, example: &str) -> Result<Several<'a>> {
    if rest.contains('#') {
        return Err(config(
            "the URL of the server has a '#'; one that is part of a name or password is written %23",
        ));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user_info, hosts) = match authority.rsplit_once('@') {
        Some((user_info, hosts)) => (Some(user_info), hosts),
        None => (None, authority),
    };
    if hosts.is_empty() {
        return Err(config(format!(
            "the URL of the server names no host; it looks like {example}"
        )));
    }
    // Not read as a form, where '+' would be a space: passwords have pluses.
    let settings = query.split('&').filter(|pair| !pair.is_empty());
    Ok(Several {
        user_info,
        hosts: hosts.split(',').collect(),
        path,
        settings: settings
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        format!("{:?}", Deployment::parse(url).unwrap())
    }

    #[test]
    fn a_cluster_has_one_seed_or_many() {
        for (url, seeds) in [
            ("redis-cluster://a", "a:6379"),
            ("valkey-cluster://a:7000/0", "a:7000"),
            (
                "redis-cluster://a:7000,b,[::1]:7002",
                "a:7000,b:6379,[::1]:7002",
            ),
            (
                "redis-cluster://a:1?node=b:2&node=a:1&node=c",
                "a:1,b:2,c:6379",
            ),
            ("redis-cluster://ann:se%40cret@a:1,b:2/", "a:1,b:2"),
        ] {
            let Deployment::Cluster(parsed) = Deployment::parse(url).unwrap() else {
                panic!("{url}");
            };
            assert_eq!(parsed.to_string(), seeds, "{url}");
        }
        assert!(!shown("redis-cluster://ann:hunter2@a:1,b:2").contains("hunter2"));
    }

    #[test]
    fn one_server_is_read_as_ever() {
        assert!(matches!(
            Deployment::parse("redis://a").unwrap(),
            Deployment::Single(_)
        ));
    }

    #[test]
    fn what_cannot_work_is_a_config_error_that_shows_no_password() {
        for (url, part) in [
            ("redis-cluster://", "no host"),
            ("redis-cluster://:hunter2@", "no host"),
            ("redis-cluster://a/1", "number 0 alone"),
            ("redis-cluster://a?db=1", "unknown setting"),
            ("redis-cluster://a?node=b@hunter2", "no host with a port"),
            ("redis-cluster://hunter2@a", "without a password"),
            ("redis-cluster://a:b", "looks like"),
            ("redis-cluster://a,,b", "no host"),
            ("redis-cluster://:hun#ter2@a", "%23"),
        ] {
            let error = Deployment::parse(url).unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(part), "{url}: {error}");
            assert!(
                !format!("{error:?}").contains("hunter2"),
                "{url}: {error:?}"
            );
        }
    }
}
