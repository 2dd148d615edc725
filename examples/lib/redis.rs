use anyhow::{Context as _, Result};
use fred::interfaces::ClientLike as _;
use fred::types::config::Config;
use fred::types::{Builder, ClusterHash, CustomCommand};
use lockkeeper_memory::MemoryStore;

/// Redis for data that is no lock: the stock, the ledger, the cache. A server with fred, or the embedded engine, which knows few
/// commands. Your own program uses its own client library.
#[derive(Debug)]
pub enum Redis {
    /// The embedded engine.
    Memory(MemoryStore),
    /// A server.
    Server(fred::clients::Client),
}

impl Redis {
    /// Connects to the server of the locks.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached.
    pub async fn connect(url: &str) -> Result<Self> {
        if let Some(name) = url.strip_prefix("memory://") {
            return Ok(Self::Memory(MemoryStore::shared(name)));
        }
        let url = url.replacen("valkey://", "redis://", 1);
        let client = Builder::from_config(Config::from_url(&url)?).build()?;
        client.init().await.context("failed to connect")?;
        Ok(Self::Server(client))
    }

    /// Sends a command. A number is returned in decimal, nothing as `None`.
    ///
    /// # Errors
    ///
    /// If the server refuses or does not answer.
    pub async fn command(&self, words: &[&str]) -> Result<Option<String>> {
        match self {
            Self::Memory(store) => {
                let value = store.execute(words)?;
                let number = value.as_i64().map(|number| number.to_string());
                Ok(value.as_str().map(str::to_owned).or(number))
            }
            Self::Server(client) => {
                let (name, words) = words.split_first().context("no command")?;
                let command = CustomCommand::new(*name, ClusterHash::FirstKey, false);
                let words = words.iter().map(|word| (*word).to_owned()).collect();
                Ok(client.custom(command, words).await?)
            }
        }
    }

    /// Sends a command whose answer is a number.
    ///
    /// # Errors
    ///
    /// As for [`command`](Self::command), and if there is no number.
    pub async fn number(&self, words: &[&str]) -> Result<i64> {
        let answer = self.command(words).await?.context("no answer")?;
        answer.parse().context("not a number")
    }

    /// Runs a Lua script on one key, atomically.
    ///
    /// # Errors
    ///
    /// As for [`command`](Self::command).
    pub async fn script(&self, script: &str, key: &str, args: &[&str]) -> Result<Option<String>> {
        let words = [&["EVAL", script, "1", key], args].concat();
        self.command(&words).await
    }
}
