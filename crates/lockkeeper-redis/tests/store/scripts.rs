//! Scripts: answers, refusals, replies that belong to another request.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockkeeper_core::store::{BadReply, Event, Form, Outcome, Store};
use lockkeeper_lua::Status;
use lockkeeper_redis::Transport;
use lockkeeper_testkit::server::{Reply, Server};
use tokio::task::JoinSet;

use crate::support::{
    Liar, SILENCE, acquire, bounded, connect, eventually, held, leave, options, teach, transport,
    until, verify,
};

#[tokio::test]
async fn an_unknown_script_is_refused_and_not_sent_again() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let store = connect(&server.url()).await.unwrap();
        let error = store.call(acquire("name", "a", Form::Sha)).await;
        let error = error.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Refused);
        assert!(error.is_noscript(), "{error}");
        assert_eq!(server.commandstats("evalsha").await.unwrap(), 1);
        assert_eq!(server.commandstats("eval").await.unwrap(), 0);
        assert_eq!(
            server.command(&["EXISTS", "name"]).await.unwrap(),
            Reply::Integer(0)
        );
    })
    .await;
}

#[tokio::test]
async fn a_foreign_reply_is_unknown_and_its_connection_is_replaced() {
    bounded(async {
        // Connections 0 and 1 are the first two; either may be the one that runs scripts.
        let liar = Liar::start(|connection, command| {
            (command[0] == "EVALSHA" && connection < 2).then(|| held("4711"))
        })
        .await;
        let store = connect(&liar.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let error = store.call(verify("n", "c", Form::Sha)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert!(error.to_string().contains("4711"), "{error}");
        assert!(error.source().unwrap().is::<BadReply>());
        // The old connection gets no further call.
        let error = store.call(verify("n", "c", Form::Sha)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
        assert_eq!(events.recv().await, Some(Event::Disconnected));
        assert_eq!(events.recv().await, Some(Event::Reconnected));
        assert_eq!(liar.connections.load(Ordering::SeqCst), 3);
        let reply = store.call(verify("n", "c", Form::Sha)).await.unwrap();
        assert_eq!(reply.status(), Status::Held);
    })
    .await;
}

#[tokio::test]
async fn a_reply_of_another_program_is_unknown_too() {
    bounded(async {
        let liar = Liar::start(|connection, command| {
            (command[0] == "EVALSHA" && connection < 2).then(|| "+OK\r\n".to_owned())
        })
        .await;
        let store = connect(&liar.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let error = store.call(verify("n", "c", Form::Sha)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        until(&mut events, &Event::Reconnected).await;
        store.call(verify("n", "c", Form::Sha)).await.unwrap();
    })
    .await;
}

/// fred gives the text of this reply to every request under way and then drops the connection.
#[tokio::test]
async fn clusterdown_for_one_request_is_a_refusal_or_unknown_for_all() {
    bounded(async {
        let liar = Liar::start(|connection, command| {
            let down = command[0] == "EVALSHA" && connection < 2;
            down.then(|| "-CLUSTERDOWN Hash slot not served\r\n".to_owned())
        })
        .await;
        let expected = match transport() {
            Transport::Fred => Outcome::Unknown,
            _ => Outcome::Refused,
        };
        let store = connect(&liar.url()).await.unwrap();
        let (first, second) = tokio::join!(
            store.call(verify("n", "c", Form::Sha)),
            store.call(verify("n", "c", Form::Sha)),
        );
        assert_eq!(first.unwrap_err().outcome(), expected);
        assert_eq!(second.unwrap_err().outcome(), expected);
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_out_of_step_is_found_and_replaced() {
    bounded(async {
        let liar = Liar::start(|connection, command| {
            let lie = command[0] == "PING" && command.len() == 2 && connection < 2;
            lie.then(|| "$5\r\nother\r\n".to_owned())
        })
        .await;
        let options = options().silence_timeout(SILENCE);
        let store = options.connect(&liar.url()).await.unwrap();
        let mut events = store.events().unwrap();
        until(&mut events, &Event::Disconnected).await;
        until(&mut events, &Event::Reconnected).await;
        // Each of the two is found by itself, on a slow machine the second one after the first was replaced.
        let connections = || liar.connections.load(Ordering::SeqCst);
        eventually("both are replaced", async || connections() >= 4).await;
        assert_eq!(connections(), 4);
    })
    .await;
}

/// A refused `SUBSCRIBE` shifts fred's queue of replies if nothing is done about it. Here scripts and subscriptions are refused all
/// the time, and no reply goes to another request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_reach_their_own_caller_and_no_neighbour() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >pw ~ok* ~taught* resetchannels &ok* &wake +@all")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:pw@{}", server.address());
        let store = Arc::new(connect(&url).await.unwrap());
        let mut events = store.events().unwrap();
        teach(&store).await;

        let mut tasks = JoinSet::new();
        for task in 0..16 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                let mut last = 0;
                for round in 0..300 {
                    let (name, claim) = (format!("ok{task}"), format!("{task}/{round}"));
                    let reply = store.call(acquire(&name, &claim, Form::Sha)).await.unwrap();
                    assert_eq!(reply.status(), Status::Granted);
                    let token = reply.field(0).unwrap().as_i64().unwrap();
                    assert!(token > last, "the token of another name");
                    last = token;
                    if round % 5 == 0 {
                        let call = acquire("forbidden", &claim, Form::Sha);
                        let error = store.call(call).await.unwrap_err();
                        assert_eq!(error.code(), Some("NOPERM"), "{error}");
                    }
                    let reply = store.call(leave(&name, &claim, Form::Sha)).await.unwrap();
                    assert_eq!(reply.status(), Status::Released);
                }
            });
        }
        for task in 0..8 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                for round in 0..100 {
                    let good = format!("ok:{task}:{round}");
                    let bad = format!("forbidden:{task}:{round}");
                    let (first, second) =
                        tokio::join!(store.subscribe(&good), store.subscribe(&bad));
                    first.unwrap();
                    assert_eq!(second.unwrap_err().code(), Some("NOPERM"));
                    store.unsubscribe(&good).await.unwrap();
                }
            });
        }
        while let Some(result) = tasks.join_next().await {
            result.unwrap();
        }
        store.subscribe("ok:last").await.unwrap();
        server
            .command(&["PUBLISH", "ok:last", "end"])
            .await
            .unwrap();
        // Nothing before it: no connection had to be replaced.
        assert_eq!(events.recv().await, Some(Event::message("ok:last", "end")));
        let channels = server.command(&["PUBSUB", "CHANNELS"]).await.unwrap();
        assert_eq!(channels.into_texts().unwrap(), ["ok:last"]);
    })
    .await;
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_refused() {
    bounded(async {
        let server = Server::options()
            .configuration("user ann on >pw ~* +@all -evalsha")
            .start()
            .await
            .unwrap();
        let url = format!("redis://ann:pw@{}", server.address());
        let store = connect(&url).await.unwrap();
        let error = store.call(verify("n", "c", Form::Sha)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Refused);
        assert_eq!(error.code(), Some("NOPERM"));
        store.call(verify("n", "c", Form::Source)).await.unwrap();
    })
    .await;
}
