use std::sync::Arc;

use lockkeeper_core::store::Store;
use lockkeeper_core::{Client, ClientBuilder, Error, Result};

/// Connects to the deployment that `url` names, with default settings.
///
/// When it returns `Ok`, the server has answered and has accepted the user.
///
/// # Errors
///
/// [`Error::Config`] for an invalid URL; [`Error::Backend`] if the server cannot be reached within 5 s or rejects the
/// user.
///
/// # Cancel safety
///
/// Cancel safe: a half-made connection is closed.
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

/// Connects to the deployment that `url` names, with your own settings.
///
/// # Errors
///
/// As for [`connect`], and [`Error::Config`] for an invalid setting.
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

/// Connects to a server that may be down now. Use it for the servers of a [`Redlock`](crate::Redlock), which works
/// while a minority of them is down.
///
/// When it returns `Ok`, the server either has answered or could not be reached. If it could not be reached, requests
/// fail until it answers.
///
/// # Errors
///
/// As for [`connect_with`], except that an unreachable server is not an error.
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
    match url.split_once("://") {
        Some(("memory", name)) => in_memory(name, settings),
        Some(_) => {
            let label = settings.client_label();
            let store = on_server(url, label.as_deref(), later).await?;
            let client = settings.build(store)?;
            client.warn_of_missing_rights();
            Ok(client)
        }
        None => Err(Error::config(
            "a URL must begin with its scheme, like redis://127.0.0.1:6379 or memory://",
        )),
    }
}

#[cfg(feature = "memory")]
fn in_memory(name: &str, settings: ClientBuilder) -> Result<Client> {
    use lockkeeper_memory::MemoryStore;

    if name.contains('?') {
        return Err(Error::config(
            "a memory:// URL can have a name but no settings: give settings to the client's builder",
        ));
    }
    let engine = match name {
        "" => MemoryStore::new(),
        name => MemoryStore::shared(name),
    };
    // The in-process server has no users, so no right can be missing.
    settings.build(Arc::new(engine))
}

#[cfg(not(feature = "memory"))]
fn in_memory(_name: &str, _settings: ClientBuilder) -> Result<Client> {
    Err(Error::config(
        "memory:// needs the feature \"memory\" of the crate lockkeeper, which this program was built without",
    ))
}

#[cfg(any(feature = "redis", feature = "fred"))]
async fn on_server(url: &str, label: Option<&str>, later: bool) -> Result<Arc<dyn Store>> {
    use lockkeeper_redis::RedisOptions;

    let mut options = RedisOptions::new();
    if let Some(label) = label {
        options = options.client_name(label);
    }
    let store = match later {
        true => options.connect_later(url).await,
        false => options.connect(url).await,
    };
    Ok(Arc::new(store?))
}

#[cfg(not(any(feature = "redis", feature = "fred")))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn on_server(_url: &str, _label: Option<&str>, _later: bool) -> Result<Arc<dyn Store>> {
    Err(Error::config(
        "a server needs the feature \"redis\" or \"fred\" of the crate lockkeeper, which this program was built without",
    ))
}
