//! TLS: which authorities to trust and which certificate to show, from the files that a URL names. Built in with the feature `tls`.

use lockkeeper_core::{Error, Result};

#[cfg(feature = "tls")]
use {
    crate::target::decode,
    rustls::client::ClientConfig,
    rustls::crypto::ring,
    rustls::pki_types::pem::{self, PemObject},
    rustls::pki_types::{CertificateDer, PrivateKeyDer},
    rustls::{Error as RustlsError, RootCertStore},
    std::sync::Arc,
};

/// The settings of a URL with TLS.
pub(crate) const SETTINGS: [&str; 3] = ["ca", "cert", "key"];

/// The TLS configuration of connections. A build without TLS cannot create one.
#[derive(Clone)]
pub(crate) struct Tls {
    #[cfg(feature = "tls")]
    config: Arc<ClientConfig>,
}

/// Targets of one URL share one configuration.
impl PartialEq for Tls {
    #[cfg(feature = "tls")]
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }

    #[cfg(not(feature = "tls"))]
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Tls {}

#[cfg(not(feature = "tls"))]
impl Tls {
    /// Fails: this build has no TLS.
    pub(crate) fn read(_settings: &[(&str, &str)]) -> Result<Self> {
        Err(Error::config(
            "TLS is not supported by this build: enable the feature `tls` of the crate lockkeeper or lockkeeper-redis",
        ))
    }
}

#[cfg(feature = "tls")]
impl Tls {
    /// Reads the files that the settings name, percent-encoded: `ca`, the authorities to trust, those of the system unless given;
    /// `cert` and `key`, the certificate for servers that ask for one.
    pub(crate) fn read(settings: &[(&str, &str)]) -> Result<Self> {
        let (mut ca, mut cert, mut key) = (None, None, None);
        for (name, value) in settings {
            let file = match *name {
                "ca" => &mut ca,
                "cert" => &mut cert,
                "key" => &mut key,
                _ => continue,
            };
            *file = Some(decode(value)?);
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("ca", &error))?
            .with_root_certificates(authorities(ca.as_deref())?);
        let client = match (cert, key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = certificates("cert", &cert)?;
                let key = PrivateKeyDer::from_pem_file(key);
                let key = key.map_err(|error| unreadable("key", &error))?;
                let client = builder.with_client_auth_cert(chain, key);
                client.map_err(|error| unusable("cert", &error))?
            }
            _ => {
                return Err(Error::config(
                    "the URL of the server names one of cert and key, and a client shows itself with both",
                ));
            }
        };
        Ok(Self {
            config: Arc::new(client),
        })
    }

    /// From the configuration of a client of fred.
    #[cfg(feature = "fred")]
    pub(crate) fn of(config: &Arc<ClientConfig>) -> Self {
        Self {
            config: Arc::clone(config),
        }
    }

    /// The configuration as the transports take it.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

#[cfg(feature = "tls")]
fn authorities(file: Option<&str>) -> Result<RootCertStore> {
    let mut authorities = RootCertStore::empty();
    match file {
        Some(file) => {
            for certificate in certificates("ca", file)? {
                let added = authorities.add(certificate);
                added.map_err(|error| unusable("ca", &error))?;
            }
        }
        None => {
            let system = rustls_native_certs::load_native_certs();
            authorities.add_parsable_certificates(system.certs);
        }
    }
    if authorities.is_empty() {
        return Err(Error::config(
            "no certificate authority is known: name a file with ca=/path/to/ca.pem",
        ));
    }
    Ok(authorities)
}

#[cfg(feature = "tls")]
fn certificates(setting: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_file_iter(file);
    let certificates = certificates.and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    certificates.map_err(|error| unreadable(setting, &error))
}

#[cfg(feature = "tls")]
fn unreadable(setting: &str, error: &pem::Error) -> Error {
    Error::config(format!(
        "the file that the setting {setting} names cannot be read: {error}"
    ))
}

#[cfg(feature = "tls")]
fn unusable(setting: &str, error: &RustlsError) -> Error {
    Error::config(format!(
        "what the setting {setting} names cannot be used: {error}"
    ))
}
