//! Lost replies, dead servers and frozen servers.

use std::time::{Duration, Instant};

use anyhow::ensure;
use lockkeeper_core::store::{Event, Form, Outcome, Store};
use lockkeeper_lua::Status;
use lockkeeper_testkit::proxy::{Direction, Proxy, Seen};
use lockkeeper_testkit::server::{Reply, Server};
use lockkeeper_testkit::until::PATIENCE;

use crate::support::{
    Peer, SILENCE, acquire, bounded, connect, options, promptly, teach, until, verify, within,
};

#[tokio::test]
async fn a_lost_reply_is_unknown_and_the_script_ran_once() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let proxy = Proxy::in_front_of(&server).await.unwrap();
        let store = connect(proxy.url()).await.unwrap();
        let mut events = store.events().unwrap();
        teach(&store).await;
        let before = server.commandstats("evalsha").await.unwrap();
        // The proxy ends the connection instead of passing the reply on. The next connection is good while the call still waits, so
        // the call could be sent again.
        proxy.lose_reply_to("EVALSHA");
        let error = store.call(acquire("name", "a", Form::Sha)).await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::Unknown);
        assert_eq!(proxy.so_far().cut, 1);
        assert_eq!(server.commandstats("evalsha").await.unwrap(), before + 1);
        until(&mut events, &Event::Reconnected).await;
        // Both connections are in use again, and nothing was sent twice.
        store.subscribe("channel").await.unwrap();
        let reply = store.call(verify("name", "a", Form::Sha)).await.unwrap();
        assert_eq!(reply.status(), Status::Held);
        assert_eq!(server.commandstats("evalsha").await.unwrap(), before + 2);
        assert_eq!(server.commandstats("eval").await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_request_cut_before_the_server_is_not_called_refused() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let proxy = Proxy::in_front_of(&server).await.unwrap();
        let store = connect(proxy.url()).await.unwrap();
        teach(&store).await;
        let requests = |seen: &Seen| seen.received[Direction::ToServer as usize];
        let before = requests(&proxy.so_far());
        proxy.hold(Direction::ToServer);
        let (error, ()) = tokio::join!(store.call(acquire("name", "a", Form::Sha)), async {
            proxy.seen(|seen| requests(seen) > before).await;
            proxy.reset_all();
        });
        assert_ne!(error.unwrap_err().outcome(), Outcome::Refused);
        assert_eq!(
            server.command(&["EXISTS", "name"]).await.unwrap(),
            Reply::Integer(0)
        );
    })
    .await;
}

#[tokio::test]
async fn a_server_that_dies_and_returns_is_used_again() {
    promptly(async |prompt| {
        let mut server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut events = store.events().unwrap();
        for number in 0..300 {
            store.subscribe(&format!("channel{number}")).await.unwrap();
        }
        store.unsubscribe("channel7").await.unwrap();
        for _ in 0..2 {
            server.kill().unwrap();
            let begun = Instant::now();
            let error = store.call(acquire("n", "a", Form::Source)).await;
            assert_ne!(error.unwrap_err().outcome(), Outcome::Refused);
            until(&mut events, &Event::Disconnected).await;
            until(&mut events, &Event::Disconnected).await;
            let error = store.call(acquire("n", "a", Form::Source)).await;
            assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);
            let error = store.subscribe("new").await.unwrap_err();
            assert_eq!(error.outcome(), Outcome::NotSent);
            ensure!(begun.elapsed() < prompt, "{:?}", begun.elapsed());

            server.restart().await.unwrap();
            until(&mut events, &Event::Reconnected).await;
            let mut peer = Peer::connect(&server).await;
            for number in (0..300).filter(|number| *number != 7) {
                let channel = format!("channel{number}");
                assert_eq!(peer.publish(&channel, "back").await, 1, "{channel}");
            }
            assert_eq!(peer.publish("channel7", "back").await, 0);
            assert_eq!(peer.publish("new", "back").await, 0);
            until(&mut events, &Event::message("channel299", "back")).await;
            let reply = store.call(acquire("n", "a", Form::Source)).await.unwrap();
            assert_eq!(reply.status(), Status::Granted);
        }
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn one_connection_cut_by_the_server_comes_back_alone() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap();
        for kind in ["normal", "pubsub"] {
            server
                .command(&["CLIENT", "KILL", "TYPE", kind])
                .await
                .unwrap();
            assert_eq!(events.recv().await, Some(Event::Disconnected), "{kind}");
            assert_eq!(events.recv().await, Some(Event::Reconnected), "{kind}");
            store.call(verify("n", "c", Form::Source)).await.unwrap();
            let mut peer = Peer::connect(&server).await;
            assert_eq!(peer.publish("channel", kind).await, 1);
            assert_eq!(events.recv().await, Some(Event::message("channel", kind)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_channel_forbidden_meanwhile_does_not_keep_the_others_away() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let allow = async |channels: &[&str]| {
            let user = [
                "ACL",
                "SETUSER",
                "ann",
                "on",
                ">pw",
                "~*",
                "+@all",
                "resetchannels",
            ];
            server.command(&[&user, channels].concat()).await.unwrap()
        };
        allow(&["&a", "&b", "&c"]).await;
        let url = format!("redis://ann:pw@{}", server.address());
        let store = connect(&url).await.unwrap();
        let mut events = store.events().unwrap();
        for channel in ["a", "b", "c"] {
            store.subscribe(channel).await.unwrap();
        }
        // The server disconnects subscribers that lose a channel.
        allow(&["&a", "&c"]).await;
        until(&mut events, &Event::Reconnected).await;
        let mut peer = Peer::connect(&server).await;
        assert_eq!(peer.publish("a", "x").await, 1);
        assert_eq!(peer.publish("b", "x").await, 0);
        assert_eq!(peer.publish("c", "x").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_call_to_a_frozen_server_ends_in_time_as_unknown() {
    promptly(async |prompt| {
        let server = Server::start().await.unwrap();
        let options = options().silence_timeout(SILENCE);
        let store = options.connect(&server.url()).await?;
        let mut events = store.events().unwrap();
        teach(&store).await;
        let before = server.commandstats("evalsha").await.unwrap();
        server.freeze().unwrap();
        let timeout = prompt / 5;
        let begun = Instant::now();
        let call = within(acquire("n", "a", Form::Sha), timeout);
        let error = store.call(call).await.unwrap_err();
        ensure!(error.outcome() == Outcome::Unknown, "{error}");
        assert!(begun.elapsed() >= timeout);
        ensure!(begun.elapsed() < prompt);
        // Both connections are found dead, one with a request under way, one idle.
        until(&mut events, &Event::Disconnected).await;
        until(&mut events, &Event::Disconnected).await;
        println!("noticed after {:?}", begun.elapsed());
        let begun = Instant::now();
        let error = store.call(verify("n", "a", Form::Sha)).await.unwrap_err();
        ensure!(error.outcome() == Outcome::NotSent, "{error}");
        ensure!(begun.elapsed() < timeout);
        server.thaw().unwrap();
        until(&mut events, &Event::Reconnected).await;
        // The request was in the server's socket; it ran once, when the server woke.
        let ran = server.commandstats("evalsha").await.unwrap() - before;
        println!("ran {ran} times");
        assert!(ran <= 1);
        store.call(verify("n", "a", Form::Sha)).await?;
        Ok(())
    })
    .await;
}

/// fred forgets how long a server has been silent whenever it writes something.
#[tokio::test]
async fn a_frozen_server_is_noticed_while_requests_keep_coming() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let options = options().silence_timeout(SILENCE);
        let store = options.connect(&server.url()).await.unwrap();
        teach(&store).await;
        server.freeze().unwrap();
        let begun = Instant::now();
        loop {
            let call = within(verify("n", "a", Form::Sha), Duration::from_millis(20));
            let error = store.call(call).await.unwrap_err();
            if error.outcome() == Outcome::NotSent {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "never noticed");
        }
        println!("noticed after {:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test]
async fn a_call_without_any_time_still_ends() {
    promptly(async |prompt| {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        server.freeze().unwrap();
        let begun = Instant::now();
        let call = within(verify("n", "a", Form::Sha), Duration::ZERO);
        let error = store.call(call).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        ensure!(begun.elapsed() < prompt);
        Ok(())
    })
    .await;
}
