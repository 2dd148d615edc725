//! Which server, under which name, as whom.

use std::path::PathBuf;

use clap::Args;
use lockkeeper::{Client, ClientBuilder};

use crate::exit::Failure;

/// Where locks live if nothing else is said.
const URL: &str = "redis://127.0.0.1:6379";

/// Where the locks live.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// Where the locks live: redis://[[user]:password@]host[:port][/database] or unix:///path
    ///
    /// Everybody on this machine can read a command line: put a URL with a password into LOCKKEEPER_URL or a file.
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    url: Option<String>,

    /// A file whose only line is the URL; goes before LOCKKEEPER_URL
    #[arg(long, global = true, env = "LOCKKEEPER_URL_FILE", value_name = "FILE")]
    url_file: Option<PathBuf>,

    /// What stands before every name; empty: names are keys as they are
    #[arg(
        long,
        global = true,
        env = "LOCKKEEPER_NAMESPACE",
        default_value = "lockkeeper",
        value_name = "TEXT"
    )]
    namespace: String,

    /// As whom others see this holder, behind machine and process
    #[arg(long, global = true, env = "LOCKKEEPER_LABEL", value_name = "TEXT")]
    label: Option<String>,
}

impl Server {
    /// Connects, with the namespace and the label put into `settings`.
    pub(crate) async fn connect(&self, settings: ClientBuilder) -> Result<Client, Failure> {
        let url = self.url()?;
        if url.starts_with("memory:") {
            return Err(Failure::usage(
                "memory:// is known to this process alone, so its locks keep nobody out: use redis:// or unix://",
            ));
        }
        let settings = settings.namespace(&*self.namespace).label(self.label());
        Ok(lockkeeper::connect_with(&url, settings).await?)
    }

    fn url(&self) -> Result<String, Failure> {
        let Some(file) = &self.url_file else {
            return Ok(self.url.clone().unwrap_or_else(|| URL.to_owned()));
        };
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!(
                "cannot read the URL in {}: {error}",
                file.display()
            ))
        })?;
        Ok(text.trim().to_owned())
    }

    /// `host:pid text`: what one needs to find a holder, and what its user says of it.
    fn label(&self) -> String {
        let machine = rustix::system::uname();
        let machine = machine.nodename().to_string_lossy().into_owned();
        let place = format!("{machine}:{}", std::process::id());
        match self.label.as_deref() {
            None | Some("") => place,
            Some(text) => format!("{place} {text}"),
        }
    }
}
