//! Lockkeeper's store over [redis-rs](https://docs.rs/redis) or [fred](https://docs.rs/fred): a Redis or Valkey server, a
//! cluster of them, or the primary that sentinels watch.
//!
//! [`RedisStore`] keeps two connections to each server: one runs scripts, the other receives messages. A connection lives exactly
//! as long as its socket. Neither library reconnects here, so neither ever sends a request again; when a connection ends, the store
//! opens a new one. A request that was under way is then "unknown", and the engine decides what to do about it.
//!
//! | feature | what |
//! |---|---|
//! | `redis-rs`, default | the transport redis-rs, used unless [`RedisOptions::transport`] says otherwise |
//! | `fred` | the transport fred; used without any setting if it is the only one built in |
//! | `tls` | the schemes with `rediss`, with either transport |
//!
//! At least one of the transports must be built in.
//!
//! Deliberately not here: retries of scripts, the step from `EVALSHA` to `EVAL`, any judgement of what a reply means.
//!
//! What this version connects to:
//!
//! | URL | what |
//! |---|---|
//! | `redis://[[user]:password@]host[:port][/db]` | a server by TCP; port 6379 and database 0 unless given |
//! | `unix:///path/to.sock[?db=N&user=…&password=…]` | a server by unix socket |
//! | `redis-cluster://[[user]:password@]host[:port][,…][?node=…&map=…]` | a cluster, by any of its nodes |
//! | `redis-sentinel://[[user]:password@]host[:port][,…]/service[/db][?map=…&sentinel_password=…]` | the primary that sentinels watch |
//!
//! Percent-encode characters that have a meaning in URLs (`/ : @ ? # % & =`) in names and passwords. For TLS, enable the feature
//! `tls` and write `rediss` instead of `redis`; its settings are `ca`, `cert` and `key`. If a server announces an address that you
//! cannot reach, `map=announced=reached` gives the address to use instead. For a password that changes, use `password-file=/path`,
//! or let [`RedisOptions::credentials`] ask the service that issues tokens.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(not(any(feature = "redis-rs", feature = "fred")))]
compile_error!(
    "lockkeeper-redis needs a transport: enable its feature `redis-rs`, which it has by default, or `fred`"
);

mod advice;
mod cluster;
mod command_connection;
mod connection;
mod connection_slot;
mod credentials;
mod deployment;
mod dialer;
mod events;
mod failure;
mod locator;
mod native;
mod options;
mod replica_wait_pool;
mod reply;
mod request;
mod seeds;
mod sentinel;
mod sharding;
mod single;
mod store;
mod subscriber;
mod target;
mod tls;
mod translation;
mod wire;

pub use credentials::{Credentials, CredentialsProvider, PasswordFile};
pub use options::{RedisOptions, Transport};
pub use store::RedisStore;
