//! Bad input: each case gives its own clear error at once, and leaves nothing on the server.

use std::time::Duration;

use anyhow::{Result, ensure};
use lockkeeper::{Client, Error, Mutex};
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::site::Site as _;
use lockkeeper_testkit::until::PATIENCE;
use tokio::time::timeout;

/// The error of an attempt that must fail.
async fn refused(url: &str) -> Result<Error> {
    let error = timeout(PATIENCE, lockkeeper::connect(url)).await?.err();
    error.ok_or_else(|| anyhow::anyhow!("{url} was accepted"))
}

#[tokio::test]
async fn urls_that_cannot_be_are_refused_with_a_hint() -> Result<()> {
    for (url, hint) in [
        ("127.0.0.1:6379", "scheme"),
        ("", "scheme"),
        ("http://127.0.0.1", "unknown scheme"),
        ("redis://", "host"),
        ("redis://127.0.0.1/seven", "database"),
        ("redis-sentinel://127.0.0.1", "what they call the service"),
        ("redis-cluster://127.0.0.1/3", "number 0 alone"),
    ] {
        is_refused_with(url, hint).await?;
    }
    Ok(())
}

async fn is_refused_with(url: &str, hint: &str) -> Result<()> {
    let error = refused(url).await?;
    ensure!(matches!(error, Error::Config { .. }), "{url}: {error:?}");
    ensure!(error.to_string().contains(hint), "{url}: {error}");
    ensure!(!error.is_transient());
    Ok(())
}

#[tokio::test]
async fn a_silent_server_is_told_from_an_unreachable_one() -> Result<()> {
    let mut server = Server::start().await?;
    server.freeze()?;
    let silent = refused(&server.url()).await?;
    ensure!(silent.to_string().contains("no answer"), "{silent}");
    server.kill()?;
    let unreachable = refused(&server.url()).await?;
    let text = unreachable.to_string();
    ensure!(text.contains("Connection refused"), "{text}");
    ensure!(
        text.contains(&server.port().to_string()),
        "which server? {text}"
    );
    for error in [silent, unreachable] {
        ensure!(matches!(error, Error::Backend { .. }), "{error:?}");
        ensure!(error.is_transient(), "{error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_is_told_and_never_shown() -> Result<()> {
    let server = Server::options().password("right-secret").start().await?;
    lockkeeper::connect(&server.url()).await?;
    let port = server.port();
    let wrong = refused(&format!("redis://:wrong-secret@127.0.0.1:{port}")).await?;
    let none = refused(&format!("redis://127.0.0.1:{port}")).await?;
    for error in [&wrong, &none] {
        ensure!(
            matches!(error, Error::Backend { .. }) && !error.is_transient(),
            "{error:?}"
        );
        ensure!(
            !format!("{error} {error:?}").contains("secret"),
            "{error:?}"
        );
    }
    ensure!(wrong.to_string().contains("WRONGPASS"), "{wrong}");
    ensure!(none.to_string().contains("NOAUTH"), "{none}");
    let client = lockkeeper::connect(&server.url()).await?;
    ensure!(!format!("{client:?}").contains("secret"));
    Ok(())
}

#[tokio::test]
async fn a_user_without_the_right_to_a_command_is_told_which() -> Result<()> {
    let server = Server::start().await?;
    let port = server.port();
    let user = async |name: &str, rules: &[&str]| {
        let mut words = vec![
            "ACL",
            "SETUSER",
            name,
            "on",
            ">pw",
            "resetkeys",
            "resetchannels",
        ];
        words.extend(rules);
        server.command(&words).await?;
        lockkeeper::connect(&format!("redis://{name}:pw@127.0.0.1:{port}"))
            .await
            .map_err(anyhow::Error::from)
    };
    let scripts = user("scripts", &["~*", "&*", "+@all", "-evalsha", "-eval"]).await?;
    let error = Mutex::new(&scripts, "name").acquire().await.unwrap_err();
    ensure!(
        matches!(error, Error::Backend { .. }) && error.to_string().contains("NOPERM"),
        "{error}"
    );

    let keys = user("keys", &["~other*", "&*", "+@all"]).await?;
    let error = Mutex::new(&keys, "name").try_acquire().await.unwrap_err();
    ensure!(
        matches!(error, Error::Backend { .. }) && error.to_string().contains("NOPERM"),
        "{error}"
    );
    ensure!(server.keys().await?.is_empty(), "something was left behind");

    let listens = user("listens", &["~*", "+@all", "-subscribe"]).await?;
    let holder = lockkeeper::connect(&server.url()).await?;
    let guard = Mutex::new(&holder, "name").acquire().await?;
    let waiting = Mutex::new(&listens, "name").acquire().into_future();
    let error = timeout(PATIENCE, waiting).await?.unwrap_err();
    ensure!(
        matches!(error, Error::Backend { .. }) && error.to_string().contains("wait for"),
        "{error}"
    );
    guard.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_refused_publish_does_not_undo_the_release() -> Result<()> {
    let server = Server::start().await?;
    let rules = [
        "ACL",
        "SETUSER",
        "mute",
        "on",
        ">pw",
        "~*",
        "resetchannels",
        "+@all",
        "-publish",
    ];
    server.command(&rules).await?;
    let client =
        lockkeeper::connect(&format!("redis://mute:pw@127.0.0.1:{}", server.port())).await?;
    let lock = Mutex::new(&client, "name");
    lock.acquire().await?.release().await?;
    ensure!(
        server
            .command(&["EXISTS", "lockkeeper:name"])
            .await?
            .into_text()?
            == "0"
    );
    lock.acquire().await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() -> Result<()> {
    let server = Server::start().await?;
    for settings in [
        Client::builder().ttl(Duration::ZERO),
        Client::builder()
            .ttl(Duration::from_millis(100))
            .margin(Duration::from_millis(100)),
        Client::builder().renewal_fraction(1),
        Client::builder().renewal_fraction(u32::MAX),
        Client::builder()
            .ttl(Duration::from_secs(30))
            .margin(Duration::from_secs(20)),
        Client::builder().request_timeout(Duration::ZERO),
        Client::builder().namespace("a}b"),
    ] {
        let shown = format!("{settings:?}");
        let error = lockkeeper::connect_with(&server.url(), settings)
            .await
            .err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{shown}: {error:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_user_a_database_and_a_socket_are_taken_from_the_url() -> Result<()> {
    let server = Server::options().password("p@ss/word").start().await?;
    let socket = server.socket();
    let port = server.port();
    for url in [
        format!("redis://:p%40ss%2Fword@127.0.0.1:{port}/3"),
        format!("redis://default:p%40ss%2Fword@localhost:{port}/3"),
        format!("unix://{}?db=3&password=p%40ss%2Fword", socket.display()),
    ] {
        let client = lockkeeper::connect_with(&url, Client::builder().label("")).await?;
        let guard = Mutex::new(&client, "name").acquire().await?;
        ensure!(
            server
                .command(&["EXISTS", "lockkeeper:name"])
                .await?
                .into_text()?
                == "0",
            "in database 0: {url}"
        );
        guard.release().await?;
        client.close().await;
    }
    ensure!(
        server
            .command(&["INFO", "keyspace"])
            .await?
            .into_text()?
            .contains("db3:keys=1")
    );
    Ok(())
}

#[tokio::test]
async fn settings_behind_the_name_of_an_engine_are_refused() -> Result<()> {
    for url in ["memory://a?ttl=3", "memory://?ttl=3", "memory://a?"] {
        let error = lockkeeper::connect(url).await.err();
        ensure!(
            matches!(error, Some(Error::Config { .. })),
            "{url}: {error:?}"
        );
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains("builder"), "{text}");
    }
    Ok(())
}
