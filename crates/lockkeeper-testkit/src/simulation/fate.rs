//! The fate of each request and message: what the network does to it. Each has random numbers of its own, which follow from
//! the seed, the link, what it is about, and how many such ones there were. So a request more or less changes the fate of none
//! of another script or claim.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use lockkeeper_core::store::Event;

use super::checks::claims;
use super::network::Parcel;
use super::trace::fnv;

/// The random numbers of one request or message.
#[derive(Debug, Clone)]
#[expect(clippy::exhaustive_structs, reason = "a name for random numbers")]
pub struct Fate(pub Rng);

impl Fate {
    /// Whether a fault of this probability happens.
    pub(super) fn strikes(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.0.f64() < chance
    }

    /// A random time up to this many milliseconds later.
    pub(super) fn within(&mut self, now: Duration, milliseconds: u64) -> Duration {
        now + Duration::from_millis(self.0.u64(0..=milliseconds))
    }
}

/// The source of fates.
#[derive(Debug)]
pub struct Fates {
    seed: u64,
    /// How many there were, by link and text.
    counts: BTreeMap<(usize, String), u64>,
    /// The number of each claim among those that its owner had on the link.
    claims: BTreeMap<(usize, String), u64>,
}

impl Fates {
    /// The source that follows from a seed.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            counts: BTreeMap::new(),
            claims: BTreeMap::new(),
        }
    }

    /// The fate of what a client sends.
    pub(super) fn of_parcel(&mut self, link: usize, parcel: &Parcel) -> Fate {
        let text = match parcel {
            Parcel::Call(call) => {
                let script = call.item.script.name;
                match (claims(call).first(), call.item.keys.iter().next()) {
                    (Some(claim), _) => format!("{script} {}", self.claim(link, claim)),
                    (None, key) => format!("{script} {}", key.unwrap_or_default()),
                }
            }
            Parcel::Subscribe(channel) => format!("subscribe {channel}"),
            Parcel::Unsubscribe(channel) => format!("unsubscribe {channel}"),
        };
        self.of(link, text)
    }

    /// The fate of a message to a client.
    pub fn of_message(&mut self, link: usize, event: &Event) -> Fate {
        match event {
            Event::Message { channel, .. } => self.of(link, format!("message {channel}")),
            event => self.of(link, format!("{event:?}")),
        }
    }

    /// The fate of the next of these on a link.
    pub(super) fn of(&mut self, link: usize, text: String) -> Fate {
        let mut hash = fnv(self.seed, text.as_bytes());
        for number in [link as u64, self.count(link, text)] {
            hash = fnv(hash, &number.to_le_bytes());
        }
        Fate(Rng::with_seed(hash))
    }

    fn count(&mut self, link: usize, text: String) -> u64 {
        let count = self.counts.entry((link, text)).or_default();
        *count += 1;
        *count
    }

    /// A name for a claim without its random half.
    fn claim(&mut self, link: usize, claim: &str) -> String {
        let (owner, _) = claim.split_once('/').unwrap_or((claim, ""));
        let key = (link, claim.to_owned());
        let number = match self.claims.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.count(link, owner.to_owned());
                self.claims.insert(key, number);
                number
            }
        };
        format!("{owner}/{number}")
    }
}
