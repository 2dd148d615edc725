//! What the scripts of the multi-lock do to the keys and what they answer, on the embedded engine and on a real server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::Name;
use lockkeeper_core::protocol::ScriptCall;
use lockkeeper_core::store::{Call, Form, Reply, Store, Value};
use lockkeeper_lua::{Script, Status, multi, mutex, reentrant};
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::vectors;

vectors! { Scripts:
    an_acquire_writes_under_each_name_what_its_kind_writes
    one_name_held_by_another_keeps_all_others_free
    every_name_that_is_held_is_named
    a_repeated_acquire_arms_all_again_and_gives_the_same_tokens
    an_owner_that_holds_is_let_in_again_with_its_token
    a_mark_against_one_claim_keeps_all_of_them_out
    a_claim_that_is_to_leave_is_told_so_and_nothing_is_armed
    another_kind_under_one_name_is_told_and_nothing_written
    a_fence_of_another_type_is_told_before_anything_is_written
    a_name_given_twice_is_refused
    a_leave_frees_every_name_and_tells_the_waiters_of_each
    a_leave_run_twice_has_the_effect_of_once
    a_leave_takes_away_nothing_of_others
    a_marked_leave_stops_a_late_acquire_and_an_unmarked_item_makes_no_mark
    a_leave_before_its_time_keeps_the_name
    single_scripts_and_these_understand_one_another
    a_hundred_and_twenty_eight_names_and_more_are_one_run
}

const CLIENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const TTL: &str = "30000";

/// A claim of this owner.
fn claim(owner: u8, number: u8) -> String {
    format!("{CLIENT}:{owner}/{number:016x}")
}

/// A connection to a site, and the scripts of several names.
struct Scripts {
    site: Box<dyn Site>,
    store: Arc<dyn Store>,
}

/// A name, its kind, and a claim on it.
type On<'a> = (&'a str, &'a str, String);

/// One outcome: its status, and its fields as text.
type Outcome = (Status, Vec<String>);

fn text(value: &Value) -> Option<String> {
    let number = || value.as_i64().map(|number| number.to_string());
    value.as_str().map(str::to_owned).or_else(number)
}

fn outcome(value: &Value) -> Option<Outcome> {
    let (status, fields) = match value {
        Value::List(items) => items.split_first()?,
        status => (status, &[][..]),
    };
    let fields: Option<Vec<String>> = fields.iter().map(text).collect();
    Some((Status::parse(status.as_str()?)?, fields?))
}

fn statuses(outcomes: &[Outcome]) -> Vec<Status> {
    outcomes.iter().map(|(status, _)| *status).collect()
}

fn name(name: &str) -> Result<Name> {
    Ok(Name::new("lockkeeper", name)?)
}

fn tombstone(on: &str, claim: &str) -> Result<String> {
    Ok(format!("{}:{claim}", name(on)?.part("gone")))
}

impl Scripts {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let store = site.store().await?;
        let site = Box::new(site);
        Ok(Self { site, store })
    }

    async fn run(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<String>,
    ) -> Result<Reply> {
        // Items are put together here as the engine does it, whose way to do so is not public.
        let mut item = ScriptCall::new(
            script,
            keys[..script.keys.len()].to_vec(),
            args[..script.args.len() - 1].to_vec(),
        );
        (item.keys, item.args) = (keys, args);
        let call = Call::new(item, 7, Form::Source, Duration::from_secs(5));
        Ok(self.store.call(call).await?)
    }

    async fn batch(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<String>,
    ) -> Result<Vec<Outcome>> {
        let reply = self.run(script, keys, args).await?;
        ensure!(reply.status() == Status::Done, "{reply:?}");
        let outcomes: Option<Vec<Outcome>> = reply.fields().iter().map(outcome).collect();
        outcomes.context("an outcome for each item")
    }

    async fn acquire(&self, on: &[On<'_>]) -> Result<Vec<Outcome>> {
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for (on, kind, claim) in on {
            let name = name(on)?;
            keys.extend([
                name.main().to_owned(),
                name.part("fence"),
                tombstone(on, claim)?,
            ]);
            args.extend([claim, TTL, "0", kind].map(str::to_owned));
        }
        self.batch(&multi::ACQUIRE, keys, args).await
    }

    async fn leave_by(
        &self,
        on: &[On<'_>],
        keep: &str,
        tombstone_ttl: &str,
    ) -> Result<Vec<Outcome>> {
        let (mut keys, mut args) = (Vec::new(), Vec::new());
        for (on, kind, claim) in on {
            let name = name(on)?;
            keys.extend([name.main().to_owned(), tombstone(on, claim)?]);
            args.extend([claim, &*name.part("wake"), keep, tombstone_ttl, kind].map(str::to_owned));
        }
        self.batch(&multi::RELEASE, keys, args).await
    }

    async fn leave(&self, on: &[On<'_>]) -> Result<Vec<Outcome>> {
        self.leave_by(on, "0", "0").await
    }

    async fn command(&self, words: &[&str]) -> Result<String> {
        self.site.command(words).await
    }

    /// The main keys there are.
    async fn held(&self) -> Result<Vec<String>> {
        let mut keys = self.site.keys().await?;
        keys.retain(|key| key.starts_with("lockkeeper:"));
        keys.sort();
        Ok(keys)
    }
}

/// A mutex `a`, a re-entrant lock `b` and a mutex `c`.
fn three(owner: u8) -> [On<'static>; 3] {
    [
        ("a", "mutex", claim(owner, 1)),
        ("b", "reentrant", claim(owner, 2)),
        ("c", "mutex", claim(owner, 3)),
    ]
}

async fn an_acquire_writes_under_each_name_what_its_kind_writes(it: &Scripts) -> Result<()> {
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(statuses(&outcomes) == [Status::Granted; 3], "{outcomes:?}");
    ensure!(it.command(&["GET", "lockkeeper:a"]).await? == claim(1, 1));
    for (field, value) in [
        ("kind", "reentrant"),
        ("owner", &*format!("{CLIENT}:1")),
        ("token", &*outcomes[1].1[0]),
    ] {
        ensure!(
            it.command(&["HGET", "lockkeeper:b", field]).await? == value,
            "{field}"
        );
    }
    ensure!(
        !it.command(&["HGET", "lockkeeper:b", &claim(1, 2)])
            .await?
            .is_empty()
    );
    for (number, on) in ["a", "b", "c"].into_iter().enumerate() {
        let name = name(on)?;
        ensure!(it.command(&["GET", &name.part("fence")]).await? == outcomes[number].1[0]);
        let left: i64 = it.command(&["PTTL", name.main()]).await?.parse()?;
        ensure!((29_000..=30_000).contains(&left), "{on}: {left} ms");
        let left: i64 = it.command(&["PTTL", &name.part("fence")]).await?.parse()?;
        ensure!((599_000..=600_000).contains(&left), "{on}: {left} ms");
    }
    ensure!(it.site.keys().await?.len() == 6, "more was written");
    Ok(())
}

async fn one_name_held_by_another_keeps_all_others_free(it: &Scripts) -> Result<()> {
    it.acquire(&[("b", "reentrant", claim(2, 9))]).await?;
    let before = it.site.keys().await?.len();
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Free, Status::Busy, Status::Free],
        "{outcomes:?}"
    );
    let left: i64 = outcomes[1].1[0].parse()?;
    ensure!((29_000..=30_000).contains(&left), "{left}");
    ensure!(
        it.site.keys().await?.len() == before,
        "something was written"
    );
    Ok(())
}

async fn every_name_that_is_held_is_named(it: &Scripts) -> Result<()> {
    it.acquire(&[("a", "mutex", claim(2, 8)), ("b", "reentrant", claim(2, 9))])
        .await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Busy, Status::Busy, Status::Free],
        "{outcomes:?}"
    );
    Ok(())
}

async fn a_repeated_acquire_arms_all_again_and_gives_the_same_tokens(it: &Scripts) -> Result<()> {
    let first = it.acquire(&three(1)).await?;
    for key in ["lockkeeper:a", "lockkeeper:b", "lockkeeper:c"] {
        it.command(&["PEXPIRE", key, "3000"]).await?;
    }
    ensure!(it.acquire(&three(1)).await? == first);
    for key in ["lockkeeper:a", "lockkeeper:b", "lockkeeper:c"] {
        ensure!(
            it.command(&["PTTL", key]).await?.parse::<i64>()? > 29_000,
            "{key}"
        );
    }
    Ok(())
}

async fn an_owner_that_holds_is_let_in_again_with_its_token(it: &Scripts) -> Result<()> {
    let outer = it.acquire(&[("b", "reentrant", claim(1, 9))]).await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(statuses(&outcomes) == [Status::Granted; 3], "{outcomes:?}");
    ensure!(outcomes[1].1 == outer[0].1, "another token");
    let left = it.leave(&three(1)).await?;
    ensure!(
        left[1] == (Status::Released, vec!["1".to_owned(), "1".to_owned()]),
        "{left:?}"
    );
    Ok(())
}

async fn a_mark_against_one_claim_keeps_all_of_them_out(it: &Scripts) -> Result<()> {
    it.command(&["SET", &tombstone("c", &claim(1, 3))?, "1", "PX", "1000"])
        .await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Free, Status::Free, Status::Gone],
        "{outcomes:?}"
    );
    ensure!(it.held().await?.is_empty());
    Ok(())
}

async fn a_claim_that_is_to_leave_is_told_so_and_nothing_is_armed(it: &Scripts) -> Result<()> {
    it.acquire(&three(1)).await?;
    let revoked = format!("revoked:{}", claim(1, 1));
    it.command(&["SET", "lockkeeper:a", &revoked, "PX", "3000"])
        .await?;
    it.command(&["HSET", "lockkeeper:b", "revoked", "1"])
        .await?;
    it.command(&["PEXPIRE", "lockkeeper:c", "3000"]).await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Revoked, Status::Revoked, Status::Free],
        "{outcomes:?}"
    );
    ensure!(
        it.command(&["PTTL", "lockkeeper:c"])
            .await?
            .parse::<i64>()?
            <= 3_000
    );
    ensure!(statuses(&it.leave(&three(1)).await?) == [Status::Released; 3]);
    Ok(())
}

async fn another_kind_under_one_name_is_told_and_nothing_written(it: &Scripts) -> Result<()> {
    it.command(&["HSET", "lockkeeper:c", "f", "v"]).await?;
    it.command(&["SET", "lockkeeper:b", "text"]).await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Free, Status::WrongKind, Status::WrongKind],
        "{outcomes:?}"
    );
    ensure!(it.site.keys().await?.len() == 2);
    Ok(())
}

async fn a_fence_of_another_type_is_told_before_anything_is_written(it: &Scripts) -> Result<()> {
    it.command(&["HSET", &name("c")?.part("fence"), "f", "v"])
        .await?;
    let outcomes = it.acquire(&three(1)).await?;
    ensure!(
        statuses(&outcomes) == [Status::Free, Status::Free, Status::WrongKind],
        "{outcomes:?}"
    );
    ensure!(it.held().await?.is_empty());
    Ok(())
}

async fn a_name_given_twice_is_refused(it: &Scripts) -> Result<()> {
    let outcomes = it
        .acquire(&[("a", "mutex", claim(1, 1)), ("a", "mutex", claim(1, 2))])
        .await?;
    ensure!(
        statuses(&outcomes) == [Status::Free, Status::WrongKind],
        "{outcomes:?}"
    );
    ensure!(it.site.keys().await?.is_empty());
    Ok(())
}

async fn a_leave_frees_every_name_and_tells_the_waiters_of_each(it: &Scripts) -> Result<()> {
    let mut events = it.store.events().context("events")?;
    for on in ["a", "b", "c"] {
        it.store.subscribe(&name(on)?.part("wake")).await?;
    }
    it.acquire(&three(1)).await?;
    let left = it.leave(&three(1)).await?;
    ensure!(
        left.iter()
            .all(|it| *it == (Status::Released, vec!["1".to_owned(), "0".to_owned()])),
        "{left:?}"
    );
    ensure!(it.held().await?.is_empty());
    for on in ["a", "b", "c"] {
        let event = tokio::time::timeout(Duration::from_secs(5), events.recv()).await?;
        let expected = lockkeeper_core::store::Event::message(name(on)?.part("wake"), "free");
        ensure!(event == Some(expected), "{event:?}");
    }
    Ok(())
}

async fn a_leave_run_twice_has_the_effect_of_once(it: &Scripts) -> Result<()> {
    it.acquire(&three(1)).await?;
    it.leave(&three(1)).await?;
    ensure!(statuses(&it.acquire(&three(2)).await?) == [Status::Granted; 3]);
    ensure!(statuses(&it.leave(&three(1)).await?) == [Status::NotHeld; 3]);
    ensure!(
        it.held().await?.len() == 3,
        "the second leave took others' locks away"
    );
    Ok(())
}

async fn a_leave_takes_away_nothing_of_others(it: &Scripts) -> Result<()> {
    it.acquire(&[("a", "mutex", claim(1, 1))]).await?;
    it.acquire(&[("b", "reentrant", claim(2, 2))]).await?;
    it.command(&["HSET", "lockkeeper:c", "f", "v"]).await?;
    let left = it.leave(&three(1)).await?;
    ensure!(
        statuses(&left) == [Status::Released, Status::NotHeld, Status::NotHeld],
        "{left:?}"
    );
    ensure!(it.held().await? == ["lockkeeper:b", "lockkeeper:c"]);
    Ok(())
}

async fn a_marked_leave_stops_a_late_acquire_and_an_unmarked_item_makes_no_mark(
    it: &Scripts,
) -> Result<()> {
    it.acquire(&three(1)).await?;
    it.leave(&three(1)).await?;
    ensure!(
        it.site.keys().await?.len() == 3,
        "more than the fences is left"
    );
    it.leave_by(&three(2), "0", TTL).await?;
    ensure!(statuses(&it.acquire(&three(2)).await?) == [Status::Gone; 3]);
    let left: i64 = it
        .command(&["PTTL", &tombstone("b", &claim(2, 2))?])
        .await?
        .parse()?;
    ensure!(
        (29_000..=30_000).contains(&left),
        "the mark lives for {left} ms"
    );
    ensure!(it.held().await?.is_empty());
    Ok(())
}

async fn a_leave_before_its_time_keeps_the_name(it: &Scripts) -> Result<()> {
    it.acquire(&three(1)).await?;
    let left = it.leave_by(&three(1), "700", "0").await?;
    ensure!(statuses(&left) == [Status::Cooldown; 3], "{left:?}");
    ensure!(statuses(&it.acquire(&three(2)).await?) == [Status::Busy; 3]);
    for key in ["lockkeeper:a", "lockkeeper:b", "lockkeeper:c"] {
        ensure!(
            it.command(&["PTTL", key]).await?.parse::<i64>()? <= 700,
            "{key}"
        );
    }
    Ok(())
}

async fn single_scripts_and_these_understand_one_another(it: &Scripts) -> Result<()> {
    it.acquire(&three(1)).await?;
    let (a, b) = (name("a")?, name("b")?);
    let keys = |name: &Name, claim: &str| {
        vec![
            name.main().to_owned(),
            name.part("fence"),
            format!("{}:{claim}", name.part("gone")),
        ]
    };
    let other = claim(2, 7);
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    let single = it
        .run(
            &mutex::ACQUIRE,
            keys(&a, &other),
            words(&[&other, TTL, "0", "0"]),
        )
        .await?;
    ensure!(single.status() == Status::Busy, "{single:?}");
    let owner = format!("{CLIENT}:2");
    let single = it
        .run(
            &reentrant::ACQUIRE,
            keys(&b, &other),
            words(&[&other, TTL, "0", "0", &owner]),
        )
        .await?;
    ensure!(single.status() == Status::Busy, "{single:?}");
    // And what single scripts do to such a claim they do to any.
    let renewed = it
        .batch(
            &mutex::RENEW,
            vec![a.main().to_owned()],
            words(&[&claim(1, 1), TTL]),
        )
        .await?;
    ensure!(statuses(&renewed) == [Status::Renewed]);
    let renewed = it
        .batch(
            &reentrant::RENEW,
            vec![b.main().to_owned()],
            words(&[&claim(1, 2), TTL]),
        )
        .await?;
    ensure!(statuses(&renewed) == [Status::Renewed]);
    let left = it
        .run(
            &reentrant::RELEASE,
            vec![b.main().to_owned()],
            words(&[&claim(1, 2), "wake", "0"]),
        )
        .await?;
    ensure!(left.status() == Status::Released);
    Ok(())
}

async fn a_hundred_and_twenty_eight_names_and_more_are_one_run(it: &Scripts) -> Result<()> {
    for count in [1, 2, 16, 128, 1024] {
        let names: Vec<String> = (0..count)
            .map(|number| format!("{count}:{number}"))
            .collect();
        let kinds = ["mutex", "reentrant"].into_iter().cycle();
        let on: Vec<On<'_>> = names
            .iter()
            .zip(kinds)
            .map(|(name, kind)| (&**name, kind, claim(1, 1)))
            .collect();
        let outcomes = it.acquire(&on).await?;
        ensure!(outcomes.len() == count && outcomes.iter().all(|it| it.0 == Status::Granted));
        let left = it.leave(&on).await?;
        ensure!(left.len() == count && left.iter().all(|it| it.0 == Status::Released));
    }
    Ok(())
}
