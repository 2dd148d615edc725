//! The results as a table for people and as JSON for programs.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::rounds::Spread;

/// The target for a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// Not more than this.
    AtMost(f64),
    /// Not less than this.
    AtLeast(f64),
}

impl Target {
    fn is_met_by(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "≤ {}", figure(*limit)),
            Self::AtLeast(limit) => write!(f, "≥ {}", figure(*limit)),
        }
    }
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Row {
    part: &'static str,
    what: String,
    unit: &'static str,
    spread: Spread,
    target: Option<Target>,
    point: Option<Point>,
}

/// The point of a figure in a plot.
#[derive(Debug)]
struct Point {
    plot: &'static str,
    line: String,
    at: f64,
}

impl Row {
    /// A figure without a target.
    pub(crate) fn new(
        part: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        spread: Spread,
    ) -> Self {
        Self {
            part,
            what: what.into(),
            unit,
            spread,
            target: None,
            point: None,
        }
    }

    /// Makes the median a point of this line in this plot.
    pub(crate) fn plotted(mut self, plot: &'static str, line: &str, at: f64) -> Self {
        let line = line.to_owned();
        self.point = Some(Point { plot, line, at });
        self
    }

    /// Sets the target for the median.
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Whether the median meets the target.
    fn met(&self) -> Option<bool> {
        self.target
            .map(|target| target.is_met_by(self.spread.median))
    }

    fn cells(&self) -> [String; 7] {
        let range = if self.spread.least == self.spread.greatest {
            String::new()
        } else {
            format!(
                "{} … {}",
                figure(self.spread.least),
                figure(self.spread.greatest)
            )
        };
        let met = match self.met() {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        [
            self.part.to_owned(),
            self.what.clone(),
            figure(self.spread.median),
            self.unit.to_owned(),
            range,
            self.target
                .map(|target| target.to_string())
                .unwrap_or_default(),
            met.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let (at_most, at_least) = match self.target {
            Some(Target::AtMost(limit)) => (Some(limit), None),
            Some(Target::AtLeast(limit)) => (None, Some(limit)),
            None => (None, None),
        };
        json!({
            "part": self.part,
            "what": self.what,
            "unit": self.unit,
            "median": self.spread.median,
            "min": self.spread.least,
            "max": self.spread.greatest,
            "at_most": at_most,
            "at_least": at_least,
            "met": self.met(),
            "plot": self.point.as_ref().map(|it| json!({ "name": it.plot, "line": it.line, "at": it.at })),
        })
    }
}

/// All figures of one run.
#[derive(Debug)]
pub(crate) struct Report {
    facts: Vec<(&'static str, String)>,
    rows: Vec<Row>,
}

/// The column titles of the table.
const HEAD: [&str; 7] = ["part", "what", "median", "", "min … max", "target", "met"];

/// The column of the medians; numbers are aligned to the right.
const MEDIAN: usize = 2;

impl Report {
    /// Creates a report that begins with these facts.
    pub(crate) const fn new(facts: Vec<(&'static str, String)>) -> Self {
        Self {
            facts,
            rows: Vec::new(),
        }
    }

    /// Adds figures.
    pub(crate) fn add(&mut self, rows: Vec<Row>) {
        self.rows.extend(rows);
    }

    /// Prints the facts that the figures depend on.
    pub(crate) fn print_facts(&self) {
        for (name, text) in &self.facts {
            println!("{name:<12} {text}");
        }
    }

    /// Prints the table for people.
    pub(crate) fn print_table(&self) {
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let mut widths = HEAD.map(|head| head.chars().count());
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        println!("\n{}", line(HEAD, widths));
        println!("{}", line(widths.map(|width| "-".repeat(width)), widths));
        for row in rows {
            println!("{}", line(row, widths));
        }
    }

    /// Writes the JSON file for programs.
    pub(crate) fn write_json(&self, file: &Path, quick: bool) -> Result<()> {
        let facts: serde_json::Map<String, Value> = self
            .facts
            .iter()
            .map(|(name, text)| ((*name).to_owned(), json!(text)))
            .collect();
        // One row per line, so that two runs can be compared line by line.
        let rows: Vec<String> = self.rows.iter().map(|row| row.json().to_string()).collect();
        let whole = format!(
            "{{\n\"facts\": {},\n\"quick\": {quick},\n\"rows\": [\n{}\n]\n}}\n",
            Value::from(facts),
            rows.join(",\n"),
        );
        let write = || {
            if let Some(folder) = file.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(file, whole)
        };
        write().with_context(|| format!("failed to write {}", file.display()))
    }
}

fn line(cells: [impl fmt::Display; 7], widths: [usize; 7]) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let cell = cell.to_string();
        line += &if column == MEDIAN {
            format!("{cell:>width$}  ")
        } else {
            format!("{cell:<width$}  ")
        };
    }
    line.trim_end().to_owned()
}

/// A number with a sensible number of digits.
fn figure(value: f64) -> String {
    if value == value.trunc() || value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else if value.abs() >= 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
