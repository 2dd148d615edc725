//! Holds the three descriptions of each script against each other: its header, its entry in `lib.rs`, its body. That
//! the callers send as many keys and arguments as described is checked where calls are built.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

/// The file of a script without its fragments.
fn file(script: &Script) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{}.lua", script.name));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Contract lines of one sort, without the comment mark: `contract(text, "KEYS")` gives `KEYS[1] main …`.
fn contract<'a>(text: &'a str, sort: &str) -> Vec<&'a str> {
    text.lines()
        .take_while(|line| line.starts_with("--"))
        .filter_map(|line| line.strip_prefix("-- "))
        .filter(|line| line.starts_with(sort))
        .collect()
}

/// The code alone: no comment lines.
fn body(text: &str) -> String {
    text.lines()
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Every index by which an array is read in the code, written as headers write it.
fn used(code: &str, array: &str) -> BTreeSet<String> {
    code.split(&format!("{array}["))
        .skip(1)
        .filter_map(|rest| rest.split(']').next())
        .map(|index| index.replace(" * ", "").replace(' ', ""))
        .collect()
}

/// Every upper-case word between quotes that is a status, or begins with one as a part of a line.
fn statuses(code: &str) -> BTreeSet<&str> {
    code.split('\'')
        .skip(1)
        .step_by(2)
        .filter_map(|text| text.split_whitespace().next())
        .filter(|word| Status::parse(word).is_some())
        .collect()
}

/// The fragments that choose a status for the scripts which call them so.
const ANSWERING: [(&str, &str); 3] = [
    ("return stand(", include_str!("shared/stand.lua")),
    ("and beat(", include_str!("shared/heartbeat.lua")),
    ("= refusal(", include_str!("shared/several.lua")),
];

/// Texts that run as a part of a script, before its own or behind it: a fragment that is its beginning, the script that it stands before.
const PARTS: [(&str, &str); 7] = [
    ("lock/take", include_str!("shared/take.lua")),
    ("lock/acquire", include_str!("shared/take_free.lua")),
    ("once/acquire", include_str!("shared/take_free.lua")),
    ("lock/convert", include_str!("shared/take_over.lua")),
    ("once/acquire", include_str!("lock/acquire.lua")),
    (
        "redisson/fair/acquire",
        include_str!("redisson/acquire.lua"),
    ),
    (
        "redisson/fair/release",
        include_str!("redisson/release.lua"),
    ),
];

fn lua_files(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(lua_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            files.push((
                path.display().to_string(),
                fs::read_to_string(&path).unwrap(),
            ));
        }
    }
    files
}

/// How a header counts the keys and arguments of a script; how a batch counts those of its item `i`; and, if not every item has keys, the
/// keys of its name `n`.
fn place(script: &Script, sort: &str, n: usize) -> String {
    let per_item = if sort == "KEYS" {
        script.keys.len()
    } else {
        script.args.len() - 1
    };
    // Of the last key and the last argument of all items before: the request stands in front of the arguments.
    let (before, nth) = match (script.batch, sort, n) {
        (false, _, _) | (true, "ARGV", 0) => return (n + 1).to_string(),
        (true, "KEYS", _) => (0, n + 1),
        (true, _, _) => (1, n),
    };
    let letter = match sort {
        "KEYS" if !script.once.is_empty() => "n",
        _ => "i",
    };
    let items = match per_item {
        1 => letter.to_owned(),
        _ => format!("{per_item}{letter}"),
    };
    match (before + nth).cmp(&per_item) {
        Ordering::Less => format!("{items}-{}", per_item - before - nth),
        Ordering::Equal => items,
        Ordering::Greater => format!("{items}+{}", before + nth - per_item),
    }
}

#[test]
fn every_header_says_what_the_description_says() {
    for script in ALL {
        let text = file(script);
        for (sort, described) in [("KEYS", script.keys), ("ARGV", script.args)] {
            let promised = contract(&text, sort);
            let expected: Vec<String> = described
                .iter()
                .enumerate()
                .map(|(n, what)| format!("{sort}[{}] {what}", place(script, sort, n)))
                .collect();
            let actual: Vec<String> = promised
                .iter()
                .map(|line| {
                    line.split_whitespace()
                        .take(2)
                        .collect::<Vec<_>>()
                        .join(" ")
                })
                .collect();
            assert_eq!(actual, expected, "{}", script.name);
        }
        let once: Vec<&str> = contract(&text, "ARGV")
            .iter()
            .filter_map(|line| line.split_once(" *")?.0.split_whitespace().nth(1))
            .collect();
        assert_eq!(once, script.once, "{}: marked with *", script.name);
        let answers = if script.batch { "ITEM" } else { "REPLY" };
        if script.batch {
            assert_eq!(contract(&text, "REPLY DONE").len(), 1, "{}", script.name);
        }
        let promised: Vec<&str> = contract(&text, answers)
            .iter()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        let described: Vec<&str> = script
            .replies
            .iter()
            .map(|status| status.as_str())
            .collect();
        assert_eq!(promised, described, "{}", script.name);
        assert_eq!(
            contract(&text, "PUBLISH").len(),
            1,
            "{} must say what it publishes",
            script.name
        );
        assert!(
            text.starts_with(&format!("-- {}: ", script.name)),
            "{} must open with its name",
            script.name
        );
    }
}

#[test]
fn every_body_uses_what_its_header_promises_and_nothing_else() {
    for script in ALL {
        let text = file(script);
        let mut code = body(&text);
        for (of, part) in PARTS {
            if of == script.name {
                code += &body(part);
            }
        }
        for (sort, described) in [("KEYS", script.keys), ("ARGV", script.args)] {
            let places: BTreeSet<String> = (0..described.len())
                .map(|n| place(script, sort, n))
                .collect();
            assert_eq!(used(&code, sort), places, "{}: {sort}", script.name);
        }
        let described: BTreeSet<&str> = script
            .replies
            .iter()
            .map(|status| status.as_str())
            .collect();
        let mut answered = statuses(&code);
        for (call, fragment) in ANSWERING {
            if code.contains(call) {
                answered.extend(statuses(fragment));
            }
        }
        assert_eq!(
            answered.remove("DONE"),
            script.batch,
            "{}: only a batch is DONE",
            script.name
        );
        assert_eq!(answered, described, "{}: statuses", script.name);
        assert_eq!(
            script.args[0], "request",
            "{}: the request number comes first",
            script.name
        );
        let has_claim = script.args.contains(&"claim");
        assert!(
            !has_claim || script.args[1] == "claim",
            "{}: the claim comes second",
            script.name
        );
        // Besides replies a script may return an error of the server as it is.
        let returns = code.matches("return ").count() - code.matches("return fault").count();
        let echoes = [
            "return { ARGV[1], ",
            "return ARGV[1] .. ' ",
            "return stand(name, share, claim, ARGV[1], ",
        ]
        .map(|echo| code.matches(echo).count());
        if script.batch {
            assert!(
                returns == 1 && code.trim_start().contains("= { ARGV[1], 'DONE' }"),
                "{}: a batch returns one reply, with its echo",
                script.name
            );
        } else {
            let echoed: usize = echoes.iter().sum();
            assert_eq!(returns, echoed, "{}: a reply without echo", script.name);
        }
        let publishes = text.contains("-- PUBLISH channel");
        let telling =
            "wake(channel wake(ARGV tell_waiters( leave_alone( settle( advance( tell_client(";
        assert_eq!(
            telling.split(' ').any(|telling| code.contains(telling)),
            publishes,
            "{}: PUBLISH",
            script.name
        );
    }
}

#[test]
fn every_script_file_is_described() {
    let described: BTreeSet<String> = ALL
        .iter()
        .map(|script| format!("{}.lua", script.name))
        .collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, _) in lua_files(root) {
        let relative = Path::new(&path)
            .strip_prefix(root)
            .unwrap()
            .display()
            .to_string();
        if !relative.starts_with("shared/") && !relative.starts_with("sharded/") {
            assert!(described.contains(&relative), "{relative} is not in ALL");
        }
    }
}

/// The numbers of a script cross 2^53 / 1000 and Lua 5.1 prints 14 digits: only `%.0f` may make text of them.
#[test]
fn numbers_become_text_by_format_alone() {
    for (path, text) in lua_files(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        for (number, line) in text.lines().enumerate() {
            let code = line.split("--").next().unwrap_or_default();
            let place = || format!("{path}:{}: {line}", number + 1);
            // Where speed counts, what is text already: arguments, a token, a value.
            let texts = |text: &str| text.starts_with("ARGV[") || text.ends_with('\'');
            let names = [
                "token",
                "value",
                "claim",
                "share",
                "flag",
                "member",
                "client",
                "request",
                "name.channel",
            ];
            // What stands on both sides of each join.
            let parts: Vec<&str> = code.split(" .. ").collect();
            let left = parts
                .iter()
                .rev()
                .skip(1)
                .map(|part| part.split_whitespace().last());
            let right = parts
                .iter()
                .skip(1)
                .map(|part| part.split_whitespace().next());
            let mut joined = left.chain(right).map(|word| {
                let word = word.unwrap_or_default().rsplit('(').next();
                word.unwrap_or_default().trim_end_matches([')', ','])
            });
            let is_text = |text: &str| texts(text) || names.contains(&text);
            assert!(
                joined.all(is_text),
                "joins what may be a number: {}",
                place()
            );
            let without_joins = code.replace("...", "").replace(" .. ", " ");
            assert!(!without_joins.contains(".."), "joins: {}", place());
            assert!(!code.contains("tostring"), "uses tostring: {}", place());
            for format in code.split("string.format(").skip(1) {
                // Numbers; and what is text: a claim, client, token, request or channel.
                let forms = [
                    "'%.0f'",
                    "'%.0f/%.0f', left, n)",
                    "'%02x', string.byte(byte))",
                    "'hex:%s', (string.gsub(claim,",
                    "'%.0f %s', count, token)",
                    "'%.0f %.0f %.0f', name.",
                    "'lockkeeper.client:%s', client)",
                    "'revoked %s', claim)",
                    "'gone %s', entry[1])",
                    "'gone %s', claim)",
                    "'%.0f:%.0f:%.0f'",
                    "'%.0f:%.0f:%s', ends, name.waiter_ttl, request)",
                    "'%s:%s', channel, owner)",
                    "'%s:%s', ARGV[3], waiter)",
                    "'L %s', ARGV[3])",
                    "'%s:write', owner)",
                    "'%s:rwlock_timeout:1', owner)",
                    "'%s%s:rwlock_timeout:%.0f', prefix",
                    "'%s %s', part, token)",
                    "'%s r', hold)",
                    "'%s%s%08x', digits",
                ];
                assert!(
                    forms.iter().any(|form| format.starts_with(form)),
                    "formats otherwise: {}",
                    place()
                );
            }
        }
    }
}

#[test]
fn scripts_stay_small_and_use_no_library_that_servers_differ_in() {
    for (path, text) in lua_files(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        assert!(text.lines().count() <= 80, "{path} is over 80 lines");
        let code = body(&text);
        for library in [
            "cjson",
            "cmsgpack",
            "struct.",
            "bit.",
            "os.",
            "math.random",
            "redis.replicate",
            "MOVED",
            "ASK",
        ] {
            assert!(!code.contains(library), "{path} uses {library}");
        }
        assert!(
            !code.contains("redis.call('PUBLISH'") && !code.contains("redis.call('SPUBLISH'"),
            "{path}: PUBLISH must go through pcall"
        );
        assert!(
            code.matches("redis.call('TIME')").count() <= 1,
            "{path} reads the time twice"
        );
        for line in code.lines() {
            let opens = line.starts_with(|first: char| first.is_ascii_lowercase());
            let allowed = [
                "local ",
                "if ",
                "end",
                "return ",
                "redis.",
                "arm(",
                "arm_share(",
                "for ",
                "else",
                "advance(",
                "settle(",
                "keep_token(",
                "write_latch(",
                "write_value(",
                "name.",
                "need(",
                "wake(",
                "arm_permits(",
            ];
            assert!(
                !opens || allowed.iter().any(|start| line.starts_with(start)),
                "{path} may set a global: {line}"
            );
        }
    }
}

/// `shared/take` comes before the constants of `shared/token`, and has them as numbers.
#[test]
fn the_numbers_of_a_take_are_those_of_the_counter() {
    let (take, token) = (
        include_str!("shared/take.lua"),
        include_str!("shared/token.lua"),
    );
    let constant = |name: &str| -> u64 {
        let (_, value) = token.split_once(&format!("local {name} = ")).unwrap();
        let digits = value.lines().next().unwrap().trim_matches('\'');
        digits.parse().unwrap()
    };
    let memory = constant("COUNTER_MEMORY");
    for text in [
        format!("> {} and", memory - constant("RAISED")),
        format!("< {} then", constant("LARGEST_TOKEN")),
        format!("'PX', '{memory}', 'GET')"),
    ] {
        assert_eq!(take.matches(&text).count(), 1, "{text}");
    }
}

#[test]
fn the_lock_file_pins_every_script() {
    let line = |folder, script: &Script, text| {
        let sha1 = sha1_smol::Sha1::from(text).digest();
        format!("{folder}{} {sha1}\n", script.name)
    };
    let mut expected = String::new();
    for script in ALL {
        expected += &line("", script, script.source);
        if script.sharded_source != script.source {
            expected += &line("sharded/", script, script.sharded_source);
        }
    }
    let pinned = include_str!("scripts.lock");
    assert_eq!(
        pinned, expected,
        "a script changed: say so in CHANGELOG under \"Scripts and keys\", then run `cargo xtask lock-scripts`"
    );
}

#[test]
fn the_sharded_texts_differ_in_the_words_for_messages_of_names_and_in_nothing_else() {
    for script in ALL {
        let classic = script
            .sharded_source
            .replace("'SPUBLISH'", "'PUBLISH'")
            .replace("'SSUBSCRIBE'", "'SUBSCRIBE'")
            .replace("'SHARDNUMSUB'", "'NUMSUB'");
        assert_eq!(classic, script.source, "{}", script.name);
        for word in ["'SPUBLISH'", "'SSUBSCRIBE'", "'SHARDNUMSUB'"] {
            assert!(!script.source.contains(word), "{}: {word}", script.name);
        }
        // What is left of the classic words is for the channels of clients, which lie in no name's slot.
        let left: Vec<&str> = script
            .sharded_source
            .lines()
            .filter(|line| line.contains("'PUBLISH'") || line.contains("'NUMSUB'"))
            .collect();
        let of_clients = "string.format('lockkeeper.client:%s', client)";
        assert!(
            left.iter().all(|line| line.contains(of_clients)),
            "{}: {left:?}",
            script.name
        );
        let same = script.sharded_source == script.source;
        assert_eq!(script.sharded_sha1 == script.sha1, same, "{}", script.name);
        let code = body(script.source);
        let of_names = ["local function wake(", "'NUMSUB'", "local SEND, HEAR"];
        let of_names = of_names.iter().any(|words| code.contains(words));
        assert_eq!(of_names, !same, "{}", script.name);
    }
}

#[test]
fn the_readme_lists_every_status() {
    let readme = include_str!("README.md");
    let listed: Vec<&str> = readme
        .lines()
        .skip_while(|line| *line != "## Statuses")
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let all: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    assert_eq!(listed, all);
}

/// With ten thousand holders under a name each of these would run for milliseconds. What an operator calls by hand may be slow.
#[test]
fn only_what_is_called_by_hand_reads_all_holders() {
    let by_hand = [
        "name/",
        "server/",
        "client/",
        "redisson/rwlock/inspect",
        "redisson/rwlock/revoke",
        "redisson/rwlock/free",
    ];
    let reads_all = ["'HGETALL'", "'+inf'", ", 0, -1)"];
    for script in ALL {
        // Of a few holders all may be read.
        let bounded = "redis.call('HLEN', main) <= 256 and redis.call('HGETALL', main)";
        let source = script.source.replace(bounded, "");
        let reads = reads_all.iter().find(|read| source.contains(*read));
        assert!(
            reads.is_none() || by_hand.iter().any(|it| script.name.starts_with(it)),
            "{}: {reads:?}",
            script.name
        );
    }
}
