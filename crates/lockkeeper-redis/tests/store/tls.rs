//! TLS with a private authority and a client certificate.

use std::time::Duration;

use lockkeeper_core::Error;
use lockkeeper_core::store::{Form, Store};
use lockkeeper_lua::Status;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;

use crate::support::{acquire, bounded, connect, options, verify};

fn settings(server: &Server) -> String {
    let file = |name| server.file(name);
    format!(
        "ca={}&cert={}&key={}",
        file("ca.pem"),
        file("client.pem"),
        file("client-key.pem")
    )
}

#[tokio::test]
async fn scripts_and_messages_pass_through_tls() {
    bounded(async {
        let server = Server::options().tls().start().await.unwrap();
        for host in ["127.0.0.1", "localhost"] {
            let port = server.port();
            let url = format!("rediss://{host}:{port}?{}", settings(&server));
            let store = connect(&url).await.unwrap();
            store.subscribe("channel").await.unwrap();
            let reply = store.call(acquire(host, "a", Form::Source)).await;
            assert_eq!(reply.unwrap().status(), Status::Granted);
            store.close().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_or_client_that_nobody_vouches_for_is_refused() {
    bounded(async {
        let server = Server::options().tls().start().await.unwrap();
        let (address, file) = (server.address(), |name: &str| server.file(name));
        let url = format!("rediss://{address}?ca={}", file("stranger.pem"));
        let error = connect(&url).await.unwrap_err();
        assert!(matches!(error, Error::Backend { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("not signed by an authority"), "{text}");
        let url = format!("rediss://{address}?ca={}", file("ca.pem"));
        let error = connect(&url).await.unwrap_err();
        assert!(matches!(error, Error::Backend { .. }), "{error:?}");
        let text = error.to_string();
        assert!(!text.contains(['{', '(']), "Rust's debug form: {text}");
    })
    .await;
}

#[tokio::test]
async fn a_url_that_is_wrong_about_tls_is_told_of_the_other_scheme() {
    bounded(async {
        let (plain, wrapped) = (Server::start(), Server::options().tls().start());
        let (plain, wrapped) = (plain.await.unwrap(), wrapped.await.unwrap());
        let ca = wrapped.file("ca.pem");
        for (url, hint) in [
            (
                format!("redis://{}", wrapped.address()),
                "begins with rediss, not redis",
            ),
            (
                format!("redis-cluster://{}", wrapped.address()),
                "begins with rediss, not redis",
            ),
            (
                format!("rediss://{}?ca={ca}", plain.address()),
                "begins with redis, not rediss",
            ),
        ] {
            let mut options = options();
            if url.starts_with("rediss:") {
                // This server does not hang up.
                options = options.connect_timeout(Duration::from_secs(2));
            }
            let error = options.connect(&url).await.unwrap_err();
            println!("{url}: {error}");
            assert!(error.to_string().contains(hint), "{url}: {error}");
        }
    })
    .await;
}

/// The nodes announce the name `localhost`, and their certificates contain it, without any address.
fn named() -> lockkeeper_testkit::cluster::Options {
    Cluster::options()
        .replicas(0)
        .tls()
        .configuration("tls-cert-file named.pem")
        .configuration("tls-key-file named-key.pem")
}

async fn use_every_node(store: &RedisStore) {
    assert_eq!(store.servers().len(), 3);
    for number in 0..20 {
        let name = format!("{{name{number}}}");
        let reply = store.call(acquire(&name, "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
        store.subscribe(&name).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_are_found_whose_certificates_carry_names_only() {
    bounded(async {
        let cluster = named().configuration("cluster-announce-hostname localhost");
        let cluster = cluster.start().await.unwrap();
        if !cluster.has_sharded_messages().await.unwrap() {
            // Nodes announce names from version 7.
            return;
        }
        let node = &cluster.nodes()[0];
        let (port, settings) = (node.port(), settings(node));
        let url = format!("rediss-cluster://localhost:{port}?{settings}");
        let store = connect(&url).await.unwrap();
        use_every_node(&store).await;
        // A redirection finds the moved slot, and redirections contain addresses.
        let slot = cluster.slot_of("{name1}").await.unwrap();
        let to = (cluster.primary_of(slot).await.unwrap() + 1) % 3;
        cluster.migrate(slot, to).await.unwrap();
        let reply = store.call(verify("{name1}", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Held);
        assert_eq!(store.servers().len(), 3);
    })
    .await;
}

#[tokio::test]
async fn names_that_lead_nowhere_from_here_are_mapped_by_the_url() {
    bounded(async {
        let cluster = named().configuration("cluster-announce-hostname inner.invalid");
        let cluster = cluster.start().await.unwrap();
        if !cluster.has_sharded_messages().await.unwrap() {
            return;
        }
        let node = &cluster.nodes()[0];
        let (port, settings) = (node.port(), settings(node));
        let url =
            format!("rediss-cluster://localhost:{port}?{settings}&map=inner.invalid=localhost");
        let store = connect(&url).await.unwrap();
        use_every_node(&store).await;
    })
    .await;
}

#[tokio::test]
async fn files_that_are_no_good_are_a_config_error_that_names_the_setting() {
    bounded(async {
        let server = Server::options().tls().start().await.unwrap();
        let file = |name: &str| server.file(name);
        for (settings, part) in [
            ("ca=/nowhere".to_owned(), "ca"),
            (format!("ca={}", file("server-key.pem")), "authority"),
            (
                format!("ca={}&cert={}", file("ca.pem"), file("client.pem")),
                "both",
            ),
            (format!("ca={0}&cert={0}&key={0}", file("ca.pem")), "key"),
        ] {
            let url = format!("rediss://{}?{settings}", server.address());
            let error = connect(&url).await.unwrap_err();
            assert!(matches!(error, Error::Config { .. }), "{error:?}");
            assert!(error.to_string().contains(part), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn every_node_of_a_cluster_is_found_through_tls() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).tls().start().await.unwrap();
        let node = &cluster.nodes()[0];
        let url = format!("rediss-cluster://{}?{}", node.address(), settings(node));
        let store = connect(&url).await.unwrap();
        assert_eq!(store.servers().len(), 3);
        for number in 0..20 {
            let name = format!("{{name{number}}}");
            let reply = store.call(acquire(&name, "a", Form::Source)).await;
            assert_eq!(reply.unwrap().status(), Status::Granted);
        }
    })
    .await;
}

#[tokio::test]
async fn sentinels_and_what_they_watch_are_found_through_tls() {
    bounded(async {
        let watched = Watched::options().tls().start().await.unwrap();
        let url = format!("{}?{}", watched.url(), settings(&watched.sentinels()[0]));
        let store = connect(&url).await.unwrap();
        let reply = store.call(acquire("name", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
    })
    .await;
}
