//! What is known of a script without running it.

use crate::Status;

/// One script and its contract.
///
/// Two scripts are equal when their SHA-1 is, as the server sees it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Script {
    /// Kind and verb, as in the file's name: `mutex/acquire`.
    pub name: &'static str,
    /// The whole text, fragments included, as it is sent to the server.
    pub source: &'static str,
    /// SHA-1 of `source` in lower-case hex, by which the server knows the script.
    pub sha1: &'static str,
    /// The same text for a node of a cluster that has sharded messages: `SPUBLISH` stands for `PUBLISH`, `SSUBSCRIBE` for
    /// `SUBSCRIBE` and `SHARDNUMSUB` for `NUMSUB` wherever the channel is a name's. Equal to `source` if no such channel is used.
    pub sharded_source: &'static str,
    /// SHA-1 of `sharded_source`.
    pub sharded_sha1: &'static str,
    /// What each key is, in the order of `KEYS`; of a batch, the keys of one item.
    pub keys: &'static [&'static str],
    /// What each argument is, in the order of `ARGV`; the request number first. Of a batch, the request number and the
    /// arguments of one item.
    pub args: &'static [&'static str],
    /// Of a batch: the arguments that an item leaves empty if its keys and these arguments equal those of the item before; it then
    /// brings no keys either. Empty if each item brings its own.
    pub once: &'static [&'static str],
    /// Every status this script can answer with; of a batch, those that stand for one item.
    pub replies: &'static [Status],
    /// Whether the script takes any number of items and answers [`Status::Done`] with one status for each.
    pub batch: bool,
}

impl PartialEq for Script {
    fn eq(&self, other: &Self) -> bool {
        self.sha1 == other.sha1
    }
}

impl Eq for Script {}

/// Describes a script: its fragments are joined in front of it, its SHA-1 comes from `scripts.lock`. What it answers is
/// called `replies`, or `items` if it is a batch. `once` names the arguments that items about the same name leave out.
///
/// A script that stands `before` another one answers by itself or leaves it to that: the other's fragments and text follow its own.
macro_rules! script {
    ($name:literal, with [$($fragment:tt),*], $(before $other:literal with [$($its:tt),*],)? keys $keys:expr, $(once [$($once:literal),*],)? args $args:expr, $form:ident $replies:expr $(,)?) => {
        Script {
            name: $name,
            source: concat!(
                $(include_str!(concat!("shared/", $fragment, ".lua")), "\n",)*
                include_str!(concat!($name, ".lua")),
                $($("\n", include_str!(concat!("shared/", $its, ".lua")),)* "\n", include_str!(concat!($other, ".lua")),)?
            ),
            sha1: pinned_sha1($name),
            sharded_source: concat!(
                $(sharded!($fragment), "\n",)*
                include_str!(concat!($name, ".lua")),
                $($("\n", sharded!($its),)* "\n", include_str!(concat!($other, ".lua")),)?
            ),
            sharded_sha1: pinned_sharded_sha1($name),
            keys: &$keys,
            args: &$args,
            once: &[$($($once),*)?],
            replies: &$replies,
            batch: matches!(stringify!($form).as_bytes(), b"items"),
        }
    };
}

/// A fragment as the sharded text of a script has it: some have a counterpart there.
macro_rules! sharded {
    ("wake") => {
        include_str!("sharded/wake.lua")
    };
    ("listeners") => {
        include_str!("sharded/listeners.lua")
    };
    ("messages") => {
        include_str!("sharded/messages.lua")
    };
    ($fragment:tt) => {
        include_str!(concat!("shared/", $fragment, ".lua"))
    };
}

/// The SHA-1 that `scripts.lock` pins for the script of this name, found while compiling: a script without a line there
/// does not build.
pub(crate) const fn pinned_sha1(name: &str) -> &'static str {
    match line_of("", name) {
        Some(sha1) => sha1,
        None => panic!("a script has no line in scripts.lock: run `cargo xtask lock-scripts`"),
    }
}

/// The same for its sharded text, which has a line of its own if it is another one.
pub(crate) const fn pinned_sharded_sha1(name: &str) -> &'static str {
    match line_of("sharded/", name) {
        Some(sha1) => sha1,
        None => pinned_sha1(name),
    }
}

/// What stands in `scripts.lock` behind a folder and a name.
const fn line_of(folder: &str, name: &str) -> Option<&'static str> {
    const LOCK: &str = include_str!("scripts.lock");
    let lock = LOCK.as_bytes();
    let mut line = 0;
    while line < lock.len() {
        let mut end = line;
        while end < lock.len() && lock[end] != b'\n' {
            end += 1;
        }
        let behind = line + folder.len() + name.len();
        if has(lock, line, folder) && has(lock, line + folder.len(), name) && lock[behind] == b' ' {
            return Some(LOCK.split_at(end).0.split_at(behind + 1).1);
        }
        line = end + 1;
    }
    None
}

/// Whether a text stands at a place, and something behind it.
const fn has(lock: &[u8], place: usize, text: &str) -> bool {
    let text = text.as_bytes();
    let mut matched = 0;
    while matched < text.len() {
        if place + matched >= lock.len() || lock[place + matched] != text[matched] {
            return false;
        }
        matched += 1;
    }
    place + matched < lock.len()
}
