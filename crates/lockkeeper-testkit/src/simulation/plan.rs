//! The plan of a history: everything that is drawn at random beforehand, from its seed.

use std::time::Duration;

use fastrand::Rng;

use super::beyond::Beyond;

/// How far the clocks of several servers are apart at most, and step back in total, ms.
pub(super) const APART: i64 = 1_000;

/// The probability of each fault of one request or message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Chances {
    /// It takes long, perhaps longer than the caller waits.
    pub(super) slow: f64,
    /// The request never arrives.
    pub(super) lose_request: f64,
    /// It is executed, but the reply is lost.
    pub(super) lose_reply: f64,
    /// Its connection breaks, and it arrives after requests of the next connection.
    pub(super) overtaken: f64,
    /// It is never sent, and the caller knows.
    pub(super) not_sent: f64,
    /// The server is not ready and replies so.
    pub(super) refuse: f64,
    /// The message is lost; the client is told of the gap later.
    pub(super) lose_message: f64,
    /// The message arrives twice.
    pub(super) repeat_message: f64,
    /// The server forgets its scripts.
    pub(super) forget: f64,
    /// The subscription is not confirmed.
    pub(super) lose_subscription: f64,
    /// The server is killed and comes back without its data before the request arrives.
    pub(super) kill: f64,
}

/// A fault of a host or a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A host's connections to a server break.
    Cut,
    /// The server restarts with all its data but without its scripts.
    Restart,
    /// The server forgets its scripts.
    ForgetScripts,
    /// A host does not run for a while.
    Pause,
    /// The clients of a host are closed, and another host replaces it.
    Close,
    /// A host is gone, and another replaces it.
    Crash,
    /// The server's clock steps back.
    ClockBack,
    /// The server's clock steps forward by less than the margin.
    ClockForward,
    /// The server fails over to one that lacks the last writes.
    Failover,
    /// The server's clock steps forward by more than the margin.
    ClockLeap,
    /// An outsider deletes the key of a name.
    DeletedKey,
    /// An administrator takes a name from its holder by force.
    Force,
    /// The server is killed and comes back later without its data.
    Kill,
    /// The server is frozen for a while and then executes what was sent to it.
    Freeze,
    /// The server's messages reach no client for a while, and no client is told.
    Silence,
    /// A host has a name revoked.
    Revoke,
    /// A host sets the limit of a semaphore.
    SetLimit,
}

/// The plan of one history.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// How many servers there are; each host has one client per server.
    pub(super) servers: usize,
    /// How far each server's clock is ahead of the time, ms.
    pub(super) ahead: Vec<i64>,
    pub(super) hosts: usize,
    /// How many tasks each host has.
    pub(super) tasks: usize,
    pub(super) names: usize,
    pub(super) ttl: Duration,
    /// The ttl of waiters in a queue.
    pub(super) waiter_ttl: Duration,
    /// The longest time that a request or a reply takes without a fault, ms.
    pub(super) delay: u64,
    pub(super) chances: Chances,
    pub(super) faults: Vec<Fault>,
    /// The mean time between faults.
    pub(super) interval: Duration,
    /// How long faults happen.
    pub(super) storm: Duration,
    /// How long hosts keep working after the storm.
    pub(super) calm: Duration,
    /// Whether requests of one connection overtake one another.
    pub(super) unordered: bool,
    /// Whether a frozen server executes what was sent to it, however late that is. Then a released claim may come back after
    /// its tombstone has expired.
    pub(super) late: bool,
    /// Whether the server's clock runs too fast, by less than the margin in one lease.
    pub(super) drifts: bool,
    /// Whether the server may lose data: exclusion is then not promised for one ttl afterwards.
    pub(super) forgets: bool,
    /// The one thing beyond the guarantees that happens, if any.
    pub(super) beyond: Option<Beyond>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let ttl = Duration::from_millis([1_200, 2_400, 6_000, 6_000][random.usize(..4)]);
        let forgets = random.u8(..8) == 0;
        // Some histories are calm, some are storms, and most have a few kinds of fault, frequent enough to coincide.
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
        // Tokens are promised to increase across a failover only if the clock does not step back.
        if forgets {
            faults.extend([Fault::Failover, Fault::Failover]);
        } else if random.u8(..4) == 0 {
            faults.push(Fault::ClockBack);
        }
        let drifts = random.u8(..3) == 0;
        if drifts {
            // Drift and steps together would exceed the margin.
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

    /// For locks of one kind on one server.
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
        // The clocks of a Redlock's servers may take small steps.
        if plan.drifts && !plan.forgets {
            plan.faults.extend([Fault::ClockBack, Fault::ClockForward]);
        }
        plan.drifts = false;
        plan.faults.retain(|it| *it != Fault::Failover);
        plan.faults.push(Fault::Revoke);
        if plan.forgets {
            // Not a failover: a server that lost only its last writes would have a long uptime, and a Redlock could not know.
            plan.faults.extend([Fault::Kill, Fault::Kill]);
        }
        plan.add_faults_of_servers();
        plan
    }

    /// For a Redlock over five servers, which survives more than locks on one server do.
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

    /// Adds faults of servers and the network to one history in four, from a generator of its own so that the other histories
    /// stay unchanged.
    fn add_faults_of_servers(&mut self) {
        let mut random = Rng::with_seed(self.seed_of(5));
        if random.u8(..4) == 0 {
            self.unordered = random.bool();
            // Often enough that few such histories lack them.
            self.interval /= 2;
            for fault in [Fault::Freeze, Fault::Silence] {
                if random.bool() {
                    self.faults.extend([fault; 2]);
                }
            }
        }
    }

    /// The seed of a part of the history.
    pub(super) const fn seed_of(&self, part: u64) -> u64 {
        seed_of(self.seed, part)
    }

    /// How much earlier than on the server a lease ends for its holder: the margin of the shortest ttl, used for every ttl
    /// here.
    pub(super) fn margin(&self) -> Duration {
        self.shortest_ttl() / 100 + Duration::from_millis(5)
    }

    /// How far the server's clock has run ahead by now: the margin per lease, less rounding.
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

    /// How late a request can arrive: before the tombstone of a release has expired.
    pub(super) fn latest(&self) -> Duration {
        self.ttl.mul_f64(0.4)
    }

    /// How long the result of work is kept: shorter than a request may be late, shorter than a lease, or longer than both.
    pub(super) fn keep_for(&self, random: &mut Rng) -> Duration {
        self.ttl.mul_f64([0.1, 0.5, 1.5][random.usize(..3)])
    }

    /// The time between heartbeats of a waiter in a queue.
    pub(super) fn heartbeat(&self) -> Duration {
        self.waiter_ttl / 3
    }

    /// How long a caller waits for a request.
    pub(super) fn timeout(&self) -> Duration {
        self.ttl / 6
    }
}

/// The seed of a part of the history with seed `seed`.
const fn seed_of(seed: u64, part: u64) -> u64 {
    // The golden ratio keeps the seeds of parts and of neighbouring histories apart.
    (seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
