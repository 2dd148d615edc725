//! The settings of a client.

use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as FredError;
#[cfg(feature = "tls")]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, ServerConfig, TcpConfig, UnresponsiveConfig};
use fred::types::{Builder, RespVersion};

use super::ATTEMPTS;
use crate::credentials::Credentials;
use crate::options::RedisOptions;
use crate::target::{Address, Target};

/// How many messages may wait between fred and the listener before some are dropped (which is noticed and reported). fred's own 32
/// is less than one read from the socket can bring.
const MESSAGE_BUFFER: usize = 1024;

pub(super) fn build(
    target: &Target,
    credentials: Option<&Credentials>,
    options: &RedisOptions,
    messages: bool,
) -> Result<Client, FredError> {
    let server = match &target.address {
        Address::Tcp { host, port } => ServerConfig::new_centralized(host.as_str(), *port),
        Address::Unix { path } => ServerConfig::new_unix_socket(path),
    };
    let (username, password) = match credentials.cloned() {
        Some(credentials) => (credentials.user, Some(credentials.password)),
        None => (None, None),
    };
    let config = Config {
        server,
        username,
        password,
        database: Some(target.database).filter(|number| *number > 0),
        version: if options.resp3 {
            RespVersion::RESP3
        } else {
            RespVersion::RESP2
        },
        // An error while connecting is reported at once.
        fail_fast: true,
        ..Config::default()
    };
    #[cfg(feature = "tls")]
    let config = Config {
        tls: target.tls.as_ref().map(|tls| {
            let connector = tokio_rustls::TlsConnector::from(tls.config());
            TlsConnector::from(connector).into()
        }),
        ..config
    };
    // No `set_policy`: see the module above.
    Builder::from_config(config)
        .with_connection_config(|connection| {
            connection.connection_timeout = options.connect_timeout;
            connection.internal_command_timeout = options.connect_timeout;
            connection.max_command_attempts = ATTEMPTS;
            connection.tcp = TcpConfig {
                nodelay: Some(options.nodelay),
                ..TcpConfig::default()
            };
            // Finds a silent server sooner than the heartbeat when requests are under way, but not while new ones keep being
            // written.
            connection.unresponsive = UnresponsiveConfig {
                max_timeout: Some(options.silence_timeout),
                interval: (options.silence_timeout / 4).max(Duration::from_millis(2)),
            };
        })
        .with_performance_config(|performance| {
            performance.default_command_timeout = options.silence_timeout;
            if messages {
                performance.broadcast_channel_capacity = MESSAGE_BUFFER;
            }
        })
        .build()
}
