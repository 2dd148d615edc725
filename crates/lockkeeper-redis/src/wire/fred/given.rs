//! The deployment that a fred configuration describes.

use fred::types::RespVersion;
use fred::types::config::{Config, Server, ServerConfig};
use lockkeeper_core::{Error, Result};

use crate::deployment::{Deployment, Watch};
use crate::options::{RedisOptions, Transport};
use crate::seeds::Seeds;
use crate::target::{Address, Target, login};
use crate::tls::Tls;
use crate::translation::Translation;

/// The deployment of this configuration.
pub(crate) fn deployment(options: &mut RedisOptions, client: &Config) -> Result<Deployment> {
    options.transport = Transport::Fred;
    options.resp3 = client.version == RespVersion::RESP3;
    let (user, password) = (client.username.clone(), client.password.clone());
    let template = Target {
        // The addresses below replace it.
        address: Address::tcp("", 0),
        database: client.database.unwrap_or_default(),
        login: login(user, password, None)?,
        tls: tls(client)?,
        translation: Translation::default(),
    };
    let at = |server: &Server| Target {
        address: tcp(server),
        ..template.clone()
    };
    Ok(match &client.server {
        ServerConfig::Centralized { server } => Deployment::Single(at(server)),
        ServerConfig::Unix { path } => Deployment::Single(Target {
            address: Address::Unix { path: path.clone() },
            tls: None,
            ..template
        }),
        ServerConfig::Clustered { hosts, .. } => {
            if template.database > 0 {
                return Err(Error::config(
                    "fred's configuration of a cluster names a database, and clusters have number 0 alone",
                ));
            }
            let seeds = Seeds::new(hosts.iter().map(at).collect());
            Deployment::Cluster(seeds.ok_or_else(|| nobody("cluster"))?)
        }
        ServerConfig::Sentinel {
            hosts,
            service_name,
            username,
            password,
        } => {
            let login = login(username.clone(), password.clone(), None)?;
            let sentinels: Vec<Target> = hosts
                .iter()
                .map(|host| Target {
                    database: 0,
                    login: login.clone(),
                    ..at(host)
                })
                .collect();
            let first = sentinels.first().ok_or_else(|| nobody("sentinels"))?;
            Deployment::Sentinel(Watch {
                service: service_name.clone(),
                template: Target {
                    address: first.address.clone(),
                    ..template
                },
                sentinels,
            })
        }
    })
}

fn nobody(what: &str) -> Error {
    Error::config(format!("fred's configuration of the {what} names no host"))
}

fn tcp(server: &Server) -> Address {
    Address::tcp(server.host.trim_matches(['[', ']']), server.port)
}

#[cfg(feature = "tls")]
fn tls(client: &Config) -> Result<Option<Tls>> {
    use fred::types::config::{TlsConnector, TlsHostMapping};

    let Some(tls) = &client.tls else {
        return Ok(None);
    };
    if tls.hostnames != TlsHostMapping::None {
        return Err(Error::config(
            "fred's configuration maps the names of hosts for TLS: give a URL, whose setting map says where servers are reached",
        ));
    }
    match &tls.connector {
        TlsConnector::Rustls(connector) => Ok(Some(Tls::of(connector.config()))),
        #[expect(
            unreachable_patterns,
            reason = "fred may be built with another library for TLS too"
        )]
        _ => Err(Error::config(
            "fred's configuration uses another library for TLS than rustls: give a URL, rediss://host?ca=…",
        )),
    }
}

/// Fails without TLS support instead of silently connecting in plain text.
#[cfg(not(feature = "tls"))]
fn tls(client: &Config) -> Result<Option<Tls>> {
    match client.uses_tls() {
        true => Tls::read(&[]).map(Some),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<(RedisOptions, Deployment)> {
        let mut options = RedisOptions::new();
        let client = Config::from_url(url).unwrap();
        let deployment = deployment(&mut options, &client)?;
        Ok((options, deployment))
    }

    #[test]
    fn a_deployment_is_the_one_that_its_url_names() {
        for (url, ours) in [
            ("redis://10.0.0.1:7000/3", "redis://10.0.0.1:7000/3"),
            ("redis://ann:secret@host", "redis://ann:secret@host"),
            ("redis+unix:///run/r.sock", "unix:///run/r.sock"),
            (
                "redis-cluster://ann:pw@a:1?node=b:2",
                "redis-cluster://ann:pw@b:2,a:1",
            ),
            (
                "redis-sentinel://:pw@a:1/2?node=b:3&sentinelServiceName=locks&sentinelUsername=sam&sentinelPassword=s",
                "redis-sentinel://:pw@b:3,a:1/locks/2?sentinel_user=sam&sentinel_password=s",
            ),
        ] {
            let (options, deployment) = read(url).unwrap();
            assert!(!options.resp3);
            assert_eq!(deployment, Deployment::parse(ours).unwrap(), "{url}");
        }
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused_in_words() {
        let mut options = RedisOptions::new();
        let mut client = Config {
            version: RespVersion::RESP3,
            username: Some("ann".to_owned()),
            ..Config::default()
        };
        let error = deployment(&mut options, &client).unwrap_err().to_string();
        assert!(error.contains("without a password"), "{error}");
        assert!(options.resp3);
        client.username = None;
        client.server = ServerConfig::new_clustered(Vec::<(String, u16)>::new());
        let error = deployment(&mut options, &client).unwrap_err().to_string();
        assert!(error.contains("names no host"), "{error}");
        client.database = Some(1);
        let error = deployment(&mut options, &client).unwrap_err().to_string();
        assert!(error.contains("number 0 alone"), "{error}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn the_client_is_wrapped_in_the_same_tls() {
        use fred::types::config::TlsConnector;

        let rustls = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(
            rustls::crypto::ring::default_provider(),
        ));
        let rustls = rustls.with_safe_default_protocol_versions().unwrap();
        let rustls = rustls.with_root_certificates(rustls::RootCertStore::empty());
        let rustls = std::sync::Arc::new(rustls.with_no_client_auth());
        let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::clone(&rustls));
        let client = Config {
            tls: Some(TlsConnector::from(connector).into()),
            ..Config::default()
        };
        let read = deployment(&mut RedisOptions::new(), &client).unwrap();
        let Deployment::Single(target) = read else {
            panic!("{read:?}");
        };
        assert!(std::sync::Arc::ptr_eq(
            &target.tls.unwrap().config(),
            &rustls
        ));
    }
}
