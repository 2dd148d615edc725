//! `cargo xtask book`: renders the book as HTML with mdBook. Links out of the book point to files of the repository, local or
//! published; mdBook alone would look for them in the book.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::resolved;
use crate::house::root;
use crate::steps::execute;

/// The output folder, relative to the top of the repository.
const BOOK: &str = "target/book";

/// Options for rendering.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Base URL for links to the repository's files [default: the files here].
    #[arg(long, value_name = "URL")]
    repository: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut mdbook = Command::new("mdbook");
    mdbook.args(["build", "docs"]).current_dir(root());
    execute(&mut mdbook).context("is mdBook there? cargo install mdbook")?;
    let mut dead = Vec::new();
    for page in pages(&root().join(BOOK))? {
        let html = fs::read_to_string(&page)?;
        let from = page.strip_prefix(root().join(BOOK))?;
        let html = links_replaced(&html, |link| match outside(from, link) {
            Some(file) => Some(to_repository(options, from, &file, link)),
            None => {
                if !is_there(from, link) {
                    dead.push(format!("{}: {link}", from.display()));
                }
                None
            }
        });
        fs::write(&page, html)?;
    }
    if !dead.is_empty() {
        bail!("dead links in the book:\n{}", dead.join("\n"));
    }
    println!("{BOOK}/index.html");
    Ok(())
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(pages(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "html") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The repository file that a link points to, unless it is a page of the book.
fn outside(from: &Path, link: &str) -> Option<PathBuf> {
    if link.contains(':') || link.starts_with('#') {
        return None;
    }
    let (file, _) = link.split_once('#').unwrap_or((link, ""));
    // Everything in docs/ belongs to the book, and nothing beside docs/ does.
    let path = resolved(&Path::new("docs").join(from), file);
    if path.starts_with("docs") {
        return None;
    }
    // mdBook treats every page as one of its own.
    let page = path.with_extension("md");
    let is_page = path.extension().is_some_and(|ending| ending == "html");
    Some(if is_page && root().join(&page).exists() {
        page
    } else {
        path
    })
}

fn to_repository(options: &Options, from: &Path, file: &Path, link: &str) -> String {
    let anchor = link.find('#').map_or("", |at| &link[at..]);
    let top = options.repository.clone().unwrap_or_else(|| {
        let depth = Path::new(BOOK).components().count() + from.components().count() - 1;
        vec![".."; depth].join("/")
    });
    format!("{}/{}{anchor}", top.trim_end_matches('/'), file.display())
}

fn is_there(from: &Path, link: &str) -> bool {
    let (file, _) = link.split_once('#').unwrap_or((link, ""));
    if link.contains(':') || file.is_empty() {
        return true;
    }
    let file = file.split_once('?').map_or(file, |(file, _)| file);
    root()
        .join(resolved(&Path::new(BOOK).join(from), file))
        .exists()
}

/// Replaces each link for which `replace` returns a text. By hand, because mdBook writes every link in this one form.
fn links_replaced(html: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut result = String::new();
    let mut rest = html;
    while let Some(start) = rest.find("<a href=\"") {
        let (before, link) = rest.split_at(start + "<a href=\"".len());
        let end = link.find('"').unwrap_or(link.len());
        result.push_str(before);
        result.push_str(&replace(&link[..end]).unwrap_or_else(|| link[..end].to_owned()));
        rest = &link[end..];
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_out_of_the_book_lead_to_the_repository() {
        let from = Path::new("decisions/0001-crates-and-laws.html");
        let file = outside(from, "../../README.html#why").unwrap();
        assert_eq!(file, Path::new("README.md"));
        assert_eq!(outside(from, "../guarantees.html"), None);
        let here = Options { repository: None };
        let link = to_repository(&here, from, &file, "../../README.html#why");
        assert_eq!(link, "../../../README.md#why");
        let there = Options {
            repository: Some("https://example.org/tree/".to_owned()),
        };
        let link = to_repository(&there, from, &file, "../../README.html");
        assert_eq!(link, "https://example.org/tree/README.md");
    }

    #[test]
    fn nothing_but_links_is_replaced() {
        let html = r#"<p>a</p><a href="x">x</a> and <a href="y">y</a>"#;
        let replaced = links_replaced(html, |link| (link == "x").then(|| "z".to_owned()));
        assert_eq!(
            replaced,
            r#"<p>a</p><a href="z">x</a> and <a href="y">y</a>"#
        );
    }
}
