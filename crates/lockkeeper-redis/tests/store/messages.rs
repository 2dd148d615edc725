//! Subscriptions: when they are in place, when they are not.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::{Event, Outcome, Store};
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::support::{Liar, Peer, SILENCE, bounded, connect, options, subscribe, until};

#[tokio::test]
async fn subscribe_returns_only_when_the_server_has_confirmed() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let proxy = Proxy::in_front_of(&server).await.unwrap();
        let store = connect(proxy.url()).await.unwrap();
        let mut peer = Peer::connect(&server).await;
        proxy.delay(Direction::ToServer, Duration::from_millis(60));
        for channel in ["a", "b", "c"] {
            store.subscribe(channel).await.unwrap();
            assert_eq!(peer.publish(channel, "hello").await, 1, "{channel}");
        }
    })
    .await;
}

#[tokio::test]
async fn subscribing_twice_is_once_and_unsubscribing_ends_it() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut peer = Peer::connect(&server).await;
        store.subscribe("channel").await.unwrap();
        store.subscribe("channel").await.unwrap();
        assert_eq!(peer.publish("channel", "x").await, 1);
        store.unsubscribe("channel").await.unwrap();
        assert_eq!(peer.publish("channel", "x").await, 0);
        store.unsubscribe("channel").await.unwrap();
        store.unsubscribe("never").await.unwrap();
        store.subscribe("channel").await.unwrap();
        assert_eq!(peer.publish("channel", "x").await, 1);
    })
    .await;
}

/// Revokes the right to channels from all users, lets the store connect again without it, and restores it.
async fn refuse_for_a_moment(server: &Server, events: &mut UnboundedReceiver<Event>) {
    let rights = async |rule| {
        let command = ["ACL", "SETUSER", "default", rule];
        server.command(&command).await.unwrap();
    };
    rights("resetchannels").await;
    // The server may have ended the connection by itself when the right was revoked.
    let kill = ["CLIENT", "KILL", "TYPE", "pubsub"];
    server.command(&kill).await.unwrap();
    until(events, &Event::Disconnected).await;
    until(events, &Event::Reconnected).await;
    rights("allchannels").await;
}

#[tokio::test]
async fn a_subscription_that_was_refused_after_a_reconnect_is_made_at_the_next_heartbeat() {
    bounded(async {
        for resp3 in [false, true] {
            let server = Server::start().await.unwrap();
            let options = options().silence_timeout(SILENCE);
            let store = options.resp3(resp3).connect(&server.url()).await.unwrap();
            let mut events = store.events().unwrap();
            for channel in ["a", "b", "c"] {
                subscribe(&store, channel).await;
            }
            refuse_for_a_moment(&server, &mut events).await;
            store.unsubscribe("c").await.unwrap();
            // Waiters are told to poll: messages were missed although the connection held.
            until(&mut events, &Event::Reconnected).await;
            let mut peer = Peer::connect(&server).await;
            for (channel, listeners) in [("a", 1), ("b", 1), ("c", 0)] {
                assert_eq!(peer.publish(channel, "x").await, listeners, "{channel}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_subscription_leaves_the_others_alone() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >pw ~* +@all resetchannels &ok*")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:pw@{}", server.address());
        let store = connect(&url).await.unwrap();
        let mut events = store.events().unwrap();
        let mut peer = Peer::connect(&server).await;
        store.subscribe("ok").await.unwrap();
        let error = store.subscribe("forbidden").await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Refused);
        assert_eq!(error.code(), Some("NOPERM"));
        assert_eq!(peer.publish("ok", "here").await, 1);
        assert_eq!(events.recv().await, Some(Event::message("ok", "here")));
        assert_eq!(peer.publish("forbidden", "x").await, 0);
    })
    .await;
}

/// A subscription that is not refused is never reported as refused, however many there are: at worst the result is unknown, and the
/// caller asks again.
#[tokio::test]
async fn many_refused_subscriptions_leave_the_others_alone() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >pw ~* +@all resetchannels &ok*")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:pw@{}", server.address());
        let store = Arc::new(connect(&url).await.unwrap());
        let names = |number: usize| match number % 8 {
            0 => format!("ok{number}"),
            _ => format!("forbidden{number}"),
        };
        let channels: Vec<String> = (0..200).map(names).collect();
        let mut asked = JoinSet::new();
        for channel in channels.clone() {
            let store = Arc::clone(&store);
            asked.spawn(async move { (store.subscribe(&channel).await.err(), channel) });
        }
        let mut refused = 0;
        for (error, channel) in asked.join_all().await {
            if channel.starts_with("ok") {
                let told = error.map(|error| error.outcome());
                assert_ne!(told, Some(Outcome::Refused), "{channel}");
                store.subscribe(&channel).await.unwrap();
            } else {
                let error = error.unwrap();
                refused += usize::from(error.code() == Some("NOPERM"));
                assert!(
                    error.is_transient() || error.code() == Some("NOPERM"),
                    "{error}"
                );
            }
        }
        assert!(refused > 0);
        let mut peer = Peer::connect(&server).await;
        for channel in channels {
            let listeners = u64::from(channel.starts_with("ok"));
            assert_eq!(peer.publish(&channel, "x").await, listeners, "{channel}");
        }
    })
    .await;
}

#[tokio::test]
async fn replies_that_stay_out_of_step_cost_the_connection_not_the_truth() {
    bounded(async {
        let liar = Liar::start(|connection, command| match command[0].as_str() {
            "PING" if command.len() == 2 && connection < 2 => Some("$5\r\nother\r\n".to_owned()),
            _ => None,
        })
        .await;
        let store = connect(&liar.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let error = store.subscribe("channel").await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        until(&mut events, &Event::Disconnected).await;
        until(&mut events, &Event::Reconnected).await;
        store.subscribe("channel").await.unwrap();
    })
    .await;
}

/// One error too many comes back, and the replies stay one behind from then on.
#[tokio::test]
async fn a_refusal_that_leaves_the_replies_out_of_step_costs_the_connection() {
    bounded(async {
        let liar = Liar::start(|connection, command| match command[0].as_str() {
            "SUBSCRIBE" if connection < 2 => Some("-NOPERM no\r\n".to_owned()),
            "PING" if command.len() == 2 && connection < 2 => Some("+PONG\r\n".to_owned()),
            _ => None,
        })
        .await;
        let store = connect(&liar.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap_err();
        until(&mut events, &Event::Disconnected).await;
        until(&mut events, &Event::Reconnected).await;
        store.subscribe("channel").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_subscription_nobody_answers_is_unknown_and_forgotten() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let proxy = Proxy::in_front_of(&server).await.unwrap();
        let options = options().silence_timeout(SILENCE);
        let store = options.connect(proxy.url()).await.unwrap();
        let mut events = store.events().unwrap();
        subscribe(&store, "kept").await;
        proxy.hold(Direction::ToClient);
        let error = store.subscribe("channel").await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
        proxy.release(Direction::ToClient);
        until(&mut events, &Event::Reconnected).await;
        let mut peer = Peer::connect(&server).await;
        assert_eq!(peer.publish("kept", "x").await, 1);
        assert_eq!(peer.publish("channel", "x").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_messages_arrives_whole_or_is_told() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap();
        let flood = "for i = 1, 20000 do redis.call('PUBLISH', 'channel', i) end";
        server.command(&["EVAL", flood, "0"]).await.unwrap();
        let (mut seen, mut told) = (0, 0);
        loop {
            match events.recv().await.unwrap() {
                Event::Message { payload, .. } => {
                    seen += 1;
                    if payload == b"20000" {
                        break;
                    }
                }
                Event::Reconnected => told += 1,
                other => panic!("{other:?}"),
            }
        }
        println!("{seen} messages, {told} gaps told");
        assert!(seen == 20_000 || told > 0, "{seen} messages, no gap told");
        // The stream still works.
        let mut peer = Peer::connect(&server).await;
        assert_eq!(peer.publish("channel", "after").await, 1);
        until(&mut events, &Event::message("channel", "after")).await;
    })
    .await;
}
