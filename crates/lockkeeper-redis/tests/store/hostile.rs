//! Servers, and people in the middle of a plaintext connection, that mean harm.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use lockkeeper_redis::RedisStore;
use tokio::process::Command;

use crate::support::{Liar, bounded, options};

const URL: &str = "LOCKKEEPER_TEST_HOSTILE_URL";
const SIGABRT: i32 = 6;

/// fred's decoder calls itself for each level of a reply and knows no bound, nor can one be put before it: fred makes the socket
/// itself. The stack ends, and with it the process. This shows the defect, and is to be turned round with the transport that
/// is given a socket of ours: the connection must end with an error.
#[tokio::test]
async fn a_reply_of_very_many_levels_still_ends_the_process() {
    bounded(async {
        let liar = Liar::start(|_, command| {
            let deep = "*1\r\n".repeat(200_000);
            (command[0] == "INFO").then_some(deep)
        })
        .await;
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program);
        child
            .args([
                "hostile::connects_to_a_server_that_means_harm",
                "--exact",
                "--ignored",
            ])
            .env(URL, liar.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let ended = child.status().await.unwrap();
        assert_eq!(
            ended.signal(),
            Some(SIGABRT),
            "fred has learnt to count: {ended}"
        );
    })
    .await;
}

/// The process that is lost, see above.
#[tokio::test]
#[ignore = "run by another test in a process of its own"]
async fn connects_to_a_server_that_means_harm() {
    let url = std::env::var(URL).unwrap();
    let options = options().connect_timeout(Duration::from_secs(5));
    let connected: Result<RedisStore, _> = options.connect(&url).await;
    assert!(connected.is_err(), "it takes that for an answer");
}
