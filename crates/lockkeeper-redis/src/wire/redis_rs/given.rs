//! The deployment that a redis-rs configuration describes.

use lockkeeper_core::{Error, Result};
use redis::{ConnectionAddr, ConnectionInfo};

use crate::deployment::Deployment;
use crate::options::{RedisOptions, Transport};
use crate::seeds::Seeds;
use crate::target::{Address, Target, login};
use crate::tls::Tls;
use crate::translation::Translation;

/// One server.
pub(crate) fn server(options: &mut RedisOptions, server: &ConnectionInfo) -> Result<Deployment> {
    speak(options, server);
    Ok(Deployment::Single(target(server)?))
}

/// A cluster, given some of its nodes.
pub(crate) fn cluster(options: &mut RedisOptions, nodes: &[ConnectionInfo]) -> Result<Deployment> {
    let targets: Result<Vec<Target>> = nodes.iter().map(target).collect();
    let targets = targets?;
    if targets.iter().any(|it| it.database > 0) {
        return Err(Error::config(
            "a node of the cluster is given with a database, and clusters have number 0 alone",
        ));
    }
    let unix = |target: &Target| matches!(target.address, Address::Unix { .. });
    if targets.iter().any(unix) {
        return Err(Error::config(
            "a node of the cluster is given by a unix socket, and nodes name one another by TCP",
        ));
    }
    if let Some(first) = nodes.first() {
        speak(options, first);
    }
    if targets
        .iter()
        .any(|it| it.login != targets[0].login || it.tls.is_some() != targets[0].tls.is_some())
    {
        return Err(Error::config(
            "the nodes of the cluster are given with different credentials, or some with TLS and some without",
        ));
    }
    let seeds = Seeds::new(targets);
    let seeds = seeds.ok_or_else(|| Error::config("no node of the cluster is given"))?;
    Ok(Deployment::Cluster(seeds))
}

/// Chooses the same library and the same protocol.
fn speak(options: &mut RedisOptions, server: &ConnectionInfo) {
    options.transport = Transport::RedisRs;
    options.resp3 = !matches!(
        server.redis_settings().protocol(),
        redis::ProtocolVersion::RESP2
    );
}

fn target(server: &ConnectionInfo) -> Result<Target> {
    let (address, tls) = match server.addr() {
        ConnectionAddr::Tcp(host, port) => (tcp(host, *port), None),
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(Error::config(
                "the connection of redis-rs does not check who answers (insecure), and a lock must know its server",
            ));
        }
        ConnectionAddr::TcpTls {
            tls_params: Some(_),
            ..
        } => {
            return Err(Error::config(
                "redis-rs does not show the authorities and certificates of its connection: name them in a URL, \
                 rediss://host?ca=…&cert=…&key=…",
            ));
        }
        ConnectionAddr::TcpTls { host, port, .. } => (tcp(host, *port), Some(Tls::read(&[])?)),
        ConnectionAddr::Unix(path) => (Address::Unix { path: path.clone() }, None),
        _ => {
            return Err(Error::config(
                "the connection of redis-rs is of a kind that Lockkeeper does not know: give a URL",
            ));
        }
    };
    let settings = server.redis_settings();
    let database = u8::try_from(settings.db());
    let database = database.map_err(|_| {
        Error::config(
            "the connection of redis-rs names no valid database; it is a number from 0 to 255",
        )
    })?;
    let user = settings.username().map(str::to_owned);
    let password = settings.password().map(str::to_owned);
    Ok(Target {
        address,
        database,
        login: login(user, password, None)?,
        tls,
        translation: Translation::default(),
    })
}

fn tcp(host: &str, port: u16) -> Address {
    Address::tcp(host.trim_matches(['[', ']']), port)
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo as _;

    use super::*;

    fn read(url: &str) -> Result<(RedisOptions, Deployment)> {
        let mut options = RedisOptions::new();
        let info = url.into_connection_info().unwrap();
        let deployment = server(&mut options, &info)?;
        Ok((options, deployment))
    }

    #[test]
    fn a_server_is_the_one_that_its_url_names() {
        for url in [
            "redis://10.0.0.1:7000/3",
            "redis://ann:s%3Acret@host",
            "redis://:pw@[::1]:7001",
            "unix:///run/r.sock?db=2&user=ann&pass=x",
        ] {
            let (options, deployment) = read(url).unwrap();
            assert!(!options.resp3);
            let ours = url.replace("&pass=", "&password=");
            assert_eq!(deployment, Deployment::parse(&ours).unwrap(), "{url}");
        }
        let (options, _) = read("redis://host?protocol=resp3").unwrap();
        assert!(options.resp3);
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused_in_words() {
        for (url, part) in [
            ("redis://host/256", "0 to 255"),
            ("redis://ann@host", "without a password"),
        ] {
            let error = read(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
        let tls = |insecure| {
            let addr = ConnectionAddr::TcpTls {
                host: "host".to_owned(),
                port: 6380,
                insecure,
                tls_params: None,
            };
            let info = "redis://host".into_connection_info().unwrap();
            server(&mut RedisOptions::new(), &info.set_addr(addr))
        };
        let error = tls(true).unwrap_err().to_string();
        assert!(error.contains("insecure"), "{error}");
        // Without the feature, or on a machine without certificate authorities.
        if let Err(error) = tls(false) {
            let error = error.to_string();
            let expected = error.contains("TLS is not supported") || error.contains("authority");
            assert!(expected, "{error}");
        }
    }

    #[test]
    fn a_cluster_is_given_by_nodes_that_are_alike() {
        let read = |urls: &[&str]| {
            let nodes = urls.iter().map(|url| url.into_connection_info().unwrap());
            cluster(&mut RedisOptions::new(), &nodes.collect::<Vec<_>>())
        };
        let both = read(&["redis://:pw@a:1", "redis://:pw@b:2"]).unwrap();
        assert_eq!(
            both,
            Deployment::parse("redis-cluster://:pw@a:1,b:2").unwrap()
        );
        for (urls, part) in [
            (&[][..], "no node"),
            (&["redis://a/1"], "number 0 alone"),
            (&["unix:///r.sock"], "unix socket"),
            (&["redis://:pw@a", "redis://b"], "different credentials"),
        ] {
            let error = read(urls).unwrap_err().to_string();
            assert!(error.contains(part), "{urls:?}: {error}");
        }
    }
}
