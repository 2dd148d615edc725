//! Locks on clusters, behind sentinels, with replicas, and on several servers.

mod cluster;
mod failover;
mod redlock;
mod replicas;
mod sentinel;
mod sharded;
