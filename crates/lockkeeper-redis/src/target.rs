//! What a URL says: where the server is, which database to use, and which credentials.
//!
//! No message here prints any part of a URL that could not be parsed: a password with a character that should have been
//! percent-encoded may be anywhere in it.

use std::fmt;
use std::path::PathBuf;

use lockkeeper_core::{Error, Result};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::credentials::{Credentials, Login, PasswordFile};
use crate::tls::{self, Tls};
use crate::translation::Translation;

/// Redis's own default.
const PORT: u16 = 6379;

/// One server and how to log in to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) database: u8,
    pub(crate) login: Login,
    pub(crate) tls: Option<Tls>,
    /// Where to reach servers that other servers announce.
    pub(crate) translation: Translation,
}

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// IPv6 hosts are in brackets.
    Tcp {
        host: String,
        port: u16,
    },
    Unix {
        path: PathBuf,
    },
}

impl Address {
    /// Builds an address from a host as a cluster node writes it, where IPv6 has no brackets.
    pub(crate) fn tcp(host: &str, port: u16) -> Self {
        let host = match host.contains(':') {
            true => format!("[{host}]"),
            false => host.to_owned(),
        };
        Self::Tcp { host, port }
    }
}

/// The setting that names a file with the password.
pub(crate) const PASSWORD_FILE: &str = "password-file";

impl Target {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        Self::parse_with_port(url, PORT)
    }

    /// Reads a URL whose port is `port` if it names none.
    pub(crate) fn parse_with_port(url: &str, port: u16) -> Result<Self> {
        let url = Url::parse(url).map_err(|error| {
            Error::config(format!(
                "the URL of the server cannot be read ({error}); it looks like redis://user:password@host:6379/0, \
                 with special characters in user and password percent-encoded"
            ))
        })?;
        if url.fragment().is_some() {
            return Err(Error::config(
                "the URL of the server has a '#'; one that is part of a name or password is written %23",
            ));
        }
        match url.scheme() {
            "redis" | "valkey" => Self::tcp(&url, port, false),
            "rediss" | "valkeys" => Self::tcp(&url, port, true),
            "unix" => Self::unix(&url),
            _ => Err(Error::config(
                "the URL of the server has an unknown scheme; use redis://host:6379, valkey://host:6379, \
                 redis-cluster://host:6379, \
                 redis-sentinel://host:26379/service, \
                 unix:///path/to.sock or memory://",
            )),
        }
    }

    /// Another server with the same login, at the address by which one of the servers knows it.
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
                return Err(Error::config(
                    "the URL of the server names no host; it looks like redis://host:6379",
                ));
            }
        };
        let settings = settings(url.query().unwrap_or_default());
        let known = |key: &str| key == PASSWORD_FILE || (tls && tls::SETTINGS.contains(&key));
        if !settings.iter().all(|(key, _)| known(key)) {
            return Err(Error::config(match tls {
                true => {
                    "the URL of the server has an unknown setting; password-file, ca, cert and key are known"
                }
                false => {
                    "the URL of the server has a '?', and redis:// takes no settings there but password-file; one that \
                     is part of a password is written %3F"
                }
            }));
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
            login: login(Some(user), password, password_file(&settings)?)?,
            tls: tls.then(|| Tls::read(&settings)).transpose()?,
            translation: Translation::default(),
        })
    }

    fn unix(url: &Url) -> Result<Self> {
        if url.has_host() && url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(Error::config(
                "the URL of a unix socket has three slashes and an absolute path: unix:///path/to.sock",
            ));
        }
        let path = PathBuf::from(decode(url.path())?);
        if path.file_name().is_none() {
            return Err(Error::config(
                "the URL of a unix socket names no path; it looks like unix:///path/to.sock",
            ));
        }
        let (mut number, mut user, mut password) = (0, None, None);
        let settings = settings(url.query().unwrap_or_default());
        for &(key, value) in &settings {
            match key {
                PASSWORD_FILE => {}
                "db" => number = database(value)?,
                "user" => user = Some(decode(value)?),
                "password" => password = Some(decode(value)?),
                _ => {
                    return Err(Error::config(
                        "the URL of a unix socket has an unknown setting; db, user, password and password-file are known",
                    ));
                }
            }
        }
        Ok(Self {
            address: Address::Unix { path },
            database: number,
            login: login(user, password, password_file(&settings)?)?,
            tls: None,
            translation: Translation::default(),
        })
    }
}

/// The address and nothing else: safe for logs and errors.
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

/// The settings after the '?'. Not parsed as a form, where '+' would be a space: passwords contain pluses.
pub(crate) fn settings(query: &str) -> Vec<(&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .collect()
}

pub(crate) fn decode(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        Error::config("the URL of the server has percent-encoded bytes that are not UTF-8 text")
    })
}

pub(crate) fn database(number: &str) -> Result<u8> {
    number.parse().map_err(|_| {
        Error::config("the URL of the server names no valid database; it is a number from 0 to 255")
    })
}

/// The password file that the settings name.
pub(crate) fn password_file(settings: &[(&str, &str)]) -> Result<Option<String>> {
    let named = settings.iter().find(|(key, _)| *key == PASSWORD_FILE);
    named.map(|(_, file)| decode(file)).transpose()
}

/// How to log in as `user` with the password, or with the one in `file`.
pub(crate) fn login(
    user: Option<String>,
    password: Option<String>,
    file: Option<String>,
) -> Result<Login> {
    let user = user.filter(|user| !user.is_empty());
    match (user, password, file) {
        (_, Some(_), Some(_)) => Err(Error::config(
            "the URL of the server has a password and names a password-file: leave one of them out",
        )),
        (user, None, Some(file)) => PasswordFile::of_url(file, user).map(Login::File),
        (user, Some(password), None) => {
            let credentials = Credentials::new(password);
            Ok(Login::Always(match user {
                Some(user) => credentials.user(user),
                None => credentials,
            }))
        }
        (None, None, None) => Ok(Login::Nobody),
        // The login would be skipped, and commands would silently run as the default user. The name is not printed: in
        // redis://secret@host it is the password.
        (Some(_), None, None) => Err(Error::config(
            "the URL of the server has a user name without a password; write user:password@, or :password@ for the \
             default user (a user without password takes any), or name a file with ?password-file=",
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

    fn always(user: Option<&str>, password: &str) -> Login {
        login(user.map(Into::into), Some(password.into()), None).unwrap()
    }

    fn from_file(user: Option<&str>, path: &str) -> Login {
        login(user.map(Into::into), None, Some(path.into())).unwrap()
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
            assert_eq!(target.login, Login::Nobody, "{url}");
        }
    }

    #[test]
    fn names_and_passwords_are_percent_decoded() {
        let cases = [
            ("redis://:secret@h", always(None, "secret")),
            (
                "redis://ann:se%3Acr%2Fet@h",
                always(Some("ann"), "se:cr/et"),
            ),
            ("redis://a%40b:%23+%25@h", always(Some("a@b"), "#+%")),
            ("unix:///s?password=a+b%26c", always(None, "a+b&c")),
            ("unix:///s?user=ann&password=x", always(Some("ann"), "x")),
            (
                "redis://h?password-file=/run/a%26b",
                from_file(None, "/run/a&b"),
            ),
            (
                "redis://ann@h/1?password-file=pw",
                from_file(Some("ann"), "pw"),
            ),
            (
                "unix:///s?password-file=/p&user=ann",
                from_file(Some("ann"), "/p"),
            ),
        ];
        for (url, login) in cases {
            assert_eq!(Target::parse(url).unwrap().login, login, "{url}");
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
            ("redis://h?password-file=", "names no file"),
            ("redis://:pw@h?password-file=/p", "leave one of them out"),
            ("unix:///r.sock?password=pw&password-file=/p", "leave one"),
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
                prop_assert_eq!(Target::parse(&url).unwrap().login, always(None, &password));
            }
        }
    }
}
