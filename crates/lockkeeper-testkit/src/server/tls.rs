//! Certificates for servers that speak TLS and for their clients. They are good for a hundred years and nowhere but here.

use std::path::Path;

use anyhow::Result;

/// `named.pem` is for a server too, and names `localhost` without any address. `stranger.pem` is an authority that has signed
/// nothing.
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

/// Puts the files where a server and its clients find them.
pub(super) fn write(directory: &Path) -> Result<()> {
    for (name, text) in FILES {
        std::fs::write(directory.join(name), text)?;
    }
    Ok(())
}

/// The lines of a server that speaks nothing else, and only with clients that its authority knows.
pub(super) fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "tls-port {port}\ntls-cert-file {directory}/server.pem\ntls-key-file {directory}/server-key.pem\n\
         tls-ca-cert-file {directory}/ca.pem\ntls-auth-clients yes\ntls-replication yes\ntls-cluster yes\n"
    )
}
