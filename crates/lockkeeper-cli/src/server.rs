//! The options for the server, the namespace and the label. Keeps passwords in URLs out of messages.

use std::env;
use std::path::PathBuf;

use clap::Args;
use lockkeeper::{Client, ClientBuilder};

use crate::exit::Failure;

/// The default URL.
const URL: &str = "redis://127.0.0.1:6379";

/// The longest label that the library takes.
const LONGEST_LABEL: usize = 256;

/// Removes everything from a message about this command line that looks like the user and password of a URL. These may occur
/// where no URL is expected, and without a scheme.
pub(crate) fn hushed(text: String) -> String {
    let words = env::args_os().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let mut secrets: Vec<&str> = words.iter().flat_map(|word| secrets(word)).collect();
    // The longest first, because a shorter one may be a part of it.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.iter().fold(text, |text, secret| {
        // The text may have the secret both plain and quoted.
        let quoted = secret.escape_debug().to_string();
        let text = text.replace(&format!("{secret}@"), "…@");
        text.replace(&format!("{quoted}@"), "…@")
    })
}

/// Returns everything before a host in a word. The URL may be the whole word, the value of a long option or the value of a short
/// one.
fn secrets(word: &str) -> impl Iterator<Item = &str> {
    let long = word.split_once('=').map(|(_, value)| value);
    let short = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
    let short = short.and_then(|it| it.get(1..));
    let values = [long, short, Some(word)].into_iter().flatten();
    values.filter_map(|value| {
        let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
        let (secret, _) = rest.rsplit_once('@')?;
        secret.contains(char::is_alphanumeric).then_some(secret)
    })
}

/// The server and how to connect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// The server: redis://[[user]:password@]host[:port][/database], redis-cluster://host:port,
    /// redis-sentinel://host:port/service or unix:///path
    /// [env: LOCKKEEPER_URL] [default: redis://127.0.0.1:6379]
    ///
    /// Anybody on this machine can read a command line, so put a URL with a password into the environment or a file.
    #[arg(long, global = true, value_name = "URL", conflicts_with = "url_file")]
    url: Option<String>,

    /// A file whose only line is that URL [env: LOCKKEEPER_URL_FILE, which overrides LOCKKEEPER_URL]
    #[arg(long, global = true, value_name = "FILE")]
    url_file: Option<PathBuf>,

    /// The prefix of every name, without colons or braces; empty: names are the keys themselves
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_NAMESPACE",
        default_value = "lockkeeper",
        value_name = "TEXT"
    )]
    namespace: String,

    /// Text that others see for this holder, after machine and process; 256 bytes in all
    #[arg(long, global = true, env = "LOCKKEEPER_LABEL", value_name = "TEXT")]
    label: Option<String>,
}

impl Server {
    /// Connects, with the namespace and the label added to `settings`.
    pub(crate) async fn connect(&self, settings: ClientBuilder) -> Result<Client, Failure> {
        let named = self.named_url()?;
        let nobody_said_where = named.is_none();
        let url = named.unwrap_or_else(|| URL.to_owned());
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "locks on memory:// exist in this process only and exclude no other process: use redis:// or unix://",
            ));
        }
        let settings = settings.namespace(&*self.namespace).label(self.label()?);
        let connected = lockkeeper::connect_with(&url, settings).await;
        connected.map_err(|error| {
            let failure = Failure::from(error);
            if nobody_said_where {
                failure.with_hint("choose another server with --url, --url-file or LOCKKEEPER_URL")
            } else {
                failure
            }
        })
    }

    /// Connects to the server that was named, or, if none was, to `memory://`, which is enough for a single process.
    pub(crate) async fn connect_or_alone(
        &self,
        settings: ClientBuilder,
    ) -> Result<Client, Failure> {
        match self.named_url()? {
            Some(_) => self.connect(settings).await,
            None => Ok(lockkeeper::connect_with("memory://", settings).await?),
        }
    }

    /// Returns the URL that was named, if any. It is read here and not by the parser of the command line, which might print it.
    fn named_url(&self) -> Result<Option<String>, Failure> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(url) = &self.url {
            return Ok(Some(url.clone()));
        }
        let named_file = || set("LOCKKEEPER_URL_FILE").map(PathBuf::from);
        let Some(file) = self.url_file.clone().or_else(named_file) else {
            let url = set("LOCKKEEPER_URL").map(|url| url.into_string());
            let unreadable = |_| Failure::usage("LOCKKEEPER_URL is not UTF-8 text");
            return url.transpose().map_err(unreadable);
        };
        let text = std::fs::read_to_string(&file).map_err(|error| {
            let file = file.display();
            Failure::usage(format!("cannot read the URL in {file}: {error}"))
        })?;
        Ok(Some(text.trim().to_owned()))
    }

    /// Returns `host:pid text`: machine and process, by which people find a holder, and the user's text.
    pub(crate) fn label(&self) -> Result<String, Failure> {
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy().into_owned();
        let place = format!("{machine}:{}", std::process::id());
        let Some(text) = self.label.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(place);
        };
        let (length, room) = (text.len(), LONGEST_LABEL.saturating_sub(place.len() + 1));
        if length > room {
            return Err(Failure::usage(format!(
                "a --label of {length} bytes is too long: only {room} fit after {place:?}"
            )));
        }
        Ok(format!("{place} {text}"))
    }
}

/// The machine and process at the start of a label, where this library puts them unless told otherwise.
pub(crate) fn place(label: &str) -> Option<(&str, u32)> {
    let first = label.split(' ').next()?;
    let (host, pid) = first.rsplit_once(':')?;
    Some((host, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_begins_with_machine_and_process_is_taken_apart() {
        assert_eq!(place("db1:4711"), Some(("db1", 4711)));
        assert_eq!(place("db1:4711 the nightly report"), Some(("db1", 4711)));
        assert_eq!(place("::1:80"), Some(("::1", 80)));
        for label in ["nightly", "", "a:b", "nightly report:12"] {
            assert_eq!(place(label), None, "{label}");
        }
    }

    #[test]
    fn what_stands_before_a_host_is_a_secret() {
        for (word, expected) in [
            ("redis://:pass@host", &[":pass"][..]),
            ("--url=redis://me:p@ss@host", &["me:p@ss", "me:p@ss"]),
            (":pass@host", &[":pass"]),
            ("--wait=:pass@host", &[":pass", "--wait=:pass"]),
            ("-E:pass@host", &[":pass", "-E:pass"]),
            ("pass@", &["pass"]),
            (":@host", &[]),
            ("nightly", &[]),
        ] {
            assert_eq!(secrets(word).collect::<Vec<_>>(), expected, "{word}");
        }
    }
}
