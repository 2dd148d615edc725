//! Chooses a port for each server so that clients never reach the wrong server.
//!
//! A client that outlives its server keeps dialling the port. If another test's server listened there by then, it would answer
//! without having the client's keys. So a port stays reserved for its server while that is down, and is not reused soon
//! afterwards. All ports lie below the ephemeral range, so no outgoing connection can occupy one while its server restarts.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};

/// The first server port, and how many there are.
const FIRST: u16 = 10_000;
const COUNT: u16 = 5_000;

/// Offset from a server's port to its reservation, a listener that all processes see and that ends with this process.
const RESERVATION: u16 = COUNT;

/// Offset from a server's port to the port on which a cluster node listens to the other nodes.
const BUS: u16 = 2 * COUNT;

/// How many ports this process has tried.
static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// A port that stays reserved for its holder, whether a process listens there or not.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// `None` for a server that another process started: the server itself listens, which is enough.
    _reservation: Option<TcpListener>,
}

impl Port {
    /// Reserves a port that is free and whose cluster-bus port is free too.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn reserve() -> Result<Self> {
        // Most other processes start elsewhere.
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

    /// Reserves this port, unless somebody has it.
    pub fn try_reserve(number: u16) -> Option<Self> {
        let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
        let reservation = listen(number + RESERVATION)?;
        // Both are free again when this returns.
        let _unused = (listen(number)?, listen(number + BUS)?);
        Some(Self {
            number,
            _reservation: Some(reservation),
        })
    }

    /// The port of a server that is already listening.
    pub(super) const fn of_another_process(number: u16) -> Self {
        Self {
            number,
            _reservation: None,
        }
    }

    /// The number that a server listens on.
    pub const fn number(&self) -> u16 {
        self.number
    }
}
