//! Names of locks and the keys and channels that belong to them.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::owner::ClaimId;

/// The longest name, bytes: keys of this size still compare and hash fast, and longer ones are mistakes.
const LONGEST: usize = 1024;

/// Where derived keys begin. A main key may not begin so, or two names could share a key.
pub(crate) const DERIVED: &str = "lockkeeper.";

/// The name of a lock: what the user calls it, and the main key it lives under, `<namespace>:<name>`.
///
/// All keys of a name lie in one slot of a cluster. Names that hold the same Redis hash tag (`{…}`) lie together.
///
/// # Examples
///
/// ```
/// use lockkeeper_core::Name;
///
/// let name = Name::new("lockkeeper", "invoice:42")?;
/// assert_eq!(name.main(), "lockkeeper:invoice:42");
/// assert_eq!(name.part("fence"), "lockkeeper.fence:{lockkeeper:invoice:42}");
///
/// let tagged = Name::new("lockkeeper", "{customer:7}:invoice")?;
/// assert_eq!(tagged.part("fence"), "lockkeeper.fence:lockkeeper:{customer:7}:invoice");
/// # Ok::<(), lockkeeper_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    main: Arc<str>,
    /// Where in `main` the user's part begins.
    user: usize,
}

impl Name {
    /// The name `name` in `namespace`; an empty namespace makes the name itself the main key.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the name is empty or longer than 1,024 bytes, or if its main key has stray braces, which
    /// would put its keys into different slots, or could be taken for a key of another name.
    pub fn new(namespace: &str, name: &str) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::config("a lock's name must not be empty"));
        }
        if name.len() > LONGEST {
            let length = name.len();
            return Err(Error::config(format!(
                "a lock's name must be at most {LONGEST} bytes long, this one has {length}"
            )));
        }
        let main = if namespace.is_empty() {
            name.to_owned()
        } else {
            format!("{namespace}:{name}")
        };
        if main.starts_with(DERIVED) {
            return Err(Error::config(format!(
                "{main:?} begins with {DERIVED:?}, which is kept for derived keys: choose another namespace or name"
            )));
        }
        match hash_tag(&main) {
            None if main.contains('}') => {
                return Err(Error::config(format!(
                    "{main:?} has a stray brace: write no `}}` at all, or a whole hash tag like `{{customer}}`"
                )));
            }
            Some(tag) if main.len() == tag.len() + 2 && main.starts_with('{') => {
                return Err(Error::config(format!(
                    "{main:?} is nothing but a hash tag: add something outside of the braces"
                )));
            }
            _ => {}
        }
        let user = main.len() - name.len();
        Ok(Self {
            main: main.into(),
            user,
        })
    }

    /// The name that lives under this main key.
    pub(crate) fn of_main(namespace: &str, main: &str) -> Option<Self> {
        let name = match namespace {
            "" => main,
            _ => main.strip_prefix(namespace)?.strip_prefix(':')?,
        };
        Self::new(namespace, name).ok()
    }

    /// The name whose [`part`](Self::part) this key is.
    pub(crate) fn of_part(namespace: &str, part: &str, key: &str) -> Option<Self> {
        let main = key.strip_prefix(DERIVED)?.strip_prefix(part)?;
        let main = main.strip_prefix(':')?;
        let inner = main.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        let mains = inner.into_iter().chain([main]);
        let mut names = mains.filter_map(|main| Self::of_main(namespace, main));
        names.find(|name| name.part(part) == key)
    }

    /// What the user calls the lock.
    pub fn as_str(&self) -> &str {
        &self.main[self.user..]
    }

    /// The main key.
    pub fn main(&self) -> &str {
        &self.main
    }

    /// A derived key or channel: `lockkeeper.<part>:{<main>}`, without the extra braces when the main key has a hash
    /// tag of its own. It lies in the main key's slot.
    ///
    /// It is made anew for each request that names it. A lease that is held and renewed names its main key alone, and
    /// there may be a hundred thousand of those: what they do not keep is memory saved.
    pub fn part(&self, part: &str) -> String {
        let [open, close] = self.braces();
        [DERIVED, part, ":", open, &self.main, close].concat()
    }

    /// The mark of a leave that overtook an acquire of this claim.
    pub fn gone(&self, claim: &ClaimId) -> String {
        let [open, close] = self.braces();
        let claim = claim.as_str();
        [DERIVED, "gone:", open, &self.main, close, ":", claim].concat()
    }

    /// What a derived key needs around the main key so that both lie in one slot.
    fn braces(&self) -> [&'static str; 2] {
        match hash_tag(&self.main) {
            Some(_) => ["", ""],
            None => ["{", "}"],
        }
    }
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

/// What Redis hashes instead of the whole key: the text between the first `{` and the next `}`, unless it is empty.
/// Source: the cluster specification, "Hash tags".
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The slot of a key as the cluster specification defines it, by a CRC of its own.
    fn slot(key: &str) -> u16 {
        let hashed = hash_tag(key).unwrap_or(key);
        crc::Crc::<u16>::new(&crc::CRC_16_XMODEM).checksum(hashed.as_bytes()) % 16384
    }

    fn keys(name: &Name) -> Vec<String> {
        let mut keys = vec![name.main().to_owned()];
        keys.extend(["fence", "gone", "wake"].map(|part| name.part(part)));
        // The channel of the grants to one client.
        keys.push(name.part("grant") + ":0c5e7a4e-6b1f-4a53-8a51-3f4f52d4a8c9");
        keys
    }

    #[test]
    fn the_slot_function_is_the_one_of_redis() {
        // CLUSTER KEYSLOT of redis-server 7.0.
        assert_eq!(slot("foo"), 12182);
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("somekey"), 11058);
    }

    #[test]
    fn bad_names_are_refused_with_a_reason() {
        for (namespace, name, reason) in [
            ("lockkeeper", "", "empty"),
            ("lockkeeper", &*"x".repeat(2048), "1024 bytes"),
            ("lockkeeper", "a}b", "stray brace"),
            ("lockkeeper", "a{}b", "stray brace"),
            ("lockkeeper", "}{", "stray brace"),
            ("", "{x}", "nothing but a hash tag"),
            ("", "lockkeeper.fence:{x}", "derived keys"),
        ] {
            let error = Name::new(namespace, name).unwrap_err().to_string();
            assert!(error.contains(reason), "{name:?}: {error}");
        }
    }

    #[test]
    fn an_open_brace_alone_is_harmless() {
        let name = Name::new("", "a{b").unwrap();
        assert_eq!(slot(&name.part("fence")), slot(name.main()));
    }

    fn any_name() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a{}:.]{1,8}",
            "\\PC{1,20}",
            "[a-z]{1,4}\\{[a-z]{1,3}\\}[a-z]{0,3}"
        ]
    }

    proptest! {
        #[test]
        fn all_keys_of_a_name_lie_in_one_slot(namespace in "[a-z{}]{0,4}", name in any_name()) {
            if let Ok(name) = Name::new(&namespace, &name) {
                for key in keys(&name) {
                    prop_assert_eq!(slot(&key), slot(name.main()), "{}", key);
                }
            }
        }

        #[test]
        fn a_name_is_known_by_its_main_key_and_its_derived_ones(
            namespace in "[a-z{}]{0,4}",
            name in any_name(),
        ) {
            if let Ok(name) = Name::new(&namespace, &name) {
                prop_assert_eq!(Name::of_main(&namespace, name.main()), Some(name.clone()));
                let key = name.part("readers");
                prop_assert_eq!(Name::of_part(&namespace, "readers", &key), Some(name.clone()));
                prop_assert_eq!(Name::of_part(&namespace, "queue", &key), None);
            }
        }

        #[test]
        fn no_two_names_share_a_key(one in any_name(), other in any_name()) {
            prop_assume!(one != other);
            if let (Ok(one), Ok(other)) = (Name::new("", &one), Name::new("", &other)) {
                for key in keys(&one) {
                    prop_assert!(!keys(&other).contains(&key), "{}", key);
                }
            }
        }
    }
}
