//! Names of locks and the keys and channels that belong to them.

use std::fmt;
use std::sync::Arc;

use crate::words::error::{Error, Result};
use crate::words::owner::ClaimId;
use crate::words::slot::{hash_tag, number_behind, slot_of};

/// The longest name, in bytes. Keys of this size still compare and hash fast, and a longer name is surely a mistake.
const LONGEST: usize = 1024;

/// The prefix of derived keys. A main key must not begin with it, or two names could share a key.
pub(crate) const DERIVED: &str = "lockkeeper.";

/// The name of a lock, and the keys that belong to it. Its main key is `<namespace>:<name>`.
///
/// All keys of a name are in one slot of a cluster. Names with the same Redis hash tag (`{…}`) share a slot.
///
/// # Examples
///
/// ```
/// use lockkeeper_core::Name;
///
/// let name = Name::new("lockkeeper", "invoice:42")?;
/// assert_eq!(name.main(), "lockkeeper:invoice:42");
/// assert_eq!(name.part("queue"), "lockkeeper.queue:{lockkeeper:invoice:42}");
///
/// let tagged = Name::new("lockkeeper", "{customer:7}:a")?;
/// assert_eq!(tagged.part("queue"), "lockkeeper.queue.{customer:7}:{lockkeeper:{{customer:7}:a}");
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    main: Arc<str>,
    /// Where the user's part of `main` begins.
    user: usize,
    slot: u16,
}

impl Name {
    /// The name `name` in `namespace`. With an empty namespace the name itself is the main key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if:
    ///
    /// - the name is empty, or the name or the namespace is longer than 1,024 bytes;
    /// - the name has braces other than those of one hash tag;
    /// - the namespace has a colon or a brace in it;
    /// - the main key could be mistaken for a derived key.
    pub fn new(namespace: &str, name: &str) -> Result<Self> {
        check_namespace(namespace)?;
        if name.is_empty() {
            return Err(Error::config("a lock's name must not be empty"));
        }
        if name.len() > LONGEST {
            let length = name.len();
            return Err(Error::config(format!(
                "a lock's name must be at most {LONGEST} bytes long, this one has {length}"
            )));
        }
        let braces: Vec<_> = name.match_indices(['{', '}']).collect();
        match braces[..] {
            [] => {}
            [(open, "{"), (close, "}")] if close > open + 1 => {}
            _ => {
                return Err(Error::config(format!(
                    "the braces in {name:?} are not one complete hash tag: use no braces, or one tag like `{{customer}}`"
                )));
            }
        }
        let main = if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}:{name}")
        };
        if main.starts_with(DERIVED) {
            return Err(Error::config(format!(
                "{main:?} begins with {DERIVED:?}, which is reserved for derived keys: choose another namespace or name"
            )));
        }
        Ok(Self {
            user: main.len() - name.len(),
            slot: slot_of(&main),
            main: main.into(),
        })
    }

    /// The name that has this main key.
    pub(crate) fn of_main(namespace: &str, main: &str) -> Option<Self> {
        let name = match namespace {
            "" => main,
            _ => main.strip_prefix(namespace)?.strip_prefix(':')?,
        };
        Self::new(namespace, name).ok()
    }

    /// Returns what the user calls the lock.
    pub fn as_str(&self) -> &str {
        &self.main[self.user..]
    }

    /// Returns the main key.
    pub fn main(&self) -> &str {
        &self.main
    }

    /// The main key, to be shared.
    pub(crate) const fn main_text(&self) -> &Arc<str> {
        &self.main
    }

    /// Whether other libraries may use the name too: a name in the empty namespace.
    pub(crate) const fn is_shared(&self) -> bool {
        self.user == 0
    }

    /// Returns a derived key or channel: `lockkeeper.<part>:{<main>}`. If the main key has a hash tag of its own, the
    /// tag comes first and the brace in the main key is doubled: `lockkeeper.<part>.{<tag>}:{<main>}`. Either form is
    /// in the main key's slot, and `:{<namespace>:` occurs in derived keys of this namespace only.
    ///
    /// It is built anew for each request that needs it. There may be a hundred thousand held leases, and each renews
    /// with its main key alone, so not storing derived keys saves memory.
    pub fn part(&self, part: &str) -> String {
        self.key(part).to_string()
    }

    /// The same, for writing straight into its destination.
    pub(crate) const fn key<'a>(&'a self, part: &'a str) -> Key<'a> {
        Key::Part(self, part)
    }

    /// Returns the channel on which messages tell waiters of this name to ask again.
    pub fn wakes(&self) -> String {
        self.part("wake")
    }

    /// Returns the prefix of the channels on which clients are notified of grants of this name.
    pub fn grants(&self) -> String {
        self.part("grant")
    }

    /// Returns the key of the counter from which the name draws its tokens. Names of one slot share a counter if their
    /// main keys have the same text before the first colon; unless the namespace is empty, that text is the namespace.
    /// So the rights to one namespace do not include the counters of another.
    pub fn counter(&self) -> String {
        Key::Counter(self).to_string()
    }

    /// The slot of a cluster that holds all keys of the name.
    pub(crate) const fn slot(&self) -> u16 {
        self.slot
    }

    /// Returns the key of the tombstone that a release leaves if it overtakes an acquire of this claim.
    pub fn tombstone(&self, claim: &ClaimId) -> String {
        Key::Tombstone(self, claim).to_string()
    }
}

/// A key or a channel of a name, formatted on demand.
#[derive(Clone, Copy)]
pub(crate) enum Key<'a> {
    Main(&'a Name),
    Part(&'a Name, &'a str),
    Counter(&'a Name),
    Tombstone(&'a Name, &'a ClaimId),
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main(name) => f.write_str(&name.main),
            Self::Part(Name { main, .. }, part) => match hash_tag(main) {
                None => write!(f, "{DERIVED}{part}:{{{main}}}"),
                Some(tag) => {
                    let main = main.replace('{', "{{");
                    write!(f, "{DERIVED}{part}.{{{tag}}}:{{{main}}}")
                }
            },
            Self::Counter(Name { main, slot, .. }) => {
                let (first, _) = main.split_once(':').unwrap_or_default();
                let first = if first.contains(['{', '}']) {
                    ""
                } else {
                    first
                };
                let number = number_behind([first, ":"], *slot);
                write!(f, "{DERIVED}fence:{{{first}:{number:06}}}")
            }
            Self::Tombstone(name, claim) => {
                let [client, random] = claim.ends();
                write!(f, "{}:{client}/{random}", name.key("gone"))
            }
        }
    }
}

/// With a colon, namespace `a` and name `b:c` would be the same as namespace `a:b` and name `c`. With a brace, the
/// key patterns that one namespace's user is allowed would also match keys of another namespace.
fn check_namespace(namespace: &str) -> Result<()> {
    if namespace.contains([':', '{', '}']) {
        return Err(Error::config(format!(
            "the namespace {namespace:?} has a colon or a brace, so its keys could be those of another namespace: use a dash or a dot instead"
        )));
    }
    if namespace.len() > LONGEST {
        let length = namespace.len();
        return Err(Error::config(format!(
            "a namespace must be at most {LONGEST} bytes long, this one has {length}"
        )));
    }
    Ok(())
}

/// Escapes a text for use in a pattern, so that its special characters match literally.
pub(crate) fn in_pattern(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if "*?[]\\".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({:?})", &*self.main)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(name: &Name) -> Vec<String> {
        let mut keys = vec![name.main().to_owned()];
        keys.extend(["holders", "queue", "state", "gone", "wake"].map(|part| name.part(part)));
        // The channel of the grants to one client.
        keys.push(name.part("grant") + ":0c5e7a4e-6b1f-4a53-8a51-3f4f52d4a8c9");
        keys
    }

    #[test]
    fn bad_names_are_refused_with_a_reason() {
        for (namespace, name, reason) in [
            ("lockkeeper", "", "empty"),
            ("lockkeeper", &*"x".repeat(2048), "1024 bytes"),
            ("lockkeeper", "a}b", "not one complete hash tag"),
            ("lockkeeper", "a{b", "not one complete hash tag"),
            ("lockkeeper", "a{}b", "not one complete hash tag"),
            ("lockkeeper", "{a}{b}", "not one complete hash tag"),
            ("lockkeeper", "{a{b}", "not one complete hash tag"),
            ("lockkeeper", "}{", "not one complete hash tag"),
            ("a:b", "c", "has a colon"),
            ("{a}", "c", "or a brace"),
            (&*"x".repeat(2048), "c", "1024 bytes"),
            ("", "lockkeeper.fence:{x}", "derived keys"),
            ("lockkeeper.fence", "x", "derived keys"),
        ] {
            let error = Name::new(namespace, name).unwrap_err().to_string();
            assert!(error.contains(reason), "{name:?}: {error}");
        }
    }

    /// Whether the patterns `<namespace>:*` or `lockkeeper.*:{<namespace>:*` match this key.
    fn allowed(namespace: &str, key: &str) -> bool {
        let derived = key.strip_prefix(DERIVED);
        key.starts_with(&format!("{namespace}:"))
            || derived.is_some_and(|it| it.contains(&format!(":{{{namespace}:")))
    }

    fn any_namespace() -> impl Strategy<Value = String> {
        prop_oneof!["[ab.:{}]{0,3}", Just("a".to_owned()), Just("ab".to_owned())]
    }

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab{}:.]{1,8}",
            "[ab:]{0,2}[{][ab:]{1,4}[}][ab:]{0,3}",
            "\\PC{1,20}",
            "[a-z]{1,4}\\{[a-z]{1,3}\\}[a-z]{0,3}"
        ]
    }

    proptest! {
        #[test]
        fn all_keys_of_a_name_lie_in_one_slot(namespace in "[a-z{}:]{0,4}", name in any_name()) {
            if let Ok(name) = Name::new(&namespace, &name) {
                for key in keys(&name).into_iter().chain([name.counter()]) {
                    prop_assert_eq!(slot_of(&key), slot_of(name.main()), "{}", key);
                }
            }
        }

        #[test]
        fn a_name_is_known_by_its_main_key(
            namespace in "[a-z*.]{0,4}",
            name in any_name(),
        ) {
            if let Ok(name) = Name::new(&namespace, &name) {
                prop_assert_eq!(Name::of_main(&namespace, name.main()), Some(name.clone()));
            }
        }

        #[test]
        fn no_two_names_share_a_key(
            (namespace, one) in (any_namespace(), any_name()),
            (neighbour, other) in (any_namespace(), any_name()),
        ) {
            prop_assume!((&namespace, &one) != (&neighbour, &other));
            // Names in the empty namespace are used as keys unchanged, and can be those of another namespace.
            prop_assume!(namespace == neighbour || !(namespace.is_empty() || neighbour.is_empty()));
            if let (Ok(one), Ok(other)) = (Name::new(&namespace, &one), Name::new(&neighbour, &other)) {
                for key in keys(&one) {
                    prop_assert!(!keys(&other).contains(&key), "{}", key);
                }
            }
        }

        #[test]
        fn the_patterns_of_a_namespace_are_those_of_its_keys_alone(
            (namespace, name) in (any_namespace(), any_name()),
            neighbour in any_namespace(),
        ) {
            prop_assume!(!namespace.is_empty());
            // A namespace that is refused has no names.
            let neighbour = check_namespace(&neighbour).map_or_else(|_| String::new(), |()| neighbour);
            if let Ok(name) = Name::new(&namespace, &name) {
                for key in keys(&name).into_iter().chain([name.counter()]) {
                    prop_assert!(allowed(&namespace, &key), "{}", key);
                    let alien = !neighbour.is_empty() && neighbour != namespace;
                    prop_assert!(!(alien && allowed(&neighbour, &key)), "{} {}", neighbour, key);
                }
            }
        }
    }
}
