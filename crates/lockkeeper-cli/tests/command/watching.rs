//! `watch`: it prints every change, and continues when the server goes down and comes back.

use anyhow::{Result, ensure};
use lockkeeper::{Mutex, RwLock, Semaphore};
use lockkeeper_testkit::server::Server;

use crate::printed::assert_printed;
use crate::support::{LIMIT, Run, db7};

fn watch(server: &Server) -> Result<Run> {
    Run::command(server, &["watch", "name", "--interval", "20ms"])
}

#[tokio::test]
async fn watch_tells_what_changes() -> Result<()> {
    let server = Server::start().await?;
    let client = db7(&server).await?;
    let mut watch = watch(&server)?;
    assert_printed!(watch.line().await?, @"<time>  free");
    let guard = Mutex::new(&client, "name").acquire().await?;
    assert_printed!(watch.line().await?, @"<time>  held by db7:99, token <token>");
    ensure!(client.revoke("name").await? == 1);
    assert_printed!(watch.line().await?, @"<time>  revoked by db7:99, token <token>");
    guard.ended().await;
    drop(guard);
    while !watch.line().await?.ends_with("  free") {}
    let lock = RwLock::new(&client, "name");
    // The first lease is the longest.
    let read = lock.read().ttl(2 * LIMIT).await?;
    assert_printed!(watch.line().await?, @"<time>  held and shared by db7:99, token <token>");
    let _read_on = lock.read().await?;
    assert_printed!(watch.line().await?, @"<time>  held and shared by db7:99, held and shared by db7:99, token <token>");
    drop(read);
    assert_printed!(watch.line().await?, @"<time>  held and shared by db7:99, token <token>");
    Ok(())
}

#[tokio::test]
async fn watch_tells_permits_and_a_limit_that_changes() -> Result<()> {
    let server = Server::start().await?;
    let client = db7(&server).await?;
    let mut watch = watch(&server)?;
    assert_printed!(watch.line().await?, @"<time>  free");
    let jobs = Semaphore::new(&client, "name", 8);
    // The first lease is the longest.
    let _three = jobs.permits(3).acquire().ttl(2 * LIMIT).await?;
    assert_printed!(watch.line().await?, @"<time>  3 of 8 permits: held with 3 permits by db7:99, token <token>");
    let _one = jobs.acquire().await?;
    assert_printed!(watch.line().await?, @"<time>  4 of 8 permits: held with 3 permits by db7:99, held with 1 permit by db7:99, token -");
    ensure!(jobs.set_limit(12).await?);
    assert_printed!(watch.line().await?, @"<time>  4 of 12 permits: held with 3 permits by db7:99, held with 1 permit by db7:99, token -");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_for_a_while_is_told_of_once_and_watched_again() -> Result<()> {
    let server = Server::start().await?;
    let client = db7(&server).await?;
    let words = ["watch", "name", "--interval", "20ms", "--json"];
    let mut watch = Run::command(&server, &words)?;
    assert_printed!(watch.line().await?, @r#"{"at":"<time>","name":"name","kind":null,"fence":null,"since":null,"holders":[],"limit":null,"waiters":0,"queue":[]}"#);
    server.freeze()?;
    let complaint = watch.complaint().await?;
    ensure!(complaint.contains("\"name\": no answer"), "{complaint}");
    server.thaw()?;
    // After an outage, the present state is printed again, even if it has not changed.
    assert_printed!(watch.line().await?, @r#"{"at":"<time>","name":"name","kind":null,"fence":null,"since":null,"holders":[],"limit":null,"waiters":0,"queue":[]}"#);
    let _guard = Mutex::new(&client, "name").acquire().await?;
    assert_printed!(watch.line().await?, @r#"{"at":"<time>","name":"name","kind":"mutex","fence":<token>,"since":"<time>","holders":[{"claim":"<client>:2/<claim>","owner":"<client>:2","host":"db7","pid":99,"label":"db7:99","note":null,"left_ms":<ms>,"state":"held","shared":false,"permits":null}],"limit":null,"waiters":0,"queue":[]}"#);
    Ok(())
}
