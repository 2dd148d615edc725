//! Which source file imports which: layers and circles.
//!
//! Files are read, not compiled. An import is any path outside comments that begins with `crate::`, `super::` or the name of a
//! module that the file declares. It counts as an import of the file with the longest matching module path. Modules named
//! `tests` may import whatever they test, and the root of a crate may re-export anything.

use std::collections::{BTreeMap, BTreeSet};

/// The layers of a crate from bottom to top, by the modules in its root. A file imports only from its own layer and from those below.
pub(crate) struct Layers {
    layers: &'static [&'static [&'static str]],
    /// The modules of one layer do not import one another.
    apart: bool,
}

pub(crate) const CORE: Layers = Layers {
    layers: &[
        &["words"],
        &["claim", "quorum", "schedule", "registry"],
        &["seam"],
        &["engine"],
        &["admin"],
        &["grant"],
        &["acquire"],
        &["client"],
    ],
    apart: true,
};

/// Of the store over Redis: what a user configures and a server says; one connection; where it leads and how it is kept; a deployment.
pub(crate) const STORE: Layers = Layers {
    layers: &[
        &[
            "credentials",
            "deployment",
            "events",
            "failure",
            "options",
            "reply",
            "request",
            "seeds",
            "sharding",
            "target",
            "tls",
            "translation",
        ],
        &["wire"],
        &["native"],
        &["connection"],
        &["advice", "connection_slot", "sentinel"],
        &["locator"],
        &["dialer"],
        &["command_connection", "replica_wait_pool"],
        &["subscriber"],
        &["cluster", "single"],
        &["store"],
    ],
    apart: false,
};

/// How many files may form an import circle: a type, and the files with its methods.
const CIRCLE: usize = 4;

/// The files of one crate and the imports of each.
pub(crate) struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    /// The imports of these files; each is a path below `src/` and a text.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files: Vec<(Vec<&str>, &str)> = files
            .into_iter()
            .map(|(path, text)| (module_of(path), text))
            .filter(|(module, _)| !module.contains(&"tests"))
            .collect();
        let known: BTreeSet<String> = files.iter().map(|(module, _)| module.join("::")).collect();
        let imports = files.iter().map(|(module, text)| {
            let imported = paths(text, !module.is_empty()).into_iter();
            let imported = imported.filter_map(|path| file_of(&path, module, &known));
            let own = module.join("::");
            let imported = imported.filter(|it| *it != own).collect();
            (own.clone(), imported)
        });
        Self(imports.collect())
    }

    /// Upward imports, also through the root of the crate, and modules that belong to no layer.
    pub(crate) fn against(&self, layers: &Layers) -> Vec<String> {
        let layer = |module: &str| {
            let folder = module.split("::").next().unwrap_or_default();
            let mut its = layers.layers.iter();
            its.position(|layer| layer.contains(&folder))
        };
        let folder = |module: &str| module.split("::").next().map(str::to_owned);
        let mut against = Vec::new();
        for (module, imported) in &self.0 {
            // The crate root and the mutants are not part of any layer.
            if module.is_empty() || module == "mutants" {
                continue;
            }
            let Some(own) = layer(module) else {
                against.push(format!("`{module}` is in no layer"));
                continue;
            };
            for other in imported {
                if other.is_empty() {
                    against.push(format!(
                        "`{module}` imports from the root: name the module that has it"
                    ));
                }
                let Some(its) = layer(other) else { continue };
                let apart = layers.apart && folder(module) != folder(other);
                if its > own || its == own && apart {
                    against.push(format!(
                        "`{module}` imports `{other}`, which is not below it"
                    ));
                }
            }
        }
        against
    }

    /// The circles with more files than allowed.
    pub(crate) fn circles(&self) -> Vec<String> {
        let mut circles = BTreeSet::new();
        for module in self.0.keys() {
            let reached = self.reached_from(module);
            let circle: BTreeSet<&String> = reached
                .into_iter()
                .filter(|other| self.reached_from(other).contains(module))
                .collect();
            if circle.len() > CIRCLE {
                let names: Vec<String> = circle.iter().map(|it| format!("`{it}`")).collect();
                circles.insert(format!("{} import one another", names.join(", ")));
            }
        }
        circles.into_iter().collect()
    }

    fn reached_from<'a>(&'a self, module: &'a String) -> BTreeSet<&'a String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![module];
        while let Some(next) = open.pop() {
            for other in self.0.get(next).into_iter().flatten() {
                // Every file may import the root and the mutants.
                if !other.is_empty() && other != "mutants" && reached.insert(other) {
                    open.push(other);
                }
            }
        }
        reached
    }
}

/// The module path of a file: `engine/part.rs` is `engine::part`.
fn module_of(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let mut module: Vec<&str> = path.split('/').collect();
    if matches!(module.last(), Some(&("mod" | "lib" | "main"))) {
        module.pop();
    }
    module
}

/// Every path that begins with `crate::`, `super::`, `self::` or, with `down`, a module that the file declares (`self::` is put in
/// front of those). Paths in braces are listed one by one.
fn paths(text: &str, down: bool) -> Vec<String> {
    let mut lines = text.lines();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if !line.trim_start().starts_with("#[cfg(test)]") {
            code.extend([line.split("//").next().unwrap_or_default(), "\n"]);
        } else if !lines.next().is_some_and(|line| line.ends_with(';')) {
            // The tests of this file, which end it. A module of tests in a file of its own is only left out.
            break;
        }
    }
    let declared = code.lines().filter_map(|line| {
        let (_, module) = line.trim().rsplit_once("mod ")?;
        module.strip_suffix(';')
    });
    let declared: Vec<String> = declared
        .filter(|_| down)
        .map(|it| format!("{it}::"))
        .collect();
    let mut found = Vec::new();
    let starts = ["crate::", "super::", "self::"].map(|start| (start, ""));
    let down = declared.iter().map(|start| (start.as_str(), "self::"));
    for (start, begun) in starts.into_iter().chain(down) {
        for (at, _) in code.match_indices(start) {
            // `$crate` belongs to a macro, `lockkeeper_core::crate` is not a path, and `pub(in crate::it)` imports nothing.
            let before = &code[..at];
            let last = before.chars().next_back();
            let begins = last.is_none_or(|it| !it.is_alphanumeric() && !"_$:.".contains(it));
            let begins = begins || before.ends_with("..");
            if begins && !before.ends_with("(in ") {
                expand(&code[at..], begun.to_owned(), &mut found);
            }
        }
    }
    found
}

/// Reads one path or a tree of paths, and returns the text after it.
fn expand<'a>(text: &'a str, begun: String, found: &mut Vec<String>) -> &'a str {
    let end = text
        .find(|it: char| !it.is_alphanumeric() && it != '_' && it != ':')
        .unwrap_or(text.len());
    let path = begun + &text[..end];
    let mut rest = &text[end..];
    if !(path.ends_with("::") && rest.starts_with('{')) {
        found.push(path.trim_end_matches(':').to_owned());
        return rest;
    }
    loop {
        rest = expand(rest[1..].trim_start(), path.clone(), found).trim_start();
        if !rest.starts_with(',') {
            return rest.strip_prefix('}').unwrap_or(rest);
        }
    }
}

/// The file that a path in `module` refers to. That of a type, which begins with a capital letter, in the root of the crate is the root.
fn file_of(path: &str, module: &[&str], known: &BTreeSet<String>) -> Option<String> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut base = Vec::new();
    if parts.first() == Some(&"super") {
        base.extend_from_slice(module);
        while parts.first() == Some(&"super") {
            base.pop();
            parts.remove(0);
        }
    } else if parts.remove(0) == "self" {
        base.extend_from_slice(module);
    }
    base.extend(parts);
    let of_root = base.len() == 1 && base[0].starts_with(char::is_uppercase);
    (1..=base.len())
        .rev()
        .map(|length| base[..length].join("::"))
        .find(|module| known.contains(module))
        .or_else(|| of_root.then(String::new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_upwards_is_found_wherever_it_stands() {
        for text in [
            "use crate::engine::part::Part;",
            "use crate::{engine::part::Part, words::kind};",
            "fn f() { crate::engine::part::new() }",
            "use crate::Part;",
            "fn f() { for it in crate::engine::part::all() {} }",
            "fn f() { It { ..crate::engine::part::IT } }",
            "#[cfg(test)]\nmod tests;\nuse crate::engine::part::Part;",
        ] {
            let files = [("words/kind.rs", text), ("engine/part.rs", "")];
            let against = Imports::of(files).against(&CORE);
            assert_eq!(against.len(), 1, "{text}: {against:?}");
        }
        let fine = [
            (
                "words/kind.rs",
                "pub(in crate::engine) fn f() {} // use crate::engine::part::Part;\n#[cfg(test)]\nmod tests {\nuse crate::engine::part::Part;",
            ),
            ("engine/part.rs", "use crate::words::kind::Kind;"),
        ];
        assert!(Imports::of(fine).against(&CORE).is_empty());
    }

    #[test]
    fn the_modules_of_one_layer_are_apart_where_the_crate_says_so() {
        let core = [
            ("claim/mod.rs", "use crate::quorum::It;"),
            ("quorum.rs", ""),
        ];
        assert_eq!(Imports::of(core).against(&CORE).len(), 1);
        let store = [("target.rs", "use crate::tls::It;"), ("tls.rs", "")];
        assert!(Imports::of(store).against(&STORE).is_empty());
        let store = [("tls.rs", "use crate::store::It;"), ("store.rs", "")];
        assert_eq!(Imports::of(store).against(&STORE).len(), 1);
    }

    #[test]
    fn a_folder_without_a_layer_is_found() {
        let files = [("cellar/wine.rs", "")];
        assert_eq!(Imports::of(files).against(&CORE).len(), 1);
    }

    #[test]
    fn a_circle_of_too_many_files_is_found() {
        let texts = ["b", "c", "d", "e", "a"].map(|next| format!("use crate::{next}::It;"));
        let files = ["a.rs", "b.rs", "c.rs", "d.rs", "e.rs"];
        let files = || files.into_iter().zip(texts.iter().map(String::as_str));
        assert_eq!(Imports::of(files()).circles().len(), 1);
        assert!(Imports::of(files().take(4)).circles().is_empty());
    }

    #[test]
    fn a_parent_that_uses_its_children_is_part_of_their_circle() {
        let parent =
            "mod a;\nmod b;\nmod c;\nmod d;\nuse a::It;\nfn f() { b::f(); c::f(); d::f() }";
        let circles = |parent: &str| {
            let children =
                ["p/a.rs", "p/b.rs", "p/c.rs", "p/d.rs"].map(|it| (it, "use super::It;"));
            let files = [("p/mod.rs", parent)].into_iter().chain(children);
            Imports::of(files).circles().len()
        };
        assert_eq!(circles(parent), 1);
        assert_eq!(circles(&parent.replace("use a", "use self::a")), 1);
        assert_eq!(
            circles("mod a;\nmod b;\nmod c;\nmod d;\n// a::It\nuse other::a::It;"),
            0
        );
    }
}
