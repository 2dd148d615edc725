//! The effect of an election's scripts on the keys of a name, and their replies, on the embedded engine and on a real server:
//! with the leader alone under the name (thin), and after a claim has waited (inflated).

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_lua::election;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site;

use crate::scripts::single::{
    A, B, C, HOLDERS, MAIN, QUEUE, STATE, Scripts, TTL, Who, is_nearly, name_of, number, vectors,
};

vectors! { Crown in [thin inflated]:
    a_name_that_nobody_leads_is_free
    a_leader_that_has_proclaimed_nothing_is_known_by_nothing
    what_is_proclaimed_is_known_with_its_number_and_time
    a_later_value_is_known_since_the_first
    an_old_value_that_comes_late_changes_nothing
    a_value_proclaimed_again_is_told_once
    whoever_does_not_lead_proclaims_nothing
    observers_are_told_when_nobody_leads_any_more
    a_value_ends_with_its_term
    a_late_proclamation_of_an_old_term_changes_nothing
    a_leader_whose_lease_has_ended_leads_no_more
    a_revoked_leader_is_told_so_and_leads_until_it_leaves
    a_claim_that_cools_down_does_not_lead
    proclaiming_leaves_the_lease_as_it_is
    what_is_known_lives_as_long_as_the_leader_is_renewed
    every_key_has_an_end_and_a_release_leaves_none
    garbage_is_not_known_and_another_type_is_told
    a_lock_of_another_kind_has_no_leader
    a_preferred_candidate_is_the_next
    preferring_again_and_again_keeps_everybody_in_the_queue
    nobody_but_the_leader_prefers
    a_candidate_that_is_gone_is_not_preferred
    a_dead_candidate_is_not_preferred
}

const D: Who = Who(4, 1);

/// A connection to a site, and the scripts of one name.
struct Crown(Scripts);

impl Deref for Crown {
    type Target = Scripts;

    fn deref(&self) -> &Scripts {
        &self.0
    }
}

impl Crown {
    async fn on(site: impl Site + 'static) -> Result<Self> {
        let mut scripts = Scripts::on(site).await?;
        scripts.kind = "election";
        Ok(Self(scripts))
    }

    const fn thin(self) -> Self {
        self
    }

    fn inflated(self) -> Self {
        Self(self.0.inflated())
    }

    /// Becomes the leader. Returns the term.
    async fn lead(&self, who: Who) -> Result<i64> {
        let term = number(&self.acquire(who).await?, "GRANTED", 1)?;
        if self.inflates {
            self.wait(Who(200, 1)).await?;
            ensure!(self.release(Who(200, 1)).await? == "RELEASED 1 0");
        }
        Ok(term)
    }

    /// Waits to lead. Returns the number of claims in front.
    async fn wait(&self, who: Who) -> Result<i64> {
        Ok(number(&self.acquire(who).await?, "WAITING", 2)? - 1)
    }

    async fn proclaim(&self, who: Who, term: i64, number: u64, value: &str) -> Result<String> {
        let keys = [MAIN, HOLDERS, QUEUE, STATE].map(str::to_owned);
        let (claim, term) = (who.text()?, term.to_string());
        let (number, channel) = (number.to_string(), name_of("name")?.grants());
        let args = [&*claim, &term, &number, "label", value, &channel];
        self.run(&election::PROCLAIM, keys, &args).await
    }

    async fn leader(&self) -> Result<String> {
        let keys = [MAIN, HOLDERS, STATE].map(str::to_owned);
        self.run(&election::LEADER, keys, &["election"]).await
    }

    async fn prefer(&self, who: Who, next: Who) -> Result<String> {
        let keys = [MAIN, HOLDERS, QUEUE, STATE].map(str::to_owned);
        let args = [&*who.text()?, "10000", &next.text()?];
        self.run(&election::PREFER, keys, &args).await
    }

    /// The remaining keys of the name.
    async fn left(&self) -> Result<Vec<String>> {
        let mut keys = self.keys().await?;
        keys.retain(|key| !key.starts_with("lockkeeper.fence:"));
        Ok(keys)
    }

    /// Whether exactly these claims wait, in this order.
    async fn line(&self, whoever: &[Who]) -> Result<bool> {
        let mut claims = Vec::new();
        for who in whoever {
            claims.push(format!("x:{}", who.text()?));
        }
        let script = "return table.concat(redis.call('ZRANGE', KEYS[1], 0, -1), ' ')";
        let line = self.command(&["EVAL", script, "1", QUEUE]).await?;
        Ok(line == claims.join(" "))
    }
}

/// The published facts about a leader: the term, the claim, the number and the value; and, separately, the time and what is
/// left of the lease.
fn known(reply: &str) -> Result<(String, i64, i64)> {
    let words: Vec<&str> = reply.splitn(8, ' ').collect();
    ensure!(words.len() == 8 && words[0] == "LEADER", "{reply}");
    let shown = [words[1], words[2], words[4], words[6], words[7]].join(" ");
    Ok((shown, words[5].parse()?, words[3].parse()?))
}

fn shown(term: i64, who: Who, number: u64, value: &str) -> Result<String> {
    Ok(format!("{term} {} {number} label {value}", who.text()?))
}

async fn a_name_that_nobody_leads_is_free(it: &Crown) -> Result<()> {
    ensure!(it.leader().await? == "FREE");
    it.lead(A).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.leader().await? == "FREE");
    Ok(())
}

async fn a_leader_that_has_proclaimed_nothing_is_known_by_nothing(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    let (what, since, left) = known(&it.leader().await?)?;
    ensure!(what == format!("{term} {} 0  ", A.text()?), "{what:?}");
    ensure!(since == 0 && is_nearly(left, 30_000), "{left}");
    Ok(())
}

async fn what_is_proclaimed_is_known_with_its_number_and_time(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    let answer = it.proclaim(A, term, 1, "10.0.0.5 a b").await?;
    let (what, since, left) = known(&answer)?;
    ensure!(what == shown(term, A, 1, "10.0.0.5 a b")?, "{what}");
    ensure!(since > 1_600_000_000_000 && is_nearly(left, 30_000));
    let seen = known(&it.leader().await?)?;
    ensure!((seen.0, seen.1) == (what, since));
    Ok(())
}

async fn a_later_value_is_known_since_the_first(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    // Moves time on by hand.
    let earlier = format!("{term} 1 1600000000000");
    it.command(&["HSET", STATE, "proclaimed", &earlier]).await?;
    it.proclaim(A, term, 5, "five").await?;
    let (what, since, _) = known(&it.leader().await?)?;
    ensure!(what == shown(term, A, 5, "five")? && since == 1_600_000_000_000);
    Ok(())
}

async fn an_old_value_that_comes_late_changes_nothing(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 10, "ten").await?;
    let mut told = it.listen(name_of("name")?.grants()).await?;
    for number in [9, 10, 2] {
        let (what, ..) = known(&it.proclaim(A, term, number, "late").await?)?;
        ensure!(what == shown(term, A, 10, "ten")?, "{number}: {what}");
    }
    ensure!(told.heard(it).await?.is_empty());
    Ok(())
}

async fn a_value_proclaimed_again_is_told_once(it: &Crown) -> Result<()> {
    let mut told = it.listen(name_of("name")?.grants()).await?;
    let term = it.lead(A).await?;
    let first = known(&it.proclaim(A, term, 1, "one").await?)?;
    ensure!(told.heard(it).await? == [format!("L {term}")]);
    let again = known(&it.proclaim(A, term, 1, "one").await?)?;
    ensure!((first.0, first.1) == (again.0, again.1));
    ensure!(told.heard(it).await?.is_empty());
    Ok(())
}

async fn observers_are_told_when_nobody_leads_any_more(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    it.wait(B).await?;
    let mut told = it.listen(name_of("name")?.grants()).await?;
    // The next one will proclaim its own value.
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(told.heard(it).await?.is_empty());
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(told.heard(it).await? == ["free"]);
    ensure!(it.left().await?.is_empty());

    // An election that nobody has heard of ends in silence.
    it.lead(A).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(told.heard(it).await?.is_empty());
    Ok(())
}

async fn whoever_does_not_lead_proclaims_nothing(it: &Crown) -> Result<()> {
    ensure!(it.proclaim(A, 1, 1, "nobody leads").await? == "GONE");
    ensure!(it.left().await?.is_empty());
    let term = it.lead(A).await?;
    ensure!(it.proclaim(B, term, 1, "another").await? == "GONE");
    ensure!(it.wait(B).await? == 0);
    for other in [term, term + 1] {
        ensure!(it.proclaim(B, other, 9, "it waits").await? == "GONE");
    }
    ensure!(it.proclaim(A, term + 1, 9, "no term of its").await? == "GONE");
    ensure!(known(&it.leader().await?)?.0 == format!("{term} {} 0  ", A.text()?));
    Ok(())
}

async fn a_value_ends_with_its_term(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 7, "seven").await?;
    it.wait(B).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    let (what, since, _) = known(&it.leader().await?)?;
    let next: i64 = what.split(' ').next().unwrap_or_default().parse()?;
    ensure!(next > term && since == 0);
    ensure!(what == format!("{next} {} 0  ", B.text()?), "{what}");
    // Its first value counts, whatever the numbers of the previous term.
    let (what, since, _) = known(&it.proclaim(B, next, 1, "one").await?)?;
    ensure!(what == shown(next, B, 1, "one")? && since > 0);
    Ok(())
}

async fn a_late_proclamation_of_an_old_term_changes_nothing(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.wait(B).await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.proclaim(A, term, 1, "late").await? == "GONE");
    let (what, ..) = known(&it.leader().await?)?;
    ensure!(what.ends_with(" 0  "), "{what}");
    ensure!(it.release(B).await? == "RELEASED 1 0");
    ensure!(it.proclaim(A, term, 1, "late").await? == "GONE");
    ensure!(it.left().await?.is_empty());
    Ok(())
}

async fn a_leader_whose_lease_has_ended_leads_no_more(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    it.lease_ends_in(A, -1).await?;
    ensure!(it.leader().await? == "FREE");
    ensure!(it.proclaim(A, term, 2, "two").await? == "GONE");
    ensure!(it.prefer(A, B).await? == "GONE");
    Ok(())
}

async fn a_revoked_leader_is_told_so_and_leads_until_it_leaves(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    ensure!(it.revoke().await? == "TOLD 1");
    ensure!(it.proclaim(A, term, 2, "two").await? == "REVOKED");
    ensure!(it.prefer(A, B).await? == "GONE");
    ensure!(known(&it.leader().await?)?.0 == shown(term, A, 1, "one")?);
    Ok(())
}

async fn a_claim_that_cools_down_does_not_lead(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    let cooldown = Duration::from_secs(9);
    let left = it.release_with(A, cooldown).await?;
    ensure!(left.starts_with("COOLDOWN 1 "), "{left}");
    ensure!(it.leader().await? == "FREE");
    ensure!(it.proclaim(A, term, 1, "one").await? == "GONE");
    Ok(())
}

async fn proclaiming_leaves_the_lease_as_it_is(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.lease_ends_in(A, 9_000).await?;
    for number in [1, 2] {
        let (_, _, left) = known(&it.proclaim(A, term, number, "value").await?)?;
        ensure!(is_nearly(left, 9_000), "{left} ms");
    }
    let left = number(&it.verify(A).await?, "HELD", 1)?;
    ensure!(is_nearly(left, 9_000), "{left} ms");
    Ok(())
}

async fn what_is_known_lives_as_long_as_the_leader_is_renewed(it: &Crown) -> Result<()> {
    use lockkeeper_core::protocol::RequestContext;

    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    it.command(&["PEXPIRE", STATE, "9000"]).await?;
    // As the kind renews, which arms the state along with the claim.
    let id = A.id()?;
    let election = lockkeeper_election::protocol(name_of("name")?, "one");
    let renewal = election.renew(RequestContext::new(&id, TTL, 0, None));
    ensure!(it.batch([renewal]).await? == ["RENEWED"]);
    ensure!(it.pttl(STATE).await? >= 600_000);
    Ok(())
}

async fn every_key_has_an_end_and_a_release_leaves_none(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    // The server has evicted the state.
    it.command(&["DEL", STATE]).await?;
    it.proclaim(A, term, 2, "two").await?;
    for key in it.left().await? {
        ensure!(it.pttl(&key).await? > 0, "{key} has no end");
    }
    ensure!(it.pttl(STATE).await? >= it.pttl(MAIN).await? - 1_000);
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(it.left().await?.is_empty());
    Ok(())
}

async fn garbage_is_not_known_and_another_type_is_told(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    it.proclaim(A, term, 1, "one").await?;
    for garbage in ["", "x y z", "1 2", &format!("{term} -1 7")] {
        it.command(&["HSET", STATE, "proclaimed", garbage]).await?;
        let (what, ..) = known(&it.leader().await?)?;
        ensure!(what.ends_with(" 0  "), "{garbage:?}: {what}");
    }
    it.command(&["DEL", STATE]).await?;
    it.command(&["SET", STATE, "text"]).await?;
    ensure!(it.leader().await? == "WRONG_KIND");
    ensure!(it.proclaim(A, term, 2, "two").await? == "WRONG_KIND");
    it.command(&["DEL", HOLDERS]).await?;
    it.command(&["SET", HOLDERS, "text"]).await?;
    ensure!(it.leader().await? == "WRONG_KIND");
    ensure!(it.proclaim(A, term, 2, "two").await? == "GONE");
    Ok(())
}

async fn a_lock_of_another_kind_has_no_leader(it: &Crown) -> Result<()> {
    for (takes, other) in [
        ("RPUSH", format!("fair x {} 7", A.text()?)),
        ("SET", "another library's".to_owned()),
    ] {
        it.command(&["DEL", MAIN]).await?;
        it.command(&[takes, MAIN, &other]).await?;
        ensure!(it.leader().await? == "WRONG_KIND", "{other}");
    }
    ensure!(it.proclaim(B, 7, 1, "one").await? == "GONE");
    ensure!(it.prefer(B, A).await? == "GONE");
    Ok(())
}

async fn a_preferred_candidate_is_the_next(it: &Crown) -> Result<()> {
    let term = it.lead(A).await?;
    ensure!(it.prefer(A, B).await? == "QUEUED 0 0");
    for (before, who) in (0..).zip([B, C, D]) {
        ensure!(it.wait(who).await? == before);
    }
    for _ in 0..2 {
        ensure!(it.prefer(A, D).await? == "QUEUED 3 1");
        ensure!(it.line(&[D, B, C]).await?);
    }
    it.proclaim(A, term, 1, "goes on").await?;
    ensure!(it.release(A).await? == "RELEASED 1 0");
    ensure!(known(&it.leader().await?)?.0.contains(&D.text()?));
    ensure!(it.line(&[B, C]).await?);
    Ok(())
}

async fn preferring_again_and_again_keeps_everybody_in_the_queue(it: &Crown) -> Result<()> {
    it.lead(A).await?;
    for who in [B, C] {
        it.wait(who).await?;
    }
    for next in [C, B, C, B, C, B] {
        ensure!(it.prefer(A, next).await? == "QUEUED 2 1");
    }
    ensure!(it.line(&[B, C]).await?);
    // A new claim comes last, and tickets below zero are valid.
    ensure!(it.wait(D).await? == 2);
    ensure!(it.line(&[B, C, D]).await?);
    Ok(())
}

async fn nobody_but_the_leader_prefers(it: &Crown) -> Result<()> {
    ensure!(it.prefer(A, B).await? == "GONE");
    it.lead(A).await?;
    for who in [B, C] {
        it.wait(who).await?;
    }
    for who in [B, C, D] {
        ensure!(it.prefer(who, C).await? == "GONE");
    }
    ensure!(it.line(&[B, C]).await?);
    Ok(())
}

async fn a_candidate_that_is_gone_is_not_preferred(it: &Crown) -> Result<()> {
    it.lead(A).await?;
    for who in [B, C] {
        it.wait(who).await?;
    }
    ensure!(it.release(C).await? == "RELEASED 1 0");
    for nobody in [C, D, A] {
        ensure!(it.prefer(A, nobody).await? == "QUEUED 1 0");
    }
    ensure!(it.line(&[B]).await?);
    Ok(())
}

async fn a_dead_candidate_is_not_preferred(it: &Crown) -> Result<()> {
    it.lead(A).await?;
    for who in [B, C] {
        it.wait(who).await?;
    }
    // The server heard from it long ago, and from others since.
    it.command(&["HSET", STATE, &C.text()?, "1600000000000:1"])
        .await?;
    ensure!(it.prefer(A, C).await? == "QUEUED 1 0");
    ensure!(it.line(&[B]).await?);
    Ok(())
}
