//! Tasks that arm a latch, count it down and wait for it.

use std::time::Duration;

use fastrand::Rng;
use lockkeeper::{Error, Latch, Result};
use tokio::time::sleep;

use super::host::{Closed, Host, Wish, word};
use super::place::Place;
use super::world::World;
use crate::gated::drop_after;

/// The usual number of counts of a latch.
const COUNTS: u32 = 3;

/// How many ids count it down.
const IDS: u32 = 5;

/// Arms latches, counts them down and waits for them until the history ends or the client is closed.
pub(super) async fn work(host: Host, mut random: Rng) {
    while !host.world.is_ending() {
        let name = random.usize(..host.world.plan.names);
        if turn(&host, name, &mut random).await.is_err() {
            return;
        }
        let pause = host.spell(&mut random, 0.12);
        sleep(pause).await;
    }
}

async fn turn(host: &Host, name: usize, random: &mut Rng) -> std::result::Result<(), Closed> {
    let (world, link) = (&*host.world, host.link_of(name));
    let Place {
        server, name: text, ..
    } = &world.places()[name];
    let ttl = world.plan.ttl.mul_f64([0.3, 1.0, 2.0][random.usize(..3)]);
    // Rounded to whole milliseconds.
    let ttl = Duration::from_millis(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    let latch = Latch::new(&host.clients[*server], text).ttl(ttl);
    let began = world.now();
    let polls = (random.u8(..4) == 0).then(|| random.usize(1..8));
    let outcome = match random.u8(..8) {
        0 => {
            let n = match random.u8(..8) {
                0 => random.u32(..COUNTS),
                _ => COUNTS,
            };
            told(link, "arms", given_up(latch.arm(n), polls).await, world)
        }
        1..=3 => {
            let id = format!("id {}", random.u32(..IDS));
            let counting = given_up(latch.count_down(&id), polls).await;
            told(link, "counts", counting, world)
        }
        4 => told(
            link,
            "looks",
            given_up(latch.remaining(), polls).await,
            world,
        ),
        way => {
            let latch = match way {
                5 => latch.wait_for(host.spell(random, 0.5)),
                _ => latch,
            };
            let owner = host.clients[world.places()[name].server].new_owner();
            let now = world.now();
            let waiter = world.check(|checks| checks.latches.waits(name, link, now));
            let wish = Wish::new(host, name, owner, true);
            let waiting = world.check_at_end(|checks| checks.latches.waits_no_more(waiter));
            let waited = given_up(latch.wait(), polls).await;
            drop((waiting, wish));
            let ended = match &waited {
                Some(Ok(())) => Some(true),
                Some(Err(Error::NotArmed { .. })) => Some(false),
                _ => None,
            };
            if let Some(passes) = ended {
                world.check(|checks| checks.let_go(name, link, passes, began));
            }
            told(link, "waits", waited, world)
        }
    };
    match outcome {
        // It is armed with another number of counts, or is not armed.
        Err(Error::NotArmed { .. } | Error::Config { .. }) | Ok(()) => Ok(()),
        Err(error) => host.judge(&error, began),
    }
}

/// Awaits a future, or drops it after this many polls and returns `None`.
async fn given_up<T>(
    asking: impl Future<Output = Result<T>>,
    polls: Option<usize>,
) -> Option<Result<T>> {
    match polls {
        Some(polls) => drop_after(asking, polls).await,
        None => Some(asking.await),
    }
}

fn told<T>(link: usize, what: &str, outcome: Option<Result<T>>, world: &World) -> Result<()> {
    let told = outcome.as_ref().map_or("given up".to_owned(), word);
    world.tell(format_args!("c{link} {what}: {told}"));
    outcome.transpose().map(drop)
}
