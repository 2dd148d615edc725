//! What a history is to be: everything that chance decides beforehand, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;

use super::beyond::Beyond;

/// How far the clocks of several servers are apart at most, and step back in all, ms.
pub(super) const APART: i64 = 1_000;

/// What may happen to one request or message, each by chance.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chances {
    /// It takes long, perhaps longer than anybody waits.
    pub(super) slow: f64,
    /// The request never arrives.
    pub(super) lose_request: f64,
    /// It is executed, and the reply is lost.
    pub(super) lose_reply: f64,
    /// Its connection breaks, and it arrives after requests of the next one.
    pub(super) stray: f64,
    /// It is never sent, and the caller knows.
    pub(super) not_sent: f64,
    /// The server is not ready and says so.
    pub(super) refuse: f64,
    /// The message is lost; the gap is told later.
    pub(super) lose_message: f64,
    /// The message comes twice.
    pub(super) repeat_message: f64,
    /// The server forgets its scripts.
    pub(super) forget: f64,
    /// The subscription is not confirmed.
    pub(super) lose_subscription: f64,
}

/// What may happen to a client or the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disaster {
    /// The connections of a client break.
    Cut,
    /// The server goes down and comes back with all its data, without its scripts.
    Restart,
    /// The server forgets its scripts.
    ForgetScripts,
    /// A client does not run for a while.
    Pause,
    /// A client is closed, and another takes its place.
    Close,
    /// A client's process is gone, and another takes its place.
    Crash,
    /// The server's clock steps back.
    ClockBack,
    /// The server's clock steps forward, less than the margin.
    ClockForward,
    /// The server is replaced by one that has not heard of the last writes.
    Failover,
    /// The server's clock steps forward, more than the margin.
    ClockLeap,
    /// Somebody deletes the key of a name.
    DeletedKey,
    /// Somebody takes a name from its holder by force.
    Force,
    /// The server is killed and comes back without its data.
    Empty,
    /// Somebody has a name revoked.
    Revoke,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many servers there are; each process has a client for each.
    pub(super) servers: usize,
    /// How far ahead of the time each server's clock is, ms.
    pub(super) ahead: Vec<i64>,
    /// How many processes there are.
    pub(super) clients: usize,
    /// Of each client.
    pub(super) tasks: usize,
    pub(super) names: usize,
    pub(super) ttl: Duration,
    /// Of waiters in a queue.
    pub(super) waiter_ttl: Duration,
    /// How long a request and a reply each take at most while nothing goes wrong, ms.
    pub(super) delay: u64,
    pub(super) chances: Chances,
    pub(super) disasters: Vec<Disaster>,
    /// The mean time between disasters.
    pub(super) interval: Duration,
    /// How long things go wrong.
    pub(super) storm: Duration,
    /// How long clients go on working after that.
    pub(super) calm: Duration,
    /// Whether the server's clock runs faster than it should, by less than the margin in one lease.
    pub(super) drifts: bool,
    /// Whether the server may lose data: then exclusion is not promised for one ttl after.
    pub(super) forgets: bool,
    /// What happens that the guarantees exclude.
    pub(super) beyond: Option<Beyond>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let ttl = Duration::from_millis([1_200, 2_400, 6_000, 6_000][random.usize(..4)]);
        let forgets = random.u8(..8) == 0;
        // Some histories are calm, some are storms, and most have a few faults that are strong enough to meet.
        let strength = [0.0, 0.02, 0.06, 0.12, 0.2][random.usize(..5)];
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
            stray: chance(),
            not_sent: chance(),
            refuse: chance(),
            lose_message: chance() * 2.0,
            repeat_message: chance() * 2.0,
            forget: chance(),
            lose_subscription: chance(),
        };
        let mut disasters = Vec::new();
        for disaster in [
            Disaster::Cut,
            Disaster::Restart,
            Disaster::ForgetScripts,
            Disaster::Pause,
            Disaster::Close,
            Disaster::Crash,
            Disaster::ClockForward,
        ] {
            disasters.extend((random.u8(..3) == 0).then_some(disaster));
        }
        // Tokens are promised to increase over a failover only if the clock does not step back.
        if forgets {
            disasters.extend([Disaster::Failover, Disaster::Failover]);
        } else if random.u8(..4) == 0 {
            disasters.push(Disaster::ClockBack);
        }
        let drifts = random.u8(..3) == 0;
        if drifts {
            // Both together would be more than the margin.
            disasters.retain(|disaster| *disaster != Disaster::ClockForward);
        }
        Self {
            drifts,
            seed,
            servers: 1,
            ahead: vec![0],
            clients: random.usize(2..=4),
            tasks: random.usize(1..=3),
            names: if random.u8(..4) == 0 { 2 } else { 1 },
            ttl,
            delay: [0, 1, 3, 20][random.usize(..4)],
            chances,
            disasters,
            interval: ttl.mul_f64(0.2 + random.f64()),
            storm: ttl.mul_f64(1.0 + 2.0 * random.f64()),
            calm: ttl.mul_f64(0.3 + random.f64()) + Duration::from_secs(3),
            waiter_ttl: ttl / random.u32(1..=2),
            forgets,
            beyond: None,
        }
    }

    /// For locks of all kinds over five servers.
    pub(super) fn of_a_family(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Rng::with_seed(plan.seed_of(3));
        let before = plan.ttl;
        plan.ttl = Duration::from_millis([2_400, 6_000, 6_000, 20_000][random.usize(..4)]);
        let scaled = |time: Duration| time.mul_f64(plan.ttl.div_duration_f64(before));
        (plan.storm, plan.interval) = (scaled(plan.storm), scaled(plan.interval) / 2);
        plan.waiter_ttl = plan.ttl / random.u32(1..=3);
        plan.servers = 5;
        plan.ahead = (0..plan.servers)
            .map(|_| random.i64(0..APART / 2))
            .collect();
        plan.clients = random.usize(2..=3);
        plan.names = random.usize(4..=6);
        // Steps, by little, are what the clocks of a Redlock's servers may do.
        if plan.drifts && !plan.forgets {
            plan.disasters
                .extend([Disaster::ClockBack, Disaster::ClockForward]);
        }
        plan.drifts = false;
        plan.disasters.retain(|it| *it != Disaster::Failover);
        plan.disasters.push(Disaster::Revoke);
        if plan.forgets {
            // A server that lost its last writes only would have been up for long, and a Redlock could not know.
            plan.disasters.extend([Disaster::Empty, Disaster::Empty]);
        }
        plan
    }

    /// A seed of a part of the history.
    pub(super) const fn seed_of(&self, part: u64) -> u64 {
        seed_of(self.seed, part)
    }

    /// How much earlier than on the server a lease ends for its holder, whatever its ttl here: that of the shortest.
    pub(super) fn margin(&self) -> Duration {
        self.shortest_ttl() / 100 + Duration::from_millis(5)
    }

    /// How far the server's clock has run ahead after so long: by the margin in a lease, less what rounding takes.
    pub(super) fn drift(&self, now: Duration) -> Duration {
        if self.drifts {
            let margin = self.margin() - Duration::from_millis(3);
            now.mul_f64(margin.as_secs_f64() / self.shortest_ttl().as_secs_f64())
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn shortest_ttl(&self) -> Duration {
        self.ttl / 2
    }

    /// How often a waiter in a queue says that it is alive.
    pub(super) fn heartbeat(&self) -> Duration {
        self.waiter_ttl / 3
    }

    /// How long a request is waited for.
    pub(super) fn timeout(&self) -> Duration {
        self.ttl / 6
    }
}

/// A seed of a part of the history that follows from `seed`.
pub(crate) const fn seed_of(seed: u64, part: u64) -> u64 {
    // The golden ratio keeps the seeds of parts and of neighbours apart.
    (seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
