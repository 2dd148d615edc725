//! Clients that do nothing: how much memory each takes, as where a process has one for each tenant.

use anyhow::{Context as _, Result};
use lockkeeper::Mutex;
use lockkeeper_testkit::server::Server;

use crate::Effort;
use crate::meters::{count, own_memory};
use crate::report::{Row, Target};
use crate::rounds::Spread;

/// The target for a client, KiB.
const TARGET: Target = Target::AtMost(64.0);

/// Connects clients, each of which has held a lock once.
pub(crate) async fn measure(effort: Effort) -> Result<Vec<Row>> {
    let server = Server::start().await?;
    let connect = async || {
        let client = lockkeeper::connect(&server.url()).await?;
        Mutex::new(&client, "clients")
            .acquire()
            .await?
            .release()
            .await?;
        anyhow::Ok(client)
    };
    // One-time allocations must not count.
    let mut clients = vec![connect().await?];
    let before = own_memory().context("no memory is reported")?;
    while clients.len() <= effort.clients {
        clients.push(connect().await?);
    }
    let grown = own_memory().context("no memory is reported")? - before;
    for client in clients {
        client.close().await;
    }
    let each = Spread::once(grown / count(effort.clients) / 1024.0);
    let what = format!("{} clients: memory each", effort.clients);
    Ok(vec![Row::new("clients", what, "KiB", each).target(TARGET)])
}
