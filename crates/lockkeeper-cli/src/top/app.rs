//! The state of the screen, and what each key does to it. Uses no terminal and no server.

use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::exit::Failure;
use crate::live::{Order, Row, Sample, Wanted, has};
use crate::look::Part;
use crate::out;

/// Everything that the screen depends on.
pub(super) struct App {
    pub(super) pattern: String,
    pub(super) interval: Duration,
    pub(super) sample: Sample,
    /// When the sample came.
    pub(super) sampled: Instant,
    /// Since when requests have failed; `None` if the last sample had no failure.
    pub(super) silent: Option<Instant>,
    pub(super) filter: String,
    /// Whether the filter is being typed.
    pub(super) typing: bool,
    pub(super) order: Order,
    /// The locks of the sample that are shown, in order.
    pub(super) shown: Vec<usize>,
    /// The position of the cursor, and the first line on the screen.
    pub(super) cursor: usize,
    pub(super) first: usize,
    /// How many lines fit on the screen, as last drawn.
    pub(super) page: usize,
    pub(super) opened: Option<Opened>,
    pub(super) question: Option<Question>,
    pub(super) help: bool,
    /// The result of the last revocation, until a key is pressed.
    pub(super) told: Option<String>,
}

/// The name whose holders and queue are shown.
pub(super) struct Opened {
    pub(super) name: String,
    /// The first line on the screen, and the number of lines.
    pub(super) first: usize,
    pub(super) lines: usize,
}

/// The question whether to revoke a lock.
pub(super) struct Question {
    pub(super) name: String,
    /// The holders, as people know them.
    pub(super) holders: Vec<String>,
    /// Their claims. A "yes" counts only if the lock still has exactly these holders.
    claims: Vec<String>,
}

/// What the loop must do after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Leave,
    /// Revoke this lock.
    Revoke(String),
}

impl App {
    pub(super) fn new(pattern: &str, interval: Duration) -> Self {
        Self {
            pattern: pattern.to_owned(),
            interval,
            sample: Sample::default(),
            sampled: Instant::now(),
            silent: None,
            filter: String::new(),
            typing: false,
            order: Order::default(),
            shown: Vec::new(),
            cursor: 0,
            first: 0,
            page: 1,
            opened: None,
            question: None,
            help: false,
            told: None,
        }
    }

    /// Takes a new sample. The cursor stays with its name, except at the top, where it stays on the first line.
    pub(super) fn sampled(&mut self, sample: Sample, now: Instant) {
        let followed = self.followed();
        self.silent = match &sample.unreachable {
            Some(_) => self.silent.or(Some(now)),
            None => None,
        };
        self.sample = sample;
        self.sampled = now;
        self.arrange(followed.as_deref());
    }

    /// Shows the result of a revocation.
    pub(super) fn revoked(&mut self, name: String, told: Result<u64, Failure>) {
        let name = out::shown(&name);
        self.told = Some(match told {
            Ok(0) => format!("{name}: nobody holds it"),
            Ok(1) => format!("{name}: its holder was asked to release it"),
            Ok(told) => format!("{name}: its {told} holders were asked to release it"),
            Err(failure) => out::shown(failure.message()),
        });
    }

    /// Returns what the next sample should be most up to date about.
    pub(super) fn wanted(&self) -> Wanted {
        let seen = self.shown.iter().skip(self.first).take(self.page);
        let seen = seen.filter_map(|index| self.sample.locks.get(*index));
        Wanted {
            seen: seen.map(|row| row.lock.name.clone()).collect(),
            opened: self.opened.as_ref().map(|opened| opened.name.clone()),
        }
    }

    /// The lock with this name, if it has holders or waiters.
    pub(super) fn row(&self, name: &str) -> Option<&Row> {
        self.sample.locks.iter().find(|row| row.lock.name == name)
    }

    fn under_cursor(&self) -> Option<&Row> {
        let index = self.shown.get(self.cursor)?;
        self.sample.locks.get(*index)
    }

    /// The name that the cursor follows: the one under it, unless the cursor is at the top.
    fn followed(&self) -> Option<String> {
        let row = self.under_cursor().filter(|_| self.cursor > 0);
        row.map(|row| row.lock.name.clone())
    }

    /// Filters and sorts the locks. The cursor goes to `name` if it is there, and otherwise keeps its position.
    fn arrange(&mut self, name: Option<&str>) {
        let locks = &self.sample.locks;
        let is_shown = |index: &usize| has(&locks[*index], &self.filter);
        let mut shown: Vec<usize> = (0..locks.len()).filter(is_shown).collect();
        shown.sort_by(|one, other| self.order.compare(&locks[*one], &locks[*other]));
        let place = |name| {
            shown
                .iter()
                .position(|index| locks[*index].lock.name == name)
        };
        if let Some(place) = name.and_then(place) {
            self.cursor = place;
        }
        self.shown = shown;
        self.move_to(self.cursor);
    }

    /// Moves the cursor within the list, and the screen with it.
    fn move_to(&mut self, cursor: usize) {
        self.cursor = cursor.min(self.shown.len().saturating_sub(1));
        self.keep_in_sight();
    }

    /// Keeps the cursor on the screen, whatever its size.
    pub(super) fn keep_in_sight(&mut self) {
        let page = self.page.max(1);
        let last = self.shown.len().saturating_sub(page);
        self.first = self.first.min(self.cursor).min(last);
        self.first = self.first.max((self.cursor + 1).saturating_sub(page));
    }

    /// Handles a key.
    pub(super) fn update(&mut self, key: KeyEvent) -> Action {
        self.told = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Action::Leave,
                _ => Action::None,
            };
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key.code);
        }
        if self.help {
            self.help = false;
            return Action::None;
        }
        if self.typing {
            self.type_filter(key.code);
            return Action::None;
        }
        match key.code {
            KeyCode::Char('q') => return Action::Leave,
            KeyCode::Char('?') => self.help = true,
            KeyCode::Char('r') => self.ask(),
            KeyCode::Esc if self.opened.is_some() => self.opened = None,
            KeyCode::Esc if !self.filter.is_empty() => self.set_filter(String::new()),
            KeyCode::Esc => return Action::Leave,
            KeyCode::Char('/') if self.opened.is_none() => self.typing = true,
            KeyCode::Char('s') if self.opened.is_none() => {
                self.order = self.order.next();
                self.arrange(None);
            }
            KeyCode::Enter => self.open(),
            code => self.scroll(code),
        }
        Action::None
    }

    fn scroll(&mut self, code: KeyCode) {
        let page = self.page.max(1);
        let (place, last) = match &self.opened {
            Some(opened) => (opened.first, opened.lines.saturating_sub(page)),
            None => (self.cursor, self.shown.len().saturating_sub(1)),
        };
        let place = match code {
            KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => place + 1,
            KeyCode::PageUp => place.saturating_sub(page),
            KeyCode::PageDown => place + page,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return,
        };
        match &mut self.opened {
            Some(opened) => opened.first = place.min(last),
            None => self.move_to(place),
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                filter.clear();
            }
            KeyCode::Backspace => {
                filter.pop();
            }
            KeyCode::Char(character) => filter.push(character),
            code => self.scroll(code),
        }
        self.set_filter(filter);
    }

    fn set_filter(&mut self, filter: String) {
        if filter != self.filter {
            let followed = self.followed();
            self.filter = filter;
            self.arrange(followed.as_deref());
        }
    }

    fn open(&mut self) {
        if self.opened.is_some() {
            return;
        }
        self.opened = self.under_cursor().map(|row| Opened {
            name: row.lock.name.clone(),
            first: 0,
            lines: 0,
        });
    }

    /// Asks whether to revoke the open lock, or the one under the cursor.
    fn ask(&mut self) {
        let row = match &self.opened {
            Some(opened) => self.row(&opened.name),
            None => self.under_cursor(),
        };
        let Some(row) = row else { return };
        if row.lock.holders.is_empty() {
            self.told = Some(format!("{}: nobody holds it", out::shown(&row.lock.name)));
            return;
        }
        self.question = Some(Question {
            name: row.lock.name.clone(),
            holders: row.lock.holders.iter().map(Part::described).collect(),
            claims: claims(row),
        });
    }

    fn answer(&mut self, question: Question, code: KeyCode) -> Action {
        if !matches!(code, KeyCode::Char('y' | 'Y')) {
            self.told = Some("nothing was revoked".to_owned());
            return Action::None;
        }
        let now = self.row(&question.name).map(claims).unwrap_or_default();
        if now != question.claims {
            let name = out::shown(&question.name);
            self.told = Some(format!(
                "{name}: its holders have changed; nothing was revoked"
            ));
            return Action::None;
        }
        Action::Revoke(question.name)
    }
}

/// The claims that hold a lock, in an order that renewals do not change.
fn claims(row: &Row) -> Vec<String> {
    let claims = row.lock.holders.iter().map(|part| part.claim.clone());
    let mut claims: Vec<String> = claims.collect();
    claims.sort();
    claims
}
