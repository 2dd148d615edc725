//! Texts of a request, one after the other in one buffer.

use std::fmt::{self, Display, Write as _};

/// A list of texts: the keys of a script, or its arguments. They share one buffer, so that a request with twenty
/// texts costs two allocations.
///
/// # Examples
///
/// ```
/// use lockkeeper_core::protocol::Texts;
///
/// let mut keys = Texts::of(["stock", "lockkeeper.queue:{stock}"]);
/// keys.push(7);
/// assert_eq!(keys.len(), 3);
/// assert_eq!(keys.get(2), Some("7"));
/// assert!(keys.iter().any(|key| key == "stock"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Texts {
    buffer: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

/// The usual room for one text: a request with six is not moved while it is written.
const USUAL: usize = 48;

impl Texts {
    /// A list of these items in their `Display` form.
    pub fn of<T: Display>(items: impl IntoIterator<Item = T>) -> Self {
        let items = items.into_iter();
        let (least, _) = items.size_hint();
        let mut texts = Self::with_capacity(least, least * USUAL);
        items.for_each(|item| texts.push(item));
        texts
    }

    /// An empty list with room for this many texts with this many bytes in all.
    pub fn with_capacity(texts: usize, bytes: usize) -> Self {
        Self {
            buffer: String::with_capacity(bytes),
            ends: Vec::with_capacity(texts),
        }
    }

    /// Adds an item in its `Display` form.
    pub fn push(&mut self, item: impl Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.buffer, "{item}");
        self.ends.push(self.buffer.len());
    }

    /// Adds all texts of another list.
    pub fn append(&mut self, others: &Self) {
        let before = self.buffer.len();
        self.buffer.push_str(&others.buffer);
        self.ends.extend(others.ends.iter().map(|end| before + end));
    }

    /// Returns how many texts there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the text at this index, counted from 0.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.buffer.get(start..end)
    }

    /// Returns the first text.
    pub fn first(&self) -> Option<&str> {
        self.get(0)
    }

    /// Iterates over the texts in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        // There is a text at each of these indexes.
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
