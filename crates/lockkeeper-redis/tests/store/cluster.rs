//! A cluster: scripts and subscriptions find the nodes that have their slots, whatever happens to the nodes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use lockkeeper_core::Error;
use lockkeeper_core::store::{Event, Form, Outcome, Store};
use lockkeeper_lua::Status;
use lockkeeper_redis::RedisStore;
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::proxy::{Direction, Proxy};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::support::{
    SILENCE, acquire, bounded, connect, eventually, leave, options, promptly, subscribe, until,
    verify, within,
};

/// Names on each of the three nodes, `count` each. All keys of a name have its tag.
pub(crate) async fn names(cluster: &Cluster, count: usize) -> Vec<Vec<String>> {
    let mut names = vec![Vec::new(); 3];
    let mut number = 0;
    while names.iter().any(|names| names.len() < count) {
        let name = format!("{{name{number}}}");
        number += 1;
        let slot = cluster.slot_of(&name).await.unwrap();
        let node = cluster.primary_of(slot).await.unwrap();
        if names[node].len() < count {
            names[node].push(name);
        }
    }
    names
}

pub(crate) async fn teach(store: &RedisStore, names: &[Vec<String>]) {
    for name in names.iter().filter_map(|names| names.first()) {
        for call in [
            acquire(name, "teacher", Form::Source),
            verify(name, "teacher", Form::Source),
            leave(name, "teacher", Form::Source),
        ] {
            store.call(call).await.unwrap();
        }
    }
}

/// How many scripts all nodes have executed.
async fn executed(cluster: &Cluster) -> u64 {
    let mut executed = 0;
    for node in cluster.nodes().iter().filter(|node| node.pid().is_some()) {
        executed += node.commandstats("evalsha").await.unwrap();
    }
    executed
}

/// Asks again while the nodes of a machine that stalls do not hear each other.
async fn status(store: &RedisStore, name: &str, claim: &str) -> Status {
    let mut status = None;
    let answered = async || match store.call(verify(name, claim, Form::Sha)).await {
        Err(error) if error.is_transient() => false,
        reply => {
            status = Some(reply.unwrap().status());
            true
        }
    };
    eventually("a node answers", answered).await;
    status.unwrap()
}

pub(crate) async fn listeners(cluster: &Cluster, node: usize, channel: &str) -> u64 {
    cluster.listeners(node, channel).await.unwrap()
}

/// Waits until a replica has all the data of the node; only then can it take its place.
async fn replicated(node: &Server, replica: &Server) {
    let offset = async |server: &Server| -> u64 {
        let info = server.command(&["INFO", "replication"]).await.unwrap();
        let info = info.into_text().unwrap();
        let mut lines = info.lines();
        let offset = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
        offset.unwrap().parse().unwrap()
    };
    let written = offset(node).await;
    let all = async || offset(replica).await >= written;
    eventually("the replica has it all", all).await;
}

#[tokio::test]
async fn each_script_finds_the_node_of_its_keys() {
    bounded(async {
        let cluster = Cluster::pooled().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let names = names(&cluster, 5).await;
        teach(&store, &names).await;
        for names in names {
            for name in names {
                let reply = store.call(acquire(&name, "a", Form::Sha)).await;
                assert_eq!(reply.unwrap().status(), Status::Granted);
                assert_eq!(status(&store, &name, "a").await, Status::Held);
            }
        }
        store.close().await;
        let error = store
            .call(verify("name", "a", Form::Sha))
            .await
            .unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent);
    })
    .await;
}

#[tokio::test]
async fn nodes_behind_other_addresses_are_reached_by_the_map_of_the_url() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let mut url = cluster.url();
        let mut proxies = Vec::new();
        for node in cluster.nodes() {
            let proxy = Proxy::in_front_of(node).await.unwrap();
            let reached = proxy.url().trim_start_matches("redis://");
            url.push_str(&format!("&map={}={reached}", node.address()));
            proxies.push(proxy);
        }
        let store = connect(&url).await.unwrap();
        let names = names(&cluster, 1).await;
        for name in names.iter().flatten() {
            let reply = store.call(acquire(name, "a", Form::Source)).await;
            assert_eq!(reply.unwrap().status(), Status::Granted);
        }
        for proxy in &proxies {
            let passed = proxy.so_far().received[Direction::ToServer as usize];
            assert!(passed > 0, "a node was not reached by its map");
        }
    })
    .await;
}

/// Notices to a client about its claims are classic in every version.
#[tokio::test]
async fn a_channel_of_a_client_that_was_refused_is_subscribed_to_at_the_next_heartbeat() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let options = options().silence_timeout(SILENCE);
        let store = options.connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let channel = "lockkeeper.client:1";
        subscribe(&store, channel).await;
        let slot = cluster.slot_of(channel).await.unwrap();
        let node = &cluster.nodes()[cluster.primary_of(slot).await.unwrap()];
        let rights = ["ACL", "SETUSER", "default"];
        let take = [&rights[..], &["resetchannels"]].concat();
        let give = [&rights[..], &["allchannels"]].concat();
        node.command(&take).await.unwrap();
        node.command(&["CLIENT", "KILL", "TYPE", "pubsub"])
            .await
            .unwrap();
        until(&mut events, &Event::Disconnected).await;
        until(&mut events, &Event::Reconnected).await;
        node.command(&give).await.unwrap();
        eventually("it is subscribed to again", async || {
            let command = ["PUBSUB", "NUMSUB", channel];
            let reply = node.command(&command).await.unwrap();
            format!("{reply:?}").contains("Integer(1)")
        })
        .await;
        until(&mut events, &Event::Reconnected).await;
    })
    .await;
}

#[tokio::test]
async fn one_seed_that_answers_is_enough_and_a_replica_will_do() {
    bounded(async {
        let cluster = Cluster::pooled().await.unwrap();
        let replica = cluster.nodes()[3].address();
        let url = format!("redis-cluster://127.0.0.1:1?node={replica}");
        let store = connect(&url).await.unwrap();
        let reply = store.call(acquire("{seed}", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
    })
    .await;
}

#[tokio::test]
async fn what_is_no_cluster_or_nobody_is_refused_with_advice() {
    bounded(async {
        let server = Server::start().await.unwrap();
        let url = format!("redis-cluster://{}", server.address());
        let error = connect(&url).await.unwrap_err();
        assert!(error.to_string().contains("use redis://"), "{error}");
        assert!(!error.is_transient());
        let error = connect("redis-cluster://127.0.0.1:1").await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Backend { .. }), "{error:?}");
        assert!(error.is_transient(), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_slot_that_has_moved_costs_one_redirection_at_most_and_no_second_execution() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let names = names(&cluster, 1).await;
        teach(&store, &names).await;
        let name = &names[0][0];
        store.call(acquire(name, "a", Form::Sha)).await.unwrap();
        let slot = cluster.slot_of(name).await.unwrap();
        cluster.migrate(slot, 1).await.unwrap();
        let before = executed(&cluster).await;
        assert_eq!(status(&store, name, "a").await, Status::Held);
        assert_eq!(executed(&cluster).await, before + 1);
        let redirections = async || {
            let errors = cluster.nodes()[0].command(&["INFO", "errorstats"]).await;
            let errors = errors.unwrap().into_text().unwrap();
            let count = errors.split("errorstat_MOVED:count=").nth(1);
            count.map_or(0, |count| count.lines().next().unwrap().parse().unwrap())
        };
        // None, if the survey right after connecting was late enough to find the move.
        let first: u64 = redirections().await;
        assert!(first <= 1, "{first} redirections");
        assert_eq!(status(&store, name, "a").await, Status::Held);
        assert_eq!(
            redirections().await,
            first,
            "it was sent to the wrong node again"
        );
    })
    .await;
}

#[tokio::test]
async fn a_key_that_has_gone_ahead_of_its_slot_is_asked_for_by_many_at_once() {
    promptly(async |prompt| {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let all = names(&cluster, 1).await;
        teach(&store, &all).await;
        let tag = all[0][0].clone();
        let slot = cluster.slot_of(&tag).await.unwrap();
        // All in one slot. Each name's claim has the same text as the name.
        let names: Vec<_> = (0..64).map(|number| format!("{tag}{number}")).collect();
        for name in &names {
            store.call(acquire(name, name, Form::Sha)).await.unwrap();
        }
        cluster.begin_migration(slot, 0, 1).await.unwrap();
        for (name, stays) in names.iter().zip([true, false].into_iter().cycle()) {
            if !stays {
                let port = cluster.nodes()[1].port().to_string();
                let words = ["MIGRATE", "127.0.0.1", &port, name, "0", "120000"];
                cluster.nodes()[0].command(&words).await.unwrap();
            }
        }
        let before = executed(&cluster).await;
        let mut questions = JoinSet::new();
        let store = Arc::new(store);
        for round in 0..640 {
            let (store, name) = (Arc::clone(&store), names[round % 64].clone());
            let claim = if round < 320 {
                name.clone()
            } else {
                "other".to_owned()
            };
            let expected = if round < 320 {
                Status::Held
            } else {
                Status::Gone
            };
            questions.spawn(async move {
                let reply = store.call(verify(&name, &claim, Form::Sha)).await;
                assert_eq!(reply.unwrap().status(), expected);
            });
        }
        while let Some(answered) = questions.join_next().await {
            answered.unwrap();
        }
        assert_eq!(executed(&cluster).await, before + 640);

        // An acquire names keys that do not exist, and such keys count as being on both sides.
        let begun = Instant::now();
        let error = store
            .call(acquire(&format!("{tag}new"), "a", Form::Sha))
            .await;
        let error = error.unwrap_err();
        assert_eq!(error.code(), Some("TRYAGAIN"), "{error}");
        ensure!(error.is_transient() && begun.elapsed() < prompt);

        cluster.move_keys(slot, 0, 1).await.unwrap();
        cluster.end_migration(slot, 0, 1).await.unwrap();
        let reply = store
            .call(acquire(&format!("{tag}new"), "a", Form::Sha))
            .await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_killed_primary_delays_no_other_and_its_replica_takes_its_place() {
    promptly(async |prompt| {
        let mut cluster = Cluster::start().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let names = names(&cluster, 2).await;
        teach(&store, &names).await;
        for name in names.iter().flatten() {
            store.call(acquire(name, "a", Form::Sha)).await.unwrap();
        }
        store.subscribe(&names[1][0]).await.unwrap();
        replicated(&cluster.nodes()[1], &cluster.nodes()[4]).await;
        cluster.kill(1).await.unwrap();
        let begun = Instant::now();
        loop {
            let one = Instant::now();
            assert_eq!(status(&store, &names[0][0], "a").await, Status::Held);
            assert_eq!(status(&store, &names[2][1], "a").await, Status::Held);
            ensure!(one.elapsed() < prompt, "{:?}", one.elapsed());
            let one = Instant::now();
            let reply = store.call(verify(&names[1][1], "a", Form::Source)).await;
            ensure!(one.elapsed() < prompt, "{:?}", one.elapsed());
            match reply {
                Ok(reply) => break assert_eq!(reply.status(), Status::Held),
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
            sleep(Duration::from_millis(5)).await;
        }
        println!("failed over for the store after {:?}", begun.elapsed());
        until(&mut events, &Event::Reconnected).await;
        let listening = async || listeners(&cluster, 4, &names[1][0]).await == 1;
        eventually("the subscription follows", listening).await;
        cluster.publish(&names[1][0], "hello").await.unwrap();
        until(&mut events, &Event::message(names[1][0].clone(), "hello")).await;
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_frozen_node_keeps_its_own_callers_for_their_timeout_and_no_others() {
    bounded(async {
        let mut cluster = Cluster::start().await.unwrap();
        let options = options().silence_timeout(5 * PATIENCE);
        let store = options.connect(&cluster.url()).await.unwrap();
        let names = names(&cluster, 1).await;
        teach(&store, &names).await;
        for name in names.iter().flatten() {
            store.call(acquire(name, "a", Form::Sha)).await.unwrap();
        }
        replicated(&cluster.nodes()[1], &cluster.nodes()[4]).await;
        // Nobody takes it for dead yet.
        cluster.nodes()[1].freeze().unwrap();
        let frozen = |patience| store.call(within(verify(&names[1][0], "a", Form::Sha), patience));
        let others = async {
            for _ in 0..10 {
                assert_eq!(status(&store, &names[0][0], "a").await, Status::Held);
                assert_eq!(status(&store, &names[2][0], "a").await, Status::Held);
            }
        };
        tokio::select! {
            reply = frozen(2 * PATIENCE) => panic!("the others waited too: {reply:?}"),
            () = others => {}
        }
        let patience = Duration::from_secs(1);
        let kept = timeout(PATIENCE, frozen(patience)).await;
        let error = kept.expect("it waits for longer").unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        cluster.nodes()[1].thaw().unwrap();
        cluster.freeze(1).await.unwrap();
        // The other nodes say that a replica has taken its place; the open connection to it proves nothing.
        cluster.failed_over(1).await.unwrap();
        let found = async || {
            let call = within(verify(&names[1][0], "a", Form::Source), patience);
            store
                .call(call)
                .await
                .is_ok_and(|reply| reply.status() == Status::Held)
        };
        eventually("the replica is found", found).await;
        cluster.thaw(1).unwrap();
        cluster.healed().await.unwrap();
        assert_eq!(status(&store, &names[1][0], "a").await, Status::Held);
    })
    .await;
}

/// The default of clusters: when one primary is missing, none of the nodes serves.
#[tokio::test]
async fn a_cluster_that_is_down_says_so_and_is_found_again() {
    bounded(async {
        let options = Cluster::options().replicas(0);
        let options = options.configuration("cluster-require-full-coverage yes");
        let mut cluster = options.start().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let names = names(&cluster, 1).await;
        teach(&store, &names).await;
        store
            .call(acquire(&names[0][0], "a", Form::Sha))
            .await
            .unwrap();
        cluster.kill(1).await.unwrap();
        let down = async || {
            let reply = store.call(verify(&names[0][0], "a", Form::Sha)).await;
            reply.is_err_and(|error| {
                assert!(error.is_transient(), "{error}");
                error.message().contains("CLUSTERDOWN")
            })
        };
        eventually("it refuses", down).await;
        cluster.restart(1).await.unwrap();
        cluster.healed().await.unwrap();
        let up = async || {
            let reply = store.call(verify(&names[0][0], "a", Form::Sha)).await;
            reply.is_ok_and(|reply| reply.status() == Status::Held)
        };
        eventually("it serves", up).await;
    })
    .await;
}

#[tokio::test]
async fn a_subscription_follows_its_slot_and_hears_every_message_once() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let store = connect(&cluster.url()).await.unwrap();
        let mut events = store.events().unwrap();
        let names = names(&cluster, 1).await;
        teach(&store, &names).await;
        let channel = &names[0][0];
        store.subscribe(channel).await.unwrap();
        assert_eq!(listeners(&cluster, 0, channel).await, 1);
        for text in ["1", "2", "3"] {
            assert_eq!(cluster.publish(channel, text).await.unwrap(), 1);
            let heard = events.recv().await.unwrap();
            assert_eq!(heard, Event::message(channel.clone(), text));
        }

        let slot = cluster.slot_of(channel).await.unwrap();
        cluster.migrate(slot, 1).await.unwrap();
        // A request finds the move; no other message is needed.
        store.call(acquire(channel, "a", Form::Sha)).await.unwrap();
        until(&mut events, &Event::Reconnected).await;
        assert_eq!(listeners(&cluster, 1, channel).await, 1);
        let left = async || listeners(&cluster, 0, channel).await == 0;
        eventually("the old place is left", left).await;
        cluster.publish(channel, "later").await.unwrap();
        until(&mut events, &Event::message(channel.clone(), "later")).await;

        store.unsubscribe(channel).await.unwrap();
        assert_eq!(listeners(&cluster, 1, channel).await, 0);
    })
    .await;
}

#[tokio::test]
async fn closing_ends_every_connection() {
    bounded(async {
        let cluster = Cluster::options().replicas(0).start().await.unwrap();
        let open = async || {
            let mut open = 0;
            for node in cluster.nodes() {
                open += crate::support::connections(node).await;
            }
            open
        };
        let store = connect(&cluster.url()).await.unwrap();
        eventually("two for each node", async || open().await == 6).await;
        store.close().await;
        eventually("none is left", async || open().await == 0).await;

        let store = connect(&cluster.url()).await.unwrap();
        drop(store);
        eventually("none is left of one that was dropped", async || {
            open().await == 0
        })
        .await;
    })
    .await;
}
