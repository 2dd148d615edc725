/// What a script answers: the second field of every reply. The README of this folder says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The claim holds; the reply carries its token.
    Granted,
    /// Another claim holds; the reply carries the ms left to it.
    Busy,
    /// The server takes no part for a while, because it may have lost claims; the reply carries the ms until it does.
    Quarantined,
    /// The claim waits in a queue; the reply carries its place, and that of an acquire the ms left to the holder before it.
    Waiting,
    /// The claim was to wait, but as many as may do; the reply carries how many.
    QueueFull,
    /// The claim would wait for another of its own owner.
    WouldDeadlock,
    /// The claim asks for more than there is at all; the reply carries how much that is.
    OverLimit,
    /// There is more to do: the script is to be run again at once.
    More,
    /// The name is inflated: another script is to be run at once.
    Inflated,
    /// The claim holds and its lease has been armed.
    Renewed,
    /// The claim holds, and the next token of the name on this server is larger than the one in the request.
    Raised,
    /// The claim holds; the reply carries the ms left to it.
    Held,
    /// The claim holds, is to leave, and is renewed no more.
    Revoked,
    /// The claim held and is gone; the reply says whether the wake went out and what its owner still has.
    Released,
    /// The claim held and is gone, and the name is kept from others; the reply says whether the wake went out and for how long.
    Cooldown,
    /// There was nothing to leave.
    NotHeld,
    /// The claim is not there.
    Gone,
    /// The name holds another kind's data.
    WrongKind,
    /// The name is held; the reply says by whom.
    Found,
    /// A claim leads the name; the reply carries its token, the claim, the ms left to it, and what it has proclaimed.
    Leader,
    /// Nobody holds the name.
    Free,
    /// There is a queue, maybe an empty one; the reply carries its length and the claim's place in it.
    Queued,
    /// There is an end of the parts of a name; the reply carries how many there are, how many are taken, and how many claims wait.
    Limit,
    /// The work of a name is done, or has failed; the reply carries what has come of it.
    Stored,
    /// There is a latch; the reply carries how many of its counts are to come.
    Counts,
    /// Claims were told to leave; the reply says how many.
    Told,
    /// The client is known; the reply carries its label.
    Known,
    /// Claims that wait, in order.
    Waiters,
    /// Some of the server's keys; the reply carries where to go on.
    Page,
    /// What the server is; the reply carries its clock and what it says of itself.
    Server,
    /// What the user may not do; the reply lists it.
    Rights,
    /// A batch was run; the reply carries one outcome for each item: a status, or a list of it and its fields.
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

    /// The word as it stands in a reply.
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

    /// The status of a reply's second field; `None` for a word that is none.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|status| status.as_str() == word)
    }
}
