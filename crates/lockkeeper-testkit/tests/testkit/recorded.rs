//! What records excuse, and what they do not.

mod strict;

use std::sync::Arc;

use anyhow::Result;
use lockkeeper::RwLock;
use lockkeeper_memory::MemoryStore;
use lockkeeper_testkit::history::{ValidSpan, now};
use lockkeeper_testkit::recorded::{Records, settings};

const NAME: &str = "mutex 0";

fn span(from: u64, until: u64, token: u64) -> ValidSpan {
    ValidSpan {
        from,
        until,
        token,
        shared: false,
        holder: "somebody".to_owned(),
    }
}

fn records(spans: &[(u64, u64, u64)]) -> Records {
    let records = Records::new([NAME.to_owned()]);
    for &(from, until, token) in spans {
        records.record(NAME, span(from, until, token)).unwrap();
    }
    records
}

fn lose(records: &Records) {
    records.may_lose(vec![NAME.to_owned()]);
    records.lost_nothing_more();
}

/// Spans around a loss: a negative time is that long before it, any other one that long after it.
fn around_a_loss(spans: &[(i64, i64, u64)]) -> Records {
    let records = records(&[]);
    let before = now();
    lose(&records);
    let after = now();
    let at = |time: i64| match time {
        ..0 => before - time.unsigned_abs(),
        _ => after + time.unsigned_abs(),
    };
    for &(from, until, token) in spans {
        records
            .record(NAME, span(at(from), at(until), token))
            .unwrap();
    }
    records
}

#[test]
fn an_overlap_is_excused_by_a_loss_between_the_two_grants_and_by_no_other() {
    records(&[(10, 40, 1), (30, 50, 2)]).check().unwrap_err();
    let excused = around_a_loss(&[(-10, 20, 1), (10, 30, 2)]);
    assert_eq!(excused.check().unwrap(), 2);
    let told = excused.to_string();
    assert!(told.contains(", 1 overlaps after a failover"), "{told}");
    let later = around_a_loss(&[(-20, 20, 1), (-10, 30, 2)]);
    later.check().unwrap_err();
    let earlier = around_a_loss(&[(10, 40, 1), (30, 50, 2)]);
    earlier.check().unwrap_err();
    let reversed = around_a_loss(&[(-10, 20, 2), (10, 30, 1)]);
    reversed.check().unwrap_err();
}

/// A client of these records reads a lock. Returns the token.
async fn hear(records: &Records) -> Result<u64> {
    let client = records.client_over(Arc::new(MemoryStore::new()), settings())?;
    let guard = RwLock::new(&client, NAME).read().await?;
    let token = guard.fencing_token().get();
    guard.release().await?;
    Ok(token)
}

/// Checks a reader that has an older token than a holder before it. In between, the server may lose its keys.
fn check_reader(records: &Records, token: u64, loses: bool) -> Result<usize> {
    let from = now();
    records.record(NAME, span(from, from + 1, token + 1))?;
    if loses {
        lose(records);
    }
    let from = now() + 1;
    let read = ValidSpan {
        shared: true,
        ..span(from, from + 1, token)
    };
    records.record(NAME, read)?;
    records.check()
}

#[tokio::test]
async fn a_reader_is_excused_for_an_old_token_that_somebody_had_before() -> Result<()> {
    let excused = records(&[]);
    let token = hear(&excused).await?;
    assert_eq!(check_reader(&excused, token, true)?, 2);
    check_reader(&records(&[]), token, true).unwrap_err();
    let lossless = records(&[]);
    let token = hear(&lossless).await?;
    check_reader(&lossless, token, false).unwrap_err();
    Ok(())
}

#[test]
fn a_lock_that_was_hardly_held_proves_nothing() {
    records(&[(1, 2, 1)]).at_least(2).check().unwrap_err();
    records(&[(1, 2, 1)]).at_least(1).check().unwrap();
}
