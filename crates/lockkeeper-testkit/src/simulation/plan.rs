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
    pub(super) overtaken: f64,
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
    /// The server is killed and is back, without its data, before the request arrives.
    pub(super) kill: f64,
}

/// What may befall a host or a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connections of a host to a server break.
    Cut,
    /// The server goes down and comes back with all its data, without its scripts.
    Restart,
    /// The server forgets its scripts.
    ForgetScripts,
    /// A host does not run for a while.
    Pause,
    /// The clients of a host are closed, and another takes its place.
    Close,
    /// A host is gone, and another takes its place.
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
    /// The server is killed, and comes back after a while without its data.
    Kill,
    /// The server stands still for a while: what was sent to it is executed afterwards.
    Freeze,
    /// Nobody hears the server's messages for a while, and nobody is told.
    Silence,
    /// Somebody has a name revoked.
    Revoke,
    /// Somebody sets the limit of a semaphore.
    SetLimit,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many servers there are; each host has a client for each.
    pub(super) servers: usize,
    /// How far ahead of the time each server's clock is, ms.
    pub(super) ahead: Vec<i64>,
    pub(super) hosts: usize,
    /// Of each host.
    pub(super) tasks: usize,
    pub(super) names: usize,
    pub(super) ttl: Duration,
    /// Of waiters in a queue.
    pub(super) waiter_ttl: Duration,
    /// How long a request and a reply each take at most while nothing goes wrong, ms.
    pub(super) delay: u64,
    pub(super) chances: Chances,
    pub(super) faults: Vec<Fault>,
    /// The mean time between faults.
    pub(super) interval: Duration,
    /// How long things go wrong.
    pub(super) storm: Duration,
    /// How long hosts go on working after that.
    pub(super) calm: Duration,
    /// Requests of one connection overtake one another.
    pub(super) unordered: bool,
    /// What a server that stands still is sent is executed however late that is: what was released meanwhile may be back, whose
    /// tombstone has expired.
    pub(super) late: bool,
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
            overtaken: chance(),
            not_sent: chance(),
            refuse: chance(),
            lose_message: chance() * 2.0,
            repeat_message: chance() * 2.0,
            forget: chance(),
            lose_subscription: chance(),
            kill: 0.0,
        };
        let mut faults = Vec::new();
        for fault in [
            Fault::Cut,
            Fault::Restart,
            Fault::ForgetScripts,
            Fault::Pause,
            Fault::Close,
            Fault::Crash,
            Fault::ClockForward,
        ] {
            faults.extend((random.u8(..3) == 0).then_some(fault));
        }
        // Tokens are promised to increase over a failover only if the clock does not step back.
        if forgets {
            faults.extend([Fault::Failover, Fault::Failover]);
        } else if random.u8(..4) == 0 {
            faults.push(Fault::ClockBack);
        }
        let drifts = random.u8(..3) == 0;
        if drifts {
            // Both together would be more than the margin.
            faults.retain(|fault| *fault != Fault::ClockForward);
        }
        Self {
            drifts,
            seed,
            servers: 1,
            ahead: vec![0],
            hosts: random.usize(2..=4),
            tasks: random.usize(1..=3),
            names: if random.u8(..4) == 0 { 2 } else { 1 },
            ttl,
            delay: [0, 1, 3, 20][random.usize(..4)],
            chances,
            faults,
            interval: ttl.mul_f64(0.2 + random.f64()),
            storm: ttl.mul_f64(1.0 + 2.0 * random.f64()),
            calm: ttl.mul_f64(0.3 + random.f64()) + Duration::from_secs(3),
            waiter_ttl: ttl / random.u32(1..=2),
            unordered: false,
            late: false,
            forgets,
            beyond: None,
        }
    }

    /// For a lock of one kind on one server.
    pub(super) fn of_one_kind(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        plan.add_faults_of_servers();
        plan
    }

    /// For semaphores on one server.
    pub(super) fn of_a_semaphore(seed: u64) -> Self {
        let mut plan = Self::of_one_kind(seed);
        let mut random = Rng::with_seed(plan.seed_of(6));
        if random.bool() {
            plan.faults.extend([Fault::SetLimit; 2]);
        }
        plan
    }

    /// For locks of all kinds over five servers.
    pub(super) fn of_all_kinds(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Rng::with_seed(plan.seed_of(3));
        let before = plan.ttl;
        plan.ttl = Duration::from_millis([2_400, 6_000, 6_000, 20_000][random.usize(..4)]);
        let scaled = |time: Duration| time.mul_f64(plan.ttl.div_duration_f64(before));
        (plan.storm, plan.interval) = (scaled(plan.storm), scaled(plan.interval) / 2);
        plan.waiter_ttl = plan.ttl / random.u32(1..=3);
        plan.spread_over_servers(APART / 2, &mut random);
        plan.hosts = random.usize(2..=3);
        plan.names = random.usize(4..=6);
        // Steps, by little, are what the clocks of a Redlock's servers may do.
        if plan.drifts && !plan.forgets {
            plan.faults.extend([Fault::ClockBack, Fault::ClockForward]);
        }
        plan.drifts = false;
        plan.faults.retain(|it| *it != Fault::Failover);
        plan.faults.push(Fault::Revoke);
        if plan.forgets {
            // A server that lost its last writes only would have been up for long, and a Redlock could not know.
            plan.faults.extend([Fault::Kill, Fault::Kill]);
        }
        plan.add_faults_of_servers();
        plan
    }

    /// For a Redlock over five servers, which bears what locks on one server do not.
    pub(super) fn of_a_redlock(seed: u64) -> Self {
        let mut plan = Self::new(seed);
        let mut random = Rng::with_seed(plan.seed_of(3));
        plan.ttl = Duration::from_millis([2_000, 4_000, 10_000, 20_000][random.usize(..4)]);
        plan.spread_over_servers(APART, &mut random);
        (plan.tasks, plan.names) = (1, 0);
        plan.delay = [0, 1, 5, 30][random.usize(..4)];
        plan.interval = plan.ttl.mul_f64(0.1 + random.f64() * 0.5);
        plan.storm = plan.ttl.mul_f64(4.0 + 6.0 * random.f64());
        plan.drifts = false;
        plan.faults.retain(|it| {
            let of_hosts = [Fault::Cut, Fault::Pause, Fault::Close, Fault::Crash];
            of_hosts.contains(it) || *it == Fault::ForgetScripts
        });
        for fault in [
            Fault::Kill,
            Fault::Freeze,
            Fault::ClockBack,
            Fault::ClockForward,
            Fault::Silence,
        ] {
            plan.faults.extend(random.bool().then_some(fault));
        }
        plan.chances.kill = if random.bool() {
            random.f64() * [0.0, 0.01, 0.025, 0.05][random.usize(..4)]
        } else {
            0.0
        };
        plan.unordered = true;
        plan.late = plan.faults.contains(&Fault::Freeze);
        plan.forgets = plan.chances.kill > 0.0 || plan.faults.contains(&Fault::Kill);
        plan
    }

    fn spread_over_servers(&mut self, apart: i64, random: &mut Rng) {
        self.servers = 5;
        let ahead = (0..self.servers).map(|_| random.i64(0..apart));
        self.ahead = ahead.collect();
    }

    /// What servers and the network do in one history of four, from a generator of its own: the others stay what they are.
    fn add_faults_of_servers(&mut self) {
        let mut random = Rng::with_seed(self.seed_of(5));
        if random.u8(..4) == 0 {
            self.unordered = random.bool();
            // So often that they are seldom left out.
            self.interval /= 2;
            for fault in [Fault::Freeze, Fault::Silence] {
                if random.bool() {
                    self.faults.extend([fault; 2]);
                }
            }
        }
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

    /// By when a request that was sent has arrived, if it does: before what a release leaves behind has expired.
    pub(super) fn latest(&self) -> Duration {
        self.ttl.mul_f64(0.4)
    }

    /// For how long the result of work is kept: less than a request may be late, or than a lease lasts, or longer than both.
    pub(super) fn keep_for(&self, random: &mut Rng) -> Duration {
        self.ttl.mul_f64([0.1, 0.5, 1.5][random.usize(..3)])
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
const fn seed_of(seed: u64, part: u64) -> u64 {
    // The golden ratio keeps the seeds of parts and of neighbours apart.
    (seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
