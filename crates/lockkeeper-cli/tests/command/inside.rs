//! A run inside a run, which it recognizes by its environment, and programs that outlive the outer run.

use anyhow::{Result, ensure};
use lockkeeper::{Client, ReentrantLock};
use lockkeeper_testkit::server::Server;

use crate::support::{Said, command, said};

#[tokio::test]
async fn a_run_inside_a_run_gets_in_again_with_the_same_token() -> Result<()> {
    let server = Server::start().await?;
    let inner = "echo $LOCKKEEPER_FENCE; \"$0\" run --no-wait --reenter --lock name -- \
                 sh -c 'echo $LOCKKEEPER_FENCE'; \"$0\" run --no-wait --reenter --lock name -- sh -c 'exit 4'";
    let this = env!("CARGO_BIN_EXE_lockkeeper");
    let words = [
        "run",
        "--reenter",
        "--lock",
        "name",
        "--",
        "sh",
        "-c",
        inner,
        this,
    ];
    let said = said(&server.url(), &words).await?;
    ensure!(said.code == Some(4), "{said:?}");
    let tokens: Vec<&str> = said.out.lines().collect();
    ensure!(tokens.len() == 2 && tokens[0] == tokens[1], "{said:?}");
    Ok(())
}

/// Returns the environment of a program whose run has ended.
async fn stale_environment(server: &Server, locks: &[&str]) -> Result<Vec<(String, String)>> {
    // The variables end with NUL bytes, because with several locks names and tokens have one line for each.
    let job = [
        "--reenter",
        "--",
        "sh",
        "-c",
        "env -0 | grep -z ^LOCKKEEPER_ | grep -zv URL",
    ];
    let outer = said(&server.url(), &[&["run"], locks, &job].concat()).await?;
    ensure!(outer.code == Some(0), "{outer:?}");
    let pairs = outer.out.split('\0').filter_map(|it| it.split_once('='));
    Ok(pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

async fn said_inside(
    server: &Server,
    environment: &[(String, String)],
    words: &[&str],
) -> Result<Said> {
    let mut command = command(&server.url(), words);
    let environment = environment.iter().map(|(name, value)| (name, value));
    let output = command.envs(environment).output();
    let output = tokio::time::timeout(crate::support::LIMIT, output).await??;
    Ok(Said {
        code: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

#[tokio::test]
async fn who_outlives_a_run_does_not_get_in_by_its_environment() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder()).await?;
    for locks in [
        &["--lock", "name"][..],
        &["--lock", "name", "--lock", "other"],
    ] {
        let stale = stale_environment(&server, locks).await?;
        let job = [
            "run",
            "--reenter",
            "--wait",
            "10m",
            "--lock",
            "name",
            "--",
            "echo",
            "ran",
        ];
        let refused = async || {
            let said = said_inside(&server, &stale, &job).await?;
            ensure!(said.code == Some(76) && said.out.is_empty(), "{said:?}");
            ensure!(said.err.contains("no longer holds it"), "{said:?}");
            anyhow::Ok(())
        };
        // Nobody holds the lock.
        refused().await?;
        // Another owner holds it: the run does not wait in vain.
        let lock = ReentrantLock::new(&client, "name");
        let guard = lock.acquire().owner(&client.new_owner()).await?;
        refused().await?;
        guard.release().await?;
        // The run's owner holds it, but by another hold: two programs of a dead run must not run side by side.
        let owner = stale.iter().find(|(name, _)| name == "LOCKKEEPER_OWNER");
        let owner = owner.map(|(_, owner)| owner.parse()).transpose()?;
        let guard = lock
            .acquire()
            .owner(&owner.unwrap_or_else(|| client.new_owner()))
            .await?;
        refused().await?;
        guard.release().await?;
        let left = server
            .command(&["EXISTS", "lockkeeper:name", "lockkeeper:other"])
            .await?;
        ensure!(left.into_integer()? == 0, "something is held");
        // Without LOCKKEEPER_OWNER, it starts as an independent run.
        let anew = stale
            .into_iter()
            .filter(|(name, _)| name != "LOCKKEEPER_OWNER");
        let said = said_inside(&server, &anew.collect::<Vec<_>>(), &job).await?;
        ensure!(said.code == Some(0) && said.out == "ran\n", "{said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_environment_without_the_tokens_of_its_locks_is_refused() -> Result<()> {
    let server = Server::start().await?;
    let mut stale = stale_environment(&server, &["--lock", "name"]).await?;
    let job = ["run", "--reenter", "--lock", "name", "--", "echo", "ran"];
    for fence in ["", "none", "1\n2"] {
        for (name, value) in &mut stale {
            if name == "LOCKKEEPER_FENCE" {
                fence.clone_into(value);
            }
        }
        let said = said_inside(&server, &stale, &job).await?;
        ensure!(said.code == Some(64) && said.out.is_empty(), "{said:?}");
        ensure!(said.err.contains("LOCKKEEPER_FENCE"), "{said:?}");
    }
    Ok(())
}
