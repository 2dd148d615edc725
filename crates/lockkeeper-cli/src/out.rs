//! What goes to stdout: colours on a terminal only, aligned tables, JSON lines.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};
use serde::Serialize;

use crate::exit::{CLOSED, Failure};

/// Prints one line.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}

/// Prints one JSON object on a line of its own.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::system("write", &error))?;
    line(&harmless(&text))
}

/// Prints aligned rows below their heading; on a terminal, no wider than the terminal.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let cells = |row: &Vec<String>| row.iter().map(|text| cell(text)).collect();
    table_of_cells(heading, rows.iter().map(cells).collect())
}

/// A table cell with text from any source.
pub(crate) fn cell(text: &str) -> Cell {
    Cell::new(shown(text))
}

/// The same as [`table`], for cells that may have colours.
pub(crate) fn table_of_cells(heading: &[&str], rows: Vec<Vec<Cell>>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    // Without a terminal, a program reads the output and expects whole lines. The printing code removes colours.
    table.set_content_arrangement(match table.is_tty() {
        true => ContentArrangement::Dynamic,
        false => ContentArrangement::Disabled,
    });
    table.enforce_styling();
    let bold = |word: &&str| Cell::new(word).add_attribute(Attribute::Bold);
    table.set_header(heading.iter().map(bold));
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    print(&(table.trim_fmt() + "\n"))
}

/// The longest text of others that is shown, in characters: longer than any name, label or claim of this library.
const LONGEST: usize = 2048;

/// Escapes text that others chose, so that it cannot move the cursor, shift a column, reverse the direction of text or hide
/// anything. A very long text is cut.
pub(crate) fn shown(text: &str) -> String {
    let escape = |character: char| character.escape_default().collect();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => escaped(&text[..end], escape) + "…",
        None => escaped(text, escape),
    }
}

/// Escapes the same characters in JSON, without cutting it. Everything outside of strings stays as it is.
pub(crate) fn harmless(json: &str) -> String {
    escaped(json, |character| {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units);
        units.iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let escaped = |character: char| match is_seen(character) {
        true => character.to_string(),
        false => escape(character),
    };
    text.chars().map(escaped).collect()
}

/// Whether a character is visible and does not affect others: not a control character, a mark or override of direction, a line
/// separator, or a character without width or meaning.
fn is_seen(character: char) -> bool {
    const UNSEEN: GeneralCategoryGroup = GeneralCategoryGroup::Other
        .union(GeneralCategoryGroup::LineSeparator)
        .union(GeneralCategoryGroup::ParagraphSeparator);
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    !UNSEEN.contains(category) && !ignorable.contains(character)
}

/// Formats a time for people: in milliseconds below two seconds, in whole seconds above.
pub(crate) fn duration(time: Duration) -> String {
    let rounded = if time < Duration::from_secs(2) {
        Duration::from_millis(time.as_millis().try_into().unwrap_or(u64::MAX))
    } else {
        Duration::from_secs(time.as_secs())
    };
    humantime::format_duration(rounded).to_string()
}

pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(CLOSED, "the output was closed"),
        _ => Failure::system("write", &error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_escaped() {
        for hidden in "\u{0}\u{7}\u{1b}\u{9b}\u{ad}\u{61c}\u{115f}\u{1160}\u{180e}\u{200b}\u{200d}\u{200f}\u{2028}\u{202e}\
                       \u{2060}\u{2066}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{e000}\u{e0041}\u{10ffff}"
            .chars()
        {
            let text = format!("a{hidden}b");
            assert_eq!(shown(&text), format!("a{}b", hidden.escape_default()));
            let json = harmless(&serde_json::to_string(&text).unwrap());
            assert!(json.is_ascii(), "{json}");
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        }
        let seen = "db1:7 büro-東京 e\u{301} 🔒 → \u{a0}\u{3000}";
        assert_eq!(shown(seen), seen);
        assert_eq!(harmless(seen), seen);
    }

    #[test]
    fn a_text_without_end_is_cut() {
        assert_eq!(shown(&"é".repeat(LONGEST)), "é".repeat(LONGEST));
        assert_eq!(shown(&"é".repeat(5_000_000)), "é".repeat(LONGEST) + "…");
    }
}
