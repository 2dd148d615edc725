//! What tasks can do with a guard of a kind, besides releasing it.

use fastrand::Rng;
use lockkeeper::{ReadGuard, Result, Upgrade, WriteGuard};
use lockkeeper_core::Hold;

use super::KindModel;

/// What a task holds.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) hold: Hold,
    /// Whether it reads.
    pub(crate) reads: bool,
}

/// The outcome of converting a guard.
pub(crate) enum Converted {
    /// Another guard has replaced it.
    Done(Held),
    /// It is unchanged.
    Refused(Held),
}

/// Takes the lock once more beside a guard, and returns that guard too. `None` if the kind cannot do that.
pub(crate) async fn reenter(
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
pub(crate) async fn convert(held: Held) -> Result<Converted> {
    let held_as = |hold, reads| Held { hold, reads };
    if !held.reads {
        let guard = WriteGuard::from(held.hold).downgrade().await?;
        return Ok(Converted::Done(held_as(guard.into(), true)));
    }
    Ok(match ReadGuard::from(held.hold).try_upgrade().await? {
        Upgrade::Write(guard) => Converted::Done(held_as(guard.into(), false)),
        Upgrade::Busy(guard) => Converted::Refused(held_as(guard.into(), true)),
    })
}
