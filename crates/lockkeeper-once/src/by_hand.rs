//! Runs of work that is not a closure.

use std::sync::{Arc, OnceLock};

use lockkeeper_core::{FencingToken, Result, Target};

use crate::protocol::{OnceProtocol, ToStore};
use crate::{LARGEST, Once};

/// One run of work that is not a closure. The command uses it, because its work is a program, and so do models. It
/// excludes every other run of the work.
///
/// While its claim holds, [`Once::peek`] reads the result that this run will replace, because only a claim that holds
/// can store one.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByHand {
    once: Once,
    target: Target,
    to_store: Arc<OnceLock<ToStore>>,
}

impl ByHand {
    /// The largest result, in bytes.
    pub const LARGEST: usize = LARGEST;

    pub(crate) fn new(once: &Once, again: bool) -> Self {
        let to_store = Arc::default();
        Self {
            target: once
                .target
                .by(|name| OnceProtocol::new(name, &to_store).again(again)),
            once: once.clone(),
            to_store,
        }
    }

    /// Returns what to acquire. Acquire it only once.
    pub fn target(&self) -> Target {
        self.target.clone()
    }

    /// Sets the value that the release of the claim with this token stores, if the claim still holds then. Until this
    /// is called, a release stores nothing; a second call changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Config`](lockkeeper_core::Error::Config) if the value has more than [`LARGEST`](Self::LARGEST) bytes.
    pub fn store(&self, token: FencingToken, value: &[u8]) -> Result<()> {
        self.once.set_done(&self.to_store, token, value)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lockkeeper_core::{Acquire, Client, Error, Hold};
    use lockkeeper_memory::MemoryStore;

    use super::*;

    fn work() -> Once {
        let client = Client::builder().build(Arc::new(MemoryStore::new()));
        Once::new(&client.unwrap(), "work")
    }

    async fn begin(once: &Once) -> (ByHand, Hold) {
        let run = once.by_hand(true).unwrap();
        let hold = Acquire::<Hold>::new(run.target()).await.unwrap();
        (run, hold)
    }

    async fn result(once: &Once) -> Option<Vec<u8>> {
        once.peek().await.unwrap()?.value
    }

    #[tokio::test(start_paused = true)]
    async fn it_replaces_the_result_that_is_stored() {
        let work = work();
        for result in ["one", "two"] {
            let (run, hold) = begin(&work).await;
            run.store(hold.fencing_token(), result.as_bytes()).unwrap();
            hold.release().await.unwrap();
            assert_eq!(
                self::result(&work).await.as_deref(),
                Some(result.as_bytes())
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_given_up_leaves_the_result_as_it_is() {
        let work = work();
        let (run, hold) = begin(&work).await;
        run.store(hold.fencing_token(), b"one").unwrap();
        hold.release().await.unwrap();
        let (_, hold) = begin(&work).await;
        assert!(hold.release().await.is_ok());
        assert_eq!(result(&work).await.as_deref(), Some(&b"one"[..]));
    }

    #[tokio::test(start_paused = true)]
    async fn one_whose_claim_was_taken_stores_nothing() {
        let client = Client::builder().build(Arc::new(MemoryStore::new()));
        let client = client.unwrap();
        let work = Once::new(&client, "work");
        let (run, hold) = begin(&work).await;
        run.store(hold.fencing_token(), b"one").unwrap();
        let claim = client.inspect("work").await.unwrap().holders[0]
            .claim
            .clone();
        assert!(client.force_release("work", &claim).await.unwrap());
        assert!(matches!(hold.release().await, Err(Error::Lost { .. })));
        assert_eq!(result(&work).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_excludes_other_runs_of_the_work() {
        let work = work();
        let (_run, _hold) = begin(&work).await;
        let other = Acquire::<Hold>::new(work.by_hand(true).unwrap().target());
        let other = other.wait_for(Duration::ZERO).await;
        assert!(matches!(other, Err(Error::Timeout { .. })));
        let other = work.wait_for(Duration::ZERO);
        assert!(
            other
                .get_or_run(async |_| Ok::<_, ()>(Vec::new()))
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_too_large_is_refused() {
        let work = work();
        let (run, hold) = begin(&work).await;
        let large = vec![b'x'; ByHand::LARGEST + 1];
        let refused = run.store(hold.fencing_token(), &large);
        assert!(matches!(refused, Err(Error::Config { .. })));
        run.store(hold.fencing_token(), &large[1..]).unwrap();
        hold.release().await.unwrap();
        assert_eq!(
            result(&work).await.map(|it| it.len()),
            Some(ByHand::LARGEST)
        );
    }
}
