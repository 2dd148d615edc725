//! Dropping futures halfway: a store that yields around every request, so that there is a halfway point even in the embedded
//! engine, and a wrapper that drops a future after its k-th poll.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Replicated, Reply, Store, StoreError};
use tokio::sync::mpsc;

/// A store that lets other tasks run before and after each request.
#[derive(Debug)]
pub struct GatedStore(pub Arc<dyn Store>);

#[async_trait]
impl Store for GatedStore {
    async fn call(&self, call: Call) -> Result<Reply, StoreError> {
        tokio::task::yield_now().await;
        let reply = self.0.call(call).await;
        tokio::task::yield_now().await;
        reply
    }

    async fn call_replicated(
        &self,
        call: Call,
        replicas: u32,
        patience: Duration,
    ) -> Result<Replicated, StoreError> {
        tokio::task::yield_now().await;
        let reply = self.0.call_replicated(call, replicas, patience).await;
        tokio::task::yield_now().await;
        reply
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        tokio::task::yield_now().await;
        let result = self.0.subscribe(channel).await;
        tokio::task::yield_now().await;
        result
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        self.0.unsubscribe(channel).await
    }

    fn events(&self) -> Option<mpsc::UnboundedReceiver<Event>> {
        self.0.events()
    }

    fn group(&self, key: &str) -> u32 {
        self.0.group(key)
    }

    fn keyspace_channel(&self, key: &str) -> Option<String> {
        self.0.keyspace_channel(key)
    }

    fn address(&self) -> String {
        self.0.address()
    }

    fn server_of(&self, group: u32) -> u32 {
        self.0.server_of(group)
    }

    fn servers(&self) -> Vec<u32> {
        self.0.servers()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

/// Polls a future at most `polls` times and then drops it; `None` if it was not ready by then.
pub fn drop_after<F: Future>(future: F, polls: usize) -> DropAfter<F> {
    DropAfter {
        future: Some(Box::pin(future)),
        polls,
    }
}

/// The future of [`drop_after`].
#[derive(Debug)]
pub struct DropAfter<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

impl<F: Future> Future for DropAfter<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls > 0
            && let Some(future) = &mut self.future
        {
            let polled = future.as_mut().poll(context);
            self.polls -= 1;
            match polled {
                Poll::Ready(output) => return Poll::Ready(Some(output)),
                Poll::Pending if self.polls > 0 => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        self.future = None;
        Poll::Ready(None)
    }
}
