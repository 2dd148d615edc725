//! Connecting, being refused, closing.

use std::error::Error as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use lockkeeper_core::Error;
use lockkeeper_core::store::{Form, Outcome, Store, StoreError};
use lockkeeper_lua::Status;
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::{
    Peer, acquire, bounded, connect, connections, eventually, options, promptly, teach, verify,
};

fn backend(error: Error) -> (String, StoreError) {
    match error {
        Error::Backend { context, cause, .. } => (context, cause),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_at_once() {
    promptly(async |prompt| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let begun = Instant::now();
        let error = connect(&format!("redis://{addr}")).await;
        let (context, source) = backend(error.unwrap_err());
        assert_eq!(context, format!("connect to {addr}"));
        assert_eq!(source.outcome(), Outcome::NotSent);
        assert!(
            source.to_string().contains("Connection refused"),
            "{source}"
        );
        assert!(source.is_transient());
        assert!(source.source().is_some());
        ensure!(begun.elapsed() < prompt);

        let error = connect("unix:///nowhere/redis.sock").await;
        let (context, source) = backend(error.unwrap_err());
        assert_eq!(context, "connect to /nowhere/redis.sock");
        assert!(source.to_string().contains("No such file"), "{source}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_after_the_connect_timeout() {
    promptly(async |prompt| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let begun = Instant::now();
        let options = options().connect_timeout(Duration::from_millis(300));
        let (_, source) = backend(options.connect(&url).await.unwrap_err());
        assert_eq!(source.outcome(), Outcome::NotSent);
        assert!(source.to_string().contains("no answer"), "{source}");
        assert!(begun.elapsed() >= Duration::from_millis(290));
        ensure!(begun.elapsed() < prompt);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_refused_with_advice_and_not_shown() {
    bounded(async {
        let server = Server::options().password("right").start().await.unwrap();
        let addr = server.address();
        let cases = [
            (format!("redis://:hunter2@{addr}"), "WRONGPASS"),
            (format!("redis://ann:hunter2@{addr}"), "WRONGPASS"),
            (format!("redis://{addr}"), "NOAUTH"),
        ];
        for (url, code) in cases {
            let error = connect(&url).await.unwrap_err();
            assert!(!error.is_transient(), "{error}");
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
            let (context, source) = backend(error);
            assert_eq!(source.code(), Some(code));
            assert!(context.contains("password"), "{context}");
        }
        let store = connect(&format!("redis://:right@{addr}")).await;
        assert!(!format!("{:?}", store.unwrap()).contains("right"));
    })
    .await;
}

#[tokio::test]
async fn after_a_password_was_changed_every_error_says_so() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >old ~* &* +@all")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:old@{}", server.address());
        let store = connect(&url).await.unwrap();
        for command in [
            &["ACL", "SETUSER", "ann", "resetpass", ">new"][..],
            &["CLIENT", "KILL", "USER", "ann"][..],
        ] {
            server.command(command).await.unwrap();
        }
        let expected = "not connected: the server refused: WRONGPASS";
        let told = |error: StoreError| {
            assert!(error.is_transient(), "{error}");
            let text = error.to_string();
            text.starts_with(expected) && text.contains("the password in the URL is wrong")
        };
        eventually("calls say why", async || {
            let called = store.call(verify("name", "c", Form::Sha)).await;
            told(called.unwrap_err())
        })
        .await;
        eventually("subscriptions say why", async || {
            told(store.subscribe("channel").await.unwrap_err())
        })
        .await;
        server
            .command(&["ACL", "SETUSER", "ann", ">old"])
            .await
            .unwrap();
        eventually("it connects again", async || {
            store.subscribe("channel").await.is_ok()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_server_shows_the_name_of_each_connection() {
    bounded(async {
        let server = Server::start().await.unwrap();
        for resp3 in [false, true] {
            let options = options()
                .resp3(resp3)
                .client_name("nightly report \u{2116} 7");
            let store = options.connect(&server.url()).await.unwrap();
            store.subscribe("channel").await.unwrap();
            let list = server.command(&["CLIENT", "LIST"]).await.unwrap();
            let list = list.into_text().unwrap();
            let named = list.matches(" name=lockkeeper:nightly_report___7 ").count();
            assert_eq!((named, connections(&server).await), (2, 2), "{list}");
            drop(store);
            eventually("it is gone", async || connections(&server).await == 0).await;
        }
    })
    .await;
}

/// Commands whose answers only inform people are not required.
#[tokio::test]
async fn a_server_that_forbids_client_info_and_config_is_used_all_the_same() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >right ~* &* +@all -client -info -config -acl -command")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:right@{}", server.address());
        let store = options().client_name("ann").connect(&url).await;
        let store = store.unwrap();
        store.subscribe("channel").await.unwrap();
        teach(&store).await;
        let list = server.command(&["CLIENT", "LIST"]).await.unwrap();
        assert!(!list.into_text().unwrap().contains("lockkeeper:"));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_has_too_many_clients_is_named_as_the_cause() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut peer = Peer::connect(&server).await;
        assert_eq!(peer.say("CONFIG SET maxclients 1").await, "+OK");
        peer.say("CLIENT KILL TYPE pubsub").await;
        assert_eq!(peer.say("CLIENT KILL TYPE normal SKIPME yes").await, ":2");
        eventually("calls say why", async || {
            let error = store.call(verify("name", "c", Form::Sha)).await;
            let text = error.unwrap_err().to_string();
            text.contains("max number of clients reached; raise maxclients")
        })
        .await;
        let error = connect(&server.url()).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        let text = error.to_string();
        assert!(text.contains("max number of clients reached"), "{text}");
        assert_eq!(peer.say("CONFIG SET maxclients 100").await, "+OK");
        eventually("it connects again", async || {
            store.subscribe("channel").await.is_ok()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_user_who_may_not_ping_is_refused_when_connecting() {
    bounded(async {
        let server = Server::options()
            .configuration("user mute on >pw ~* +@all -ping")
            .start()
            .await
            .unwrap();
        let error = connect(&format!("redis://mute:pw@{}", server.address())).await;
        let (_, source) = backend(error.unwrap_err());
        assert_eq!(source.code(), Some("NOPERM"));
        assert!(source.to_string().contains("ping"), "{source}");
    })
    .await;
}

#[tokio::test]
async fn a_database_that_the_server_lacks_is_refused() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let error = connect(&format!("{}/200", server.url())).await;
        let (_, source) = backend(error.unwrap_err());
        assert_eq!(source.code(), Some("ERR"), "{source}");
    })
    .await;
}

#[tokio::test]
async fn the_url_chooses_socket_and_database() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let port = server.port();
        for (number, url) in [
            (3, format!("{}?db=3", server.unix_url())),
            (4, format!("redis://127.0.0.1:{port}/4")),
            (5, format!("redis://localhost:{port}/5")),
        ] {
            let store = connect(&url).await.unwrap();
            let reply = store.call(acquire("name", "claim", Form::Source)).await;
            assert_eq!(reply.unwrap().status(), Status::Granted);
            let found = server.command_in(number, &["LINDEX", "name", "0"]).await;
            let found = found.unwrap().into_text().unwrap();
            assert!(found.starts_with("mutex x claim "), "{url}: {found}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_ipv6_host_is_understood() {
    bounded(async {
        // On a machine without IPv6 there is nothing to test.
        let Ok(listener) = TcpListener::bind("[::1]:0").await else {
            return;
        };
        let addr = listener.local_addr().unwrap();
        let options = options().connect_timeout(Duration::from_secs(1));
        let url = format!("redis://{addr}");
        let connecting = tokio::spawn(async move { options.connect(&url).await.map(drop) });
        listener.accept().await.unwrap();
        connecting.abort();
    })
    .await;
}

#[tokio::test]
async fn closing_ends_connections_calls_and_events() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap();
        assert_eq!(connections(&server).await, 2);
        store.close().await;
        eventually("both connections are gone", async || {
            connections(&server).await == 0
        })
        .await;
        while events.recv().await.is_some() {}
        let error = store.call(verify("name", "c", Form::Sha)).await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);
        for result in [
            store.subscribe("other").await,
            store.unsubscribe("channel").await,
        ] {
            assert_eq!(result.unwrap_err().outcome(), Outcome::NotSent);
        }
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn closing_does_not_wait_for_a_frozen_server() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let options = options().silence_timeout(PATIENCE * 2);
        let store = options.connect(&server.url()).await.unwrap();
        server.freeze().unwrap();
        timeout(PATIENCE, store.close())
            .await
            .expect("closing hangs");
    })
    .await;
}

#[tokio::test]
async fn dropping_the_store_leaves_no_connection() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        store.subscribe("channel").await.unwrap();
        assert_eq!(connections(&server).await, 2);
        drop(store);
        eventually("both connections are gone", async || {
            connections(&server).await == 0
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn dropping_connect_half_way_leaves_no_connection() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let proxy = Proxy::in_front_of(&server).await.unwrap();
        proxy.hold(Direction::ToClient);
        let url = proxy.url().to_owned();
        let connecting = tokio::spawn(async move { connect(&url).await.map(drop) });
        eventually("both connections wait", async || {
            connections(&server).await == 2
        })
        .await;
        connecting.abort();
        assert!(connecting.await.is_err());
        eventually("both connections are gone", async || {
            connections(&server).await == 0
        })
        .await;
    })
    .await;
}

#[test]
fn a_store_whose_runtime_is_gone_says_so() {
    let first = tokio::runtime::Runtime::new().unwrap();
    let server = first.block_on(Server::start()).unwrap();
    let store = first.block_on(connect(&server.url())).unwrap();
    let mut events = store.events().unwrap();
    drop(first);
    let second = tokio::runtime::Runtime::new().unwrap();
    second.block_on(bounded(async {
        let error = store.call(verify("name", "c", Form::Sha)).await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);
        let error = store.subscribe("channel").await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);
        store.close().await;
        // A task that was dropped last may have reported that the connections are down.
        while events.recv().await.is_some() {}
    }));
}
