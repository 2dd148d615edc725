//! What goes to stdout: colours on a terminal only, aligned tables, JSON lines.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use serde::Serialize;
use tabwriter::TabWriter;

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

/// Prints rows below their heading, aligned.
pub(crate) fn table(heading: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let bold = anstyle::Style::new().bold();
    let heading: Vec<String> = heading
        .iter()
        .map(|word| format!("{bold}{word}{bold:#}"))
        .collect();
    let mut lines = vec![heading.join("\t")];
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| shown(cell)).collect();
        lines.push(cells.join("\t"));
    }
    let mut aligned = TabWriter::new(Vec::new()).ansi(true).padding(3);
    let written = aligned.write_all((lines.join("\n") + "\n").as_bytes());
    written.map_err(|error| Failure::system("write", &error))?;
    let text = aligned.into_inner();
    let text = text.map_err(|error| Failure::system("write", &error))?;
    print(&String::from_utf8_lossy(&text))
}

/// A name of somebody else's choice moves no cursor and no column, and turns no text around.
pub(crate) fn shown(text: &str) -> String {
    escaped(text, |character| character.escape_default().collect())
}

/// The same for JSON: what it has outside of strings is left as it is.
pub(crate) fn harmless(json: &str) -> String {
    escaped(json, |character| format!("\\u{:04x}", u32::from(character)))
}

fn escaped(text: &str, escape: fn(char) -> String) -> String {
    let escaped = |character: char| match character {
        // Marks and overrides of direction, separators of lines and paragraphs.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            escape(character)
        }
        _ if character.is_control() => escape(character),
        _ => character.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// A time as people say it: milliseconds below two seconds, whole seconds above.
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
        ErrorKind::BrokenPipe => Failure::new(CLOSED, "nobody reads any more"),
        _ => Failure::system("write", &error),
    })
}
