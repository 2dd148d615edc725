//! Holders and waiters of a name, as inspection shows them.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::words::owner::Owner;

/// One claim that holds a name or keeps others out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The claim. You can pass it to [`force_release`](crate::Client::force_release). Another library's value that is
    /// not printable text is shown as `hex:` and two digits for each byte. For Redisson it is `<uuid>:<thread id>`,
    /// followed by `:write` for the writer of a read-write lock.
    pub claim: String,
    /// The owner of the claim; `None` for another library's.
    pub owner: Option<Owner>,
    /// The [label](crate::ClientBuilder::label) of the client that made that owner, which may differ from the client
    /// that holds. `None` if it has none.
    pub label: Option<String>,
    /// The [note](crate::Acquire::note) of its acquisition, if the claim is at least 100 ms old.
    pub note: Option<String>,
    /// When it was granted, by the server's clock. If several claims share one token, this is when that token was drawn.
    /// `None` if the token is not a time.
    pub since: Option<SystemTime>,
    /// How much longer it holds, or stays in its cooldown, unless it is renewed. `None` if it has no end, as with some
    /// other libraries.
    pub left: Option<Duration>,
    /// The state of the claim.
    pub state: HolderState,
    /// Whether other claims may hold at the same time: it reads, or has permits of a semaphore.
    pub shared: bool,
    /// For a semaphore, how many permits it has. For a latch, how many counts are missing; its holder is the claim that
    /// last armed it.
    pub permits: Option<u32>,
    /// For a lock of Redisson's that its own [`inspect`](crate::Lock::inspect) shows, how often its owner holds it, through
    /// this library and in Java. For a read-write lock, where each claim of this library is shown, 1 for such a claim, and
    /// for another holder how often it holds beside those.
    pub holds: Option<u32>,
}

impl Holder {
    /// A holder with this claim, for tests of your own code. Set the other fields as the test needs.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lockkeeper_core::Holder;
    ///
    /// let mut holder = Holder::new("67e55044-10b1-426f-9247-bb680e5fe0c8:7/9c1f4d03a2b75e68");
    /// holder.label = Some("web-1:4711".to_owned());
    /// holder.left = Some(Duration::from_secs(12));
    /// assert_eq!(holder.to_string(), "web-1:4711, for 12.0s more unless renewed");
    /// assert!(holder.owner.is_some_and(|owner| owner.to_string().ends_with(":7")));
    /// ```
    pub fn new(claim: impl Into<String>) -> Self {
        let claim = claim.into();
        Self {
            owner: Owner::of_claim(&claim),
            claim,
            label: None,
            note: None,
            since: None,
            left: None,
            state: HolderState::Held,
            shared: false,
            permits: None,
            holds: None,
        }
    }
}

/// One claim that waits in the queue of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The claim.
    pub claim: String,
    /// The owner of the claim.
    pub owner: Option<Owner>,
    /// The [label](crate::ClientBuilder::label) of the client that made that owner. `None` if it has none.
    pub label: Option<String>,
    /// The [note](crate::Acquire::note) of its acquisition, if the claim is at least 100 ms old.
    pub note: Option<String>,
}

impl Waiter {
    /// A waiter with this claim, for tests of your own code. Set the other fields as the test needs.
    pub fn new(claim: impl Into<String>) -> Self {
        let claim = claim.into();
        Self {
            owner: Owner::of_claim(&claim),
            claim,
            label: None,
            note: None,
        }
    }
}

/// The state of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HolderState {
    /// It holds.
    Held,
    /// It holds, but has been asked to release, and is no longer renewed.
    Revoked,
    /// It was released before its [`min_hold`](crate::Acquire::min_hold) was over. Nobody can acquire the lock for the
    /// rest of that time.
    Cooldown,
}

/// `web-1:4711 ("request 7f3a"), for 12.3s more unless renewed`. A claim that is revoked or cools down is not renewed.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_as = self.label.as_deref().unwrap_or(&self.claim);
        write!(f, "{}", known_as.escape_debug())?;
        if let Some(note) = &self.note {
            write!(f, " ({note:?})")?;
        }
        if let Some(left) = self.left {
            write!(f, ", for {left:.1?} more")?;
            if self.state == HolderState::Held {
                f.write_str(" unless renewed")?;
            }
        }
        Ok(())
    }
}
