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
    /// What each key is, in the order of `KEYS`; of a batch, the keys of one item.
    pub keys: &'static [&'static str],
    /// What each argument is, in the order of `ARGV`; the request number first. Of a batch, the request number and the
    /// arguments of one item.
    pub args: &'static [&'static str],
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
/// called `replies`, or `items` if it is a batch.
macro_rules! script {
    ($name:literal, with [$($fragment:literal),*], keys $keys:expr, args $args:expr, $form:ident $replies:expr $(,)?) => {
        Script {
            name: $name,
            source: concat!(
                $(include_str!(concat!("shared/", $fragment, ".lua")), "\n",)*
                include_str!(concat!($name, ".lua"))
            ),
            sha1: pinned_sha1($name),
            keys: &$keys,
            args: &$args,
            replies: &$replies,
            batch: matches!(stringify!($form).as_bytes(), b"items"),
        }
    };
}

/// The SHA-1 that `scripts.lock` pins for the script of this name, found while compiling: a script without a line there
/// does not build.
pub(crate) const fn pinned_sha1(name: &str) -> &'static str {
    const LOCK: &str = include_str!("scripts.lock");
    let (lock, name) = (LOCK.as_bytes(), name.as_bytes());
    let mut line = 0;
    while line < lock.len() {
        let mut matched = 0;
        while matched < name.len()
            && line + matched < lock.len()
            && lock[line + matched] == name[matched]
        {
            matched += 1;
        }
        let mut end = line;
        while end < lock.len() && lock[end] != b'\n' {
            end += 1;
        }
        if matched == name.len() && lock[line + matched] == b' ' {
            return LOCK.split_at(end).0.split_at(line + matched + 1).1;
        }
        line = end + 1;
    }
    panic!("a script has no line in scripts.lock: run `cargo xtask lock-scripts`")
}
