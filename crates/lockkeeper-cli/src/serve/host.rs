//! **Pure**: the names by which this server may be addressed. A foreign web page could let its own name resolve to this server
//! (*DNS rebinding*) and then read, in its visitor's browser, what is meant for this machine only. But its requests carry its own
//! name, so they can be refused.

use std::net::IpAddr;

use axum::http::uri::Authority;

use crate::exit::Failure;

/// The names that a request may use for this server.
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// Accepts these names, `localhost` and all IP addresses. IP addresses are safe, because a foreign page cannot make one lead
    /// here.
    pub(super) fn new(named: &[String]) -> Result<Self, Failure> {
        let mut names = vec!["localhost".to_owned()];
        for name in named {
            let plain = name.parse::<Authority>().ok();
            let plain = plain.filter(|it| it.host() == name && !name.is_empty());
            let plain = plain.ok_or_else(|| {
                Failure::usage(format!(
                    "{name:?} is not valid for --host: give the name alone, without scheme or port, such as locks.example.org"
                ))
            })?;
            names.push(plain.host().to_ascii_lowercase());
        }
        Ok(Self(names))
    }

    /// Whether this value of the `Host` header names this server. The port is ignored: a tunnel may have changed it.
    pub(super) fn know(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if host.contains('@') {
            return false;
        }
        let name = authority.host();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        address.parse::<IpAddr>().is_ok() || self.0.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_what_was_named_are_known_and_other_names_are_not() {
        let hosts = Hosts::new(&["Locks.Example.org".to_owned()]).unwrap();
        for known in [
            "localhost",
            "LOCALHOST:9090",
            "localhost.",
            "127.0.0.1:9090",
            "10.1.2.3",
            "[::1]:9090",
            "[::1]",
            "locks.example.org",
            "locks.example.org:443",
        ] {
            assert!(hosts.know(known), "{known}");
        }
        for unknown in [
            "",
            "example.org",
            "evil.locks.example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "localhost@example.org",
            "example.org@localhost",
            "localhost/",
            "127.0.0.1 ",
        ] {
            assert!(!hosts.know(unknown), "{unknown}");
        }
    }

    #[test]
    fn a_name_comes_alone() {
        for bad in [
            "",
            "https://locks",
            "locks:80",
            "a b",
            "user@locks",
            "locks/x",
        ] {
            assert!(Hosts::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
