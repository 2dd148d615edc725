//! What the engine requires of a [`Store`]. [`store_contract!`](crate::store_contract!) makes a test of each promise.
#![expect(missing_docs, reason = "a test says by its name what it tests")]

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Event, Form, Outcome, Reply, Store, StoreError};
use lockkeeper_lua::{Script, Status, lock};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::site::Site;
use crate::time::PATIENCE;

/// Makes a module of tests: `store_contract!(store, MySite::start().await?, flavor = "multi_thread")`.
#[macro_export]
macro_rules! store_contract {
    ($module:ident, $site:expr, $($runtime:tt)*) => {
        mod $module {
            use super::*;
            $crate::store_contract!(@tests $site, [$($runtime)*],
                a_script_runs_and_answers
                an_unknown_script_is_refused_and_executed_nowhere
                an_error_of_a_script_is_a_refusal_with_its_code
                an_argument_is_any_text
                calls_reach_the_server_in_the_order_of_their_first_polls
                answers_of_many_calls_at_once_reach_their_own_callers
                a_call_that_is_given_up_is_never_a_refusal
                replicas_are_waited_for_or_nothing_is_executed
                keys_of_one_slot_are_one_group_of_a_server_there_is
                a_message_after_a_confirmed_subscription_arrives
                a_channel_is_subscribed_to_once_and_until_it_is_not
                messages_reach_those_who_listen_and_nobody_else
                the_stream_of_events_is_given_once
                a_closed_store_sends_nothing_and_others_go_on
            );
        }
    };
    (@tests $site:expr, $runtime:tt, $($test:ident)*) => {
        $($crate::store_contract!(@test $site, $runtime, $test);)*
    };
    (@test $site:expr, [$($runtime:tt)*], $test:ident) => {
        #[::tokio::test($($runtime)*)]
        async fn $test() -> $crate::Result<()> {
            let limit = ::std::time::Duration::from_secs(600);
            let site = $site;
            ::tokio::time::timeout(limit, $crate::store::$test(&site)).await?
        }
    };
}

/// Longer than any test takes.
const TTL: &str = "600000";

/// A number for each request, which its reply repeats.
static REQUESTS: AtomicU64 = AtomicU64::new(1);

/// A mutex on the server, used through its scripts. All its keys are in one slot.
struct Name(String);

impl Name {
    fn new(name: &str) -> Self {
        Self(format!("{{{name}}}"))
    }

    fn call<A: Display>(&self, script: &'static Script, form: Form, args: &[A]) -> Call {
        let keys = script.keys.iter().map(|key| match *key {
            "main" => self.0.clone(),
            key => format!("{}:{key}", self.0),
        });
        let request = REQUESTS.fetch_add(1, Ordering::Relaxed);
        Call::new(ScriptCall::new(script, keys, args), request, form, PATIENCE)
    }

    /// The channel on which its release is published.
    fn channel(&self) -> String {
        format!("{}:wake", self.0)
    }

    fn acquire(&self, claim: &str) -> Call {
        self.acquire_for(claim, TTL, Form::Source)
    }

    fn acquire_for(&self, claim: &str, ttl: &str, form: Form) -> Call {
        let channel = self.channel();
        let args = [
            claim, ttl, "0", "0", "mutex", "x", "1", "0", &channel, "poll", "0",
        ];
        self.call(&lock::ACQUIRE, form, &args)
    }

    fn verify(&self, claim: &str, form: Form) -> Call {
        self.call(&lock::VERIFY, form, &[claim])
    }

    fn release(&self, claim: &str) -> Call {
        self.release_by(claim, Form::Source)
    }

    fn release_by(&self, claim: &str, form: Form) -> Call {
        let channel = self.channel();
        let args = [claim, "mutex", "x", &channel, "0", "0", "0", "0", "0"];
        self.call(&lock::RELEASE, form, &args)
    }

    /// Sends one message to all subscribers.
    async fn tell(&self, store: &dyn Store) -> Result<()> {
        expect(store.call(self.acquire("teller")).await, Status::Granted)?;
        expect(store.call(self.release("teller")).await, Status::Released)?;
        Ok(())
    }

    fn told(&self) -> Event {
        Event::message(self.channel(), "free")
    }
}

/// The reply, if it has this status.
fn expect(reply: Result<Reply, StoreError>, status: Status) -> Result<Reply> {
    let reply = reply?;
    ensure!(reply.status() == status, "{reply:?}, not {status:?}");
    Ok(reply)
}

/// The error of a call that must not succeed.
fn refused<T>(result: Result<T, StoreError>) -> Result<StoreError> {
    result.err().context("it was done")
}

fn events(store: &dyn Store) -> Result<UnboundedReceiver<Event>> {
    store.events().context("a new store has a stream of events")
}

/// The next message. A store that has just connected may say so first.
async fn next(events: &mut UnboundedReceiver<Event>) -> Result<Event> {
    loop {
        match timeout(PATIENCE, events.recv()).await? {
            None => bail!("the stream of events has ended"),
            Some(Event::Reconnected) => {}
            Some(event) => return Ok(event),
        }
    }
}

pub async fn a_script_runs_and_answers(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("name"));
    let granted = expect(store.call(name.acquire("a")).await, Status::Granted)?;
    let token = granted.field(0).and_then(|token| token.as_i64());
    // The server's clock, in microseconds.
    ensure!(
        token.is_some_and(|token| token > 1_700_000_000_000_000),
        "{granted:?}"
    );
    let busy = expect(store.call(name.acquire("b")).await, Status::Busy)?;
    let left = busy.field(0).and_then(|left| left.as_i64());
    ensure!(
        left.is_some_and(|left| (1..=TTL.parse().unwrap_or(0)).contains(&left)),
        "{busy:?}"
    );
    expect(store.call(name.release("a")).await, Status::Released)?;
    expect(store.call(name.release("a")).await, Status::NotHeld)?;
    Ok(())
}

pub async fn an_unknown_script_is_refused_and_executed_nowhere(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("name"));
    site.forget_scripts().await?;
    let error = refused(store.call(name.acquire_for("a", TTL, Form::Sha)).await)?;
    ensure!(error.outcome() == Outcome::Refused, "{error}");
    ensure!(error.is_noscript(), "{error}");
    ensure!(site.command(&["EXISTS", &name.0]).await? == "0");
    expect(
        store.call(name.verify("a", Form::Source)).await,
        Status::Gone,
    )?;
    expect(store.call(name.verify("a", Form::Sha)).await, Status::Gone)?;
    Ok(())
}

pub async fn an_error_of_a_script_is_a_refusal_with_its_code(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("name"));
    let bad = name.acquire_for("a", "no number", Form::Source);
    let error = refused(store.call(bad).await)?;
    ensure!(error.outcome() == Outcome::Refused, "{error}");
    ensure!(error.code() == Some("ERR"), "{error}");
    ensure!(!error.is_noscript(), "{error}");
    expect(store.call(name.acquire("a")).await, Status::Granted)?;
    Ok(())
}

pub async fn an_argument_is_any_text(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("Straße \r\n\0 '\""));
    let claim = "é$5'\"{}\u{1}";
    expect(store.call(name.acquire(claim)).await, Status::Granted)?;
    expect(
        store.call(name.verify(claim, Form::Source)).await,
        Status::Held,
    )?;
    expect(
        store.call(name.verify("é", Form::Source)).await,
        Status::Gone,
    )?;
    Ok(())
}

pub async fn calls_reach_the_server_in_the_order_of_their_first_polls(
    site: &dyn Site,
) -> Result<()> {
    let store = site.store().await?;
    for round in 0..200 {
        // First as texts, and then by SHA-1.
        let form = if round == 0 { Form::Source } else { Form::Sha };
        let name = Name::new("name");
        let (first, second, third) = tokio::join!(
            biased;
            store.call(name.acquire_for("a", TTL, form)),
            store.call(name.verify("a", form)),
            store.call(name.release_by("a", form)),
        );
        expect(first, Status::Granted)?;
        expect(second, Status::Held)?;
        expect(third, Status::Released)?;
    }
    Ok(())
}

pub async fn answers_of_many_calls_at_once_reach_their_own_callers(site: &dyn Site) -> Result<()> {
    let store = site.store().await?;
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let name = Name::new(&format!("name{task}"));
            for round in 0..20 {
                let claim = format!("{task}/{round}");
                let call = name.acquire(&claim);
                expect(store.call(call).await, Status::Granted)?;
                expect(store.call(name.acquire("other")).await, Status::Busy)?;
                expect(store.call(name.release(&claim)).await, Status::Released)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

pub async fn a_call_that_is_given_up_is_never_a_refusal(site: &dyn Site) -> Result<()> {
    let store = site.store().await?;
    for round in 0..20 {
        let name = Name::new(&format!("name{round}"));
        let mut call = name.acquire("a");
        call.timeout = Duration::from_nanos(1);
        let Err(error) = store.call(call).await else {
            continue;
        };
        ensure!(error.outcome() != Outcome::Refused, "{error}");
        if error.outcome() == Outcome::NotSent {
            let verified = store.call(name.verify("a", Form::Source)).await;
            expect(verified, Status::Gone).context("it was not sent, and yet executed")?;
        }
    }
    expect(
        store.call(Name::new("other").acquire("a")).await,
        Status::Granted,
    )?;
    Ok(())
}

pub async fn replicas_are_waited_for_or_nothing_is_executed(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("name"));
    let patience = Duration::from_millis(50);
    let replicated = store.call_replicated(name.acquire("a"), 1, patience).await;
    let status = match replicated {
        Ok(replicated) => {
            expect(Ok(replicated.reply), Status::Granted)?;
            Status::Held
        }
        Err(error) => {
            ensure!(error.outcome() == Outcome::NotSent, "{error}");
            Status::Gone
        }
    };
    expect(store.call(name.verify("a", Form::Source)).await, status)?;
    Ok(())
}

pub async fn keys_of_one_slot_are_one_group_of_a_server_there_is(site: &dyn Site) -> Result<()> {
    let store = site.store().await?;
    for name in ["a", "b", "c", "order:42"] {
        let name = Name::new(name);
        let group = store.group(&name.0);
        ensure!(group == store.group(&format!("{}:state", name.0)));
        ensure!(group == store.group(&format!("lockkeeper.state:{}", name.0)));
        ensure!(store.servers().contains(&store.server_of(group)));
    }
    Ok(())
}

pub async fn a_message_after_a_confirmed_subscription_arrives(site: &dyn Site) -> Result<()> {
    let (store, other) = (site.store().await?, site.store().await?);
    let mut events = events(&*store)?;
    for round in 0..300 {
        let name = Name::new(&format!("name{round}"));
        // Only one request comes between the confirmation and the message.
        expect(other.call(name.acquire("a")).await, Status::Granted)?;
        store.subscribe(&name.channel()).await?;
        expect(other.call(name.release("a")).await, Status::Released)?;
        let event = next(&mut events).await?;
        ensure!(event == name.told(), "{event:?}");
    }
    Ok(())
}

pub async fn a_channel_is_subscribed_to_once_and_until_it_is_not(site: &dyn Site) -> Result<()> {
    let (store, other) = (site.store().await?, site.store().await?);
    let mut events = events(&*store)?;
    let (name, last) = (Name::new("name"), Name::new("last"));
    store.subscribe(&name.channel()).await?;
    store.subscribe(&name.channel()).await?;
    name.tell(&*other).await?;
    ensure!(next(&mut events).await? == name.told());
    store.unsubscribe(&name.channel()).await?;
    name.tell(&*other).await?;
    store.unsubscribe(&name.channel()).await?;
    store.unsubscribe(&Name::new("never").channel()).await?;
    // In a cluster the two messages may come from two servers, in either order. A message that must not come would have arrived by
    // then.
    store.subscribe(&last.channel()).await?;
    last.tell(&*other).await?;
    let event = next(&mut events).await?;
    ensure!(event == last.told(), "{event:?} was not subscribed to");
    store.subscribe(&name.channel()).await?;
    name.tell(&*other).await?;
    ensure!(next(&mut events).await? == name.told());
    Ok(())
}

pub async fn messages_reach_those_who_listen_and_nobody_else(site: &dyn Site) -> Result<()> {
    let (one, two) = (site.store().await?, site.store().await?);
    let (mut first, mut second) = (events(&*one)?, events(&*two)?);
    let (both, own) = (Name::new("both"), Name::new("own"));
    one.subscribe(&both.channel()).await?;
    two.subscribe(&both.channel()).await?;
    two.subscribe(&own.channel()).await?;
    own.tell(&*one).await?;
    ensure!(next(&mut second).await? == own.told());
    both.tell(&*one).await?;
    ensure!(next(&mut second).await? == both.told());
    let event = next(&mut first).await?;
    ensure!(event == both.told(), "{event:?} was not subscribed to");
    Ok(())
}

pub async fn the_stream_of_events_is_given_once(site: &dyn Site) -> Result<()> {
    let (store, name) = (site.store().await?, Name::new("name"));
    let mut first = events(&*store)?;
    ensure!(store.events().is_none(), "a second stream");
    store.subscribe(&name.channel()).await?;
    name.tell(&*store).await?;
    ensure!(next(&mut first).await? == name.told());
    Ok(())
}

pub async fn a_closed_store_sends_nothing_and_others_go_on(site: &dyn Site) -> Result<()> {
    let (store, other) = (site.store().await?, site.store().await?);
    let name = Name::new("name");
    let mut events = events(&*store)?;
    store.subscribe(&name.channel()).await?;
    store.close().await;
    while let Some(event) = timeout(PATIENCE, events.recv()).await? {
        let is_end = matches!(event, Event::Disconnected | Event::Reconnected);
        ensure!(is_end, "{event:?} after the end");
    }
    ensure!(store.events().is_none(), "a stream of a closed store");
    for error in [
        refused(store.call(name.acquire("a")).await)?,
        refused(store.call_replicated(name.acquire("a"), 1, PATIENCE).await)?,
        refused(store.subscribe(&name.channel()).await)?,
    ] {
        ensure!(error.outcome() == Outcome::NotSent, "{error}");
    }
    expect(other.call(name.acquire("b")).await, Status::Granted)?;
    Ok(())
}
