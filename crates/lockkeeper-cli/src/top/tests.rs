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

/// The text on a screen of this size, when the last sample has just come.
fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let now = app.sampled;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| app.draw(frame, now)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(move |x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn whole(app: &mut App, width: u16, height: u16) -> String {
    screen(app, width, height).join("\n")
}

fn names(app: &mut App) -> Vec<String> {
    let lines = screen(app, 80, 24);
    let rows = lines[5..23].iter().filter(|line| !line.is_empty());
    rows.map(|line| line.split(' ').next().unwrap().to_owned())
        .collect()
}

#[test]
fn eighty_columns_have_every_column() {
    insta::assert_snapshot!(whole(&mut three(), 80, 10), @"
    lockkeeper top *  names 3, holders 3, waiting 15
    per second: 0.0 granted, 0.0 ended, 0.0 ran out, 0.0 revoked
    waits: none seen
    0 requests and 0 pages per second; still listing names; 0 have no answer yet
    NAME                KIND      MODE      HOLDER             AGE    LEFT   WAITERS
    printer             fair      exclusive db1:7 office       1m05s  25s    12
    alpha               fair      exclusive db2:8              1m05s  25s    3
    beta                fair      exclusive db3:9              1m05s  25s    0

    Enter queue   / filter   s sort: waiters   r revoke   ? help   q quit
    ");
}

#[test]
fn a_wide_screen_has_whole_names_and_a_narrow_one_says_that_it_cut_them() {
    let mut app = app(vec![row(&"deploy:".repeat(8), "db1:7", 1)]);
    insta::assert_snapshot!(screen(&mut app, 140, 24)[5].clone(), @"deploy:deploy:deploy:deploy:deploy:deploy:deploy… fair      exclusive db1:7                                            1m05s  25s    1");
    insta::assert_snapshot!(screen(&mut app, 80, 24)[5].clone(), @"deploy:deploy:depl… fair      exclusive db1:7              1m05s  25s    1");
}

#[test]
fn a_holder_of_another_library_is_shown_as_what_it_is() {
    let foreign = |name, kind: &str, claim: &str| {
        let mut row = row(name, "", 0);
        let lock = Arc::get_mut(&mut row.lock).unwrap();
        lock.kind = Some(kind.to_owned());
        lock.fence = None;
        lock.holders = vec![Part::new(claim.to_owned(), None, None)];
        row
    };
    let mut app = app(vec![
        foreign("java", "redisson", "2bbaa2bf-6d65-4e16-98b0-454cf99bfe9d:9"),
        foreign("theirs", "foreign", "8f1c2d3e"),
    ]);
    insta::assert_snapshot!(screen(&mut app, 120, 24)[5..7].join("\n"), @"
    java                                    redisson  exclusive 2bbaa2bf-6d65-4e16-98b0-454cf99bfe9d:9 1m05s  no end 0
    theirs                                  foreign   exclusive 8f1c2d3e                               1m05s  no end 0
    ");
    // On eighty columns the end of a long one is cut, and said to be.
    insta::assert_snapshot!(screen(&mut app, 80, 24)[5].clone(), @"java                redisson  exclusive 2bbaa2bf-6d65-4e1… 1m05s  no end 0");
}

#[test]
fn no_size_is_too_small() {
    let mut app = three();
    for keys in ["", "?", "x\r", "\u{1b}/a", "\rr"] {
        press(&mut app, keys);
        for width in [0, 1, 2, 11, 23, 24, 31, 40, 56, 64, 72, 80, 200] {
            screen(&mut app, width, 7);
        }
        for height in [0, 1, 4, 5, 6, 24] {
            screen(&mut app, 24, height);
        }
    }
}

#[test]
fn hostile_names_move_nothing() {
    let name = "a\u{1b}[2J\u{202e}b\nc東京";
    let mut app = app(vec![row(name, "db\u{7}:1", 1)]);
    press(&mut app, "r");
    insta::assert_snapshot!(whole(&mut app, 80, 16), @r"
    lockkeeper top *  names 1, holders 1, waiting 1
    per second: 0.0 granted, 0.0 ended, 0.0 ran out, 0.0 revoked
    waits:┌ Revoke? ─────────────────────────────────────────────────────────┐
    0 requ│Revoke a\u{1b}[2J\u{202e}b\nc東 京 ?                                │et
    NAME  │                                                                  │AITERS
    a\u{1b│db\u{7}:1 is asked to release it: the holder's work is stopped,   │
          │and the lock becomes free, at the latest when its lease ends.     │
          │                                                                  │
          │y  revoke      n  cancel                                          │
          │                                                                  │
          │                                                                  │
          │                                                                  │
          └──────────────────────────────────────────────────────────────────┘


    Enter queue   / filter   s sort: waiters   r revoke   ? help   q quit
    ");
    press(&mut app, "n\r");
    insta::assert_snapshot!(screen(&mut app, 80, 24)[4].clone(), @r"a\u{1b}[2J\u{202e}b\nc東 京 : fair, held for 1m05s, token 7");
}

#[test]
fn nothing_held_is_said() {
    let mut app = app(Vec::new());
    assert_eq!(screen(&mut app, 80, 24)[5], "nothing is held");
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
    insta::assert_snapshot!(screen(&mut app, 80, 24)[3..6].join("\n"), @r"
    no answer for 0.0s: connection \u{1b}refused
    NAME                KIND      MODE      HOLDER             AGE    LEFT   WAITERS
    printer             fair      exclusive db1:7 office       1m05s  25s    12
    ");
    app.sampled(sample(vec![row("beta", "db3:9", 0)]), Instant::now());
    insta::assert_snapshot!(screen(&mut app, 80, 24)[3].clone(), @"0 requests and 0 pages per second; still listing names; 0 have no answer yet");
    // A sampler that is held up itself reports nothing.
    let later = app.sampled + Duration::from_secs(20);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| app.draw(frame, later)).unwrap();
    assert!(terminal.backend().to_string().contains("no answer for 20s"));
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
    let renew = |app: &mut App, names: &[&str]| {
        let rows = names.iter().map(|name| row(name, "x", 3)).collect();
        app.sampled(sample(rows), Instant::now());
    };
    renew(&mut app, &["beta", "b", "a"]);
    assert_eq!(names(&mut app), ["a", "b", "beta"]);
    assert_eq!(opened(&mut app), "beta");
    // The name under the cursor is gone, so the cursor keeps its position, which is now the last line.
    renew(&mut app, &["a", "b"]);
    assert_eq!(opened(&mut app), "b");
    // At the top, the cursor stays there, whatever comes first.
    press(&mut app, "k");
    renew(&mut app, &["0", "a"]);
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
    insta::assert_snapshot!(whole(&mut app, 80, 14), @"
    lockkeeper top *  names 2, holders 2, waiting 140
    per second: 0.0 granted, 0.0 ended, 0.0 ran out, 0.0 revoked
    waits: none seen
    0 requests and 0 pages per second; still listing names; 0 have no answer yet
    printer: fair, held for 1m05s, token 7

    HOLDER                                     MODE       STATE     LEFT    SEEN
    db1:7 office                               exclusive  held      25s     1.0s

    140 waiting, the first 100, as of 0.0s ago
    WAITER                                     PLACE
    waiter1                                    1
    waiter2                                    2
    Esc back   arrows scroll   r revoke   ? help   q quit
    ");
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
    insta::assert_snapshot!(whole(&mut app, 80, 16), @"
    lockkeeper top *  names 3, holders 3, waiting 15
    per second: 0.0 granted, 0.0 ended, 0.0 ran out, 0.0 revoked
    waits:┌ Revoke? ─────────────────────────────────────────────────────────┐
    0 requ│Revoke printer?                                                   │et
    NAME  │                                                                  │AITERS
    printe│db1:7 office is asked to release it: the holder's work is stopped,│2
    alpha │and the lock becomes free, at the latest when its lease ends.     │
    beta  │                                                                  │
          │y  revoke      n  cancel                                          │
          │                                                                  │
          │                                                                  │
          │                                                                  │
          └──────────────────────────────────────────────────────────────────┘


    Enter queue   / filter   s sort: waiters   r revoke   ? help   q quit
    ");
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
    insta::assert_snapshot!(whole(&mut app, 80, 20), @r#"
    lockkee┌ Keys ──────────────────────────────────────────────────────────┐
    per sec│arrows, j, k, PageUp, PageDown, Home, End   move                │
    waits: │Enter   show the holders and the queue of a name; Esc goes back │
    0 reque│/       filter by a part of a name or of a holder, as you type; │yet
    NAME   │        Enter keeps the filter, Esc clears it                   │WAITERS
    printer│s       sort by waiters, name, age or time left                 │12
    alpha  │r       ask the holder of a name to release it, after a question│3
    beta   │q       quit; Esc and Ctrl-C do the same                        │0
           │                                                                │
           │Events between two looks are missed, so grants and waits are    │
           │lower bounds. Grey lines are older than three intervals. A      │
           │lease "ran out" if its renewal was late at the last look, and   │
           │it was gone after its end.                                      │
           │                                                                │
           │                                                                │
           │                                                                │
           │                                                                │
           │                                                                │
           │                                                                │
    Enter q└────────────────────────────────────────────────────────────────┘
    "#);
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
