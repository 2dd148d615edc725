//! A connection to a server: the replies of scripts as text, the keys, and what scripts publish.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Reply, Store, Value};
use lockkeeper_lua::Script;
use lockkeeper_testkit::site::Site;
use lockkeeper_testkit::until::PATIENCE;
use tokio::sync::mpsc;

/// A connection to a site.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) site: Arc<dyn Site>,
    pub(super) store: Arc<dyn Store>,
    requests: Arc<AtomicU64>,
}

impl Connection {
    pub(super) async fn to(site: impl Site + 'static) -> Result<Self> {
        Ok(Self {
            store: site.store().await?,
            site: Arc::new(site),
            requests: Arc::default(),
        })
    }

    /// The number of the last request.
    pub(super) fn last_request(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn reply(&self, item: ScriptCall) -> Result<Reply> {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let call = Call::new(item, request, Form::Source, PATIENCE);
        Ok(self.store.call(call).await?)
    }

    /// The reply, as text.
    pub(super) async fn call(&self, item: ScriptCall) -> Result<String> {
        let reply = self.reply(item).await?;
        let mut words = vec![reply.status().as_str().to_owned()];
        words.extend(reply.fields().iter().map(text));
        Ok(words.join(" "))
    }

    /// The outcome of each item of a batch, as text.
    pub(super) async fn batch(
        &self,
        items: impl IntoIterator<Item = ScriptCall>,
    ) -> Result<Vec<String>> {
        let reply = self
            .reply(ScriptCall::batch(items).context("no items")?)
            .await?;
        ensure!(reply.status().as_str() == "DONE", "{reply:?}");
        Ok(reply.fields().iter().map(text).collect())
    }

    pub(super) async fn run(
        &self,
        script: &'static Script,
        keys: impl IntoIterator<Item = String>,
        args: &[&str],
    ) -> Result<String> {
        let args = args.iter().map(|&arg| arg.to_owned());
        self.call(ScriptCall::new(script, keys, args)).await
    }

    pub(super) async fn command(&self, words: &[&str]) -> Result<String> {
        self.site.command(words).await
    }

    pub(super) async fn pttl(&self, key: &str) -> Result<i64> {
        Ok(self.command(&["PTTL", key]).await?.parse()?)
    }

    pub(super) async fn listen(&self, channel: String) -> Result<Listener> {
        let store = self.site.store().await?;
        let events = store.events().context("its events are taken")?;
        store.subscribe(&channel).await?;
        Ok(Listener {
            store,
            events,
            channel,
        })
    }
}

/// A subscriber to a channel.
pub(super) struct Listener {
    #[expect(dead_code, reason = "messages arrive as long as it is there")]
    store: Arc<dyn Store>,
    events: mpsc::UnboundedReceiver<Event>,
    channel: String,
}

impl Listener {
    /// The messages since the last call.
    pub(super) async fn heard(&mut self, it: &Connection) -> Result<Vec<String>> {
        // The arrival of our own last message shows that all earlier ones have arrived.
        it.command(&["PUBLISH", &self.channel, "end"]).await?;
        let mut heard = Vec::new();
        loop {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await?;
            match event {
                Some(Event::Message { payload, .. }) if payload == b"end" => return Ok(heard),
                Some(Event::Message { payload, .. }) => heard.push(String::from_utf8(payload)?),
                Some(_) => {}
                None => bail!("the events ended"),
            }
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::List(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        value => value.as_str().unwrap_or("(nil)").to_owned(),
    }
}

/// How slow a test may be, ms.
pub(super) const SLACK: i64 = 20_000;

/// Whether almost all of `whole` is left, ms, as far as a slow test can tell.
pub(super) fn is_nearly(left: i64, whole: i64) -> bool {
    left <= whole && left > whole - SLACK.min(whole)
}

/// The number at this index of a reply with this status.
pub(super) fn number(reply: &str, status: &str, index: usize) -> Result<i64> {
    let words: Vec<&str> = reply.split(' ').collect();
    ensure!(words[0] == status, "{reply} instead of {status}");
    let word = words.get(index).with_context(|| reply.to_owned())?;
    word.parse().with_context(|| reply.to_owned())
}
