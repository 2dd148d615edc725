//! Clusters whose nodes fail and whose slots migrate.

use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::server::Reply;

#[tokio::test]
async fn six_nodes_serve_every_slot_and_a_replica_takes_a_killed_primarys_place() {
    let mut cluster = Cluster::start().await.unwrap();
    assert_eq!(cluster.primaries().await.unwrap(), [0, 1, 2]);
    for key in ["a", "b", "c", "d"] {
        cluster.command(&["SET", key, "value"]).await.unwrap();
    }
    let mut keys = cluster.keys().await.unwrap();
    keys.sort();
    assert_eq!(keys, ["a", "b", "c", "d"]);

    let slot = cluster.slot_of("a").await.unwrap();
    let primary = cluster.primary_of(slot).await.unwrap();
    cluster.kill(primary).await.unwrap();
    cluster.failed_over(primary).await.unwrap();
    let successor = cluster.primary_of(slot).await.unwrap();
    assert_eq!(successor, primary + 3);
    cluster.command(&["SET", "a", "later"]).await.unwrap();
    cluster.restart(primary).await.unwrap();
    cluster.healed().await.unwrap();
}

#[tokio::test]
async fn a_slot_wanders_with_its_keys() {
    let cluster = Cluster::options().replicas(0).start().await.unwrap();
    let slot = cluster.slot_of("key").await.unwrap();
    let from = cluster.primary_of(slot).await.unwrap();
    let to = (from + 1) % 3;
    cluster.command(&["SET", "key", "value"]).await.unwrap();
    cluster.migrate(slot, to).await.unwrap();
    let value = cluster.command(&["GET", "key"]).await.unwrap();
    assert_eq!(value, Reply::Text("value".to_owned()));
    let kept = cluster.nodes()[to].command(&["KEYS", "*"]).await.unwrap();
    assert_eq!(kept.into_texts().unwrap(), ["key"]);
}
