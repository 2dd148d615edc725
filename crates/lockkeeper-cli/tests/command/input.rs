//! A command line that cannot work is rejected with the exit code 64, and nothing is started.

use anyhow::{Result, ensure};
use lockkeeper::FairLock;
use lockkeeper_testkit::server::Server;

use crate::printed::{ask, assert_printed, end_of, said};
use crate::support::command;

/// Wrong options of `run`, one command line each. `pss` is a part of a password.
const WRONG: &str = "
    --lock x --fair --reenter
    --lock x --fair --shared
    --lock x -x --fair
    --lock x -s -x
    --lock x --shared --reenter
    --lock x --no-wait --wait 1s
    --lock x --ttl 10s --grace 4s
    --lock x --ttl 10
    --lock x --ttl 1ms
    --lock x --ttl 2y --grace 1d
    --lock x --ttl 500000000000y --grace 150000000000y
    --lock x --max-hold 1s
    --lock x --min-hold 2h --max-hold 1h
    --semaphore x
    --lock x --limit 2
    --lock x --permits 2
    --semaphore x --limit 0
    --semaphore x --limit 2 --permits 0
    --semaphore x --limit 2 --permits 3
    --semaphore x --limit=me:pssword@host
    --semaphore x --limit 4294967296
    --semaphore x --limit 2 --fair
    --semaphore x --limit 2 --shared
    --lock x --semaphore x --limit 2
    --semaphore a}b --limit 2
    --lock x -E 256
    --lock x --on-lost pray
    --lock=
    --lock a}b
    --lock a --lock a}b

    --lock x --frob
    --lock x --url-file /no/such/file
    --lock x --url redis:/:pssword@host
    --lock x --url redsi://:pssword@host
    --lock x --url redis://:pss/word@host
    --lock x --wait=redis://:pss:w@rd@host
    --lock x --wait=:pssword@host
    --lock x --wait 1pssword@host
    --lock x -E:pssword@host
    --lock x --on-lost me:pssword@host
    --pssword@host
    --lock x --namespace redis://:pss\"w@host
    --lock x --namespace a:b
    --lock x --once-per 7h
    --elect x --lock other
    --elect x --semaphore jobs --limit 2
    --elect x --fair
    --lock x --value v
    --value v
    --elect x --once-per 1d
    --elect x --slot a
    --elect x --limit 2
    --elect x --permits 2
    --elect x --elect other
    --elect=";

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_starts_nothing() -> Result<()> {
    let server = Server::start().await?;
    let long = "x".repeat(2_000);
    let wrong = WRONG.lines().skip(1).map(|options| {
        let words = ["run"].into_iter().chain(options.split_whitespace());
        words.collect::<Vec<_>>()
    });
    let others = [
        vec!["run", "--lock", "x", "--lock", "two\nlines"],
        vec!["run", "--lock", "x", "--label", &long],
        vec!["run", "--elect", "x", "--value", &long],
        vec!["frob"],
        vec!["redis://:pssword@host", "ls"],
        vec!["me:ps\"sword@host"],
    ];
    let mut reasons = String::new();
    for words in wrong.chain(others) {
        let said = said(
            &server.url(),
            &[&words[..], &["--", "echo", "ran"]].concat(),
        )
        .await?;
        ensure!(
            said.code == Some(64) && said.out.is_empty(),
            "{words:?}: {said}"
        );
        ensure!(!said.err.contains("pss"), "{words:?}: {said}");
        reasons += &said.err.replace(&long, "LONG");
    }
    assert_printed!(reasons);
    assert_printed!(ask(&server, "run --lock x").await?, @"
    ! error: the following required arguments were not provided:
    !   <COMMAND>...
    => 64
    ");
    let keys = server.command(&["DBSIZE"]).await?;
    ensure!(keys.into_integer()? == 0, "something was locked");
    Ok(())
}

#[tokio::test]
async fn who_named_no_server_or_wrote_a_shell_command_is_told_what_to_write() -> Result<()> {
    let mut unnamed = command("", &["inspect", "name"]);
    let unnamed = end_of(unnamed.env_remove("LOCKKEEPER_URL")).await?;
    // Some machines have a server at the default address.
    let found = unnamed.code == Some(0);
    ensure!(
        found || unnamed.err.contains("; choose another server with --url"),
        "{unnamed}"
    );

    let server = Server::start().await?;
    let words = ["run", "--lock", "x", "--", "echo one && echo two"];
    assert_printed!(said(&server.url(), &words).await?, @"
    ! lockkeeper: echo one && echo two: no such program; no shell is involved: to use one, write -- sh -c '…'
    => 127
    ");
    Ok(())
}

#[tokio::test]
async fn the_url_comes_from_a_file_too() -> Result<()> {
    let server = Server::options().password("hush@hush").start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("url");
    let path = file.to_str().unwrap();
    let url = format!("redis://:hush%40hush@{}", server.address());
    let nowhere = "redis://127.0.0.1:1";
    std::fs::write(&file, format!("{url}\n"))?;
    let words = ["run", "--url-file", path, "--lock", "x", "--", "true"];
    assert_printed!(said(nowhere, &words).await?, @"");

    // The command line overrides the environment.
    let other = ["run", "--url", &url, "--lock", "x", "--", "true"];
    let mut other = command(nowhere, &other);
    assert_printed!(end_of(other.env("LOCKKEEPER_URL_FILE", "/no/such/file")).await?, @"");

    std::fs::write(&file, format!("redis://:misfit@{}", server.address()))?;
    assert_printed!(said(nowhere, &words).await?, @"
    ! lockkeeper: could not connect to <server>: the user name or the password in the URL is wrong: the server refused: WRONGPASS invalid username-password pair or user is disabled.
    => 69
    ");
    Ok(())
}

#[tokio::test]
async fn a_lock_of_one_kind_is_not_taken_as_another() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = FairLock::new(&client, "name").acquire().await?;
    let mut refused = String::new();
    for line in [
        "run --lock name -- echo ran",
        "run --lock name --reenter -- echo ran",
        "run --lock name --shared -- echo ran",
        "run --lock name --exclusive -- echo ran",
        "run --semaphore name --limit 2 -- echo ran",
        "limit name",
        "limit name 2",
        "leader name",
        "leader name --watch",
    ] {
        refused += &ask(&server, line).await?.to_string();
    }
    assert_printed!(refused, @r#"
    ! lockkeeper: lock "name" is no mutex lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no reentrant lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no rwlock lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no rwlock lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no semaphore lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no semaphore lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no semaphore lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no election lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    ! lockkeeper: lock "name" is no election lock: its key "lockkeeper:name" holds another kind of lock, or data of another program or of a later version of Lockkeeper; choose another name or namespace, or upgrade
    => 64
    "#);
    Ok(())
}
