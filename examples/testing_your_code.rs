//! How to test your own code that uses locks: on `memory://`, with paused time, so that an hour of leases passes in a millisecond
//! and every run is the same; with faults exactly when you want them, and with errors that you cause.
//!
//! The tests are at the end of this file: `cargo test -p lockkeeper-examples --example testing_your_code`. The program itself,
//! `cargo example testing_your_code`, does the work once; add `-- --url redis://127.0.0.1:6379` for a server.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::{Client, Error, Mutex};
use lockkeeper_examples::{Place, Story};
use tokio::time::sleep;

/// The code under test: it sends invoices, ten minutes each, from one sender at a time across all processes.
struct Billing {
    client: Client,
    sent: AtomicU32,
}

impl Billing {
    fn new(client: Client) -> Self {
        let sent = AtomicU32::new(0);
        Self { client, sent }
    }

    /// Returns `None` if another process is sending. A lost lease stops the sending.
    async fn send(&self, invoices: u32, each: Duration) -> lockkeeper::Result<Option<u32>> {
        let lock = Mutex::new(&self.client, "billing");
        let Some(guard) = lock.try_acquire().await? else {
            return Ok(None);
        };
        let work = async {
            for _ in 0..invoices {
                sleep(each).await;
                self.sent.fetch_add(1, Ordering::Relaxed);
            }
        };
        let outcome = guard.run(work).await;
        let sent = self.sent.load(Ordering::Relaxed);
        match outcome {
            Ok(()) => guard.release().await.map(|_| Some(sent)),
            // Stopped in time: every invoice was sent under the lock.
            Err(Error::Lost { .. }) => Ok(Some(sent)),
            Err(error) => Err(error),
        }
    }
}

/// The exit code, as in `sysexits.h`: it says whether trying again later may help.
fn exit_code(error: &Error) -> u8 {
    match error.is_transient() {
        true => 75,
        false => 70,
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("testing_your_code").await?;
    let billing = Billing::new(place.client.clone());
    let sent = match billing.send(6, Duration::from_millis(10)).await {
        Ok(sent) => sent,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(exit_code(&error).into());
        }
    };
    anyhow::ensure!(sent == Some(6), "sent {sent:?}");
    Story::new().tell("billing", "sent 6 invoices; the tests send them for hours");
    place.close().await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockkeeper::StoreError;
    use lockkeeper::memory::{Faults, MemoryStore};

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    async fn client(url: &str) -> Client {
        lockkeeper::connect(url).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_hour_of_work_is_done_under_a_lease_of_thirty_seconds() {
        let billing = Billing::new(client("memory://").await);
        assert_eq!(billing.send(6, TEN_MINUTES).await.unwrap(), Some(6));
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_process_does_not_send() {
        // Clients with the same name share an engine, as processes share a server.
        let first = Billing::new(client("memory://second_process").await);
        let second = Billing::new(client("memory://second_process").await);
        let (sent, refused) = tokio::join!(first.send(6, TEN_MINUTES), second.send(6, TEN_MINUTES));
        assert_eq!((sent.unwrap(), refused.unwrap()), (Some(6), None));
    }

    #[tokio::test(start_paused = true)]
    async fn sending_stops_when_the_lock_is_asked_back() {
        let client = client("memory://").await;
        let billing = Billing::new(client.clone());
        let operator = async {
            sleep(2 * TEN_MINUTES + Duration::from_secs(1)).await;
            client.revoke("billing").await
        };
        let (sent, revoked) = tokio::join!(billing.send(6, TEN_MINUTES), operator);
        assert_eq!((sent.unwrap(), revoked.unwrap()), (Some(2), 1));
    }

    /// A client that can have faults, and the server behind it.
    fn with_faults() -> (Faults, Billing, MemoryStore) {
        let server = MemoryStore::new();
        let store = server.sibling();
        let faults = store.faults();
        let client = Client::builder().build(Arc::new(store)).unwrap();
        (faults, Billing::new(client), server)
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_stops_the_sending_and_another_process_goes_on() {
        let (faults, billing, server) = with_faults();
        let outage = async {
            sleep(2 * TEN_MINUTES + Duration::from_secs(1)).await;
            faults.disconnect();
        };
        let (sent, ()) = tokio::join!(billing.send(6, TEN_MINUTES), outage);
        assert_eq!(sent.unwrap(), Some(2));
        let error = billing.send(4, TEN_MINUTES).await.unwrap_err();
        assert_eq!(exit_code(&error), 75);

        // The release could not reach the server, so the lock becomes free when the lease ends.
        sleep(Duration::from_secs(30)).await;
        let other = Billing::new(Client::builder().build(Arc::new(server)).unwrap());
        assert_eq!(other.send(4, TEN_MINUTES).await.unwrap(), Some(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_stops_nothing() {
        let (faults, billing, _server) = with_faults();
        faults.lose_reply();
        assert_eq!(billing.send(6, TEN_MINUTES).await.unwrap(), Some(6));
    }

    #[test]
    fn it_is_tried_again_where_that_helps() {
        let busy = Error::timeout("billing", TEN_MINUTES);
        let silent = Error::backend("acquire lock", StoreError::unknown("timed out"));
        let forbidden = Error::backend("acquire lock", StoreError::refused("NOPERM"));
        assert_eq!(
            [busy, silent, forbidden].map(|it| exit_code(&it)),
            [75, 75, 70]
        );
    }
}
