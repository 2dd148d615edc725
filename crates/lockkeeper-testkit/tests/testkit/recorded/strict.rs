//! Replies to the wrong request.

use std::sync::Arc;

use async_trait::async_trait;
use lockkeeper::{Error, Mutex};
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Reply, Store, StoreError, Value};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::recorded::{Records, settings};
use tokio::sync::mpsc;

/// Answers each request as if it were another one.
#[derive(Debug)]
struct OutOfStep(MemoryStore);

#[async_trait]
impl Store for OutOfStep {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        let another = (call.request + 1).to_string();
        let fields = [another, "HELD".to_owned()].map(|text| Value::Bytes(text.into()));
        Reply::read(call.request, Value::List(fields.into()))
            .map_err(|bad| StoreError::unknown(bad.to_string()).with_source(bad))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.0.subscribe(channel).await
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.0.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.0.events()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_belongs_to_another_breaks_the_rules_of_a_record() {
    let records = Records::default();
    records.check().unwrap();
    let store = Arc::new(OutOfStep(MemoryStore::new()));
    let client = records.client_over(store, settings()).unwrap();
    let asked = Mutex::new(&client, "name").try_acquire().await;
    assert!(matches!(asked, Err(Error::Backend { .. })), "{asked:?}");
    let told = records.check().unwrap_err().to_string();
    assert!(told.contains("belonged to others"), "{told}");
}
