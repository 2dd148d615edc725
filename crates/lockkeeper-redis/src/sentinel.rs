//! Sentinels: they watch a primary and its replicas, and say which server is the primary.
//!
//! The store listens to every sentinel that the URL names at once. A sentinel publishes `+switch-master` when another server has
//! become the primary, even while the old one is healthy and accepts writes, which no broken connection would show. Sentinels do
//! not learn of a switch at the same time, and one that was cut off repeats the old state. So each sentinel also gives a
//! *configuration epoch*, and of their latest statements the one with the largest epoch counts.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockkeeper_core::store::{Outcome, StoreError};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Connection, Verb};
use crate::credentials::Login;
use crate::deployment::Watch;
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::target::{Address, Target};
use crate::wire::Listener;

/// The channel on which sentinels announce a new primary.
const SWITCH: &str = "+switch-master";

/// How often a sentinel is asked without a reason: messages may get lost.
const PERIOD: Duration = Duration::from_secs(5);

/// The pause before an unreachable sentinel is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// The last statement of one sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    epoch: u64,
    primary: Target,
}

/// Everything known about the primary, and what the listening tasks share.
pub(crate) struct Sentinels {
    watch: Watch,
    options: RedisOptions,
    /// Their last statements, by the numbers of the sentinels.
    words: Mutex<BTreeMap<usize, Word>>,
    /// The statement that counts.
    word: watch::Sender<Option<Word>>,
    /// Why sentinels cannot be reached, by their numbers.
    trouble: watch::Sender<BTreeMap<usize, StoreError>>,
    doubts: Notify,
}

impl Sentinels {
    /// Asks every sentinel. The tasks that go on listening end when the set is dropped.
    pub(crate) fn start(watch: Watch, options: RedisOptions) -> (Arc<Self>, JoinSet<()>) {
        let sentinels = Arc::new(Self {
            watch,
            options,
            words: Mutex::default(),
            word: watch::Sender::new(None),
            trouble: watch::Sender::default(),
            doubts: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        for (number, target) in sentinels.watch.sentinels.clone().into_iter().enumerate() {
            tasks.spawn(listen(Arc::clone(&sentinels), number, target));
        }
        (sentinels, tasks)
    }

    /// Returns the primary, as soon as a sentinel names one.
    pub(crate) async fn find(&self) -> Result<Target, StoreError> {
        let (mut word, mut trouble) = (self.word.subscribe(), self.trouble.subscribe());
        let nobody = self.watch.sentinels.len();
        let found = async {
            tokio::select! {
                biased;
                // The senders are in `self`, so there is no error.
                word = word.wait_for(Option::is_some) => word.ok()?.as_ref().map(|word| word.primary.clone()),
                _ = trouble.wait_for(|trouble| trouble.len() >= nobody) => None,
            }
        };
        let found = timeout(self.options.connect_timeout, found).await;
        found.ok().flatten().ok_or_else(|| {
            let trouble = self.trouble.borrow();
            // A refusal says more than a sentinel that is down.
            let refused = trouble
                .values()
                .find(|error| error.outcome() == Outcome::Refused);
            let error = refused.or_else(|| trouble.values().next());
            error.map_or_else(|| StoreError::not_sent("no sentinel answers"), Clone::clone)
        })
    }

    /// Checks that this server is a primary. A server that is being promoted is not one yet; if this user may not ask, the check
    /// passes.
    pub(crate) async fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        let patience = self.options.connect_timeout;
        let role = connection
            .send(&Outgoing::plain("ROLE", []), patience)
            .await;
        let role = match role {
            Ok(role) => reply::texts(&role),
            Err(error) if error.outcome() == Outcome::Refused => Vec::new(),
            Err(error) => return Err(error),
        };
        match role.first().map(String::as_str) {
            Some("master") | None => Ok(()),
            Some(role) => {
                self.doubt();
                Err(StoreError::not_sent(format!("the server is a {role}")))
            }
        }
    }

    /// Resolves once the primary is a server other than the one at `target`.
    pub(crate) async fn moved(&self, target: &Target) -> String {
        let mut word = self.word.subscribe();
        let other = |word: &Option<Word>| {
            let word = word.as_ref();
            word.is_some_and(|word| word.primary.address != target.address)
        };
        // The sender is in `self`, so there is no error.
        let _ = word.wait_for(other).await;
        "the sentinels have made another server the primary".to_owned()
    }

    /// Whether the connections to sentinels and servers use TLS.
    pub(crate) const fn speak_tls(&self) -> bool {
        self.watch.template.tls.is_some()
    }

    /// How to log in to the primary.
    pub(crate) const fn login(&self) -> &Login {
        &self.watch.template.login
    }

    /// The database on the primary.
    pub(crate) const fn database(&self) -> u8 {
        self.watch.template.database
    }

    /// Asks all sentinels again.
    pub(crate) fn doubt(&self) {
        self.doubts.notify_waiters();
    }

    /// A sentinel has named a primary.
    fn said(&self, number: usize, said: Word) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.insert(number, said);
        self.word.send_if_modified(|current| {
            let counts = counts(words.values(), current.as_ref());
            let news = counts != *current;
            if let Some(word) = counts.as_ref().filter(|_| news) {
                tracing::info!(sentinels = %self, primary = %word.primary, epoch = word.epoch, "primary");
            }
            *current = counts;
            news
        });
    }
}

/// The statement with the largest epoch. Sentinels may name different primaries in one epoch, when they know one server by
/// different addresses; then the current one stays.
fn counts<'a>(words: impl Iterator<Item = &'a Word>, current: Option<&Word>) -> Option<Word> {
    let latest = words.max_by_key(|word| {
        let stays = current.is_some_and(|current| current.primary == word.primary);
        (word.epoch, stays)
    });
    latest.cloned()
}

/// Listens to one sentinel forever.
async fn listen(sentinels: Arc<Sentinels>, number: usize, target: Target) {
    loop {
        let error = attend(&sentinels, number, &target).await;
        tracing::debug!(sentinel = %target, %error, "a sentinel is not heard");
        sentinels.trouble.send_modify(|trouble| {
            trouble.insert(number, error);
        });
        tokio::time::sleep(PAUSE).await;
    }
}

/// Listens until the connection is no longer usable, and returns why.
async fn attend(sentinels: &Sentinels, number: usize, target: &Target) -> StoreError {
    match attended(sentinels, number, target).await {
        Ok(why) | Err(why) => why,
    }
}

async fn attended(
    sentinels: &Sentinels,
    number: usize,
    target: &Target,
) -> Result<StoreError, StoreError> {
    let options = &sentinels.options;
    // A connection with subscriptions accepts no questions.
    let (questions, mut life) = Connection::open(target, options, None).await?;
    let spoken = Arc::new(Notify::new());
    let listener: Listener = {
        let spoken = Arc::clone(&spoken);
        // Whatever the message is, and however many were missed: only the answer to the question counts.
        Arc::new(move |_| spoken.notify_one())
    };
    let (ears, mut life_of_ears) = Connection::open(target, options, Some(listener)).await?;
    for subscribed in ears.change(&[(Verb::Subscribe, SWITCH)]).await? {
        subscribed?;
    }
    let mut pulse = pin!(ears.pulse());
    loop {
        // The first time for what happened before the subscription.
        ask(sentinels, number, &questions).await?;
        sentinels
            .trouble
            .send_if_modified(|trouble| trouble.remove(&number).is_some());
        tokio::select! {
            biased;
            why = life.end() => return Ok(StoreError::unknown(why)),
            why = life_of_ears.end() => return Ok(StoreError::unknown(why)),
            why = &mut pulse => return Ok(StoreError::unknown(why)),
            () = spoken.notified() => {}
            () = sentinels.doubts.notified() => {}
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Asks a sentinel which server is the primary, and in which epoch.
async fn ask(
    sentinels: &Sentinels,
    number: usize,
    connection: &Connection,
) -> Result<(), StoreError> {
    let service = &sentinels.watch.service;
    let question = Outgoing::plain("SENTINEL", ["MASTER", service.as_str()]);
    let patience = sentinels.options.connect_timeout;
    let texts = reply::texts(&connection.send(&question, patience).await?);
    let field = |name: &str| {
        let mut fields = texts.chunks_exact(2);
        let found = fields.find(|field| field[0] == name);
        found.map(|field| field[1].as_str())
    };
    let read = || {
        let address = Address::tcp(field("ip")?, field("port")?.parse().ok()?);
        Some(Word {
            epoch: field("config-epoch")?.parse().ok()?,
            primary: sentinels.watch.template.elsewhere(address),
        })
    };
    let word = read().ok_or_else(|| StoreError::unknown("the sentinel's answer cannot be read"))?;
    sentinels.said(number, word);
    Ok(())
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.watch.fmt(f)
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sentinels")
            .field("watch", &self.watch)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_testkit::until::PATIENCE;

    use super::*;

    fn sentinels() -> Sentinels {
        let template = Target::parse("redis://:secret@sentinel").unwrap();
        Sentinels {
            watch: Watch {
                service: "locks".to_owned(),
                sentinels: vec![template.clone()],
                template,
            },
            options: RedisOptions::new().connect_timeout(2 * PATIENCE),
            words: Mutex::default(),
            word: watch::Sender::new(None),
            trouble: watch::Sender::default(),
            doubts: Notify::new(),
        }
    }

    fn word(sentinels: &Sentinels, epoch: u64, host: &str) -> Word {
        let address = Address::tcp(host, 6379);
        let primary = sentinels.watch.template.elsewhere(address);
        Word { epoch, primary }
    }

    #[tokio::test]
    async fn a_sentinel_from_the_past_takes_nothing_back() {
        let sentinels = sentinels();
        let first = word(&sentinels, 3, "first");
        sentinels.said(0, first.clone());
        let old = sentinels.find().await.unwrap();
        assert_eq!(old, first.primary);
        sentinels.said(1, word(&sentinels, 4, "second"));
        sentinels.said(0, first);
        assert_eq!(sentinels.find().await.unwrap().to_string(), "second:6379");
        let moved = timeout(PATIENCE, sentinels.moved(&old)).await;
        assert!(moved.is_ok(), "nobody was told");
    }

    #[tokio::test]
    async fn sentinels_that_begin_anew_count_once_all_of_them_have() {
        let sentinels = sentinels();
        for number in 0..2 {
            sentinels.said(number, word(&sentinels, 9, "first"));
        }
        sentinels.said(0, word(&sentinels, 0, "second"));
        assert_eq!(sentinels.find().await.unwrap().to_string(), "first:6379");
        sentinels.said(1, word(&sentinels, 0, "second"));
        assert_eq!(sentinels.find().await.unwrap().to_string(), "second:6379");
    }

    #[tokio::test]
    async fn one_primary_by_two_addresses_is_not_left_again_and_again() {
        let sentinels = sentinels();
        for _ in 0..2 {
            sentinels.said(0, word(&sentinels, 3, "10.0.0.1"));
            sentinels.said(1, word(&sentinels, 3, "name"));
            assert_eq!(sentinels.find().await.unwrap().to_string(), "10.0.0.1:6379");
        }
    }

    #[tokio::test]
    async fn when_no_sentinel_is_heard_that_is_told_at_once() {
        let sentinels = sentinels();
        let refused = StoreError::refused("ERR No such master with that name");
        sentinels.trouble.send_modify(|trouble| {
            trouble.insert(0, refused);
        });
        let error = timeout(PATIENCE, sentinels.find()).await;
        assert_eq!(error.unwrap().unwrap_err().code(), Some("ERR"));
    }
}
