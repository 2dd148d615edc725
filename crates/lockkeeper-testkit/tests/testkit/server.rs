//! The server as a test would use it.

mod port;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lockkeeper_testkit::server::{Reply, Server};
use lockkeeper_testkit::until::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Where the server keeps its files.
fn directory(server: &Server) -> PathBuf {
    let socket = server.socket();
    socket.parent().map(Path::to_owned).unwrap_or_default()
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn answers_commands_and_counts_them() -> Result<()> {
    let server = Server::start().await?;
    server.command(&["SET", "a", "1"]).await?;
    assert_eq!(server.command(&["GET", "a"]).await?.into_integer()?, 1);
    assert_eq!(server.command(&["GET", "b"]).await?, Reply::Nil);
    assert_eq!(server.commandstats("GET").await?, 2);
    assert_eq!(server.commandstats("evalsha").await?, 0);
    let keys = server.command(&["KEYS", "*"]).await?.into_texts()?;
    assert_eq!(keys, ["a"]);
    assert!(server.command(&["NONSENSE"]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn answers_from_the_database_asked_for() -> Result<()> {
    let server = Server::start().await?;
    server.command_in(3, &["SET", "a", "1"]).await?;
    assert_eq!(server.command(&["GET", "a"]).await?, Reply::Nil);
    let found = server.command_in(3, &["GET", "a"]).await?;
    assert_eq!(found.into_integer()?, 1);
    assert!(server.command_in(200, &["PING"]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn asks_for_the_password_and_takes_lines_of_configuration() -> Result<()> {
    let server = Server::options()
        .password("secret")
        .configuration("user alice on >word ~app:* +get")
        .start()
        .await?;
    assert_eq!(
        server.url(),
        format!("redis://:secret@127.0.0.1:{}", server.port())
    );
    let users = server.command(&["ACL", "USERS"]).await?.into_texts()?;
    assert_eq!(users, ["alice", "default"]);
    let mut stranger = UnixStream::connect(server.socket()).await?;
    stranger.write_all(b"PING\r\n").await?;
    let mut reply = [0; 7];
    timeout(PATIENCE, stranger.read_exact(&mut reply)).await??;
    assert_eq!(&reply, b"-NOAUTH");
    Ok(())
}

#[tokio::test]
async fn a_mistake_in_the_configuration_is_reported_with_the_log() {
    let error = Server::options()
        .configuration("user nobody on nonsense")
        .start()
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("ended at once"), "{error:#}");
}

#[tokio::test]
async fn a_killed_server_is_gone_and_comes_back_empty_on_the_same_port() -> Result<()> {
    let mut server = Server::start().await?;
    server.command(&["SET", "a", "1"]).await?;
    let (pid, port) = (server.pid().unwrap(), server.port());
    server.kill()?;
    assert!(!exists(pid));
    assert!(TcpStream::connect(server.address()).await.is_err());
    server.restart().await?;
    assert_eq!(server.port(), port);
    assert_eq!(server.command(&["DBSIZE"]).await?, Reply::Integer(0));
    Ok(())
}

#[tokio::test]
async fn stop_ends_even_a_frozen_server() -> Result<()> {
    let mut server = Server::start().await?;
    let pid = server.pid().unwrap();
    server.freeze()?;
    server.stop().await?;
    assert!(!exists(pid));
    Ok(())
}

#[tokio::test]
async fn a_frozen_server_answers_once_it_is_thawed() -> Result<()> {
    let server = Server::start().await?;
    let mut stream = TcpStream::connect(server.address()).await?;
    for _ in 0..20 {
        server.freeze()?;
        stream.write_all(b"PING\r\n").await?;
        let mut reply = [0; 7];
        let early = timeout(Duration::from_millis(5), stream.read_exact(&mut reply)).await;
        assert!(early.is_err(), "a frozen server answered");
        server.thaw()?;
        stream.read_exact(&mut reply).await?;
        assert_eq!(&reply, b"+PONG\r\n");
    }
    Ok(())
}

#[tokio::test]
async fn dropping_kills_the_server_and_removes_its_directory() -> Result<()> {
    let server = Server::start().await?;
    let (pid, directory) = (server.pid().unwrap(), directory(&server));
    drop(server);
    assert!(!exists(pid));
    assert!(!directory.exists());
    Ok(())
}

/// The process that [`a_killed_test_leaves_no_server`] kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn start_a_server_and_wait() -> Result<()> {
    let server = Server::start().await?;
    server.freeze()?;
    println!("server {}", server.pid().unwrap());
    std::future::pending().await
}

#[test]
fn a_killed_test_leaves_no_server() -> Result<()> {
    use std::io::{BufRead, BufReader};

    let mut test = Command::new(std::env::current_exe()?)
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("server::start_a_server_and_wait")
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(test.stdout.take().unwrap());
    let pid = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server ")?.1.parse::<u32>().ok())
        .context("the test started no server")?;
    assert!(exists(pid));
    test.kill()?;
    assert_eq!(test.wait()?.signal(), Some(9));
    // This process is not notified when a grandchild ends. Without an init that reaps orphans, the grandchild stays a zombie.
    let deadline = Instant::now() + PATIENCE;
    let status = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    while exists(pid) && !status().contains(") Z ") {
        assert!(Instant::now() < deadline, "the server is still there");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

#[tokio::test]
async fn kept_server_outlives_its_value_and_is_adopted() -> Result<()> {
    let started = Server::options().kept().start().await?;
    started.command(&["SET", "a", "1"]).await?;
    let (directory, port) = (directory(&started), started.port());
    let pid = started.pid().context("it does not run")?;
    drop(started);
    let adopted = Server::take_up(pid, port, directory.clone())?;
    let value = adopted.command(&["GET", "a"]).await?.into_text()?;
    let ended = adopted.command(&["SHUTDOWN", "NOSAVE"]).await;
    std::fs::remove_dir_all(directory)?;
    assert_eq!(value, "1");
    assert!(ended.is_err(), "{ended:?}");
    Ok(())
}
