//! One connection, with either library: the requests to a server, and how a silent server is noticed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper_core::store::StoreError;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::credentials::{Credentials, Session};
use crate::failure;
use crate::native;
use crate::options::RedisOptions;
use crate::reply;
use crate::request::Outgoing;
use crate::sharding;
use crate::target::Target;
use crate::wire::{self, Answer, Change, Changed, Lifeline, Listener, Wire};

/// How long a connection that is being closed may take to finish the requests under way.
const QUIT_PATIENCE: Duration = Duration::from_secs(1);

/// The callers' half. The owner has a [`Lifeline`].
pub(crate) struct Connection {
    wire: Wire,
    target: Target,
    /// Only for a login that may change.
    session: Option<Session>,
    condemned: Notify,
    connect_timeout: Duration,
    silence_timeout: Duration,
    sharded: bool,
    listens: bool,
    resp3: bool,
}

/// What to do about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Subscribe,
    Unsubscribe,
    /// Unsubscribe because the slot has moved, which by itself ends a sharded subscription.
    Abandon,
}

impl Connection {
    /// Asks for credentials, connects, logs in, selects the database and waits for a first `PONG`, all within the connect timeout.
    /// With a listener it is a connection for messages.
    ///
    /// Dropping the future closes every connection that was opened.
    pub(crate) async fn open(
        target: &Target,
        options: &RedisOptions,
        listener: Option<Listener>,
    ) -> Result<(Arc<Self>, Lifeline), StoreError> {
        let listens = listener.is_some();
        let begun = Instant::now();
        let patience = options.connect_timeout;
        let credentials = target.login.credentials(patience).await?;
        let left = patience.saturating_sub(begun.elapsed());
        let opened = Wire::open(target, credentials.as_ref(), options, listener);
        let opened = timeout(left, opened).await;
        let opened = opened.map_err(|_| failure::late(patience))?;
        let opened = opened.map_err(|error| match &credentials {
            Some(credentials) => credentials.hidden_in(error),
            None => error,
        })?;
        let changes = target.login.changes();
        let session = credentials.filter(|_| changes);
        let connection = Self {
            wire: opened.wire,
            target: target.clone(),
            session: session.map(|credentials| Session::new(target.login.clone(), credentials)),
            condemned: Notify::new(),
            connect_timeout: options.connect_timeout,
            silence_timeout: options.silence_timeout,
            sharded: opened.hello.as_ref().is_ok_and(sharding::has_sharded),
            listens,
            resp3: options.resp3,
        };
        Ok((Arc::new(connection), opened.lifeline))
    }

    /// Whether messages on this channel are sharded here, both to publish and to subscribe.
    pub(crate) fn shards(&self, channel: &str) -> bool {
        self.sharded && sharding::is_of_a_name(channel)
    }

    /// Sends one request, worded for this server, and waits for its answer.
    ///
    /// It is queued when the future is first polled: nothing is awaited before that.
    pub(crate) async fn send(&self, request: &Outgoing, patience: Duration) -> Answer {
        let answer = self.wire.request(request, self.sharded, patience).await;
        self.notice(native::answer(request, answer))
    }

    /// The same, directly after an `ASKING`, on a connection that only this caller uses meanwhile.
    pub(crate) async fn send_asking(&self, request: &Outgoing, patience: Duration) -> Answer {
        let wire = &self.wire;
        let answer = wire.request_asking(request, self.sharded, patience).await;
        self.notice(native::answer(request, answer))
    }

    /// Sends a request that no caller asks for. In a box, or the tasks that keep connections would be as large as that for their whole
    /// lives.
    pub(crate) async fn ask(&self, request: &Outgoing) -> Answer {
        Box::pin(self.send(request, self.silence_timeout)).await
    }

    /// If the server no longer knows the login, starts a new login.
    fn notice(&self, answer: Answer) -> Answer {
        answer.inspect_err(|error| {
            if let (Some(session), Some("NOAUTH")) = (&self.session, error.code()) {
                session.forget();
            }
        })
    }

    /// Waits for new credentials; returns them, or why there are none. Never resolves if the login does not change.
    pub(crate) async fn renewed_credentials(&self) -> Result<Credentials, StoreError> {
        let Some(session) = &self.session else {
            return std::future::pending().await;
        };
        loop {
            if let Some(credentials) = session.renewed(self.connect_timeout).await? {
                return Ok(credentials);
            }
        }
    }

    /// Logs in anew; if that fails, nothing changes.
    pub(crate) async fn authenticate(&self, credentials: Credentials) -> Result<(), StoreError> {
        let user = credentials.user.as_deref();
        let words = user.into_iter().chain([credentials.password.as_str()]);
        let login = Outgoing::plain("AUTH", words);
        match (self.ask(&login).await, &self.session) {
            (Ok(_), Some(session)) => session.accepted(credentials),
            (Ok(_), None) => {}
            (Err(error), _) => {
                self.not_renewed();
                return Err(credentials.hidden_in(error));
            }
        }
        Ok(())
    }

    /// The new credentials did not work: they are asked for again after a pause.
    pub(crate) fn not_renewed(&self) {
        if let Some(session) = &self.session {
            session.failed();
        }
    }

    /// Whether it can log in anew while it lives. In RESP2, a connection with subscriptions cannot.
    pub(crate) const fn can_authenticate(&self) -> bool {
        self.resp3 || !self.listens
    }

    /// Whether its credentials are about to expire, for a connection without a task that logs it in anew.
    pub(crate) fn is_outdated(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_due)
    }

    /// Changes subscriptions; returns the result of each. An error means that the connection is no longer usable.
    pub(crate) async fn change(
        &self,
        changes: &[(Verb, &str)],
    ) -> Result<Vec<Changed>, StoreError> {
        let change = |&(verb, channel): &(Verb, _)| match (verb, self.shards(channel)) {
            (Verb::Subscribe, false) => Change::Subscribe(channel),
            (Verb::Subscribe, true) => Change::SubscribeSharded(channel),
            (Verb::Unsubscribe | Verb::Abandon, false) => Change::Unsubscribe(channel),
            (Verb::Unsubscribe | Verb::Abandon, true) => Change::UnsubscribeSharded(channel),
        };
        let changes: Vec<Change<'_>> = changes.iter().map(change).collect();
        self.wire.change(&changes, self.silence_timeout).await
    }

    /// Asks for an echo, which shows that the server lives and that every earlier answer went to its own request. An error reply is
    /// a sign of life too: the server is loading, or busy with a script.
    async fn echo(&self) -> Result<(), StoreError> {
        if self.listens {
            return self.change(&[]).await.map(drop);
        }
        let nonce = wire::nonce();
        let ping = Outgoing::plain("PING", [nonce.as_str()]);
        match self.ask(&ping).await {
            Ok(echo) if reply::is_pong(&echo, &nonce) => Ok(()),
            Ok(_) => Err(wire::out_of_step()),
            Err(error) if wire::is_refusal(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns when the idle connection is no longer usable, with the reason.
    pub(crate) async fn pulse(&self) -> String {
        loop {
            tokio::time::sleep(self.silence_timeout).await;
            if let Err(error) = self.echo().await {
                return error.to_string();
            }
        }
    }

    /// How long the server may take to answer.
    pub(crate) const fn silence_timeout(&self) -> Duration {
        self.silence_timeout
    }

    /// The server that it is connected to.
    pub(crate) const fn target(&self) -> &Target {
        &self.target
    }

    /// Asks the owner to replace this connection.
    pub(crate) fn condemn(&self) {
        self.condemned.notify_one();
    }

    /// Resolves once somebody has condemned the connection.
    pub(crate) async fn condemned(&self) {
        self.condemned.notified().await;
    }

    /// Lets the requests under way finish, within a limit, and sends `QUIT` to the server.
    pub(crate) async fn quit(&self) {
        // Whatever the result, the lifeline is dropped next.
        let _ = timeout(QUIT_PATIENCE, Box::pin(self.wire.end())).await;
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}
