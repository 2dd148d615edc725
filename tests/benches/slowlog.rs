//! The duration of scripts, from the server's own slow log.

use anyhow::{Result, bail};
use lockkeeper_lua::Script;
use lockkeeper_testkit::server::{Reply, Server};

use crate::meters::count;

/// Commands that take at most this long, µs, are not logged. That excludes the commands inside scripts; the shortest script
/// takes longer.
const SHORTEST: &str = "6";

/// The capacity of the log.
const LOGGED: &str = "4096";

/// The log of a server.
pub(crate) struct SlowLog<'a>(pub(crate) &'a Server);

impl SlowLog<'_> {
    /// Clears the log and starts logging.
    pub(crate) async fn start(&self) -> Result<()> {
        self.set("slowlog-max-len", LOGGED).await?;
        self.set("slowlog-log-slower-than", SHORTEST).await?;
        self.0.command(&["SLOWLOG", "RESET"]).await?;
        Ok(())
    }

    /// Stops logging.
    pub(crate) async fn stop(&self) -> Result<()> {
        self.set("slowlog-log-slower-than", "-1").await
    }

    async fn set(&self, parameter: &str, value: &str) -> Result<()> {
        let words = ["CONFIG", "SET", parameter, value];
        self.0.command(&words).await?;
        Ok(())
    }

    /// The durations of the runs of `script` in the log, µs.
    pub(crate) async fn of(&self, script: &Script) -> Result<Vec<f64>> {
        let log = self.0.command(&["SLOWLOG", "GET", LOGGED]).await?;
        let Reply::List(entries) = log else {
            bail!("a log that is no list");
        };
        let mut times = Vec::new();
        for entry in entries {
            let Reply::List(fields) = entry else {
                bail!("an entry of the log that is no list");
            };
            let mut fields = fields.into_iter().skip(2);
            let (Some(time), Some(words)) = (fields.next(), fields.next()) else {
                bail!("an entry of the log that is too short");
            };
            if words
                .into_texts()?
                .get(1)
                .is_some_and(|sha1| sha1 == script.sha1)
            {
                times.push(count(u32::try_from(time.into_integer()?)?));
            }
        }
        Ok(times)
    }
}
