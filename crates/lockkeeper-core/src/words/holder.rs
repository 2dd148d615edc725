//! Who holds a name and who waits for it, as the server tells it to whoever asks.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::words::owner::Owner;

/// One claim that holds a name or keeps others out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The claim, by which [`force_release`](crate::Client::force_release) knows it. Of another library's that is no text which can be
    /// shown: `hex:` and two digits for each byte. Of Redisson's: `<uuid>:<thread id>`, and `:write` behind it where a
    /// read-write lock is written.
    pub claim: String,
    /// Whose claim it is; `None` of another library's.
    pub owner: Option<Owner>,
    /// The [label](crate::ClientBuilder::label) of the client that made that owner, which need not be the one that holds.
    /// `None` if it has none.
    pub label: Option<String>,
    /// What its acquisition [noted](crate::Acquire::note) of itself, if it is 100 ms old.
    pub note: Option<String>,
    /// When it was granted by the server's clock, or some time before if several hold by one token; `None` if its token does not say.
    pub since: Option<SystemTime>,
    /// How long it holds, or keeps the name, unless it is renewed; `None`: without end, as some other libraries have it.
    pub left: Option<Duration>,
    /// What has become of it.
    pub state: HolderState,
    /// Whether others of its kind may hold beside it: it reads, or has permits of a semaphore.
    pub shared: bool,
    /// Of a semaphore: how many permits it has. Of a latch, which its last arming holds: how many counts are to come.
    pub permits: Option<u32>,
}

impl Holder {
    /// A claim that holds alone and of which nothing else is known: for a test of your own code, which sets what it needs.
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
    /// assert_eq!(holder.to_string(), "web-1:4711, for 12.0s more");
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
        }
    }
}

/// One claim that waits for a name in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The claim.
    pub claim: String,
    /// Whose claim it is.
    pub owner: Option<Owner>,
    /// The [label](crate::ClientBuilder::label) of the client that made that owner. `None` if it has none.
    pub label: Option<String>,
    /// What its acquisition [noted](crate::Acquire::note) of itself, if it is 100 ms old.
    pub note: Option<String>,
}

impl Waiter {
    /// A claim that waits and of which nothing else is known: for a test of your own code, which sets what it needs.
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

/// What has become of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HolderState {
    /// It holds.
    Held,
    /// It holds, has been told to leave, and is not renewed.
    Revoked,
    /// It has left before its shortest time to hold was over, and keeps everybody out for the rest.
    Cooldown,
}

/// `web-1:4711 ("request 7f3a"), for 12.3s more`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known_as = self.label.as_deref().unwrap_or(&self.claim);
        write!(f, "{}", known_as.escape_debug())?;
        if let Some(note) = &self.note {
            write!(f, " ({note:?})")?;
        }
        match self.left {
            Some(left) => write!(f, ", for {left:.1?} more"),
            None => Ok(()),
        }
    }
}
