//! The access rules (ACL) that a namespace needs.

use std::sync::Arc;

use crate::words::name;
use crate::words::store_error::StoreError;

/// The rules for `ACL SETUSER` that give a user the locks of one namespace, and no key of another.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) keys: String,
    /// For the channels of names.
    pub(crate) names: String,
}

/// The rule for the channels on which clients are notified about their claims.
pub(crate) const CLIENTS: &str = "&lockkeeper.client:*";

impl Rules {
    pub(crate) fn of(namespace: &str) -> Self {
        let derived = name::DERIVED;
        if namespace.is_empty() {
            // Its main keys are the names themselves, and so can be anything.
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

    /// Adds advice to the error if a missing right is its cause. The server's message names a command, but no keys or
    /// channels.
    pub(crate) fn advise(&self, error: StoreError) -> StoreError {
        match error.code() {
            Some("NOPERM") => {
                let remedy = self.remedy(error.message());
                error.with_remedy(remedy)
            }
            _ => error,
        }
    }

    /// What to do about a `NOPERM` error with this text; `None` if the text is unknown.
    fn remedy(&self, text: &str) -> Option<Arc<str>> {
        let Self { keys, names } = self;
        let remedy = match text {
            _ if text.contains("channel") => format!("allow the user {names} {CLIENTS}"),
            // Checked before "command", because the message about a script's keys mentions commands too.
            _ if text.contains("key") => {
                format!("allow the user {keys}, or set the namespace for which it has rights")
            }
            _ if text.contains("command") => "allow the user this command".to_owned(),
            _ => return None,
        };
        Some(remedy.into())
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
                "allow the user this command",
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
