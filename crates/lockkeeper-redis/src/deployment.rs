//! The deployment that a URL names: one server, the server that sentinels name, or a cluster.

use std::fmt;

use lockkeeper_core::{Error, Result};

use crate::credentials::{Login, Provider};
use crate::seeds::Seeds;
use crate::target::{PASSWORD_FILE, Target, database, decode, login, settings};
use crate::tls::{self, Tls};
use crate::translation::Translation;

/// What a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deployment {
    /// One server that has every key.
    Single(Target),
    /// Servers that share the keys by slots.
    Cluster(Seeds),
    /// One server that has every key; sentinels say which one it is.
    Sentinel(Watch),
}

/// A primary that sentinels watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Watch {
    /// The sentinels' name for it.
    pub(crate) service: String,
    /// The sentinels, with their own credentials.
    pub(crate) sentinels: Vec<Target>,
    /// How to log in to the primary, wherever it is.
    pub(crate) template: Target,
}

/// The addresses and nothing else: safe for logs and errors.
impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as the sentinels at ", self.service)?;
        for (number, sentinel) in self.sentinels.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{sentinel}")?;
        }
        f.write_str(" see it")
    }
}

impl Deployment {
    /// Reads a URL.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        match scheme {
            "redis-cluster" | "valkey-cluster" => Ok(Self::Cluster(cluster(rest, false)?)),
            "rediss-cluster" | "valkeys-cluster" => Ok(Self::Cluster(cluster(rest, true)?)),
            "redis-sentinel" | "valkey-sentinel" => Ok(Self::Sentinel(sentinel(rest, false)?)),
            "rediss-sentinel" | "valkeys-sentinel" => Ok(Self::Sentinel(sentinel(rest, true)?)),
            _ => Ok(Self::Single(Target::parse(url)?)),
        }
    }

    /// From now on, logs in to the servers that have keys with the credentials of `provider`.
    pub(crate) fn log_in_by(&mut self, provider: Provider) -> Result<()> {
        let login = match self {
            Self::Single(target) => &mut target.login,
            Self::Cluster(seeds) => &mut seeds.template.login,
            Self::Sentinel(watch) => &mut watch.template.login,
        };
        match login {
            Login::Nobody => {
                *login = Login::Asked(provider);
                Ok(())
            }
            _ => Err(Error::config(
                "there is a provider of credentials, and the server's address has a password too: leave one of them out",
            )),
        }
    }
}

/// `[[user]:password@]host[:port][,host[:port]]…[?node=host[:port]&…]`
fn cluster(rest: &str, tls: bool) -> Result<Seeds> {
    let several = several(rest, tls, "redis-cluster://host:6379")?;
    if !matches!(several.path, "" | "0") {
        return Err(Error::config(
            "the URL of a cluster names a database, and clusters have number 0 alone",
        ));
    }
    for (key, _) in &several.settings {
        let known =
            matches!(*key, "node" | "map" | PASSWORD_FILE) || (tls && tls::SETTINGS.contains(key));
        if !known {
            return Err(Error::config(
                "the URL of a cluster has an unknown setting; node is known, for further seeds: ?node=host:6379, map, \
                 for where an announced address is reached: ?map=10.0.0.1:6379=host:6379, and password-file",
            ));
        }
    }
    let targets = several.targets(6379)?;
    Seeds::new(targets).ok_or_else(|| Error::config("the URL of a cluster names no host"))
}

/// `[[user]:password@]host[:port][,…]/service[/db][?node=…&sentinel_user=…&sentinel_password=…]`: user and password are the
/// primary's.
fn sentinel(rest: &str, tls: bool) -> Result<Watch> {
    let several = several(rest, tls, "redis-sentinel://host:26379/service")?;
    let (service, number) = several.path.split_once('/').unwrap_or((several.path, ""));
    if service.is_empty() {
        return Err(Error::config(
            "the URL of sentinels does not say what they call the service; it looks like redis-sentinel://host:26379/service",
        ));
    }
    let (mut user, mut password) = (None, None);
    for (key, value) in &several.settings {
        match *key {
            "node" | "map" | PASSWORD_FILE => {}
            key if tls && tls::SETTINGS.contains(&key) => {}
            "sentinel_user" => user = Some(decode(value)?),
            "sentinel_password" => password = Some(decode(value)?),
            _ => {
                return Err(Error::config(
                    "the URL of sentinels has an unknown setting; node, map, password-file, sentinel_user and \
                     sentinel_password are known",
                ));
            }
        }
    }
    let targets = several.targets(26379)?;
    let template = targets.first().cloned();
    let mut template =
        template.ok_or_else(|| Error::config("the URL of sentinels names no host"))?;
    template.database = match number {
        "" => 0,
        number => database(number)?,
    };
    let login = login(user, password, None)?;
    let sentinels = targets.into_iter().map(|target| Target {
        login: login.clone(),
        ..target
    });
    Ok(Watch {
        service: decode(service)?,
        sentinels: sentinels.collect(),
        template,
    })
}

/// A URL that names several servers.
struct Several<'a> {
    user_info: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    tls: bool,
    settings: Vec<(&'a str, &'a str)>,
}

impl Several<'_> {
    /// Every server that the URL names, each once, with the same credentials.
    fn targets(&self, port: u16) -> Result<Vec<Target>> {
        let further = self.settings.iter().filter(|(key, _)| *key == "node");
        let further: Result<Vec<String>> = further.map(|(_, host)| decode(host)).collect();
        let further = further?;
        let hosts = self.hosts.iter().copied();
        let tls = self.tls.then(|| Tls::read(&self.settings)).transpose()?;
        let translation = Translation::read(&self.settings)?;
        let file = self.settings.iter().find(|(key, _)| *key == PASSWORD_FILE);
        let file = file.map(|(key, file)| format!("?{key}={file}"));
        let file = file.unwrap_or_default();
        let mut targets: Vec<Target> = Vec::new();
        for host in hosts.chain(further.iter().map(String::as_str)) {
            if host.contains(['@', '/', '?', '#']) {
                return Err(Error::config(
                    "the URL of the server has a seed that is no host with a port",
                ));
            }
            let user_info = self.user_info.map(|text| format!("{text}@"));
            let user_info = user_info.unwrap_or_default();
            let target =
                Target::parse_with_port(&format!("redis://{user_info}{host}{file}"), port)?;
            let tls = tls.clone();
            let translation = translation.clone();
            let target = Target {
                tls,
                translation,
                ..target
            };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(targets)
    }
}

/// Splits a URL that may name several hosts, which no library parses. `rest` is the part after `://`.
fn several<'a>(rest: &'a str, tls: bool, example: &str) -> Result<Several<'a>> {
    if rest.contains('#') {
        return Err(Error::config(
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
        return Err(Error::config(format!(
            "the URL of the server names no host; it looks like {example}"
        )));
    }
    Ok(Several {
        user_info,
        hosts: hosts.split(',').collect(),
        path,
        tls,
        settings: settings(query),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn sentinels_watch_a_service_and_have_credentials_of_their_own() {
        for (url, expected) in [
            (
                "redis-sentinel://a/locks",
                "locks as the sentinels at a:26379 see it",
            ),
            (
                "valkey-sentinel://:pw@a:1,b:2/my%20locks/3?node=c:3",
                "my locks as the sentinels at a:1,b:2,c:3 see it",
            ),
        ] {
            let Deployment::Sentinel(watch) = Deployment::parse(url).unwrap() else {
                panic!("{url}");
            };
            assert_eq!(watch.to_string(), expected, "{url}");
        }
        let url = "redis-sentinel://ann:own@a/locks/3?sentinel_user=sam&sentinel_password=s%26";
        let Deployment::Sentinel(watch) = Deployment::parse(url).unwrap() else {
            panic!("{url}");
        };
        let always = |user: &str, password: &str| {
            login(Some(user.to_owned()), Some(password.to_owned()), None).unwrap()
        };
        assert_eq!(watch.template.login, always("ann", "own"));
        assert_eq!(
            (watch.template.database, watch.sentinels[0].database),
            (3, 0)
        );
        assert_eq!(watch.sentinels[0].login, always("sam", "s&"));
        assert!(!shown(url).contains("own"));
    }

    #[test]
    fn a_password_file_is_that_of_the_servers_that_have_keys() {
        let file = login(Some("ann".to_owned()), None, Some("/p w".to_owned())).unwrap();
        let url =
            "redis-sentinel://ann@a,b/locks?password-file=/p%20w&sentinel_password=s&node=a:26379";
        let Deployment::Sentinel(watch) = Deployment::parse(url).unwrap() else {
            panic!("{url}");
        };
        assert_eq!(watch.template.login, file);
        // The host that is named twice counts once.
        assert_eq!(watch.sentinels.len(), 2);
        let own = login(None, Some("s".to_owned()), None).unwrap();
        assert_eq!(watch.sentinels[0].login, own);
        let url = "redis-cluster://ann@a:1,b:2?password-file=/p%20w";
        let Deployment::Cluster(seeds) = Deployment::parse(url).unwrap() else {
            panic!("{url}");
        };
        assert_eq!(seeds.template.login, file);
    }

    #[test]
    fn a_provider_and_a_password_are_one_too_many() {
        let provider = || Provider::new(crate::credentials::PasswordFile::new("/p"));
        for url in ["redis://a", "redis-cluster://a", "redis-sentinel://a/locks"] {
            Deployment::parse(url)
                .unwrap()
                .log_in_by(provider())
                .unwrap();
            let with_password = url.replace("://", "://:hunter2@");
            let mut deployment = Deployment::parse(&with_password).unwrap();
            let error = deployment.log_in_by(provider()).unwrap_err().to_string();
            assert!(error.contains("leave one of them out"), "{error}");
        }
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
            ("redis-sentinel://a", "what they call the service"),
            ("redis-sentinel:///locks", "no host"),
            ("redis-sentinel://a/locks/x", "0 to 255"),
            (
                "redis-sentinel://a/locks?password=hunter2",
                "unknown setting",
            ),
            (
                "redis-sentinel://a/locks?sentinel_user=hunter2",
                "without a password",
            ),
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

    proptest! {
        #[test]
        fn any_url_is_read_or_refused_in_words_that_show_no_password(
            scheme in "((redis|valkey)(-cluster|-sentinel|s-cluster|s-sentinel|s|)|unix|)",
            before in "[^@:/?#,]{0,4}",
            host in prop_oneof!["\\PC{0,12}", "[a-z0-9.:,\\[\\]]{0,20}"],
            rest in prop_oneof!["\\PC{0,20}", "(/[a-z0-9%]{0,6}){0,3}([?&](node|db|sentinel_user|x)=[a-z:%,@0-9]{0,8}){0,3}"],
        ) {
            for url in [
                format!("{scheme}://{before}:hunter2@{host}{rest}"),
                format!("{scheme}://{host}{rest}"),
                format!("{scheme}{rest}"),
            ] {
                match Deployment::parse(&url) {
                    Ok(read) => prop_assert!(!format!("{read:?}").contains("hunter2"), "{url}"),
                    Err(error) => {
                        prop_assert!(matches!(error, Error::Config { .. }), "{url}: {error:?}");
                        prop_assert!(!format!("{error:?} {error}").contains("hunter2"), "{url}");
                    }
                }
            }
        }
    }
}
