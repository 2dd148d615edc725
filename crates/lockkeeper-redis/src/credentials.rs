//! Credentials, which may change while a store lives: the provider that gives them, and the login of a connection.

mod file;
mod session;

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::time::timeout;

pub use file::PasswordFile;
pub(crate) use session::Session;

/// A password, its user, and for how long the server accepts them.
///
/// Its `Debug` output shows none of them.
///
/// ```
/// use std::time::Duration;
/// use lockkeeper_redis::Credentials;
///
/// let token = Credentials::new("token").user("app").expires_in(Duration::from_secs(15 * 60));
/// assert!(!format!("{token:?}").contains("token"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
    expires_in: Option<Duration>,
}

impl Credentials {
    /// A password of the default user that never expires.
    pub fn new(password: impl Into<String>) -> Self {
        Self {
            user: None,
            password: password.into(),
            expires_in: None,
        }
    }

    /// Sets the user of the password. The default user unless set.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Sets for how long from now the server accepts them. Forever unless set.
    ///
    /// The provider is asked again when two thirds to four fifths of that time are over, but at most every 500 ms, and connections
    /// that live are logged in anew with the credentials it returns.
    #[must_use]
    pub const fn expires_in(mut self, time: Duration) -> Self {
        self.expires_in = Some(time);
        self
    }

    /// Whether a server sees no difference between the two.
    pub(crate) fn are(&self, others: &Self) -> bool {
        (&self.user, &self.password) == (&others.user, &others.password)
    }

    /// The error without the password, which a server may repeat in its message: one that does not know `AUTH` answers with the
    /// arguments that it received.
    pub(crate) fn hidden_in(&self, error: StoreError) -> StoreError {
        let message = error.message();
        let code = match error.code() {
            Some(code) if !self.password.is_empty() => code.len(),
            _ => return error,
        };
        match message.split_at_checked(code) {
            Some((code, words)) if words.contains(&self.password) => {
                let words = words.replace(&self.password, "…");
                StoreError::refused(format!("{code}{words}"))
            }
            _ => error,
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// Provides the current credentials: tokens of IAM or Entra, a secret that rotates.
///
/// The store asks it for each new connection, and again before the credentials of a connection [expire](Credentials::expires_in),
/// or when a server no longer knows the login of a connection. A store opens two connections to each server at the same moment, so
/// a provider that calls a service should cache the answer while it is valid.
///
/// An attempt to connect fails if the provider fails or takes longer than
/// [`connect_timeout`](crate::RedisOptions::connect_timeout); it is repeated like every attempt. A connection that lives is kept
/// meanwhile: the provider is asked again after 1 s, then ever less often, up to every 16 s.
///
/// A closure that returns a future is a provider too, and so is a [`PasswordFile`].
///
/// # Cancel safety
///
/// The store drops the future when its time is over or the store is closed, so it must be safe to drop at any await.
///
/// # Examples
///
/// ```no_run
/// use std::error::Error;
/// use std::time::Duration;
/// use lockkeeper_redis::{Credentials, CredentialsProvider, RedisOptions};
///
/// struct Tokens;
///
/// impl CredentialsProvider for Tokens {
///     async fn credentials(&self) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
///         let token = sign_a_token().await?;
///         Ok(Credentials::new(token).user("app").expires_in(Duration::from_secs(15 * 60)))
///     }
/// }
///
/// # async fn sign_a_token() -> Result<String, std::io::Error> { Ok(String::new()) }
/// # async fn example() -> lockkeeper_core::Result<()> {
/// let store = RedisOptions::new().credentials(Tokens).connect("redis://cache:6379").await?;
/// # Ok(())
/// # }
/// ```
pub trait CredentialsProvider: Send + Sync + 'static {
    /// Returns the credentials to log in with now.
    ///
    /// # Errors
    ///
    /// Any reason for which there are no credentials. The error's message appears in logs and in errors of the store.
    fn credentials(
        &self,
    ) -> impl Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send;
}

impl<F, A> CredentialsProvider for F
where
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send,
{
    fn credentials(
        &self,
    ) -> impl Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send {
        self()
    }
}

/// A provider of any type.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Ask>);

type Asked<'a> =
    Pin<Box<dyn Future<Output = Result<Credentials, Box<dyn StdError + Send + Sync>>> + Send + 'a>>;

trait Ask: Send + Sync {
    fn ask(&self) -> Asked<'_>;
}

impl<P: CredentialsProvider> Ask for P {
    fn ask(&self) -> Asked<'_> {
        Box::pin(self.credentials())
    }
}

impl Provider {
    pub(crate) fn new(provider: impl CredentialsProvider) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Provider(..)")
    }
}

/// How to log in to a server.
#[derive(Debug, Clone)]
pub(crate) enum Login {
    /// There is no login.
    Nobody,
    /// Always with the same credentials.
    Always(Credentials),
    /// With the contents of a file.
    File(PasswordFile),
    /// With the answer of a provider.
    Asked(Provider),
}

impl Login {
    /// Whether a later answer may be different.
    pub(crate) const fn changes(&self) -> bool {
        matches!(self, Self::File(_) | Self::Asked(_))
    }

    /// The credentials to log in with now.
    pub(crate) async fn credentials(
        &self,
        patience: Duration,
    ) -> Result<Option<Credentials>, StoreError> {
        let asked: Asked<'_> = match self {
            Self::Nobody => return Ok(None),
            Self::Always(credentials) => return Ok(Some(credentials.clone())),
            Self::File(file) => file.ask(),
            Self::Asked(provider) => provider.0.ask(),
        };
        let credentials = timeout(patience, asked).await.map_err(|_| {
            StoreError::not_sent(format!("no credentials were given within {patience:?}"))
        })?;
        credentials.map(Some).map_err(|error| {
            StoreError::not_sent(format!("there are no credentials: {error}"))
                .with_source(Unprovided(error))
        })
    }
}

impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nobody, Self::Nobody) => true,
            (Self::Always(one), Self::Always(other)) => one == other,
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Asked(one), Self::Asked(other)) => Arc::ptr_eq(&one.0, &other.0),
            _ => false,
        }
    }
}

impl Eq for Login {}

/// The error of a provider.
#[derive(Debug)]
struct Unprovided(Box<dyn StdError + Send + Sync>);

impl fmt::Display for Unprovided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Unprovided {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_core::store::Outcome;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_gives_no_credentials_is_told_of_in_words() {
        let second = Duration::from_secs(1);
        let failing = Provider::new(|| async { Err("the vault is sealed".into()) });
        let slow = Provider::new(std::future::pending::<Result<_, _>>);
        for (provider, expected) in [
            (failing, "there are no credentials: the vault is sealed"),
            (slow, "no credentials were given within 1s"),
        ] {
            let error = Login::Asked(provider).credentials(second).await;
            let error = error.unwrap_err();
            assert_eq!(error.message(), expected);
            assert_eq!(error.outcome(), Outcome::NotSent);
            assert!(error.is_transient());
        }
    }

    #[test]
    fn a_server_that_repeats_the_password_is_not_quoted() {
        let credentials = Credentials::new("hunter2").user("ann");
        let said = "ERR unknown command 'AUTH', with args beginning with: 'ann' 'hunter2'";
        let error = credentials.hidden_in(StoreError::refused(said));
        assert_eq!(
            error.message(),
            "ERR unknown command 'AUTH', with args beginning with: 'ann' '…'"
        );
        // The code stays as it is, whatever the password is.
        let error = Credentials::new("PASS").hidden_in(StoreError::refused("WRONGPASS no"));
        assert_eq!(error.message(), "WRONGPASS no");
    }
}
