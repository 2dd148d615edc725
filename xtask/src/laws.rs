//! The laws of the house, which keep the boundaries between the crates.
//!
//! A law examines a [`House`] and returns the offences, one sentence each.

use std::collections::BTreeMap;

use crate::house::{House, Member};
use crate::layers::{CORE, Imports, STORE};

/// A law: its text and its check.
pub(crate) type Law = (&'static str, fn(&House) -> Vec<String>);

/// All laws.
pub(crate) const LAWS: &[Law] = &[
    (
        "a lock crate depends on the engine, the scripts and what only computes: no socket, no task, no clock",
        lock_crates_depend_on_engine_and_scripts,
    ),
    (
        "only the store of servers knows redis-rs and fred, only the embedded store knows mlua",
        client_and_interpreter_are_known_to_their_stores,
    ),
    (
        "imports of the core and of the store point down, layer by layer",
        imports_point_down,
    ),
    (
        "no more than four source files import one another in a circle",
        circles_of_files_are_small,
    ),
    (
        "the facade depends on crates of this house only",
        facade_depends_on_the_house,
    ),
    (
        "published members have one version",
        published_members_have_one_version,
    ),
    (
        "a published member has what its page on a registry shows, and takes from the workspace what is common to all",
        published_members_are_complete,
    ),
    (
        "testkit, tests, examples and xtask are unpublished, and nothing published needs them",
        development_members_stay_at_home,
    ),
    (
        "nothing published switches on the defects of the engine",
        defects_stay_at_home,
    ),
    (
        "the top level has what a visitor looks for",
        top_level_is_complete,
    ),
    (
        "every member is annotated in Cargo.toml",
        members_are_annotated,
    ),
    (
        "no lint is allowed without a reason, nothing is left to do",
        sources_hold_no_leftovers,
    ),
];

/// Published crates that are not locks. Every other crate is a lock, so the law applies to a new one without listing it.
const NOT_LOCKS: [&str; 8] = [
    "lockkeeper",
    "lockkeeper-cli",
    "lockkeeper-conformance",
    "lockkeeper-core",
    "lockkeeper-lua",
    "lockkeeper-memory",
    "lockkeeper-metrics",
    "lockkeeper-redis",
];

/// Members that are for development only.
const UNPUBLISHED: [&str; 6] = [
    "lockkeeper-examples",
    "lockkeeper-examples-sql",
    "lockkeeper-testkit",
    "lockkeeper-tests",
    "lockkeeper-threads",
    "xtask",
];

/// Libraries, and the crates that may depend on them, also in tests.
const KNOWN_TO: [(&str, &[&str]); 3] = [
    ("redis", &["lockkeeper-redis", "lockkeeper-tests"]),
    (
        "fred",
        &[
            "lockkeeper-redis",
            "lockkeeper-testkit",
            "lockkeeper-tests",
            // They show a program that uses Redis for more than locks.
            "lockkeeper-examples",
        ],
    ),
    ("mlua", &["lockkeeper-memory"]),
];

/// The feature that compiles deliberate mistakes into the engine.
const DEFECTS: &str = "lockkeeper-core/mutants";

/// Dependencies without sockets, tasks or clocks.
const COMPUTING: [&str; 4] = ["futures-core", "serde", "serde_json", "sha2"];

fn lock_crates_depend_on_engine_and_scripts(house: &House) -> Vec<String> {
    let locks = house.members.iter().filter(|member| {
        let name = member.name.as_str();
        !NOT_LOCKS.contains(&name) && !UNPUBLISHED.contains(&name)
    });
    locks
        .flat_map(|lock| {
            foreign(lock, |name| {
                ["lockkeeper-core", "lockkeeper-lua"].contains(&name) || COMPUTING.contains(&name)
            })
        })
        .collect()
}

fn client_and_interpreter_are_known_to_their_stores(house: &House) -> Vec<String> {
    let mut offences = Vec::new();
    for (library, knowing) in KNOWN_TO {
        let others = house.members.iter();
        for member in others.filter(|member| !knowing.contains(&member.name.as_str())) {
            let mut known = member.dependencies.iter().chain(&member.dev_dependencies);
            if known.any(|name| name == library) {
                offences.push(format!("{} knows {library}", member.name));
            }
        }
    }
    offences
}

fn imports_point_down(house: &House) -> Vec<String> {
    let mut imports = imports(house);
    let layered = [("lockkeeper-core", CORE), ("lockkeeper-redis", STORE)];
    let against = layered.into_iter().flat_map(|(name, layers)| {
        let against = match imports.remove(name) {
            Some(files) => files.against(&layers),
            None => vec!["it has no source files".to_owned()],
        };
        against.into_iter().map(move |it| format!("{name}: {it}"))
    });
    against.collect()
}

fn circles_of_files_are_small(house: &House) -> Vec<String> {
    let crates = imports(house).into_iter();
    let circles = crates.flat_map(|(name, imports)| {
        let circles = imports.circles().into_iter();
        circles.map(move |circle| format!("{name}: {circle}"))
    });
    circles.collect()
}

/// The imports between files, for each crate below `crates` with a folder `src`.
fn imports(house: &House) -> BTreeMap<&str, Imports> {
    let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in &house.sources {
        let below = path.rsplit_once("crates/").map(|(_, below)| below);
        if let Some((name, file)) = below.and_then(|below| below.split_once("/src/")) {
            crates.entry(name).or_default().push((file, text));
        }
    }
    let crates = crates.into_iter();
    crates
        .map(|(name, files)| (name, Imports::of(files)))
        .collect()
}

fn facade_depends_on_the_house(house: &House) -> Vec<String> {
    let mut members = house.members.iter();
    members
        .find(|member| member.name == "lockkeeper")
        .map_or_else(
            || vec!["there is no member lockkeeper".to_owned()],
            |facade| foreign(facade, |name| name.starts_with("lockkeeper-")),
        )
}

fn published_members_have_one_version(house: &House) -> Vec<String> {
    let mut published = house.members.iter().filter(|member| member.published);
    let Some(first) = published.next() else {
        return vec!["no member is published".to_owned()];
    };
    published
        .filter(|member| member.version != first.version)
        .map(|member| {
            format!(
                "{} is {}, {} is {}",
                first.name, first.version, member.name, member.version
            )
        })
        .collect()
}

/// Lines that the manifest of every published member contains.
const COMPLETE: [&str; 9] = [
    "description = ",
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "readme = \"README.md\"",
    "keywords.workspace = true",
    "[package.metadata.docs.rs]",
    "[lints]\nworkspace = true",
];

/// Files in the folder of every published member: its page, and the licences for the package.
const FILES: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];

fn published_members_are_complete(house: &House) -> Vec<String> {
    let mut lines = COMPLETE.to_vec();
    if house.manifest.contains("\nrepository = ") {
        lines.push("repository.workspace = true");
    }
    let mut offences = Vec::new();
    for member in house.members.iter().filter(|member| member.published) {
        let (name, manifest) = (&member.name, format!("\n{}", member.manifest));
        for line in &lines {
            if !manifest.contains(&format!("\n{line}")) {
                let line = line.replace('\n', " ");
                offences.push(format!("the manifest of {name} has no line {line:?}"));
            }
        }
        let files = FILES.iter();
        let missing = files.filter(|file| !member.files.iter().any(|there| there == *file));
        offences.extend(missing.map(|file| format!("{name} has no {file}")));
    }
    offences
}

fn development_members_stay_at_home(house: &House) -> Vec<String> {
    let mut offences = Vec::new();
    for name in UNPUBLISHED {
        match house.members.iter().find(|member| member.name == name) {
            None => offences.push(format!("there is no member {name}")),
            Some(member) if member.published => offences.push(format!("{name} would be published")),
            Some(_) => {}
        }
    }
    let published = house.members.iter().filter(|member| member.published);
    offences
        .extend(published.flat_map(|member| foreign(member, |name| !UNPUBLISHED.contains(&name))));
    offences
}

/// Features are unified over a whole build: a crate that enables them does so for its users.
fn defects_stay_at_home(house: &House) -> Vec<String> {
    let published = house.members.iter().filter(|member| member.published);
    published
        .filter(|member| member.enabled.iter().any(|feature| feature == DEFECTS))
        .map(|member| format!("{} switches on {DEFECTS}", member.name))
        .collect()
}

fn top_level_is_complete(house: &House) -> Vec<String> {
    ["Cargo.toml", "crates", "docs", "examples", "lua", "tests"]
        .into_iter()
        .filter(|name| !house.top.iter().any(|there| there == name))
        .map(|name| format!("there is no {name}"))
        .collect()
}

fn members_are_annotated(house: &House) -> Vec<String> {
    let mut lines = house.manifest.lines().map(str::trim);
    if !lines.any(|line| line == "members = [") {
        return vec!["the list of members does not have one line for each".to_owned()];
    }
    lines
        .take_while(|line| *line != "]")
        .filter(|line| line.starts_with('"'))
        .filter(|line| line.split_once("# ").is_none())
        .map(|line| format!("not annotated: {line}"))
        .collect()
}

/// Clippy finds these too, but not in code that is not compiled here because it is for another system or feature.
fn sources_hold_no_leftovers(house: &House) -> Vec<String> {
    // Split in two, because the law examines this file as well.
    let leftovers = [
        concat!("#[al", "low("),
        concat!("#![al", "low("),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
    ];
    let mut offences = Vec::new();
    for (path, text) in &house.sources {
        for (number, line) in text.lines().enumerate() {
            for leftover in leftovers
                .iter()
                .filter(|leftover| line.contains(**leftover))
            {
                offences.push(format!("{path}:{}: {leftover}…", number + 1));
            }
        }
    }
    offences
}

/// The dependencies of a member for which `fits` is false.
fn foreign(member: &Member, fits: impl Fn(&str) -> bool) -> Vec<String> {
    member
        .dependencies
        .iter()
        .filter(|name| !fits(name))
        .map(|name| format!("{} depends on {name}", member.name))
        .collect()
}

#[cfg(test)]
mod tests;
