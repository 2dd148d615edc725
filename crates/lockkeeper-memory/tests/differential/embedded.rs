//! The embedded engine, as one side.

use futures_util::FutureExt;
use lockkeeper_core::store::{Event, Store};
use lockkeeper_memory::MemoryStore;
use tokio::sync::mpsc;

use crate::words::{CHANNEL, GRANTS};
use crate::{Reply, Side};

pub(crate) struct Embedded {
    store: MemoryStore,
    events: mpsc::UnboundedReceiver<Event>,
}

impl Embedded {
    pub(crate) fn new() -> Self {
        let store = MemoryStore::new();
        let events = store.events().unwrap();
        for channel in [CHANNEL, GRANTS] {
            store
                .subscribe(channel)
                .now_or_never()
                .expect("it does not wait")
                .expect("the store is open");
        }
        Self { store, events }
    }
}

impl Side for Embedded {
    fn execute(&mut self, words: &[String]) -> Reply {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.store.execute(&words).map_err(|error| {
            let shown = error.to_string();
            let text = shown.strip_prefix("the server refused: ");
            text.expect("nothing but a refusal").to_owned()
        })
    }

    fn flush_scripts(&mut self) {
        self.store.flush_scripts();
    }

    fn messages(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.events.try_recv().ok())
            .map(|event| match event {
                Event::Message { payload, .. } => payload,
                other => panic!("not a message: {other:?}"),
            })
            .collect()
    }
}
