//! The nets: they show whether a change of the engine changes what clients send. Each compares the first histories of every
//! workload with what is stored for them beside this file, and each is weaker than the one before:
//!
//! | net | what must be equal |
//! |---|---|
//! | [`Exact`](Net::Exact) | every script call with its time, in order |
//! | [`Ordered`](Net::Ordered) | the calls about each name in order, without times and tokens; the times of keep-alives keep a rule |
//! | [`Economy`](Net::Economy) | how many scripts, keep-alives, messages and subscriptions are needed, within 1 % |
//!
//! A change that moves only the first net may regroup keep-alives or move calls in time. One that moves the second changes what is sent
//! for a name. `cargo xtask simulate --net` shows the first difference of each net, and `--net --rewrite` stores what is found.

mod economy;
mod fingerprint;
mod keep_alive;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::{fs, io};

use super::checks::{Verb, verb};
use super::record::Record;
use super::run::Outcome;
use super::workload::Workload;
use economy::Economy;
pub use fingerprint::Fingerprint;
pub use text::Names;

/// How many histories of a workload the nets compare, from the first seed on. Those of several servers are long.
#[must_use]
pub const fn histories(workload: Workload) -> u64 {
    match workload {
        Workload::Redlock | Workload::Mixed => 10,
        _ => 23,
    }
}

/// One of the nets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "tests go through all of them")]
pub enum Net {
    /// Every call with its time, in order.
    Exact,
    /// The calls about each name, in order.
    Ordered,
    /// What the calls cost.
    Economy,
}

impl Net {
    /// What is stored for this net, one line for each history or workload.
    ///
    /// It is read when it is needed, so that storing anew compiles nothing.
    fn stored(self) -> &'static str {
        static STORED: LazyLock<[String; 3]> = LazyLock::new(|| {
            [Net::Exact, Net::Ordered, Net::Economy].map(|net| {
                let file = net.file();
                fs::read_to_string(&file)
                    .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
            })
        });
        let [exact, ordered, economy] = &*STORED;
        match self {
            Self::Exact => exact,
            Self::Ordered => ordered,
            Self::Economy => economy,
        }
    }

    fn file(self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/simulation/net");
        folder.join(self.name()).with_extension("txt")
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Ordered => "ordered",
            Self::Economy => "economy",
        }
    }

    /// What is stored under this key.
    fn line(self, key: &str) -> Option<&'static str> {
        let lines = self.stored().lines();
        lines
            .filter_map(|line| line.split_once(": "))
            .find_map(|(other, line)| (other == key).then_some(line))
    }
}

/// A difference from what is stored, or a breach of the rule of keep-alives.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Difference {
    /// The net that shows it.
    pub net: Net,
    /// The history, the calls around the first difference, or the figure.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} net: {}", self.net.name(), self.what)
    }
}

/// What the clients of a workload send in its first histories.
#[derive(Debug)]
pub struct Behaviour {
    workload: Workload,
    /// The texts that a net compares, by net and seed.
    texts: BTreeMap<(Net, u64), Vec<String>>,
    /// The keep-alives that break the rule.
    breaches: Vec<String>,
    economy: Economy,
}

impl Behaviour {
    /// Reads it from the records of these histories.
    pub fn of(workload: Workload, outcomes: &[Outcome]) -> Self {
        let (mut texts, mut breaches) = (BTreeMap::new(), Vec::new());
        for Outcome { seed, record, .. } in outcomes {
            texts.insert((Net::Exact, *seed), exact(record));
            texts.insert((Net::Ordered, *seed), ordered(record));
            let found = keep_alive::breaches(record).into_iter();
            breaches.extend(found.map(|it| format!("{} seed {seed}: {it}", workload.name())));
        }
        Self {
            workload,
            texts,
            breaches,
            economy: Economy::of(outcomes),
        }
    }

    /// The first difference that each net shows. If `known` has the calls that are stored, because [`keep`](Self::keep) wrote them
    /// before the change, the difference shows them too.
    pub fn differences(&self, known: Option<&Path>) -> Vec<Difference> {
        let mut differences: Vec<Difference> = Vec::new();
        for ((net, seed), texts) in &self.texts {
            let is_first = differences.iter().all(|it| it.net != *net);
            if is_first && let Some(what) = self.difference(*net, *seed, texts, known) {
                differences.push(Difference { net: *net, what });
            }
        }
        if let Some(breach) = self.breaches.first() {
            let (net, what) = (Net::Ordered, breach.clone());
            differences.push(Difference { net, what });
        }
        let stored = Net::Economy
            .line(self.workload.name())
            .and_then(Economy::parse);
        let what = match stored {
            Some(stored) => self.economy.difference(&stored),
            None => Some("nothing is stored".to_owned()),
        };
        differences.extend(what.map(|what| Difference {
            net: Net::Economy,
            what: format!("{}: {what}", self.workload.name()),
        }));
        differences
    }

    fn difference(
        &self,
        net: Net,
        seed: u64,
        texts: &[String],
        known: Option<&Path>,
    ) -> Option<String> {
        let history = format!("{} seed {seed}", self.workload.name());
        let Some(stored) = net.line(&history).and_then(Fingerprint::parse) else {
            return Some(format!("{history}: nothing is stored"));
        };
        let found = Fingerprint::of(texts);
        if found == stored {
            return None;
        }
        let known = known.and_then(|folder| fs::read_to_string(self.file(folder, net, seed)).ok());
        let known = known.map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        let none = "nothing".to_owned();
        let shown = match known.filter(|known| Fingerprint::of(known) == stored) {
            Some(known) => {
                let equal = texts
                    .iter()
                    .zip(&known)
                    .take_while(|(one, other)| one == other);
                let at = equal.count();
                let before = at.checked_sub(1).map_or(&none, |at| &texts[at]);
                let [expected, found] = [&known, texts].map(|texts| texts.get(at).unwrap_or(&none));
                format!(
                    "call {}\nbefore   {before}\nexpected {expected}\nfound    {found}",
                    at + 1
                )
            }
            None => {
                let range = found.first_difference(&stored);
                let from = range.start.saturating_sub(1);
                let calls = texts[from..range.end].join("\n");
                format!(
                    "one of those from call {} on, shown with the one before\n{calls}",
                    range.start + 1
                )
            }
        };
        let (found, expected) = (texts.len(), stored.len());
        Some(format!(
            "{history}: {found} calls, expected {expected}; first difference: {shown}"
        ))
    }

    /// Writes the calls that are equal to what is stored to a folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn keep(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for ((net, seed), texts) in &self.texts {
            if self.difference(*net, *seed, texts, None).is_none() {
                fs::write(self.file(folder, *net, *seed), texts.join("\n"))?;
            }
        }
        Ok(())
    }

    fn file(&self, folder: &Path, net: Net, seed: u64) -> PathBuf {
        folder.join(format!(
            "{}-{seed}-{}.txt",
            self.workload.name(),
            net.name()
        ))
    }
}

/// Stores what all workloads send, for the next build.
///
/// # Errors
///
/// If a keep-alive breaks the rule, or the files cannot be written.
pub fn rewrite(all: &[Behaviour]) -> io::Result<()> {
    let mut files: BTreeMap<Net, String> = BTreeMap::new();
    if let Some(breach) = all.iter().flat_map(|it| &it.breaches).next() {
        return Err(io::Error::other(format!(
            "a keep-alive breaks the rule: {breach}"
        )));
    }
    for Behaviour {
        workload,
        texts,
        economy,
        ..
    } in all
    {
        let workload = workload.name();
        for ((net, seed), texts) in texts {
            let line = format!("{workload} seed {seed}: {}\n", Fingerprint::of(texts));
            files.entry(*net).or_default().push_str(&line);
        }
        let line = format!("{workload}: {economy}\n");
        files.entry(Net::Economy).or_default().push_str(&line);
    }
    for (net, text) in files {
        fs::write(net.file(), text)?;
    }
    Ok(())
}

/// Every call with its time.
fn exact(record: &Record) -> Vec<String> {
    let mut names = Names::default();
    let sent = record.sent.iter();
    sent.map(|it| format!("{:.3} {}", it.at.as_secs_f64(), names.exact(it)))
        .collect()
}

/// The calls about each name, one name after the other, without keep-alives: these have a rule of their own.
fn ordered(record: &Record) -> Vec<String> {
    let mut by_name: BTreeMap<_, (Names, Vec<String>)> = BTreeMap::new();
    for sent in &record.sent {
        if matches!(verb(&sent.call), Verb::Heartbeat | Verb::Renew) {
            continue;
        }
        let script = sent.call.item.script;
        let keys: Vec<_> = sent.call.item.keys.iter().collect();
        // The first key of each item belongs to its name; a call without keys concerns the server.
        let mains = keys.iter().step_by(script.keys.len().max(1)).copied();
        let mains = mains.chain(keys.is_empty().then_some(""));
        for main in mains {
            let (names, texts) = by_name.entry((sent.server, main)).or_default();
            texts.push(names.timeless(sent));
        }
    }
    by_name.into_values().flat_map(|(_, texts)| texts).collect()
}
