//! Owners and claims: a logical [`Owner`], and the [`ClaimId`] of one acquisition by it.

use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::Arc;

use uuid::Uuid;

use crate::words::error::{Error, Result};

/// A logical holder, on whose behalf locks are held; as text, `<client uuid>:<number>`.
///
/// An owner is neither a task nor a thread, because async work moves between threads. Copies of an `Owner` are the same
/// holder. You can write it as text and read it back, even in another process.
///
/// # Examples
///
/// ```
/// use lockkeeper_core::Owner;
///
/// let owner: Owner = "67e55044-10b1-426f-9247-bb680e5fe0c8:7".parse()?;
/// assert_eq!(owner.to_string(), "67e55044-10b1-426f-9247-bb680e5fe0c8:7");
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    client: Uuid,
    number: u64,
}

impl Owner {
    pub(crate) const fn new(client: Uuid, number: u64) -> Self {
        Self { client, number }
    }

    /// Returns the owner of this claim, as [inspection](crate::Client::inspect) shows it; `None` for another
    /// library's claim.
    pub fn of_claim(claim: &str) -> Option<Self> {
        claim.split_once('/')?.0.parse().ok()
    }

    /// Returns whether the same [client](crate::Client) made both owners.
    pub fn shares_client_with(self, other: Self) -> bool {
        self.client() == other.client()
    }

    /// The client that made it.
    pub(crate) const fn client(self) -> Uuid {
        self.client
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once(':').and_then(|(client, number)| {
            Some(Self {
                client: Uuid::try_parse(client).ok()?,
                number: number.parse().ok()?,
            })
        });
        parsed
            .filter(|owner| owner.to_string() == text)
            .ok_or_else(|| {
                Error::config(format!(
                    "{text:?} is not an owner: expected `<uuid>:<number>`"
                ))
            })
    }
}

/// One acquisition by one owner, `<owner>/<64 random bits in hex>`. One guard stands for one claim, and a claim id is
/// never used again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId {
    text: Arc<str>,
    owner: Owner,
}

impl ClaimId {
    /// A claim of `owner`; `random` distinguishes it from the owner's other claims.
    pub fn new(owner: Owner, random: u64) -> Self {
        let mut text = String::with_capacity(80);
        // Writing to a string cannot fail.
        let _ = write!(text, "{owner}/{random:016x}");
        Self {
            text: text.into(),
            owner,
        }
    }

    /// Returns the owner of the claim.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// The claim as it is written on the server, shared.
    pub(crate) fn text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The first 8 characters of its client, and its random half. No other claim of a name has the same, but that is not the
    /// claim: whoever reads them in a key's name knows no claim.
    pub(crate) fn ends(&self) -> [&str; 2] {
        [&self.text[..8], &self.text[self.text.len() - 16..]]
    }

    /// Returns the claim as it is written on the server.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_owner_reads_back_as_written_and_nothing_else_does() {
        let owner = Owner::new(Uuid::from_u128(7), 42);
        assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
        for text in [
            "",
            ":",
            "x:1",
            "00000000-0000-0000-0000-000000000007:",
            "00000000-0000-0000-0000-000000000007:+1",
        ] {
            assert!(text.parse::<Owner>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_claim_is_its_owner_and_sixteen_hex_digits() {
        let claim = ClaimId::new(Owner::new(Uuid::from_u128(7), 1), 0xab);
        assert_eq!(
            claim.as_str(),
            "00000000-0000-0000-0000-000000000007:1/00000000000000ab"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_owner_that_writes_itself_so_or_an_error(
            text in prop_oneof!["\\PC*", "[0-9a-fA-F-]{30,40}:[+0-9]{0,21}", "[{(]?[0-9a-f]{32}[)}]?:7"],
        ) {
            match text.parse::<Owner>() {
                Ok(owner) => prop_assert_eq!(owner.to_string(), text),
                Err(error) => prop_assert!(error.to_string().contains("is not an owner")),
            }
        }

        #[test]
        fn every_owner_reads_back(client: u128, number: u64) {
            let owner = Owner::new(Uuid::from_u128(client), number);
            prop_assert_eq!(owner.to_string().parse::<Owner>().unwrap(), owner);
        }
    }
}
