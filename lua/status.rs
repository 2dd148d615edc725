/// The status of a reply, its second field. The README of this folder lists the fields of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The claim holds; the reply carries its token.
    Granted,
    /// Other claims hold or wait, or the name is in cooldown; the reply carries for how many ms more.
    Busy,
    /// The server grants nothing for a while, because it may have lost claims; the reply carries the ms until it takes part again.
    Quarantined,
    /// The claim waits in a queue; the reply carries its place. To an acquire, and to a heartbeat of the first waiter, it also carries the ms until the
    /// first of the holders' leases ends.
    Waiting,
    /// The claim would have to wait, but the queue is full; the reply carries its length.
    QueueFull,
    /// The claim would wait for another claim of its own owner.
    WouldDeadlock,
    /// The claim asks for more parts than there are; the reply carries how many there are.
    OverLimit,
    /// One run does not finish the work: the script must be run again at once.
    More,
    /// The script did nothing, because it is for the simplest case only: the full one must be run at once.
    Inflated,
    /// The claim holds, and at least the ttl of its lease remains.
    Renewed,
    /// The claim holds, and the next token of the name on this server is larger than the one in the request.
    Raised,
    /// The claim holds; the reply carries the ms until its lease ends.
    Held,
    /// The claim holds but is revoked; its lease is no longer extended.
    Revoked,
    /// The claim held or waited, and is removed; the reply says whether the server sent the messages, and how many claims its owner still has.
    Released,
    /// The claim held and is released, and its name is in cooldown; the reply says whether the server sent the messages, and for how many ms more the
    /// cooldown lasts.
    Cooldown,
    /// The claim held alone and is removed, and nobody was told.
    Dropped,
    /// There was nothing to release; the reply says how many claims the owner has.
    NotHeld,
    /// The claim, record, latch or label is not there.
    Gone,
    /// The name holds data of another kind, or one of its keys has another type.
    WrongKind,
    /// The name is held; the reply lists the claims.
    Found,
    /// A claim leads; the reply carries its token, the claim, the ms until its lease ends, and what it has proclaimed.
    Leader,
    /// Nobody holds the name.
    Free,
    /// The queue, which may be empty; the reply carries its length and the claim's place in it.
    Queued,
    /// The name is held or waited for; the reply carries how many parts there are, how many are taken, and how many claims wait.
    Limit,
    /// The work of a name is done or has failed, or a latch is not armed; the reply carries the outcome.
    Stored,
    /// The latch is armed or open; the reply carries how many counts are missing. For a semaphore of Redisson's, how many permits are available.
    Counts,
    /// Claims are revoked, and their clients were told; the reply says how many claims.
    Told,
    /// The label of a client, or the note of a claim.
    Known,
    /// The reply lists claims that wait, in order.
    Waiters,
    /// The reply carries some of the server's keys, and the cursor of the next page.
    Page,
    /// The reply carries the server's clock and the text of its `INFO`.
    Server,
    /// The reply lists what the user may not do.
    Rights,
    /// A batch was run; the reply carries one outcome for each item: a status, or a list of the status and its fields.
    Done,
}

impl Status {
    /// Every status, in the order of the README's table.
    pub const ALL: &'static [Self] = &[
        Self::Granted,
        Self::Busy,
        Self::Quarantined,
        Self::Waiting,
        Self::QueueFull,
        Self::WouldDeadlock,
        Self::OverLimit,
        Self::More,
        Self::Inflated,
        Self::Renewed,
        Self::Raised,
        Self::Held,
        Self::Revoked,
        Self::Released,
        Self::Cooldown,
        Self::Dropped,
        Self::NotHeld,
        Self::Gone,
        Self::WrongKind,
        Self::Found,
        Self::Leader,
        Self::Free,
        Self::Queued,
        Self::Limit,
        Self::Stored,
        Self::Counts,
        Self::Told,
        Self::Known,
        Self::Waiters,
        Self::Page,
        Self::Server,
        Self::Rights,
        Self::Done,
    ];

    /// The word for it in a reply.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "GRANTED",
            Self::Busy => "BUSY",
            Self::Quarantined => "QUARANTINED",
            Self::Waiting => "WAITING",
            Self::QueueFull => "QUEUE_FULL",
            Self::WouldDeadlock => "WOULD_DEADLOCK",
            Self::OverLimit => "OVER_LIMIT",
            Self::More => "MORE",
            Self::Inflated => "INFLATED",
            Self::Renewed => "RENEWED",
            Self::Raised => "RAISED",
            Self::Held => "HELD",
            Self::Revoked => "REVOKED",
            Self::Released => "RELEASED",
            Self::Cooldown => "COOLDOWN",
            Self::Dropped => "DROPPED",
            Self::NotHeld => "NOT_HELD",
            Self::Gone => "GONE",
            Self::WrongKind => "WRONG_KIND",
            Self::Found => "FOUND",
            Self::Leader => "LEADER",
            Self::Free => "FREE",
            Self::Queued => "QUEUED",
            Self::Limit => "LIMIT",
            Self::Stored => "STORED",
            Self::Counts => "COUNTS",
            Self::Told => "TOLD",
            Self::Known => "KNOWN",
            Self::Waiters => "WAITERS",
            Self::Page => "PAGE",
            Self::Server => "SERVER",
            Self::Rights => "RIGHTS",
            Self::Done => "DONE",
        }
    }

    /// Parses the second field of a reply; `None` if it is not a status.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|status| status.as_str() == word)
    }
}
