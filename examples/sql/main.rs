//! The fencing token in a database: a column beside the data, and one more condition in the `WHERE` of every write. A holder that
//! wakes up too late changes no row.
//!
//! Read this when the data that the lock protects is in SQL. The database is SQLite in memory, with sqlx; with Postgres the
//! parameters are written `$1`, and nothing else changes. `cargo run --package lockkeeper-examples-sql --example sql_fencing` needs no server; add
//! `-- --url redis://127.0.0.1:6379` for one.

use std::time::Duration;

use anyhow::ensure;
use lockkeeper::{FencingToken, Mutex};
use lockkeeper_examples::{Place, Story};
use sqlx::SqlitePool;
use sqlx::sqlite::SqlitePoolOptions;
use tokio::time::sleep;

const TABLE: &str = "
    CREATE TABLE account (
        id    INTEGER PRIMARY KEY,
        cents INTEGER NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0 -- the token of the last write
    )";

/// `<=`: one holder may write several times.
const WRITE: &str = "UPDATE account SET cents = ?1, fence = ?2 WHERE id = ?3 AND fence <= ?2";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::open("sql_fencing").await?;
    let story = Story::new();
    // One connection, because each would have its own database in memory.
    let pool = SqlitePoolOptions::new().max_connections(1);
    let database = pool.connect("sqlite::memory:").await?;
    sqlx::query(TABLE).execute(&database).await?;
    let insert = sqlx::query("INSERT INTO account (id, cents) VALUES (7, 100)");
    insert.execute(&database).await?;
    let lock = Mutex::new(&place.client, "account:7");

    story.chapter("Ann reads the balance, and falls asleep before she writes");
    let ttl = Duration::from_secs(2);
    let ann = lock.acquire().ttl(ttl).no_renewal().await?;
    let seen = balance(&database, 7).await?;
    ann.ensure_held()?;
    let old = ann.fencing_token();
    story.tell("ann", format!("sees {seen} cents, with token {old}"));
    sleep(ttl).await;

    story.chapter("Her lease has ended, and Bob takes 30 and 20 cents");
    let bob = lock.acquire().wait_for(Duration::from_secs(60)).await?;
    let new = bob.fencing_token();
    for cents in [30, 20] {
        let left = balance(&database, 7).await? - cents;
        ensure!(write(&database, 7, left, new).await?, "bob was refused");
        story.tell("bob", format!("leaves {left} cents, with token {new}"));
    }
    bob.release().await?;

    story.chapter("Ann wakes up, and writes what she has worked out from a balance of long ago");
    let written = write(&database, 7, seen + 5, old).await?;
    ensure!(!written, "a late write was taken");
    let left = balance(&database, 7).await?;
    story.tell("ann", format!("changes no row: there are {left} cents"));
    ensure!(left == 50);
    drop(ann);
    database.close().await;
    place.close().await
}

async fn balance(database: &SqlitePool, account: i64) -> sqlx::Result<i64> {
    let query = sqlx::query_scalar("SELECT cents FROM account WHERE id = ?1");
    query.bind(account).fetch_one(database).await
}

/// Returns whether it was written: not if a later holder has written, nor if there is no such account.
async fn write(
    database: &SqlitePool,
    account: i64,
    cents: i64,
    token: FencingToken,
) -> sqlx::Result<bool> {
    let write = sqlx::query(WRITE).bind(cents).bind(i64::from(token));
    let written = write.bind(account).execute(database).await?;
    Ok(written.rows_affected() == 1)
}
