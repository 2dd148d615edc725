//! Kills, freezes, resumes, restarts and replaces nodes.

use anyhow::Result;

use super::{Cluster, SUSPICIOUS, is, ranges};
use crate::server::Server;

impl Cluster {
    /// Kills a node, as a crash would. If it was a primary, one of its replicas takes over; [`failed_over`](Self::failed_over)
    /// waits for that.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled, or a node does not answer.
    pub async fn kill(&mut self, node: usize) -> Result<()> {
        self.let_be_replaced(node).await?;
        self.nodes[node].kill()
    }

    /// Freezes a node: its connections stay open and it answers nothing. If it was a primary, one of its replicas takes over;
    /// [`failed_over`](Self::failed_over) waits for that.
    ///
    /// # Errors
    ///
    /// If the node is not running, or another node does not answer.
    pub async fn freeze(&mut self, node: usize) -> Result<()> {
        self.let_be_replaced(node).await?;
        self.frozen[node] = true;
        self.nodes[node].freeze()
    }

    async fn let_be_replaced(&self, node: usize) -> Result<()> {
        self.take_for_dead_after(SUSPICIOUS).await?;
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

    /// Resumes a frozen node.
    ///
    /// # Errors
    ///
    /// If the node is not running.
    pub fn thaw(&mut self, node: usize) -> Result<()> {
        self.frozen[node] = false;
        self.nodes[node].thaw()
    }

    /// Restarts a killed node. It has lost its keys but still knows the other nodes.
    ///
    /// # Errors
    ///
    /// If the node does not answer in time.
    pub async fn restart(&mut self, node: usize) -> Result<()> {
        self.nodes[node].restart().await
    }

    /// Waits until every answering node sees another primary in place of `node`. No replica replaces that primary afterwards.
    ///
    /// # Errors
    ///
    /// If that does not happen in time.
    pub async fn failed_over(&self, node: usize) -> Result<()> {
        let old = &self.ids[node];
        self.agreed(async |witness, _| {
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

/// Allows or forbids a node to take over when its primary is gone.
async fn let_take_over(node: &Server, yes: bool) -> Result<()> {
    let never = if yes { "no" } else { "yes" };
    let words = ["CONFIG", "SET", "cluster-replica-no-failover", never];
    node.command(&words).await?;
    Ok(())
}
