use std::sync::Arc;

use lockkeeper_core::store::Store;
use lockkeeper_core::{Client, ClientBuilder, Error, Result};
use lockkeeper_memory::MemoryStore;
use lockkeeper_redis::{RedisOptions, RedisStore};

/// A client with default settings on the deployment that `url` names.
///
/// When it returns `Ok`, the server has answered and knows the user.
///
/// # Errors
///
/// [`Error::Config`] for a URL that cannot be one; [`Error::Backend`] if the server cannot be reached within 5 s or does
/// not let this user in.
///
/// # Cancel safety
///
/// Cancel safe: a connection half made is given up.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper::Result<()> {
/// let client = lockkeeper::connect("memory://").await?;
/// # client.close().await;
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Client::builder()).await
}

/// A client with settings of its own on the deployment that `url` names.
///
/// # Errors
///
/// As for [`connect`], and [`Error::Config`] if a setting cannot work.
///
/// # Cancel safety
///
/// As for [`connect`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lockkeeper::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper::Result<()> {
/// let settings = Client::builder().namespace("billing").ttl(Duration::from_secs(10));
/// let client = lockkeeper::connect_with("memory://", settings).await?;
/// # client.close().await;
/// # Ok(())
/// # }
/// ```
pub async fn connect_with(url: &str, settings: ClientBuilder) -> Result<Client> {
    open(url, settings, false).await
}

/// A client of one server of several, which may be down: for a [`Redlock`](crate::Redlock), which works without some of them.
///
/// When it returns `Ok`, the server has answered, or it was out of reach. Then requests fail until it answers.
///
/// # Errors
///
/// As for [`connect_with`], except that a server that is out of reach is no error.
///
/// # Cancel safety
///
/// As for [`connect`].
///
/// # Examples
///
/// ```
/// use lockkeeper::Client;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lockkeeper::Result<()> {
/// // Nobody listens there.
/// let client = lockkeeper::connect_later("redis://127.0.0.1:1", Client::builder()).await?;
/// # client.close().await;
/// # Ok(())
/// # }
/// ```
pub async fn connect_later(url: &str, settings: ClientBuilder) -> Result<Client> {
    open(url, settings, true).await
}

async fn open(url: &str, settings: ClientBuilder, later: bool) -> Result<Client> {
    let store: Arc<dyn Store> = match url.split_once("://") {
        // There are no users.
        Some(("memory", "")) => return settings.build(Arc::new(MemoryStore::new())),
        Some(("memory", name)) if name.contains('?') => {
            return Err(Error::config(
                "a memory:// URL has a name and no settings: give them to the client's builder",
            ));
        }
        Some(("memory", name)) => return settings.build(Arc::new(MemoryStore::shared(name))),
        Some(_) if later => Arc::new(RedisOptions::new().connect_later(url).await?),
        Some(_) => Arc::new(RedisStore::connect(url).await?),
        None => {
            return Err(Error::config(
                "a URL must begin with its scheme, like redis://127.0.0.1:6379 or memory://",
            ));
        }
    };
    let client = settings.build(store)?;
    client.warn_of_missing_rights();
    Ok(client)
}
