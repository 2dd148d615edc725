//! Each fault against an echo server.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper_testkit::proxy::Direction::{ToClient, ToServer};
use lockkeeper_testkit::proxy::{Proxy, Seen};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::{PATIENCE, beyond_stalls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

/// An echo server that ends with the test's runtime, and a proxy in front of it.
async fn echo() -> Result<Proxy> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    Proxy::start(address).await
}

async fn connect(proxy: &Proxy) -> Result<TcpStream> {
    Ok(TcpStream::connect(proxy.address()).await?)
}

async fn receive(stream: &mut TcpStream, text: &str) -> Result<()> {
    let mut buffer = vec![0; text.len()];
    timeout(PATIENCE, stream.read_exact(&mut buffer)).await??;
    assert_eq!(String::from_utf8(buffer)?, text);
    Ok(())
}

async fn exchange(stream: &mut TcpStream, text: &str) -> Result<()> {
    stream.write_all(text.as_bytes()).await?;
    receive(stream, text).await
}

/// Reads until the connection ends.
async fn rest(stream: &mut TcpStream) -> Result<String> {
    let mut rest = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut rest)).await??;
    Ok(rest)
}

async fn eventually(proxy: &Proxy, condition: impl FnMut(&Seen) -> bool) -> Result<Seen> {
    Ok(timeout(PATIENCE, proxy.seen(condition)).await?)
}

#[tokio::test]
async fn passes_and_counts_bytes_and_the_end() -> Result<()> {
    let proxy = echo().await?;
    let mut stream = connect(&proxy).await?;
    exchange(&mut stream, "hello").await?;
    stream.shutdown().await?;
    assert_eq!(rest(&mut stream).await?, "");
    let seen = eventually(&proxy, |seen| seen.open == 0).await?;
    assert_eq!((seen.accepted, seen.cut), (1, 0));
    assert_eq!((seen.received, seen.forwarded), ([5, 5], [5, 5]));
    Ok(())
}

#[tokio::test]
async fn a_delay_holds_up_each_byte_but_not_one_after_the_other() -> Result<()> {
    let witness = Server::start().await?;
    beyond_stalls(&witness, Duration::from_secs(1), async |delay| {
        let proxy = echo().await?;
        let mut stream = connect(&proxy).await?;
        exchange(&mut stream, "at once").await?;
        proxy.delay(ToClient, delay);
        let start = Instant::now();
        for n in 1..=20 {
            stream.write_all(b"x").await?;
            eventually(&proxy, |seen| seen.received[ToClient as usize] >= 7 + n).await?;
        }
        receive(&mut stream, &"x".repeat(20)).await?;
        let elapsed = start.elapsed();
        assert!(elapsed >= delay, "{elapsed:?}");
        ensure!(elapsed < 10 * delay, "{elapsed:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn held_bytes_arrive_in_order_after_the_release() -> Result<()> {
    for direction in [ToServer, ToClient] {
        let proxy = echo().await?;
        let mut stream = connect(&proxy).await?;
        exchange(&mut stream, "before").await?;
        proxy.hold(direction);
        for text in ["one ", "two ", "three"] {
            stream.write_all(text.as_bytes()).await?;
        }
        let seen = eventually(&proxy, |seen| seen.received[direction as usize] == 19).await?;
        assert_eq!(seen.forwarded[direction as usize], 6);
        proxy.release(direction);
        receive(&mut stream, "one two three").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_black_hole_swallows_bytes_on_connections_old_and_new() -> Result<()> {
    for direction in [ToServer, ToClient] {
        let proxy = echo().await?;
        let mut old = connect(&proxy).await?;
        exchange(&mut old, "before").await?;
        proxy.black_hole(direction);
        let mut new = connect(&proxy).await?;
        for stream in [&mut old, &mut new] {
            stream.write_all(b"lost").await?;
        }
        eventually(&proxy, |seen| seen.swallowed[direction as usize] == 8).await?;
        proxy.end_black_hole(direction);
        exchange(&mut old, "after").await?;
        exchange(&mut new, "after").await?;
    }
    Ok(())
}

#[tokio::test]
async fn in_a_black_hole_the_end_of_a_server_stays_unknown() -> Result<()> {
    let mut server = Server::start().await?;
    let proxy = Proxy::in_front_of(&server).await?;
    let mut stream = connect(&proxy).await?;
    stream.write_all(b"PING\r\n").await?;
    receive(&mut stream, "+PONG\r\n").await?;
    proxy.black_hole(ToClient);
    server.kill()?;
    for _ in 0..5 {
        stream.write_all(b"PING\r\n").await?;
        let silence = timeout(Duration::from_millis(10), stream.read_u8()).await;
        assert!(silence.is_err());
    }
    proxy.reset_all();
    assert!(stream.read_u8().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_connection_is_cut_once_after_so_many_bytes() -> Result<()> {
    for direction in [ToServer, ToClient] {
        let proxy = echo().await?;
        let mut stream = connect(&proxy).await?;
        exchange(&mut stream, "before").await?;
        proxy.cut_after(direction, 6);
        stream.write_all(b"one").await?;
        receive(&mut stream, "one").await?;
        stream.write_all(b"two three").await?;
        let arrived = rest(&mut stream).await.unwrap_or_default();
        assert!("two".starts_with(&arrived), "{arrived}");
        let seen = eventually(&proxy, |seen| seen.open == 0).await?;
        assert_eq!(seen.cut, 1);
        assert_eq!(seen.forwarded[direction as usize], 12);
        exchange(&mut connect(&proxy).await?, "one, two, three").await?;
    }
    Ok(())
}

#[tokio::test]
async fn after_zero_bytes_the_next_request_never_arrives() -> Result<()> {
    let proxy = echo().await?;
    let mut stream = connect(&proxy).await?;
    exchange(&mut stream, "before").await?;
    proxy.cut_after(ToServer, 0);
    stream.write_all(b"lost").await?;
    assert_eq!(rest(&mut stream).await?, "");
    assert_eq!(proxy.so_far().forwarded[ToServer as usize], 6);
    Ok(())
}

#[tokio::test]
async fn a_request_passes_and_its_reply_is_lost() -> Result<()> {
    let proxy = echo().await?;
    let mut stream = connect(&proxy).await?;
    exchange(&mut stream, "SET a").await?;
    proxy.lose_reply_to("SET");
    exchange(&mut stream, "GET a").await?;
    stream.write_all(b"SE").await?;
    receive(&mut stream, "SE").await?;
    stream.write_all(b"T b").await?;
    assert_eq!(rest(&mut stream).await?, "");
    let seen = proxy.so_far();
    assert_eq!((seen.received, seen.forwarded), ([15, 15], [15, 12]));
    exchange(&mut connect(&proxy).await?, "SET c").await?;
    Ok(())
}

#[tokio::test]
async fn a_server_has_executed_the_command_whose_reply_is_lost() -> Result<()> {
    let server = Server::options().password("secret").start().await?;
    let proxy = Proxy::in_front_of(&server).await?;
    assert_eq!(proxy.url(), format!("redis://:secret@{}", proxy.address()));
    let mut stream = connect(&proxy).await?;
    stream.write_all(b"AUTH secret\r\n").await?;
    receive(&mut stream, "+OK\r\n").await?;
    proxy.lose_reply_to("INCR");
    stream.write_all(b"INCR a\r\n").await?;
    assert_eq!(rest(&mut stream).await?, "");
    assert_eq!(server.command(&["GET", "a"]).await?.into_integer()?, 1);
    Ok(())
}

#[tokio::test]
async fn a_cut_lets_the_server_execute_what_was_sent() -> Result<()> {
    let server = Server::start().await?;
    let proxy = Proxy::in_front_of(&server).await?;
    let mut stream = connect(&proxy).await?;
    server.command(&["SET", "a", "0"]).await?;
    server.freeze()?;
    stream.write_all(&b"INCR a\r\n".repeat(20_000)).await?;
    eventually(&proxy, |seen| seen.forwarded[ToServer as usize] == 160_000).await?;
    proxy.cut_all();
    assert_eq!(rest(&mut stream).await?, "");
    server.thaw()?;
    let all_executed = async {
        while server.command(&["GET", "a"]).await?.into_text()? != "20000" {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    timeout(PATIENCE, all_executed).await?
}

#[tokio::test]
async fn a_reset_comes_to_every_connection() -> Result<()> {
    let proxy = echo().await?;
    let mut streams = [connect(&proxy).await?, connect(&proxy).await?];
    for stream in &mut streams {
        exchange(stream, "before").await?;
    }
    proxy.reset_all();
    for stream in &mut streams {
        let error = stream.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    exchange(&mut connect(&proxy).await?, "after").await
}

#[tokio::test]
async fn refuses_new_connections_and_keeps_the_old() -> Result<()> {
    let proxy = echo().await?;
    let mut old = connect(&proxy).await?;
    exchange(&mut old, "before").await?;
    proxy.refuse(true);
    // The kernel accepts before the proxy turns the connection away, so it fails here or with the first byte.
    if let Ok(mut new) = connect(&proxy).await {
        assert!(new.read_u8().await.is_err());
    }
    exchange(&mut old, "still there").await?;
    proxy.refuse(false);
    exchange(&mut connect(&proxy).await?, "after").await
}

#[tokio::test]
async fn clear_takes_back_every_fault() -> Result<()> {
    let proxy = echo().await?;
    let mut stream = connect(&proxy).await?;
    for direction in [ToServer, ToClient] {
        proxy.hold(direction);
        proxy.black_hole(direction);
        proxy.cut_after(direction, 0);
        proxy.delay(direction, Duration::from_secs(3600));
    }
    proxy.lose_reply_to("");
    proxy.refuse(true);
    proxy.clear();
    exchange(&mut stream, "hello").await?;
    exchange(&mut connect(&proxy).await?, "hello").await
}

#[tokio::test]
async fn dropping_the_proxy_ends_its_connections() -> Result<()> {
    let proxy = echo().await?;
    let mut stream = connect(&proxy).await?;
    exchange(&mut stream, "hello").await?;
    drop(proxy);
    assert_eq!(rest(&mut stream).await.unwrap_or_default(), "");
    Ok(())
}
