//! The permits of a semaphore, as its server counts them.

use lockkeeper_lua::Status;

use crate::admin::question::{Question, unexpected};
use crate::engine::Engine;
use crate::seam::protocol::Protocol;
use crate::seam::store::Value;
use crate::words::error::{Error, Result};

/// The permits of a semaphore: its limit, and how many are held. It exists while anybody holds or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// The limit.
    pub limit: u32,
    /// How many permits are held. After the limit was lowered, this may be more than the limit.
    pub held: u32,
    /// How many claims wait for permits.
    pub waiters: u64,
}

impl Permits {
    /// A limit, a number of held permits and a number of waiters: for tests of your own code.
    pub const fn new(limit: u32, held: u32, waiters: u64) -> Self {
        Self {
            limit,
            held,
            waiters,
        }
    }
}

/// Asks for the permits of a semaphore, or sets its limit; `None` if nobody holds or waits.
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
    let question = Question::of(protocol.kind(), "ask for the limit of");
    let item = || limited.limit(limit, floor, engine.settings.waiter_ttl);
    loop {
        let (reply, _) = question.ask(engine, name, item).await?;
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
