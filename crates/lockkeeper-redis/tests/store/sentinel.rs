//! A primary that sentinels watch: the store finds it, and follows when another server becomes the primary.

use std::time::Instant;

use anyhow::ensure;
use lockkeeper_core::Error;
use lockkeeper_core::store::{Event, Form, Store};
use lockkeeper_lua::Status;
use lockkeeper_testkit::sentinel::Watched;

use crate::support::{acquire, bounded, connect, eventually, promptly, until, verify};

fn refused(error: Error) -> String {
    match error {
        Error::Backend { context, cause, .. } => format!("{context}: {cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_primary_is_found_by_one_sentinel_of_several() {
    bounded(async {
        let watched = Watched::pooled().await.unwrap();
        let sentinel = watched.sentinels()[2].address();
        let url = format!("redis-sentinel://127.0.0.1:1,{sentinel}/locks");
        let store = connect(&url).await.unwrap();
        let reply = store.call(acquire("name", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
        let kept = watched.servers()[0].command(&["EXISTS", "name"]).await;
        assert_eq!(kept.unwrap().into_integer().unwrap(), 1);
        store.close().await;
    })
    .await;
}

#[tokio::test]
async fn nobody_to_ask_and_nothing_to_find_are_told_at_once() {
    promptly(async |prompt| {
        let watched = Watched::pooled().await.unwrap();
        let begun = Instant::now();
        let url = watched.url().replace("/locks", "/others");
        let error = connect(&url).await.unwrap_err();
        assert!(!error.is_transient());
        let shown = refused(error);
        assert!(shown.contains("No such master"), "{shown}");
        let error = connect("redis-sentinel://127.0.0.1:1/locks").await;
        let error = error.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(refused(error).contains("Connection refused"));
        ensure!(begun.elapsed() < prompt, "{:?}", begun.elapsed());
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn sentinels_have_a_password_of_their_own() {
    bounded(async {
        let watched = Watched::options()
            .password("hunter2")
            .start()
            .await
            .unwrap();
        let store = connect(&watched.url()).await.unwrap();
        assert!(!format!("{store:?}").contains("hunter2"));
        for (password, code) in [("?sentinel_password=wrong", "WRONGPASS"), ("", "NOAUTH")] {
            let url = watched
                .url()
                .replace("?sentinel_password=hunter2", password);
            let shown = refused(connect(&url).await.unwrap_err());
            assert!(
                shown.contains(code) && shown.contains("password"),
                "{shown}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_killed_primary_is_replaced_with_all_its_subscriptions() {
    bounded(async {
        let mut watched = Watched::start().await.unwrap();
        let store = connect(&watched.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap();
        store
            .call(acquire("name", "a", Form::Source))
            .await
            .unwrap();
        watched.servers()[0]
            .command(&["WAIT", "1", "0"])
            .await
            .unwrap();
        watched.kill(0).await.unwrap();
        let begun = Instant::now();
        until(&mut events, &Event::Reconnected).await;
        println!("followed a killed primary after {:?}", begun.elapsed());
        let reply = store.call(verify("name", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Held);
        let words = ["PUBLISH", "channel", "hello"];
        watched.servers()[1].command(&words).await.unwrap();
        until(&mut events, &Event::message("channel", "hello")).await;
    })
    .await;
}

/// The old primary stays healthy and would accept writes for seconds: no connection breaks.
#[tokio::test]
async fn a_primary_that_is_replaced_while_it_is_well_is_left_at_once() {
    promptly(async |prompt| {
        let watched = Watched::start().await.unwrap();
        let store = connect(&watched.url()).await.unwrap();
        let mut events = store.events().unwrap();
        store
            .call(acquire("name", "a", Form::Source))
            .await
            .unwrap();
        watched.switch().await.unwrap();
        watched.switched_to(1).await.unwrap();
        let begun = Instant::now();
        until(&mut events, &Event::Reconnected).await;
        println!(
            "followed a switch {:?} after the sentinels knew",
            begun.elapsed()
        );
        let there = async || {
            let reply = store.call(acquire("after", "a", Form::Source)).await;
            let kept = watched.servers()[1].command(&["EXISTS", "after"]).await;
            reply.is_ok() && kept.unwrap().into_integer().unwrap() == 1
        };
        eventually("it writes to the new one", there).await;
        ensure!(begun.elapsed() < prompt, "{:?}", begun.elapsed());
        Ok(())
    })
    .await;
}
