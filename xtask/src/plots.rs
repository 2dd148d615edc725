//! `cargo xtask bench --plots`: draws the figures as SVG for the book, from `docs/plots/bench.json`, so that a check can
//! redraw them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use serde_json::Value;

use crate::house::root;

/// A plot: its name in the figures and of its file, and its labels.
struct Plot {
    name: &'static str,
    title: &'static str,
    across: &'static str,
    up: &'static str,
}

const PLOTS: [Plot; 3] = [
    Plot {
        name: "pairs",
        title: "Acquire and release, each task on a name of its own",
        across: "tasks",
        up: "pairs per second",
    },
    Plot {
        name: "hand-over",
        title: "From the call of release to the next holder running",
        across: "waiters",
        up: "µs",
    },
    Plot {
        name: "held",
        title: "Processor time for leases that are held, of 30 s",
        across: "leases",
        up: "% of a core",
    },
];

/// The colours for light and for dark.
type Colour = (RGBColor, &'static str);

const INK: Colour = (RGBColor(0x24, 0x29, 0x2f), "#e6edf3");
const SMALL: Colour = (RGBColor(0x57, 0x60, 0x6a), "#9da7b3");
const FAINT: Colour = (RGBColor(0xd8, 0xde, 0xe4), "#30363d");
const GROUND: Colour = (RGBColor(0xfb, 0xfc, 0xfd), "#161b22");

const LINES: [Colour; 8] = [
    (RGBColor(0x2b, 0x7a, 0x6c), "#6cc4b3"),
    (RGBColor(0xb0, 0x48, 0x3a), "#f08c7e"),
    (RGBColor(0xa9, 0x7f, 0x1f), "#d9b65c"),
    (RGBColor(0x3b, 0x66, 0xb0), "#86b0f5"),
    (RGBColor(0x7d, 0x4f, 0xa8), "#c29ae8"),
    (RGBColor(0x5f, 0x6b, 0x24), "#b3c26a"),
    (RGBColor(0xa8, 0x4a, 0x80), "#ea92c4"),
    (RGBColor(0x3a, 0x84, 0x9c), "#7fcbe3"),
];

const SIZE: (u32, u32) = (760, 460);

const FONT: &str = "ui-sans-serif, system-ui, sans-serif";

/// The points of each line, by its name.
type Lines = BTreeMap<String, Vec<(f64, f64)>>;

/// Makes these the figures of the book.
pub(crate) fn take(figures: &Path) -> Result<()> {
    fs::copy(figures, file("bench.json")).context("failed to copy the figures")?;
    draw()
}

/// Draws the plots of the book.
pub(crate) fn draw() -> Result<()> {
    for (file, text) in drawn()? {
        fs::write(&file, text).with_context(|| format!("failed to write {}", file.display()))?;
    }
    Ok(())
}

/// Fails unless the plots in the book match its figures.
pub(crate) fn check() -> Result<()> {
    for (file, text) in drawn()? {
        if fs::read_to_string(&file).ok() != Some(text) {
            bail!(
                "{} is out of date: run cargo xtask pictures",
                file.display()
            );
        }
    }
    Ok(())
}

fn file(name: &str) -> PathBuf {
    root().join("docs/plots").join(name)
}

fn drawn() -> Result<Vec<(PathBuf, String)>> {
    let path = file("bench.json");
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let figures: Value = serde_json::from_str(&text)?;
    let fact = |name: &str| figures["facts"][name].as_str().unwrap_or_default();
    let machine = ["date", "processor", "cores", "server"].map(fact);
    let [date, processor, cores, server] = machine;
    let below = format!("{date}, {cores} cores of {processor}, {server}");
    let rows = figures["rows"].as_array().context("no rows")?;
    let plots = PLOTS.iter().map(|plot| {
        let svg = draw_one(plot, &lines(rows, plot.name)?, &below)
            .with_context(|| format!("failed to draw {}", plot.name))?;
        Ok((file(&format!("{}.svg", plot.name)), svg))
    });
    plots.collect()
}

fn lines(rows: &[Value], plot: &str) -> Result<Lines> {
    let mut lines = Lines::new();
    for row in rows.iter().filter(|row| row["plot"]["name"] == plot) {
        let number = |value: &Value| value.as_f64().context("no number");
        let line = row["plot"]["line"].as_str().context("no line")?;
        let point = (number(&row["plot"]["at"])?, number(&row["median"])?);
        lines.entry(line.to_owned()).or_default().push(point);
    }
    for points in lines.values_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Ok(lines)
}

fn draw_one(plot: &Plot, lines: &Lines, below: &str) -> Result<String> {
    if lines.is_empty() || lines.len() > LINES.len() {
        bail!("{} lines", lines.len());
    }
    let all = || lines.values().flatten();
    // Leave a little space around the outermost points, and as much above them as the names of the lines need.
    let names = 0.09 * f64::from(u8::try_from(lines.len())?);
    let range = |of: fn(&(f64, f64)) -> f64, names: f64| {
        let (least, most) = all()
            .map(of)
            .fold((f64::MAX, f64::MIN), |(least, most), it| {
                (least.min(it), most.max(it))
            });
        (least * 0.85..most * 1.2 * (most / least).powf(names)).log_scale()
    };
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        fill(
            &area,
            plot,
            lines,
            below,
            range(|it| it.0, 0.0),
            range(|it| it.1, names),
        )
        .map_err(|error| anyhow!("{error}"))?;
    }
    let (head, body) = svg.split_once('>').context("no element")?;
    let (title, style) = (plot.title, style());
    Ok(format!(
        "{head} role=\"img\">\n<title>{title}</title>\n<style>{style}</style>{body}"
    ))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn fill<X, Y>(
    area: &Area<'_>,
    plot: &Plot,
    lines: &Lines,
    below: &str,
    across: X,
    up: Y,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let font = |size: u32, colour: Colour| (FONT, size).into_font().color(&colour.0);
    area.fill(&GROUND.0)?;
    area.draw(&Text::new(below.to_owned(), (16, 438), font(12, SMALL)))?;
    let mut chart = ChartBuilder::on(area)
        .caption(plot.title, font(17, INK))
        .margin(14)
        .margin_bottom(34)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .bold_line_style(FAINT.0)
        .light_line_style(TRANSPARENT)
        .axis_style(SMALL.0)
        .label_style(font(12, SMALL))
        .axis_desc_style(font(13, INK))
        .x_desc(plot.across)
        .y_desc(plot.up)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    for ((name, points), (colour, _)) in lines.iter().zip(LINES) {
        let style = colour.stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(GROUND.0)
        .border_style(FAINT.0)
        .label_font(font(12, INK))
        .draw()?;
    area.present()?;
    Ok(())
}

/// A number on an axis.
fn short(value: f64) -> String {
    if value >= 1_000_000.0 {
        format!("{} M", value / 1_000_000.0)
    } else if value >= 1_000.0 {
        format!("{} k", value / 1_000.0)
    } else {
        format!("{value}")
    }
}

/// The page around a plot may be light or dark; like the pictures, a plot follows the reader's preference.
fn style() -> String {
    let colours = [INK, SMALL, FAINT, GROUND].into_iter().chain(LINES);
    let rules = colours.map(|(RGBColor(red, green, blue), dark)| {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}")
    });
    let rules: String = rules.collect();
    format!("@media(prefers-color-scheme:dark){{{rules}}}")
}
