//! Thousands of holders or waiters: no run does more than a bounded part of the work.

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;

use super::*;

vectors! { [inflated] [rwlock] {
    ten_thousand_dead_holders_are_taken_out_in_portions_by_newcomers
    ten_thousand_dead_holders_are_taken_out_in_portions_by_a_waiter
}}

const CROWD: usize = 10_000;
/// How many dead holders one run removes.
const PORTION: usize = 64;
const ALIVE: &str = "9000000000000:100000:7";

/// These hold the name together until `end`.
async fn hold_together(it: &Lock, holders: &[Claim<'_>], end: &str) -> Result<()> {
    let (number, share) = (holders.len(), holders[0].share);
    let (counts, owner) = match share {
        "x" => (format!("{number} {number} 0"), "somebody"),
        _ => (format!("0 0 {number}"), "-"),
    };
    let value = format!("{} * {counts} 17 -e {owner}", it.kind);
    it.command(&["DEL", &it.main()]).await?;
    it.command(&["RPUSH", &it.main(), &value]).await?;
    for claims in holders.chunks(500) {
        let (holders, state) = (it.holders(), it.state());
        let words = claims.iter().map(|claim| {
            let (owner, _) = claim.id.split_once('/').unwrap_or_default();
            (format!("{share}:{}", claim.id), format!("o:{owner}"))
        });
        let words: Vec<_> = words.collect();
        let (mut members, mut counted) = (vec!["ZADD", &holders], vec!["HSET", &state]);
        for (member, owner) in &words {
            members.extend([end, member]);
            counted.extend([&**owner, "1 17"]);
        }
        it.command(&members).await?;
        if share != "x" {
            it.command(&counted).await?;
        }
    }
    for key in it.all() {
        it.command(&["PEXPIRE", &key, "1200000"]).await?;
    }
    Ok(())
}

/// This many hold and are counted.
async fn are_counted(it: &Lock, share: &str, number: usize) -> Result<()> {
    ensure!(it.cardinality(&it.holders()).await? == number);
    let (counts, owners) = match share {
        "x" => (format!("{number} {number} 0"), 0),
        _ => (format!("0 0 {number}"), number),
    };
    ensure!(it.counts().await? == counts, "{}", it.value().await?);
    const OWNERS: &str = "local owners = 0
for _, word in ipairs(redis.call('HGETALL', KEYS[1])) do
  if string.find(word, '^o:') then owners = owners + 1 end
end
return owners";
    let counted = it.command(&["EVAL", OWNERS, "1", &it.state()]).await?;
    ensure!(counted == owners.to_string(), "{counted}");
    Ok(())
}

async fn ten_thousand_dead_holders_are_taken_out_in_portions_by_newcomers(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let crowd = crowd(CROWD);
        let dead: Vec<_> = crowd.iter().map(|id| of(id)).collect();
        hold_together(it, &dead, "1").await?;
        for run in 1..=CROWD / PORTION {
            ensure!(it.acquire(of(B)).await? == "MORE");
            are_counted(it, of(B).share, CROWD - run * PORTION).await?;
        }
        token(&it.acquire(of(B)).await?)?;
        // Nothing remains of the former holders.
        ensure!(it.keys().await? == [it.main()]);
        ensure!(it.release(of(B)).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

async fn ten_thousand_dead_holders_are_taken_out_in_portions_by_a_waiter(it: &Lock) -> Result<()> {
    for of in it.shares() {
        let crowd = crowd(CROWD);
        let dead: Vec<_> = crowd.iter().map(|id| of(id)).collect();
        hold_together(it, &dead, "1").await?;
        it.line([of(B)], ALIVE).await?;
        for run in 1..=CROWD / PORTION {
            match run % 2 {
                0 => ensure!(it.heartbeat(&[of(B)]).await? == ["MORE"]),
                _ => ensure!(it.release(of(C)).await? == "MORE"),
            }
            are_counted(it, of(B).share, CROWD - run * PORTION).await?;
        }
        token(&it.heartbeat(&[of(B)]).await?[0])?;
        are_counted(it, of(B).share, 1).await?;
        ensure!(it.release(of(B)).await? == "RELEASED 1 0");
        ensure!(it.keys().await?.is_empty());
    }
    Ok(())
}

mod of_one_owner {
    use super::*;

    vectors! { [inflated] [rwlock] {
        an_owner_is_not_refused_for_claims_that_have_died
    }}

    async fn an_owner_is_not_refused_for_claims_that_have_died(it: &Lock) -> Result<()> {
        let dead: Vec<_> = (1..=2 * PORTION)
            .map(|n| format!("{CLIENT}:1/d{n:015x}"))
            .collect();
        for converts in [false, true] {
            it.hold_with(reader(A), if converts { LONG } else { USUAL })
                .await?;
            for id in &dead {
                token(&it.ask(reader(id), USUAL).await?)?;
            }
            let ask = async || match converts {
                true => it.convert(A2, reader(A), "0").await,
                false => it.acquire(A2).await,
            };
            it.pass(60_001).await?;
            // A conversion is done once none of the dead is counted.
            for more in [true, !converts, false] {
                let reply = ask().await?;
                ensure!((reply == "MORE") == more, "{reply}");
            }
            ensure!(it.left(A2).await? > 0);
            ensure!(it.release(A2).await? == "RELEASED 1 0");
            ensure!(it.keys().await?.is_empty());
        }
        Ok(())
    }
}

/// The commands that a server executes, from its MONITOR output.
struct Monitor(Lines<BufReader<TcpStream>>);

impl Monitor {
    async fn on(server: &Server) -> Result<Self> {
        let mut stream = TcpStream::connect(server.address()).await?;
        stream.write_all(b"MONITOR\r\n").await?;
        let mut lines = BufReader::new(stream).lines();
        ensure!(lines.next_line().await?.as_deref() == Some("+OK"));
        Ok(Self(lines))
    }

    /// The commands that scripts have run since the last call.
    async fn called(&mut self, it: &Lock) -> Result<Vec<Vec<String>>> {
        it.command(&["ECHO", "end"]).await?;
        let mut called = Vec::new();
        loop {
            let line = self.0.next_line().await?.context("the server ended")?;
            if line.ends_with("\"ECHO\" \"end\"") {
                return Ok(called);
            }
            if let Some((_, command)) = line.split_once(" lua] ") {
                let words = command.trim_matches('"').split("\" \"");
                called.push(words.map(str::to_owned).collect());
            }
        }
    }
}

/// Whether a command examines a bounded number of members, whatever the size of the key.
fn is_bounded(command: &[String]) -> bool {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    words.len() <= 8
        && match words[..] {
            ["ZRANGE", _, first, last, ..] => first == last,
            ["ZRANGEBYSCORE", .., "LIMIT", "0", number] => number == PORTION.to_string(),
            ["ZRANGEBYSCORE" | "HGETALL" | "HKEYS" | "HVALS", ..] => false,
            _ => true,
        }
}

#[tokio::test]
async fn what_one_of_many_readers_and_waiters_does_touches_a_bounded_number_of_members()
-> Result<()> {
    let server = Server::start().await?;
    let mut monitor = Monitor::on(&server).await?;
    let it = &Lock::on(server, "rwlock", "inflated").await?;
    let all = crowd(2 * CROWD);
    let (holders, waiters) = all.split_at(CROWD);
    let readers: Vec<_> = holders.iter().map(|id| reader(id)).collect();
    hold_together(it, &readers, "9000000000000").await?;
    it.line(waiters.iter().map(|id| writer(id)), ALIVE).await?;
    let (holder, other) = (readers[CROWD / 2], readers[CROWD / 3]);
    let nested = format!("{}a", holder.id);
    let (waiter, last) = (&*waiters[CROWD / 2], &*waiters[CROWD - 1]);
    monitor.called(it).await?;

    macro_rules! bounded {
        ($($reply:expr => $expected:expr;)*) => {
            $(
                let reply = $reply.await?;
                ensure!(reply == $expected, "{reply:?}");
                let called = monitor.called(it).await?;
                ensure!((1..=30).contains(&called.len()), "{called:?}");
                ensure!(called.iter().all(|command| is_bounded(command)), "{called:?}");
            )*
        };
    }
    bounded! {
        it.acquire(holder) => "GRANTED 17";
        it.acquire(reader(&nested)) => "GRANTED 17";
        it.heartbeat(&[holder]) => ["GRANTED 17"];
        it.renew(holder, "60000") => "DONE RENEWED";
        it.heartbeat(&[waiter]) => [format!("WAITING {}", CROWD / 2 + 1)];
        it.place(last) => format!("QUEUED {CROWD} {CROWD}");
        it.release(waiter) => "RELEASED 1 0";
        it.heartbeat(&[last]) => [format!("WAITING {}", CROWD - 1)];
        it.release(other) => "RELEASED 1 0";
        it.release(holder) => "RELEASED 1 1";
    }
    let (waits, refused) = (
        async || waiting(&it.acquire(A).await?),
        async || {
            let reply = it.ask(B, TRY).await?;
            anyhow::Ok(number(&reply, "BUSY", 1)? > HOUR)
        },
    );
    bounded! {
        waits() => i64::try_from(CROWD)?;
        refused() => true;
    }
    Ok(())
}
