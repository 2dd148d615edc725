//! Certificates for servers that speak TLS and for their clients. They are valid for a hundred years and used only here.

use std::path::Path;

use anyhow::Result;

/// `named.pem` is also a server certificate; it names `localhost` without any address. `stranger.pem` is an authority that has
/// signed nothing.
const FILES: [(&str, &str); 8] = [
    ("ca.pem", include_str!("tls/ca.pem")),
    ("server.pem", include_str!("tls/server.pem")),
    ("server-key.pem", include_str!("tls/server-key.pem")),
    ("client.pem", include_str!("tls/client.pem")),
    ("client-key.pem", include_str!("tls/client-key.pem")),
    ("named.pem", include_str!("tls/named.pem")),
    ("named-key.pem", include_str!("tls/named-key.pem")),
    ("stranger.pem", include_str!("tls/stranger.pem")),
];

/// Writes the files to the directory where a server and its clients look for them.
pub(super) fn write(directory: &Path) -> Result<()> {
    for (name, text) in FILES {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// Configuration for a server that speaks only TLS, and only with clients that its authority has signed.
pub(super) fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "tls-port {port}\ntls-cert-file {directory}/server.pem\ntls-key-file {directory}/server-key.pem\n\
         tls-ca-cert-file {directory}/ca.pem\ntls-auth-clients yes\ntls-replication yes\ntls-cluster yes\n"
    )
}
