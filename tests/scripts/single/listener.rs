//! Hears what scripts publish.

use super::*;

impl Scripts {
    pub(in crate::scripts) async fn listen(&self, channel: String) -> Result<Listener> {
        let store = self.site.store().await?;
        let events = store.events().context("its events are taken")?;
        store.subscribe(&channel).await?;
        Ok(Listener {
            store,
            events,
            channel,
        })
    }

    /// Where those who poll the name listen.
    pub(in crate::scripts) async fn poller(&self) -> Result<Listener> {
        self.listen(name_of("name")?.wakes()).await
    }
}

/// Somebody who listens on a channel.
pub(in crate::scripts) struct Listener {
    #[expect(dead_code, reason = "messages arrive as long as it is there")]
    store: Arc<dyn Store>,
    events: mpsc::UnboundedReceiver<Event>,
    channel: String,
}

impl Listener {
    /// What has been said there since the last time.
    pub(in crate::scripts) async fn heard(&mut self, it: &Scripts) -> Result<Vec<String>> {
        // A message of our own behind them says that all others have arrived.
        it.command(&["PUBLISH", &self.channel, "end"]).await?;
        let mut heard = Vec::new();
        loop {
            let event = tokio::time::timeout(Duration::from_secs(5), self.events.recv()).await?;
            match event {
                Some(Event::Message { payload, .. }) if payload == b"end" => return Ok(heard),
                Some(Event::Message { payload, .. }) => heard.push(String::from_utf8(payload)?),
                Some(_) => {}
                None => bail!("the events ended"),
            }
        }
    }
}
