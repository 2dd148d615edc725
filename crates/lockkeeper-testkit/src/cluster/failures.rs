//! Nodes that die, stop, come back and are replaced.

use anyhow::Result;

use super::{Cluster, is, ranges};
use crate::server::Server;

impl Cluster {
    /// Ends a node as a crash would. If it was a primary, a replica of it takes its place, for which
    /// [`failed_over`](Self::failed_over) waits.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled, or a node does not answer.
    pub async fn kill(&mut self, node: usize) -> Result<()> {
        self.let_be_replaced(node).await?;
        self.nodes[node].kill()
    }

    /// Stops a node's time: its connections stay open and answer nothing. If it was a primary, a replica of it takes its
    /// place, for which [`failed_over`](Self::failed_over) waits.
    ///
    /// # Errors
    ///
    /// If it does not run, or another node does not answer.
    pub async fn freeze(&mut self, node: usize) -> Result<()> {
        self.let_be_replaced(node).await?;
        self.frozen[node] = true;
        self.nodes[node].freeze()
    }

    async fn let_be_replaced(&self, node: usize) -> Result<()> {
        let id = self.ids[node].as_str();
        let follows = |line: &str| is(line, "myself") && line.split(' ').nth(3) == Some(id);
        for other in self.answering() {
            let nodes = other.command(&["CLUSTER", "NODES"]).await?.into_text()?;
            if nodes.lines().any(follows) {
                let_take_over(other, true).await?;
            }
        }
        Ok(())
    }

    /// Lets a frozen node go on.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn thaw(&mut self, node: usize) -> Result<()> {
        self.frozen[node] = false;
        self.nodes[node].thaw()
    }

    /// Starts a node again that was killed, empty and with what it knew of the others.
    ///
    /// # Errors
    ///
    /// If it does not answer in time.
    pub async fn restart(&mut self, node: usize) -> Result<()> {
        self.nodes[node].restart().await
    }

    /// Waits until every node that answers sees another primary than `node` in its place. After that nobody replaces that one.
    ///
    /// # Errors
    ///
    /// If that does not happen within a minute.
    pub async fn failed_over(&self, node: usize) -> Result<()> {
        let old = &self.ids[node];
        self.agreed(async |witness| {
            let ranges = ranges(witness).await?;
            Ok(ranges.iter().all(|(_, _, id)| id != old))
        })
        .await?;
        for node in self.answering() {
            let_take_over(node, false).await?;
        }
        Ok(())
    }
}

/// Makes a node take the place of its primary when that is gone, or never do so.
async fn let_take_over(node: &Server, yes: bool) -> Result<()> {
    let never = if yes { "no" } else { "yes" };
    let words = ["CONFIG", "SET", "cluster-replica-no-failover", never];
    node.command(&words).await?;
    Ok(())
}
