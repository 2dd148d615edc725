//! Requests in random order, each reply compared with a simple model of a name.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use lockkeeper_core::protocol::{LockProtocol, Protocol as _, RequestContext, ScriptCall};
use lockkeeper_core::store::{Call, Form, Store as _, Value};
use lockkeeper_core::{ClaimId, FencingToken, Kind, Name};
use lockkeeper_lua::name;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site as _;
use tokio::time::{Instant, sleep};

const SOON: Duration = Duration::from_secs(10);

/// One claim as the server must see it.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// When its lease ends, ms.
    lease: u64,
    token: u64,
    /// When the tombstone of its last release expires.
    mark: Option<u64>,
}

/// Any request of any claim at any time, repeated or late, as long as each claim lives once. No claim holds beside another
/// owner's, during a cooldown or after a forced release; a revoked claim stays revoked; tokens grow; and every key expires
/// with what it stores.
#[tokio::test(start_paused = true)]
async fn no_order_of_requests_lets_two_hold_or_a_revoked_one_back() -> Result<()> {
    for seed in 0..400 {
        let story = &mut Vec::new();
        let outcome = random_requests(seed, story).await;
        outcome.with_context(|| format!("seed {seed}\n{}", story.join("\n")))?;
    }
    Ok(())
}

async fn random_requests(seed: u64, story: &mut Vec<String>) -> Result<()> {
    const MAIN: &str = "lockkeeper:name";
    let mut state = seed * 2_654_435_761 + 88_172_645_463_325_252;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let reenters = seed.is_multiple_of(2);
    let name = Name::new("lockkeeper", "name")?;
    let keys = || {
        let parts = ["holders", "queue", "state"].map(|part| name.part(part));
        [name.main().to_owned()].into_iter().chain(parts)
    };
    let lock = LockProtocol::new(name.clone(), Kind::new("any"));
    let lock = if reenters { lock.reentrant() } else { lock };
    let server = MemoryStore::new();
    let begun = Instant::now();
    let owner = |claim: usize| format!("00000000-0000-0000-0000-00000000000{}:1", claim % 2);
    let mut claims = vec![Seen::default(); 5];
    let (mut kept, mut revoked, mut last) = (0, false, 0);
    for request in 1..120 {
        sleep(Duration::from_millis(random(300))).await;
        let now = u64::try_from(begun.elapsed().as_millis())?;
        // In the exact millisecond of an end, the server may see it on either side.
        let ends = claims
            .iter()
            .flat_map(|claim| [Some(claim.lease), claim.mark]);
        if ends
            .flatten()
            .chain([kept])
            .any(|end| end.abs_diff(now) <= 1)
        {
            continue;
        }
        if claims.iter().all(|claim| claim.lease <= now) {
            revoked = false;
        }
        let one = usize::try_from(random(5))?;
        let id = ClaimId::new(owner(one).parse()?, one as u64);
        let ttl = 200 + random(600);
        let keep = if random(2) == 0 { 0 } else { random(900) };
        let ask = |ttl| RequestContext::new(&id, Duration::from_millis(ttl), 0, None);
        let what = random(9);
        let item = match what {
            0..=3 => {
                let spent = claims[one].mark.is_some_and(|mark| mark <= now + 1);
                if spent {
                    claims[one].mark = None;
                    claims[one].token = 0;
                    // Its time is over: from here on the number is used for another claim.
                    continue;
                }
                let token = if random(2) == 0 { 0 } else { claims[one].token };
                let mut ask = ask(ttl);
                ask.token = (token > 0).then(|| FencingToken::new(token));
                lock.acquire(ask)
            }
            4 => lock.renew(ask(ttl).on_inflated(random(2) == 0)),
            5 | 6 => lock.release(ask(1000).cooling_down(Duration::from_millis(keep)), true),
            7 => ScriptCall::new(&name::REVOKE, keys(), ScriptCall::NONE),
            _ => ScriptCall::new(
                &name::FREE,
                keys(),
                [id.as_str().to_owned(), "wake".to_owned()],
            ),
        };
        let call = Call::new(item, request, Form::Source, SOON);
        let reply = server.call(call).await?;
        let field = |place| reply.field(place).and_then(Value::as_i64).unwrap_or(-1);
        let number = |place| u64::try_from(field(place)).unwrap_or(0);
        let outcome = if what == 4 {
            reply
                .field(0)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        } else {
            reply.status().as_str().to_owned()
        };
        story.push(format!(
            "{now} {what} claim {one} ttl {ttl} keep {keep}: {outcome} {} {}",
            field(0),
            field(1)
        ));
        let held = claims[one].lease > now;
        let others = (0..5).any(|other| {
            let same = reenters && other % 2 == one % 2;
            other != one && !same && claims[other].lease > now
        });
        let alive = claims.iter().any(|claim| claim.lease > now);
        match &*outcome {
            "GRANTED" => {
                ensure!(!others, "beside another");
                ensure!(!revoked, "revoked and granted");
                ensure!(alive || kept <= now, "in a kept name");
                ensure!(claims[one].mark.is_none(), "after it left");
                let token = number(0);
                ensure!(
                    token > last || alive && token == last,
                    "tokens {last}, {token}"
                );
                last = token;
                claims[one].token = token;
                claims[one].lease = claims[one].lease.max(now + ttl);
            }
            "RENEWED" => {
                ensure!(held && !revoked, "renewed what does not hold");
                claims[one].lease = claims[one].lease.max(now + ttl);
            }
            "REVOKED" => ensure!(held && revoked, "revoked by nobody"),
            "BUSY" => ensure!(
                others || held || revoked || kept > now,
                "busy without anybody"
            ),
            "RELEASED" if what == 8 => {
                ensure!(held || kept > now, "freed from nobody");
                for claim in &mut claims {
                    claim.lease = 0;
                }
                kept = 0;
            }
            "RELEASED" | "COOLDOWN" | "NOT_HELD" if what != 8 => {
                if held {
                    ensure!(outcome != "NOT_HELD", "it held");
                    kept = kept.max(now + keep);
                    claims[one].lease = 0;
                }
                if outcome == "RELEASED" && !held && field(1) == 0 {
                    // A repetition by a holder whose minimum hold time has passed by its own count.
                    ensure!(keep == 0 || kept <= now, "freed too soon");
                    kept = 0;
                }
                claims[one].mark = Some(now + 1000);
                let rest = claims.iter().any(|claim| claim.lease > now);
                if outcome == "COOLDOWN" {
                    ensure!(!rest && number(1) == kept - now, "kept for {kept}");
                }
                if outcome == "RELEASED" && held && !rest {
                    ensure!(kept <= now, "not kept until {kept}");
                }
            }
            "TOLD" => {
                ensure!(alive);
                revoked = true;
            }
            "FREE" => ensure!(!alive, "somebody holds"),
            _ => {}
        }
        let end = claims.iter().map(|claim| claim.lease).chain([kept]).max();
        let end = end.filter(|end| *end > now).map_or(0, |end| end - now);
        let left: i64 = server.command(&["PTTL", MAIN]).await?.parse()?;
        ensure!(left != -1, "without end");
        ensure!(
            end == 0 || left >= i64::try_from(end)?,
            "{left} ms for {end}"
        );
    }
    Ok(())
}
