//! Every promise in the guarantees names the tests that show it, and these exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::text::links;
use super::{Book, Page, resolved};

const GUARANTEES: &str = "docs/guarantees.md";

/// The heading that ends the promises.
const NOT_PROMISED: &str = "What is not promised";

/// An item of a list, or a piece of text between lists.
#[derive(Debug, Default)]
struct Item {
    line: usize,
    text: String,
    /// Whether it is a list item.
    listed: bool,
}

/// Named tests that do not exist, and promises that name none. A test must be in a file that its item links to, or that the
/// text above its list links to.
pub(super) fn missing(book: &Book) -> Vec<String> {
    let Some(page) = book.page(Path::new(GUARANTEES)) else {
        return vec![format!("there is no {GUARANTEES}")];
    };
    let mut offences = Vec::new();
    let mut above: BTreeSet<PathBuf> = BTreeSet::new();
    let everywhere = linked_by(book, page, page.text.split("\n## ").next().unwrap_or(""));
    let mut promised = true;
    for item in items(&page.text) {
        if item.text.starts_with('#') {
            above.clear();
            promised = !item.text.contains(NOT_PROMISED);
            continue;
        }
        let linked = linked_by(book, page, &item.text);
        let tests = tests(&item.text);
        let known = linked.union(&above).chain(&everywhere);
        let known: Vec<&str> = known
            .filter_map(|path| book.sources.get(path).map(String::as_str))
            .collect();
        for test in &tests {
            if !known.iter().any(|text| has_word(text, test)) {
                offences.push(format!(
                    "{GUARANTEES}:{}: {test} is in no file that stands there",
                    item.line
                ));
            }
        }
        if item.listed && promised && tests.is_empty() && linked.is_empty() && !is_condition(&item)
        {
            offences.push(format!("{GUARANTEES}:{}: nothing shows this", item.line));
        }
        if !item.listed {
            above.extend(linked);
        }
    }
    offences
}

/// Promises begin in bold; other list items are conditions.
fn is_condition(item: &Item) -> bool {
    !item.text.starts_with("- **")
}

/// Splits a text at headings, list items and paragraphs.
fn items(text: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut new = true;
    for (number, line) in text.lines().enumerate() {
        let listed = line.starts_with("- ");
        if new || listed || line.starts_with('#') {
            items.push(Item {
                line: number + 1,
                text: String::new(),
                listed,
            });
        }
        new = line.is_empty();
        if let Some(item) = items.last_mut() {
            item.text.push_str(line);
            item.text.push('\n');
        }
    }
    items
}

/// The Rust files that a text links to, including those in linked folders.
fn linked_by(book: &Book, page: &Page, text: &str) -> BTreeSet<PathBuf> {
    let mut linked = BTreeSet::new();
    for (_, target) in links(text) {
        let path = resolved(&page.path, target.split('#').next().unwrap_or(&target));
        let folder = match path.file_name() {
            Some(name) if name == "main.rs" => path.parent().map(Path::to_path_buf),
            _ => None,
        };
        let inside = |file: &&PathBuf| {
            **file == path
                || path.extension().is_none() && file.starts_with(&path)
                || folder
                    .as_ref()
                    .is_some_and(|folder| file.starts_with(folder))
        };
        linked.extend(book.sources.keys().filter(inside).cloned());
    }
    linked
}

/// The test names in code spans: several words joined by underscores.
fn tests(text: &str) -> Vec<String> {
    let code = text.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        word.matches('_').count() > 2
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    code.filter(is_test).map(str::to_owned).collect()
}

fn has_word(text: &str, word: &str) -> bool {
    let part_of_word =
        |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + word.len()..]);
        !part_of_word(before.chars().next_back()) && !part_of_word(behind.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offences(guarantees: &str) -> Vec<String> {
        let page = |path: &str, text: &str| Page {
            path: path.into(),
            text: text.to_owned(),
        };
        let sources = [
            ("tests/one.rs", "fn it_holds_for_one() {}"),
            ("tests/more/main.rs", "mod two;"),
            ("tests/more/two.rs", "fn it_holds_for_two() {}"),
        ];
        missing(&Book {
            pages: vec![page(GUARANTEES, guarantees)],
            pictures: Vec::new(),
            others: BTreeSet::new(),
            sources: sources
                .map(|(path, text)| (path.into(), text.to_owned()))
                .into(),
        })
    }

    #[test]
    fn tests_are_found_in_the_files_of_the_item_and_of_the_text_above() {
        let text = "# G\n\n## A\n\n- **It holds.** `it_holds_for_one` in [one.rs](../tests/one.rs)\n\
                    - **Twice.**\n  `it_holds_for_two` in [more](../tests/more/main.rs)\n\n\
                    ## B\n\nTests are in [one.rs](../tests/one.rs).\n\n- **So.** `it_holds_for_one`\n\
                    - **By a whole file.** [two.rs](../tests/more/two.rs)\n\n\
                    ## What is not promised\n\n- **All else.**\n";
        assert_eq!(offences(text), [""; 0]);
    }

    #[test]
    fn what_nothing_shows_and_what_is_not_there_is_named() {
        let text = "# G\n\n## A\n\n- **It holds.**\n- **Here.** `it_holds_for_two` in [one.rs](../tests/one.rs)\n\
                    - **Part.** `it_holds_for_on` in [one.rs](../tests/one.rs)\n\
                    ## B\n\n- **There.** `it_holds_for_one`\n";
        assert_eq!(
            offences(text),
            [
                "docs/guarantees.md:5: nothing shows this",
                "docs/guarantees.md:6: it_holds_for_two is in no file that stands there",
                "docs/guarantees.md:7: it_holds_for_on is in no file that stands there",
                "docs/guarantees.md:10: it_holds_for_one is in no file that stands there",
            ]
        );
    }
}
