//! A command line that cannot work is rejected with the exit code 64, and nothing is started.

use anyhow::{Result, ensure};
use lockkeeper::FairLock;
use lockkeeper_testkit::server::Server;

use crate::support::{command, said};

/// A label that is too long.
const LONG: &str = match str::from_utf8(&[b'x'; 300]) {
    Ok(text) => text,
    Err(_) => "",
};

#[tokio::test]
async fn bad_input_is_refused_with_a_reason_and_starts_nothing() -> Result<()> {
    let server = Server::start().await?;
    let job = ["--", "echo", "ran"];
    for (words, reason) in [
        (
            &["run", "--lock", "x", "--fair", "--reenter"][..],
            "cannot be used with",
        ),
        (
            &["run", "--lock", "x", "--fair", "--shared"],
            "cannot be used with",
        ),
        (
            &["run", "--lock", "x", "-x", "--fair"],
            "cannot be used with",
        ),
        (&["run", "--lock", "x", "-s", "-x"], "cannot be used with"),
        (
            &["run", "--lock", "x", "--shared", "--reenter"],
            "cannot be used with",
        ),
        (
            &["run", "--lock", "x", "--lock", "two\nlines"],
            "has a line break",
        ),
        (
            &["run", "--lock", "x", "--no-wait", "--wait", "1s"],
            "cannot be used with",
        ),
        (
            &["run", "--lock", "x", "--ttl", "10s", "--grace", "4s"],
            "does not fit a ttl of 10s",
        ),
        (&["run", "--lock", "x", "--ttl", "10"], "time unit needed"),
        (&["run", "--lock", "x", "--ttl", "1ms"], "does not fit"),
        (
            &["run", "--lock", "x", "--ttl", "2y", "--grace", "1d"],
            "too long",
        ),
        (
            &[
                "run",
                "--lock",
                "x",
                "--ttl",
                "500000000000y",
                "--grace",
                "150000000000y",
            ],
            "too long",
        ),
        (
            &["run", "--lock", "x", "--max-hold", "1s"],
            "no longer than the grace",
        ),
        (
            &["run", "--lock", "x", "--min-hold", "2h", "--max-hold", "1h"],
            "longer than the max_hold",
        ),
        (
            &["run", "--semaphore", "x"],
            "required arguments were not provided",
        ),
        (&["run", "--lock", "x", "--limit", "2"], "--semaphore"),
        (&["run", "--lock", "x", "--permits", "2"], "--semaphore"),
        (
            &["run", "--semaphore", "x", "--limit", "0"],
            "it must be at least 1",
        ),
        (
            &["run", "--semaphore", "x", "--limit", "2", "--permits", "0"],
            "it must be at least 1",
        ),
        (
            &["run", "--semaphore", "x", "--limit", "2", "--permits", "3"],
            "--permits 3 is more than --limit 2",
        ),
        (
            &["run", "--semaphore", "x", "--limit=me:pssword@host"],
            "a whole number from 1",
        ),
        (
            &["run", "--semaphore", "x", "--limit", "4294967296"],
            "a whole number from 1",
        ),
        (
            &["run", "--semaphore", "x", "--limit", "2", "--fair"],
            "--lock <NAME>",
        ),
        (
            &["run", "--semaphore", "x", "--limit", "2", "--shared"],
            "--lock <NAME>",
        ),
        (
            &["run", "--lock", "x", "--semaphore", "x", "--limit", "2"],
            "a name has one kind",
        ),
        (
            &["run", "--semaphore", "a}b", "--limit", "2"],
            "not one complete hash tag",
        ),
        (&["run", "--lock", "x", "-E", "256"], "256"),
        (
            &["run", "--lock", "x", "--on-lost", "pray"],
            "possible values",
        ),
        (&["run", "--lock", ""], "must not be empty"),
        (&["run", "--lock", "a}b"], "not one complete hash tag"),
        (
            &["run", "--lock", "a", "--lock", "a}b"],
            "not one complete hash tag",
        ),
        (&["run"], "--lock"),
        (&["run", "--lock", "x", "--frob"], "--frob"),
        (&["frob"], "frob"),
        (
            &["run", "--lock", "x", "--url-file", "/no/such/file"],
            "/no/such/file",
        ),
        (
            &["run", "--lock", "x", "--url", "redis:/:pssword@host"],
            "begin with its scheme",
        ),
        (
            &["run", "--lock", "x", "--url", "redsi://:pssword@host"],
            "unknown scheme",
        ),
        (
            &["run", "--lock", "x", "--url", "redis://:pss/word@host"],
            "cannot be read",
        ),
        // A URL where none belongs.
        (&["redis://:pssword@host", "ls"], "unrecognized subcommand"),
        (
            &["run", "--lock", "x", "--wait=redis://:pss:w@rd@host"],
            "invalid value",
        ),
        // And one without a scheme.
        (
            &["run", "--lock", "x", "--wait=:pssword@host"],
            "30s or 10m",
        ),
        (
            &["run", "--lock", "x", "--wait", "1pssword@host"],
            "30s or 10m",
        ),
        (&["run", "--lock", "x", "-E:pssword@host"], "invalid value"),
        (
            &["run", "--lock", "x", "--on-lost", "me:pssword@host"],
            "possible values",
        ),
        (&["me:ps\"sword@host"], "unrecognized subcommand"),
        (&["run", "--pssword@host"], "unexpected argument"),
        (
            &["run", "--lock", "x", "--namespace", "redis://:pss\"w@host"],
            "has a colon",
        ),
        (&["run", "--lock", "x", "--namespace", "a:b"], "has a colon"),
        (
            &["run", "--lock", "x", "--label", LONG],
            "a --label of 300 bytes is too long",
        ),
    ] {
        let said = said(&server.url(), &[words, &job].concat()).await?;
        ensure!(said.code == Some(64), "{words:?}: {said:?}");
        ensure!(said.out.is_empty(), "{words:?}: {said:?}");
        ensure!(said.err.contains(reason), "{words:?}: {said:?}");
        ensure!(!said.err.contains("pss"), "{words:?}: {said:?}");
    }
    let none = said(&server.url(), &["run", "--lock", "x"]).await?;
    ensure!(
        none.code == Some(64) && none.err.contains("COMMAND"),
        "{none:?}"
    );
    let keys = server.command(&["DBSIZE"]).await?;
    ensure!(keys.into_integer()? == 0, "something was locked");
    Ok(())
}

#[tokio::test]
async fn who_named_no_server_or_wrote_a_shell_command_is_told_what_to_write() -> Result<()> {
    let mut unnamed = command("", &["inspect", "name"]);
    let unnamed = unnamed.env_remove("LOCKKEEPER_URL").output().await?;
    let err = String::from_utf8(unnamed.stderr)?;
    // Some machines have a server at the default address.
    let found = unnamed.status.success();
    ensure!(
        found || err.contains("; choose another server with --url"),
        "{err}"
    );

    let server = Server::start().await?;
    let words = ["run", "--lock", "x", "--", "echo one && echo two"];
    let said = said(&server.url(), &words).await?;
    ensure!(said.code == Some(127), "{said:?}");
    ensure!(said.err.contains("sh -c"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn the_url_comes_from_a_file_too() -> Result<()> {
    let server = Server::options().password("hush@hush").start().await?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("url");
    let url = format!("redis://:hush%40hush@{}", server.address());
    std::fs::write(&file, format!("{url}\n"))?;
    let words = [
        "run",
        "--url-file",
        file.to_str().unwrap(),
        "--lock",
        "x",
        "--",
        "true",
    ];
    let good = said("redis://127.0.0.1:1", &words).await?;
    ensure!(good.code == Some(0), "{good:?}");

    // The command line overrides the environment.
    let other = ["run", "--url", &url, "--lock", "x", "--", "true"];
    let mut command = command("redis://127.0.0.1:1", &other);
    let said_so = command.env("LOCKKEEPER_URL_FILE", "/no/such/file").status();
    ensure!(said_so.await?.success());

    std::fs::write(&file, format!("redis://:misfit@{}", server.address()))?;
    let bad = said("redis://127.0.0.1:1", &words).await?;
    ensure!(bad.code == Some(69), "{bad:?}");
    ensure!(!bad.err.contains("misfit"), "{bad:?}");
    Ok(())
}

#[tokio::test]
async fn a_lock_of_one_kind_is_not_taken_as_another() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect(&server.url()).await?;
    let _guard = FairLock::new(&client, "name").acquire().await?;
    for kind in [
        &["--lock", "name"][..],
        &["--lock", "name", "--reenter"],
        &["--lock", "name", "--shared"],
        &["--lock", "name", "--exclusive"],
        &["--semaphore", "name", "--limit", "2"],
    ] {
        let words = [&["run"], kind, &["--", "echo", "ran"]].concat();
        let said = said(&server.url(), &words).await?;
        ensure!(said.code == Some(64) && said.out.is_empty(), "{said:?}");
        ensure!(said.err.contains("\"name\" is no"), "{said:?}");
    }
    for words in [&["limit", "name"][..], &["limit", "name", "2"]] {
        let said = said(&server.url(), words).await?;
        ensure!(said.code == Some(64) && said.out.is_empty(), "{said:?}");
        ensure!(said.err.contains("\"name\" is no semaphore"), "{said:?}");
    }
    Ok(())
}
