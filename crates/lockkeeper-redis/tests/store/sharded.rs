//! Messages of names in a cluster: sharded from version 7, as the node decides, and followed when their slot moves.

use std::time::{Duration, Instant};

use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Outcome, Reply, Store, Value};
use lockkeeper_lua::{Status, name};
use lockkeeper_redis::{RedisOptions, RedisStore, Transport};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Server;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::cluster::{listeners, names, teach};
use crate::support::{
    SILENCE, acquire, bounded, connect, eventually, leave, options, subscribe, transport, until,
};

/// Both protocols.
fn both(options: RedisOptions) -> [RedisOptions; 2] {
    [false, true].map(|resp3| options.clone().resp3(resp3))
}

/// A store that checks its subscriptions every [`SILENCE`].
fn watchful() -> RedisOptions {
    options().silence_timeout(SILENCE)
}

/// A store that never checks them within the test.
fn careless() -> RedisOptions {
    options().silence_timeout(Duration::from_secs(600))
}

async fn executed(cluster: &Cluster, command: &str) -> u64 {
    let mut executed = 0;
    for node in cluster.nodes() {
        executed += node.commandstats(command).await.unwrap();
    }
    executed
}

/// Moves a slot. The store finds the move in its survey right after connecting, or else by a redirected request. The next survey is
/// a while away.
async fn settled(cluster: &Cluster, store: &RedisStore, channel: &str) {
    subscribe(store, channel).await;
    cluster
        .migrate(cluster.slot_of(channel).await.unwrap(), 1)
        .await
        .unwrap();
    let request = acquire(channel, "mover", Form::Source);
    store.call(request).await.unwrap();
    eventually("it follows", async || {
        listeners(cluster, 1, channel).await == 1
    })
    .await;
}

/// A field of a reply, as text.
fn text(reply: &Reply, field: usize) -> String {
    match reply.field(field) {
        Some(Value::Integer(number)) => number.to_string(),
        Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    }
}

/// A classic subscriber that reads one line at a time.
async fn eavesdrop(server: &Server, channel: &str) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.address()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let line = format!("SUBSCRIBE {channel}\r\n");
    stream.write_all(line.as_bytes()).await.unwrap();
    let mut read = String::new();
    while !read.ends_with(":1\r\n") {
        stream.read_line(&mut read).await.unwrap();
    }
    stream
}

/// Messages between two nodes stay in order, so what is read before the last message is all there was.
async fn overheard(stream: &mut BufReader<TcpStream>, last: &str) -> String {
    let mut read = String::new();
    while !read.contains(last) {
        stream.read_line(&mut read).await.unwrap();
    }
    read
}

#[tokio::test]
async fn a_wake_stays_with_the_node_of_its_name_from_version_7() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let sharded = cluster.has_sharded_messages().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        // A name in the slot of the channel that the script is given.
        let slot = cluster.slot_of("wake").await.unwrap();
        let owner = cluster.primary_of(slot).await.unwrap();
        let mut elsewhere = eavesdrop(&cluster.nodes()[(owner + 1) % 3], "wake").await;
        store.subscribe("wake").await.unwrap();
        for form in [Form::Source, Form::Sha] {
            store
                .call(acquire("{wake}", "a", Form::Source))
                .await
                .unwrap();
            let left = store.call(leave("{wake}", "a", form)).await.unwrap();
            assert_eq!(left.status(), Status::Released);
            assert_eq!(text(&left, 0), "1", "the wake was refused");
            until(&mut events, &Event::message("wake", "free")).await;
        }
        let of_kinds = [
            executed(&cluster, "spublish").await,
            executed(&cluster, "publish").await,
        ];
        assert_eq!(of_kinds, if sharded { [2, 0] } else { [0, 2] });
        let words = ["PUBLISH", "wake", "last"];
        cluster.nodes()[owner].command(&words).await.unwrap();
        let heard = overheard(&mut elsewhere, "last").await;
        assert_eq!(heard.matches("free").count(), if sharded { 0 } else { 2 });
    })
    .await;
}

/// Two nodes that redirect to each other: a refusal would end the waiting of everybody on the channel.
#[tokio::test]
async fn a_slot_that_nobody_admits_to_have_may_be_asked_for_again() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        if !cluster.has_sharded_messages().await.unwrap() {
            return;
        }
        let store = careless().connect(&cluster.url()).await.unwrap();
        let slot = cluster.slot_of("wake").await.unwrap();
        let from = cluster.primary_of(slot).await.unwrap();
        let to = (from + 1) % 3;
        cluster.give_away(slot, from, to).await.unwrap();
        let error = store.subscribe("wake").await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert_eq!(error.outcome(), Outcome::NotSent, "{error}");
        let error = store.call(acquire("{wake}", "a", Form::Source)).await;
        assert_eq!(error.unwrap_err().outcome(), Outcome::NotSent);

        cluster.take_over(slot, to).await.unwrap();
        eventually("it is found", async || {
            store.subscribe("wake").await.is_ok()
        })
        .await;
        for node in 0..3 {
            let expected = u64::from(node == to);
            assert_eq!(listeners(&cluster, node, "wake").await, expected, "{node}");
        }
        store
            .call(acquire("{wake}", "a", Form::Source))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn channels_of_clients_are_heard_from_every_node() {
    bounded(async {
        let cluster = Cluster::pooled().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let channel = "lockkeeper.client:0c5e7a4e-6b1f-4a53-8a51-3f4f52d4a8c9";
        store.subscribe(channel).await.unwrap();
        for node in 0..3 {
            let text = node.to_string();
            let words = ["PUBLISH", channel, &text];
            cluster.nodes()[node].command(&words).await.unwrap();
            until(&mut events, &Event::message(channel, text)).await;
        }
        store.unsubscribe(channel).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_inspection_counts_who_listens() {
    bounded(async {
        let cluster = Cluster::pooled().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        store.subscribe("{counted}").await.unwrap();
        let keys = ["", "holders", "queue", "state"].map(|part| format!("{{counted}}{part}"));
        let item = ScriptCall::new(&name::INSPECT, keys, ["{counted}".to_owned()]);
        let call = Call::new(item, 1, Form::Source, Duration::from_secs(5));
        let reply = store.call(call).await.unwrap();
        assert_eq!((reply.status(), &*text(&reply, 0)), (Status::Free, "1"));
    })
    .await;
}

/// A cluster of one node has sharded messages too; a store with a `redis://` URL to that node decides in the same way.
#[tokio::test]
async fn a_node_by_itself_decides_as_one_of_many_does() {
    bounded(async {
        let cluster = Cluster::options().primaries(1).replicas(0);
        let cluster = cluster.start().await.unwrap();
        let by_cluster = connect(&cluster.url()).await.unwrap();
        let alone = connect(&cluster.nodes()[0].url()).await.unwrap();
        let mut events = alone.events().unwrap();
        alone.subscribe("wake").await.unwrap();
        by_cluster
            .call(acquire("{a}", "a", Form::Source))
            .await
            .unwrap();
        by_cluster
            .call(leave("{a}", "a", Form::Source))
            .await
            .unwrap();
        until(&mut events, &Event::message("wake", "free")).await;
    })
    .await;
}

#[tokio::test]
async fn who_does_not_know_yet_that_a_slot_has_moved_subscribes_where_it_is() {
    bounded(async {
        for options in both(careless()) {
            let cluster = Cluster::options().replicas(0).start().await.unwrap();
            let store = options.connect(&cluster.url()).await.unwrap();
            let names = names(&cluster, 2).await;
            let channel = &names[0][0];
            cluster
                .migrate(cluster.slot_of(channel).await.unwrap(), 1)
                .await
                .unwrap();
            store.subscribe(channel).await.unwrap();
            if cluster.has_sharded_messages().await.unwrap() {
                assert_eq!(listeners(&cluster, 1, channel).await, 1);
            }
            // And unsubscribing without knowing of the move leaves nothing behind.
            let channel = &names[0][1];
            store.subscribe(channel).await.unwrap();
            cluster
                .migrate(cluster.slot_of(channel).await.unwrap(), 1)
                .await
                .unwrap();
            store.unsubscribe(channel).await.unwrap();
            store.subscribe(&names[2][0]).await.unwrap();
            assert_eq!(listeners(&cluster, 2, &names[2][0]).await, 1);
        }
    })
    .await;
}

/// Meanwhile, nothing is requested of the name or its node.
#[tokio::test]
async fn a_subscription_that_the_server_took_away_is_made_again_where_the_slot_is() {
    bounded(async {
        for options in both(watchful()) {
            let cluster = Cluster::options().replicas(0).start().await.unwrap();
            let store = options.connect(&cluster.url()).await.unwrap();
            let mut events = store.events().unwrap();
            let names = names(&cluster, 3).await;
            settled(&cluster, &store, &names[0][2]).await;
            let channel = &names[0][0];
            subscribe(&store, channel).await;
            subscribe(&store, &names[0][1]).await;
            let slot = cluster.slot_of(channel).await.unwrap();
            cluster.migrate(slot, 1).await.unwrap();
            if !cluster.has_sharded_messages().await.unwrap() {
                // Nothing was taken away.
                cluster.publish(channel, "hello").await.unwrap();
                until(&mut events, &Event::message(channel.clone(), "hello")).await;
                continue;
            }
            let begun = Instant::now();
            eventually("it follows", async || {
                listeners(&cluster, 1, channel).await == 1
            })
            .await;
            until(&mut events, &Event::Reconnected).await;
            println!("deaf for {:?}, looking every {SILENCE:?}", begun.elapsed());
            cluster.publish(channel, "hello").await.unwrap();
            until(&mut events, &Event::message(channel.clone(), "hello")).await;
        }
    })
    .await;
}

/// It checks its subscriptions only after minutes, and nothing else makes it ask a node that has lost a slot. fred does not see
/// what the server ends.
#[tokio::test]
async fn a_subscription_that_was_taken_away_is_missed_at_once_over_redis_rs() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let sharded = cluster.has_sharded_messages().await.unwrap();
        if transport() == Transport::Fred || !sharded {
            return;
        }
        let names = names(&cluster, 3).await;
        let [first, second, stays] = names[0].as_slice() else {
            panic!("{names:?}");
        };
        for (resp3, goes) in [(false, first), (true, second)] {
            let options = careless().resp3(resp3);
            let store = options.connect(&cluster.url()).await.unwrap();
            for channel in [goes, stays] {
                store.subscribe(channel).await.unwrap();
            }
            let asked = async || cluster.nodes()[0].commandstats("ssubscribe").await.unwrap();
            let before = asked().await;
            let slot = cluster.slot_of(goes).await.unwrap();
            cluster.migrate(slot, 1).await.unwrap();
            eventually("it looks after the others", async || asked().await > before).await;
            eventually("the one follows its slot", async || {
                listeners(&cluster, 1, goes).await == 1
            })
            .await;
            assert_eq!(listeners(&cluster, 0, stays).await, 1);
            store.close().await;
        }
    })
    .await;
}

/// The map is the same after it, so only the server itself can tell.
#[tokio::test]
async fn a_subscription_survives_a_slot_that_goes_and_comes_back_unseen() {
    bounded(async {
        for options in both(watchful()) {
            let cluster = Cluster::options().replicas(0).start().await.unwrap();
            let store = options.connect(&cluster.url()).await.unwrap();
            let mut events = store.events().unwrap();
            let names = names(&cluster, 3).await;
            settled(&cluster, &store, &names[0][2]).await;
            let channel = &names[0][0];
            subscribe(&store, channel).await;
            subscribe(&store, &names[0][1]).await;
            let slot = cluster.slot_of(channel).await.unwrap();
            for to in [1, 0] {
                cluster.migrate(slot, to).await.unwrap();
            }
            eventually("it is back", async || {
                listeners(&cluster, 0, channel).await == 1
            })
            .await;
            cluster.publish(channel, "hello").await.unwrap();
            until(&mut events, &Event::message(channel.clone(), "hello")).await;
            assert_eq!(listeners(&cluster, 0, &names[0][1]).await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn one_request_that_is_sent_on_brings_the_subscriptions_along() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let store = careless().connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let names = names(&cluster, 3).await;
        teach(&store, &names).await;
        settled(&cluster, &store, &names[0][2]).await;
        for channel in &names[0][..2] {
            store.subscribe(channel).await.unwrap();
            cluster
                .migrate(cluster.slot_of(channel).await.unwrap(), 1)
                .await
                .unwrap();
        }
        store
            .call(acquire(&names[0][0], "a", Form::Sha))
            .await
            .unwrap();
        eventually("all of them follow", async || {
            listeners(&cluster, 1, &names[0][0]).await == 1
                && listeners(&cluster, 1, &names[0][1]).await == 1
        })
        .await;
        // Its next check is minutes away.
        until(&mut events, &Event::Reconnected).await;
    })
    .await;
}

#[tokio::test]
async fn many_subscriptions_are_made_again_when_their_connection_is_lost() {
    bounded(async {
        for options in both(careless()) {
            let cluster = Cluster::options().replicas(0).start().await.unwrap();
            let store = options.connect(&cluster.url()).await.unwrap();
            let mut events = store.events().unwrap();
            let channels: Vec<_> = (0..600).map(|number| format!("{{name}}{number}")).collect();
            for channel in &channels {
                store.subscribe(channel).await.unwrap();
            }
            let owner = cluster.slot_of("name").await.unwrap();
            let owner = cluster.primary_of(owner).await.unwrap();
            let kill = ["CLIENT", "KILL", "TYPE", "pubsub"];
            cluster.nodes()[owner].command(&kill).await.unwrap();
            until(&mut events, &Event::Disconnected).await;
            until(&mut events, &Event::Reconnected).await;
            let each: Vec<_> = channels.iter().map(String::as_str).collect();
            let listeners_of_each = cluster.listeners_of_each(owner, &each).await.unwrap();
            assert_eq!(listeners_of_each, [1; 600]);
            store.unsubscribe(&channels[0]).await.unwrap();
            assert_eq!(listeners(&cluster, owner, &channels[0]).await, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_subscription_to_a_name_leaves_the_others_alone() {
    bounded(async {
        for options in both(careless()) {
            let cluster = Cluster::options().primaries(1).replicas(0);
            let cluster = cluster
                .configuration("user ann on >pw ~* +@all resetchannels &{ok*")
                .start()
                .await
                .unwrap();
            let url = format!("redis-cluster://ann:pw@{}", cluster.nodes()[0].address());
            let store = options.connect(&url).await.unwrap();
            let mut events = store.events().unwrap();
            for round in 0..20 {
                let channel = format!("{{ok}}{round}");
                store.subscribe(&channel).await.unwrap();
                let error = store.subscribe("forbidden").await.unwrap_err();
                assert_eq!(error.outcome(), Outcome::Refused);
                assert_eq!(error.code(), Some("NOPERM"));
                assert_eq!(cluster.publish(&channel, "here").await.unwrap(), 1);
                until(&mut events, &Event::message(channel, "here")).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_line_without_subscriptions_is_asked_for_signs_of_life_too() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let store = watchful().connect(&cluster.url()).await.unwrap();
        subscribe(&store, "lockkeeper.client:me").await;
        for node in cluster.nodes() {
            eventually(
                "its lines are older than their silence may be, and were not silent",
                async || {
                    let own = own_lines(node).await;
                    let silence = SILENCE.as_secs();
                    let asked = |(age, idle): &(u64, u64)| *age > silence && *idle < silence;
                    own.len() >= 2 && own.iter().all(asked)
                },
            )
            .await;
        }
    })
    .await;
}

/// The connections of clients to a node that send heartbeats: their age and their idle time, s.
async fn own_lines(node: &Server) -> Vec<(u64, u64)> {
    let list = node.command(&["CLIENT", "LIST", "TYPE", "normal"]).await;
    let mut list = list.unwrap().into_text().unwrap();
    let pubsub = node.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
    list.push_str(&pubsub.unwrap().into_text().unwrap());
    let field = |line: &str, name: &str| {
        let mut words = line.split(' ');
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let lines = list.lines().filter(|line| !line.contains("cmd=client"));
    let lines = lines.filter_map(|line| Some((field(line, "age")?, field(line, "idle")?)));
    lines.collect()
}
