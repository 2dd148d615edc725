//! The client: one connection to one deployment.

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

/// A connection to one deployment, shared by all locks that are made from it. Clones are the same client.
///
/// One client per process and deployment is enough: it renews all leases from one task and listens on one connection.
/// When the last clone and the last guard are gone, what was given up is still released in the background.
#[derive(Clone)]
pub struct Client {
    pub(crate) engine: Arc<Engine>,
}

impl Client {
    /// Settings for a new client, to be handed to `lockkeeper::connect_with` together with a URL.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A new logical holder, unlike any other.
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

    /// Who the client is, for people: see [`ClientBuilder::label`].
    pub fn label(&self) -> Option<Arc<str>> {
        self.engine.settings.label()
    }

    /// Looks at the lock called `name`, of whatever kind: who holds it, for how long, and how many wait.
    ///
    /// When it returns `Ok`, nothing has changed. What it returns was so when the server was asked, and may be over.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`](crate::Error::Backend) if the server refuses or does not answer;
    /// [`Error::WrongKind`](crate::Error::WrongKind) if the name holds no lock;
    /// [`Error::Config`](crate::Error::Config) for a bad name; [`Error::Closed`](crate::Error::Closed) if the client is.
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
        inspection::inspect(&self.engine, &self.engine.name(name)?).await
    }

    /// Who waits for the lock called `name`, of a kind with a queue, in order: the next to hold first, `most` at most. Waiters
    /// that have died count until they are passed over.
    ///
    /// When it returns `Ok`, nothing has changed. What it returns was so when the server was asked, and may be over.
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

    /// The owners of those who wait for a name in a queue, in order, `most` at most: by one request, where [`waiters`](Self::waiters) also asks
    /// for the label of each client.
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

    /// The names in this client's namespace that match `pattern` and hold something, page by page. Nothing is sent before the
    /// first page is asked for.
    ///
    /// A pattern is that of Redis: `*` for anything, `?` for one byte, `[a-c]` for one of these, and `\` before a character
    /// that stands for itself. The server goes through its keys three times: those that are only read live under another key.
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

    /// What the server is, as far as it says so.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`](crate::Error::Backend) if the server refuses or does not answer;
    /// [`Error::Closed`](crate::Error::Closed) if the client is.
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

    /// What this client's user may not do of what locks of all kinds have in common, as the rules that would allow it, in the
    /// words of `ACL SETUSER`: `+publish`, `&lockkeeper.client:*`. The server says only that a command on a channel is refused, so
    /// both are named. Empty if nothing is missing, and of a server before Redis 7.0, which cannot be asked.
    ///
    /// Not looked at are the commands of single kinds, like `GETEX` of the mutex, and the patterns of keys: a user may be for
    /// some names only. A call that is refused for one of these says so. Of a cluster one node is asked.
    ///
    /// `lockkeeper::connect` asks this once by itself, and logs a warning.
    ///
    /// # Errors
    ///
    /// [`Error::Backend`](crate::Error::Backend) if the server does not answer, or refuses: who may not run scripts is told so
    /// by that. [`Error::Closed`](crate::Error::Closed) if the client is.
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

    /// Asks for [`missing_rights`](Self::missing_rights) in the background, and logs a warning if there are any. Nobody is
    /// kept waiting, and no client is kept alive.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
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

    /// Asks whoever holds the lock called `name` to let it go; how many claims that is, 0 if nobody holds it.
    ///
    /// When it returns `Ok`, those claims are renewed no more, nobody re-enters, and their holders have been sent a message,
    /// by which their leases are lost for [`Revoked`](crate::LossReason::Revoked). The lock is free when their guards are
    /// gone, at the latest when their leases end. A holder that no message reaches learns of it at its next renewal; one
    /// with a fixed lease does not.
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect). A lock of another library is [`Error::Foreign`](crate::Error::Foreign), which
    /// says who holds it: it cannot be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the holders were told. Calling it again tells them again.
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
        inspection::revoke(&self.engine, &self.engine.name(name)?).await
    }

    /// Takes the lock called `name` away by force if `claim`, as [`inspect`](Self::inspect) shows it, has a part in it;
    /// whether it had.
    ///
    /// When it returns `Ok(true)`, the name is free, and all claims of the same hold are gone. The next holder's fencing token
    /// is larger, as ever.
    ///
    /// **Unsafe for what the lock protects:** the holder may work on until it hears of it, by a message, or by its next
    /// renewal if that is lost; with a fixed lease, to its deadline. For a holder that is known to be dead; otherwise
    /// [`revoke`](Self::revoke).
    ///
    /// # Errors
    ///
    /// As for [`inspect`](Self::inspect); [`Error::Backend`](crate::Error::Backend) also if the claim is not there and a request
    /// before got no answer: nobody knows whether that one took it away.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lock was taken away. Calling it again harms nobody else: a claim
    /// lives once.
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
        inspection::force_release(&self.engine, &self.engine.name(name)?, claim).await
    }

    /// Ends the client: waiting acquisitions fail with [`Error::Closed`](crate::Error::Closed), live guards are lost, what was given up is
    /// released, connections are closed.
    ///
    /// A lease whose guard is still alive is not released, because nobody knows whether the work under it has stopped:
    /// it is [`Lost`](crate::LossReason::ClientClosed) to its holder and expires on the server. Release guards first.
    /// Takes at most the client's release timeout, and a second more to take leave of the server. Closing twice is
    /// harmless.
    ///
    /// # Cancel safety
    ///
    /// The client is closed as soon as the future was polled once; dropping it later only leaves the rest to the
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
