//! Translates the addresses that servers announce. Pure. Cluster nodes and the servers that sentinels watch announce addresses of their
//! own network, which behind NAT lead nowhere.

use lockkeeper_core::{Error, Result};

use crate::target::{Address, decode};

/// The settings `map` of a URL. Empty: every server is at the address that others announce.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Translation(Vec<(Place, Place)>);

/// A server, or, without a port, every server of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// IPv6 hosts are in brackets.
    host: String,
    port: Option<u16>,
}

impl Translation {
    /// Reads every `map=announced=reached`. Both sides are hosts with a port, or both without one.
    pub(crate) fn read(settings: &[(&str, &str)]) -> Result<Self> {
        let pairs = settings.iter().filter(|(key, _)| *key == "map");
        let pairs = pairs.map(|(_, pair)| {
            let pair = decode(pair)?;
            let sides = pair.split_once('=');
            let sides = sides.and_then(|(from, to)| Some((Place::read(from)?, Place::read(to)?)));
            let alike = |(from, to): &(Place, Place)| from.port.is_some() == to.port.is_some();
            sides.filter(alike).ok_or_else(|| {
                Error::config(
                    "the setting map of the URL says what is announced and where that is reached, both with a port or both \
                     without: map=10.0.0.1:6379=host:6379 or map=10.0.0.1=host",
                )
            })
        });
        Ok(Self(pairs.collect::<Result<_>>()?))
    }

    /// The address at which to reach a server that others know by `address`.
    pub(crate) fn apply(&self, address: Address) -> Address {
        let Address::Tcp { host, port } = &address else {
            return address;
        };
        let meant = |(from, _): &&(Place, Place)| {
            from.host.eq_ignore_ascii_case(host) && from.port.is_none_or(|from| from == *port)
        };
        // An entry with a port is more specific.
        let named = self
            .0
            .iter()
            .filter(meant)
            .max_by_key(|(from, _)| from.port);
        match named {
            Some((_, to)) => Address::Tcp {
                host: to.host.clone(),
                port: to.port.unwrap_or(*port),
            },
            None => address,
        }
    }
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        let (host, port) = match text.rsplit_once(':') {
            // An IPv6 address in brackets, without a port.
            Some(_) if text.ends_with(']') => (text, None),
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text, None),
        };
        let in_brackets = host.starts_with('[') && host.ends_with(']');
        let usable = !host.is_empty() && (in_brackets || !host.contains(':'));
        usable.then(|| Self {
            host: host.to_owned(),
            port,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(maps: &[&str], host: &str, port: u16) -> String {
        let settings: Vec<_> = maps.iter().map(|map| ("map", *map)).collect();
        let translation = Translation::read(&settings).unwrap();
        match translation.apply(Address::tcp(host, port)) {
            Address::Tcp { host, port } => format!("{host}:{port}"),
            Address::Unix { .. } => unreachable!(),
        }
    }

    #[test]
    fn an_announced_address_is_reached_where_the_url_says() {
        let maps = [
            "10.0.0.1=public.example",
            "10.0.0.1:7000=other.example:1",
            "[fd00::1]:7000=10.0.0.9:2",
            "inner.example=[::1]",
        ];
        for (host, port, reached) in [
            ("10.0.0.1", 6379, "public.example:6379"),
            ("10.0.0.1", 7000, "other.example:1"),
            ("fd00::1", 7000, "10.0.0.9:2"),
            ("Inner.Example", 5, "[::1]:5"),
            ("10.0.0.2", 7000, "10.0.0.2:7000"),
        ] {
            assert_eq!(applied(&maps, host, port), reached);
        }
    }

    #[test]
    fn a_map_that_says_nothing_usable_is_refused_with_an_example() {
        for map in [
            "", "a", "a=", "=b", "a:1=b", "a=b:1", "a:x=b:1", "::1=b", "%ff=b",
        ] {
            let error = Translation::read(&[("map", map)]).unwrap_err();
            let text = error.to_string();
            assert!(
                text.contains("map=10.0.0.1") || text.contains("UTF-8"),
                "{text}"
            );
        }
    }
}
