//! `demo`: shows in the terminal what locks do.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use lockkeeper::{Client, Error, FairLock, LossReason, Mutex};
use tokio::task::JoinSet;

use crate::exit::Failure;
use crate::out;
use crate::server::Server;

/// The pause after each line, so that a person can read it.
const PACE: Duration = Duration::from_millis(800);

/// Shows the demo, on a server if one is named and otherwise in this process.
pub(crate) async fn run(server: &Server) -> Result<(), Failure> {
    let client = server.connect_or_alone(Client::builder()).await?;
    let story = Story {
        begun: Instant::now(),
        pace: match std::io::stdout().is_terminal() {
            true => PACE,
            false => Duration::ZERO,
        },
        // Unique names, which no other program uses.
        place: client.new_owner().to_string(),
    };
    story.chapter("Three workers want one printer: first come, first served")?;
    in_a_queue(&client, &story).await?;
    story.chapter("Ann holds the report, and Bob does not want to wait")?;
    in_conflict(&client, &story).await?;
    story.chapter("Carl sleeps for too long and loses his lock; what he writes late is refused")?;
    too_late(&client, &story).await?;
    client.close().await;
    out::line("\nNow try it yourself: lockkeeper run --lock NAME -- COMMAND")
}

async fn in_a_queue(client: &Client, story: &Story) -> Result<(), Failure> {
    let lock = FairLock::new(client, &story.name("printer"));
    let first = lock.acquire().await?;
    story.tell("ann", "prints").await?;
    let mut others = JoinSet::new();
    for (place, who) in [(1, "bob"), (2, "carl")] {
        let waiting = lock.clone();
        others.spawn(async move { (who, waiting.acquire().await) });
        while lock.queue_len().await? < place {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        story.tell(who, &format!("waits at place {place}")).await?;
    }
    first.release().await?;
    story.tell("ann", "is done").await?;
    while let Some(Ok((who, guard))) = others.join_next().await {
        let guard = guard?;
        story
            .tell(
                who,
                &format!("prints, with token {}", guard.fencing_token()),
            )
            .await?;
        guard.release().await?;
    }
    Ok(())
}

async fn in_conflict(client: &Client, story: &Story) -> Result<(), Failure> {
    let lock = Mutex::new(client, &story.name("report"));
    let guard = lock.acquire().await?;
    story.tell("ann", "holds").await?;
    if lock.try_acquire().await?.is_none() {
        story
            .tell("bob", "finds it held and goes home: that is no error")
            .await?;
    }
    guard.release().await?;
    Ok(())
}

async fn too_late(client: &Client, story: &Story) -> Result<(), Failure> {
    let lock = Mutex::new(client, &story.name("ledger"));
    // A lease without renewal plays the part of a holder that sleeps.
    let short = Duration::from_millis(300) + story.pace;
    let carl = lock.acquire().ttl(short).no_renewal().await?;
    story
        .tell(
            "carl",
            &format!(
                "holds for {}, with token {}",
                out::duration(short),
                carl.fencing_token()
            ),
        )
        .await?;
    let asleep = carl.run(std::future::pending::<()>()).await;
    if let Err(Error::Lost {
        reason: LossReason::Expired,
        ..
    }) = asleep
    {
        story
            .tell("carl", "is stopped before another can hold the lock")
            .await?;
    }
    let dora = lock.acquire().await?;
    let (old, new) = (carl.fencing_token(), dora.fencing_token());
    story
        .tell("dora", &format!("holds, with token {new}"))
        .await?;
    if old < new {
        story
            .tell("ledger", &format!("refuses token {old}: it has seen {new}"))
            .await?;
    }
    dora.release().await?;
    Ok(())
}

struct Story {
    begun: Instant,
    /// The pause after each line.
    pace: Duration,
    place: String,
}

impl Story {
    fn name(&self, name: &str) -> String {
        format!("demo:{}:{name}", self.place)
    }

    fn chapter(&self, title: &str) -> Result<(), Failure> {
        let bold = anstyle::Style::new().bold();
        out::line(&format!("\n{bold}{title}{bold:#}"))
    }

    async fn tell(&self, who: &str, what: &str) -> Result<(), Failure> {
        let seconds = self.begun.elapsed().as_secs_f64();
        out::line(&format!("  {seconds:>6.3} s  {who:<7} {what}"))?;
        tokio::time::sleep(self.pace).await;
        Ok(())
    }
}
