//! A password file that is read again, because the password may change.

use std::error::Error as StdError;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockkeeper_core::{Error, Result};

use super::{Ask, Asked, Credentials, CredentialsProvider};
use crate::failure;

/// The longest time until the file is read again. After a change of the secret the old one usually stays valid for minutes, and reading
/// a file costs next to nothing. The time after which credentials expire is shortened by at least a fifth.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// No password is longer, and an endless file must not be read forever.
const LONGEST: u64 = 64 * 1024;

/// A [provider](CredentialsProvider) that reads the password from a file, so that a changed secret is in use after 24 s at the
/// latest.
///
/// It reads the file for each new connection, and every 20 to 24 s while connections live. `password-file=` in a URL does the same.
///
/// The password is the text of the file, UTF-8, without the line break at its end. To change it, put a new file in its place
/// (`rename`, as Kubernetes does). Otherwise the store may read a half-written password; the server refuses it, and the file is
/// read again.
///
/// ```no_run
/// use lockkeeper_redis::{PasswordFile, RedisOptions};
///
/// # async fn example() -> lockkeeper_core::Result<()> {
/// let file = PasswordFile::new("/run/secrets/redis").user("app");
/// let store = RedisOptions::new().credentials(file).connect("redis://cache:6379").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordFile {
    path: PathBuf,
    user: Option<String>,
}

impl PasswordFile {
    /// The file at `path`, with the password of the default user.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            user: None,
        }
    }

    /// Sets the user of the password. The default user unless set.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The file that a URL names.
    pub(crate) fn of_url(path: String, user: Option<String>) -> Result<Self> {
        match path.is_empty() {
            true => Err(Error::config(
                "the setting password-file of the URL names no file: password-file=/path/to/file",
            )),
            false => Ok(Self {
                path: path.into(),
                user,
            }),
        }
    }

    pub(super) fn ask(&self) -> Asked<'_> {
        <Self as Ask>::ask(self)
    }
}

impl CredentialsProvider for PasswordFile {
    async fn credentials(&self) -> Result<Credentials, Box<dyn StdError + Send + Sync>> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await?;
        let credentials = Credentials::new(read?).expires_in(READ_WITHIN);
        Ok(match &self.user {
            Some(user) => credentials.user(user),
            None => credentials,
        })
    }
}

/// The password, or what is wrong with the file. The contents of the file are never shown.
fn read(path: &Path) -> Result<String, String> {
    let unusable = |why: &str| format!("the password file {} {why}", path.display());
    let unreadable = |error: io::Error| {
        let why = failure::words_of_io(&error);
        unusable(&format!("cannot be read: {why}"))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
    if read.map_err(unreadable)? as u64 > LONGEST {
        return Err(unusable("is longer than 64 KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| unusable("is not UTF-8 text"))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    match password.is_empty() {
        true => Err(unusable("is empty")),
        false => Ok(password.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_text_of_its_file_without_the_line_break() {
        let directory = std::env::temp_dir().join(format!("lockkeeper-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("password");
        for (text, expected) in [
            (&b"secret"[..], Ok("secret")),
            (b"secret\n", Ok("secret")),
            (b"secret\r\n", Ok("secret")),
            (b" se cret \n\n", Ok(" se cret \n")),
            (b"\n", Err("is empty")),
            (b"", Err("is empty")),
            (b"\xff", Err("is not UTF-8 text")),
            (&[b'a'; 70_000], Err("is longer than 64 KiB")),
        ] {
            std::fs::write(&file, text).unwrap();
            match (read(&file), expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (read, _) => panic!("{read:?} instead of {expected:?}"),
            }
        }
        std::fs::remove_dir_all(&directory).unwrap();
        let error = read(&file).unwrap_err();
        assert!(
            error.ends_with("cannot be read: No such file or directory"),
            "{error}"
        );
    }
}
