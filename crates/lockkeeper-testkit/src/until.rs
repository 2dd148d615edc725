//! Waiting for something that nothing reports.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
pub use lockkeeper_conformance::time::{PATIENCE, beyond_stalls};
use tokio::time::{Instant, sleep, timeout_at};

/// Short enough for paused time, and so long that looking costs a server little.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `look` returns `true`; beside that it returns what it saw.
///
/// # Errors
///
/// If looking fails, or if `what` has not happened within `patience`.
pub async fn until<S: Display>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<(bool, S)>,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        let looked = timeout_at(deadline + PAUSE, look()).await;
        let (happened, seen) = looked.with_context(|| format!("no answer in time: {what}"))??;
        if happened {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not in time: {what}\n{seen}");
        sleep(PAUSE).await;
    }
}
