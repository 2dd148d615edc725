//! RESP3 behaves as RESP2 does, on every kind of deployment.

use lockkeeper_core::store::{Event, Form, Store};
use lockkeeper_lua::Status;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;

use crate::support::{acquire, bounded, leave, options, until};

/// Holds, subscribes, and receives what `publish` publishes.
async fn everything_works(url: &str, server: &Server, publish: impl AsyncFnOnce()) {
    let store = options().resp3(true).connect(url).await.unwrap();
    let mut events = store.events().unwrap();
    store.subscribe("channel").await.unwrap();
    let granted = store.call(acquire("{name}", "a", Form::Source)).await;
    assert_eq!(granted.unwrap().status(), Status::Granted);
    let busy = store.call(acquire("{name}", "b", Form::Sha)).await;
    assert_eq!(busy.unwrap().status(), Status::Busy);
    let left = store.call(leave("{name}", "a", Form::Source)).await;
    assert_eq!(left.unwrap().status(), Status::Released);
    publish().await;
    until(&mut events, &Event::message("channel", "hello")).await;
    let clients = server.command(&["CLIENT", "LIST"]).await.unwrap();
    let clients = clients.into_text().unwrap();
    assert!(clients.contains("resp=3"), "{clients}");
    store.close().await;
}

#[tokio::test]
async fn a_server_a_cluster_and_sentinels_speak_resp3() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let said = async |server: &Server| {
            let words = ["PUBLISH", "channel", "hello"];
            server.command(&words).await.unwrap();
        };
        everything_works(&server.url(), &server, async || said(&server).await).await;
        let cluster = Cluster::pooled().await.unwrap();
        everything_works(&cluster.url(), &cluster.nodes()[0], async || {
            cluster.publish("channel", "hello").await.unwrap();
        })
        .await;
        let watched = Watched::pooled().await.unwrap();
        let primary = &watched.servers()[0];
        everything_works(&watched.url(), primary, async || said(primary).await).await;
    })
    .await;
}
