use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use lockkeeper_core::store::{Outcome, Reply};
use lockkeeper_testkit::until::PATIENCE;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use super::messages::{Batch, Owed, take};
use super::socket::Replies;
use super::*;
use crate::wire::exchange::Heard;

/// Makes changes that these bytes answer, in both protocols. Returns the answers, for pieces of any size, and how often the server
/// ended a subscription.
async fn changed(
    changes: &[Change<'_>],
    bytes: &str,
) -> (Result<Vec<Changed>, StoreError>, Vec<String>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let listener: Listener = {
        let heard = Arc::clone(&heard);
        Arc::new(move |it| {
            let text = match it {
                Heard::Message { channel, .. } => channel.to_owned(),
                other => format!("{other:?}"),
            };
            heard.lock().unwrap().push(text);
        })
    };
    let (answer, answered) = oneshot::channel();
    let batch = Batch::new(changes, "n7".to_owned(), answer);
    let mut owed = VecDeque::from([Owed::Changes(Box::new(batch))]);
    let mut replies = Replies::default();
    let mut result = Ok(());
    for value in replies.read(bytes.as_bytes()).unwrap() {
        result = result.and_then(|()| take(value, &mut owed, &listener));
    }
    let answered = match result {
        Ok(()) => answered.await.unwrap(),
        Err(error) => Err(error),
    };
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    (answered, heard)
}

fn notice(kind: &str, channel: &str, count: usize) -> String {
    format!(
        "*3\r\n${}\r\n{kind}\r\n${}\r\n{channel}\r\n:{count}\r\n",
        kind.len(),
        channel.len()
    )
}

const ECHO: &str = "$2\r\nn7\r\n";

fn codes(changed: Vec<Changed>) -> Vec<String> {
    let code = |changed: Changed| match changed {
        Ok(count) => format!("{}", count.unwrap_or_default()),
        Err(error) => error.code().unwrap_or("?").to_owned(),
    };
    changed.into_iter().map(code).collect()
}

#[tokio::test]
async fn each_change_gets_its_own_confirmation_or_refusal() {
    let changes = ["a", "b", "c"].map(Change::Subscribe);
    let refused = "-NOPERM no\r\n";
    let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n";
    let (first, last) = (notice("subscribe", "a", 1), notice("subscribe", "c", 2));
    let bytes = format!("{first}{message}{refused}{last}*2\r\n$4\r\npong\r\n{ECHO}");
    let (answered, heard) = changed(&changes, &bytes).await;
    assert_eq!(codes(answered.unwrap()), ["1", "NOPERM", "2"]);
    assert_eq!(heard, ["a"]);
    // The same with pushes.
    let bytes = bytes
        .replace("*3", ">3")
        .replace("*2\r\n$4\r\npong\r\n", "");
    let (answered, heard) = changed(&changes, &bytes).await;
    assert_eq!(codes(answered.unwrap()), ["1", "NOPERM", "2"]);
    assert_eq!(heard, ["a"]);
}

/// A slot moves to another node: the server ends subscriptions in the middle of our changes.
#[tokio::test]
async fn what_a_server_takes_unasked_shifts_no_answer() {
    let taken = notice("sunsubscribe", "x", 0);
    let changes = [
        Change::SubscribeSharded("x"),
        Change::SubscribeSharded("y"),
        Change::UnsubscribeSharded("z"),
    ];
    let (moved, other) = ("-MOVED 7 b:1\r\n", notice("ssubscribe", "y", 1));
    let ended = notice("sunsubscribe", "z", 0);
    for bytes in [
        format!("{taken}{moved}{other}{ended}{ECHO}"),
        format!("{moved}{taken}{other}{ended}{ECHO}"),
        format!("{moved}{other}{taken}{ended}{ECHO}"),
    ] {
        let (answered, heard) = changed(&changes, &bytes).await;
        assert_eq!(codes(answered.unwrap()), ["MOVED", "1", "0"]);
        assert_eq!(heard, ["Taken"]);
    }
    // The server ends the very subscription that is being given up, and then refuses that change.
    let changes = [
        Change::UnsubscribeSharded("x"),
        Change::SubscribeSharded("y"),
    ];
    for (second, expected) in [(&*other, "1"), ("-NOPERM no\r\n", "NOPERM")] {
        let (answered, _) = changed(&changes, &format!("{taken}{moved}{second}{ECHO}")).await;
        assert_eq!(codes(answered.unwrap()), ["0", expected]);
    }
}

#[tokio::test]
async fn a_server_that_echoes_nothing_has_still_answered() {
    let refused = "-ERR wrong number of arguments for 'ping' command\r\n";
    let subscribed = notice("subscribe", "a", 1);
    let changes = [Change::Subscribe("a")];
    let (answered, _) = changed(&changes, &format!("{subscribed}{refused}")).await;
    assert_eq!(codes(answered.unwrap()), ["1"]);
    let busy = "-BUSY Redis is busy running a script\r\n";
    let (answered, _) = changed(&changes, &busy.repeat(2)).await;
    assert_eq!(codes(answered.unwrap()), ["BUSY"]);
    let (answered, _) = changed(&[], busy).await;
    assert_eq!(answered.unwrap().len(), 0);
}

#[tokio::test]
async fn what_belongs_to_nobody_costs_the_connection() {
    let changes = [Change::Subscribe("a")];
    for bytes in [
        // The echo of another request; no confirmation; that of another channel, or of another kind; one answer too many.
        "$2\r\nn8\r\n".to_owned(),
        ECHO.to_owned(),
        notice("subscribe", "b", 1),
        notice("unsubscribe", "a", 1),
        format!("{}{ECHO}+OK\r\n", notice("subscribe", "a", 1)),
        format!("-ERR no\r\n{}{ECHO}", notice("subscribe", "a", 1)),
    ] {
        let (answered, _) = changed(&changes, &bytes).await;
        assert_eq!(answered.unwrap_err().outcome(), Outcome::Unknown, "{bytes}");
    }
}

/// A server that answers the greeting, and the two ends of its connection.
async fn greeted(listener: Option<Listener>) -> (Opened<Wire>, TcpStream) {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse(&format!("redis://{}", server.local_addr().unwrap())).unwrap();
    let greet = async {
        let (mut stream, _) = server.accept().await.unwrap();
        stream.write_all(b"+PONG\r\n*0\r\n").await.unwrap();
        // PING and HELLO.
        let mut greeting = [0; 29];
        stream.read_exact(&mut greeting).await.unwrap();
        stream
    };
    let options = RedisOptions::new();
    let (opened, stream) = tokio::join!(open(&target, None, &options, listener), greet);
    (opened.unwrap(), stream)
}

/// Waits for the request with `key`, and answers.
async fn serve(stream: &mut TcpStream, key: &str, answers: &str) -> String {
    let (mut seen, mut read) = (String::new(), [0; 256]);
    while !seen.contains(key) {
        let length = stream.read(&mut read).await.unwrap();
        seen.push_str(str::from_utf8(&read[..length]).unwrap());
    }
    stream.write_all(answers.as_bytes()).await.unwrap();
    seen
}

/// More than tokio lets a task take from a queue without a pause.
#[tokio::test]
async fn many_requests_of_one_task_leave_in_the_order_of_their_first_polls() {
    let (opened, mut stream) = greeted(None).await;
    let keys: Vec<String> = (0..200).map(|number| format!("key{number:03}")).collect();
    let gets = keys
        .iter()
        .map(|key| Outgoing::plain("GET", [key.as_str()]));
    let gets: Vec<Outgoing> = gets.collect();
    let request = |get| Box::pin(opened.wire.request(get, false, PATIENCE));
    let mut requests: Vec<_> = gets.iter().map(request).collect();
    // From the second time on, the last one is polled first.
    let mut backwards = false;
    let polled = std::future::poll_fn(|context| {
        if backwards {
            requests.reverse();
        }
        backwards = true;
        for request in &mut requests {
            assert!(request.as_mut().poll(context).is_pending());
        }
        std::task::Poll::<()>::Pending
    });
    let seen = tokio::select! {
        biased;
        () = polled => unreachable!(),
        seen = serve(&mut stream, "key199", "") => seen,
    };
    let places: Vec<_> = keys.iter().map(|key| seen.find(key)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted());
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_nobodys() {
    let (opened, mut stream) = greeted(None).await;
    let wire = opened.wire;
    let get = |key: &str| Outgoing::plain("GET", [key]);
    let [first, second, third, last] = ["key1", "key2", "key3", "key4"].map(get);
    let patience = Duration::from_millis(50);
    let error = wire.request(&first, false, patience).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    let (answer, _) = tokio::join!(
        wire.request(&second, false, PATIENCE),
        serve(&mut stream, "key2", "+1\r\n-ERR 2\r\n"),
    );
    assert_eq!(answer.unwrap_err().message(), "ERR 2");
    // One refusal in a pipeline does not change the other answers.
    let (answer, _) = tokio::join!(
        wire.request_asking(&third, false, PATIENCE),
        serve(&mut stream, "key3", "-ERR asked\r\n+3\r\n"),
    );
    assert_eq!(answer.unwrap_err().message(), "ERR asked");
    let (answer, _) = tokio::join!(
        wire.request(&last, false, PATIENCE),
        serve(&mut stream, "key4", "+4\r\n"),
    );
    assert_eq!(answer.unwrap().as_str(), Some("4"));
}

#[tokio::test]
async fn what_is_asked_after_the_end_is_told_at_once() {
    let silent: Listener = Arc::new(|_| {});
    for listener in [None, Some(silent)] {
        let (opened, stream) = greeted(listener).await;
        let (wire, mut lifeline) = (opened.wire, opened.lifeline);
        drop(stream);
        assert_eq!(lifeline.end().await, CLOSED);
        let ping = Outgoing::plain("PING", []);
        let answer = wire.request(&ping, false, 2 * PATIENCE);
        let answer = timeout(PATIENCE, answer).await;
        let error = answer.expect("it hangs").unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotSent);
    }
}

#[test]
fn a_reply_of_very_many_levels_is_an_error() {
    let deep = "*1\r\n".repeat(200_000);
    Replies::default().read(deep.as_bytes()).unwrap_err();
}

proptest! {
    #[test]
    fn replies_are_the_same_in_pieces_of_any_size(size in 1..40_usize) {
        let bytes = b"*2\r\n$2\r\n12\r\n*1\r\n:7\r\n-NOPERM no\r\n+OK\r\n%1\r\n$1\r\na\r\n_\r\n>2\r\n$1\r\nx\r\n:1\r\n";
        let whole = Replies::default().read(bytes).unwrap();
        prop_assert_eq!(whole.len(), 5);
        let mut replies = Replies::default();
        let pieces = bytes.chunks(size).map(|piece| replies.read(piece).unwrap());
        prop_assert_eq!(pieces.flatten().collect::<Vec<_>>(), whole);
    }

    #[test]
    fn any_bytes_are_one_of_our_replies_or_told_from_it(
        start in "([*%>]3|\\$[0-9]{1,2}|[-+:_,#!=(|~])",
        rest in proptest::collection::vec(any::<u8>(), 0..60),
        request in 0..9_u64,
    ) {
        let bytes = [start.as_bytes(), b"\r\n", &rest].concat();
        for value in Replies::default().read(&bytes).unwrap_or_default() {
            let is_error = matches!(value, redis::Value::ServerError(_));
            let answered = answer(value);
            prop_assert_eq!(answered.is_err(), is_error);
            if let Ok(value) = answered {
                let read = Reply::read(request, value.clone());
                prop_assert!(read.is_err() || matches!(value, Value::List(_) | Value::Bytes(_)));
            }
        }
    }
}

/// How often the runtime runs the task that writes, if this many tasks that are ready queue a request each.
async fn turns_for(ready: usize) -> usize {
    let unanswered = Unanswered::default();
    let (queue, mut queued) = tokio::sync::mpsc::unbounded_channel();
    let writes = async move {
        let mut turns = 0;
        let mut batch = Vec::new();
        while queued.recv_many(&mut batch, usize::MAX).await > 0 {
            batch.clear();
            turns += 1;
        }
        turns
    };
    let writes = tokio::spawn(crowd::write(writes, unanswered.clone()));
    tokio::task::yield_now().await;
    let requests = (0..ready).map(|number| {
        let (unanswered, queue) = (unanswered.clone(), queue.clone());
        tokio::spawn(async move {
            let _one = unanswered.one();
            // All are counted before the first is queued.
            tokio::task::yield_now().await;
            queue.send(number).unwrap();
            tokio::task::yield_now().await;
        })
    });
    let requests: Vec<_> = requests.collect();
    drop(queue);
    for request in requests {
        request.await.unwrap();
    }
    writes.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn many_requests_leave_in_few_writes() {
    let ready = 4 * crowd::MANY;
    let turns = tokio::spawn(turns_for(ready)).await.unwrap();
    assert!(turns <= ready / 4, "{turns} writes for {ready} requests");
    // Each alone: nobody gives way.
    let turns = tokio::spawn(turns_for(crowd::MANY / 2)).await.unwrap();
    assert!(turns >= crowd::MANY / 4, "{turns}");
}

#[tokio::test]
async fn a_task_that_gives_way_runs_in_its_next_turn() {
    let unanswered = Unanswered::default();
    let _many: Vec<_> = (0..crowd::MANY).map(|_| unanswered.one()).collect();
    let mut written = Box::pin(crowd::write(async { 7 }, unanswered.clone()));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(written.as_mut().poll(&mut context).is_pending());
    assert!(written.as_mut().poll(&mut context).is_ready());
}
