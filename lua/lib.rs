//! The Lua scripts of Lockkeeper: the protocol that every client speaks to the server.
//!
//! This crate contains only data. Each [`Script`] is one file of this folder, with the fragments it uses joined in front,
//! and a typed description of its contract. The README of this folder has the rules and the table of statuses.
//!
//! ```
//! use lockkeeper_lua::lock;
//!
//! assert_eq!(lock::RENEW.keys, ["main"]);
//! assert_eq!(lock::RENEW.args, ["request", "claim", "ttl"]);
//! ```

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[macro_use]
mod script;
mod status;

pub use script::Script;
use script::{pinned_sha1, pinned_sharded_sha1};
pub use status::Status;

/// Names of any kind that one server decides: claims hold shares of a name, and wait for them in a queue.
pub mod lock {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Grants a free name to a claim.
    pub const TAKE: Script = script!(
        "lock/take",
        with ["take", "token", "value"],
        keys ["main", "counter", "tombstone"],
        args ["request", "value", "ttl", "floor", "tries"],
        replies [Status::Granted, Status::Busy, Status::Inflated],
    );

    /// Grants a name to a claim, or lets the claim wait in the queue.
    pub const ACQUIRE: Script = script!(
        "lock/acquire",
        with [
            "clock", "token", "take_free", "client", "lease", "wake", "value", "members", "standing", "holding",
            "admit", "settle", "queue", "waiters", "place", "turns", "stand", "enter"
        ],
        keys ["main", "counter", "tombstone", "holders", "queue", "state"],
        args [
            "request", "claim", "ttl", "floor", "token", "kind", "share", "polled", "waiter_ttl", "channel",
            "queue_limit", "reenters",
        ],
        replies [
            Status::Granted,
            Status::Waiting,
            Status::Busy,
            Status::QueueFull,
            Status::WouldDeadlock,
            Status::OverLimit,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Keeps waiting claims alive; a batch.
    pub const HEARTBEAT: Script = script!(
        "lock/heartbeat",
        with [
            "clock", "token", "client", "lease", "wake", "value", "members", "standing", "holding", "admit", "settle",
            "queue", "waiters", "place", "turns", "heartbeat"
        ],
        keys ["main", "counter", "holders", "queue", "state"],
        once ["floor", "kind", "channel", "reenters"],
        args [
            "request", "claim", "ttl", "floor", "kind", "share", "waiter_ttl", "channel", "reenters",
        ],
        items [Status::Granted, Status::Waiting, Status::More, Status::Revoked, Status::Gone],
    );

    /// Extends the leases of claims that hold alone; a batch.
    pub const RENEW: Script = script!(
        "lock/renew",
        with ["lease", "value"],
        keys ["main"],
        args ["request", "claim", "ttl"],
        items [Status::Renewed, Status::Inflated, Status::Revoked, Status::Gone],
    );

    /// Extends the leases of claims whose names may be inflated; a batch.
    pub const RENEW_INFLATED: Script = script!(
        "lock/renew_inflated",
        with ["clock", "client", "lease", "value", "members"],
        keys ["main", "holders", "owners"],
        args ["request", "claim", "ttl", "share"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// Releases a claim that holds alone, if nobody is to be told.
    pub const DROP: Script = script!(
        "lock/drop",
        with [],
        keys ["main"],
        args ["request", "value"],
        replies [Status::Dropped, Status::Inflated],
    );

    /// Removes a claim, whether it holds or waits, and grants the name to the first waiters that fit.
    pub const RELEASE: Script = script!(
        "lock/release",
        with [
            "clock", "token", "client", "lease", "wake", "value", "thin", "members", "standing", "holding", "admit",
            "settle", "queue", "waiters", "place", "turns"
        ],
        keys ["main", "counter", "tombstone", "holders", "queue", "state"],
        args [
            "request", "claim", "kind", "share", "channel", "cooldown", "tombstone_ttl", "floor", "waiter_ttl",
            "reenters",
        ],
        replies [Status::Released, Status::Cooldown, Status::More, Status::NotHeld],
    );

    /// Replaces a claim that holds by a new one, without a gap.
    pub const CONVERT: Script = script!(
        "lock/convert",
        with [
            "clock", "token", "take_over", "client", "lease", "wake", "value", "members", "standing", "holding", "admit",
            "settle", "queue", "waiters", "place", "turns"
        ],
        keys ["main", "counter", "tombstone", "holders", "queue", "state", "old_tombstone"],
        args [
            "request", "claim", "ttl", "floor", "kind", "share", "waiter_ttl", "channel", "old", "old_share",
            "tombstone_ttl",
        ],
        replies [
            Status::Granted,
            Status::Busy,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Reads how many parts a name has and how many are taken, or first sets how many it has.
    pub const LIMIT: Script = script!(
        "lock/limit",
        with [
            "clock", "token", "client", "lease", "wake", "value", "members", "standing", "holding", "admit", "settle",
            "queue", "waiters", "turns"
        ],
        keys ["main", "counter", "holders", "queue", "state"],
        args ["request", "limit", "floor", "kind", "waiter_ttl", "channel"],
        replies [Status::Limit, Status::Free, Status::More, Status::WrongKind],
    );

    /// Checks whether a claim holds alone; changes nothing.
    pub const VERIFY: Script = script!(
        "lock/verify",
        with ["value"],
        keys ["main"],
        args ["request", "claim"],
        replies [Status::Held, Status::Inflated, Status::Revoked, Status::Gone],
    );

    /// Checks whether a claim holds a name that may be inflated; changes nothing.
    pub const VERIFY_INFLATED: Script = script!(
        "lock/verify_inflated",
        with ["clock", "client", "value", "members", "standing", "holding"],
        keys ["main", "holders"],
        args ["request", "claim", "share"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );

    /// Reads how many claims wait for a name, and the place of one of them; changes nothing.
    pub const QUEUE: Script = script!(
        "lock/queue",
        with ["value", "members"],
        keys ["main", "queue"],
        args ["request", "claim", "share"],
        replies [Status::Queued, Status::WrongKind],
    );
}

/// Work that is done once. The claim of the worker holds the name, and the scripts of [`lock`] renew, release and verify it. The
/// outcome of the work is stored in a key beside it.
pub mod once {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Reads the outcome of the work, or lets a claim do it.
    pub const ACQUIRE: Script = script!(
        "once/acquire",
        with ["record"],
        before "lock/acquire" with [
            "clock", "token", "take_free", "client", "lease", "wake", "value", "members", "standing", "holding",
            "admit", "settle", "queue", "waiters", "place", "turns", "stand", "enter"
        ],
        keys ["main", "counter", "tombstone", "holders", "queue", "state", "record"],
        args [
            "request", "claim", "ttl", "floor", "token", "kind", "share", "polled", "waiter_ttl", "channel",
            "queue_limit", "reenters",
        ],
        replies [
            Status::Stored,
            Status::Granted,
            Status::Waiting,
            Status::Busy,
            Status::QueueFull,
            Status::WouldDeadlock,
            Status::OverLimit,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Stores the outcome of the work, and releases the claim that did it.
    pub const STORE: Script = script!(
        "once/store",
        with ["clock", "wake", "value", "thin", "record"],
        keys ["main", "tombstone", "record"],
        args [
            "request", "claim", "token", "channel", "tombstone_ttl", "keep_for", "form", "fingerprint", "value",
        ],
        replies [Status::Released, Status::Gone],
    );

    /// Reads the outcome of the work, or deletes it.
    pub const RECORD: Script = script!(
        "once/record",
        with ["record"],
        keys ["record"],
        args ["request", "forget"],
        replies [Status::Stored, Status::Gone, Status::WrongKind],
    );
}

/// A latch, which opens after enough counts. Its waiters have claims, which never hold.
pub mod latch {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Arms the latch: sets how many counts open it.
    pub const ARM: Script = script!(
        "latch/arm",
        with ["value", "latch"],
        keys ["main", "counted"],
        args ["request", "claim", "n", "ttl"],
        replies [Status::Counts, Status::WrongKind],
    );

    /// Counts the latch down for an id; the last count opens it.
    pub const COUNT_DOWN: Script = script!(
        "latch/count_down",
        with ["wake", "value", "latch"],
        keys ["main", "counted"],
        args ["request", "id", "channel"],
        replies [Status::Counts, Status::Gone, Status::WrongKind],
    );

    /// Reads the state of the latch; changes nothing.
    pub const LOOK: Script = script!(
        "latch/look",
        with ["value", "latch"],
        keys ["main", "counted"],
        args ["request"],
        replies [Status::Busy, Status::Stored, Status::WrongKind],
    );
}

/// Who leads. The claim of the leader holds the name, and the scripts of [`lock`] queue, renew, release and verify it. The value that
/// it proclaims is stored in the name's state.
pub mod election {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Stores the value that the leader proclaims.
    pub const PROCLAIM: Script = script!(
        "election/proclaim",
        with [
            "clock", "token", "client", "lease", "wake", "value", "members", "standing", "holding", "admit", "settle",
            "leader"
        ],
        keys ["main", "holders", "queue", "state"],
        args ["request", "claim", "term", "number", "label", "value", "channel"],
        replies [Status::Leader, Status::Revoked, Status::Gone, Status::WrongKind],
    );

    /// Reads who leads, and what it has proclaimed; changes nothing.
    pub const LEADER: Script = script!(
        "election/leader",
        with ["clock", "client", "value", "members", "standing", "leader"],
        keys ["main", "holders", "state"],
        args ["request", "kind"],
        replies [Status::Leader, Status::Free, Status::WrongKind],
    );

    /// Chooses the waiter that leads next.
    pub const PREFER: Script = script!(
        "election/prefer",
        with [
            "clock", "token", "client", "lease", "wake", "value", "members", "standing", "holding", "admit", "settle",
            "queue", "waiters", "place"
        ],
        keys ["main", "holders", "queue", "state"],
        args ["request", "claim", "waiter_ttl", "next"],
        replies [Status::Queued, Status::Gone],
    );
}

/// Locks that a majority of several servers decides. On each server, the scripts of [`lock`] renew, release and verify the
/// claim.
pub mod redlock {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Grants a name that is free on this server to a claim, unless the server is quarantined.
    pub const ACQUIRE: Script = script!(
        "redlock/acquire",
        with ["clock", "token", "lease", "value", "uptime"],
        keys ["main", "counter", "tombstone"],
        args ["request", "claim", "ttl", "proposal", "longest", "polled"],
        replies [
            Status::Granted,
            Status::Busy,
            Status::Quarantined,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Writes the largest token back to a server on which the claim holds.
    pub const RAISE: Script = script!(
        "redlock/raise",
        with ["clock", "token", "value"],
        keys ["main", "counter"],
        args ["request", "claim", "token"],
        replies [Status::Raised, Status::Revoked, Status::Gone],
    );
}

/// Names that are shared with clients of Redisson, in its format. Data about our claims is in keys beside it.
pub mod redisson {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Grants a name that is free, or that its owner holds, to a claim.
    pub const ACQUIRE: Script = script!(
        "redisson/acquire",
        with ["clock", "token", "client", "lease", "redisson", "redisson_hold"],
        keys ["main", "claims", "tombstone", "counter"],
        args ["request", "claim", "ttl", "floor", "token", "fenced"],
        replies [
            Status::Granted,
            Status::Busy,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Extends the leases of claims; a batch.
    pub const RENEW: Script = script!(
        "redisson/renew",
        with ["client", "lease", "redisson"],
        keys ["main", "claims"],
        args ["request", "claim", "ttl"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// Releases a claim, and wakes waiters if it was its owner's last.
    pub const RELEASE: Script = script!(
        "redisson/release",
        with ["clock", "client", "wake", "redisson", "redisson_told"],
        keys ["main", "claims", "tombstone", "queue"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Checks whether a claim holds; changes nothing.
    pub const VERIFY: Script = script!(
        "redisson/verify",
        with ["client", "redisson"],
        keys ["main", "claims"],
        args ["request", "claim"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );

    /// Reads who holds; changes nothing.
    pub const INSPECT: Script = script!(
        "redisson/inspect",
        with ["client", "listeners", "redisson"],
        keys ["main", "claims", "queue"],
        args ["request", "channel", "kind"],
        replies [Status::Found, Status::Free, Status::WrongKind],
    );

    /// Asks our claims that hold a name to release it.
    pub const REVOKE: Script = script!(
        "redisson/revoke",
        with ["client", "tell", "redisson"],
        keys ["main", "claims"],
        args ["request"],
        replies [Status::Told, Status::Free, Status::WrongKind],
    );

    /// Takes a name from its holder by force.
    pub const FREE: Script = script!(
        "redisson/free",
        with ["client", "tell", "wake", "redisson"],
        keys ["main", "claims", "queue"],
        args ["request", "claim", "channel"],
        replies [Status::Released, Status::NotHeld, Status::WrongKind],
    );

    /// Lets a claim wait in the queue of an `RFairLock`, or grants the name to it if its turn has come.
    pub const FAIR_ACQUIRE: Script = script!(
        "redisson/fair/acquire",
        with ["clock", "client", "lease", "redisson", "redisson_queue"],
        before "redisson/acquire" with ["token", "redisson_hold"],
        keys ["main", "claims", "tombstone", "counter", "queue", "timeouts", "places"],
        args ["request", "claim", "ttl", "floor", "token", "fenced", "wait", "queue_limit"],
        replies [
            Status::Waiting,
            Status::QueueFull,
            Status::Granted,
            Status::Busy,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Asks again for claims that wait for an `RFairLock`; a batch.
    pub const FAIR_HEARTBEAT: Script = script!(
        "redisson/fair/heartbeat",
        with ["clock", "token", "client", "lease", "redisson", "redisson_hold", "redisson_queue"],
        keys ["main", "claims", "counter", "queue", "timeouts", "places"],
        args ["request", "claim", "ttl", "floor", "wait"],
        items [Status::Granted, Status::Waiting, Status::Revoked, Status::Gone],
    );

    /// Removes a claim, whether it holds or waits, and tells the next waiter that its turn may have come.
    pub const FAIR_RELEASE: Script = script!(
        "redisson/fair/release",
        with ["clock", "client", "wake", "lease", "redisson", "redisson_queue", "redisson_told"],
        before "redisson/release" with [],
        keys ["main", "claims", "tombstone", "queue", "timeouts", "places"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl", "wait"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Reads how many owners wait for an `RFairLock`, and the place of one of our claims; changes nothing.
    pub const FAIR_QUEUE: Script = script!(
        "redisson/fair/queue",
        with ["client", "redisson"],
        keys ["queue", "places"],
        args ["request", "claim"],
        replies [Status::Queued, Status::WrongKind],
    );

    /// Grants an `RReadWriteLock` to a claim, to read or to write.
    pub const RWLOCK_ACQUIRE: Script = script!(
        "redisson/rwlock/acquire",
        with ["clock", "token", "client", "lease", "redisson", "redisson_rwlock"],
        keys ["main", "claims", "tombstone", "counter", "timeout"],
        args ["request", "claim", "mode", "ttl", "floor", "token"],
        replies [
            Status::Granted,
            Status::Busy,
            Status::WouldDeadlock,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Extends the leases of claims that read or write; a batch.
    pub const RWLOCK_RENEW: Script = script!(
        "redisson/rwlock/renew",
        with ["client", "lease", "redisson", "redisson_rwlock"],
        keys ["main", "claims", "timeout"],
        args ["request", "claim", "mode", "ttl"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// Releases a claim that reads or writes, and wakes waiters if they may hold now.
    pub const RWLOCK_RELEASE: Script = script!(
        "redisson/rwlock/release",
        with ["clock", "client", "lease", "wake", "redisson", "redisson_rwlock", "redisson_reads"],
        keys ["main", "claims", "tombstone", "timeout"],
        args ["request", "claim", "mode", "channel", "cooldown", "tombstone_ttl"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Checks whether a claim reads or writes; changes nothing.
    pub const RWLOCK_VERIFY: Script = script!(
        "redisson/rwlock/verify",
        with ["client", "lease", "redisson", "redisson_rwlock"],
        keys ["main", "claims", "timeout"],
        args ["request", "claim", "mode"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );

    /// Reads who reads or writes; changes nothing.
    pub const RWLOCK_INSPECT: Script = script!(
        "redisson/rwlock/inspect",
        with ["client", "lease", "listeners", "redisson", "redisson_rwlock"],
        keys ["main", "claims"],
        args ["request", "channel", "kind"],
        replies [Status::Found, Status::Free, Status::WrongKind],
    );

    /// Asks our claims that read or write to release the name.
    pub const RWLOCK_REVOKE: Script = script!(
        "redisson/rwlock/revoke",
        with ["client", "lease", "tell", "redisson", "redisson_rwlock"],
        keys ["main", "claims"],
        args ["request"],
        replies [Status::Told, Status::Free, Status::WrongKind],
    );

    /// Takes the hold of a claim or an owner of an `RReadWriteLock` by force.
    pub const RWLOCK_FREE: Script = script!(
        "redisson/rwlock/free",
        with ["client", "lease", "tell", "wake", "redisson", "redisson_rwlock"],
        keys ["main", "claims"],
        args ["request", "claim", "channel"],
        replies [Status::Released, Status::NotHeld, Status::WrongKind],
    );

    /// Takes permits of a semaphore for a claim, if enough are available.
    pub const PERMITS_ACQUIRE: Script = script!(
        "redisson/permits/acquire",
        with ["clock", "token", "lease", "wake", "text", "redisson_permits_facts", "redisson_permits", "redisson_permits_hold"],
        keys ["main", "ends", "claims", "tombstone", "counter"],
        args ["request", "claim", "ttl", "floor", "token", "permits", "leased", "channel"],
        replies [
            Status::Granted,
            Status::Busy,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Extends the leases of claims that hold permits; a batch.
    pub const PERMITS_RENEW: Script = script!(
        "redisson/permits/renew",
        with ["clock", "lease", "text", "redisson_permits_facts", "redisson_permits", "redisson_permits_hold"],
        keys ["main", "ends", "claims"],
        args ["request", "claim", "ttl", "leased"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// Gives back the permits of a claim, and wakes waiters.
    pub const PERMITS_RELEASE: Script = script!(
        "redisson/permits/release",
        with ["clock", "lease", "wake", "text", "redisson_permits_facts", "redisson_permits"],
        keys ["main", "ends", "claims", "tombstone"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl", "leased"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Checks whether a claim holds permits; changes nothing.
    pub const PERMITS_VERIFY: Script = script!(
        "redisson/permits/verify",
        with ["clock", "text", "redisson_permits_facts", "redisson_permits"],
        keys ["main", "ends", "claims"],
        args ["request", "claim", "leased"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );

    /// Reads who holds permits; changes nothing.
    pub const PERMITS_INSPECT: Script = script!(
        "redisson/permits/inspect",
        with ["clock", "listeners", "text", "redisson_permits_facts", "redisson_permits", "redisson_permits_shown"],
        keys ["main", "ends", "claims"],
        args ["request", "channel", "kind", "leased"],
        replies [Status::Found, Status::Free, Status::WrongKind],
    );

    /// Asks our claims that hold permits to release them.
    pub const PERMITS_REVOKE: Script = script!(
        "redisson/permits/revoke",
        with ["clock", "client", "tell", "text", "redisson_permits_facts", "redisson_permits"],
        keys ["main", "ends", "claims"],
        args ["request", "leased"],
        replies [Status::Told, Status::Free, Status::WrongKind],
    );

    /// Gives back the permits of a holder by force.
    pub const PERMITS_FREE: Script = script!(
        "redisson/permits/free",
        with ["client", "tell", "wake", "text", "redisson_permits_facts", "redisson_permits"],
        keys ["main", "ends", "claims"],
        args ["request", "claim", "channel", "leased"],
        replies [Status::Released, Status::NotHeld, Status::WrongKind],
    );

    /// Sets the number of permits of a semaphore, unless it is set; then reads how many are available.
    pub const PERMITS_SET: Script = script!(
        "redisson/permits/set",
        with ["clock", "wake", "text", "redisson_permits_facts", "redisson_permits"],
        keys ["main", "ends", "claims"],
        args ["request", "n", "channel", "leased"],
        replies [Status::Counts, Status::Gone, Status::More, Status::WrongKind],
    );

    /// Reads the state of a latch; changes nothing.
    pub const LATCH_LOOK: Script = script!(
        "redisson/latch/look",
        with ["text", "redisson_latch"],
        keys ["main"],
        args ["request"],
        replies [Status::Busy, Status::Stored, Status::WrongKind],
    );

    /// Sets how many counts open a latch, unless that is set.
    pub const LATCH_SET: Script = script!(
        "redisson/latch/set",
        with ["wake", "text", "redisson_latch"],
        keys ["main"],
        args ["request", "n", "channel"],
        replies [Status::Counts, Status::WrongKind],
    );

    /// Counts a latch down by one; a repeat counts again.
    pub const LATCH_COUNT_DOWN: Script = script!(
        "redisson/latch/count_down",
        with ["wake", "text", "redisson_latch"],
        keys ["main"],
        args ["request", "channel"],
        replies [Status::Counts, Status::WrongKind],
    );
}

/// Several names, each held by a claim of its own, acquired all or none. Each name's keys are those that its own kind writes, and the
/// scripts of [`lock`] renew and verify the claims.
pub mod multi {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Grants free names to claims, all of them or none; a batch.
    pub const ACQUIRE: Script = script!(
        "multi/acquire",
        with ["clock", "token", "client", "lease", "value", "several"],
        keys ["main", "counter", "tombstone"],
        args ["request", "claim", "ttl", "floor", "kind", "share", "polled"],
        items [
            Status::Granted,
            Status::Free,
            Status::Busy,
            Status::Inflated,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Releases claims, each under a name of its own; a batch.
    pub const RELEASE: Script = script!(
        "multi/release",
        with ["wake", "value", "thin"],
        keys ["main", "tombstone"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl"],
        items [Status::Released, Status::Cooldown, Status::Inflated, Status::NotHeld],
    );
}

/// Operations on a name from outside, whatever its kind.
pub mod name {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Reads the holders of a name; changes nothing.
    pub const INSPECT: Script = script!(
        "name/inspect",
        with ["clock", "client", "value", "members", "standing", "listeners", "any"],
        keys ["main", "holders", "queue", "state"],
        args ["request", "channel"],
        replies [Status::Found, Status::Free, Status::WrongKind],
    );

    /// Asks the holders of a name to release it.
    pub const REVOKE: Script = script!(
        "name/revoke",
        with [
            "clock", "client", "wake", "value", "members", "standing", "holding", "settle", "any", "tell"
        ],
        keys ["main", "holders", "queue", "state"],
        args ["request"],
        replies [Status::Told, Status::Free, Status::WrongKind],
    );

    /// Takes a name from its holder by force.
    pub const FREE: Script = script!(
        "name/free",
        with [
            "clock", "client", "wake", "value", "members", "standing", "holding", "settle", "any", "tell"
        ],
        keys ["main", "holders", "queue", "state"],
        args ["request", "claim", "channel"],
        replies [Status::Released, Status::NotHeld, Status::WrongKind],
    );

    /// Reads which claims wait in the queue of a name; changes nothing.
    pub const WAITERS: Script = script!(
        "name/waiters",
        with ["value"],
        keys ["main", "queue"],
        args ["request", "first", "last"],
        replies [Status::Waiters, Status::WrongKind],
    );
}

/// What a server is, which keys it has, and what its user may do. These scripts name no key, so each of several servers is asked separately.
pub mod server {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Reads a page of the keys that match; changes nothing.
    pub const SCAN: Script = script!(
        "server/scan",
        with [],
        keys [],
        args ["request", "cursor", "pattern", "count"],
        replies [Status::Page],
    );

    /// Reads the server's clock and its `INFO`; changes nothing.
    pub const DESCRIBE: Script = script!(
        "server/describe",
        with [],
        keys [],
        args ["request"],
        replies [Status::Server],
    );

    /// Reads which of the rights that locks of every kind need the user lacks; changes nothing.
    pub const RIGHTS: Script = script!(
        "server/rights",
        with ["messages"],
        keys [],
        args ["request", "main", "wake", "grant", "client"],
        replies [Status::Rights],
    );
}

/// The labels of clients and the notes of claims, for people to read.
pub mod client {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Stores the label of a client, or the note of a claim.
    pub const INTRODUCE: Script = script!(
        "client/introduce",
        with [],
        keys ["client"],
        args ["request", "label", "ttl"],
        replies [Status::Known],
    );

    /// Reads the labels of clients and the notes of their claims; changes nothing.
    pub const SAID: Script = script!(
        "client/said",
        with ["text"],
        keys ["client"],
        args ["request"],
        items [Status::Known, Status::Gone],
    );
}

/// Every script.
pub const ALL: &[&Script] = &[
    &lock::TAKE,
    &lock::ACQUIRE,
    &lock::HEARTBEAT,
    &lock::RENEW,
    &lock::RENEW_INFLATED,
    &lock::DROP,
    &lock::RELEASE,
    &lock::CONVERT,
    &lock::LIMIT,
    &lock::VERIFY,
    &lock::VERIFY_INFLATED,
    &lock::QUEUE,
    &once::ACQUIRE,
    &once::STORE,
    &once::RECORD,
    &latch::ARM,
    &latch::COUNT_DOWN,
    &latch::LOOK,
    &election::PROCLAIM,
    &election::LEADER,
    &election::PREFER,
    &redlock::ACQUIRE,
    &redlock::RAISE,
    &redisson::ACQUIRE,
    &redisson::RENEW,
    &redisson::RELEASE,
    &redisson::VERIFY,
    &redisson::INSPECT,
    &redisson::REVOKE,
    &redisson::FREE,
    &redisson::FAIR_ACQUIRE,
    &redisson::FAIR_HEARTBEAT,
    &redisson::FAIR_RELEASE,
    &redisson::FAIR_QUEUE,
    &redisson::RWLOCK_ACQUIRE,
    &redisson::RWLOCK_RENEW,
    &redisson::RWLOCK_RELEASE,
    &redisson::RWLOCK_VERIFY,
    &redisson::RWLOCK_INSPECT,
    &redisson::RWLOCK_REVOKE,
    &redisson::RWLOCK_FREE,
    &redisson::PERMITS_ACQUIRE,
    &redisson::PERMITS_RENEW,
    &redisson::PERMITS_RELEASE,
    &redisson::PERMITS_VERIFY,
    &redisson::PERMITS_INSPECT,
    &redisson::PERMITS_REVOKE,
    &redisson::PERMITS_FREE,
    &redisson::PERMITS_SET,
    &redisson::LATCH_LOOK,
    &redisson::LATCH_SET,
    &redisson::LATCH_COUNT_DOWN,
    &multi::ACQUIRE,
    &multi::RELEASE,
    &name::INSPECT,
    &name::REVOKE,
    &name::FREE,
    &name::WAITERS,
    &server::SCAN,
    &server::DESCRIBE,
    &server::RIGHTS,
    &client::INTRODUCE,
    &client::SAID,
];

#[cfg(test)]
mod tests;
