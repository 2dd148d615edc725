//! Which port a server gets, so that no other server is ever met there.
//!
//! A client that survives its server goes on dialling the port. If another test's server stood there by then, it would
//! answer, and have none of the client's keys. So a port stays with its server while that is dead, and is not given
//! again soon afterwards. All ports lie below those that systems give to outgoing connections, which could occupy one
//! between two lives of a server.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};

/// The first port of a server, and how many there are.
const FIRST: u16 = 10_000;
const COUNT: u16 = 5_000;

/// How far above its port a server's reservation listens: all processes see it, and it ends with its own.
const RESERVATION: u16 = COUNT;

/// How far above its port a node of a cluster listens to the other nodes.
const BUS: u16 = 2 * COUNT;

/// How many ports this process has looked at.
static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// A port that stays with its holder, whether somebody listens there or not.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    /// Missing for a server that another process started: it listens, which is enough.
    _reservation: Option<TcpListener>,
}

impl Port {
    /// A port on which nobody listens, nor on the one where a node of a cluster meets the others.
    pub(super) fn reserve() -> Result<Self> {
        // Another process begins elsewhere, most often.
        let begin = std::process::id() % u32::from(COUNT) * 97;
        for _ in 0..COUNT {
            let next = begin + u32::from(LOOKED_AT.fetch_add(1, Ordering::Relaxed));
            let offset = u16::try_from(next % u32::from(COUNT))?;
            if let Some(port) = Self::try_reserve(FIRST + offset) {
                return Ok(port);
            }
        }
        None.context(format!("none of {COUNT} ports is free"))
    }

    fn try_reserve(number: u16) -> Option<Self> {
        let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
        let reservation = listen(number + RESERVATION)?;
        // Both are free again when this returns.
        let _unused = (listen(number)?, listen(number + BUS)?);
        Some(Self {
            number,
            _reservation: Some(reservation),
        })
    }

    /// The port of a server that listens already.
    pub(super) const fn of_another_process(number: u16) -> Self {
        Self {
            number,
            _reservation: None,
        }
    }

    pub(super) const fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_stays_with_its_holder_while_nobody_listens_there() {
        let held = Port::reserve().unwrap();
        assert!(Port::try_reserve(held.number()).is_none());
        let number = held.number();
        drop(held);
        assert!(Port::try_reserve(number).is_some());
    }

    #[test]
    fn a_port_is_not_given_again_soon() {
        let number = Port::reserve().unwrap().number();
        let next: Vec<u16> = (0..100)
            .map(|_| Port::reserve().unwrap().number())
            .collect();
        assert!(!next.contains(&number), "{number} in {next:?}");
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_given() {
        let number = Port::reserve().unwrap().number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        assert!(Port::try_reserve(number).is_none());
    }
}
