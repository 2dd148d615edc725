//! The locks that the tasks of a history take.

use fastrand::Rng;
use lockkeeper::{Client, Election, Once, Owner, Result, Target};
use lockkeeper_once::ByHand;

use super::plan::Plan;
use crate::kinds::{KindModel, Mode};

/// The limit of every semaphore, as all clients state it.
pub(super) const LIMIT: u8 = 3;

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
