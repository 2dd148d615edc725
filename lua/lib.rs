//! The Lua scripts of Lockkeeper: the protocol that every client speaks to the server.
//!
//! This crate holds data and nothing else. Each [`Script`] is one file of this folder with the fragments it uses joined
//! in front, and a typed description of its contract; the README beside it has the rules and the table of statuses.
//!
//! ```
//! use lockkeeper_lua::mutex;
//!
//! assert_eq!(mutex::RENEW.keys, ["main"]);
//! assert_eq!(mutex::RENEW.args, ["request", "claim", "ttl"]);
//! ```

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[macro_use]
mod script;
mod status;

pub use script::Script;
use script::{pinned_sha1, pinned_sharded_sha1};
pub use status::Status;

/// One holder at a time.
pub mod mutex {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes a claim the holder of a free name.
    pub const ACQUIRE: Script = script!(
        "mutex/acquire",
        with ["clock", "fence", "holder", "lease"],
        keys ["main", "fence", "tombstone"],
        args ["request", "claim", "ttl", "floor", "token"],
        replies [Status::Granted, Status::Busy, Status::Revoked, Status::Gone, Status::WrongKind],
    );

    /// Arms the leases of claims that hold; a batch.
    pub const RENEW: Script = script!(
        "mutex/renew",
        with ["holder", "lease"],
        keys ["main"],
        args ["request", "claim", "ttl"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// The claim goes, every acquire of it having been answered.
    pub const RELEASE: Script = script!(
        "mutex/release",
        with ["holder", "wake", "cooldown"],
        keys ["main"],
        args ["request", "claim", "channel", "cooldown"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// The claim goes while an acquire of it is unanswered, and leaves a mark that stops that acquire.
    pub const RELEASE_IN_DOUBT: Script = script!(
        "mutex/release_in_doubt",
        with ["holder", "wake", "cooldown"],
        keys ["main", "tombstone"],
        args ["request", "claim", "channel", "cooldown", "ttl"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Asks whether a claim holds; changes nothing.
    pub const VERIFY: Script = script!(
        "mutex/verify",
        with ["holder"],
        keys ["main"],
        args ["request", "claim"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );
}

/// One holder at a time, which may come in again.
pub mod reentrant {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes a claim a holder of a name that is free or its owner's.
    pub const ACQUIRE: Script = script!(
        "reentrant/acquire",
        with ["clock", "fence", "lease", "holders"],
        keys ["main", "fence", "tombstone"],
        args ["request", "claim", "ttl", "floor", "token", "owner"],
        replies [Status::Granted, Status::Busy, Status::Revoked, Status::Gone, Status::WrongKind],
    );

    /// Arms the leases of claims that hold; a batch.
    pub const RENEW: Script = script!(
        "reentrant/renew",
        with ["clock", "lease", "member"],
        keys ["main"],
        args ["request", "claim", "ttl"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// The claim goes, every acquire of it having been answered.
    pub const RELEASE: Script = script!(
        "reentrant/release",
        with ["clock", "lease", "wake", "holders", "take_out"],
        keys ["main"],
        args ["request", "claim", "channel", "cooldown"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// The claim goes while an acquire of it is unanswered, and leaves a mark that stops that acquire.
    pub const RELEASE_IN_DOUBT: Script = script!(
        "reentrant/release_in_doubt",
        with ["clock", "lease", "wake", "holders", "take_out"],
        keys ["main", "tombstone"],
        args ["request", "claim", "channel", "cooldown", "ttl"],
        replies [Status::Released, Status::Cooldown, Status::NotHeld],
    );

    /// Asks whether a claim holds; changes nothing.
    pub const VERIFY: Script = script!(
        "reentrant/verify",
        with ["clock", "member"],
        keys ["main"],
        args ["request", "claim"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );
}

/// One holder at a time, first come, first served. Its leases are renewed and verified by the scripts of
/// [`reentrant`]: under the main key lies the same.
pub mod fair {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes a claim a holder of a name that is free or its owner's, or lets it wait in turn.
    pub const ACQUIRE: Script = script!(
        "fair/acquire",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "queue", "place", "stand", "hold", "turn"
        ],
        keys ["main", "fence", "tombstone", "queue", "waiters"],
        args [
            "request", "claim", "ttl", "floor", "token", "owner", "waiter_ttl", "channel", "queue_limit",
        ],
        replies [
            Status::Granted,
            Status::Waiting,
            Status::Busy,
            Status::QueueFull,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Claims that wait say that they are alive; a batch.
    pub const HEARTBEAT: Script = script!(
        "fair/heartbeat",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "queue", "place", "hold", "turn"
        ],
        keys ["main", "fence", "queue", "waiters"],
        args ["request", "claim", "ttl", "floor", "waiter_ttl", "channel"],
        items [Status::Granted, Status::Waiting, Status::More, Status::Revoked, Status::Gone],
    );

    /// The claim goes, whether it holds or waits, and the next in the queue holds.
    pub const RELEASE: Script = script!(
        "fair/release",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "take_out", "queue", "place", "hold", "turn"
        ],
        keys ["main", "fence", "tombstone", "queue", "waiters"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl", "floor", "waiter_ttl"],
        replies [Status::Released, Status::Cooldown, Status::More, Status::NotHeld],
    );

    /// How many wait, and where among them a claim is; changes nothing.
    pub const QUEUE: Script = script!(
        "fair/queue",
        with [],
        keys ["queue"],
        args ["request", "claim"],
        replies [Status::Queued, Status::WrongKind],
    );
}

/// One owner that writes, or any number that read, first come, first served. The leases of writers are renewed and verified
/// by the scripts of [`reentrant`]; the queue is asked about by [`fair::QUEUE`].
pub mod rwlock {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes a claim a holder in its mode, if nobody excludes it, or lets it wait in turn.
    pub const ACQUIRE: Script = script!(
        "rwlock/acquire",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "queue", "place", "stand", "hold", "readers",
            "reading", "phase", "enter", "turns"
        ],
        keys ["main", "fence", "tombstone", "queue", "waiters", "readers"],
        args [
            "request", "claim", "ttl", "floor", "token", "owner", "waiter_ttl", "channel", "queue_limit", "mode",
            "known",
        ],
        replies [
            Status::Granted,
            Status::Waiting,
            Status::Busy,
            Status::QueueFull,
            Status::WouldDeadlock,
            Status::More,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Claims that wait say that they are alive; a batch.
    pub const HEARTBEAT: Script = script!(
        "rwlock/heartbeat",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "queue", "place", "hold", "readers", "reading",
            "phase", "enter", "turns"
        ],
        keys ["main", "fence", "queue", "waiters", "readers"],
        args ["request", "claim", "ttl", "floor", "waiter_ttl", "channel", "mode"],
        items [Status::Granted, Status::Waiting, Status::More, Status::Revoked, Status::Gone],
    );

    /// The claim goes, whether it holds or waits, and the next in the queue hold.
    pub const RELEASE: Script = script!(
        "rwlock/release",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "take_out", "queue", "place", "hold", "readers",
            "reading", "phase", "turns"
        ],
        keys ["main", "fence", "tombstone", "queue", "waiters", "readers"],
        args [
            "request", "claim", "channel", "cooldown", "tombstone_ttl", "floor", "waiter_ttl", "mode", "known",
        ],
        replies [Status::Released, Status::Cooldown, Status::More, Status::NotHeld],
    );

    /// A claim goes and another of its owner holds in the other mode.
    pub const CONVERT: Script = script!(
        "rwlock/convert",
        with [
            "clock", "client", "fence", "lease", "wake", "holders", "take_out", "queue", "place", "hold", "readers",
            "reading", "phase", "turns"
        ],
        keys ["main", "fence", "tombstone", "queue", "waiters", "readers", "old_gone"],
        args [
            "request", "claim", "ttl", "floor", "waiter_ttl", "channel", "mode", "old", "tombstone_ttl",
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

    /// Arms the leases of claims that read; a batch.
    pub const RENEW_READ: Script = script!(
        "rwlock/renew_read",
        with ["clock", "lease", "reader"],
        keys ["readers"],
        args ["request", "claim", "ttl"],
        items [Status::Renewed, Status::Revoked, Status::Gone],
    );

    /// Asks whether a claim reads; changes nothing.
    pub const VERIFY_READ: Script = script!(
        "rwlock/verify_read",
        with ["clock", "reader"],
        keys ["readers"],
        args ["request", "claim"],
        replies [Status::Held, Status::Revoked, Status::Gone],
    );
}

/// One holder at a time by a majority of several servers, on each of which the claim lies as a [`mutex`]'s does: it is
/// renewed, left for and verified by the scripts of that.
pub mod redlock {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes a claim the holder of a name that is free on this server, if the server takes part.
    pub const ACQUIRE: Script = script!(
        "redlock/acquire",
        with ["clock", "fence", "holder", "lease", "uptime"],
        keys ["main", "fence", "tombstone"],
        args ["request", "claim", "ttl", "floor", "longest"],
        replies [
            Status::Granted,
            Status::Busy,
            Status::Quarantined,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Writes a token back where the claim holds.
    pub const RAISE: Script = script!(
        "redlock/raise",
        with ["clock", "fence", "holder"],
        keys ["main", "fence"],
        args ["request", "claim", "ttl", "token"],
        replies [Status::Raised, Status::Revoked, Status::Gone],
    );
}

/// Several names, each a [`mutex`] or a [`reentrant`] lock, taken all or none. Leases are renewed and verified by the scripts of
/// each kind: under each name lies what that kind writes.
pub mod multi {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes claims holders of free names, all of them or none; a batch.
    pub const ACQUIRE: Script = script!(
        "multi/acquire",
        with ["clock", "client", "fence", "lease", "wake", "holder", "holders", "hold", "several"],
        keys ["main", "fence", "tombstone"],
        args ["request", "claim", "ttl", "floor", "kind"],
        items [
            Status::Granted,
            Status::Free,
            Status::Busy,
            Status::Revoked,
            Status::Gone,
            Status::WrongKind,
        ],
    );

    /// Claims go, each from a name of its own; a batch.
    pub const RELEASE: Script = script!(
        "multi/release",
        with ["clock", "lease", "holder", "holders", "wake", "cooldown", "take_text", "take_out"],
        keys ["main", "tombstone"],
        args ["request", "claim", "channel", "cooldown", "tombstone_ttl", "kind"],
        items [Status::Released, Status::Cooldown, Status::NotHeld],
    );
}

/// What is done to a name from outside, whatever its kind.
pub mod name {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// What a name holds; changes nothing.
    pub const INSPECT: Script = script!(
        "name/inspect",
        with ["clock", "holder", "holders", "listeners", "client", "any"],
        keys ["main", "fence", "queue", "readers"],
        args ["request", "channel"],
        replies [Status::Found, Status::Free, Status::WrongKind],
    );

    /// Tells who holds a name to let it go.
    pub const REVOKE: Script = script!(
        "name/revoke",
        with ["clock", "holder", "holders", "client", "any", "tell"],
        keys ["main", "readers"],
        args ["request"],
        replies [Status::Told, Status::Free, Status::WrongKind],
    );

    /// Takes a name from its holder by force.
    pub const FREE: Script = script!(
        "name/free",
        with ["clock", "holder", "holders", "wake", "client", "any", "tell"],
        keys ["main", "readers"],
        args ["request", "claim", "channel"],
        replies [Status::Released, Status::NotHeld, Status::WrongKind],
    );

    /// Who waits for a name in a queue; changes nothing.
    pub const WAITERS: Script = script!(
        "name/waiters",
        with [],
        keys ["queue"],
        args ["request", "first", "last"],
        replies [Status::Waiters, Status::WrongKind],
    );
}

/// What a server has and is. These name no key: a deployment of several servers is asked one by one.
pub mod server {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// A page of the keys that match; changes nothing.
    pub const SCAN: Script = script!(
        "server/scan",
        with [],
        keys [],
        args ["request", "cursor", "pattern", "count"],
        replies [Status::Page],
    );

    /// What the server is; changes nothing.
    pub const DESCRIBE: Script = script!(
        "server/describe",
        with [],
        keys [],
        args ["request"],
        replies [Status::Server],
    );

    /// What the user may not do of what locks of all kinds have in common; changes nothing.
    pub const RIGHTS: Script = script!(
        "server/rights",
        with ["messages"],
        keys [],
        args ["request", "main", "wake", "grant", "client"],
        replies [Status::Rights],
    );
}

/// Who a client is.
pub mod client {
    use super::{Script, Status, pinned_sha1, pinned_sharded_sha1};

    /// Makes known who a client is.
    pub const INTRODUCE: Script = script!(
        "client/introduce",
        with [],
        keys ["client"],
        args ["request", "label", "ttl"],
        replies [Status::Known],
    );

    /// Who a client is; changes nothing.
    pub const LABEL: Script = script!(
        "client/label",
        with ["holder"],
        keys ["client"],
        args ["request"],
        replies [Status::Known, Status::Gone],
    );
}

/// Every script there is.
pub const ALL: &[&Script] = &[
    &mutex::ACQUIRE,
    &mutex::RENEW,
    &mutex::RELEASE,
    &mutex::RELEASE_IN_DOUBT,
    &mutex::VERIFY,
    &reentrant::ACQUIRE,
    &reentrant::RENEW,
    &reentrant::RELEASE,
    &reentrant::RELEASE_IN_DOUBT,
    &reentrant::VERIFY,
    &fair::ACQUIRE,
    &fair::HEARTBEAT,
    &fair::RELEASE,
    &fair::QUEUE,
    &rwlock::ACQUIRE,
    &rwlock::HEARTBEAT,
    &rwlock::RELEASE,
    &rwlock::CONVERT,
    &rwlock::RENEW_READ,
    &rwlock::VERIFY_READ,
    &redlock::ACQUIRE,
    &redlock::RAISE,
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
    &client::LABEL,
];

#[cfg(test)]
mod tests;
