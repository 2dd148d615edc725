//! How locks on Redis evolved: seven generations, of which each earlier one fails before your eyes; the next one repairs it, and
//! fails in its turn. Every command that you see is really sent.
//!
//! Read this if you are about to write `SET lock 1 NX` yourself, or have inherited it. docs/evolution.md tells the same with
//! sources. `cargo example evolution` needs no server and skips the hours; with `-- --url redis://127.0.0.1:6379` it takes
//! some twenty seconds. It fails if any of the old generations does not fail.

mod early;
mod modern;
mod redlock;
mod stage;
mod tokens;

use anyhow::ensure;
use clap::Parser;
use lockkeeper_examples::Arguments;

use stage::Stage;

fn main() -> anyhow::Result<()> {
    let Arguments { url } = Arguments::parse();
    let embedded = url.starts_with("memory://");
    // In the embedded engine time is paused and jumps when everybody waits. A server has its own time, for which the program waits.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(embedded)
        .build()?;
    runtime.block_on(tell(&url, embedded))
}

async fn tell(url: &str, embedded: bool) -> anyhow::Result<()> {
    let mut stage = Stage::open(url, embedded).await?;

    stage
        .generation("SETNX", "whoever creates the key has the lock")
        .await?;
    early::setnx(&mut stage).await?;
    stage
        .generation("SETNX, then EXPIRE", "a key that goes away by itself")
        .await?;
    early::setnx_then_expire(&mut stage).await?;
    stage
        .generation(
            "SETNX with a time in it, and GETSET",
            "the value says until when",
        )
        .await?;
    early::time_as_value(&mut stage).await?;
    stage
        .generation("SET NX PX, then DEL", "key and expiry by one command")
        .await?;
    tokens::plain_delete(&mut stage).await?;
    stage
        .generation(
            "SET NX PX with a token, and compare-and-delete",
            "only your own",
        )
        .await?;
    tokens::compare_and_delete(&mut stage).await?;
    stage
        .generation("Redlock", "a majority of five servers")
        .await?;
    redlock::majority(&mut stage).await?;
    let broken = stage.failures();
    stage
        .generation("Lockkeeper", "a lease that is kept, known, and numbered")
        .await?;
    modern::lockkeeper(&mut stage).await?;

    println!(
        "\nSix generations have failed, in {broken} ways. The seventh has done what it promises."
    );
    ensure!(stage.failures() == broken, "Lockkeeper failed");
    stage.close().await
}
