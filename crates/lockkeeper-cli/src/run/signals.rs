//! The signals that this command receives on behalf of its program.

use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Failure;

/// The signals that are passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// Listens for signals from its creation to its end. After that, these signals do nothing.
pub(crate) struct Signals {
    heard: Vec<(Signal, unix::Signal)>,
    children: unix::Signal,
    /// Whether a signal came that asks to stop.
    stop: bool,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let ignored = ignored();
        let listen = |signal: Signal| {
            let kind = SignalKind::from_raw(signal.as_raw());
            unix::signal(kind).map(|stream| (signal, stream))
        };
        let heard = PASSED_ON
            .into_iter()
            .filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0)
            .map(listen)
            .collect::<std::io::Result<_>>();
        let children = unix::signal(SignalKind::child());
        match (heard, children) {
            (Ok(heard), Ok(children)) => Ok(Self {
                heard,
                children,
                stop: false,
            }),
            (Err(error), _) | (_, Err(error)) => Err(Failure::system("listen for signals", &error)),
        }
    }

    /// The next signal to pass on.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = std::future::poll_fn(|context| poll_any(&mut self.heard, context)).await;
        self.note(signal);
        signal
    }

    /// The next signal to pass on; `None` if the state of a child has changed instead.
    pub(crate) async fn next_or_child(&mut self) -> Option<Signal> {
        let Self {
            heard, children, ..
        } = self;
        let signal = std::future::poll_fn(|context| {
            if children.poll_recv(context).is_ready() {
                return Poll::Ready(None);
            }
            poll_any(heard, context).map(Some)
        })
        .await;
        if let Some(signal) = signal {
            self.note(signal);
        }
        signal
    }

    /// Whether a signal came that asks to stop. If so, no further program is started, even if this one ends well.
    pub(crate) const fn stop(&self) -> bool {
        self.stop
    }

    fn note(&mut self, signal: Signal) {
        self.stop |= signal != Signal::USR1 && signal != Signal::USR2;
    }
}

fn poll_any(heard: &mut [(Signal, unix::Signal)], context: &mut Context<'_>) -> Poll<Signal> {
    for (signal, stream) in heard {
        if Pin::new(stream).poll_recv(context).is_ready() {
            return Poll::Ready(*signal);
        }
    }
    Poll::Pending
}

/// The signals that were ignored when this command started, for example by `nohup`, as bits. The program then ignores
/// them too.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
