//! Draws the screen into a frame, without a server. Text from others is escaped, and cut at the end of its column.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row as Cells, Sparkline, Table, Wrap};

use super::app::{App, Opened, Question};
use crate::live::Row;
use crate::look::{Lock, Part, QUEUE};
use crate::out::shown;

/// How late a sample may be before the screen reports it. If the server does not answer, the sampler itself reports that within
/// this time.
const SILENCE: Duration = Duration::from_secs(5);

/// A column of the list.
struct Column {
    heading: &'static str,
    /// `None`: an equal share of the width that the other columns leave.
    width: Option<u16>,
    /// How wide the screen must be for this column.
    from: u16,
}

const fn column(heading: &'static str, width: Option<u16>, from: u16) -> Column {
    Column {
        heading,
        width,
        from,
    }
}

/// The columns of the list, in the order of [`cells`].
const COLUMNS: [Column; 7] = [
    column("NAME", None, 0),
    column("KIND", Some(9), 64),
    column("MODE", Some(9), 72),
    column("HOLDER", None, 32),
    column("AGE", Some(6), 56),
    column("LEFT", Some(6), 40),
    column("WAITERS", Some(7), 24),
];

const KEYS: &str = "\
arrows, j, k, PageUp, PageDown, Home, End   move
Enter   show the holders and the queue of a name; Esc goes back
/       filter by a part of a name or of a holder, as you type;
        Enter keeps the filter, Esc clears it
s       sort by waiters, name, age or time left
r       ask the holder of a name to release it, after a question
q       quit; Esc and Ctrl-C do the same

Events between two looks are missed, so grants and waits are
lower bounds. Grey lines are older than three intervals. A
lease \"ran out\" if its renewal was late at the last look, and
it was gone after its end.";

impl App {
    /// Draws everything, on a screen of any size.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, now: Instant) {
        let [head, body, foot] = Layout::vertical([
            Constraint::Length(4),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head, now);
        match self.opened.take() {
            Some(mut opened) => {
                self.draw_opened(frame, body, &mut opened, now);
                self.opened = Some(opened);
            }
            None => self.draw_list(frame, body, now),
        }
        frame.render_widget(self.foot(), foot);
        if self.help {
            popup(frame, " Keys ", KEYS.into());
        }
        if let Some(question) = &self.question {
            popup(frame, " Revoke? ", asked(question));
        }
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect, now: Instant) {
        let [first, second, third, fourth] =
            Layout::vertical([Constraint::Length(1); 4]).areas(area);
        let sample = &self.sample;
        let names = sample.locks.len();
        let filtered = match self.shown.len() {
            shown if shown == names => String::new(),
            shown => format!(" ({shown} shown)"),
        };
        frame.render_widget(
            Line::from(vec![
                "lockkeeper top ".bold(),
                Span::raw(format!(
                    "{}  names {names}{filtered}, holders {}, waiting {}",
                    shown(&self.pattern),
                    sample.holders,
                    sample.waiters
                )),
            ]),
            first,
        );
        let rates = sample.per_second;
        frame.render_widget(
            Line::raw(format!(
                "per second: {:.1} granted, {:.1} ended, {:.1} ran out, {:.1} revoked",
                rates.grants, rates.ended, rates.ran_out, rates.revoked
            )),
            second,
        );
        let waits = self.waits();
        let width = u16::try_from(waits.len() + 1).unwrap_or(u16::MAX);
        let [text, line] =
            Layout::horizontal([Constraint::Length(width), Constraint::Min(0)]).areas(third);
        frame.render_widget(Line::raw(waits), text);
        let longest = &sample.waits.longest_ms;
        let begin = longest.len().saturating_sub(line.width.into());
        // A wait of zero must be visible too.
        let bars = longest.iter().skip(begin);
        let bars: Vec<u64> = bars.map(|it| it.map_or(0, |ms| ms.max(1))).collect();
        frame.render_widget(Sparkline::default().data(&bars).cyan(), line);
        frame.render_widget(self.load(now), fourth);
    }

    /// The wait times, as text before the graph.
    fn waits(&self) -> String {
        let waits = &self.sample.waits;
        match waits.sum_ms.checked_div(waits.seen) {
            None => "waits: none seen".to_owned(),
            Some(mean) => {
                let longest = waits.longest_ms.iter().flatten().max().copied();
                format!(
                    "waits: {} seen, {} on average, up to {}",
                    waits.seen,
                    short(mean),
                    short(longest.unwrap_or(0))
                )
            }
        }
    }

    /// The load on the server, or that the server does not answer.
    fn load(&self, now: Instant) -> Line<'_> {
        let load = &self.sample.load;
        let alert = Style::new().fg(Color::Red).bold();
        let quiet = now.saturating_duration_since(self.sampled);
        if let (Some(since), Some(why)) = (self.silent, &self.sample.unreachable) {
            let since = now.saturating_duration_since(since);
            return Line::styled(
                format!("no answer for {}: {}", time(since), shown(why)),
                alert,
            );
        }
        if quiet > self.interval + SILENCE {
            return Line::styled(format!("no answer for {}", time(quiet)), alert);
        }
        let mut text = format!(
            "{:.0} requests and {:.0} pages per second; ",
            load.questions_per_second, load.pages_per_second
        );
        text += &match (load.unknown, load.listed_ms) {
            (0, Some(_)) => format!("oldest answer {}", short(load.oldest_ms)),
            (unknown, Some(_)) => format!("{unknown} names have no answer yet"),
            (unknown, None) => format!("still listing names; {unknown} have no answer yet"),
        };
        if load.left_out > 0 {
            text += &format!("; {} names left out", load.left_out);
        }
        Line::styled(text, Style::new().dim())
    }

    fn draw_list(&mut self, frame: &mut Frame<'_>, area: Rect, now: Instant) {
        self.page = usize::from(area.height.saturating_sub(1));
        self.keep_in_sight();
        let columns = columns(area.width);
        let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
        let heading = columns.iter().map(|(index, _)| COLUMNS[*index].heading);
        let waited = now.saturating_duration_since(self.sampled);
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let old = u64::try_from(self.interval.as_millis() * 3).unwrap_or(u64::MAX);
        let visible = (self.first..self.shown.len()).take(self.page);
        let rows = visible.filter_map(|place| {
            let row = self.sample.locks.get(*self.shown.get(place)?)?;
            let cells = cells(row, waited);
            let cells = columns
                .iter()
                .map(|(index, width)| cut(&cells[*index], *width));
            let style = match (place == self.cursor, row.looked_ms + waited > old) {
                (true, _) => Style::new().reversed(),
                (false, true) => Style::new().dark_gray(),
                (false, false) => Style::new(),
            };
            Some(Cells::new(cells).style(style))
        });
        let table = Table::new(rows, widths).header(Cells::new(heading).bold());
        frame.render_widget(table, area);
        if self.shown.is_empty() && area.height > 2 {
            let why = match self.filter.is_empty() {
                true => "nothing is held",
                false => "no lock matches the filter",
            };
            let below = Rect {
                y: area.y + 1,
                height: 1,
                ..area
            };
            frame.render_widget(Line::raw(why).dim(), below);
        }
    }

    fn draw_opened(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        opened: &mut Opened,
        now: Instant,
    ) {
        self.page = area.height.into();
        let waited = now.saturating_duration_since(self.sampled);
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let lines = match self.row(&opened.name) {
            Some(row) => lines(row, waited, area.width),
            None => vec![
                Line::raw(shown(&opened.name)).bold(),
                Line::raw("nobody holds it and nobody waits"),
            ],
        };
        opened.lines = lines.len();
        opened.first = opened.first.min(lines.len().saturating_sub(self.page));
        let visible: Vec<Line<'_>> = lines
            .into_iter()
            .skip(opened.first)
            .take(self.page)
            .collect();
        frame.render_widget(Paragraph::new(visible), area);
    }

    fn foot(&self) -> Line<'_> {
        if self.typing {
            let filter = shown(&self.filter);
            return Line::from(vec![
                "filter: ".bold(),
                Span::raw(filter),
                "_".slow_blink(),
                "   Enter keeps it, Esc clears it".dim(),
            ]);
        }
        if let Some(told) = &self.told {
            return Line::raw(told).yellow();
        }
        let sort = self.order.as_str();
        let text = match (&self.opened, self.filter.is_empty()) {
            (Some(_), _) => "Esc back   arrows scroll   r revoke   ? help   q quit".to_owned(),
            (None, true) => {
                format!("Enter queue   / filter   s sort: {sort}   r revoke   ? help   q quit")
            }
            (None, false) => format!(
                "/ filter: {} (Esc clears)   s sort: {sort}   r revoke   ? help   q quit",
                shown(&self.filter)
            ),
        };
        Line::raw(text).dim()
    }
}

/// Returns the columns that fit on a screen of this width: the index of each in [`COLUMNS`], and its width.
fn columns(width: u16) -> Vec<(usize, u16)> {
    let there = COLUMNS.iter().enumerate();
    let there: Vec<_> = there.filter(|(_, it)| it.from <= width).collect();
    let fixed: u16 = there.iter().filter_map(|(_, it)| it.width).sum();
    let gaps = u16::try_from(there.len()).unwrap_or(0).saturating_sub(1);
    let rest = width.saturating_sub(fixed + gaps);
    let shared = there.iter().filter(|(_, it)| it.width.is_none()).count() > 1;
    let half = if shared { rest / 2 } else { 0 };
    let share = |(index, column): (usize, &Column)| match (index, column.width) {
        (_, Some(width)) => (index, width),
        (0, None) => (index, rest - half),
        (_, None) => (index, half),
    };
    there.into_iter().map(share).collect()
}

/// The cells of a lock, `waited` milliseconds after the sample.
fn cells(row: &Row, waited: u64) -> [String; 7] {
    let lock = &row.lock;
    let first = lock.holders.first();
    let holder = match (first, lock.holders.len()) {
        (Some(first), 1) => first.described(),
        (Some(first), holds) => format!("{} +{}", first.described(), holds - 1),
        (None, _) => "-".to_owned(),
    };
    let age = row.held_ms.map(|held| short(held.saturating_add(waited)));
    let waiters = lock.waiters.map(|waiters| waiters.to_string());
    [
        shown(&lock.name),
        lock.kind.as_deref().map(shown).unwrap_or_default(),
        mode(lock),
        shown(&holder),
        age.unwrap_or_default(),
        first.map_or_else(String::new, |part| left(part, row, waited)),
        waiters.unwrap_or_else(|| "-".to_owned()),
    ]
}

/// The same as [`Lock::mode`], short enough for the column.
fn mode(lock: &Lock) -> String {
    let held = lock.holders.iter().filter_map(|part| part.permits);
    match (lock.limit, lock.holders.is_empty()) {
        (Some(limit), _) => format!("{}/{limit}", held.fold(0, u32::saturating_add)),
        (None, true) => String::new(),
        (None, false) => lock.mode(),
    }
}

/// How much of its lease is left now, if it was not renewed since the server was asked.
fn left(part: &Part, row: &Row, waited: u64) -> String {
    match part.left_ms {
        None => "no end".to_owned(),
        Some(left) => short(left.saturating_sub(row.looked_ms.saturating_add(waited))),
    }
}

/// Everything known about a lock.
fn lines(row: &Row, waited: u64, width: u16) -> Vec<Line<'static>> {
    let lock = &row.lock;
    let mut about = vec![shown(&lock.name).bold()];
    if let Some(kind) = &lock.kind {
        let permits = lock.permits().map(|permits| format!(", {permits}"));
        let token = lock.fence.map(|token| format!(", token {token}"));
        let held = row.held_ms.map(|held| short(held.saturating_add(waited)));
        let held = held.map(|held| format!(", held for {held}"));
        let [permits, token, held] = [permits, token, held].map(Option::unwrap_or_default);
        about.push(Span::raw(format!(
            ": {}{permits}{held}{token}",
            shown(kind)
        )));
    }
    let mut lines = vec![Line::from(about), Line::raw("")];
    let widths = widths(width);
    lines.push(
        line(
            &widths,
            ["HOLDER", "MODE", "STATE", "LEFT", "SEEN", "CLAIM"],
        )
        .bold(),
    );
    for (part, seen) in lock.holders.iter().zip(&row.holders_seen_ms) {
        let seen = seen.map(|seen| short(seen.saturating_add(waited)));
        let mode = lock.mode_of(part);
        let left = left(part, row, waited);
        let (who, claim) = (shown(&part.described()), shown(&part.claim));
        let seen = seen.unwrap_or_default();
        lines.push(line(
            &widths,
            [&who, &mode, part.state, &left, &seen, &claim],
        ));
    }
    if lock.holders.is_empty() {
        lines.push(Line::raw("nobody holds it").dim());
    }
    let waiting = lock.waiters.unwrap_or(0);
    let queue = match (row.queue_looked_ms, lock.queue.len()) {
        (_, 0) if waiting == 0 => "nobody waits".to_owned(),
        (None, _) => format!("{waiting} waiting"),
        (Some(_), 0) => format!("{waiting} waiting, none of them in a queue"),
        (Some(looked), front) => {
            let looked = short(looked.saturating_add(waited));
            let first = match front >= usize::try_from(QUEUE).unwrap_or(usize::MAX) {
                true => format!(", the first {front}"),
                false => String::new(),
            };
            format!("{waiting} waiting{first}, as of {looked} ago")
        }
    };
    lines.push(Line::raw(""));
    lines.push(Line::raw(queue));
    if !lock.queue.is_empty() {
        lines.push(line(&widths, ["WAITER", "PLACE", "", "", "", "CLAIM"]).bold());
    }
    for (place, part) in (1..).zip(&lock.queue) {
        let (who, claim) = (shown(&part.described()), shown(&part.claim));
        lines.push(line(
            &widths,
            [&who, &format!("{place}"), "", "", "", &claim],
        ));
    }
    lines
}

/// The widths of the columns of holders and waiters.
fn widths(width: u16) -> [u16; 6] {
    let claim = if width > 120 { 80 } else { 0 };
    let fixed = [10, 9, 7, 7];
    let rest = width.saturating_sub(fixed.iter().sum::<u16>() + 5 + claim);
    let [mode, state, left, seen] = fixed;
    [rest.max(12), mode, state, left, seen, claim]
}

/// Cells in columns of these widths.
fn line(widths: &[u16; 6], cells: [&str; 6]) -> Line<'static> {
    let mut text = String::new();
    for (cell, width) in cells.into_iter().zip(widths) {
        let cell = cut(cell, *width);
        let blank = usize::from(*width).saturating_sub(Span::raw(&*cell).width());
        text += &cell;
        text += &" ".repeat(blank + 1);
    }
    Line::raw(text.trim_end().to_owned())
}

/// Returns as much of a text as fits into a column, with a mark if it is cut.
fn cut(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut ends = text.char_indices().map(|(index, _)| index).take(width + 1);
    let fits = |end: &usize| Span::raw(&text[..*end]).width() < width;
    match ends.by_ref().filter(fits).last() {
        Some(end) => format!("{}…", &text[..end]),
        None => String::new(),
    }
}

/// Formats a time in at most six columns, by its two largest units.
fn short(millis: u64) -> String {
    let seconds = millis / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (100.., _, _) => format!("{days}d"),
        (1.., _, _) => format!("{days}d{:02}h", hours % 24),
        (0, 1.., _) => format!("{hours}h{:02}m", minutes % 60),
        (0, 0, 1..) => format!("{minutes}m{:02}s", seconds % 60),
        (0, 0, 0) if seconds >= 10 => format!("{seconds}s"),
        (0, 0, 0) => format!("{seconds}.{}s", millis % 1000 / 100),
    }
}

fn time(time: Duration) -> String {
    short(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Describes the revocation in full. The name is not cut.
fn asked(question: &Question) -> String {
    let name = shown(&question.name);
    let who = match &question.holders[..] {
        [one] => format!("{} is asked", shown(one)),
        [first, others @ ..] => format!("{} and {} more are asked", shown(first), others.len()),
        [] => "nobody is asked".to_owned(),
    };
    format!(
        "Revoke {name}?\n\n{who} to release it: the holder's work is stopped, and the lock becomes free, at the latest when \
         its lease ends.\n\ny  revoke      n  cancel"
    )
}

/// A box with text in the middle of the screen, on top of everything else.
fn popup(frame: &mut Frame<'_>, title: &str, text: String) {
    let all = frame.area();
    let lines = text.lines().map(|line| Span::raw(line).width());
    let widest = lines.clone().max().unwrap_or(0).clamp(1, 66);
    let inner = widest.min(usize::from(all.width.saturating_sub(2))).max(1);
    // Wrapping at words needs more lines than wrapping at letters, so this allows for some more. If they do not suffice, the rest
    // is cut.
    let height = lines
        .map(|line| 1 + line / inner + line / 40)
        .sum::<usize>()
        + 2;
    let size = |wanted: usize, most: u16| u16::try_from(wanted).unwrap_or(most).min(most);
    let (width, height) = (size(inner + 2, all.width), size(height, all.height));
    let area = Rect {
        x: all.x + (all.width - width) / 2,
        y: all.y + (all.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, area);
    let text = Paragraph::new(text).wrap(Wrap { trim: false });
    frame.render_widget(text.block(Block::bordered().title(title)), area);
}
