//! What the tasks of a history do with locks: which they take, and what they do with a guard.

use fastrand::Rng;
use lockkeeper::{Client, Election, Once, Owner, ReadGuard, Result, Target, Upgrade, WriteGuard};
use lockkeeper_core::Hold;
use lockkeeper_once::ByHand;

use super::plan::Plan;
use crate::kinds::{KindModel, Mode};

/// The limit of every semaphore, as all clients state it.
pub(super) const LIMIT: u8 = 3;

/// What a task holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) hold: Hold,
    /// Whether it reads.
    pub(super) reads: bool,
}

/// The outcome of converting a guard.
pub(super) enum Changed {
    /// Another guard has replaced it.
    Done(Held),
    /// It is unchanged.
    Refused(Held),
}

/// How an acquisition holds: with this many permits if the kind has permits, otherwise for reading or for writing.
pub(super) fn mode(model: &KindModel, reads: bool, permits: impl FnOnce() -> u8) -> Mode {
    if model.has_permits() {
        let (permits, limit) = (permits(), LIMIT);
        return Mode::Permits { permits, limit };
    }
    if reads { Mode::Read } else { Mode::Write }
}

/// The lock called `name`, for an owner, which a leader proclaims.
pub(super) fn target(
    model: &KindModel,
    client: &Client,
    name: &str,
    owner: Owner,
    mode: Mode,
) -> Target {
    if model.proclaims() {
        return Election::new(client, name)
            .value(owner.to_string())
            .target();
    }
    model.lock(client, name, mode)
}

/// A run of work that is done once, sometimes one that repeats it as the command does. `None` for a lock, and then no random
/// number is drawn.
pub(super) fn work(
    model: &KindModel,
    client: &Client,
    name: &str,
    plan: &Plan,
    random: &mut Rng,
) -> Result<Option<ByHand>> {
    let work = || {
        let work = Once::new(client, name).keep_for(plan.keep_for(random));
        work.by_hand(random.u8(..4) == 0)
    };
    model.stores().then(work).transpose()
}

/// Takes the lock once more beside a guard, and returns that guard too. `None` if the kind cannot do that.
pub(super) async fn again(
    model: &KindModel,
    held: Held,
    random: &mut Rng,
) -> (Held, Result<Option<Held>>) {
    let Held { hold, reads } = held;
    if !model.reenters {
        return (Held { hold, reads }, Ok(None));
    }
    let (hold, again) = if model.has_modes() && !reads && !random.bool() {
        let guard = WriteGuard::from(hold);
        let inner = guard.read().await;
        let again = inner.map(|inner| (inner.into(), true));
        (guard.into(), again)
    } else {
        let again = hold.reenter().await;
        (hold, again.map(|again| (again, reads)))
    };
    let again = again.map(|(hold, reads)| Some(Held { hold, reads }));
    (Held { hold, reads }, again)
}

/// Downgrades a guard that writes, and tries to upgrade one that reads.
pub(super) async fn change(held: Held) -> Result<Changed> {
    let held_as = |hold, reads| Held { hold, reads };
    if !held.reads {
        let guard = WriteGuard::from(held.hold).downgrade().await?;
        return Ok(Changed::Done(held_as(guard.into(), true)));
    }
    Ok(match ReadGuard::from(held.hold).try_upgrade().await? {
        Upgrade::Write(guard) => Changed::Done(held_as(guard.into(), false)),
        Upgrade::Busy(guard) => Changed::Refused(held_as(guard.into(), true)),
    })
}
