//! Which kind of message a server uses for a name: a *sharded* one stays between the node that has the slot and its replicas, a
//! *classic* one goes to every node. Pure.
//!
//! The node's version and mode decide, for publishers and subscribers alike: see `docs/decisions/0021`.

use lockkeeper_core::store::Value;

use crate::reply;

/// The first version of Redis that has sharded messages. Every Valkey has them and reports version 7 or later.
const FIRST: u64 = 7;

/// How the channels of clients begin. They belong to no name, and are classic everywhere.
const OF_CLIENTS: &str = "lockkeeper.client:";

/// Whether the server that answers `HELLO` with this is a cluster node that has sharded messages. A server that does not answer is
/// not: it is older, or something else. No user can be forbidden to ask.
pub(crate) fn has_sharded(hello: &Value) -> bool {
    let is_node = reply::behind(hello, "mode").as_deref() == Some("cluster");
    is_node && reply::major(hello).is_some_and(|major| major >= FIRST)
}

/// Whether a channel is that of a name, with the name's hash tag and so in its slot.
pub(crate) fn is_of_a_name(channel: &str) -> bool {
    !channel.starts_with(OF_CLIENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Bytes(text.into())
    }

    fn hello(version: &str, mode: &str) -> Value {
        Value::List(vec![
            text("server"),
            text("redis"),
            text("version"),
            text(version),
            text("proto"),
            Value::Integer(2),
            text("id"),
            Value::Integer(7),
            text("mode"),
            text(mode),
        ])
    }

    #[test]
    fn a_node_of_a_cluster_from_version_7_has_sharded_messages() {
        assert!(has_sharded(&hello("7.0.15", "cluster")));
        assert!(has_sharded(&hello("9.1.2", "cluster")));
        assert!(has_sharded(&hello("10.0.0", "cluster")));
        assert!(!has_sharded(&hello("6.2.16", "cluster")));
        assert!(!has_sharded(&hello("7.0.15", "standalone")));
        assert!(!has_sharded(&hello("9.1.2", "sentinel")));
        assert!(!has_sharded(&hello("unstable", "cluster")));
    }

    #[test]
    fn who_does_not_say_has_none() {
        for hello in [text("OK"), Value::Nil, Value::List(Vec::new())] {
            assert!(!has_sharded(&hello));
        }
    }

    #[test]
    fn the_channels_of_clients_belong_to_no_name() {
        assert!(!is_of_a_name("lockkeeper.client:0c5e7a4e"));
        assert!(is_of_a_name("lockkeeper.wake:{lockkeeper:client:1}"));
        assert!(is_of_a_name("lockkeeper.grant:{lockkeeper:a}:0c5e7a4e"));
    }
}
