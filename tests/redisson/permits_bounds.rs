//! Numbers of permits that no claim can have, very many claims, and requests for more than there is: none keeps the server or
//! other waiters busy.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::redisson::{RedissonPermitExpirableSemaphore, RedissonSemaphore};
use lockkeeper::{Holder, Lock as _};
use lockkeeper_lua::redisson;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::site::Site;

use crate::permits_keys::{ENDS, OURS, TIMEOUT, members};
use crate::support::{TTL, client, faulty};

/// The server would be busy for half a minute with a million permits that nobody has.
#[tokio::test(start_paused = true)]
async fn a_number_of_permits_that_no_claim_can_have_is_none_of_ours() -> Result<()> {
    for (leased, absurd) in [
        (true, "999999 5"),
        (true, "1001 5"),
        (false, "99999999999 5"),
    ] {
        let site = MemoryStore::new();
        let client = client(&site).await?;
        let plain = RedissonSemaphore::new(&client, "calls");
        let ends = RedissonPermitExpirableSemaphore::new(&client, "calls");
        plain.try_set_permits(2).await?;
        let guards = match leased {
            false => (Some(plain.acquire().await?), None),
            true => (None, Some(ends.acquire().await?)),
        };
        let shown = async || match leased {
            false => plain.inspect().await,
            true => ends.inspect().await,
        };
        let claim = shown().await?[0].holders[0].claim.clone();
        site.command(&["HSET", OURS, &claim, absurd]).await?;
        let is_its = |it: &Holder| it.claim == claim;
        ensure!(!shown().await?[0].holders.iter().any(is_its));
        match guards {
            (Some(guard), _) => ensure!(guard.verify().await.is_err()),
            (_, Some(guard)) => ensure!(guard.verify().await.is_err()),
            _ => {}
        }
        // What others hold is as before.
        tokio::time::sleep(TTL * 2).await;
        let available = match leased {
            false => plain.available().await?,
            true => ends.available().await?,
        };
        ensure!(
            available == Some(if leased { 2 } else { 1 }),
            "{available:?}"
        );
    }
    Ok(())
}

/// A run may look at 512 permits.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_a_deleted_semaphore_goes_in_pieces() -> Result<()> {
    const MANY: &str = "for i = 1, 5000 do
          local claim, permit = 'claim ' .. i, string.format('%016d', i)
          redis.call('HSET', KEYS[1], claim, '1 5', permit, claim)
          redis.call('ZADD', KEYS[2], 9000000000000, ARGV[1] == '1' and permit or claim)
        end
        return 'done'";
    for leased in [false, true] {
        let site = MemoryStore::new();
        let (client, store) = faulty(&site)?;
        let (flag, ends) = if leased { ("1", TIMEOUT) } else { ("0", ENDS) };
        site.command(&["EVAL", MANY, "2", OURS, ends, flag]).await?;
        site.command(&["ZADD", TIMEOUT, "9000000000000", "0123456789abcdef"])
            .await?;
        let plain = RedissonSemaphore::new(&client, "calls");
        let ends = RedissonPermitExpirableSemaphore::new(&client, "calls");
        ensure!(match leased {
            false => plain.try_acquire().await?.is_none(),
            true => ends.try_acquire().await?.is_none(),
        });
        let runs = store.sent(&redisson::PERMITS_ACQUIRE);
        ensure!(if leased { runs > 9 } else { runs < 4 }, "{runs} runs");
        ensure!(members(&site, TIMEOUT).await? == "1", "Java's is there");
        ensure!(site.command(&["EXISTS", OURS, ENDS]).await? == "0");

        // Whoever sets the number anew does that first, too.
        site.command(&["EVAL", MANY, "2", OURS, TIMEOUT, "1"])
            .await?;
        ensure!(ends.try_set_permits(3).await? && ends.available().await? == Some(3));
        ensure!(members(&site, TIMEOUT).await? == "1");
    }
    Ok(())
}

/// Permits of Redisson's are passed over: only so many are looked at.
#[tokio::test(start_paused = true)]
async fn very_many_permits_of_redisson_keep_no_request_busy() -> Result<()> {
    const MANY: &str = "for i = 1, 600 do
          redis.call('ZADD', KEYS[1], 9000000000000, string.format('%016d', i))
        end
        return redis.call('HSET', KEYS[2], 'claim', '1 5')";
    let site = MemoryStore::new();
    let client = client(&site).await?;
    site.command(&["EVAL", MANY, "2", TIMEOUT, OURS]).await?;
    let calls = RedissonPermitExpirableSemaphore::new(&client, "calls");
    ensure!(calls.try_acquire().await?.is_none());
    ensure!(members(&site, TIMEOUT).await? == "600");
    ensure!(site.command(&["EXISTS", OURS]).await? == "0");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_more_permits_than_there_are_keeps_nobody_waiting() -> Result<()> {
    for leased in [false, true] {
        let site = MemoryStore::new();
        let client = client(&site).await?;
        let plain = RedissonSemaphore::new(&client, "calls");
        let ends = RedissonPermitExpirableSemaphore::new(&client, "calls");
        plain.try_set_permits(3).await?;
        let wait = |permits: u32| {
            let (plain, ends) = (plain.permits(permits), ends.permits(permits));
            tokio::spawn(async move {
                let guards = match leased {
                    false => (Some(plain.acquire().await?), None),
                    true => (None, Some(ends.acquire().await?)),
                };
                anyhow::Ok(guards)
            })
        };
        let too_many = wait(5);
        while site.listeners("redisson_sc:{calls}").await? == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let began = tokio::time::Instant::now();
        let all = wait(3).await??;
        // One that fits keeps its place: a smaller one does not pass it.
        let (two, one) = (wait(2), wait(1));
        tokio::time::sleep(TTL).await;
        ensure!(!two.is_finished() && !one.is_finished());
        let waited = began.elapsed();
        ensure!(waited < TTL + Duration::from_secs(1), "{waited:?}");
        let began = tokio::time::Instant::now();
        drop(all);
        let both = (two.await??, one.await??);
        let waited = began.elapsed();
        ensure!(waited < Duration::from_secs(1), "{waited:?}");
        ensure!(!too_many.is_finished());

        // More are set, and it gets them.
        drop(both);
        site.command(&["INCRBY", "calls", "2"]).await?;
        drop(tokio::time::timeout(TTL, too_many).await???);
    }
    Ok(())
}
