//! Checks whether the rights of the client's user are enough for locks.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_lua::{Status, server};

use crate::engine::Engine;
use crate::engine::requester::Requester;
use crate::engine::subscriptions::presence::client_channel;
use crate::seam::protocol::ScriptCall;
use crate::seam::store::{Reply, Value};
use crate::words::error::{Error, Result};
use crate::words::name::Name;
use crate::words::rules::CLIENTS;

/// How many commands the script asks about for the key.
const COMMANDS_ABOUT_KEYS: usize = 6;

/// The question to the server. It does not contain the engine, so that it keeps no client alive.
pub(crate) struct Question {
    requester: Arc<Requester>,
    timeout: Duration,
    /// The main key of an arbitrary name, always the same.
    main: String,
    /// Channels, and the patterns of the rules that would allow them.
    channels: [(String, String); 3],
}

impl Question {
    pub(crate) fn of(engine: &Engine) -> Result<Self> {
        let name = Name::new(&engine.settings.namespace, "rights")?;
        let of_name = |sort| (name.part(sort), engine.requester.rules.names.clone());
        Ok(Self {
            requester: Arc::clone(&engine.requester),
            timeout: engine.settings.request_timeout,
            main: name.main().to_owned(),
            channels: [
                of_name("wake"),
                of_name("grant"),
                (client_channel(engine.id), CLIENTS.to_owned()),
            ],
        })
    }

    /// Asks the server and reads the answer.
    pub(crate) async fn put(&self) -> Result<Vec<String>> {
        let item = || {
            let channels = self.channels.iter().map(|(channel, _)| channel);
            let args = [&self.main].into_iter().chain(channels);
            ScriptCall::new(&server::RIGHTS, ScriptCall::NONE, args)
        };
        let reply = self.requester.run(item, self.timeout).await;
        let reply = reply.map_err(|error| Error::backend("ask for rights", error))?;
        let rules = self.rules(&reply);
        rules.ok_or_else(|| Error::unexpected("", reply.status().as_str()))
    }

    /// The rules that would allow what is missing.
    fn rules(&self, reply: &Reply) -> Option<Vec<String>> {
        let (Status::Rights, Some(Value::List(missing))) = (reply.status(), reply.field(0)) else {
            return None;
        };
        let mut about_keys = Vec::new();
        let mut rules = Vec::new();
        for entry in missing {
            let Value::List(fields) = entry else {
                return None;
            };
            let command = format!("+{}", fields.first()?.as_str()?.to_lowercase());
            match fields.get(1) {
                None => rules.push(command),
                Some(what) if what.as_str() == Some(self.main.as_str()) => about_keys.push(command),
                Some(what) => {
                    let mut channels = self.channels.iter();
                    let found = channels.find(|it| Some(it.0.as_str()) == what.as_str())?;
                    rules.extend([command, found.1.clone()]);
                }
            }
        }
        // A user without any right to this key may have rights to other names.
        if about_keys.len() < COMMANDS_ABOUT_KEYS {
            rules.extend(about_keys);
        }
        rules.sort_unstable();
        rules.dedup();
        Some(rules)
    }

    /// Asks the server, and logs a warning if something is missing.
    pub(crate) async fn warn(self) {
        let server = self.requester.store.address();
        match self.put().await {
            Ok(rules) if rules.is_empty() => {
                tracing::debug!(%server, "found no missing rights of this user");
            }
            Ok(rules) => {
                let rules = rules.join(" ");
                tracing::warn!(
                    %server,
                    about = "rights",
                    "this user lacks rights, so locks fail or notice messages late: allow the user {rules}"
                );
            }
            Err(Error::Backend { cause, .. }) if cause.code() == Some("NOPERM") => {
                tracing::warn!(%server, about = "rights", "this user may not use locks: {cause}");
            }
            Err(error) => {
                tracing::debug!(%server, %error, "could not check the rights of this user");
            }
        }
    }
}
