//! A run inside a run, which it recognizes by its environment, and programs that outlive the outer run.

use anyhow::{Result, ensure};
use lockkeeper::{Client, ReentrantLock};
use lockkeeper_testkit::server::Server;

use crate::printed::{Said, assert_printed, end_of, shell};
use crate::support::command;

#[tokio::test]
async fn a_run_inside_a_run_gets_in_again_by_any_lock_with_its_token() -> Result<()> {
    let server = Server::start().await?;
    let inner = "set -- $LOCKKEEPER_FENCE; for name in $LOCKKEEPER_NAME; do echo $name $1; shift; \
                 \"$0\" run --no-wait --reenter --lock $name -- \
                 sh -c 'echo $LOCKKEEPER_NAME $LOCKKEEPER_FENCE'; done";
    for (locks, expected) in [("--lock b", 2), ("--lock b --lock a", 4)] {
        let said = shell(&server, &format!("--reenter {locks}"), inner).await?;
        let lines: Vec<&str> = said.out.lines().collect();
        ensure!(said.code == Some(0) && lines.len() == expected, "{said}");
        ensure!(lines.chunks(2).all(|both| both[0] == both[1]), "{said}");
    }
    Ok(())
}

/// Returns the environment of a program whose run has ended.
async fn stale_environment(server: &Server, locks: &str) -> Result<Vec<(String, String)>> {
    // The variables end with NUL bytes, because with several locks names and tokens have one line for each.
    let show = "env -0 | grep -z ^LOCKKEEPER_ | grep -zv URL";
    let outer = shell(server, &format!("--reenter {locks}"), show).await?;
    ensure!(outer.code == Some(0), "{outer}");
    let pairs = outer.out.split('\0').filter_map(|it| it.split_once('='));
    Ok(pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}

async fn said_inside(
    server: &Server,
    environment: &[(String, String)],
    line: &str,
) -> Result<Said> {
    let mut command = command(&server.url(), &line.split(' ').collect::<Vec<_>>());
    let environment = environment.iter().map(|(name, value)| (name, value));
    end_of(command.envs(environment)).await
}

#[tokio::test]
async fn who_outlives_a_run_does_not_get_in_by_its_environment() -> Result<()> {
    let server = Server::start().await?;
    let client = lockkeeper::connect_with(&server.url(), Client::builder()).await?;
    for locks in ["--lock name", "--lock name --lock other"] {
        let stale = stale_environment(&server, locks).await?;
        let job = "run --reenter --wait 10m --lock name -- echo ran";
        let refused = async || {
            let said = said_inside(&server, &stale, job).await?;
            assert_printed!(said, @r#"
            ! lockkeeper: "name": the outer run, from which this environment comes, no longer holds it with token <token>; to acquire it independently, start this run without LOCKKEEPER_OWNER
            => 76
            "#);
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
        assert_printed!(said_inside(&server, &anew.collect::<Vec<_>>(), job).await?, @"ran");
    }
    Ok(())
}

#[tokio::test]
async fn an_environment_without_the_tokens_of_its_locks_is_refused() -> Result<()> {
    let server = Server::start().await?;
    let mut stale = stale_environment(&server, "--lock name").await?;
    let job = "run --reenter --lock name -- echo ran";
    for fence in ["", "none", "1\n2"] {
        for (name, value) in &mut stale {
            if name == "LOCKKEEPER_FENCE" {
                fence.clone_into(value);
            }
        }
        assert_printed!(said_inside(&server, &stale, job).await?, @"
        ! lockkeeper: LOCKKEEPER_KIND and LOCKKEEPER_FENCE do not have the kind and the token of each lock in LOCKKEEPER_NAME, so this run cannot tell whether the outer run still holds: pass on all three variables, or start this run without LOCKKEEPER_OWNER
        => 64
        ");
    }
    Ok(())
}
