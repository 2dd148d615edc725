//! A Java program that locks by Redisson, as a test says. `cargo xtask prove` builds it with Maven from `tests/peers/redisson`.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use lockkeeper_testkit::peer;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A program with any number of clients of Redisson. It ends when this is dropped.
pub(crate) struct Java {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    answers: Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>,
    orders: AtomicU64,
}

impl Java {
    /// Starts it; `None`, and a word about it, where it was not built and this is no machine of continuous integration.
    pub(crate) fn start() -> Result<Option<Arc<Self>>> {
        let Some(words) = peer::built("redisson")? else {
            return Ok(None);
        };
        // What is built is a program for benchmarks; this one stands beside it.
        let [program, arguments @ .., _benchmark] = &words[..] else {
            bail!("a command line of two words at least, not {words:?}");
        };
        let mut child = Command::new(program);
        child.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]);
        child.args(arguments).arg("Locks");
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn()?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let answers: Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>> = Arc::default();
        let waiting = Arc::clone(&answers);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let (order, answer) = line.split_once(' ').unwrap_or_default();
                let sender = order.parse().ok().and_then(|it| waiting.lock().remove(&it));
                if let Some(sender) = sender {
                    // The caller may have stopped waiting.
                    drop(sender.send(answer.to_owned()));
                }
            }
            // No answer will come, and all callers that wait are told so.
            waiting.lock().clear();
        });
        Ok(Some(Arc::new(Self {
            child: Mutex::new(child),
            input: Mutex::new(input),
            answers,
            orders: AtomicU64::new(1),
        })))
    }

    /// Tells it to do something, and returns what will be its answer.
    fn order(&self, words: &str) -> Result<oneshot::Receiver<String>> {
        let order = self.orders.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.answers.lock().insert(order, sender);
        let mut input = self.input.lock();
        writeln!(input, "{order} {words}")?;
        input.flush()?;
        Ok(answer)
    }

    /// A client on the server, whose locks last for `watchdog` unless they are renewed.
    pub(crate) async fn client(
        self: &Arc<Self>,
        server: &Server,
        watchdog: Duration,
    ) -> Result<JavaClient> {
        self.open(&server.address().to_string(), watchdog).await
    }

    /// A client of the cluster that the server is a node of.
    pub(crate) async fn client_of_cluster(
        self: &Arc<Self>,
        node: &Server,
        watchdog: Duration,
    ) -> Result<JavaClient> {
        let address = format!("cluster:{}", node.address());
        self.open(&address, watchdog).await
    }

    /// A client on the server, which waits for a dead one at the front of a fair queue for `wait` only.
    pub(crate) async fn impatient_client(
        self: &Arc<Self>,
        server: &Server,
        watchdog: Duration,
        wait: Duration,
    ) -> Result<JavaClient> {
        let words = format!("{} {}", watchdog.as_millis(), wait.as_millis());
        self.open_with(&server.address().to_string(), &words).await
    }

    /// A client on the server, whose `NameMapper` puts this prefix in front of each name.
    pub(crate) async fn client_with_prefix(
        self: &Arc<Self>,
        server: &Server,
        watchdog: Duration,
        prefix: &str,
    ) -> Result<JavaClient> {
        let words = format!("{} 300000 {prefix}", watchdog.as_millis());
        self.open_with(&server.address().to_string(), &words).await
    }

    async fn open(self: &Arc<Self>, address: &str, watchdog: Duration) -> Result<JavaClient> {
        self.open_with(address, &watchdog.as_millis().to_string())
            .await
    }

    async fn open_with(self: &Arc<Self>, address: &str, words: &str) -> Result<JavaClient> {
        let order = format!("open {address} {words}");
        let answer = told(self.order(&order)?).await?;
        let (number, id) = answer.split_once(' ').with_context(|| answer.clone())?;
        Ok(JavaClient {
            java: Arc::clone(self),
            number: number.parse()?,
            id: id.to_owned(),
        })
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(&self) -> Result<()> {
        let mut child = self.child.lock();
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.get_mut().kill();
        let _ = self.child.get_mut().wait();
    }
}

async fn told(answer: oneshot::Receiver<String>) -> Result<String> {
    let answer = tokio::time::timeout(PATIENCE, answer).await?;
    answer.context("the program has ended")
}

/// A `RedissonClient`.
#[derive(Clone)]
pub(crate) struct JavaClient {
    java: Arc<Java>,
    number: u32,
    /// What the owners of its locks begin with.
    pub(crate) id: String,
}

impl JavaClient {
    /// A lock, `lock`, `fenced`, `fair`, `read` or `write`, a `semaphore`, `permits` or a `latch`, by a name.
    pub(crate) fn lock(&self, kind: &str, name: &str) -> JavaLock {
        JavaLock {
            client: self.clone(),
            lock: format!("{} {kind} {name}", self.number),
        }
    }
}

/// An `RLock`.
#[derive(Clone)]
pub(crate) struct JavaLock {
    client: JavaClient,
    lock: String,
}

impl JavaLock {
    /// Does something with it by a thread, and returns what came of it.
    pub(crate) async fn tell(&self, verb: &str, words: &str) -> Result<String> {
        told(self.begin(verb, words)?).await
    }

    /// The same, to be waited for later.
    pub(crate) fn begin(&self, verb: &str, words: &str) -> Result<oneshot::Receiver<String>> {
        let order = format!("{verb} {} {words}", self.lock);
        self.client.java.order(order.trim_end())
    }

    /// Waits for what was begun.
    pub(crate) async fn end(answer: oneshot::Receiver<String>) -> Result<String> {
        told(answer).await
    }

    /// Until so many threads wait, and would hear a message that is published now.
    pub(crate) async fn waiters(&self, number: u64) -> Result<()> {
        let wait = async {
            while self.tell("waiting", "").await?.parse::<u64>()? < number {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, wait).await?
    }

    /// Asks what is answered by yes or no.
    pub(crate) async fn ask(&self, verb: &str, words: &str) -> Result<bool> {
        let answer = self.tell(verb, words).await?;
        answer.parse().context(answer)
    }
}
