/// What a script answers: the second field of every reply. The README of this folder says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// The claim holds; the reply carries its token.
    Granted,
    /// Another claim holds; the reply carries the ms left to it.
    Busy,
    /// The claim holds and its lease has been armed.
    Renewed,
    /// The claim holds; the reply carries the ms left to it.
    Held,
    /// The claim held and is gone; the reply says whether the wake went out and what its owner still has.
    Left,
    /// There was nothing to leave.
    NotHeld,
    /// The claim is not there.
    Gone,
    /// The name holds another kind's data.
    WrongKind,
    /// A batch was run; the reply carries one status for each item.
    Done,
}

impl Status {
    /// Every status, in the order of the README's table.
    pub const ALL: &'static [Self] = &[
        Self::Granted,
        Self::Busy,
        Self::Renewed,
        Self::Held,
        Self::Left,
        Self::NotHeld,
        Self::Gone,
        Self::WrongKind,
        Self::Done,
    ];

    /// The word as it stands in a reply.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "GRANTED",
            Self::Busy => "BUSY",
            Self::Renewed => "RENEWED",
            Self::Held => "HELD",
            Self::Left => "LEFT",
            Self::NotHeld => "NOT_HELD",
            Self::Gone => "GONE",
            Self::WrongKind => "WRONG_KIND",
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
