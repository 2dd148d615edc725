//! The members of a sorted set, by score and then by their bytes.

use std::collections::{BTreeMap, BTreeSet};

/// Members with their scores. A score is a whole number: the scripts write only tickets, times and tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SortedSet {
    in_order: BTreeSet<(i64, Vec<u8>)>,
    scores: BTreeMap<Vec<u8>, i64>,
}

impl SortedSet {
    /// Returns whether the member is new.
    pub(crate) fn insert(&mut self, member: &[u8], score: i64) -> bool {
        let before = self.scores.insert(member.to_owned(), score);
        if let Some(before) = before {
            self.in_order.remove(&(before, member.to_owned()));
        }
        self.in_order.insert((score, member.to_owned()));
        before.is_none()
    }

    /// Returns whether the member existed.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        self.in_order.remove(&(score, member))
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<i64> {
        self.scores.get(member).copied()
    }

    /// How many members come before this one.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let (member, score) = self.scores.get_key_value(member)?;
        let place = (*score, member.clone());
        Some(self.in_order.range(..place).count())
    }

    /// The same members under other names.
    pub(crate) fn renamed(&self, rename: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let mut renamed = Self::default();
        for (member, score) in self.in_order() {
            renamed.insert(&rename(member), score);
        }
        renamed
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = (&[u8], i64)> {
        self.in_order
            .iter()
            .map(|(score, member)| (&**member, *score))
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_by_score_then_by_their_bytes() {
        let mut set = SortedSet::default();
        for (member, score) in [("b", 2), ("c", 1), ("a", 2), ("c", -1)] {
            set.insert(member.as_bytes(), score);
        }
        let in_order: Vec<_> = set.in_order().collect();
        assert_eq!(in_order, [(&b"c"[..], -1), (b"a", 2), (b"b", 2)]);
        assert_eq!(set.rank(b"b"), Some(2));
        assert!(set.remove(b"a") && !set.remove(b"a"));
        assert_eq!(
            (set.rank(b"b"), set.rank(b"a"), set.len()),
            (Some(1), None, 2)
        );
    }
}
