//! A model of one channel under random events, against which the registry is checked: no wake is lost, no waiter sleeps
//! too long, a waiter always has a subscription, and nothing is kept once all waiters have left.

use std::collections::BTreeMap;

use crate::registry::*;

const CHANNEL: &str = "channel";

/// The patience of every waiter.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many random runs are tried.
const SEEDS: u64 = 20_000;

/// What a waiter's task is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    /// It has been woken or has just arrived, and will ask for its turn.
    Ready,
    Asleep(Option<Moment>),
    /// It asks the server.
    Looking,
}

/// What the engine is doing.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Subscribe,
    Unsubscribe,
}

#[derive(Debug)]
struct Model {
    seed: u64,
    random: fastrand::Rng,
    registry: Registry<()>,
    now: Moment,
    waiters: BTreeMap<WaiterId, Doing>,
    operation: Option<Operation>,
    /// Something has happened after which a poll must begin.
    owed: bool,
    story: Vec<String>,
}

impl Model {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: fastrand::Rng::with_seed(seed),
            registry: Registry::default(),
            now: Moment::from_elapsed(Duration::ZERO),
            waiters: BTreeMap::new(),
            operation: None,
            owed: false,
            story: Vec::new(),
        }
    }

    fn tell(&mut self, event: impl std::fmt::Debug) {
        self.story.push(format!("{:?} {event:?}", self.now));
    }

    #[track_caller]
    fn check(&self, holds: bool, what: &str) {
        let story = self.story.join("\n");
        assert!(
            holds,
            "seed {}: {what}\n{story}\n{:?}",
            self.seed, self.registry
        );
    }

    fn poller(&self) -> Option<WaiterId> {
        self.registry.channels.get(CHANNEL)?.line.front()
    }

    /// The waiter whose poll counts. The poll of a waiter that has been moved to the end meanwhile does not.
    fn looking(&self) -> Option<WaiterId> {
        let channel = self.registry.channels.get(CHANNEL)?;
        channel.looking.map(|(waiter, _)| waiter)
    }

    /// Whether this waiter may poll beside the poller.
    fn is_let_in(&self, waiter: WaiterId) -> bool {
        let channel = self.registry.channels.get(CHANNEL);
        channel.is_some_and(|channel| channel.beside.contains(&waiter))
    }

    /// How many waiters that can hold together may poll beside the poller, and how many there are.
    fn sharing(&self) -> (usize, usize) {
        let channel = self.registry.channels.get(CHANNEL);
        channel.map_or((0, 0), |channel| {
            let may_hold = |waiter: &&WaiterId| !channel.asks_for_too_much(**waiter);
            let fitting = channel.sharing.keys().filter(may_hold);
            let fitting: BTreeSet<_> = fitting.copied().collect();
            let let_in = fitting.intersection(&channel.beside).count();
            (let_in, fitting.len())
        })
    }

    /// Does what the registry asks for, as the engine would.
    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            self.tell(&step);
            let operation = match step {
                Step::Wake(waiter) => {
                    // A waiter that is polling was notified, and asks for its next turn in any case.
                    match self.waiters.get_mut(&waiter) {
                        Some(Doing::Looking) | None => {}
                        Some(doing) => *doing = Doing::Ready,
                    }
                    continue;
                }
                Step::Subscribe(_) => Operation::Subscribe,
                Step::Unsubscribe(_) => Operation::Unsubscribe,
            };
            self.check(self.operation.is_none(), "two operations at once");
            self.operation = Some(operation);
        }
    }

    /// Notes that something has changed on the server, or may have.
    fn owe(&mut self) {
        self.owed = !self.waiters.is_empty();
    }

    /// A random waiter that can take a step.
    fn any(&mut self, who: impl Fn(Doing) -> bool) -> Option<WaiterId> {
        let fitting = |(&waiter, &doing)| who(doing).then_some(waiter);
        let fitting: Vec<WaiterId> = self.waiters.iter().filter_map(fitting).collect();
        self.random.choice(fitting)
    }

    /// Runs all waiters that can run, in any order, until none can.
    fn settle(&mut self) {
        let now = self.now;
        let ready = |doing| match doing {
            Doing::Ready => true,
            Doing::Asleep(until) => until.is_some_and(|until| until <= now),
            Doing::Looking => false,
        };
        while let Some(waiter) = self.any(ready) {
            let let_in = self.is_let_in(waiter);
            let turn = self.registry.turn(CHANNEL, waiter, now);
            self.tell((waiter, &turn));
            match turn {
                Turn::Poll => {
                    self.check(
                        let_in || self.poller() == Some(waiter),
                        "another than the poller looks",
                    );
                    self.check(
                        !self.is_let_in(waiter),
                        "it was let in once and looks again",
                    );
                    self.owed &= let_in;
                    self.waiters.insert(waiter, Doing::Looking);
                }
                Turn::Wait(until) => {
                    let ahead = until.is_none_or(|until| until > now);
                    self.check(ahead, "a turn that is over before it is waited for");
                    self.waiters.insert(waiter, Doing::Asleep(until));
                }
                Turn::GiveUp(_) => self.goes(waiter, None),
            }
        }
        let Some(poller) = self.poller() else {
            self.owed = false;
            return;
        };
        match self.waiters[&poller] {
            Doing::Looking => {}
            Doing::Asleep(Some(until)) => {
                self.check(!self.owed, "a wake was lost");
                let soon = until.since(now) <= SAFETY_POLL;
                self.check(soon, "the poller sleeps for too long");
            }
            doing => self.check(false, &format!("the poller {poller} is {doing:?}")),
        }
    }

    fn goes(&mut self, waiter: WaiterId, granted: Option<Moment>) {
        self.waiters.remove(&waiter);
        // A poll without an answer has seen nothing.
        if self.looking() == Some(waiter) && granted.is_none() {
            self.owe();
        }
        // A waiter that comes to an empty queue polls once it is subscribed, so it needs no earlier message.
        self.owed &= !self.waiters.is_empty();
        let steps = self.registry.leave(CHANNEL, waiter, granted, self.now);
        self.carry_out(steps);
    }

    /// A random moment in the next nine seconds.
    fn soon(&mut self) -> Moment {
        let later = self.random.u64(0..9000);
        self.now.after(Duration::from_millis(later))
    }

    /// One random event.
    fn happen(&mut self) {
        let now = self.now;
        match self.random.u8(0..15) {
            0..=2 => {
                let (waiter, steps) = self.registry.join(CHANNEL, (), None, PATIENCE, None, now);
                let shares = self.random.bool();
                self.tell(("joins", waiter, shares));
                if shares {
                    let parts = self.random.u32(1..4);
                    self.registry.share(CHANNEL, waiter, parts);
                }
                self.waiters.insert(waiter, Doing::Ready);
                self.carry_out(steps);
            }
            3 | 4 => {
                self.tell("message");
                self.owe();
                let steps = self.registry.message(CHANNEL, now);
                self.carry_out(steps);
            }
            5 => {
                let back = self.random.bool();
                self.tell(("connection", back));
                let steps = match back {
                    true => {
                        self.owe();
                        self.registry.gap(now)
                    }
                    false => self.registry.cut(now),
                };
                self.carry_out(steps);
            }
            6 => {
                let told = self.random.bool();
                self.tell(("left", told));
                let channel = self.registry.channels.get(CHANNEL);
                let open = channel
                    .is_some_and(|channel| matches!(channel.subscription, Subscription::Open));
                // If it was published and the channel is subscribed to, the message comes by itself.
                if !told || !open {
                    self.owe();
                }
                let steps = self.registry.left(CHANNEL, told, now);
                self.carry_out(steps);
            }
            7 | 8 => {
                if let Some(waiter) = self.any(|doing| doing == Doing::Looking) {
                    let free = self.random.bool().then(|| self.soon());
                    self.tell(("busy", waiter, free));
                    let counts = self.looking() == Some(waiter);
                    if self.random.u8(0..3) == 0 {
                        let parts = self.random.u32(0..3);
                        self.tell(("has", parts));
                        self.registry.has_parts(CHANNEL, parts);
                    }
                    let (before, _) = self.sharing();
                    let steps = self.registry.busy(CHANNEL, waiter, free, now);
                    self.waiters.insert(waiter, Doing::Ready);
                    let (let_in, all) = self.sharing();
                    let channel = self.registry.channels.get(CHANNEL);
                    let shares = channel.is_some_and(|channel| {
                        let shares = channel.sharing.contains_key(&waiter);
                        shares && !channel.asks_for_too_much(waiter)
                    });
                    self.check(
                        !counts || shares || let_in == all || let_in > before,
                        "nobody more may look beside a poller that waits in vain",
                    );
                    self.carry_out(steps);
                }
            }
            9 => {
                if let Some(waiter) = self.any(|doing| doing == Doing::Looking) {
                    let until = self.soon();
                    self.tell(("granted", waiter, until));
                    self.goes(waiter, Some(until));
                }
            }
            10 => {
                if let Some(waiter) = self.any(|_| true) {
                    self.tell(("dropped", waiter));
                    self.goes(waiter, None);
                }
            }
            11 => {
                if self.random.u8(0..4) == 0
                    && let Some(waiter) = self.any(|doing| doing == Doing::Looking)
                {
                    self.tell(("unreachable", waiter));
                    let steps = self.registry.silent(CHANNEL, waiter);
                    self.carry_out(steps);
                    let error = StoreError::unknown("no answer");
                    let steps = self.registry.unreachable(CHANNEL, waiter, &error);
                    self.carry_out(steps);
                    self.goes(waiter, None);
                }
            }
            12 | 13 => self.answer(),
            _ => {
                let later = self.random.u64(0..7000);
                self.pass(Duration::from_millis(later));
            }
        }
    }

    /// Lets time pass, and then lets the registry do what is due.
    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.tell("tick");
        let looking = self.looking();
        let steps = self.registry.tick(self.now);
        if looking.is_some() && self.looking().is_none() {
            // The poll took too long; another one must begin.
            self.owe();
        }
        self.carry_out(steps);
        let ahead = self.registry.next().is_none_or(|next| next > self.now);
        self.check(ahead, "a timer that is over stands");
    }

    /// Answers the engine's pending operation.
    fn answer(&mut self) {
        let now = self.now;
        let steps = match (self.operation.take(), self.random.u8(0..6)) {
            (None, _) => return,
            (Some(Operation::Unsubscribe), _) => {
                self.tell("unsubscribed");
                self.registry.unsubscribed(CHANNEL)
            }
            (Some(Operation::Subscribe), 0) => {
                self.tell("subscription failed");
                self.registry.subscription_failed(CHANNEL, None, now)
            }
            (Some(Operation::Subscribe), 1) => {
                self.tell("subscription refused");
                let refusal = Some(StoreError::refused("NOPERM"));
                self.registry.subscription_failed(CHANNEL, refusal, now)
            }
            (Some(Operation::Subscribe), _) => {
                self.tell("subscribed");
                self.owe();
                self.registry.subscribed(CHANNEL, now)
            }
        };
        self.carry_out(steps);
    }

    /// Checks that waiters learn of events: now, or once the pending operation has been answered or tried again.
    fn check_subscription(&self) {
        let Some(channel) = self.registry.channels.get(CHANNEL) else {
            return self.check(self.waiters.is_empty(), "waiters without a channel");
        };
        let wanted = match channel.subscription {
            Subscription::Open => true,
            Subscription::Opening => self.operation == Some(Operation::Subscribe),
            Subscription::Closing => self.operation == Some(Operation::Unsubscribe),
            Subscription::Failed { .. } => self.registry.next().is_some(),
            Subscription::None => false,
        };
        self.check(
            wanted || channel.line.is_empty(),
            "waiters that hear nothing",
        );
    }

    /// Lets all waiters leave. In time, everything that was kept for them must go.
    fn end(&mut self) {
        while let Some(waiter) = self.any(|_| true) {
            self.goes(waiter, None);
        }
        for _ in 0..4 {
            while self.operation.is_some() {
                self.answer();
            }
            self.pass(LINGER);
        }
        let nothing = self.registry.is_empty() && self.registry.next().is_none();
        self.check(nothing, "something is kept for nobody");
    }
}

#[test]
fn whatever_happens_no_wake_is_lost_and_nothing_is_kept() {
    for seed in 0..SEEDS {
        let mut model = Model::new(seed);
        for _ in 0..model.random.usize(1..40) {
            // Often several events come before any waiter runs.
            if model.random.bool() {
                model.settle();
            }
            model.happen();
        }
        model.settle();
        model.check_subscription();
        model.end();
    }
}
