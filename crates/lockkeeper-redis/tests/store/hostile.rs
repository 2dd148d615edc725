//! Hostile servers, and attackers in the middle of a plaintext connection.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use lockkeeper_core::store::{Event, Store};
use lockkeeper_redis::Transport;
use tokio::process::Command;

use crate::support::{Liar, bounded, connect, transport, until};

const URL: &str = "LOCKKEEPER_TEST_HOSTILE_URL";
const SIGABRT: i32 = 6;

/// The decoder of redis-rs has a limit, and the connection ends with an error. fred's decoder recurses for each level of a reply
/// and has no limit. None can be put before it, because fred opens the socket itself: the stack overflows, and the process aborts.
#[tokio::test]
async fn a_reply_of_very_many_levels_ends_the_connection_or_with_fred_the_process() {
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
        match transport() {
            Transport::Fred => assert_eq!(
                ended.signal(),
                Some(SIGABRT),
                "fred has learnt to count: {ended}"
            ),
            _ => assert!(ended.success(), "{ended}"),
        }
    })
    .await;
}

/// The process that is attacked, see above.
#[tokio::test]
#[ignore = "run by another test in a process of its own"]
async fn connects_to_a_server_that_means_harm() {
    let url = std::env::var(URL).unwrap();
    // With fred the harm is done while it connects, with redis-rs by the first check of the server.
    let store = connect(&url).await.unwrap();
    let mut events = store.events().unwrap();
    bounded(until(&mut events, &Event::Disconnected)).await;
}
