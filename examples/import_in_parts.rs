//! A large import in six parts, which three machines share. One machine dies after a part, and another machine does that part
//! again: it counts once. The report starts when all parts are in, wherever it waits. If an import stops halfway, the waiters get
//! an error.
//!
//! Read this when something must wait until several things have happened in other processes. `cargo example import_in_parts`
//! needs no server; add `-- --url redis://127.0.0.1:6379` for one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{Client, Error, Latch};
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

const PARTS: u32 = 6;
const MACHINES: usize = 3;

/// The parts that no machine has taken.
#[derive(Clone)]
struct Queue(Arc<Mutex<VecDeque<u32>>>);

impl Queue {
    fn of_all() -> Self {
        Self(Arc::new(Mutex::new((1..=PARTS).collect())))
    }

    fn take(&self) -> Option<u32> {
        self.parts().pop_front()
    }

    fn give_back(&self, part: u32) {
        self.parts().push_front(part);
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, VecDeque<u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes parts until there are none. A machine that `dies` does so after its first part, before it learns that the part has
/// counted.
async fn work(latch: Latch, queue: Queue, dies: bool) -> lockkeeper::Result<()> {
    while let Some(part) = queue.take() {
        sleep(Duration::from_millis(20)).await;
        // Work done before this line may be repeated, so it counts under the part's own name.
        latch.count_down(&format!("part:{part}")).await?;
        if dies {
            queue.give_back(part);
            return Ok(());
        }
    }
    Ok(())
}

/// Each import has its own name, or parts of the last one would count for the next.
fn import(client: &Client, number: &str) -> Latch {
    Latch::new(client, &format!("import:{number}"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("import_in_parts").await?;
    let mut machines = Vec::new();
    for _ in 0..MACHINES {
        machines.push(place.another().await?);
    }
    let story = Story::new();
    // Unique, as the date of a nightly import is.
    let number = place.client.new_owner().to_string();

    story.chapter("Six parts, three machines, and a report that waits");
    let latch = import(&place.client, &number);
    ensure!(latch.arm(PARTS).await?);
    let report = tokio::spawn({
        let latch = import(&machines[0], &number);
        async move { latch.wait().await }
    });
    let queue = Queue::of_all();
    let mut workers = JoinSet::new();
    for (machine, client) in machines.iter().enumerate() {
        let latch = import(client, &number);
        workers.spawn(work(latch, queue.clone(), machine == 2));
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    story.tell("machine 3", "has died, and its part was done twice");
    report.await??;
    story.tell("report", format!("begins, {PARTS} parts are in"));
    ensure!(latch.remaining().await? == 0);

    story.chapter("Whoever comes late finds it open");
    import(&machines[1], &number).wait().await?;
    ensure!(!latch.arm(PARTS).await?, "it was armed before");
    story.tell("archive", "begins at once");

    story.chapter("An import of which one part never comes");
    let latch = import(&place.client, &place.client.new_owner().to_string());
    let latch = latch.ttl(Duration::from_secs(3));
    latch.arm(2).await?;
    story.tell("report", "waits");
    latch.count_down("part:1").await?;
    let ended = latch.wait().await;
    ensure!(
        matches!(ended, Err(Error::NotArmed { ended: true, .. })),
        "{ended:?}"
    );
    story.tell("report", "is told that nobody has counted for too long");

    for machine in machines {
        machine.close().await;
    }
    place.close().await
}
