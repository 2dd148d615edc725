//! The effect of the scripts of work that is done once on the keys of a name, and their replies, on the embedded engine and on
//! a real server. Its names are never inflated: its claims take a whole name and do not queue.

use std::ops::Deref;

use anyhow::{Result, ensure};
use lockkeeper_core::FencingToken;
use lockkeeper_core::protocol::{Protocol as _, RequestContext};
use lockkeeper_lua::once;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::{
    A, B, MAIN, Scripts, TTL, Who, is_nearly, lock_on, name_of, number, token, vectors,
};

vectors! { Work:
    a_name_whose_work_is_not_done_is_granted_as_any_lock
    what_was_stored_is_answered_to_everybody_until_it_ends
    a_store_releases_the_claim_and_tells_those_who_poll
    a_store_run_again_answers_the_same_and_writes_nothing
    a_claim_that_holds_no_more_stores_nothing
    a_claim_of_another_token_leaves_and_stores_nothing
    a_revoked_claim_stores_what_it_has_made
    a_late_store_does_not_replace_what_came_after_it
    a_late_store_brings_nothing_forgotten_back
    a_store_in_doubt_stops_a_late_acquire
    a_grant_that_is_repeated_does_not_look_at_the_record
    a_failure_is_a_record_without_a_value
    a_record_is_forgotten_by_its_token_and_by_no_other
    what_is_no_record_is_none_and_another_type_is_told
    the_scripts_of_a_single_lock_renew_verify_and_release
    a_record_keeps_no_lock_of_another_kind_from_its_name
}

const RECORD: &str = "lockkeeper.record:{lockkeeper:name}";

/// A connection to a site, and the scripts of one name.
struct Work(Scripts);

impl Deref for Work {
    type Target = Scripts;

    fn deref(&self) -> &Scripts {
        &self.0
    }
}

impl Work {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let mut scripts = Scripts::on(site).await?;
        scripts.kind = "once";
        Ok(Self(scripts))
    }

    /// Asks for the work.
    async fn ask(&self, who: Who) -> Result<String> {
        self.repeat(who, 0).await
    }

    /// Asks again for a grant that had this token; 0 for none.
    async fn repeat(&self, who: Who, token: i64) -> Result<String> {
        let id = who.id()?;
        let token = Some(FencingToken::new(token.try_into()?)).filter(|token| token.get() > 0);
        let mut call = lock_on("name", "once")?.acquire(RequestContext::new(&id, TTL, 0, token));
        call.script = &once::ACQUIRE;
        call.keys.push(RECORD);
        self.call(call).await
    }

    async fn begin(&self, who: Who) -> Result<i64> {
        token(&self.ask(who).await?)
    }

    async fn store_with(&self, who: Who, args: &[&str]) -> Result<String> {
        let (name, claim) = (name_of("name")?, who.text()?);
        let keys = vec![
            MAIN.to_owned(),
            name.tombstone(&who.id()?),
            RECORD.to_owned(),
        ];
        self.run(&once::STORE, keys, &[&[&*claim], args].concat())
            .await
    }

    /// Stores this text for a minute.
    async fn store(&self, who: Who, token: i64, value: &str) -> Result<String> {
        let (token, channel) = (token.to_string(), name_of("name")?.wakes());
        let args = [&*token, &channel, "0", "60000", "text", "f1", value];
        self.store_with(who, &args).await
    }

    async fn record(&self, forget: i64) -> Result<String> {
        self.run(
            &once::RECORD,
            vec![RECORD.to_owned()],
            &[&forget.to_string()],
        )
        .await
    }

    /// The stored result, without the times.
    async fn stored(&self) -> Result<String> {
        let reply = self.record(0).await?;
        let words: Vec<&str> = reply.split(' ').collect();
        Ok(words[..words.len().min(5)].join(" "))
    }
}

fn stored(value: &str, who: Who, token: i64) -> Result<String> {
    Ok(format!("STORED text {value} {} {token}", who.text()?))
}

async fn a_name_whose_work_is_not_done_is_granted_as_any_lock(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.command(&["LINDEX", MAIN, "0"]).await? == format!("once x {} {token}", A.text()?));
    ensure!(
        it.begin(A).await? == token,
        "run again it is the same grant"
    );
    let left = number(&it.ask(B).await?, "BUSY", 1)?;
    ensure!(is_nearly(left, 30_000), "{left} ms");
    ensure!(it.record(0).await? == "GONE");
    ensure!(it.command(&["EXISTS", RECORD]).await? == "0");
    Ok(())
}

async fn what_was_stored_is_answered_to_everybody_until_it_ends(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    for who in [A, B] {
        let reply = it.ask(who).await?;
        let words: Vec<&str> = reply.split(' ').collect();
        ensure!(words[..5].join(" ") == stored("done", A, token)?, "{reply}");
        let (at, left): (i64, i64) = (words[5].parse()?, words[7].parse()?);
        ensure!(at > 1_600_000_000_000 && words[6] == "f1", "{reply}");
        ensure!(is_nearly(left, 60_000), "{left} ms");
    }
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    ensure!(is_nearly(it.pttl(RECORD).await?, 60_000));
    it.command(&["PEXPIRE", RECORD, "0"]).await?;
    ensure!(it.begin(B).await? > token);
    Ok(())
}

async fn a_store_releases_the_claim_and_tells_those_who_poll(it: &Work) -> Result<()> {
    let mut poller = it.poller().await?;
    let token = it.begin(A).await?;
    number(&it.ask(B).await?, "BUSY", 1)?;
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    ensure!(poller.heard(it).await? == ["free"]);
    ensure!(it.verify(A).await? == "GONE");
    Ok(())
}

async fn a_store_run_again_answers_the_same_and_writes_nothing(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    it.command(&["PEXPIRE", RECORD, "9000"]).await?;
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    ensure!(it.pttl(RECORD).await? <= 9_000, "it was written again");
    Ok(())
}

async fn a_claim_that_holds_no_more_stores_nothing(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    it.command(&["DEL", MAIN]).await?;
    ensure!(it.store(A, token, "late").await? == "GONE");
    ensure!(it.stored().await? == "GONE");
    let next = it.begin(B).await?;
    ensure!(it.store(A, token, "late").await? == "GONE");
    ensure!(
        it.command(&["LINDEX", MAIN, "0"])
            .await?
            .ends_with(&next.to_string())
    );
    ensure!(it.stored().await? == "GONE");
    Ok(())
}

async fn a_claim_of_another_token_leaves_and_stores_nothing(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.store(A, token - 1, "older").await? == "GONE");
    ensure!(it.stored().await? == "GONE");
    ensure!(it.begin(B).await? > token);
    Ok(())
}

async fn a_revoked_claim_stores_what_it_has_made(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    ensure!(it.stored().await? == stored("done", A, token)?);
    Ok(())
}

async fn a_late_store_does_not_replace_what_came_after_it(it: &Work) -> Result<()> {
    let old = it.begin(A).await?;
    it.command(&["DEL", MAIN]).await?;
    let new = it.begin(B).await?;
    ensure!(it.store(B, new, "new").await? == "RELEASED 1 0");
    ensure!(it.store(A, old, "old").await? == "GONE");
    ensure!(it.stored().await? == stored("new", B, new)?);
    Ok(())
}

async fn a_late_store_brings_nothing_forgotten_back(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    ensure!(it.record(token).await? == "GONE");
    ensure!(it.store(A, token, "done").await? == "GONE");
    ensure!(it.stored().await? == "GONE");
    Ok(())
}

async fn a_store_in_doubt_stops_a_late_acquire(it: &Work) -> Result<()> {
    let token = it.begin(A).await?.to_string();
    let channel = name_of("name")?.wakes();
    let args = [&*token, &channel, "30000", "60000", "text", "", "done"];
    ensure!(it.store_with(A, &args).await? == "RELEASED 1 0");
    ensure!(it.record(token.parse()?).await? == "GONE");
    ensure!(it.ask(A).await? == "GONE");
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    it.begin(B).await?;
    Ok(())
}

async fn a_grant_that_is_repeated_does_not_look_at_the_record(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    ensure!(it.repeat(A, token).await? == format!("GRANTED {token}"));
    ensure!(it.store(A, token, "done").await? == "RELEASED 1 0");
    ensure!(it.repeat(A, token).await? == "GONE");
    Ok(())
}

async fn a_failure_is_a_record_without_a_value(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    let (text, channel) = (token.to_string(), name_of("name")?.wakes());
    let args = [&*text, &channel, "0", "9000", "failed", "", ""];
    ensure!(it.store_with(A, &args).await? == "RELEASED 1 0");
    let failed = format!("STORED failed  {} {token} ", A.text()?);
    let reply = it.ask(B).await?;
    ensure!(reply.starts_with(&failed), "{reply}");
    ensure!(it.pttl(RECORD).await? <= 9_000);
    Ok(())
}

async fn a_record_is_forgotten_by_its_token_and_by_no_other(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    it.store(A, token, "done").await?;
    for other in [0, token - 1, token + 1] {
        ensure!(it.record(other).await?.starts_with("STORED text done "));
    }
    ensure!(it.record(token).await? == "GONE");
    ensure!(it.record(token).await? == "GONE");
    ensure!(it.begin(B).await? > token);
    Ok(())
}

async fn what_is_no_record_is_none_and_another_type_is_told(it: &Work) -> Result<()> {
    it.command(&["HSET", RECORD, "form", "text", "value", "half"])
        .await?;
    ensure!(it.record(0).await? == "GONE");
    let token = it.begin(A).await?;
    ensure!(it.store(A, token, "whole").await? == "RELEASED 1 0");
    ensure!(it.stored().await? == stored("whole", A, token)?);
    it.command(&["DEL", RECORD]).await?;
    it.command(&["SET", RECORD, "text"]).await?;
    ensure!(it.record(0).await? == "WRONG_KIND");
    ensure!(it.ask(B).await? == "WRONG_KIND");
    ensure!(it.command(&["EXISTS", MAIN]).await? == "0");
    Ok(())
}

async fn the_scripts_of_a_single_lock_renew_verify_and_release(it: &Work) -> Result<()> {
    it.begin(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    ensure!(it.renew(A).await? == "RENEWED");
    ensure!(is_nearly(it.pttl(MAIN).await?, 30_000));
    ensure!(it.verify(A).await?.starts_with("HELD "));
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.stored().await? == "GONE");
    it.begin(B).await?;
    Ok(())
}

async fn a_record_keeps_no_lock_of_another_kind_from_its_name(it: &Work) -> Result<()> {
    let token = it.begin(A).await?;
    it.store(A, token, "done").await?;
    let mutex = lock_on("name", "mutex")?;
    let id = B.id()?;
    let reply = it
        .call(mutex.acquire(RequestContext::new(&id, TTL, 0, None)))
        .await?;
    ensure!(reply.starts_with("GRANTED "), "{reply}");
    ensure!(it.ask(A).await?.starts_with("STORED "));
    it.command(&["DEL", RECORD]).await?;
    ensure!(it.ask(A).await? == "WRONG_KIND");
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_new_work_and_answers_what_is_done() -> Result<()> {
    let it = Work::on(Server::start().await?).await?;
    let token = it.begin(A).await?;
    it.command(&["CONFIG", "SET", "maxmemory", "1"]).await?;
    ensure!(it.store(A, token, "42").await? == "RELEASED 1 0");
    ensure!(it.ask(B).await?.starts_with("STORED "));
    it.command(&["DEL", RECORD]).await?;
    let refused = it.ask(B).await.err();
    let refused = refused.map(|error| error.to_string()).unwrap_or_default();
    ensure!(refused.contains("OOM"), "{refused}");
    Ok(())
}
