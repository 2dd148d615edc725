//! What the search must know of a kind: its protocol, and which claims may not hold at once.

use std::fmt;
use std::sync::Arc;

use lockkeeper_core::protocol::Protocol;
use lockkeeper_core::{ClaimId, Name, Owner, Result};

use super::bounds::Bounds;

/// One acquisition of one client: its place in the model, by which its claim is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat {
    /// Which client, counted from zero.
    pub client: u8,
    /// Which of its acquisitions, counted from zero.
    pub attempt: u8,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", letter(self.client), self.attempt + 1)
    }
}

/// Every seat of so many clients with so many attempts each.
pub(super) fn seats(clients: u8, attempts: u8) -> impl Iterator<Item = Seat> {
    (0..clients).flat_map(move |client| (0..attempts).map(move |attempt| Seat { client, attempt }))
}

/// The client as traces call it.
pub(super) fn letter(client: u8) -> char {
    char::from(b'A'.saturating_add(client))
}

/// What an attempt is to do with the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Of a kind without modes: hold it, beside its owner's claims at most.
    Only,
    /// Hold it beside others.
    Read,
    /// The same as without modes, of a kind that has others.
    Write,
}

impl Mode {
    /// Which the other one is that a claim of this one can be converted for.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Only => Self::Only,
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }

    pub(super) const fn reads(self) -> bool {
        matches!(self, Self::Read)
    }
}

/// A kind of lock, as far as the search must know it.
///
/// A new kind joins by one value of this type.
#[derive(Debug, Clone)]
pub struct Model {
    /// What builds the requests and reads the replies.
    pub protocol: Arc<dyn Protocol>,
    /// The same for claims that read, if there are such. Then the other protocol is that of those who write.
    pub reading: Option<Arc<dyn Protocol>>,
    /// Whether claims of one client's owner may hold together: they share a token then, and a client begins its next
    /// attempt while an earlier one lives.
    pub together: bool,
}

impl Model {
    /// Every kind there is, by its word.
    ///
    /// # Errors
    ///
    /// None in practice: the name is a good one.
    pub fn all() -> Result<Vec<Self>> {
        Ok(vec![
            Self::mutex()?,
            Self::reentrant()?,
            Self::fair()?,
            Self::rwlock()?,
        ])
    }

    /// One holder at a time.
    ///
    /// # Errors
    ///
    /// None in practice: the name is a good one.
    pub fn mutex() -> Result<Self> {
        Ok(Self {
            protocol: lockkeeper_mutex::protocol(name()?),
            reading: None,
            together: false,
        })
    }

    /// One owner at a time, each claim of which has a lease of its own.
    ///
    /// # Errors
    ///
    /// None in practice: the name is a good one.
    pub fn reentrant() -> Result<Self> {
        Ok(Self {
            protocol: lockkeeper_reentrant::protocol(name()?),
            reading: None,
            together: true,
        })
    }

    /// One owner at a time, by turns.
    ///
    /// # Errors
    ///
    /// None in practice: the name is a good one.
    pub fn fair() -> Result<Self> {
        Ok(Self {
            protocol: lockkeeper_fair::protocol(name()?),
            reading: None,
            together: true,
        })
    }

    /// One owner that writes or many that read, by turns.
    ///
    /// # Errors
    ///
    /// None in practice: the name is a good one.
    pub fn rwlock() -> Result<Self> {
        Ok(Self {
            protocol: lockkeeper_rwlock::write_protocol(name()?),
            reading: Some(lockkeeper_rwlock::read_protocol(name()?)),
            together: true,
        })
    }

    /// The modes that an attempt can have.
    pub fn modes(&self) -> &'static [Mode] {
        match self.reading {
            None => &[Mode::Only],
            Some(_) => &[Mode::Read, Mode::Write],
        }
    }

    /// What builds the requests of an attempt of this mode.
    pub fn protocol_of(&self, mode: Mode) -> &Arc<dyn Protocol> {
        match &self.reading {
            Some(reading) if mode.reads() => reading,
            _ => &self.protocol,
        }
    }

    /// What every change must pass: [`Bounds::quick`], or those of kinds with a queue or modes.
    pub fn quick(&self) -> Vec<Bounds> {
        if self.reading.is_some() {
            Bounds::quick_of_modes()
        } else if self.protocol.queue().is_some() {
            Bounds::quick_of_queues()
        } else {
            Bounds::quick()
        }
    }

    /// The same nearby: seconds.
    pub fn short(&self) -> Vec<Bounds> {
        Bounds::short(self.reading.is_some() || self.protocol.queue().is_some())
    }

    /// The same further out: minutes, and gigabytes.
    pub fn thorough(&self) -> Vec<Bounds> {
        if self.reading.is_some() {
            Bounds::thorough_of_modes()
        } else if self.protocol.queue().is_some() {
            Bounds::thorough_of_queues()
        } else {
            Bounds::thorough()
        }
    }

    /// Whether the two may never hold at once.
    pub fn exclude(&self, (one, its): (Seat, Mode), (other, others): (Seat, Mode)) -> bool {
        one != other && !self.joins(one, other) && !(its.reads() && others.reads())
    }

    /// Whether one of the two may join the other because they are of one owner.
    pub fn joins(&self, one: Seat, other: Seat) -> bool {
        one != other && self.together && one.client == other.client
    }
}

fn name() -> Result<Name> {
    Name::new("", "n")
}

/// What every client's uuid ends with; the digit before it tells the clients apart.
const TAIL: &[u8] = b"-0000-4000-8000-000000000000";

/// The claims by seat. All attempts of a client are of one owner.
pub(super) fn claims(clients: u8, attempts: u8) -> Result<Vec<Vec<ClaimId>>> {
    let of_client = |client: u8| {
        let tail = String::from_utf8_lossy(TAIL);
        let owner: Owner = format!("0000000{client}{tail}:1").parse()?;
        Ok((0..attempts)
            .map(|attempt| ClaimId::new(owner, attempt.into()))
            .collect())
    };
    (0..clients).map(of_client).collect()
}

/// Gives the clients in `text` other names: what was client `i` becomes client `names[i]`.
pub(super) fn rename(text: &[u8], names: &[u8]) -> Vec<u8> {
    let mut renamed = text.to_vec();
    for at in 1..text.len() {
        if text[at..].starts_with(TAIL) {
            let client = usize::from(text[at - 1] - b'0');
            renamed[at - 1] = b'0' + names[client];
        }
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_exchanges_the_clients_wherever_they_are_named() {
        let claims = claims(2, 2).unwrap();
        let text = |one: usize, other: usize| {
            format!("gone:{{n}}:{} {}", claims[one][0], claims[other][1]).into_bytes()
        };
        assert_eq!(rename(&text(0, 1), &[1, 0]), text(1, 0));
        assert_eq!(rename(&text(0, 1), &[0, 1]), text(0, 1));
    }

    #[test]
    fn only_claims_of_one_reentrant_owner_or_of_readers_hold_together() {
        let seat = |client, attempt| Seat { client, attempt };
        let only = |client, attempt| (seat(client, attempt), Mode::Only);
        let (mutex, reentrant) = (Model::mutex().unwrap(), Model::reentrant().unwrap());
        assert!(mutex.exclude(only(0, 0), only(0, 1)));
        assert!(!reentrant.exclude(only(0, 0), only(0, 1)));
        for model in [mutex, reentrant] {
            assert!(model.exclude(only(0, 0), only(1, 0)));
            assert!(!model.exclude(only(0, 0), only(0, 0)));
        }
        let rwlock = Model::rwlock().unwrap();
        let (reads, writes) = ((seat(0, 0), Mode::Read), (seat(0, 1), Mode::Write));
        assert!(!rwlock.exclude(reads, writes));
        assert!(!rwlock.exclude(reads, (seat(1, 0), Mode::Read)));
        assert!(rwlock.exclude(reads, (seat(1, 0), Mode::Write)));
        assert!(rwlock.exclude(writes, (seat(1, 0), Mode::Write)));
    }
}
