//! Stores that each break one promise, which the suite must find.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper_conformance::Result;
use lockkeeper_conformance::site::Site;
use lockkeeper_conformance::store;
use lockkeeper_core::clock::Clock;
use lockkeeper_core::store::{Call, Event, Form, Replicated, Reply, Store, StoreError};
use lockkeeper_memory::MemoryStore;
use tokio::sync::mpsc::UnboundedReceiver;

/// What a store does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    SendsTheTextByItself,
    CallsASilenceARefusal,
    CallsASilenceNotSent,
    LetsCallsPass,
    ExecutesButSaysItDidNot,
    TakesKeysOfOneSlotApart,
    SubscribesNowhere,
    StaysSubscribed,
    GoesOnAfterTheEnd,
}

/// The embedded engine, with this mistake in its store.
struct Mistaken(Mistake, MemoryStore);

#[async_trait]
impl Site for Mistaken {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Wrong(self.0, self.1.sibling())))
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        let script = "local reply = redis.call(unpack(ARGV)) return reply and tostring(reply)";
        let words = [&["EVAL", script, "0"], words].concat();
        let reply = self.1.execute(&words)?;
        Ok(reply.as_str().unwrap_or_default().to_owned())
    }

    async fn keys(&self) -> Result<Vec<String>> {
        Ok(self.1.keys())
    }

    async fn forget_scripts(&self) -> Result<()> {
        self.1.flush_scripts();
        Ok(())
    }
}

#[derive(Debug)]
struct Wrong(Mistake, MemoryStore);

#[async_trait]
impl Store for Wrong {
    async fn call(&self, mut call: Call) -> Result<Reply, StoreError> {
        match self.0 {
            Mistake::SendsTheTextByItself => call.form = Form::Source,
            Mistake::CallsASilenceARefusal if call.timeout < Duration::from_millis(1) => {
                return Err(StoreError::refused("no answer"));
            }
            Mistake::CallsASilenceNotSent if call.timeout < Duration::from_millis(1) => {
                self.1.call(call).await?;
                return Err(StoreError::not_sent("no answer"));
            }
            Mistake::LetsCallsPass if call.request.is_multiple_of(2) => {
                tokio::task::yield_now().await;
            }
            _ => {}
        }
        self.1.call(call).await
    }

    async fn call_replicated(
        &self,
        call: Call,
        replicas: u32,
        patience: Duration,
    ) -> Result<Replicated, StoreError> {
        if self.0 == Mistake::ExecutesButSaysItDidNot {
            self.1.call(call.clone()).await?;
            return Err(StoreError::not_sent("there are no replicas"));
        }
        self.1.call_replicated(call, replicas, patience).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), StoreError> {
        match self.0 {
            Mistake::SubscribesNowhere => Ok(()),
            _ => self.1.subscribe(channel).await,
        }
    }

    async fn unsubscribe(&self, channel: &str) -> Result<(), StoreError> {
        match self.0 {
            Mistake::StaysSubscribed => Ok(()),
            _ => self.1.unsubscribe(channel).await,
        }
    }

    fn events(&self) -> Option<UnboundedReceiver<Event>> {
        self.1.events()
    }

    fn group(&self, key: &str) -> u32 {
        match self.0 {
            Mistake::TakesKeysOfOneSlotApart => key.bytes().map(u32::from).sum(),
            _ => self.1.group(key),
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.1.clock()
    }

    async fn close(&self) {
        if self.0 != Mistake::GoesOnAfterTheEnd {
            self.1.close().await;
        }
    }
}

/// For each mistake, the promise that finds it. A store without mistakes keeps that promise.
macro_rules! found {
    ($($test:ident: $mistake:ident by $promise:ident)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() -> Result<()> {
            let right = Mistaken(Mistake::None, MemoryStore::new());
            store::$promise(&right).await?;
            let wrong = Mistaken(Mistake::$mistake, MemoryStore::new());
            assert!(store::$promise(&wrong).await.is_err(), "not found");
            Ok(())
        }
    )*};
}

found! {
    a_store_that_sends_the_text_by_itself_is_found:
        SendsTheTextByItself by an_unknown_script_is_refused_and_executed_nowhere
    a_store_that_calls_a_silence_a_refusal_is_found:
        CallsASilenceARefusal by a_call_that_is_given_up_is_never_a_refusal
    a_store_that_calls_a_silence_not_sent_is_found:
        CallsASilenceNotSent by a_call_that_is_given_up_is_never_a_refusal
    a_store_that_lets_calls_pass_one_another_is_found:
        LetsCallsPass by calls_reach_the_server_in_the_order_of_their_first_polls
    a_store_that_executes_and_says_it_did_not_is_found:
        ExecutesButSaysItDidNot by replicas_are_waited_for_or_nothing_is_executed
    a_store_that_takes_keys_of_one_slot_apart_is_found:
        TakesKeysOfOneSlotApart by keys_of_one_slot_are_one_group_of_a_server_there_is
    a_store_that_subscribes_nowhere_is_found:
        SubscribesNowhere by a_message_after_a_confirmed_subscription_arrives
    a_store_that_stays_subscribed_is_found:
        StaysSubscribed by a_channel_is_subscribed_to_once_and_until_it_is_not
    a_store_that_goes_on_after_its_end_is_found:
        GoesOnAfterTheEnd by a_closed_store_sends_nothing_and_others_go_on
}
