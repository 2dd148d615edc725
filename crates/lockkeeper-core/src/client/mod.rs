//! The client of one deployment.

pub(crate) mod builder;
pub(crate) mod lock;
pub(crate) mod watch;

use std::fmt;
use std::sync::Arc;

use crate::admin::inspection::Inspection;
use crate::admin::listing::{Names, ServerFacts};
use crate::admin::rights::Question;
use crate::admin::{inspection, listing};
use crate::client::builder::ClientBuilder;
use crate::engine::Engine;
use crate::words::ending::CloseReport;
use crate::words::error::{Error, Result};
use crate::words::holder::Waiter;
use crate::words::owner::Owner;

/// A client of one deployment. All locks that you make from it share it; clones are the same client.
///
/// One client per process and deployment is enough: one task renews all leases, and one connection receives all
/// messages. When the last clone and the last guard are gone, pending releases are still sent in the background.
#[derive(Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

impl Client {
    /// Settings for a new client; pass them to `lockkeeper::connect_with` together with a URL.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Creates a new owner, different from every other.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, Owner};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let owner = client.new_owner();
    /// assert_ne!(owner, client.new_owner());
    /// // It can be handed to another process, which then is the same holder.
    /// let told: Owner = owner.to_string().parse()?;
    /// assert_eq!(told, owner);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new_owner(&self) -> Owner {
        self.engine.new_owner()
    }

    /// Returns the client's label, by which people recognise it: see [`ClientBuilder::label`].
    pub fn label(&self) -> Option<Arc<str>> {
        self.engine.settings.label()
    }

    /// Shows who holds the lock called `name`, for how long, and how many claims wait. It works for every kind.
    ///
    /// It changes nothing. The result was true when the server answered, and may be out of date.
    ///
    /// # Errors
    ///
    /// - [`Error::Backend`](crate::Error::Backend) if the server refuses or does not answer;
    /// - [`Error::WrongKind`](crate::Error::WrongKind) if the name does not hold a lock;
    /// - [`Error::Config`](crate::Error::Config) for an invalid name;
    /// - [`Error::Closed`](crate::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// let seen = client.inspect("report").await?;
    /// assert_eq!(seen.kind.as_deref(), Some("mutex"));
    /// assert_eq!(seen.token, Some(guard.fencing_token()));
    /// assert_eq!(seen.holders[0].owner, Some(guard.owner()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn inspect(&self, name: &str) -> Result<Inspection> {
        inspection::inspect(&self.engine, &self.engine.name(name)?, None).await
    }

    /// Returns the first `most` waiters for the lock called `name`, if its kind has a queue. The next holder comes
    /// first. A dead waiter is listed until the queue passes it over.
    ///
    /// It changes nothing. The result was true when the server answered, and may be out of date.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// for (place, waiter) in client.waiters("printer", 100).await?.iter().enumerate() {
    ///     println!("{}. {}", place + 1, waiter.claim);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn waiters(&self, name: &str, most: u32) -> Result<Vec<Waiter>> {
        inspection::waiters(&self.engine, &self.engine.name(name)?, most).await
    }

    /// Returns the owners of the first `most` waiters for a name, in queue order. It takes one request;
    /// [`waiters`](Self::waiters) also asks for the label of each client.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    pub async fn waiting_owners(&self, name: &str, most: u32) -> Result<Vec<Owner>> {
        inspection::waiting_owners(&self.engine, &self.engine.name(name)?, most).await
    }

    /// Lists the names in this client's namespace that match `pattern` and are in use, page by page. Nothing is sent
    /// before you ask for the first page.
    ///
    /// Patterns are those of Redis: `*` for anything, `?` for one byte, `[a-c]` for one byte of a range, and `\`
    /// before a character that is meant literally. A complete listing goes through all keys of the server once.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let _guard = Mutex::new(&client, "invoice:42").acquire().await?;
    /// let mut names = client.names("invoice:*");
    /// let mut found = std::collections::BTreeSet::new();
    /// while let Some(page) = names.next_page().await? {
    ///     found.extend(page);
    /// }
    /// assert!(found.into_iter().eq(["invoice:42"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn names(&self, pattern: &str) -> Names {
        Names::new(&self.engine, pattern)
    }

    /// Returns facts about the server, as far as it reports them.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`](crate::Error::Backend) if the server refuses or does not answer;
    /// [`Error::Closed`](crate::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: lockkeeper_core::Client) -> lockkeeper_core::Result<()> {
    /// let facts = client.server_facts().await?;
    /// if facts.eviction.is_some_and(|policy| policy != "noeviction") {
    ///     eprintln!("this server forgets locks when its memory is full");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn server_facts(&self) -> Result<ServerFacts> {
        listing::server_facts(&self.engine).await
    }

    /// Returns the rights that this client's user lacks for locks of all kinds, as the `ACL SETUSER` rules that would
    /// grant them, for example `+publish` or `&lockkeeper.client:*`.
    ///
    /// If the server refuses a command on a channel, it does not say which of the two is missing, so both rules are
    /// returned. The result is empty if nothing is missing, and always for a server before Redis 7.0, because such a
    /// server cannot be asked.
    ///
    /// It does not check commands that only some kinds use, such as `ZADD` for the fair lock. Nor does it check key
    /// patterns, because a user may be limited to some names. If the server refuses a call for one of these reasons,
    /// that call's error says so. In a cluster, only one node is asked.
    ///
    /// `lockkeeper::connect` calls this once and logs a warning if something is missing.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`](crate::Error::Backend) if the server does not answer, or refuses, for example because this
    /// user may not run scripts. [`Error::Closed`](crate::Error::Closed) if the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let missing = client.missing_rights().await?;
    /// assert!(missing.is_empty(), "ACL SETUSER app {}", missing.join(" "));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn missing_rights(&self) -> Result<Vec<String>> {
        drop(self.engine.enter()?);
        let question = Question::of(&self.engine)?;
        tokio::select! {
            biased;
            () = self.engine.closed() => Err(Error::Closed),
            missing = question.put() => missing,
        }
    }

    /// Checks [`missing_rights`](Self::missing_rights) in the background, and logs a warning if any right is missing.
    /// It does not block, and does not keep the client alive.
    ///
    /// # Panics
    ///
    /// If it is called outside of a tokio runtime.
    #[doc(hidden)]
    pub fn warn_of_missing_rights(&self) {
        let closed = self.engine.until_closed();
        if let Ok(question) = Question::of(&self.engine) {
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = closed => {}
                    () = question.warn() => {}
                }
            });
        }
    }

    /// Asks the holders of the lock called `name` to release it. Returns how many claims it has asked, 0 if nobody
    /// holds the lock.
    ///
    /// When it returns `Ok`, those claims are no longer renewed, nobody can re-enter, and a message has been sent to
    /// their holders. When the message arrives, their leases are lost with [`Revoked`](crate::LossReason::Revoked). The
    /// lock becomes free when their guards are gone, or at the latest when their leases end. If the message does not
    /// reach a holder, its next renewal tells it; a holder with a fixed lease never learns of it.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect). [`Error::Foreign`](crate::Error::Foreign) if another library holds the lock:
    /// the error names its holder, which cannot be asked to release.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the holders may or may not have been asked. Calling it again asks them again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, LossReason};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// assert_eq!(client.revoke("report").await?, 1);
    /// assert_eq!(guard.lost().await.reason, LossReason::Revoked);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn revoke(&self, name: &str) -> Result<u64> {
        inspection::revoke(&self.engine, &self.engine.name(name)?, None).await
    }

    /// Takes the lock called `name` away by force, if `claim` is one of its holders. Pass the claim as
    /// [`inspect`](Self::inspect) shows it. Returns whether it was a holder.
    ///
    /// When it returns `Ok(true)`, the name is free, and all claims of the same hold are gone. The next holder's
    /// fencing token is larger, as always.
    ///
    /// **Unsafe for what the lock protects:** the holder may continue to work until a message tells it of the loss, or
    /// its next renewal if the message does not arrive; with a fixed lease, until its deadline. Use it only if you
    /// know that the holder is dead; otherwise use [`revoke`](Self::revoke).
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect). Also [`Error::Backend`](crate::Error::Backend) if a first request got no
    /// answer and a second one does not find the claim: the first may have taken the lock away.
    ///
    /// # Cancel safety
    ///
    /// If you drop the future, the lock may or may not have been taken away. Calling it again cannot harm another
    /// holder, because a claim id is never used again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::Client;
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// # std::mem::forget(Mutex::new(&client, "report").acquire().await?);
    /// let seen = client.inspect("report").await?;
    /// assert!(client.force_release("report", &seen.holders[0].claim).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_release(&self, name: &str, claim: &str) -> Result<bool> {
        inspection::force_release(&self.engine, &self.engine.name(name)?, claim, None).await
    }

    /// Closes the client: waiting acquisitions fail with [`Error::Closed`](crate::Error::Closed), live guards are
    /// lost, pending releases are sent, and connections are closed.
    ///
    /// Release your guards first. A lease whose guard is still alive is not released, because the work under it may
    /// still be running: the lease is [`Lost`](crate::LossReason::ClientClosed) to its holder and expires on the server.
    ///
    /// Closing takes at most the client's release timeout, plus one second to disconnect. Closing twice is harmless.
    ///
    /// # Cancel safety
    ///
    /// The first poll of the future closes the client. If you drop the future after that, the rest is done in the
    /// background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use lockkeeper_core::{Client, LossReason};
    /// # use lockkeeper_mutex::Mutex;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lockkeeper_core::Result<()> {
    /// # let client = Client::builder().build(Arc::new(lockkeeper_memory::MemoryStore::new()))?;
    /// let guard = Mutex::new(&client, "report").acquire().await?;
    /// let forgotten = Mutex::new(&client, "desk").acquire().await?;
    /// guard.release().await?;
    ///
    /// let report = client.close().await;
    /// assert_eq!(report.expiring, 1);
    /// assert_eq!(forgotten.lost().await.reason, LossReason::ClientClosed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> CloseReport {
        self.engine.close().await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.engine.id)
            .field("namespace", &self.engine.settings.namespace)
            .field("store", &self.engine.requester.store)
            .finish_non_exhaustive()
    }
}
