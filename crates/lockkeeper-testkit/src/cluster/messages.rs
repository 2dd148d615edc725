//! Messages in a cluster: whether they are sharded, and how many connections receive them.

use anyhow::{Context, Result};

use super::Cluster;

impl Cluster {
    /// Whether the nodes support sharded messages, which carry the channels of names then: from version 7.
    ///
    /// # Errors
    ///
    /// If no node answers.
    pub async fn has_sharded_messages(&self) -> Result<bool> {
        let info = self.running()?.command(&["INFO", "server"]).await?;
        let info = info.into_text()?;
        let version = info.split("redis_version:").nth(1);
        let major = version.and_then(|version| version.split('.').next());
        Ok(major.context("no version")?.parse::<u64>()? >= 7)
    }

    /// How many connections to a node are subscribed to a channel, for either kind of message.
    ///
    /// # Errors
    ///
    /// If the node does not answer.
    pub async fn listeners(&self, node: usize, channel: &str) -> Result<u64> {
        let listeners = self.listeners_of_each(node, &[channel]).await?;
        listeners.first().copied().context("no count")
    }

    /// The same for each of many channels.
    ///
    /// # Errors
    ///
    /// If the node does not answer.
    pub async fn listeners_of_each(&self, node: usize, channels: &[&str]) -> Result<Vec<u64>> {
        let mut questions = vec!["NUMSUB"];
        if self.has_sharded_messages().await? {
            questions.push("SHARDNUMSUB");
        }
        let mut listeners = vec![0; channels.len()];
        for question in questions {
            let words = [&["PUBSUB", question], channels].concat();
            let counts = self.nodes[node].command(&words).await?.into_texts()?;
            for (listeners, count) in listeners.iter_mut().zip(counts.chunks(2)) {
                *listeners += count.get(1).context("no count")?.parse::<u64>()?;
            }
        }
        Ok(listeners)
    }

    /// Publishes on the channel of a name as a script would, on the node that owns its slot. Returns the number of receivers
    /// there.
    ///
    /// # Errors
    ///
    /// If that node does not answer.
    pub async fn publish(&self, channel: &str, message: &str) -> Result<i64> {
        if self.has_sharded_messages().await? {
            let words = ["SPUBLISH", channel, message];
            return self.command(&words).await?.into_integer();
        }
        let owner = self.primary_of(self.slot_of(channel).await?).await?;
        let words = ["PUBLISH", channel, message];
        self.nodes[owner].command(&words).await?.into_integer()
    }
}
