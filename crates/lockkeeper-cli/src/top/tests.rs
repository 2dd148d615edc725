use std::sync::Arc;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::app::{Action, App};
use crate::exit::Failure;
use crate::live::{Row, Sample};
use crate::look::{Lock, Part};

fn part(claim: &str, label: &str) -> Part {
    Part {
        left_ms: Some(25_000),
        state: "held",
        shared: Some(false),
        ..Part::new(claim.to_owned(), None, Some(label.to_owned()))
    }
}

fn row(name: &str, holder: &str, waiters: u64) -> Row {
    let lock = Lock {
        name: name.to_owned(),
        kind: Some("fair".to_owned()),
        fence: Some(7),
        since: None,
        holders: vec![part(&format!("claim of {holder}"), holder)],
        limit: None,
        waiters: Some(waiters),
        queue: Vec::new(),
        result: None,
    };
    Row {
        lock: Arc::new(lock),
        looked_ms: 0,
        held_ms: Some(65_000),
        holders_seen_ms: vec![Some(1000)],
        queue_looked_ms: None,
    }
}

/// A sample as it comes from the sampler: sorted by waiters.
fn sample(locks: Vec<Row>) -> Sample {
    let waiters = locks.iter().filter_map(|row| row.lock.waiters).sum();
    Sample {
        holders: locks.len().try_into().unwrap(),
        waiters,
        locks,
        ..Sample::default()
    }
}

fn app(locks: Vec<Row>) -> App {
    let mut app = App::new("*", Duration::from_secs(1));
    app.sampled(sample(locks), Instant::now());
    app
}

fn three() -> App {
    app(vec![
        row("printer", "db1:7 office", 12),
        row("alpha", "db2:8", 3),
        row("beta", "db3:9", 0),
    ])
}

fn press(app: &mut App, keys: &str) -> Action {
    let mut action = Action::None;
    for key in keys.chars() {
        let code = match key {
            '\r' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            key => KeyCode::Char(key),
        };
        action = app.update(KeyEvent::new(code, KeyModifiers::NONE));
    }
    action
}

/// The text on a screen of this size.
fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| app.draw(frame, Instant::now()))
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(move |x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn names(app: &mut App) -> Vec<String> {
    let lines = screen(app, 80, 24);
    let rows = lines[5..23].iter().filter(|line| !line.is_empty());
    rows.map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn eighty_columns_have_every_column() {
    let lines = screen(&mut three(), 80, 24);
    assert!(
        lines[0].contains("names 3, holders 3, waiting 15"),
        "{lines:#?}"
    );
    for heading in ["NAME", "KIND", "MODE", "HOLDER", "AGE", "LEFT", "WAITERS"] {
        assert!(lines[4].contains(heading), "{lines:#?}");
    }
    for text in [
        "printer",
        "fair",
        "exclusive",
        "db1:7 office",
        "1m05s",
        "25s",
        "12",
    ] {
        let near = text == "25s" && lines[5].contains("24s");
        assert!(near || lines[5].contains(text), "{text}: {lines:#?}");
    }
    assert!(lines[23].contains("q quit"), "{lines:#?}");
}

#[test]
fn a_wide_screen_has_whole_names_and_a_narrow_one_says_that_it_cut_them() {
    let long = "deploy:".repeat(8);
    let mut app = app(vec![row(&long, "db1:7", 1)]);
    assert!(screen(&mut app, 200, 24)[5].starts_with(&long));
    let narrow = &screen(&mut app, 80, 24)[5];
    assert!(
        narrow.starts_with("deploy:") && narrow.contains('…'),
        "{narrow}"
    );
    assert!(narrow.contains("db1:7"), "{narrow}");
}

#[test]
fn a_holder_of_another_library_is_shown_as_what_it_is() {
    let thread = "2bbaa2bf-6d65-4e16-98b0-454cf99bfe9d:9";
    let foreign = |name, kind: &str, claim: &str| {
        let mut row = row(name, "", 0);
        let lock = Arc::get_mut(&mut row.lock).unwrap();
        lock.kind = Some(kind.to_owned());
        lock.fence = None;
        lock.holders = vec![Part::new(claim.to_owned(), None, None)];
        row
    };
    let mut app = app(vec![
        foreign("java", "redisson", thread),
        foreign("theirs", "foreign", "8f1c2d3e"),
    ]);
    let lines = screen(&mut app, 120, 24);
    for (line, texts) in [(5, ["redisson", thread]), (6, ["foreign", "8f1c2d3e"])] {
        for text in texts {
            assert!(lines[line].contains(text), "{text}: {lines:#?}");
        }
    }
    // On eighty columns the end of a long one is cut, and said to be.
    let narrow = &screen(&mut app, 80, 24)[5];
    assert!(
        narrow.contains(&thread[..8]) && narrow.contains('…'),
        "{narrow}"
    );
}

#[test]
fn no_size_is_too_small() {
    let mut app = three();
    for keys in ["", "?", "x\r", "\u{1b}/a", "\rr"] {
        press(&mut app, keys);
        for width in [0, 1, 2, 11, 23, 24, 31, 40, 56, 64, 72, 80, 200] {
            for height in [0, 1, 4, 5, 6, 24] {
                screen(&mut app, width, height);
            }
        }
    }
}

#[test]
fn hostile_names_move_nothing() {
    let name = "a\u{1b}[2J\u{202e}b\nc東京";
    let mut app = app(vec![row(name, "db\u{7}:1", 1)]);
    let lines = screen(&mut app, 120, 24);
    assert!(
        lines[5].starts_with("a\\u{1b}[2J\\u{202e}b\\nc東"),
        "{}",
        lines[5]
    );
    assert!(lines[5].contains("db\\u{7}:1"), "{}", lines[5]);
    press(&mut app, "r");
    assert!(
        screen(&mut app, 120, 24)
            .concat()
            .contains("Revoke a\\u{1b}[2J")
    );
    press(&mut app, "n\r");
    assert!(screen(&mut app, 120, 24)[4].starts_with("a\\u{1b}"));
}

#[test]
fn nothing_held_is_said() {
    let mut app = app(Vec::new());
    let lines = screen(&mut app, 80, 24);
    assert_eq!(lines[5], "nothing is held");
    for keys in ["r", "\r", "jkj", "s", "r"] {
        assert_eq!(press(&mut app, keys), Action::None);
    }
    assert!(app.opened.is_none() && app.question.is_none());
}

#[test]
fn an_outage_is_told_and_what_was_known_stays() {
    let mut app = three();
    let mut silent = app.sample.clone();
    silent.unreachable = Some("connection \u{1b}refused".to_owned());
    app.sampled(silent, Instant::now());
    let lines = screen(&mut app, 80, 24);
    assert!(
        lines[3].starts_with("no answer for 0.0s: connection \\u{1b}refused"),
        "{lines:#?}"
    );
    assert!(lines[5].starts_with("printer"), "{lines:#?}");
    app.sampled(sample(vec![row("beta", "db3:9", 0)]), Instant::now());
    let lines = screen(&mut app, 80, 24);
    assert!(lines[3].starts_with("0 requests and 0 pages"), "{lines:#?}");
    // A sampler that is held up itself reports nothing.
    app.sampled = Instant::now() - Duration::from_secs(20);
    assert!(screen(&mut app, 80, 24)[3].starts_with("no answer for 20s"));
}

#[test]
fn the_filter_is_live_and_finds_names_and_holders() {
    let mut app = three();
    press(&mut app, "/");
    press(&mut app, "BE");
    assert_eq!(names(&mut app), ["beta"]);
    assert!(screen(&mut app, 80, 24)[23].starts_with("filter: BE_"));
    // While the filter is typed, keys are letters.
    assert_eq!(press(&mut app, "q"), Action::None);
    assert_eq!(names(&mut app), ["no"]);
    press(&mut app, "\u{8}\u{8}\u{8}office\r");
    assert_eq!(names(&mut app), ["printer"]);
    assert!(screen(&mut app, 80, 24)[23].contains("filter: office"));
    assert_eq!(press(&mut app, "\u{1b}"), Action::None);
    assert_eq!(names(&mut app), ["printer", "alpha", "beta"]);
}

#[test]
fn a_key_sorts_and_the_cursor_stays_with_its_name_when_a_sample_comes() {
    let mut app = three();
    press(&mut app, "s");
    assert_eq!(names(&mut app), ["alpha", "beta", "printer"]);
    press(&mut app, "j");
    let opened = |app: &mut App| {
        press(app, "\r");
        let name = app.opened.as_ref().map(|opened| opened.name.clone());
        press(app, "\u{1b}");
        name.unwrap()
    };
    assert_eq!(opened(&mut app), "beta");
    app.sampled(
        sample(vec![
            row("beta", "x", 3),
            row("b", "x", 3),
            row("a", "x", 3),
        ]),
        Instant::now(),
    );
    assert_eq!(names(&mut app), ["a", "b", "beta"]);
    assert_eq!(opened(&mut app), "beta");
    // The name under the cursor is gone, so the cursor keeps its position, which is now the last line.
    app.sampled(
        sample(vec![row("a", "x", 3), row("b", "x", 3)]),
        Instant::now(),
    );
    assert_eq!(opened(&mut app), "b");
    // At the top, the cursor stays there, whatever comes first.
    press(&mut app, "k");
    app.sampled(
        sample(vec![row("0", "x", 3), row("a", "x", 3)]),
        Instant::now(),
    );
    assert_eq!(opened(&mut app), "0");
    press(&mut app, "ss");
    assert_eq!(app.order.as_str(), "left");
}

#[test]
fn the_screen_follows_the_cursor_and_asks_for_what_is_on_it() {
    let rows = (0..1000)
        .map(|index| row(&format!("name{index:03}"), "x", 0))
        .collect();
    let mut app = app(rows);
    screen(&mut app, 80, 25);
    let page = app.page;
    assert_eq!(page, 19);
    let code = |app: &mut App, code| app.update(KeyEvent::new(code, KeyModifiers::NONE));
    code(&mut app, KeyCode::PageDown);
    code(&mut app, KeyCode::PageDown);
    let lines = screen(&mut app, 80, 25);
    assert!(lines[23].starts_with("name038"), "{lines:#?}");
    let wanted = app.wanted();
    assert_eq!((wanted.seen.len(), &*wanted.seen[18]), (19, "name038"));
    code(&mut app, KeyCode::End);
    assert!(screen(&mut app, 80, 25)[23].starts_with("name999"));
    // On a smaller screen it is still visible.
    assert!(screen(&mut app, 80, 10)[8].starts_with("name999"));
    code(&mut app, KeyCode::Home);
    assert!(screen(&mut app, 80, 10)[5].starts_with("name000"));
}

#[test]
fn a_name_opens_on_its_holders_and_its_queue() {
    let mut printer = row("printer", "db1:7 office", 140);
    let lock = Arc::make_mut(&mut printer.lock);
    lock.queue = (1..=100)
        .map(|place| part("claim", &format!("waiter{place}")))
        .collect();
    printer.queue_looked_ms = Some(0);
    let mut app = app(vec![printer, row("alpha", "db2:8", 0)]);
    press(&mut app, "\r");
    assert_eq!(app.wanted().opened.as_deref(), Some("printer"));
    let lines = screen(&mut app, 80, 24);
    assert!(
        lines[4].starts_with("printer: fair, held for 1m05s, token 7"),
        "{lines:#?}"
    );
    assert!(
        lines[7].starts_with("db1:7 office") && lines[7].contains("exclusive"),
        "{lines:#?}"
    );
    assert!(
        lines[9].starts_with("140 waiting, the first 100"),
        "{lines:#?}"
    );
    assert!(lines[11].starts_with("waiter1 "), "{lines:#?}");
    app.update(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
    assert!(screen(&mut app, 80, 24)[22].starts_with("waiter100 "));
    assert!(screen(&mut app, 200, 24)[22].ends_with("claim"));
    app.sampled(sample(Vec::new()), Instant::now());
    assert_eq!(
        screen(&mut app, 80, 24)[5],
        "nobody holds it and nobody waits"
    );
    press(&mut app, "\u{1b}");
    assert!(app.opened.is_none());
}

#[test]
fn a_lock_is_asked_back_after_a_question_that_says_what_that_does() {
    let mut app = three();
    assert_eq!(press(&mut app, "r"), Action::None);
    let text = screen(&mut app, 80, 24).concat();
    for part in [
        "Revoke printer?",
        "db1:7 office is asked to release it",
        "y  revoke",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(press(&mut app, "n"), Action::None);
    assert!(screen(&mut app, 80, 24)[23].contains("nothing was revoked"));
    // Any other key means no.
    assert_eq!(press(&mut app, "rqjr"), Action::None);
    assert_eq!(press(&mut app, "y"), Action::Revoke("alpha".to_owned()));
    for (told, text) in [
        (Ok(0), "alpha: nobody holds it"),
        (Ok(1), "alpha: its holder was asked to release it"),
        (Ok(3), "alpha: its 3 holders were asked to release it"),
        (Err(Failure::usage("no \u{1b}")), "no \\u{1b}"),
    ] {
        app.revoked("alpha".to_owned(), told);
        assert_eq!(screen(&mut app, 80, 24)[23], text);
    }
}

#[test]
fn who_came_after_the_question_is_not_asked_to_leave() {
    let mut app = three();
    press(&mut app, "r");
    app.sampled(sample(vec![row("printer", "another", 11)]), Instant::now());
    assert_eq!(press(&mut app, "y"), Action::None);
    assert!(screen(&mut app, 80, 24)[23].contains("its holders have changed"));
    press(&mut app, "r");
    assert_eq!(press(&mut app, "y"), Action::Revoke("printer".to_owned()));
}

#[test]
fn it_is_left_by_three_keys_and_help_by_any() {
    for (keys, expected) in [
        ("q", Action::Leave),
        ("\u{1b}", Action::Leave),
        ("?q", Action::None),
    ] {
        assert_eq!(press(&mut three(), keys), expected);
    }
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["", "/a", "r", "?", "\r"] {
        let mut app = three();
        press(&mut app, keys);
        assert_eq!(app.update(interrupt), Action::Leave);
    }
    let mut app = three();
    press(&mut app, "?");
    assert!(
        screen(&mut app, 80, 24)
            .concat()
            .contains("sort by waiters, name")
    );
}

#[test]
fn waits_are_drawn() {
    let mut app = three();
    app.sample.waits.seen = 2;
    app.sample.waits.sum_ms = 3000;
    app.sample.waits.longest_ms = vec![None, Some(500), Some(2500)];
    let line = screen(&mut app, 80, 24)[2].clone();
    assert_eq!(line, "waits: 2 seen, 1.5s on average, up to 2.5s  ▁█");
}
