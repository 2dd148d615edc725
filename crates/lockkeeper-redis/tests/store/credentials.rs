//! Credentials that change while a store lives.
//!
//! Servers show the user of a connection, and not its password. So these tests change the user.

use std::error::Error as StdError;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockkeeper_core::store::{Event, Form, Outcome, Store, StoreError};
use lockkeeper_core::{Error, Result};
use lockkeeper_lua::Status;
use lockkeeper_redis::{Credentials, CredentialsProvider, RedisOptions, RedisStore};
use lockkeeper_testkit::cluster::Cluster;
use lockkeeper_testkit::sentinel::Watched;
use lockkeeper_testkit::server::Server;
use lockkeeper_testkit::until::PATIENCE;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use crate::support::{Liar, acquire, bounded, eventually, options, until, verify};

/// When the credentials of these tests expire.
const TERM: Duration = Duration::from_millis(900);

/// A provider that returns what the test sets.
#[derive(Clone, Default)]
struct Giver(Arc<Mutex<Given>>);

#[derive(Default)]
struct Given {
    /// The user to log in as, with the password `pw`; `None` is a failure.
    user: Option<&'static str>,
    expires_in: Option<Duration>,
    asked: usize,
}

impl Giver {
    fn of(user: &'static str) -> Self {
        let giver = Self::default();
        giver.give(user);
        giver
    }

    fn expiring(user: &'static str) -> Self {
        let giver = Self::of(user);
        giver.0.lock().unwrap().expires_in = Some(TERM);
        giver
    }

    fn give(&self, user: &'static str) {
        self.0.lock().unwrap().user = Some(user);
    }

    fn fail(&self) {
        self.0.lock().unwrap().user = None;
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked
    }
}

impl CredentialsProvider for Giver {
    async fn credentials(&self) -> Result<Credentials, Box<dyn StdError + Send + Sync>> {
        let mut given = self.0.lock().unwrap();
        given.asked += 1;
        let user = given.user.ok_or("the vault is sealed")?;
        let credentials = Credentials::new("pw").user(user);
        Ok(match given.expires_in {
            Some(time) => credentials.expires_in(time),
            None => credentials,
        })
    }
}

const USERS: [&str; 2] = ["user ann on >pw ~* &* +@all", "user bob on >pw ~* &* +@all"];

async fn start() -> Server {
    let [ann, bob] = USERS;
    let options = Server::options().configuration(ann).configuration(bob);
    options.start().await.unwrap()
}

async fn connect(options: RedisOptions, server: &Server, giver: &Giver) -> RedisStore {
    let url = format!("redis://{}", server.address());
    let options = options.credentials(giver.clone());
    options.connect(&url).await.unwrap()
}

/// Number and user of each connection by TCP, those for scripts before those for messages.
async fn logins(server: &Server) -> Vec<(u64, String)> {
    let list = server.command(&["CLIENT", "LIST"]).await.unwrap();
    let list = list.into_text().unwrap();
    let mut logins: Vec<(bool, u64, String)> = list
        .lines()
        // The others are replicas and sentinels.
        .filter(|line| line.contains(" laddr=127.0.0.1:") && !line.contains(" user=default "))
        .map(|line| {
            let field = |name: &str| {
                let mut fields = line.split(' ').filter_map(|field| field.split_once('='));
                fields.find(|(key, _)| *key == name).unwrap().1.to_owned()
            };
            let listens = field("sub") != "0";
            (listens, field("id").parse().unwrap(), field("user"))
        })
        .collect();
    logins.sort();
    logins.into_iter().map(|(_, id, user)| (id, user)).collect()
}

/// Waits until there are two connections, both of `user`.
async fn logged_in(server: &Server, user: &str) -> [u64; 2] {
    let mut numbers = [0; 2];
    eventually(
        "both connections are logged in anew",
        async || match &logins(server).await[..] {
            [(scripts, one), (messages, other)] if one == user && other == user => {
                numbers = [*scripts, *messages];
                true
            }
            _ => false,
        },
    )
    .await;
    numbers
}

fn so_far(events: &mut UnboundedReceiver<Event>) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

/// Connections log in anew while they live, and every message that is published meanwhile is heard.
async fn logs_in_anew(resp3: bool) {
    let server = start().await;
    let giver = Giver::expiring("ann");
    let store = connect(options().resp3(resp3), &server, &giver).await;
    let mut events = store.events().unwrap();
    store.subscribe("channel").await.unwrap();
    let reply = store.call(acquire("name", "a", Form::Source)).await;
    assert_eq!(reply.unwrap().status(), Status::Granted);
    let [scripts, messages] = logged_in(&server, "ann").await;

    giver.give("bob");
    let mut published = 0;
    let numbers = tokio::select! {
        numbers = logged_in(&server, "bob") => numbers,
        () = async {
            loop {
                let payload = published.to_string();
                let heard = server.command(&["PUBLISH", "channel", &payload]).await;
                assert!(heard.unwrap().into_integer().unwrap() > 0, "nobody listens");
                published += 1;
                store.call(verify("name", "a", Form::Source)).await.unwrap();
            }
        } => unreachable!(),
    };
    assert_eq!(numbers[0], scripts, "the connection for scripts is another");
    assert_eq!(
        numbers[1] == messages,
        resp3,
        "RESP3 alone has a word for it"
    );
    let end = ["PUBLISH", "channel", "end"];
    server.command(&end).await.unwrap();
    let mut heard = so_far(&mut events);
    while heard.last() != Some(&Event::message("channel", "end")) {
        heard.push(events.recv().await.unwrap());
    }
    assert!(
        !heard.contains(&Event::Disconnected),
        "a connection was lost"
    );
    for number in 0..published {
        let message = Event::message("channel", number.to_string());
        assert!(heard.contains(&message), "{number} was not heard");
    }
    // Waiters on a new connection are told to poll.
    assert_eq!(heard.contains(&Event::Reconnected), !resp3);
    // The new connection can do everything that the old one could.
    store.subscribe("another").await.unwrap();
    store.unsubscribe("channel").await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn connections_that_live_are_logged_in_anew_before_their_credentials_expire() {
    bounded(logs_in_anew(false)).await;
}

#[tokio::test]
async fn in_resp3_no_connection_is_made_anew_for_that() {
    bounded(logs_in_anew(true)).await;
}

#[tokio::test]
async fn a_provider_that_fails_costs_no_connection() {
    bounded(async {
        let server = start().await;
        let giver = Giver::expiring("ann");
        let store = connect(options(), &server, &giver).await;
        let mut events = store.events().unwrap();
        store.subscribe("channel").await.unwrap();
        let before = logged_in(&server, "ann").await;
        giver.fail();
        let asked = giver.asked();
        // Both connections, twice.
        eventually("it is asked again", async || giver.asked() >= asked + 4).await;
        assert_eq!(logged_in(&server, "ann").await, before);
        // Nor does a provider that gives wrong credentials.
        giver.give("nobody");
        let asked = giver.asked();
        eventually("it is asked again", async || giver.asked() >= asked + 2).await;
        assert_eq!(logged_in(&server, "ann").await, before);
        assert_eq!(so_far(&mut events), []);
        store.call(verify("name", "a", Form::Source)).await.unwrap();
        giver.give("bob");
        logged_in(&server, "bob").await;
    })
    .await;
}

#[tokio::test]
async fn credentials_that_stay_are_not_sent_again() {
    bounded(async {
        let server = start().await;
        let giver = Giver::expiring("ann");
        let _store = connect(options(), &server, &giver).await;
        let before = server.commandstats("auth").await.unwrap();
        let asked = giver.asked();
        eventually("it is asked again", async || giver.asked() >= asked + 4).await;
        assert_eq!(server.commandstats("auth").await.unwrap(), before);
    })
    .await;
}

fn cause(error: Error) -> StoreError {
    match error {
        Error::Backend { cause, .. } => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_gets_no_credentials_is_told_so_at_once() {
    bounded(async {
        let server = start().await;
        let url = format!("redis://{}", server.address());
        let giver = Giver::default();
        let error = options().credentials(giver.clone()).connect(&url).await;
        let error = error.unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.contains("there are no credentials: the vault is sealed"),
            "{shown}"
        );
        assert!(error.is_transient());
        assert_eq!(cause(error).outcome(), Outcome::NotSent);

        let slow = options()
            .connect_timeout(Duration::from_millis(200))
            .credentials(std::future::pending::<Result<_, _>>);
        let connecting = timeout(PATIENCE, slow.connect(&url)).await;
        let shown = connecting.expect("connecting hangs").unwrap_err();
        let shown = shown.to_string();
        assert!(
            shown.contains("no credentials were given within 200ms"),
            "{shown}"
        );

        giver.give("nobody");
        let error = options()
            .credentials(giver)
            .connect(&url)
            .await
            .unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(
            shown.contains("the credentials that were given are wrong"),
            "{shown}"
        );
        assert_eq!(cause(error).code(), Some("WRONGPASS"));
    })
    .await;
}

#[tokio::test]
async fn a_store_that_may_connect_later_waits_for_credentials() {
    bounded(async {
        let server = start().await;
        let giver = Giver::default();
        let options = options().credentials(giver.clone());
        let url = format!("redis://{}", server.address());
        let store = options.connect_later(&url).await.unwrap();
        eventually("calls say why", async || {
            let error = store.call(verify("name", "a", Form::Source)).await;
            error
                .unwrap_err()
                .to_string()
                .contains("the vault is sealed")
        })
        .await;
        giver.give("ann");
        eventually("it is connected", async || {
            store.call(verify("name", "a", Form::Source)).await.is_ok()
        })
        .await;
    })
    .await;
}

/// A file that belongs to one test and is deleted with it.
struct Secret(PathBuf);

impl Secret {
    fn new(server: &Server) -> Self {
        Self(server.file("pass word").into())
    }

    fn write(&self, password: &str) {
        std::fs::write(&self.0, format!("{password}\n")).unwrap();
    }

    fn url(&self, server: &Server) -> String {
        let file = self.0.display().to_string().replace(' ', "%20");
        format!("redis://ann@{}?password-file={file}", server.address())
    }
}

#[tokio::test]
async fn a_password_file_is_read_again_for_each_connection() {
    bounded(async {
        let server = start().await;
        let secret = Secret::new(&server);
        let url = secret.url(&server);
        let error = options().connect(&url).await.unwrap_err().to_string();
        let expected = "pass word cannot be read: No such file or directory";
        assert!(error.contains(expected), "{error}");

        secret.write("pw");
        let store = options().connect(&url).await.unwrap();
        let mut events = store.events().unwrap();
        let rotate = ["ACL", "SETUSER", "ann", "resetpass", ">hunter2"];
        server.command(&rotate).await.unwrap();
        let kill = ["CLIENT", "KILL", "USER", "ann"];
        server.command(&kill).await.unwrap();
        eventually("calls say why", async || {
            let error = store.call(verify("name", "a", Form::Source)).await;
            let text = error.unwrap_err().to_string();
            assert!(!text.contains("hunter2"), "{text}");
            text.contains("WRONGPASS") && text.contains("not yet known to the server")
        })
        .await;
        secret.write("hunter2");
        until(&mut events, &Event::Reconnected).await;
        store.call(verify("name", "a", Form::Source)).await.unwrap();
        assert!(!format!("{store:?}").contains("hunter2"));
    })
    .await;
}

/// A server that has forgotten its logins, as a proxy in front of one may.
#[tokio::test]
async fn a_connection_that_the_server_does_not_know_any_more_is_logged_in_again() {
    bounded(async {
        let logins = Arc::new(Mutex::new(0));
        let count = Arc::clone(&logins);
        let liar = Liar::start(move |_, command| {
            let mut logins = count.lock().unwrap();
            match command[0].to_ascii_uppercase().as_str() {
                "AUTH" => {
                    *logins += 1;
                    None
                }
                // Both connections have logged in once.
                "EVALSHA" if *logins == 2 => {
                    Some("-NOAUTH Authentication required.\r\n".to_owned())
                }
                _ => None,
            }
        })
        .await;
        let giver = Giver::of("ann");
        let options = options().credentials(giver);
        let store = options.connect(&liar.url()).await.unwrap();
        let refused = store.call(verify("name", "a", Form::Sha)).await;
        assert_eq!(refused.unwrap_err().code(), Some("NOAUTH"));
        eventually("it is known again", async || {
            store.call(verify("name", "a", Form::Sha)).await.is_ok()
        })
        .await;
        assert_eq!(*logins.lock().unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_shows_the_password_is_not_quoted() {
    bounded(async {
        let liar = Liar::start(|_, command| match command[0].as_str() {
            "AUTH" => Some(format!(
                "-ERR unknown command 'AUTH', with args beginning with: '{}' \r\n",
                command[1..].join("' '")
            )),
            _ => None,
        })
        .await;
        let url = liar.url().replace("://", "://ann:hunter2@");
        let error = options().connect(&url).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains("unknown command 'AUTH'"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn every_node_of_a_cluster_and_a_watched_primary_are_logged_in_to_by_the_provider() {
    bounded(async {
        let cluster = Cluster::options()
            .configuration(USERS[0])
            .configuration(USERS[1]);
        let cluster = cluster.start().await.unwrap();
        let giver = Giver::expiring("ann");
        let store = options().credentials(giver.clone());
        let store = store.connect(&cluster.url()).await.unwrap();
        for name in ["{a}", "{b}", "{c}", "{d}"] {
            let reply = store.call(acquire(name, "a", Form::Source)).await;
            assert_eq!(reply.unwrap().status(), Status::Granted);
            store.subscribe(name).await.unwrap();
        }
        giver.give("bob");
        for node in cluster.primaries().await.unwrap() {
            logged_in(&cluster.nodes()[node], "bob").await;
        }
        store.close().await;

        let watched = Watched::pooled().await.unwrap();
        for server in watched.servers() {
            let user = ["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all"];
            server.command(&user).await.unwrap();
        }
        let store = options().credentials(Giver::of("ann"));
        let store = store.connect(&watched.url()).await.unwrap();
        let reply = store.call(acquire("name", "a", Form::Source)).await;
        assert_eq!(reply.unwrap().status(), Status::Granted);
        let primary = &watched.servers()[watched.primary().await.unwrap()];
        let users = logins(primary).await;
        let of_ann = users.iter().filter(|(_, user)| user == "ann");
        assert_eq!(of_ann.count(), 2, "{users:?}");
        store.close().await;
        for server in watched.servers() {
            server.command(&["ACL", "DELUSER", "ann"]).await.unwrap();
        }
    })
    .await;
}

/// Holds a lock as ann, in ann's own database.
async fn works_as_ann(server: &Server, store: RedisStore, sort: &str) {
    let reply = store.call(acquire(sort, "a", Form::Source)).await;
    assert_eq!(reply.unwrap().status(), Status::Granted, "{sort}");
    store.subscribe("channel").await.unwrap();
    logged_in(server, "ann").await;
    let kept = server.command_in(3, &["EXISTS", sort]).await.unwrap();
    assert_eq!(kept.into_integer().unwrap(), 1, "{sort}");
    store.close().await;
}

#[cfg(feature = "redis-rs")]
#[tokio::test]
async fn a_store_has_the_settings_of_a_client_of_redis_rs() {
    bounded(async {
        let server = start().await;
        let url = format!("redis://ann:pw@{}/3", server.address());
        let client = redis::Client::open(url).unwrap();
        let store = RedisOptions::new().connect_redis_rs(client.get_connection_info());
        works_as_ann(&server, store.await.unwrap(), "redis-rs").await;
        // With a provider as well, it is ambiguous which of the two counts.
        let options = RedisOptions::new().credentials(Giver::of("bob"));
        let error = options.connect_redis_rs(client.get_connection_info()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains("leave one of them out"), "{error}");
    })
    .await;
}

#[cfg(feature = "fred")]
#[tokio::test]
async fn a_store_has_the_settings_of_a_client_of_fred() {
    bounded(async {
        let server = start().await;
        let url = format!("redis://ann:pw@{}/3", server.address());
        let config = fred::types::config::Config::from_url(&url).unwrap();
        let store = RedisOptions::new().connect_fred(&config).await.unwrap();
        works_as_ann(&server, store, "fred").await;
    })
    .await;
}
