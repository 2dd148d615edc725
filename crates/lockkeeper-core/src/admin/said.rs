//! Labels of clients and notes of claims, for people who inspect.

use std::collections::BTreeMap;

use lockkeeper_lua::{Status, client};

use crate::admin::question::{Question, unexpected};
use crate::engine::Engine;
use crate::engine::settings::LONGEST_LABEL;
use crate::engine::subscriptions::presence::{client_key, note_key};
use crate::seam::protocol::ScriptCall;
use crate::seam::store::Value;
use crate::words::error::Result;
use crate::words::name::Name;
use crate::words::owner::Owner;

/// How many labels and notes of one client one script asks for.
const ASKED_TOGETHER: usize = 100;

/// The labels and notes that are stored under the keys of clients and claims.
#[derive(Debug)]
pub(super) struct Said {
    namespace: String,
    texts: BTreeMap<String, String>,
}

impl Said {
    /// Reads the labels and notes of these claims, with one request per client and a hundred of them.
    pub(super) async fn by(
        engine: &Engine,
        name: &Name,
        claims: impl Iterator<Item = (Option<Owner>, &str)>,
    ) -> Result<Self> {
        let namespace = engine.settings.namespace.clone();
        let mut clients: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (owner, claim) in claims {
            let Some(owner) = owner else { continue };
            let client = client_key(&namespace, owner.client());
            let note = note_key(&client, claim);
            let keys = clients
                .entry(client)
                .or_insert_with_key(|it| vec![it.clone()]);
            keys.push(note);
        }
        let mut texts = BTreeMap::new();
        for keys in clients
            .values()
            .flat_map(|keys| keys.chunks(ASKED_TOGETHER))
        {
            let said = |key: &String| ScriptCall::new(&client::SAID, [key], ScriptCall::NONE);
            let Some(all) = ScriptCall::batch(keys.iter().map(said)) else {
                continue;
            };
            let item = || all.clone();
            let (reply, _) = Question::INSPECT.ask(engine, name, item).await?;
            if reply.status() != Status::Done {
                return Err(unexpected(name, &reply));
            }
            for (key, outcome) in keys.iter().zip(reply.fields()) {
                if let Value::List(known) = outcome
                    && let Some(text) = known.get(1).and_then(Value::as_str)
                {
                    texts.insert(key.clone(), as_label(text));
                }
            }
        }
        Ok(Self { namespace, texts })
    }

    /// The label of the owner's client, and the note of the claim.
    pub(super) fn of(&self, owner: Option<Owner>, claim: &str) -> (Option<String>, Option<String>) {
        let Some(owner) = owner else {
            return (None, None);
        };
        let client = client_key(&self.namespace, owner.client());
        let note = self.texts.get(&note_key(&client, claim));
        (self.texts.get(&client).cloned(), note.cloned())
    }
}

/// A label, cut to the length that a client may write. Only another program can have written a longer one.
fn as_label(text: &str) -> String {
    if text.len() <= LONGEST_LABEL {
        return text.to_owned();
    }
    let mut ends = (0..=LONGEST_LABEL).rev();
    let end = ends.find(|&end| text.is_char_boundary(end));
    text[..end.unwrap_or_default()].to_owned() + "…"
}
