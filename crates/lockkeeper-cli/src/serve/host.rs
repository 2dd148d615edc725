//! **Pure**: the names by which this server may be addressed, and the requests of other web pages. A foreign web page could let its
//! own name resolve to this server (*DNS rebinding*) and then read, in its visitor's browser, what is meant for this machine only. But
//! its requests carry its own name, so they can be refused. If it asks for this server by an address, its browser lets it read
//! nothing, but it would take the places of others and make this server work. Browsers say so in the request.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, Request, header};

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

    /// Whether the page of another server sends this request. To follow a link from there to here is allowed.
    pub(super) fn is_foreign<B>(&self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let word = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
        match (word("sec-fetch-site"), word(header::ORIGIN.as_str())) {
            (Some("same-origin" | "none"), _) | (None, None) => false,
            (Some(_), _) => {
                let opens = word("sec-fetch-mode") == Some("navigate")
                    && word("sec-fetch-dest") == Some("document");
                !opens || request.method() != Method::GET
            }
            // Browsers leave the first header out if the connection may be tapped.
            (None, Some(origin)) => !self.is_own(origin, headers),
        }
    }

    /// Whether a page of this origin is this server's own: it has the same address, or a name that was named.
    fn is_own(&self, origin: &str, headers: &HeaderMap) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let authority = authority.and_then(|it| it.parse::<Authority>().ok());
        authority.is_some_and(|it| {
            let same = headers.get(header::HOST);
            let same = same
                .is_some_and(|host| host.as_bytes().eq_ignore_ascii_case(it.as_str().as_bytes()));
            let named = &self.0[1..];
            same || named.contains(&it.host().to_ascii_lowercase())
        })
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
    fn what_another_page_asks_for_is_foreign_and_a_link_from_there_is_not() {
        let hosts = Hosts::new(&["locks.example.org".to_owned()]).unwrap();
        let is_foreign = |headers: &str| {
            let mut request = Request::get("/events").header("host", "10.1.2.3:9090");
            for header in headers.split(", ").filter(|it| !it.is_empty()) {
                let (name, value) = header.split_once(": ").unwrap();
                request = request.header(name, value);
            }
            hosts.is_foreign(&request.body(()).unwrap())
        };
        const LINK: &str = "sec-fetch-site: cross-site, sec-fetch-mode: navigate";
        for own in [
            "",
            "sec-fetch-site: none, sec-fetch-mode: navigate, sec-fetch-dest: document",
            "sec-fetch-site: same-origin, sec-fetch-mode: cors",
            "sec-fetch-site: same-origin, origin: https://elsewhere.example.org",
            "origin: http://10.1.2.3:9090",
            // A proxy with TLS stands before this server and addresses it by its number.
            "origin: https://locks.example.org",
            &format!("{LINK}, sec-fetch-dest: document"),
        ] {
            assert!(!is_foreign(own), "{own}");
        }
        for foreign in [
            "sec-fetch-site: cross-site, sec-fetch-mode: no-cors, sec-fetch-dest: image",
            "sec-fetch-site: cross-site, sec-fetch-mode: cors, sec-fetch-dest: empty",
            // Another port of the same machine.
            "sec-fetch-site: same-site, sec-fetch-mode: cors",
            "sec-fetch-site: cross-site, origin: http://10.1.2.3:9090",
            "sec-fetch-site: ?",
            &format!("{LINK}, sec-fetch-dest: iframe"),
            LINK,
            "origin: null",
            "origin: ",
            "origin: http://10.1.2.3:3000",
            "origin: http://10.1.2.3",
            "origin: http://localhost:9090",
            "origin: https://example.org",
        ] {
            assert!(is_foreign(foreign), "{foreign}");
        }
        let post = Request::post("/").header("sec-fetch-site", "cross-site");
        let post = post.header("sec-fetch-mode", "navigate");
        let post = post.header("sec-fetch-dest", "document");
        assert!(hosts.is_foreign(&post.body(()).unwrap()));
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
