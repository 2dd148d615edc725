//! What a server lets its user do, and whether that is what locks need.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper_lua::{Status, server};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::exchange::Line;
use crate::name::{self, Name};
use crate::notify::presence::client_channel;
use crate::protocol::Item;
use crate::store::{Reply, Value};

/// How many commands the script asks about for the key.
const COMMANDS_ABOUT_KEYS: usize = 6;

/// The rules of `ACL SETUSER` that let a user have the locks of one namespace, and no key of another's.
#[derive(Debug)]
pub(crate) struct Rules {
    keys: String,
    /// Of the channels of names.
    names: String,
}

/// The rule of the channels on which clients are told of their claims.
const CLIENTS: &str = "&lockkeeper.client:*";

impl Rules {
    pub(crate) fn of(namespace: &str) -> Self {
        let derived = name::DERIVED;
        if namespace.is_empty() {
            // Its main keys are what the user calls them, and so may be anything.
            return Self {
                keys: format!("~{derived}* and the names themselves"),
                names: format!("&{derived}*"),
            };
        }
        let namespace = name::in_pattern(namespace);
        Self {
            keys: format!("~{namespace}:* ~{derived}*:{{{namespace}:*"),
            names: format!("&{derived}*:{{{namespace}:*"),
        }
    }

    /// What to do about a `NOPERM` of this text; `None` if it is about something else.
    pub(crate) fn remedy(&self, text: &str) -> Option<Arc<str>> {
        let Self { keys, names } = self;
        let remedy = match text {
            _ if text.contains("channel") => format!("allow the user {names} {CLIENTS}"),
            // Before the command, which that of a script mentions too.
            _ if text.contains("key") => {
                format!("allow the user {keys}, or set the namespace for which it has rights")
            }
            _ if text.contains("command") => "allow it to the user".to_owned(),
            _ => return None,
        };
        Some(remedy.into())
    }
}

/// The question, without the engine: it keeps no client alive.
pub(crate) struct Question {
    line: Arc<Line>,
    timeout: Duration,
    /// Of any name, the same for all.
    main: String,
    /// Channels, and the patterns of the rules that allow them.
    channels: [(String, String); 3],
}

impl Question {
    pub(crate) fn of(engine: &Engine) -> Result<Self> {
        let name = Name::new(&engine.settings.namespace, "rights")?;
        let of_name = |sort| (name.part(sort), engine.line.rules.names.clone());
        Ok(Self {
            line: Arc::clone(&engine.line),
            timeout: engine.settings.request_timeout,
            main: name.main().to_owned(),
            channels: [
                of_name("wake"),
                of_name("grant"),
                (client_channel(engine.id), CLIENTS.to_owned()),
            ],
        })
    }

    /// Asks, and reads the answer.
    pub(crate) async fn put(&self) -> Result<Vec<String>> {
        let item = || {
            let channels = self.channels.iter().map(|(channel, _)| channel);
            let args = [&self.main].into_iter().chain(channels).cloned();
            Item::new(&server::RIGHTS, [], args)
        };
        let reply = self.line.run(item, self.timeout).await;
        let reply = reply.map_err(|error| Error::backend("ask for rights", error))?;
        self.rules(&reply).ok_or_else(|| Error::Protocol {
            name: String::new(),
            message: format!("an unexpected answer, {}", reply.status().as_str()),
        })
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
        // Who may do nothing at all with this key may be one for other names.
        if about_keys.len() < COMMANDS_ABOUT_KEYS {
            rules.extend(about_keys);
        }
        rules.sort_unstable();
        rules.dedup();
        Some(rules)
    }

    /// Asks, and logs a warning if something is missing.
    pub(crate) async fn warn(self) {
        let server = self.line.store.address();
        match self.put().await {
            Ok(rules) if rules.is_empty() => {
                tracing::debug!(%server, "asked for the rights of this user");
            }
            Ok(rules) => {
                let rules = rules.join(" ");
                tracing::warn!(
                    %server,
                    about = "rights",
                    "locks are refused to this user, or heard of late: allow it {rules}"
                );
            }
            Err(Error::Backend { cause, .. }) if cause.code() == Some("NOPERM") => {
                tracing::warn!(%server, about = "rights", "locks are refused to this user: {cause}");
            }
            Err(error) => {
                tracing::debug!(%server, %error, "the server did not tell the rights of this user");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rules_of_the_namespace() {
        let billing = Rules::of("billing");
        for (text, remedy) in [
            (
                "NOPERM this user has no permissions to access one of the keys used as arguments",
                "allow the user ~billing:* ~lockkeeper.*:{billing:*, or set the namespace for which it has rights",
            ),
            (
                "NOPERM The user executing the script can't access at least one of the keys mentioned in the command arguments",
                "allow the user ~billing:* ~lockkeeper.*:{billing:*, or set the namespace for which it has rights",
            ),
            (
                "NOPERM this user has no permissions to access one of the channels used as arguments",
                "allow the user &lockkeeper.*:{billing:* &lockkeeper.client:*",
            ),
            (
                "NOPERM this user has no permissions to run the 'evalsha' command",
                "allow it to the user",
            ),
        ] {
            assert_eq!(billing.remedy(text).as_deref(), Some(remedy), "{text}");
        }
        assert_eq!(billing.remedy("NOPERM"), None);
    }

    #[test]
    fn a_namespace_stands_for_itself_in_its_rules() {
        assert_eq!(Rules::of("b*").keys, r"~b\*:* ~lockkeeper.*:{b\*:*");
        assert_eq!(Rules::of("").names, "&lockkeeper.*");
    }
}
