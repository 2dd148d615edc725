//! Moves slots to other nodes, in one go or step by step.

use anyhow::Result;

use super::Cluster;

/// How long moving the keys of a slot to another node may take, in milliseconds.
const MIGRATE_TIMEOUT: &str = "120000";

impl Cluster {
    /// Moves a slot and all its keys to another node, as an operator would.
    ///
    /// # Errors
    ///
    /// If a node refuses.
    pub async fn migrate(&self, slot: u16, to: usize) -> Result<()> {
        let from = self.primary_of(slot).await?;
        if from == to {
            return Ok(());
        }
        self.begin_migration(slot, from, to).await?;
        self.move_keys(slot, from, to).await?;
        self.end_migration(slot, from, to).await
    }

    /// Opens a slot for migration on both nodes: `from` serves the keys that it still has and redirects callers to `to` for
    /// all others.
    ///
    /// # Errors
    ///
    /// If a node refuses.
    pub async fn begin_migration(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let slot = slot.to_string();
        let setslot = |verb, id| ["CLUSTER", "SETSLOT", &slot, verb, id];
        let importing = setslot("IMPORTING", &self.ids[from]);
        self.nodes[to].command(&importing).await?;
        let migrating = setslot("MIGRATING", &self.ids[to]);
        self.nodes[from].command(&migrating).await?;
        Ok(())
    }

    /// Moves every key of a slot in migration.
    ///
    /// # Errors
    ///
    /// If a node refuses.
    pub async fn move_keys(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let (slot, port) = (slot.to_string(), self.nodes[to].port().to_string());
        loop {
            let some = ["CLUSTER", "GETKEYSINSLOT", &slot, "100"];
            let keys = self.nodes[from].command(&some).await?.into_texts()?;
            if keys.is_empty() {
                return Ok(());
            }
            // A node that was a replica when the slot left it may have missed that and still have the old keys.
            let start = ["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_TIMEOUT];
            let start = start.into_iter().chain(["REPLACE", "KEYS"]);
            let keys = keys.iter().map(String::as_str);
            let words: Vec<&str> = start.chain(keys).collect();
            self.nodes[from].command(&words).await?;
        }
    }

    /// Gives a slot in migration, whose keys have all moved, to its new node. Moves keys that were written meanwhile.
    ///
    /// # Errors
    ///
    /// If a node refuses.
    pub async fn end_migration(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        self.take_over(slot, to).await?;
        self.give_away(slot, from, to).await
    }

    /// Makes a node consider a slot its own.
    ///
    /// # Errors
    ///
    /// If the node refuses.
    pub async fn take_over(&self, slot: u16, to: usize) -> Result<()> {
        self.give_away(slot, to, to).await
    }

    /// Makes a node that no longer has keys of a slot treat the slot as another node's. The other node is not notified.
    ///
    /// # Errors
    ///
    /// If the node refuses.
    pub async fn give_away(&self, slot: u16, from: usize, to: usize) -> Result<()> {
        let slot = slot.to_string();
        let node = ["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]];
        self.nodes[from].command(&node).await?;
        Ok(())
    }
}
