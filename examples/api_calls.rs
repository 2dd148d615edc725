//! Calls to an API that can handle a load of eight at a time, across all instances of a service. A search weighs one, a report
//! three, an export five; each call takes as many permits of one semaphore as it weighs.
//!
//! Read this when something outside your program can handle only so much at once. `cargo example api_calls` needs no server;
//! add `-- --url redis://127.0.0.1:6379` for one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lockkeeper::Semaphore;
use lockkeeper_examples::{Place, Story};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The load that the API can handle.
const LIMIT: u32 = 8;

const CALLS: [(&str, u32); 3] = [("search", 1), ("report", 3), ("export", 5)];

const INSTANCES: [&str; 3] = ["ann", "bob", "carl"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("api_calls").await?;
    let story = Story::new();

    story.chapter("Three instances call at once, and ask nobody");
    let api = Arc::new(Api::default());
    let calls = INSTANCES.iter().flat_map(|_| CALLS);
    let answers: Vec<_> = calls.map(|(_, weight)| api.begin(weight)).collect();
    let refused = answers.iter().filter(|answer| answer.is_none()).count();
    story.tell("api", format!("refuses {refused} of nine: 429"));
    ensure!(refused > 0, "a load of 27 was borne");
    drop(answers);

    story.chapter("The same calls, each with as many permits as it weighs");
    let api = Arc::new(Api::default());
    let mut calls = JoinSet::new();
    for instance in INSTANCES {
        let load = Semaphore::new(&place.another().await?, "api", LIMIT);
        for (name, weight) in CALLS {
            let (load, api) = (load.clone(), Arc::clone(&api));
            calls.spawn(async move {
                call(&load, &api, weight).await?;
                story.tell(instance, format!("has its {name}"));
                anyhow::Ok(())
            });
        }
    }
    while let Some(answered) = calls.join_next().await {
        answered??;
    }
    let most = api.load().most;
    story.tell("api", format!("bore {most} of {LIMIT} at most"));
    ensure!(most <= LIMIT && api.load().now == 0);
    place.close().await
}

/// One call, as every instance makes it.
async fn call(load: &Semaphore, api: &Arc<Api>, weight: u32) -> anyhow::Result<()> {
    let permits = load.permits(weight).acquire();
    let permits = permits.wait_for(Duration::from_secs(30));
    let answered = permits.hold(async |_| {
        let _call = api.begin(weight).context("429")?;
        sleep(Duration::from_millis(50)).await;
        Ok(())
    });
    answered.await?
}

/// An external service: it refuses more load than it can handle.
#[derive(Debug, Default)]
struct Api(Mutex<Load>);

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    now: u32,
    most: u32,
}

/// A call under way.
struct Call {
    api: Arc<Api>,
    weight: u32,
}

impl Api {
    fn begin(self: &Arc<Self>, weight: u32) -> Option<Call> {
        let mut load = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = load.now + weight;
        (now <= LIMIT).then(|| {
            *load = Load {
                now,
                most: load.most.max(now),
            };
            Call {
                api: Arc::clone(self),
                weight,
            }
        })
    }

    fn load(&self) -> Load {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let load = self.api.0.lock();
        load.unwrap_or_else(PoisonError::into_inner).now -= self.weight;
    }
}
