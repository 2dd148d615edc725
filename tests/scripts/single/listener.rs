//! Receives what scripts publish.

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

    /// A subscriber to the channel for pollers of the name.
    pub(in crate::scripts) async fn poller(&self) -> Result<Listener> {
        self.listen(name_of("name")?.wakes()).await
    }
}

/// A subscriber to a channel.
pub(in crate::scripts) struct Listener {
    #[expect(dead_code, reason = "messages arrive as long as it is there")]
    store: Arc<dyn Store>,
    events: mpsc::UnboundedReceiver<Event>,
    channel: String,
}

impl Listener {
    /// The messages since the last call.
    pub(in crate::scripts) async fn heard(&mut self, it: &Scripts) -> Result<Vec<String>> {
        // The arrival of our own last message shows that all earlier ones have arrived.
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
