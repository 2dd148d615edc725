//! Locks of Redisson, alone and beside a live Redisson in Java. A program of its own: its tests want a JVM each, so they do not stand
//! beside those that measure time.

mod alone;
mod beside_java;
mod cluster_beside_java;
mod contract;
mod counts_beside_java;
mod fair;
mod fair_beside_java;
mod fair_search;
mod full;
mod java;
mod keys;
mod latch_keys;
mod ours_beside_java;
mod permits_bounds;
mod permits_keys;
mod permits_lost;
mod permits_search;
mod prefix_beside_java;
mod rwlock_beside_java;
mod rwlock_keys;
mod rwlock_leases;
mod rwlock_search;
mod search;
mod support;
