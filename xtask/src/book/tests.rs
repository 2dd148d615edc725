use super::*;

fn book(pages: &[(&str, &str)]) -> Book {
    let pages = pages.iter().map(|(path, text)| Page {
        path: path.into(),
        text: (*text).to_owned(),
    });
    Book {
        pages: pages.collect(),
        pictures: vec!["docs/pictures/a.svg".into()],
        others: ["docs", "docs/pictures/a.svg", "lua/acquire.lua"]
            .into_iter()
            .map(PathBuf::from)
            .collect(),
        sources: BTreeMap::from([
            (TESTED_IN.into(), include("../../docs/tested.md")),
            ("crates/a/src/lib.rs".into(), include("../README.md")),
        ]),
    }
}

fn include(path: &str) -> String {
    format!("include_str!(\"{path}\")")
}

#[test]
fn a_chapter_that_the_summary_lacks_is_named_and_a_decision_is_not() {
    let offences = summary(&book(&[
        ("docs/SUMMARY.md", "- [one](one.md)\n- [later]()"),
        ("docs/one.md", ""),
        ("docs/two.md", ""),
        ("docs/decisions/0001-x.md", ""),
    ]));
    assert_eq!(offences, ["docs/two.md is not in the summary"]);
}

#[test]
fn a_picture_that_nobody_shows_is_found() {
    let shown = book(&[("docs/one.md", "![a](pictures/a.svg)")]);
    assert!(unseen_pictures(&shown).is_empty());
    let unseen = unseen_pictures(&book(&[("docs/one.md", "")]));
    assert_eq!(unseen, ["docs/pictures/a.svg is shown nowhere"]);
}

#[test]
fn rust_that_is_not_tested_is_found() {
    let rust = "```rust\nfn main() {}\n```";
    let offences = untested_rust(&book(&[
        ("docs/tested.md", rust),
        ("docs/new.md", rust),
        ("crates/a/README.md", rust),
        ("crates/b/README.md", rust),
    ]));
    let expected = [
        ("docs/new.md", "examples/lib/lib.rs"),
        ("crates/b/README.md", "crates/b/src/lib.rs"),
    ];
    let untested =
        expected.map(|(page, file)| format!("the Rust in {page} is not tested: name it in {file}"));
    assert_eq!(offences, untested);
}

#[test]
fn an_example_that_the_list_or_the_book_lacks_is_named() {
    let mut book = book(&[
        ("examples/README.md", "[a](a.rs) [b](b/main.rs)"),
        ("docs/examples/a.md", "{{#include ../../examples/a.rs}}"),
        ("docs/examples/c.md", "{{#include ../../examples/c.rs}}"),
    ]);
    for file in ["a.rs", "b/main.rs", "b/part.rs", "c.rs", "lib/lib.rs"] {
        book.others.insert(Path::new("examples").join(file));
    }
    let offences = untold_examples(&book);
    let expected = [
        "examples/b/main.rs has no page in docs/examples",
        "examples/c.rs is not in examples/README.md",
    ];
    assert_eq!(offences, expected);
}

#[test]
fn the_book_of_this_repository_is_whole() {
    check().unwrap();
}
