//! What a URL says: where the server is, which database, with what credentials.
//!
//! Nothing here prints any part of a URL that could not be read: a password with a character that should have been
//! percent-encoded may stand anywhere in it.

use std::fmt;
use std::path::PathBuf;

use lockkeeper_core::{Error, Result};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::tls::{self, Tls};
use crate::translation::Translation;

/// Redis' own default.
const PORT: u16 = 6379;

/// One server and how to log in to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) database: u8,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) tls: Option<Tls>,
    /// Where servers are that others name.
    pub(crate) translation: Translation,
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// IPv6 hosts stand in brackets.
    Tcp {
        host: String,
        port: u16,
    },
    Unix {
        path: PathBuf,
    },
}

impl Address {
    /// A host as a node of a cluster writes it, where IPv6 has no brackets.
    pub(crate) fn tcp(host: &str, port: u16) -> Self {
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        Self::Tcp { host, port }
    }
}

/// A password, and the user it belongs to unless that is the default user.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl Target {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        Self::parse_with_port(url, PORT)
    }

    /// Reads a URL that means `port` if it names none.
    pub(crate) fn parse_with_port(url: &str, port: u16) -> Result<Self> {
        let url = Url::parse(url).map_err(|error| {
            config(format!(
                "the URL of the server cannot be read ({error}); it looks like redis://user:password@host:6379/0, \
                 with special characters in user and password percent-encoded"
            ))
        })?;
        if url.fragment().is_some() {
            return Err(config(
                "the URL of the server has a '#'; one that is part of a name or password is written %23",
            ));
        }
        match url.scheme() {
            "redis" | "valkey" => Self::tcp(&url, port, false),
            "rediss" | "valkeys" => Self::tcp(&url, port, true),
            "unix" => Self::unix(&url),
            _ => Err(config(
                "the URL of the server has an unknown scheme; use redis://host:6379, valkey://host:6379, \
                 redis-cluster://host:6379, \
                 redis-sentinel://host:26379/service, \
                 unix:///path/to.sock or memory://",
            )),
        }
    }

    /// Another server that is logged in to in the same way, by the address by which one of them knows it.
    pub(crate) fn elsewhere(&self, address: Address) -> Self {
        Self {
            address: self.translation.apply(address),
            ..self.clone()
        }
    }

    fn tcp(url: &Url, default_port: u16, tls: bool) -> Result<Self> {
        let host = match url.host() {
            Some(Host::Domain(name)) if !name.is_empty() => decode(name)?,
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => format!("[{address}]"),
            _ => {
                return Err(config(
                    "the URL of the server names no host; it looks like redis://host:6379",
                ));
            }
        };
        let settings = settings(url.query().unwrap_or_default());
        if tls && !settings.iter().all(|(key, _)| tls::SETTINGS.contains(key)) {
            return Err(config(
                "the URL of the server has an unknown setting; ca, cert and key are known",
            ));
        }
        if !tls && url.query().is_some() {
            return Err(config(
                "the URL of the server has a '?', and redis:// takes no settings there; one that is part of a \
                 password is written %3F",
            ));
        }
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            number => database(number)?,
        };
        let user = decode(url.username())?;
        let password = url.password().map(decode).transpose()?;
        Ok(Self {
            address: Address::Tcp {
                host,
                port: url.port().unwrap_or(default_port),
            },
            database,
            credentials: credentials(Some(user), password)?,
            tls: tls.then(|| Tls::read(&settings)).transpose()?,
            translation: Translation::default(),
        })
    }

    fn unix(url: &Url) -> Result<Self> {
        if url.has_host() && url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(config(
                "the URL of a unix socket has three slashes and an absolute path: unix:///path/to.sock",
            ));
        }
        let path = PathBuf::from(decode(url.path())?);
        if path.file_name().is_none() {
            return Err(config(
                "the URL of a unix socket names no path; it looks like unix:///path/to.sock",
            ));
        }
        let (mut number, mut user, mut password) = (0, None, None);
        for (key, value) in settings(url.query().unwrap_or_default()) {
            match key {
                "db" => number = database(value)?,
                "user" => user = Some(decode(value)?),
                "password" => password = Some(decode(value)?),
                _ => {
                    return Err(config(
                        "the URL of a unix socket has an unknown setting; db, user and password are known",
                    ));
                }
            }
        }
        Ok(Self {
            address: Address::Unix { path },
            database: number,
            credentials: credentials(user, password)?,
            tls: None,
            translation: Translation::default(),
        })
    }
}

/// Where, and nothing else: good for logs and errors.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix { path } => path.display().fmt(f),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("address", &self.address)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

pub(crate) fn config(message: impl Into<String>) -> Error {
    Error::config(message)
}

/// What stands behind a '?'. Not read as a form, where '+' would be a space: passwords have pluses.
pub(crate) fn settings(query: &str) -> Vec<(&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect()
}

pub(crate) fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        config("the URL of the server has percent-encoded bytes that are not UTF-8 text")
    })
}

pub(crate) fn database(number: &str) -> Result<u8> {
    number.parse().map_err(|_| {
        config("the URL of the server names no valid database; it is a number from 0 to 255")
    })
}

pub(crate) fn credentials(
    user: Option<String>,
    password: Option<String>,
) -> Result<Option<Credentials>> {
    let user = user.filter(|user| !user.is_empty());
    match (user, password) {
        (user, Some(password)) => Ok(Some(Credentials { user, password })),
        (None, None) => Ok(None),
        // Logging in would be left out, and commands would run as the default user without a word. The name is not
        // printed: in redis://secret@host it is the password.
        (Some(_), None) => Err(config(
            "the URL of the server has a user name without a password; write user:password@, or :password@ for the \
             default user (a user without password takes any)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp {
            host: host.into(),
            port,
        }
    }

    fn login(user: Option<&str>, password: &str) -> Option<Credentials> {
        Some(Credentials {
            user: user.map(Into::into),
            password: password.into(),
        })
    }

    #[test]
    fn a_url_names_host_port_and_database() {
        let cases = [
            ("redis://localhost", tcp("localhost", 6379), 0),
            ("valkey://localhost", tcp("localhost", 6379), 0),
            ("redis://localhost/", tcp("localhost", 6379), 0),
            ("redis://10.0.0.1:7000/3", tcp("10.0.0.1", 7000), 3),
            ("redis://[::1]:7000/255", tcp("[::1]", 7000), 255),
            ("redis://my%5Fhost", tcp("my_host", 6379), 0),
        ];
        for (url, address, database) in cases {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (target.address, target.database),
                (address, database),
                "{url}"
            );
            assert_eq!(target.credentials, None, "{url}");
        }
    }

    #[test]
    fn names_and_passwords_are_percent_decoded() {
        let cases = [
            ("redis://:secret@h", login(None, "secret")),
            ("redis://ann:se%3Acr%2Fet@h", login(Some("ann"), "se:cr/et")),
            ("redis://a%40b:%23+%25@h", login(Some("a@b"), "#+%")),
            ("unix:///s?password=a+b%26c", login(None, "a+b&c")),
            ("unix:///s?user=ann&password=x", login(Some("ann"), "x")),
        ];
        for (url, credentials) in cases {
            assert_eq!(
                Target::parse(url).unwrap().credentials,
                credentials,
                "{url}"
            );
        }
    }

    #[test]
    fn a_unix_url_names_a_path() {
        let target = Target::parse("unix:///run/my%20redis/r.sock?db=2").unwrap();
        let path = PathBuf::from("/run/my redis/r.sock");
        assert_eq!(target.address, Address::Unix { path });
        assert_eq!(target.database, 2);
    }

    #[test]
    fn what_cannot_work_is_a_config_error_that_says_what_to_do() {
        let cases = [
            ("", "looks like"),
            ("localhost:6379", "unknown scheme"),
            ("http://localhost", "unknown scheme"),
            ("redis:localhost", "no host"),
            ("redis:///0", "no host"),
            ("redis://localhost/x", "0 to 255"),
            ("redis://localhost/256", "0 to 255"),
            ("redis://localhost/1/2", "0 to 255"),
            ("redis://localhost:port", "looks like"),
            ("redis://localhost?db=1", "takes no settings"),
            ("redis://localhost/#", "%23"),
            ("redis://%ff@localhost", "not UTF-8"),
            ("unix://run/r.sock", "three slashes"),
            ("unix:///", "no path"),
            ("unix:///r.sock?database=1", "unknown setting"),
            ("unix:///r.sock?db=-1", "0 to 255"),
            ("rediss://h?db=1", "unknown setting"),
        ];
        for (url, part) in cases {
            let error = Target::parse(url).unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn no_message_and_no_debug_output_shows_a_password() {
        let urls = [
            "redis://user:hunter2@host/0",
            "redis://hunter2@host",
            "redis://:hunter2",
            "redis://user:hun/hunter2@host",
            "redis://user:12/hunter2@host",
            "redis://user:pass?hunter2@host",
            "redis://user:pass#hunter2@host",
            "redis://user:hunter2@host/hunter2",
            "rediss://user:hunter2@host",
            "rediss-cluster://user:hunter2@host",
            "hunter2://host",
            "hunter2",
            "unix:///r.sock?hunter2",
            "unix:///r.sock?password=hunter2",
            "unix:///r.sock?password=hunter2&user=hunter2",
            "unix:///r.sock?user=hunter2",
        ];
        for url in urls {
            let shown = match Target::parse(url) {
                Ok(target) => format!("{target:?} {target}"),
                Err(error) => format!("{error:?} {error}"),
            };
            assert!(!shown.contains("hunter2"), "{url}: {shown}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", scheme in "(redis|unix|rediss|)") {
            let _ = Target::parse(&text);
            let _ = Target::parse(&format!("{scheme}://{text}"));
        }

        #[test]
        fn any_password_survives_encoding(password in "\\PC+") {
            let encoded = percent_encoding::utf8_percent_encode(&password, percent_encoding::NON_ALPHANUMERIC);
            for url in [format!("redis://:{encoded}@h"), format!("unix:///s?password={encoded}")] {
                prop_assert_eq!(Target::parse(&url).unwrap().credentials, login(None, &password));
            }
        }
    }
}
