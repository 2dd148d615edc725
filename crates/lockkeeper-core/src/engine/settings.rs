//! The settings of a client, which are checked once and then only read.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::terms::Terms;
use crate::seam::observer::Audience;
use crate::words::agenda::Pace;
use crate::words::error::{Error, Result};

/// The default length of a lease. Long enough to survive a server's restart, short enough that a crashed holder's
/// work is taken over within a minute; the same as Redisson's.
const TTL: Duration = Duration::from_secs(30);

/// How long a waiter in a queue counts as alive after a heartbeat, also if it is granted meanwhile. A dead waiter at the
/// head of the queue delays the others for that long; a live one sends three heartbeats in that time.
const WAITER_TTL: Duration = Duration::from_secs(10);

/// A waiter is not alive for longer than the lease that it waits for would last, because a grant by message lasts as long
/// as the waiter was alive. But it may be silent for this long: a busy machine or a short pause of the server must not
/// cost it its place, and three heartbeats a second are enough.
const LEAST_WAITER_TTL: Duration = Duration::from_secs(1);

/// How many heartbeats a waiter sends per waiter ttl.
const HEARTBEATS_PER_TTL: u32 = 3;

/// A lease is renewed after this fraction of its ttl, or a little sooner together with others, and half as long after a
/// failure. So three renewals in a row may fail before it is lost.
const RENEWAL_FRACTION: u32 = 3;

/// The largest renewal fraction: more requests would only load the server.
const MOST_RENEWALS: u32 = 100;

/// How long to wait for the answer to a request. Longer than any healthy round trip, even between continents and
/// during a short pause of the server; short compared with the default ttl.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a name that another library holds is polled.
const POLL_EVERY: Duration = Duration::from_millis(100);

/// How long `release` and `close` wait for the server to confirm; after that the release continues in the background.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest lease, so that a mistake in units does not lock a name for a century.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest time that can be set: no answer comes sooner, and the server counts whole milliseconds.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// The shortest waiter ttl: a waiter sends three heartbeats in that time.
const SHORTEST_WAITER_TTL: Duration = Duration::from_millis(100);

/// The waiter ttl must be this many times the margin: a grant by message may last no longer than the waiter ttl.
const MARGINS_PER_WAITER_TTL: u32 = 4;

/// A request may take at most this fraction of the lease, so that a lost one can be repeated before the deadline.
const REQUESTS_PER_TTL: u32 = 6;

/// The longest label: people read it at a glance.
pub(crate) const LONGEST_LABEL: usize = 256;

/// The host name and the process id: what people need to find a holder.
fn host_and_process() -> String {
    #[cfg(unix)]
    let machine = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let machine = std::env::var("COMPUTERNAME").unwrap_or_default();
    format!("{machine}:{}", std::process::id())
}

/// Checks that a time is not out of all proportion: a mistake in units, or in a calculation.
pub(crate) fn check_time(setting: &str, time: Duration, shortest: Duration) -> Result<()> {
    if time < shortest {
        return Err(Error::config(format!(
            "{setting}({time:?}) is too short: it must be at least {shortest:?}"
        )));
    }
    if time > LONGEST_TTL {
        return Err(Error::config(format!(
            "{setting}({time:?}) is too long: at most a year is allowed"
        )));
    }
    Ok(())
}

/// The server counts whole milliseconds. A fraction would exist only in this client.
fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis().try_into().unwrap_or(u64::MAX))
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
    pub(crate) waiter_ttl: Duration,
    pub(crate) renewal_fraction: u32,
    /// `None`: 1 % of the ttl + 5 ms.
    pub(crate) margin: Option<Duration>,
    pub(crate) request_timeout: Duration,
    pub(crate) release_timeout: Duration,
    pub(crate) poll_every: Duration,
    /// Whether to listen to the server's keyspace notifications.
    pub(crate) keyspace_notifications: bool,
    /// `None`: from the system.
    pub(crate) seed: Option<u64>,
    pub(crate) audience: Audience,
    /// The name that the store has in every process; `None` if it has none.
    pub(crate) store_name: Option<Arc<str>>,
    /// `None`: host name and process id. Empty: no label.
    pub(crate) label: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "lockkeeper".to_owned(),
            ttl: TTL,
            waiter_ttl: WAITER_TTL,
            renewal_fraction: RENEWAL_FRACTION,
            margin: None,
            request_timeout: REQUEST_TIMEOUT,
            release_timeout: RELEASE_TIMEOUT,
            poll_every: POLL_EVERY,
            keyspace_notifications: false,
            seed: None,
            audience: Audience::default(),
            store_name: None,
            label: None,
        }
    }
}

impl Settings {
    /// Checks the relations between the settings.
    pub(crate) fn check(&self) -> Result<()> {
        if !(2..=MOST_RENEWALS).contains(&self.renewal_fraction) {
            return Err(Error::config(
                "the renewal fraction must be between 2 and 100; below 2 a lease would end before it is renewed",
            ));
        }
        for (setting, time, shortest) in [
            ("waiter_ttl", self.waiter_ttl, SHORTEST_WAITER_TTL),
            ("request_timeout", self.request_timeout, SHORTEST),
            ("release_timeout", self.release_timeout, SHORTEST),
            ("poll_every", self.poll_every, SHORTEST),
        ] {
            check_time(setting, time, shortest)?;
        }
        let length = self.label.as_ref().map_or(0, String::len);
        if length > LONGEST_LABEL {
            return Err(Error::config(format!(
                "a client's label must be at most {LONGEST_LABEL} bytes long, this one has {length}: shorten it"
            )));
        }
        crate::words::name::Name::new(&self.namespace, "name")?;
        self.terms(None, true)?;
        let waiter_ttl = self.waiter_ttl;
        match self.margin {
            Some(margin) if margin > waiter_ttl / MARGINS_PER_WAITER_TTL => {
                Err(Error::config(format!(
                    "margin({margin:?}) is too long for the waiter ttl of {waiter_ttl:?}, of which it may be a quarter: choose a smaller margin or a longer waiter_ttl"
                )))
            }
            _ => Ok(()),
        }
    }

    /// The label that the client writes to the server, if any.
    pub(crate) fn label(&self) -> Option<Arc<str>> {
        let label = match &self.label {
            Some(label) => label.clone(),
            // With a seed, everything must be the same in every process.
            None if self.seed.is_some() => String::new(),
            None => host_and_process(),
        };
        (!label.is_empty()).then(|| label.into())
    }

    /// The terms of one claim: its own ttl or the client's, renewed or not.
    pub(crate) fn terms(&self, ttl: Option<Duration>, renewed: bool) -> Result<Terms> {
        let asked = ttl.unwrap_or(self.ttl);
        let ttl = whole_millis(asked);
        let margin = self.margin.unwrap_or(ttl / 100 + Duration::from_millis(5));
        let margin = if mutant!(NoMargin) {
            Duration::ZERO
        } else {
            margin
        };
        if ttl > LONGEST_TTL {
            return Err(Error::config(format!(
                "a ttl of {asked:?} is too long: at most a year is allowed"
            )));
        }
        if ttl <= margin {
            let set = self.margin.filter(|_| ttl >= SHORTEST);
            return Err(Error::config(match set {
                Some(_) => format!(
                    "margin({margin:?}) is too long for a ttl of {asked:?}: a lease ends that much earlier for its holder; choose a smaller margin or a longer ttl"
                ),
                None => format!(
                    "a ttl of {asked:?} is too short: it must be longer than the margin of {margin:?} by which a lease ends earlier for its holder"
                ),
            }));
        }
        let steady = ttl / self.renewal_fraction;
        let timeout = self.request_timeout.min(ttl / REQUESTS_PER_TTL);
        if renewed && steady + timeout >= ttl - margin {
            return Err(Error::config(format!(
                "a ttl of {asked:?} with a margin of {margin:?} leaves no time to renew: a renewal is sent after \
                 {steady:?} and may take {timeout:?} to be answered; choose a longer ttl, a smaller margin or no renewal"
            )));
        }
        let waiter_ttl = whole_millis(self.waiter_ttl).min(ttl.max(LEAST_WAITER_TTL));
        let margin_of_waiting = self
            .margin
            .unwrap_or(waiter_ttl / 100 + Duration::from_millis(5));
        let heartbeat = waiter_ttl / HEARTBEATS_PER_TTL;
        let heartbeats = Pace {
            steady: heartbeat,
            hurried: heartbeat / 2,
        };
        let pace = renewed.then_some(Pace {
            steady,
            hurried: steady / 2,
        });
        Ok(Terms {
            ttl,
            margin,
            timeout,
            pace,
            heartbeats,
            waiter_ttl,
            margin_of_waiting,
            queue_limit: None,
            max_hold: None,
            min_hold: None,
            polled: false,
            expects_others: false,
            poll_every: self.poll_every,
            wait_until: None,
            in_cohort: false,
            draws: false,
            proposal: 0,
        })
    }
}
