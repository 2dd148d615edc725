//! Known defects that are not fixed yet. Each test says what should hold, and passes as long as it does not. When a fix makes
//! a test fail, remove its `should_panic` and move it to where it belongs.

use std::time::Duration;

use lockkeeper::{Client, FairLock, MultiLock};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use tokio::time::timeout;

const TTL: Duration = Duration::from_secs(30);
const SOON: Duration = Duration::from_secs(3 * 60 * 60);

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

async fn client(server: &MemoryStore) -> Client {
    let settings = Client::builder().ttl(TTL).waiter_ttl(secs(10));
    server.client(settings).await.unwrap()
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "Elapsed")]
async fn the_first_part_of_a_multi_lock_that_is_not_polled_is_not_kept_for_ever() {
    let server = MemoryStore::new();
    let (here, there) = (client(&server).await, client(&server).await);
    let _second = FairLock::new(&there, "second").acquire().await.unwrap();
    let members = ["first", "second"].map(|name| FairLock::new(&here, name).target());
    let lock = MultiLock::new(members).unwrap();
    let mut idle = Box::pin(lock.acquire().into_future());
    let _ = timeout(secs(1), &mut idle).await;
    let first = FairLock::new(&there, "first");
    drop(
        timeout(SOON, first.acquire().into_future())
            .await
            .unwrap()
            .unwrap(),
    );
}
