use std::time::Duration;

use lockkeeper_core::{Bundle, BundleEnd, FencingToken, Lease, LostMember, Released, Result};

#[cfg(doc)]
use crate::MultiLock;

/// A held [`MultiLock`]: a lease for each member, and what is true of all of them.
///
/// Dropping it releases all in the background; [`release`](Self::release) waits for the servers' word. It is no lease itself:
/// ask [`leases`](Self::leases) about one member, the guard about the whole.
///
/// Bind it to a name: `let _guard = locks.acquire().await?` keeps it to the end of its block, while
/// `let _ = locks.acquire().await?` drops it at once, and so releases.
#[derive(Debug)]
#[must_use = "dropping a guard releases the locks"]
pub struct MultiGuard(Bundle);

impl MultiGuard {
    pub(crate) const fn new(bundle: Bundle) -> Self {
        Self(bundle)
    }

    /// The lease of each member, in the order in which they were acquired, which is that of every process. When one is lost the
    /// others end with it: they are renewed no more, and say that they were released.
    pub fn leases(&self) -> &[Lease] {
        self.0.leases()
    }

    /// The lease of the member called `name`; the first, if members of several clients are called so.
    ///
    /// # Examples
    ///
    /// See [`run`](Self::run).
    pub fn lease(&self, name: &str) -> Option<&Lease> {
        self.leases().iter().find(|lease| lease.name() == name)
    }

    /// The fencing token of each member and the member's name, in the order of the leases. Tokens are of their names: those of
    /// different members cannot be compared.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let (order, stock) = (Mutex::new(&client, "order:7"), Mutex::new(&client, "stock"));
    /// let guard = MultiLock::new([order.member(), stock.member()])?.acquire().await?;
    /// for (name, token) in guard.fencing_tokens() {
    ///     println!("what {name} protects is told {token}");
    /// }
    /// assert_eq!(guard.leases().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&str, FencingToken)> {
        let leases = self.leases().iter();
        leases.map(|lease| (lease.name(), lease.fencing_token()))
    }

    /// How long the whole may be believed in if no further renewal is answered; zero once it has ended.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Checks locally that every member is held, for use right before a step that matters.
    ///
    /// It cannot protect the time between the check and the step; only fencing tokens that the resources check can.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) with the name of the member that was lost, and the reason.
    pub fn ensure_held(&self) -> Result<()> {
        self.0.ensure_held()
    }

    /// Asks every server whether the claims hold, all at once.
    ///
    /// `Ok` means that each had its claim while its question was answered, and that all leases are believed in. A server that
    /// does not know a claim ends the whole here and now.
    ///
    /// # Errors
    ///
    /// As for [`ensure_held`](Self::ensure_held); [`Backend`](lockkeeper_core::Error::Backend) if a server did not answer, which changes
    /// nothing.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`Lease::verify`] is.
    ///
    /// # Examples
    ///
    /// See [`run`](Self::run).
    pub async fn verify(&self) -> Result<()> {
        self.0.verify().await
    }

    /// Resolves when the whole has ended, one way or the other; for watchers that must not wait for ever. It keeps nothing alive.
    pub fn ended(&self) -> impl Future<Output = BundleEnd> + Send + use<> {
        self.0.ended()
    }

    /// Resolves when a member is lost, and the whole with it; never if the guard is released. For `select!`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, LossReason};
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let (order, stock) = (Mutex::new(&client, "order:7"), Mutex::new(&client, "stock"));
    /// let guard = MultiLock::new([order.member(), stock.member()])?.acquire().await?;
    /// client.revoke("stock").await?;
    /// let lost = guard.lost().await;
    /// assert_eq!((lost.name.as_str(), lost.reason), ("stock", LossReason::Revoked));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = LostMember> + Send + use<> {
        self.0.lost()
    }

    /// Runs a future for as long as the whole lasts, and stops it by dropping it when a member is lost.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) with the name of the member that was lost; the future was dropped then, at one of its
    /// awaits.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as `future`; the leases are not touched.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Error};
    /// # use lockkeeper_multi::MultiLock;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let members = ["a", "b"].map(|name| Mutex::new(&client, name).member());
    /// let guard = MultiLock::new(members)?.acquire().await?;
    /// guard.verify().await?;
    /// assert!(guard.lease("b").is_some());
    ///
    /// client.revoke("b").await?;
    /// let stopped = guard.run(std::future::pending::<()>()).await;
    /// assert!(matches!(stopped, Err(Error::Lost { name, .. }) if name == "b"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output> {
        self.0.run(future).await
    }

    /// Lets all members go, in the reverse order of acquiring, and waits until the servers have confirmed it. Every member is
    /// tried, whatever becomes of the others; a server that is silent does not keep them.
    ///
    /// When it returns `Ok`, each member is free or already another's; what became of each stands in the order of the leases.
    ///
    /// # Errors
    ///
    /// [`Lost`](lockkeeper_core::Error::Lost) if a member had been lost before: then all are let go in the background.
    /// [`Partial`](lockkeeper_core::Error::Partial) with the name of each member that was not released, and why; the others were. The guard
    /// is gone in every case, and leaves without answer are repeated in the background.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: dropping the future is dropping the guard.
    ///
    /// # Examples
    ///
    /// See [`MultiLock`].
    pub async fn release(self) -> Result<Vec<Released>> {
        self.0.release().await
    }

    pub(crate) async fn within<F, T>(self, work: F) -> Result<T>
    where
        F: AsyncFnOnce(&[Lease]) -> T,
    {
        self.0.within(work).await
    }
}
