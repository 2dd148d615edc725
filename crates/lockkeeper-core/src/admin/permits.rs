//! The permits of a semaphore, as its server counts them.

use lockkeeper_lua::Status;

use crate::admin::inspection::{Question, ask, unexpected};
use crate::engine::Engine;
use crate::seam::protocol::Protocol;
use crate::seam::store::Value;
use crate::words::error::{Error, Result};

/// How many permits of a semaphore there are and how many are held, as long as anybody holds or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// How many there are.
    pub limit: u32,
    /// How many are held: more than the limit, if that was lowered.
    pub held: u32,
    /// How many claims wait for some.
    pub waiters: u64,
}

impl Permits {
    /// So many permits, of which so many are held, and so many claims that wait: for a test of your own code.
    pub const fn new(limit: u32, held: u32, waiters: u64) -> Self {
        Self {
            limit,
            held,
            waiters,
        }
    }
}

/// Asks for the permits of a semaphore, or says that there are so many from now on; `None` if nobody holds and nobody waits.
pub(crate) async fn limit(
    engine: &Engine,
    protocol: &dyn Protocol,
    limit: Option<u32>,
) -> Result<Option<Permits>> {
    let name = protocol.name();
    let Some(limited) = protocol.limited() else {
        return Err(Error::config(format!(
            "a {} lock has no limit",
            protocol.kind()
        )));
    };
    let floor = engine.requester.floors.of(name);
    let item = || limited.limit(limit, floor, engine.settings.waiter_ttl);
    loop {
        let (reply, _) = ask(engine, name, Question::Limit, item).await?;
        let number = |index: usize| reply.field(index).and_then(Value::as_i64);
        let permits = |limit: i64, held: i64, waiters: i64| {
            let (limit, held) = (limit.try_into().ok()?, held.try_into().ok()?);
            Some(Permits::new(limit, held, waiters.try_into().ok()?))
        };
        return match (reply.status(), number(0), number(1), number(2)) {
            (Status::More, ..) => continue,
            (Status::Free, ..) => Ok(None),
            (Status::Limit, Some(limit), Some(held), Some(waiters)) => {
                permits(limit, held, waiters)
                    .map(Some)
                    .ok_or_else(|| unexpected(name, &reply))
            }
            _ => Err(unexpected(name, &reply)),
        };
    }
}
