//! Keys, their values and their expiry, at a time that stands still while a command or a script runs.
//!
//! A key is expired when the present is *later* than its expiry; at the exact millisecond it still exists, with 0 ms left.
//! *Setting* an expiry to the present or the past deletes the key at once. Both are Redis's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resp::Refusal;
use crate::sorted_set::SortedSet;

type Key = Arc<[u8]>;

/// The fields of a hash.
pub(crate) type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

/// The elements of a list, in order.
pub(crate) type Elements = Vec<Vec<u8>>;

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Data {
    Text(Vec<u8>),
    Hash(Fields),
    List(Elements),
    SortedSet(SortedSet),
}

/// A value that disappears when it becomes empty.
trait Collection: Default + Into<Data> {
    fn of(data: &Data) -> Option<&Self>;
    fn of_mut(data: &mut Data) -> Option<&mut Self>;
    fn is_empty(&self) -> bool;
}

macro_rules! collection {
    ($type:ty, $variant:ident) => {
        impl Collection for $type {
            fn of(data: &Data) -> Option<&Self> {
                match data {
                    Data::$variant(content) => Some(content),
                    _ => None,
                }
            }

            fn of_mut(data: &mut Data) -> Option<&mut Self> {
                match data {
                    Data::$variant(content) => Some(content),
                    _ => None,
                }
            }

            fn is_empty(&self) -> bool {
                self.is_empty()
            }
        }

        impl From<$type> for Data {
            fn from(content: $type) -> Self {
                Self::$variant(content)
            }
        }
    };
}

collection!(Fields, Hash);
collection!(Elements, List);
collection!(SortedSet, SortedSet);

/// What happens to a key's expiry when the key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    Keep,
    /// Milliseconds since the Unix epoch.
    At(i64),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Entry {
    data: Data,
    expires_at: Option<i64>,
}

/// All keys of a server with their values and expiries, as they were at one moment.
///
/// Two snapshots are equal when a script could not tell them apart at the same time. See
/// [`MemoryStore::snapshot`](crate::MemoryStore::snapshot).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snapshot(BTreeMap<Key, Entry>);

impl Snapshot {
    /// Returns the same keyspace with every key, field and value passed through `rename`. A model uses it to find states that
    /// differ only in the names of the clients.
    #[must_use]
    pub fn renamed(&self, rename: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let data = |data: &Data| match data {
            Data::Text(text) => Data::Text(rename(text)),
            Data::Hash(fields) => Data::Hash(
                fields
                    .iter()
                    .map(|(field, value)| (rename(field), rename(value)))
                    .collect(),
            ),
            Data::List(elements) => {
                Data::List(elements.iter().map(|element| rename(element)).collect())
            }
            Data::SortedSet(set) => Data::SortedSet(set.renamed(&rename)),
        };
        let entries = self.0.iter().map(|(key, entry)| {
            let entry = Entry {
                data: data(&entry.data),
                expires_at: entry.expires_at,
            };
            (Key::from(rename(key)), entry)
        });
        Self(entries.collect())
    }
}

/// The data of one server.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    now_micros: i64,
    entries: BTreeMap<Key, Entry>,
    /// The same keys by expiry, so that keys that are never read again do not stay forever.
    expiries: BTreeSet<(i64, Key)>,
}

impl Keyspace {
    /// Sets the present, which stays until the next call, and drops the keys that have expired by then.
    pub(crate) fn begin(&mut self, now_micros: i64) {
        self.now_micros = now_micros;
        let now = self.now_millis();
        while let Some((expires_at, _)) = self.expiries.first()
            && *expires_at < now
            && let Some((_, key)) = self.expiries.pop_first()
        {
            self.entries.remove(&key);
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(self.entries.clone())
    }

    /// Replaces all keys, and drops those that have expired by now.
    pub(crate) fn restore(&mut self, Snapshot(entries): Snapshot) {
        let expiry = |(key, entry): (&Key, &Entry)| Some((entry.expires_at?, Arc::clone(key)));
        self.expiries = entries.iter().filter_map(expiry).collect();
        self.entries = entries;
        self.begin(self.now_micros);
    }

    /// Drops every key.
    pub(crate) fn clear(&mut self) {
        self.expiries.clear();
        self.entries.clear();
    }

    pub(crate) const fn now_micros(&self) -> i64 {
        self.now_micros
    }

    pub(crate) const fn now_millis(&self) -> i64 {
        self.now_micros.div_euclid(1000)
    }

    pub(crate) fn data(&self, key: &[u8]) -> Option<&Data> {
        Some(&self.entries.get(key)?.data)
    }

    pub(crate) fn text(&self, key: &[u8]) -> Result<Option<&Vec<u8>>, Refusal> {
        match self.data(key) {
            None => Ok(None),
            Some(Data::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Refusal::WRONG_TYPE),
        }
    }

    pub(crate) fn hash(&self, key: &[u8]) -> Result<Option<&Fields>, Refusal> {
        self.collection(key)
    }

    pub(crate) fn list(&self, key: &[u8]) -> Result<Option<&Elements>, Refusal> {
        self.collection(key)
    }

    pub(crate) fn sorted_set(&self, key: &[u8]) -> Result<Option<&SortedSet>, Refusal> {
        self.collection(key)
    }

    fn collection<C: Collection>(&self, key: &[u8]) -> Result<Option<&C>, Refusal> {
        let content = self
            .data(key)
            .map(|data| C::of(data).ok_or(Refusal::WRONG_TYPE));
        content.transpose()
    }

    /// Runs `change` on the hash at `key`, an empty one if there is none. If it is empty afterwards, it disappears.
    pub(crate) fn change_hash<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Fields) -> R,
    ) -> Result<R, Refusal> {
        self.change(key, change)
    }

    /// The same on the list at `key`.
    pub(crate) fn change_list<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut Elements) -> R,
    ) -> Result<R, Refusal> {
        self.change(key, change)
    }

    /// The same on the sorted set at `key`.
    pub(crate) fn change_sorted_set<R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut SortedSet) -> R,
    ) -> Result<R, Refusal> {
        self.change(key, change)
    }

    fn change<C: Collection, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut C) -> R,
    ) -> Result<R, Refusal> {
        let entry = self.entries.entry(key.into()).or_insert_with(|| Entry {
            data: C::default().into(),
            expires_at: None,
        });
        let content = C::of_mut(&mut entry.data).ok_or(Refusal::WRONG_TYPE)?;
        let result = change(content);
        if content.is_empty() {
            self.remove(key);
        }
        Ok(result)
    }

    pub(crate) fn put(&mut self, key: &[u8], data: Data, expiry: Expiry) {
        let kept = self.entries.get(key).and_then(|entry| entry.expires_at);
        self.remove(key);
        let key: Key = key.into();
        let expires_at = match expiry {
            Expiry::Never => None,
            Expiry::Keep => kept,
            Expiry::At(moment) => Some(moment),
        };
        if let Some(moment) = expires_at {
            self.expiries.insert((moment, Arc::clone(&key)));
        }
        self.entries.insert(key, Entry { data, expires_at });
    }

    /// Returns whether the key existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        if let Some(moment) = entry.expires_at {
            self.expiries.remove(&(moment, key));
        }
        true
    }

    /// Returns whether the key existed.
    pub(crate) fn expire(&mut self, key: &[u8], moment: i64) -> bool {
        if moment <= self.now_millis() {
            return self.remove(key);
        }
        let Some((key, entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        self.put_back(key, entry, moment);
        true
    }

    fn put_back(&mut self, key: Key, mut entry: Entry, moment: i64) {
        if let Some(before) = entry.expires_at.replace(moment) {
            self.expiries.remove(&(before, Arc::clone(&key)));
        }
        self.expiries.insert((moment, Arc::clone(&key)));
        self.entries.insert(key, entry);
    }

    /// Milliseconds as `PTTL` returns them: -2 without the key, -1 without an expiry.
    pub(crate) fn left(&self, key: &[u8]) -> i64 {
        match self.entries.get(key).map(|entry| entry.expires_at) {
            None => -2,
            Some(None) => -1,
            Some(Some(moment)) => moment.saturating_sub(self.now_millis()),
        }
    }

    /// Every key, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(|key| &**key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key_until(moment: i64) -> Keyspace {
        let mut keyspace = Keyspace::default();
        keyspace.put(b"k", Data::Text(b"v".to_vec()), Expiry::At(moment));
        keyspace
    }

    #[test]
    fn a_key_lives_at_its_expiry_and_is_gone_after_it() {
        let mut keyspace = with_key_until(5);
        keyspace.begin(5_999);
        assert_eq!(keyspace.left(b"k"), 0);
        keyspace.begin(6_000);
        assert_eq!(keyspace.left(b"k"), -2);
        assert!(keyspace.expiries.is_empty());
    }

    #[test]
    fn an_expiry_set_to_the_present_deletes_at_once() {
        let mut keyspace = with_key_until(500);
        keyspace.begin(100_000);
        assert!(keyspace.expire(b"k", 100));
        assert_eq!(keyspace.left(b"k"), -2);
        assert!(!keyspace.expire(b"k", 200));
    }

    #[test]
    fn an_expiry_replaced_is_forgotten() {
        let mut keyspace = with_key_until(5);
        keyspace.expire(b"k", 500);
        keyspace.begin(7_000);
        assert_eq!(keyspace.left(b"k"), 493);
        keyspace.put(b"k", Data::Text(b"w".to_vec()), Expiry::Keep);
        assert_eq!(keyspace.left(b"k"), 493);
        keyspace.put(b"k", Data::Text(b"w".to_vec()), Expiry::Never);
        assert_eq!(keyspace.left(b"k"), -1);
        assert!(keyspace.expiries.is_empty());
    }

    #[test]
    fn a_hash_left_empty_vanishes_with_its_expiry() {
        let mut keyspace = Keyspace::default();
        keyspace
            .change_hash(b"h", |fields| fields.insert(b"f".to_vec(), b"v".to_vec()))
            .unwrap();
        keyspace.expire(b"h", 9);
        keyspace.change_hash(b"h", Fields::clear).unwrap();
        assert_eq!(keyspace.keys().count(), 0);
        assert!(keyspace.expiries.is_empty());
    }

    #[test]
    fn a_renamed_snapshot_keeps_shapes_and_expiries() {
        let mut keyspace = with_key_until(5);
        keyspace
            .change_hash(b"h", |fields| fields.insert(b"f".to_vec(), b"v".to_vec()))
            .unwrap();
        let before = keyspace.snapshot();
        let upper = before.renamed(<[u8]>::to_ascii_uppercase);
        assert_ne!(upper, before);
        assert_eq!(upper.renamed(<[u8]>::to_ascii_lowercase), before);
        keyspace.restore(upper);
        assert_eq!(keyspace.left(b"K"), 5);
        assert_eq!(keyspace.hash(b"H").unwrap().unwrap()[&b"F"[..]], b"V");
    }

    #[test]
    fn a_sorted_set_left_empty_vanishes_and_a_hash_is_none() {
        let mut keyspace = Keyspace::default();
        keyspace
            .change_sorted_set(b"z", |set| set.insert(b"m", 1))
            .unwrap();
        keyspace.change_hash(b"z", Fields::clear).unwrap_err();
        keyspace
            .change_sorted_set(b"z", |set| set.remove(b"m"))
            .unwrap();
        assert_eq!(keyspace.keys().count(), 0);
    }

    #[test]
    fn a_snapshot_restores_keys_and_expiries_and_drops_what_has_expired_since() {
        let mut keyspace = with_key_until(5);
        keyspace.put(b"stays", Data::Text(b"v".to_vec()), Expiry::Never);
        let before = keyspace.snapshot();
        keyspace.remove(b"k");
        keyspace.put(b"new", Data::Text(b"v".to_vec()), Expiry::At(900));
        keyspace.restore(before.clone());
        assert_eq!(keyspace.snapshot(), before);
        assert_eq!(keyspace.expiries.len(), 1);
        keyspace.begin(6_000);
        keyspace.restore(before);
        assert_eq!(keyspace.keys().collect::<Vec<_>>(), [b"stays"]);
        assert!(keyspace.expiries.is_empty());
    }
}
