//! The results as a table for people and as JSON for programs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::rounds::Spread;

/// The target for a figure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    part: Cow<'static, str>,
    what: String,
    unit: Cow<'static, str>,
    #[serde(flatten)]
    spread: Spread,
    target: Option<Target>,
    /// Whether the median meets the target.
    met: Option<bool>,
    plot: Option<Point>,
}

/// The point of a figure in a plot.
#[derive(Debug, Serialize, Deserialize)]
struct Point {
    name: Cow<'static, str>,
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
            part: part.into(),
            what: what.into(),
            unit: unit.into(),
            spread,
            target: None,
            met: None,
            plot: None,
        }
    }

    /// Makes the median a point of this line in this plot.
    pub(crate) fn plotted(mut self, plot: &'static str, line: &str, at: f64) -> Self {
        let (name, line) = (plot.into(), line.to_owned());
        self.plot = Some(Point { name, line, at });
        self
    }

    /// Sets the target for the median.
    pub(crate) fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self.met = Some(target.is_met_by(self.spread.median));
        self
    }

    fn cells(&self) -> [String; 7] {
        let Spread { median, min, max } = self.spread;
        let range = match min == max {
            true => String::new(),
            false => format!("{} … {}", figure(min), figure(max)),
        };
        let met = match self.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "",
        };
        let target = self.target.map(|target| target.to_string());
        [
            self.part.to_string(),
            self.what.clone(),
            figure(median),
            self.unit.to_string(),
            range,
            target.unwrap_or_default(),
            met.to_owned(),
        ]
    }
}

/// All figures of one run, or of a part of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// What the figures depend on: name and text of each.
    pub(crate) facts: BTreeMap<String, String>,
    pub(crate) rows: Vec<Row>,
}

/// The column titles of the table.
const HEAD: [&str; 7] = ["part", "what", "median", "", "min … max", "target", "met"];

/// The column of the medians; numbers are aligned to the right.
const MEDIAN: usize = 2;

impl From<Vec<Row>> for Report {
    fn from(rows: Vec<Row>) -> Self {
        Self {
            facts: BTreeMap::new(),
            rows,
        }
    }
}

impl Report {
    /// Adds what another part has measured.
    pub(crate) fn add(&mut self, part: Self) {
        for (name, text) in part.facts {
            // Those about the machine are from before the first part.
            self.facts.entry(name).or_insert(text);
        }
        self.rows.extend(part.rows);
    }

    /// Prints the table for people.
    pub(crate) fn print(&self) {
        for (name, text) in &self.facts {
            println!("{name:<12} {text}");
        }
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

    /// Reads a file that [`write`](Self::write) wrote.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("failed to read {}", file.display()))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Writes the JSON file for programs.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        // One row per line, so that two runs can be compared line by line.
        let rows: Result<Vec<String>, _> = self.rows.iter().map(serde_json::to_string).collect();
        let whole = format!(
            "{{\n\"facts\": {},\n\"rows\": [\n{}\n]\n}}\n",
            serde_json::to_string(&self.facts)?,
            rows?.join(",\n"),
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
