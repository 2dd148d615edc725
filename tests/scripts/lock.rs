//! The effect of the scripts of a single-server name on its keys, and their replies, on the embedded engine and on a real
//! server. No script knows a kind but by comparing its name, so the writers of a read-write lock stand for the claims of a fair lock too.
//!
//! No test waits: time passes by moving the times in the keys into the past.

mod administered;
mod conversions;
mod crowds;
mod foreign;
mod handovers;
mod holding;
mod lifetime;
mod modes;
mod permits;
mod readers;
mod scripts;
mod servers;
mod silence;
mod turns;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_lua::name;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;

use super::connection::{Connection, SLACK, is_nearly, number};
use scripts::Lock;

/// Defines a test for every vector: for each of these kinds, from each of these states of the name, on each site.
macro_rules! vectors {
    ([$($state:ident)*] $kinds:tt $tests:tt) => {
        $(mod $state {
            use super::*;
            vectors! { @of $state $kinds $tests }
        })*
    };
    (@of $state:ident [$($kind:ident)*] $tests:tt) => {
        $(mod $kind {
            use super::*;
            vectors! { @on $state $kind $tests }
        })*
    };
    (@on $state:ident $kind:ident { $($test:ident)* }) => {
        mod on_memory {
            use super::*;
            $(#[tokio::test]
            async fn $test() -> Result<()> {
                let it = Lock::on(MemoryStore::new(), stringify!($kind), stringify!($state));
                super::super::super::$test(&it.await?).await
            })*
        }
        mod on_a_server {
            use super::*;
            $(#[tokio::test]
            async fn $test() -> Result<()> {
                let it = Lock::on(Server::start().await?, stringify!($kind), stringify!($state));
                super::super::super::$test(&it.await?).await
            })*
        }
    };
}

use vectors;

/// The ttl of a waiter.
const WAITER_TTL: i64 = 100_000;
const WAITER_TTL_TEXT: &str = "100000";
/// More than half of the waiter ttl: the server could not have heard from any waiter.
const GAP: i64 = 200_000;
/// The least time for which the keys of an inflated name are remembered, and the time for which they are armed.
const MEMORY: i64 = 600_000;

const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const A: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/000000000000000a";
/// Other claims of the owner of `A`.
const A2: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a2";
const A3: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:1/00000000000000a3";
const B: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:2/000000000000000b";
const C: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:3/000000000000000c";
const D: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:4/000000000000000d";
const E: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:5/000000000000000e";
const F: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:6/000000000000000f";
/// A claim that inflates names and is gone.
const PASSER_BY: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8:9/0000000000000099";

/// A claim, and its share of the name.
#[derive(Debug, Clone, Copy)]
struct Claim<'a> {
    id: &'a str,
    share: &'static str,
}

/// A claim takes the whole name by default.
impl<'a> From<&'a str> for Claim<'a> {
    fn from(id: &'a str) -> Self {
        Self { id, share: "x" }
    }
}

/// Builds a claim with this id and a certain share.
type Of = fn(&str) -> Claim<'_>;

const fn writer(id: &str) -> Claim<'_> {
    Claim { id, share: "x" }
}

const fn reader(id: &str) -> Claim<'_> {
    Claim { id, share: "1" }
}

/// One permit of four.
const fn one(id: &str) -> Claim<'_> {
    Claim { id, share: "1/4" }
}

const fn two(id: &str) -> Claim<'_> {
    Claim { id, share: "2/4" }
}

/// All four of them.
const fn four(id: &str) -> Claim<'_> {
    Claim { id, share: "4/4" }
}

/// How an acquire differs from the default.
#[derive(Debug, Clone, Copy)]
struct How {
    ttl: &'static str,
    token: i64,
    limit: &'static str,
}

const USUAL: How = How {
    ttl: "60000",
    token: 0,
    limit: "-1",
};

/// An acquire that does not wait.
const TRY: How = How {
    limit: "0",
    ..USUAL
};

const HOUR: i64 = 3_600_000;

/// An acquire with a lease of an hour.
const LONG: How = How {
    ttl: "3600000",
    ..USUAL
};

/// This many claims, each with an owner of its own.
fn crowd(number: usize) -> Vec<String> {
    let claims = 1..=number;
    claims
        .map(|n| format!("{CLIENT}:{}/{n:016x}", n + 100))
        .collect()
}

fn token(reply: &str) -> Result<i64> {
    number(reply, "GRANTED", 1)
}

/// The place of a claim that an acquire told to wait.
fn waiting(reply: &str) -> Result<i64> {
    number(reply, "WAITING", 2)
}

/// `A` holds for an hour, and these wait. Returns the token of `A`.
async fn line_up(it: &Lock, waiters: &[&str]) -> Result<i64> {
    let token = it.hold(A).await?;
    for (before, claim) in (0..).zip(waiters) {
        ensure!(waiting(&it.acquire(*claim).await?)? == before + 1);
    }
    Ok(token)
}
