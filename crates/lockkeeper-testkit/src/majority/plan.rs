//! What a history is to be: everything that chance decides beforehand, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;

use crate::simulation::plan::seed_of;

/// How many servers there are.
pub(super) const SERVERS: usize = 5;

/// The name of the lock.
pub(super) const NAME: &str = "name";

/// Its main key.
pub(super) const MAIN: &str = "lockkeeper:name";

/// How far apart the servers' clocks are at most, ms.
pub(super) const APART: u64 = 1_000;

/// What may happen to one request, each by chance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chances {
    /// It is on its way for long, perhaps for longer than anybody waits.
    pub(super) slow: f64,
    /// It never arrives.
    pub(super) lose_request: f64,
    /// It is executed, and the reply is lost.
    pub(super) lose_reply: f64,
    /// It is never sent, and the caller knows.
    pub(super) not_sent: f64,
    /// The server is killed and comes back empty before it arrives.
    pub(super) restart: f64,
}

/// What may befall a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disaster {
    /// It is killed, and comes back without its data after a while.
    Kill,
    /// It stands still for a while: what was sent to it is executed afterwards.
    Stop,
    /// Its clock steps back.
    ClockBack,
    /// Its clock steps forward, by less than the margin within one lease.
    ClockForward,
    /// Nobody hears its messages for a while.
    Mute,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) processes: usize,
    pub(super) ttl: Duration,
    /// How long a request and a reply each take at most while nothing goes wrong, ms.
    pub(super) delay: u64,
    pub(super) chances: Chances,
    pub(super) disasters: Vec<Disaster>,
    /// The mean time between disasters.
    pub(super) interval: Duration,
    /// How long things go wrong.
    pub(super) storm: Duration,
    /// How far each server's clock is ahead of the time, ms.
    pub(super) ahead: [u64; SERVERS],
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let ttl = Duration::from_millis([2_000, 4_000, 10_000, 20_000][random.usize(..4)]);
        let strength = [0.0, 0.03, 0.1, 0.2][random.usize(..4)];
        let mut chance = || {
            if random.bool() {
                random.f64() * strength
            } else {
                0.0
            }
        };
        let chances = Chances {
            slow: chance() * 2.0,
            lose_request: chance(),
            lose_reply: chance(),
            not_sent: chance(),
            restart: chance() / 4.0,
        };
        let mut disasters = Vec::new();
        for disaster in [
            Disaster::Kill,
            Disaster::Stop,
            Disaster::ClockBack,
            Disaster::ClockForward,
            Disaster::Mute,
        ] {
            disasters.extend(random.bool().then_some(disaster));
        }
        Self {
            seed,
            processes: random.usize(2..=4),
            ttl,
            delay: [0, 1, 5, 30][random.usize(..4)],
            chances,
            disasters,
            interval: ttl.mul_f64(0.1 + random.f64() * 0.5),
            storm: ttl.mul_f64(4.0 + 6.0 * random.f64()),
            ahead: std::array::from_fn(|_| random.u64(..APART)),
        }
    }

    /// A seed of a part of the history.
    pub(super) const fn seed_of(&self, part: u64) -> u64 {
        seed_of(self.seed, part)
    }

    /// By how much a clock may step forward within one lease, the shortest: by the margin, less what rounding takes.
    pub(super) fn creep(&self) -> Duration {
        self.ttl / 2 / 100 + Duration::from_millis(2)
    }

    /// The longest that a request is on its way.
    pub(super) fn longest_way(&self) -> Duration {
        self.ttl / 8
    }

    /// How long after the storm what nobody holds is gone: before a lease that nobody leaves for would have ended.
    pub(super) fn settled(&self) -> Duration {
        // Requests still on their way, a timeout, a pause.
        self.ttl.mul_f64(0.3) + Duration::from_secs(1)
    }
}
